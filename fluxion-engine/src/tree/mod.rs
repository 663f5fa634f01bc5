//! What jobspecs and constraints are written in, read: JSON or YAML as the same small tree.
//!
//! JSON goes through serde_json and borrows its strings from the text; YAML through the events of a
//! YAML parser. Both keep the order of keys and notice keys that stand twice. A scalar keeps how it
//! was written, since YAML's types are a matter of the reader: `"4"` and `4` are the same number,
//! but only the first is a string.

mod json;
mod value;
mod yaml;

pub(crate) use json::Name;
pub(crate) use value::{Value, wrong};

use crate::Error;
use crate::limits::JOBSPEC_BYTES_MAX;
use yaml::YamlError;

/// A text without the mark of its byte order in front, which editors write and which says nothing
/// of UTF-8.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

impl<'a> Value<'a> {
    /// Reads a document: JSON if it looks like it, and is; else YAML, of which JSON is a part.
    pub(crate) fn read(text: &'a str) -> Result<Self, Error> {
        JOBSPEC_BYTES_MAX.check(text.len(), "jobspec")?;
        let text = without_mark(text);
        if text.trim_start().starts_with(['{', '[']) {
            match json::read(text) {
                Ok(value) => return Ok(value),
                // A mapping in YAML's braces, perhaps. If it is no YAML either, the first text
                // tells more, unless the second one tells a limit.
                Err(json) => {
                    return yaml::read(text).map_err(|error| match error {
                        YamlError::Limit(yaml) => yaml,
                        YamlError::Text(_) => json,
                    });
                }
            }
        }
        Ok(yaml::read(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_the_byte_order_is_passed_over_and_size_is_limited() {
        for text in ["\u{feff}{\"a\": 1}", "\u{feff}a: 1\n", "\u{feff}{a: 1}"] {
            let value = Value::read(text).unwrap();
            let [(key, value)] = value.map().unwrap() else { panic!("{value:?}") };
            assert_eq!((&**key, value.text().as_deref()), ("a", Some("1")));
        }
        let error = Value::read(&" ".repeat(JOBSPEC_BYTES_MAX.max + 1)).unwrap_err();
        assert!(
            error.text.contains("more than 16777216 bytes of a jobspec (JOBSPEC_BYTES_MAX)"),
            "{error}"
        );
    }

    #[test]
    fn a_mapping_may_have_many_keys_each_once() {
        // As many as fit the limits: compared pair by pair they would take an hour.
        let pairs = |from: usize, to: usize| {
            (from..to).map(|at| format!("\"{at}\":0")).collect::<Vec<_>>().join(",")
        };
        let many = format!("{{{}}}", pairs(0, 1_000_000));
        assert_eq!(Value::read(&many).unwrap().map().unwrap().len(), 1_000_000);
        let many = (0..400_000).fold(String::new(), |all, at| all + &format!("k{at}: 0\n"));
        assert_eq!(Value::read(&many).unwrap().map().unwrap().len(), 400_000);
        for (last, again) in [(15, 0), (16, 0), (17, 16), (40, 3), (40, 30)] {
            let twice = format!("{{{},{}}}", pairs(0, last), pairs(again, again + 1));
            let error = Value::read(&twice).unwrap_err();
            assert!(error.text.contains(&format!("\"{again}\" is there twice")), "{error}");
            let lines = twice.replace(['{', '}'], "").replace(',', "\n").replace(':', ": ");
            let error = Value::read(&lines).unwrap_err();
            assert!(error.text.contains(&format!("line {}: ", last + 1)), "{error}");
        }
    }

    #[test]
    fn json_and_yaml_are_the_same_tree() {
        let json = Value::read(r#"{"a": [1, "2", null, true], "b": {"c": 1.5}}"#).unwrap();
        let yaml = Value::read("a:\n- 1\n- '2'\n-\n- true\nb: {c: 1.5}\n").unwrap();
        let (a, b) =
            (json.map().unwrap()[0].1.list().unwrap(), yaml.map().unwrap()[0].1.list().unwrap());
        for (json, yaml) in a.iter().zip(b) {
            assert_eq!((json.text(), json.unsigned()), (yaml.text(), yaml.unsigned()));
        }
        assert_eq!((b[0].line, b[0].quoted(), b[1].quoted()), (2, None, Some("2")));
        assert!(b[2].is_null());
        // Braces of YAML, too.
        assert_eq!(Value::read("{a: 1}").unwrap().map().unwrap()[0].1.unsigned(), Some(1));
    }
}
