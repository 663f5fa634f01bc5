//! Which nodes a request may use: the constraints of RFC 31.

use std::collections::HashSet;

use flux_lists::hostlist::Budget;
use flux_lists::idset;

use crate::limits::CONSTRAINT_DEPTH_MAX;
use crate::tree::{Value, wrong};
use crate::{Error, lists};

/// A condition on a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Constraint {
    /// Each of these properties is there (or, negated, is not).
    Properties(Vec<Property>),
    /// The node has one of these names.
    Hosts(HashSet<Box<str>>),
    /// The node has a rank in one of these ranges, both ends included.
    Ranks(Vec<(u32, u32)>),
    /// All hold.
    And(Vec<Constraint>),
    /// One holds.
    Or(Vec<Constraint>),
    /// It is not so that all hold.
    Not(Vec<Constraint>),
}

/// A property that a node must have, or must not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub name: Box<str>,
    /// Written with `^`: the node must not have it.
    pub absent: bool,
}

/// The facts about a node that a constraint depends on.
pub(crate) struct Subject<'a> {
    pub(crate) name: std::borrow::Cow<'a, str>,
    pub(crate) rank: Option<u32>,
    pub(crate) properties: &'a [(Box<str>, Box<str>)],
}

impl Constraint {
    pub(crate) fn read(value: &Value<'_>) -> Result<Self, Error> {
        read(value, 0, &mut lists::budget())
    }

    pub(crate) fn admits(&self, node: &Subject<'_>) -> bool {
        match self {
            Constraint::Properties(wanted) => wanted.iter().all(|property| {
                node.properties.iter().any(|(name, _)| *name == property.name) != property.absent
            }),
            Constraint::Hosts(names) => names.contains(&*node.name),
            Constraint::Ranks(ranges) => node.rank.is_some_and(|rank| idset::holds(ranges, rank)),
            Constraint::And(all) => all.iter().all(|one| one.admits(node)),
            Constraint::Or(any) => any.iter().any(|one| one.admits(node)),
            Constraint::Not(all) => !all.iter().all(|one| one.admits(node)),
        }
    }
}

fn read(value: &Value<'_>, depth: usize, hosts: &mut Budget) -> Result<Constraint, Error> {
    let wrong = |what: &str| wrong(value, "attributes.system.constraints", what);
    if depth == CONSTRAINT_DEPTH_MAX.max {
        return Err(wrong(&format!("more than {CONSTRAINT_DEPTH_MAX}")));
    }
    let (operator, operands) = match value.map().ok_or_else(|| wrong("not a mapping"))? {
        // An empty mapping admits every node.
        [] => return Ok(Constraint::And(Vec::new())),
        [(operator, operands)] => (&**operator, operands),
        _ => return Err(wrong("more than one operator in a mapping")),
    };
    let operands = operands.list().ok_or_else(|| wrong(&format!("{operator}: not a list")))?;
    let texts = || {
        let texts = operands
            .iter()
            .map(|operand| Some((operand, operand.text()?)))
            .collect::<Option<Vec<_>>>();
        texts.ok_or_else(|| wrong(&format!("{operator}: holds something else than strings")))
    };
    let at = |operand: &Value<'_>, error: Error| {
        crate::tree::wrong(
            operand,
            "attributes.system.constraints",
            format!("{operator}: {}", error.text),
        )
    };
    let nested = |hosts: &mut Budget| {
        operands
            .iter()
            .map(|operand| read(operand, depth + 1, hosts))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(match operator {
        "properties" => {
            // A plain scalar of YAML may be meant as a number or a truth value: a name is written
            // in quotes.
            let texts = operands.iter().map(Value::quoted).collect::<Option<Vec<_>>>();
            let texts = texts
                .ok_or_else(|| wrong("properties: holds something else than strings in quotes"))?;
            Constraint::Properties(texts.into_iter().map(property).collect::<Result<_, _>>()?)
        }
        "hostlist" => {
            let mut names = HashSet::new();
            for (operand, text) in texts()? {
                let more =
                    lists::read_hostlist(&text, hosts).map_err(|error| at(operand, error))?;
                names.extend(more.into_iter().map(Into::into));
            }
            Constraint::Hosts(names)
        }
        "ranks" => {
            let mut ranges = Vec::new();
            for (operand, text) in texts()? {
                ranges.extend(lists::read_idset(&text).map_err(|error| at(operand, error))?);
            }
            Constraint::Ranks(idset::merge(ranges))
        }
        "and" => Constraint::And(nested(hosts)?),
        "or" => Constraint::Or(nested(hosts)?),
        "not" => Constraint::Not(nested(hosts)?),
        _ => return Err(wrong(&format!("{operator}: unknown operator"))),
    })
}

