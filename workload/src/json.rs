//! The number of values in a JSON text, computed before it is decoded: a few bytes of JSON can
//! become a kilobyte of memory.

/// Returns the number of values in a JSON text, or more: containers and the elements in them. This
/// takes no memory, and accepts a text that is not JSON.
///
/// ```
/// assert_eq!(fluxqueue_workload::json::values_at_most(br#"{"a": [1, 2], "b, {": {}}"#), 6);
/// ```
pub fn values_at_most(text: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::values_at_most;

    fn values(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
            Value::Object(members) => 1 + members.values().map(values).sum::<usize>(),
            _ => 1,
        }
    }

    #[test]
    fn no_value_is_left_out() {
        let texts = [
            json!({}),
            json!([]),
            json!("a,b[{\\\",{"),
            json!({"a\\": ["\\\\", "{\"", {"b,": [[], [1, 2, null]]}], "c": {"d": {"e": -1.5}}}),
            json!(vec![json!({"": 0}); 1_000]),
        ];
        for value in texts {
            let (exact, bound) = (values(&value), values_at_most(value.to_string().as_bytes()));
            assert!((exact..=2 * exact).contains(&bound), "{value}: {exact}, {bound}");
        }
    }
}
