//! What a graph is set up with: the options of `reapi_cli_initialize`.

use serde_json::{Map, Value};

use crate::graph::PoolTypes;
use crate::matcher::Policy;
use crate::{Error, Reason};

/// Settings of an engine. Keys that are not listed here are passed over, as upstream does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `matcher_policy`: the order of nodes, unless a request has its own.
    pub policy: Policy,
    /// `match_format`: how grants are written.
    pub format: MatchFormat,
    /// `pool_types`: which vertices hand out parts.
    pub pool_types: PoolTypes,
}

/// How a grant is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchFormat {
    /// Ours: slots per rank.
    Placement,
    /// RFC 20, without the scheduler's own part.
    Rv1Nosched,
    /// Indented names.
    Simple,
    /// JGF of what was granted.
    Jgf,
}

impl Options {
    /// Reads a JSON object.
    pub fn read(text: &str) -> Result<Self, Error> {
        let setup = |error: String| Error { reason: Reason::Setup, text: format!("options: {error}") };
        let value: Value = serde_json::from_str(text).map_err(|error| setup(error.to_string()))?;
        let fields = value.as_object().ok_or_else(|| setup("not a mapping".to_owned()))?;
        read(fields).map_err(setup)
    }
}

fn read(fields: &Map<String, Value>) -> Result<Options, String> {
    let text = |name: &str, default: &'static str| match fields.get(name) {
        None => Ok(default),
        Some(value) => value.as_str().ok_or_else(|| format!("{name}: not a string")),
    };
    match text("load_format", "grug")? {
        "jgf" => {}
        other => return Err(format!("load_format: {other:?} is not offered, only jgf is")),
    }
    match text("matcher_name", "CA")? {
        "CA" | "ca" => {}
        other => return Err(format!("matcher_name: {other:?} is not offered, only CA is")),
    }
    match text("traverser_policy", "simple")? {
        "simple" => {}
        other => return Err(format!("traverser_policy: {other:?} is not offered, only simple is")),
    }
    let policy = text("matcher_policy", "first")?;
    let policy = Policy::parse(policy).ok_or_else(|| format!("matcher_policy: {policy:?} is not offered"))?;
    let format = match text("match_format", "jgf")? {
        "placement" => MatchFormat::Placement,
        "rv1_nosched" => MatchFormat::Rv1Nosched,
        "simple" => MatchFormat::Simple,
        "jgf" => MatchFormat::Jgf,
        other => return Err(format!("match_format: {other:?} is not offered")),
    };
    // Read for their type only: what they tune does not exist here.
    text("load_allowlist", "")?;
    text("prune_filters", "")?;
    let pool_types = fields.get("pool_types").map_or(Ok(PoolTypes::default()), pool_types)?;
    Ok(Options { policy, format, pool_types })
}

fn pool_types(value: &Value) -> Result<PoolTypes, String> {
    let wrong = || "pool_types: neither a list of types nor a comma separated text".to_owned();
    let names: Vec<&str> = match value {
        Value::String(text) => text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
        Value::Array(names) => names.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    if let Some(structural) = names.iter().find(|name| ["", "slot", "cluster", "rack", "node"].contains(*name)) {
        return Err(format!("pool_types: {structural:?} cannot be a pool"));
    }
    let all_of_nodes = names.contains(&"*");
    Ok(PoolTypes { names: names.into_iter().filter(|name| *name != "*").map(Into::into).collect(), all_of_nodes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms_of_pool_types() {
        let list = Options::read(r#"{"load_format":"jgf","pool_types":["cpu","memory"]}"#).unwrap();
        let text = Options::read(r#"{"load_format":"jgf","pool_types":"cpu, memory"}"#).unwrap();
        assert_eq!(list, text);
        assert!(Options::read(r#"{"load_format":"jgf","pool_types":"*"}"#).unwrap().pool_types.all_of_nodes);
    }

    #[test]
    fn names_what_it_does_not_offer() {
        for (text, names) in [
            ("[]", "not a mapping"),
            ("{}", "load_format"),
            (r#"{"load_format":1}"#, "load_format"),
            (r#"{"load_format":"jgf","matcher_policy":"locality"}"#, "matcher_policy"),
            (r#"{"load_format":"jgf","match_format":"rv2"}"#, "match_format"),
            (r#"{"load_format":"jgf","pool_types":"node"}"#, "pool_types"),
        ] {
            let error = Options::read(text).unwrap_err();
            assert_eq!(error.reason, Reason::Setup);
            assert!(error.text.contains(names), "{error}");
        }
    }
}