fn property(text: &str) -> Result<Property, Error> {
    let (absent, name) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
    if name.is_empty() || name.contains(['!', '&', '\'', '"', '^', '`', '|', '(', ')']) {
        return Err(Error::invalid(format!(
            "attributes.system.constraints: properties: {text:?} is no property name"
        )));
    }
    Ok(Property { name: name.into(), absent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(text: &str, name: &str, rank: u32, properties: &[&str]) -> bool {
        let constraint = Constraint::read(&Value::read(text).unwrap()).unwrap();
        let properties: Vec<_> =
            properties.iter().map(|name| (Box::from(*name), Box::from(""))).collect();
        constraint.admits(&Subject { name: name.into(), rank: Some(rank), properties: &properties })
    }

    #[test]
    fn follows_rfc_31() {
        assert!(admits("{}", "n1", 1, &[]));
        assert!(admits(r#"{"properties":["arm","^gpu"]}"#, "n1", 1, &["arm"]));
        assert!(!admits(r#"{"properties":["arm","^gpu"]}"#, "n1", 1, &["arm", "gpu"]));
        assert!(admits(r#"{"hostlist":["n[0-2]","x"]}"#, "n1", 1, &[]));
        assert!(!admits(r#"{"hostlist":["n[2-3]"]}"#, "n1", 1, &[]));
        assert!(admits(r#"{"ranks":["4-9","0-1"]}"#, "n1", 1, &[]));
        assert!(!admits(r#"{"ranks":["2-9"]}"#, "n1", 1, &[]));
        assert!(admits(r#"{"and":[{"ranks":["1"]},{"not":[{"ranks":["2"]}]}]}"#, "n1", 1, &[]));
        assert!(!admits(r#"{"or":[]}"#, "n1", 1, &[]));
        assert!(!admits(r#"{"not":[{"ranks":["1"]},{"hostlist":["n1"]}]}"#, "n1", 1, &[]));
    }

    #[test]
    fn lists_without_quotes_are_read_or_refused_with_line_and_field() {
        assert!(admits("hostlist:\n- n[0-2]\n- x\n", "n1", 1, &[]));
        assert!(admits("hostlist: [n1, x]\n", "n1", 1, &[]));
        for (text, says) in [
            (
                "and:\n- hostlist:\n  - n[0-\n",
                "attributes.system.constraints: hostlist: hostlist \"n[0-\": cannot be read (line 3)",
            ),
            ("hostlist: n[0-2]\n", "attributes.system.constraints: hostlist: not a list (line 1)"),
            ("ranks:\n- 0-\n", "(line 2)"),
        ] {
            let error = Constraint::read(&Value::read(text).unwrap()).unwrap_err();
            assert!(error.text.contains(says), "{error}");
        }
        let error = Value::read("hostlist: [n[0-2], x]\n").unwrap_err();
        assert!(error.text.contains("line 1"), "{error}");
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for wrong in [
            r#"{"ranks":["1"],"or":[]}"#,
            r#"{"colour":["red"]}"#,
            r#"{"properties":["a|b"]}"#,
            r#"{"properties":[1]}"#,
            r#"{"ranks":["x"]}"#,
            r#"{"ranks":"1"}"#,
            "[]",
            // Each list may be had alone.
            r#"{"hostlist":["n[0-599999]","m[0-599999]"]}"#,
            r#"{"or":[{"hostlist":["n[0-599999]"]},{"hostlist":["m[0-599999]"]}]}"#,
        ] {
            assert!(Constraint::read(&Value::read(wrong).unwrap()).is_err(), "{wrong}");
        }
    }
}
