//! The reader of R (RFC 20): `{"version":1,"execution":{"R_lite":[...],"nodelist":[...]}}`.
//!
//! A graph is made of it ([`super::rv1exec`]), a job is taken up as it says, and given back in
//! part. All of them need the ranks; what each needs beside them are the types of [`R`], and it
//! passes over the rest, as upstream does.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::limits::R_BYTES_MAX;
use crate::time::WINDOW_SECONDS;
use crate::tree::{Name, without_mark};
use crate::{Error, lists};

/// Ascending, disjoint, both ends included.
pub(crate) type Ranges = Vec<(u32, u32)>;

/// A document. `C` are the children of an entry, `H` the hosts, `P` the properties, `S` is the
/// scheduler's own part.
#[derive(Deserialize)]
pub(crate) struct R<'a, C: Default, H: Default, P: Default, S: Default> {
    pub(crate) version: i64,
    #[serde(
        borrow,
        bound(deserialize = "C: Deserialize<'de>, H: Deserialize<'de>, P: Deserialize<'de>")
    )]
    pub(crate) execution: Execution<'a, C, H, P>,
    #[serde(default)]
    pub(crate) scheduling: S,
}

/// The resources of a job, or of a machine.
#[derive(Deserialize)]
pub(crate) struct Execution<'a, C: Default, H: Default, P: Default> {
    #[serde(borrow, rename = "R_lite", bound(deserialize = "C: Deserialize<'de>"))]
    pub(crate) r_lite: Vec<Lite<'a, C>>,
    #[serde(default)]
    pub(crate) nodelist: H,
    #[serde(default)]
    pub(crate) properties: P,
}

/// An element of R_lite: these ranks have these children.
#[derive(Deserialize)]
pub(crate) struct Lite<'a, C: Default> {
    #[serde(borrow)]
    pub(crate) rank: Cow<'a, str>,
    #[serde(default)]
    pub(crate) children: C,
}

/// A member that may be missing; one that is there is not null.
#[derive(Default)]
pub(crate) enum Member<T> {
    #[default]
    Missing,
    There(T),
}

impl<T> Member<T> {
    /// The member, if it is there.
    pub(crate) fn get(&self) -> Option<&T> {
        if let Member::There(member) = self { Some(member) } else { None }
    }
}

impl<T: Default> Member<T> {
    /// The member, or an empty one.
    pub(super) fn into_inner(self) -> T {
        if let Member::There(member) = self { member } else { T::default() }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Member<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Member::There)
    }
}

/// Parts of a host list.
pub(crate) type Hosts<'a> = Member<Vec<Cow<'a, str>>>;

/// Type and ids of vertices.
pub(crate) type Children<'a> = Member<Ordered<'a>>;

/// The resources: everything but the scheduler's own part.
pub(crate) type Resources<'a> = R<'a, Children<'a>, Hosts<'a>, Member<Ordered<'a>>, IgnoredAny>;

/// The ranks, and the scheduler's own part.
pub(crate) type RanksOnly<'a> = R<'a, IgnoredAny, IgnoredAny, IgnoredAny, Option<&'a RawValue>>;

/// An object of strings with an order that counts.
#[derive(Default)]
pub(crate) struct Ordered<'a>(pub(crate) Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Ordered<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(Cow<'de, str>, Cow<'de, str>)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Pairs).map(Ordered)
    }
}

/// Reads a document in one of its forms. Errors begin with `what`.
pub(crate) fn read<'a, C, H, P, S>(text: &'a str, what: &str) -> Result<R<'a, C, H, P, S>, Error>
where
    C: Default + Deserialize<'a>,
    H: Default + Deserialize<'a>,
    P: Default + Deserialize<'a>,
    S: Default + Deserialize<'a>,
{
    R_BYTES_MAX.check(text.len(), "R")?;
    serde_json::from_str(without_mark(text))
        .map_err(|error| Error::invalid(format!("{what}: {error}")))
}

