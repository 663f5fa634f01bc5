//! The settings of a graph: the options of `reapi_cli_initialize`.

use serde_json::{Map, Value};

use crate::graph::PoolTypes;
use crate::limits::OPTIONS_BYTES_MAX;
use crate::policy::Policy;
use crate::readers::{Allowlist, Format};
use crate::vertex_search::Traverser;
use crate::writer::MatchFormat;
use crate::{Error, Reason};

/// Settings of an engine. Keys that are not listed here are passed over, as upstream does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `load_format`: the format of the document.
    pub load_format: Format,
    /// `matcher_policy`: the order of nodes, unless a request has its own.
    pub policy: Policy,
    /// `traverser_policy`: what sibling slots mean.
    pub traverser: Traverser,
    /// `match_format`: how grants are written.
    pub format: MatchFormat,
    /// `prune_filters`: what vertices count in their subtrees.
    pub prune_filters: String,
    /// `load_allowlist`: which vertices are made of a topology.
    pub allowlist: Option<Allowlist>,
    /// `search_budget`: steps that the searches of one call may take; `None`: no limit.
    pub search_budget: Option<u64>,
    /// `pool_types`: which vertices hand out parts.
    pub pool_types: PoolTypes,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            load_format: Format::Grug,
            policy: Policy::FIRST,
            traverser: Traverser::Simple,
            format: MatchFormat::Jgf,
            prune_filters: "ALL:core,ALL:node".to_owned(),
            allowlist: None,
            search_budget: None,
            pool_types: PoolTypes::default(),
        }
    }
}

impl Options {
    /// Reads a JSON object.
    pub fn read(text: &str) -> Result<Self, Error> {
        let setup =
            |error: String| Error { reason: Reason::Setup, text: format!("options: {error}") };
        OPTIONS_BYTES_MAX
            .check(text.len(), "options")
            .map_err(|error| error.as_reason(Reason::Setup))?;
        let value: Value = serde_json::from_str(text).map_err(|error| setup(error.to_string()))?;
        let fields = value.as_object().ok_or_else(|| setup("not a mapping".to_owned()))?;
        read(fields).map_err(setup)
    }
}

fn read(fields: &Map<String, Value>) -> Result<Options, String> {
    let defaults = Options::default();
    let text = |name: &str| match fields.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| format!("{name}: not a string")),
    };
    let load_format = match text("load_format")? {
        None => defaults.load_format,
        Some(name) => Format::parse(name)
            .ok_or_else(|| format!("load_format: {name:?}: can't create reader"))?,
    };
    match text("matcher_name")? {
        None | Some("CA" | "ca") => {}
        Some(other) => return Err(format!("matcher_name: {other:?} is not offered, only CA is")),
    }
    let traverser = match text("traverser_policy")? {
        None | Some("simple") => Traverser::Simple,
        Some("flexible") => Traverser::Flexible,
        Some(other) => {
            return Err(format!("traverser_policy: {other:?} is neither simple nor flexible"));
        }
    };
    let policy = match text("matcher_policy")? {
        None => defaults.policy,
        Some(name) => Policy::parse(name)
            .ok_or_else(|| format!("matcher_policy: {name:?}: can't create matcher"))?,
    };
    // As upstream: an unknown name means simple.
    let format = text("match_format")?
        .map_or(defaults.format, |name| MatchFormat::parse(name).unwrap_or(MatchFormat::Simple));
    let prune_filters = text("prune_filters")?.map_or(defaults.prune_filters, str::to_owned);
    let allowlist = text("load_allowlist")?.filter(|list| !list.is_empty()).map(Allowlist::read);
    let search_budget = match fields.get("search_budget") {
        None => None,
        Some(value) => Some(
            value
                .as_u64()
                .filter(|steps| *steps > 0)
                .ok_or("search_budget: not a number of steps, at least 1")?,
        ),
    };
    let pool_types = fields.get("pool_types").map_or(Ok(PoolTypes::default()), pool_types)?;
    Ok(Options {
        load_format,
        policy,
        traverser,
        format,
        prune_filters,
        allowlist,
        search_budget,
        pool_types,
    })
}

fn pool_types(value: &Value) -> Result<PoolTypes, String> {
    let wrong = || "pool_types: neither a list of types nor a comma separated text".to_owned();
    let names: Vec<&str> = match value {
        Value::String(text) => {
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
        }
        Value::Array(names) => {
            names.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    if let Some(structural) =
        names.iter().find(|name| ["", "slot", "cluster", "rack", "node"].contains(*name))
    {
        return Err(format!("pool_types: {structural:?} cannot be a pool"));
    }
    let all_of_nodes = names.contains(&"*");
    Ok(PoolTypes {
        names: names.into_iter().filter(|name| *name != "*").map(Into::into).collect(),
        all_of_nodes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms_of_pool_types() {
        let list = Options::read(r#"{"load_format":"jgf","pool_types":["cpu","memory"]}"#).unwrap();
        let text = Options::read(r#"{"load_format":"jgf","pool_types":"cpu, memory"}"#).unwrap();
        assert_eq!(list, text);
        assert!(
            Options::read(r#"{"load_format":"jgf","pool_types":"*"}"#)
                .unwrap()
                .pool_types
                .all_of_nodes
        );
    }

    #[test]
    fn options_are_limited_before_they_are_read() {
        let text = format!(r#"{{"x":[{}0]}}"#, "0,".repeat(OPTIONS_BYTES_MAX.max / 2));
        let error = Options::read(&text).unwrap_err();
        assert_eq!(error.reason, Reason::Setup);
        assert_eq!(error.text, "options: more than 4194304 bytes of options (OPTIONS_BYTES_MAX)");
    }

    #[test]
    fn names_what_it_does_not_offer() {
        for (text, names) in [
            ("[]", "not a mapping"),
            (r#"{"load_format":1}"#, "load_format"),
            (r#"{"load_format":"xyz"}"#, "load_format"),
            (r#"{"load_format":"jgf","matcher_policy":"nosuch"}"#, "matcher_policy"),
            (r#"{"load_format":"jgf","matcher_name":"C+PA"}"#, "matcher_name"),
            (r#"{"load_format":"jgf","traverser_policy":"wild"}"#, "traverser_policy"),
            (r#"{"load_format":"jgf","pool_types":"node"}"#, "pool_types"),
            (r#"{"load_format":"jgf","search_budget":0}"#, "search_budget"),
            (r#"{"load_format":"jgf","search_budget":-1}"#, "search_budget"),
        ] {
            let error = Options::read(text).unwrap_err();
            assert_eq!(error.reason, Reason::Setup);
            assert!(error.text.contains(names), "{error}");
        }
    }
}
