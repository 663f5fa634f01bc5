//! Objects as JSON, YAML or names.

use anyhow::Context as _;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::Format;
use crate::console::{is_harmless, plain_json};

/// Returns objects in a form for programs; a single one by itself, several in a List.
pub(crate) fn objects(
    objects: &[&RawValue],
    is_list: bool,
    format: Format,
) -> anyhow::Result<String> {
    let values = objects.iter().map(|raw| serde_json::from_str(raw.get()));
    let mut values: Vec<Value> = values.collect::<Result<_, _>>()?;
    for value in &mut values {
        // kubectl leaves them out too.
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    match format {
        Format::Name => Ok(values.iter().map(|value| name(value) + "\n").collect()),
        Format::Json | Format::Yaml | Format::Wide => {
            let value = if is_list {
                serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": values })
            } else {
                values.into_iter().next().context("nothing to show")?
            };
            if format == Format::Yaml { yaml(&value) } else { json(&value) }
        }
    }
}

/// Returns a value as indented JSON.
pub(crate) fn json(value: &Value) -> anyhow::Result<String> {
    Ok(plain_json(&serde_json::to_string_pretty(value)?) + "\n")
}

/// Returns a value as YAML. A value with characters that a terminal would obey is written as JSON,
/// which is YAML too, and can escape them.
pub(crate) fn yaml(value: &Value) -> anyhow::Result<String> {
    if serde_json::to_string(value)?.chars().any(|c| !is_harmless(c)) || !is_plain(value) {
        return json(value);
    }
    let text = serde_saphyr::to_string(value)?;
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

/// True if no text in the value has control characters but line feeds and tabs.
fn is_plain(value: &Value) -> bool {
    let plain = |text: &str| text.chars().all(|c| matches!(c, '\n' | '\t') || is_harmless(c));
    match value {
        Value::String(text) => plain(text),
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(members) => members.iter().all(|(key, value)| plain(key) && is_plain(value)),
        _ => true,
    }
}

/// Returns the name of an object as `kubectl get -o name` prints it.
pub(crate) fn name(value: &Value) -> String {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind").to_ascii_lowercase();
    let group = text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    let name = [text("/metadata/name"), text("/metadata/generateName")];
    let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    fluxqueue_api::text::message(&format!("{kind}{dot}{group}/{name}")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_of_a_hostile_object_is_json_that_says_the_same() {
        let script = json!({ "a": "#!/bin/sh\n\techo\n", "größer": [1, null] });
        let text = yaml(&script).unwrap();
        assert!(text.contains("größer") && !text.starts_with('{'), "{text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), script);
        for hostile in ["\u{1b}[2J", "\u{9b}2J", "\u{202e}", "\t\r"] {
            let value = json!({ "a": hostile });
            let text = yaml(&value).unwrap();
            assert!(text.chars().all(|c| c == '\n' || is_harmless(c)), "{text:?}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn the_managers_of_fields_are_left_out_as_kubectl_does() {
        let raw = r#"{"metadata": {"name": "a", "managedFields": [{"manager": "b"}]}}"#;
        let raw = serde_json::from_str::<&RawValue>(raw).unwrap();
        let shown = objects(&[raw], false, Format::Json).unwrap();
        assert!(shown.contains(r#""name": "a""#) && !shown.contains("managedFields"), "{shown}");
    }

    #[test]
    fn names_are_those_of_kubectl() {
        let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "a" } });
        assert_eq!(name(&job), "job.batch/a");
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "b\n" } });
        assert_eq!(name(&pod), "pod/b\\n");
    }
}