impl<C: Default, H: Default, P: Default, S: Default> R<'_, C, H, P, S> {
    /// Fails if this is another version than 1.
    pub(crate) fn check_version(&self, what: &str) -> Result<(), Error> {
        if self.version == 1 {
            return Ok(());
        }
        Err(Error::invalid(format!("{what}: version: {}, not 1", self.version)))
    }

    /// The ranks of each entry.
    pub(crate) fn ranks(&self, what: &str) -> Result<Vec<Ranges>, Error> {
        let entries = self.execution.r_lite.iter().enumerate();
        entries
            .map(|(at, lite)| ranges(&lite.rank, &format!("{what}: execution.R_lite[{at}].rank")))
            .collect()
    }
}

/// The hosts of a document, by name, at most `most`: of more than that only the first ones.
pub(crate) fn hosts(
    nodelist: &[Cow<'_, str>],
    most: usize,
    what: &str,
) -> Result<Vec<String>, Error> {
    let (mut names, mut budget) = (Vec::new(), lists::budget());
    for part in nodelist {
        let hosts = lists::read_hostlist(part, &mut budget);
        names.extend(
            hosts
                .map_err(|error| Error::invalid(format!("{what}: execution.nodelist: {error}")))?,
        );
        if names.len() > most {
            break;
        }
    }
    Ok(names)
}

/// An idset of a document; `at` says where it stands.
pub(crate) fn ranges(text: &str, at: &str) -> Result<Ranges, Error> {
    lists::read_idset(text).map_err(|error| Error::invalid(format!("{at}: {error}")))
}

/// The times of a job, and the scheduler's own part of a document.
pub(crate) struct Head<'a> {
    /// When the job starts.
    pub(crate) at: i64,
    /// For how many seconds; all time, if it says that it ends no later than it starts.
    pub(crate) duration: i64,
    /// The scheduler's own part, as the document has it: it may be nearly all of it, and a tree of
    /// it would take a hundred times its bytes.
    pub(crate) scheduling: Option<&'a RawValue>,
}

/// The head of a document; `None`: it is JSON, and no R of version 1.
pub(crate) fn head(text: &str) -> Result<Option<Head<'_>>, Error> {
    R_BYTES_MAX.check(text.len(), "R")?;
    let wrong = |error| Error::invalid(format!("R: {error}"));
    let document: &RawValue = serde_json::from_str(without_mark(text)).map_err(wrong)?;
    let [version, execution, scheduling] =
        members(document, ["version", "execution", "scheduling"]).map_err(wrong)?;
    if version.and_then(read_as::<u64>) != Some(1) {
        return Ok(None);
    }
    let times = match execution {
        Some(execution) => members(execution, ["starttime", "expiration"]).map_err(wrong)?,
        None => [None; 2],
    };
    let [start, end] = times.map(|time| time.and_then(Time::of).unwrap_or(Time::Second(0)));
    let duration = start.seconds_until(end);
    let duration = if duration > 0 { duration } else { WINDOW_SECONDS };
    Ok(Some(Head { at: start.second(), duration, scheduling }))
}

/// The format that the scheduler's own part of a document names; nothing, if it names none. `Err`:
/// its name is no text.
pub(crate) fn writer(scheduling: &RawValue) -> Result<Option<Cow<'_, str>>, serde_json::Error> {
    let [writer] = members(scheduling, ["writer"])?;
    writer.map(|writer| serde_json::from_str(writer.get()).map(|Name(name)| name)).transpose()
}

fn read_as<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

