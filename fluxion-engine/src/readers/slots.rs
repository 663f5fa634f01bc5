//! Slots in documents: the words for their units and their ends.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Error;
use crate::limits::R_BYTES_MAX;
use crate::time::End;
use crate::tree::{Name, without_mark};

/// Slots of one shape, as R has them in `attributes.system.fluxion.slots`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlotsText<'a> {
    #[serde(borrow)]
    pub(crate) label: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) with: UnitsByType<'a>,
    pub(crate) end: EndText,
    pub(crate) tenant: Option<u64>,
    #[serde(default)]
    pub(crate) guest: bool,
    #[serde(borrow)]
    pub(crate) on: Vec<PlacesText<'a>>,
}

/// Ranks with as many slots each.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlacesText<'a> {
    #[serde(borrow)]
    pub(crate) ranks: Cow<'a, str>,
    pub(crate) per_rank: u64,
}

/// An R, of which only the attributes are read.
#[derive(Deserialize)]
struct ResourceSet<'a> {
    #[serde(borrow)]
    attributes: Option<Attributes<'a>>,
}

#[derive(Deserialize)]
struct Attributes<'a> {
    #[serde(borrow)]
    system: Option<System<'a>>,
}

#[derive(Deserialize)]
struct System<'a> {
    #[serde(borrow)]
    fluxion: Option<Own<'a>>,
}

#[derive(Deserialize)]
struct Own<'a> {
    #[serde(borrow)]
    slots: Option<Vec<SlotsText<'a>>>,
}

/// The slots of an R; none, if it has none.
pub(crate) fn read(text: &str) -> Result<Vec<SlotsText<'_>>, Error> {
    R_BYTES_MAX.check(text.len(), "R")?;
    let resource_set: ResourceSet<'_> = serde_json::from_str(without_mark(text))
        .map_err(|error| Error::invalid(format!("R: attributes.system.fluxion: {error}")))?;
    let system = resource_set.attributes.and_then(|attributes| attributes.system);
    Ok(system.and_then(|system| system.fluxion).and_then(|own| own.slots).unwrap_or_default())
}

/// Units by type, in the order of the types' names; of a type that is named twice the last.
pub(crate) struct UnitsByType<'a>(pub(crate) Vec<(Cow<'a, str>, u64)>);

impl<'de: 'a, 'a> Deserialize<'de> for UnitsByType<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amounts;

        impl<'de> Visitor<'de> for Amounts {
            type Value = UnitsByType<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("units by type")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut amounts: Vec<(Cow<'de, str>, u64)> = Vec::new();
                while let Some((Name(kind), amount)) = map.next_entry()? {
                    amounts.push((kind, amount));
                }
                // Of equal ones the last comes first, and stays.
                amounts.reverse();
                amounts.sort_by(|(one, _), (other, _)| one.cmp(other));
                amounts.dedup_by(|(one, _), (other, _)| one == other);
                Ok(UnitsByType(amounts))
            }
        }

        deserializer.deserialize_map(Amounts)
    }
}

/// When slots are given back: a second, "eventually" or "never".
pub(crate) struct EndText(pub(crate) End);

impl<'de> Deserialize<'de> for EndText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ends;

        impl Visitor<'_> for Ends {
            type Value = EndText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#"a second, "eventually" or "never""#)
            }

            fn visit_i64<E: de::Error>(self, second: i64) -> Result<EndText, E> {
                Ok(EndText(End::At(second)))
            }

            fn visit_u64<E: de::Error>(self, second: u64) -> Result<EndText, E> {
                let second = i64::try_from(second)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(second), &self))?;
                Ok(EndText(End::At(second)))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<EndText, E> {
                match word {
                    "eventually" => Ok(EndText(End::Eventually)),
                    "never" => Ok(EndText(End::Never)),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }
        }

        deserializer.deserialize_any(Ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_type_that_is_named_twice_the_last_amount_counts() {
        let read = |text: &str| {
            let UnitsByType(units) = serde_json::from_str(text).unwrap();
            units.into_iter().map(|(kind, units)| (kind.into_owned(), units)).collect::<Vec<_>>()
        };
        let units = read(r#"{"cpu":1,"mem":2,"cpu":3,"a":4,"c\u0070u":5}"#);
        assert_eq!(units, [("a".to_owned(), 4), ("cpu".to_owned(), 5), ("mem".to_owned(), 2)]);
        // Compared pair by pair these would take an hour.
        let many: Vec<String> = (0..1_000_000).map(|at| format!(r#""t{at}":1"#)).collect();
        assert_eq!(read(&format!("{{{}}}", many.join(","))).len(), 1_000_000);
    }
}
