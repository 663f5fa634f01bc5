//! Options that upstream would crash on, or silently take for something else, are refused before it
//! sees them.

use serde_json::Value;

/// Values of `matcher_name`; an unknown one is an uncaught exception upstream.
const MATCHERS: [&str; 13] = [
    "CA", "IBA", "IBBA", "PFS1BA", "PA", "C+IBA", "C+PFS1BA", "C+PA", "IB+IBBA", "C+P+IBA", "VA",
    "V+PFS1BA", "ALL",
];
/// Values of `traverser_policy`; an unknown one is a NULL pointer upstream.
const TRAVERSERS: [&str; 2] = ["simple", "flexible"];
/// Values of `match_format`; an unknown one silently means `simple` upstream.
const WRITERS: [&str; 8] = [
    "simple",
    "pretty_simple",
    "jgf",
    "jgf_shorthand",
    "rlite",
    "rv1",
    "rv1_nosched",
    "rv1_shorthand",
];

/// Checks the options; `extended`: the library knows our extensions to them, and checks these
/// itself.
pub(super) fn check(options: &str, extended: bool) -> Result<(), String> {
    let options: Value =
        serde_json::from_str(options).map_err(|error| format!("options: {error}"))?;
    let options = options.as_object().ok_or("options: not a mapping")?;
    for key in [
        "load_format",
        "load_allowlist",
        "matcher_name",
        "matcher_policy",
        "traverser_policy",
        "match_format",
        "prune_filters",
    ] {
        if options.get(key).is_some_and(|value| !value.is_string()) {
            return Err(format!("options: {key}: not a string"));
        }
    }
    if options
        .get("reserve_vtx_vec")
        .is_some_and(|value| value.as_i64().is_none_or(|n| i32::try_from(n).is_err()))
    {
        return Err("options: reserve_vtx_vec: not an integer".to_owned());
    }
    if options.get("elapse_time").is_some_and(|value| !value.is_boolean()) {
        return Err("options: elapse_time: neither true nor false".to_owned());
    }
    if extended {
        return Ok(());
    }
    if options.contains_key("pool_types") {
        return Err("options: pool_types: this library has no pools".to_owned());
    }
    let known =
        |key: &str, names: &[&str], fold: bool| match options.get(key).and_then(Value::as_str) {
            Some(name)
                if !names
                    .iter()
                    .any(|known| *known == name || (fold && known.eq_ignore_ascii_case(name))) =>
            {
                Err(format!("options: {key}: unknown {name:?}"))
            }
            _ => Ok(()),
        };
    known("matcher_name", &MATCHERS, true)?;
    known("traverser_policy", &TRAVERSERS, false)?;
    known("match_format", &WRITERS, false)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn refuses_what_upstream_would_crash_on() {
        for options in [
            "",
            "[]",
            r#"{"load_format":1}"#,
            r#"{"matcher_name":"nosuch"}"#,
            r#"{"traverser_policy":"nosuch"}"#,
            r#"{"match_format":"placement"}"#,
            r#"{"reserve_vtx_vec":"1"}"#,
            r#"{"elapse_time":1}"#,
            r#"{"pool_types":["*"]}"#,
        ] {
            assert!(check(options, false).is_err(), "{options}");
        }
        for options in ["{}", r#"{"matcher_name":"ca","traverser_policy":"flexible","unknown":1}"#]
        {
            assert_eq!(check(options, false), Ok(()), "{options}");
        }
        assert_eq!(check(r#"{"match_format":"placement","pool_types":["*"]}"#, true), Ok(()));
        assert!(check(r#"{"load_format":1}"#, true).is_err());
    }
}
