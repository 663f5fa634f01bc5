//! Manifests: texts with objects, as `kubectl apply -f` takes them.

use serde_json::Value;

/// Reads the documents of a text, YAML or JSON; a List stands for its items. The error is that of
/// the parser.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let read: Vec<Value> = if text.trim_start().starts_with('{') {
        let values = serde_json::Deserializer::from_str(text).into_iter();
        values.collect::<Result<_, _>>().map_err(|error: serde_json::Error| error.to_string())?
    } else {
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?
    };
    let mut documents = Vec::new();
    for mut value in read {
        if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
            documents.append(items);
        } else if !value.is_null() {
            documents.push(value);
        }
    }
    Ok(documents)
}