/// The members of an object with these names, each as it is written; of a name that stands twice
/// the last. Something else than an object has none.
fn members<'a, const N: usize>(
    value: &'a RawValue,
    names: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    struct Named<const N: usize>([&'static str; N]);

    impl<'de, const N: usize> Visitor<'de> for Named<N> {
        type Value = [Option<&'de RawValue>; N];

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut found = [None; N];
            while let Some(Name(key)) = map.next_key()? {
                match self.0.iter().position(|name| *name == key) {
                    Some(at) => found[at] = Some(map.next_value()?),
                    None => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(found)
        }
    }

    if !value.get().starts_with('{') {
        return Ok([None; N]);
    }
    serde_json::Deserializer::from_str(value.get()).deserialize_map(Named(names))
}

/// A time in a document.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Time {
    /// An integer. A float has not digits enough for all of them.
    Second(i64),
    Real(f64),
}

impl Time {
    fn of(value: &RawValue) -> Option<Self> {
        read_as(value).map(Time::Second).or_else(|| read_as(value).map(Time::Real))
    }

    #[expect(clippy::cast_possible_truncation, reason = "a float is cut to what fits")]
    fn second(self) -> i64 {
        match self {
            Time::Second(second) => second,
            Time::Real(time) => time as i64,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a float is cut to what fits")]
    fn seconds_until(self, end: Self) -> i64 {
        match (self, end) {
            (Time::Second(start), Time::Second(end)) => end.saturating_sub(start),
            _ => (end.real() - self.real()) as i64,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the other time is a float")]
    fn real(self) -> f64 {
        match self {
            Time::Second(second) => second as f64,
            Time::Real(time) => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::NOW_MAX;

    #[test]
    fn the_schedulers_part_stays_as_it_is_written() {
        // A tree of this would take some 700 bytes for each of the 8.
        let own = format!("[{}]", vec![r#"{"a":0}"#; 100_000].join(","));
        let text = format!(r#"{{"version":1,"execution":{{"R_lite":[]}},"scheduling":{own}}}"#);
        let part = head(&text).unwrap().unwrap().scheduling.unwrap();
        assert_eq!(part.get(), own);
        assert!(text.as_bytes().as_ptr_range().contains(&part.get().as_ptr()));
        assert_eq!(writer(part).unwrap(), None);
    }

    #[test]
    fn a_head_has_times_and_the_last_of_what_stands_twice() {
        let head = |text: &str| head(text).map(|head| head.map(|head| (head.at, head.duration)));
        let times = r#"{"version":1,"execution":{"starttime":3,"expiration":9.5}}"#;
        assert_eq!(head(times).unwrap(), Some((3, 6)));
        let twice = r#" {"version":2,"version":1,"execution":7,"execution":{"starttime":"x"}} "#;
        assert_eq!(head(twice).unwrap(), Some((0, WINDOW_SECONDS)));
        for other in ["[]", "1", "{}", r#"{"version":1.0}"#, r#"{"version":"1"}"#, "null"] {
            assert_eq!(head(other).unwrap(), None, "{other}");
        }
        for wrong in ["", "{", r#"{"version":1}}"#, r#"{"version":1,"execution":{"a":}}"#] {
            assert!(head(wrong).unwrap_err().text.starts_with("R: "), "{wrong}");
        }
    }

    #[test]
    fn a_writer_is_a_text_or_there_is_none() {
        let writer = |text: &str| {
            let text = serde_json::from_str::<&RawValue>(text).unwrap();
            writer(text).map(|name| name.map(Cow::into_owned))
        };
        assert_eq!(writer(r#"{"graph":{},"writer":"fl\u0075xion"}"#).unwrap().unwrap(), "fluxion");
        for none in ["{}", "[]", "null", r#""writer""#] {
            assert_eq!(writer(none).unwrap(), None, "{none}");
        }
        for wrong in [r#"{"writer":null}"#, r#"{"writer":["fluxion"]}"#, r#"{"writer":1}"#] {
            assert!(writer(wrong).is_err(), "{wrong}");
        }
    }

    fn times(start: &str, end: &str) -> (i64, i64) {
        let text =
            format!(r#"{{"version":1,"execution":{{"starttime":{start},"expiration":{end}}}}}"#);
        let head = head(&text).unwrap().unwrap();
        (head.at, head.duration)
    }

    #[test]
    fn integers_are_read_to_the_second_and_floats_are_cut() {
        let start = NOW_MAX - 100;
        assert_eq!(times(&start.to_string(), &(start + 61).to_string()), (start, 61));
        assert_eq!(times("10.9", "70"), (10, 59));
        assert_eq!(times("1e3", "1060.5"), (1000, 60));
        assert_eq!(times("10", "10"), (10, WINDOW_SECONDS));
        assert_eq!(times("null", r#""70""#), (0, WINDOW_SECONDS));
        assert_eq!(times(&i64::MIN.to_string(), &i64::MAX.to_string()), (i64::MIN, i64::MAX));
    }
}
