//! JSON to a tree, in one pass over the text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::value::{Content, SeenKeys, Value};
use crate::Error;

pub(super) fn read(text: &str) -> Result<Value<'_>, Error> {
    serde_json::from_str(text).map_err(|error| Error::invalid(format!("jobspec: {error}")))
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

/// serde_json bounds how deep it follows brackets.
struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(of(Content::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(of(Content::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(of(Content::Unsigned(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        #[expect(clippy::cast_precision_loss, reason = "negative: only its sign matters")]
        Ok(of(Content::Float(value as f64)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value<'de>, E> {
        Ok(of(Content::Float(value)))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Value<'de>, E> {
        Ok(of(Content::Text { text: Cow::Borrowed(value), quoted: true }))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value<'de>, E> {
        Ok(of(Content::Text { text: Cow::Owned(value.to_owned()), quoted: true }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(of(Content::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value<'de>, A::Error> {
        let (mut map, mut keys) = (Vec::new(), SeenKeys::default());
        while let Some(Name(key)) = fields.next_key()? {
            if !keys.add(&key, &map) {
                return Err(A::Error::custom(format_args!("{key:?} is there twice")));
            }
            map.push((key, fields.next_value()?));
        }
        Ok(of(Content::Map(map)))
    }
}

fn of(content: Content<'_>) -> Value<'_> {
    Value { line: 0, content }
}

/// The name of a member of an object, borrowed where it has no escapes.
#[derive(Deserialize)]
pub(crate) struct Name<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_borrowed_where_they_have_no_escapes() {
        for (text, name, is_borrowed) in
            [(r#""cpu""#, "cpu", true), (r#""""#, "", true), (r#""c\u0070\"u""#, "cp\"u", false)]
        {
            let Name(read) = serde_json::from_str(text).unwrap();
            assert_eq!((&*read, matches!(read, Cow::Borrowed(_))), (name, is_borrowed));
        }
        for text in ["1", "null", "[]"] {
            assert!(serde_json::from_str::<Name<'_>>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_with_escapes_is_the_same_as_one_without() {
        let error = read(r#"{"cpu": 1, "c\u0070u": 2}"#).unwrap_err();
        assert!(error.text.contains("\"cpu\" is there twice"), "{error}");
    }
}
