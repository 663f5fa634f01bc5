//! A tree to [`Jobspec`], as strictly as upstream's libjobspec/jobspec.cpp.

use std::fmt::Arguments;

use super::fields::{bool_of, get, hold, list, map, name, only, require, scalar};
use super::{Constraint, Count, Extras, Growth, Hold, Jobspec, Resource, extras};
use crate::Error;
use crate::limits::{JOBSPEC_DEPTH_MAX, RESOURCES_MAX};
use crate::tree::{Value, wrong};

impl Jobspec {
    /// Reads a jobspec in JSON or YAML.
    pub fn parse(text: &str) -> Result<Self, Error> {
        jobspec(text)
    }
}

fn jobspec(text: &str) -> Result<Jobspec, Error> {
    let document = Value::read(text)?;
    let top = map(&document, "jobspec")?;
    only(top, "jobspec", &["version", "resources", "tasks", "attributes"])?;
    let version = require(&document, top, "jobspec", "version")?;
    if !version.unsigned().is_some_and(|version| (1..=9999).contains(&version)) {
        return Err(wrong(version, "version", "not a number from 1 to 9999"));
    }
    tasks(require(&document, top, "jobspec", "tasks")?)?;
    let listed = require(&document, top, "jobspec", "resources")?;
    let resources = self::resources(listed, format_args!("resources"), 0)?;
    if resources.is_empty() {
        return Err(wrong(listed, "resources", "empty"));
    }
    RESOURCES_MAX.check(resources.iter().map(Resource::count_all).sum(), "resources")?;
    let mut all = Jobspec {
        resources,
        hold: Hold::Endless,
        constraint: None,
        queue: None,
        extras: Extras::default(),
    };
    attributes(require(&document, top, "jobspec", "attributes")?, &mut all)?;
    Ok(all)
}

fn resources(value: &Value<'_>, at: Arguments<'_>, depth: usize) -> Result<Vec<Resource>, Error> {
    let each = |(index, value)| resource(value, format_args!("{at}[{index}]"), depth);
    list(value, at)?.iter().enumerate().map(each).collect()
}

fn resource(value: &Value<'_>, at: Arguments<'_>, depth: usize) -> Result<Resource, Error> {
    if depth == JOBSPEC_DEPTH_MAX.max {
        return Err(wrong(value, at, format_args!("more than {JOBSPEC_DEPTH_MAX}")));
    }
    let fields = map(value, at)?;
    only(fields, at, &["type", "count", "unit", "exclusive", "with", "label", "id"])?;
    let kind = name(require(value, fields, at, "type")?, format_args!("{at}: type"))?;
    let exclusive = get(fields, "exclusive")
        .map(|value| bool_of(value, format_args!("{at}: exclusive")))
        .transpose()?;
    let label =
        get(fields, "label").map(|label| name(label, format_args!("{at}: label"))).transpose()?;
    if &*kind == "slot" && label.is_none() {
        return Err(wrong(value, format_args!("{at}: label"), "a slot needs one"));
    }
    for name in ["unit", "id"] {
        if let Some(value) = get(fields, name) {
            scalar(value, format_args!("{at}: {name}"))?;
        }
    }
    let with = match get(fields, "with") {
        Some(children) => resources(children, format_args!("{at}.with"), depth + 1)?,
        None => Vec::new(),
    };
    let count = count(require(value, fields, at, "count")?, format_args!("{at}: count"))?;
    Ok(Resource { kind: kind.into(), count, exclusive, label: label.map(Into::into), with })
}

fn count(value: &Value<'_>, at: Arguments<'_>) -> Result<Count, Error> {
    if value.is_scalar() {
        let count = value.unsigned();
        return count
            .map(Count::exactly)
            .ok_or_else(|| wrong(value, at, "neither an unsigned number nor a range"));
    }
    let fields =
        value.map().ok_or_else(|| wrong(value, at, "neither an unsigned number nor a range"))?;
    only(fields, at, &["min", "max", "operator", "operand"])?;
    let number = |name: &str| match get(fields, name) {
        None => Ok(None),
        Some(value) => value
            .unsigned()
            .map(Some)
            .ok_or_else(|| wrong(value, at, format_args!("{name}: not an unsigned number"))),
    };
    let wrong = |what: &str| wrong(value, at, what);
    let min = number("min")?.ok_or_else(|| wrong("min: missing"))?;
    if min == 0 {
        return Err(wrong("min: less than 1"));
    }
    let (max, operand) = (number("max")?, number("operand")?);
    let (max, operator, operand) = match (max, get(fields, "operator"), operand) {
        (None, None, None) => return Ok(Count { min, max: u64::MAX, growth: Growth::Add(1) }),
        (Some(max), Some(operator), Some(operand)) => (max, operator, operand),
        _ => return Err(wrong("max, operator and operand go together")),
    };
    if max < min {
        return Err(wrong("max: less than min"));
    }
    let growth = match operator.text().as_deref() {
        Some("+") if operand >= 1 => Growth::Add(operand),
        Some("*") if operand >= 2 => Growth::Multiply(operand),
        Some("^") if operand >= 2 && min >= 2 => Growth::Power(operand),
        Some("+" | "*" | "^") => return Err(wrong("operand: too small")),
        _ => return Err(wrong("operator: not one of + * ^")),
    };
    Ok(Count { min, max, growth })
}

fn tasks(value: &Value<'_>) -> Result<(), Error> {
    for (index, task) in list(value, "tasks")?.iter().enumerate() {
        let at = format_args!("tasks[{index}]");
        let fields = map(task, at)?;
        for word in list(require(task, fields, at, "command")?, format_args!("{at}: command"))? {
            scalar(word, format_args!("{at}: command"))?;
        }
        scalar(require(task, fields, at, "slot")?, format_args!("{at}: slot"))?;
        if let Some(count) = get(fields, "count") {
            let at = format_args!("{at}: count");
            let [(_, value)] = map(count, at)? else {
                return Err(wrong(count, at, "not exactly one key"));
            };
            scalar(value, at)?;
        }
        if let Some(value) = get(fields, "distribution") {
            scalar(value, format_args!("{at}: distribution"))?;
        }
        if let Some(value) = get(fields, "attributes") {
            for (_, value) in map(value, format_args!("{at}: attributes"))? {
                scalar(value, format_args!("{at}: attributes"))?;
            }
        }
        // RFC 14 requires a count, and knows two keys more. Upstream counts keys instead of looking
        // at them.
        if fields.len() < 3 {
            return Err(wrong(task, at, "count: missing"));
        }
        if fields.len() > 5 {
            return Err(wrong(task, at, "more than five keys"));
        }
    }
    Ok(())
}

fn attributes(value: &Value<'_>, into: &mut Jobspec) -> Result<(), Error> {
    if value.is_null() {
        return Ok(());
    }
    let fields = map(value, "attributes")?;
    only(fields, "attributes", &["user", "system"])?;
    let system = match get(fields, "system") {
        Some(system)
            if system.map().is_some() || system.list().is_some_and(|list| !list.is_empty()) =>
        {
            map(system, "attributes.system")?
        }
        // As upstream (Q20), which looks for keys wherever there could be some.
        _ => return Ok(()),
    };
    if let Some(duration) = get(system, "duration") {
        into.hold = hold(duration, "attributes.system.duration")?;
    }
    if let Some(queue) = get(system, "queue") {
        into.queue = Some(name(queue, "attributes.system.queue")?.into_owned());
    }
    if let Some(constraints) = get(system, "constraints") {
        into.constraint = Some(Constraint::read(constraints)?);
    }
    if let Some(own) = get(system, "fluxion") {
        extras::read(own, into)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;
    use crate::jobspec::{Cap, SlotExtras};

    fn spec(resources: &str, attributes: &str) -> String {
        let tasks = r#"[{"command":["a"],"slot":"s","count":{"per_slot":1}}]"#;
        format!(
            r#"{{"version":1,"resources":{resources},"tasks":{tasks},"attributes":{attributes}}}"#
        )
    }

    const SLOT: &str =
        r#"[{"type":"slot","count":3,"label":"s","with":[{"type":"cpu","count":1000}]}]"#;

    #[test]
    fn reads_slots_duration_and_extras() {
        let text = spec(
            SLOT,
            r#"{"system":{"duration":0.5,"fluxion":{"policy":"hinode","prefer":["1-2"],"max_per_node":[{"labels":["s"],"count":2}]}}}"#,
        );
        let job = jobspec(&text).unwrap();
        assert_eq!(job.hold, Hold::Seconds(1));
        assert_eq!(job.resources[0].count, Count::exactly(3));
        assert_eq!(job.extras.prefer, [[(1, 2)]]);
        assert_eq!(job.extras.max_per_node, [Cap { labels: vec!["s".into()], count: 2 }]);
        assert_eq!(jobspec(&spec(SLOT, "null")).unwrap().hold, Hold::Endless);
        let own = r#"{"system":{"fluxion":{"slots":[{"label":"s","ranks":"0-3","prefer":["1"],"duration":7}]}}}"#;
        let slots = SlotExtras {
            label: "s".into(),
            ranks: Some(vec![(0, 3)]),
            prefer: Some(vec![vec![(1, 1)]]),
            counted: None,
            hold: Some(Hold::Seconds(7)),
        };
        assert_eq!(jobspec(&spec(SLOT, own)).unwrap().extras.slots, [slots]);
        let counted =
            r#"{"system":{"fluxion":{"counted":"2","slots":[{"label":"s","counted":"4-5"}]}}}"#;
        let counted = jobspec(&spec(SLOT, counted)).unwrap().extras;
        assert_eq!(
            (counted.counted, counted.slots[0].counted.clone()),
            (vec![(2, 2)], Some(vec![(4, 5)]))
        );
        let later = jobspec(&spec(SLOT, r#"{"system":{"fluxion":{"not_before":60}}}"#)).unwrap();
        assert_eq!(later.extras.not_before, Some(60));
        let eventually = spec(SLOT, r#"{"system":{"duration":5,"fluxion":{"end":"eventually"}}}"#);
        assert_eq!(jobspec(&eventually).unwrap().hold, Hold::Eventually);
    }

    #[test]
    fn counts_are_exact_to_the_last_unit() {
        let text = spec(
            r#"[{"type":"slot","count":1,"label":"s","with":[{"type":"m","count":18446744073709551615}]}]"#,
            "null",
        );
        assert_eq!(jobspec(&text).unwrap().resources[0].with[0].count, Count::exactly(u64::MAX));
    }

    #[test]
    fn refuses_and_names_the_field() {
        let cases = [
            ("[]".to_owned(), "not a mapping"),
            (spec(SLOT, "null").replace(r#""version":1"#, r#""version":0"#), "version"),
            (spec(SLOT, "null").replace(r#""label":"s","#, ""), "label"),
            (spec(SLOT, "null").replace("1000", "-1"), "resources[0].with[0]: count"),
            (spec(SLOT, "null").replace("1000", "1.5"), "resources[0].with[0]: count"),
            (spec(SLOT, "null").replace("1000", r#"1,"colour":"x""#), "colour: unknown key"),
            (spec(SLOT, r#"{"system":{"duration":"x"}}"#), "duration"),
            (spec(SLOT, r#"{"system":{"fluxion":{"policy":"best"}}}"#), "policy"),
            (spec(SLOT, r#"{"system":{"fluxion":{"prefer":["x"]}}}"#), "idset"),
            (
                spec(SLOT, r#"{"system":{"fluxion":{"not_before":-1}}}"#),
                "fluxion: not_before: not a second",
            ),
            (
                spec(SLOT, r#"{"system":{"fluxion":{"slots":[{"ranks":"0"}]}}}"#),
                "fluxion.slots: label: missing",
            ),
            (
                spec(SLOT, r#"{"system":{"fluxion":{"slots":[{"label":"s","rank":"0"}]}}}"#),
                "rank: unknown key",
            ),
            (
                spec(SLOT, r#"{"system":{"fluxion":{"slots":[{"label":"s","duration":-1}]}}}"#),
                "slots.duration",
            ),
            (
                spec(SLOT, r#"{"system":{"fluxion":{"slots":[{"label":"s","end":"soon"}]}}}"#),
                "slots.end",
            ),
            (
                spec(SLOT, r#"{"system":{"fluxion":{"slots":[{"label":"s"},{"label":"s"}]}}}"#),
                "twice",
            ),
            (spec("[]", "null"), "resources: empty"),
            (spec(SLOT, "null").replace(r#"["a"]"#, r#""a""#), "tasks[0]"),
        ];
        for (text, names) in cases {
            let error = jobspec(&text).unwrap_err();
            assert_eq!(error.reason, Reason::Invalid, "{text}");
            assert!(error.text.contains(names), "{text}: {error}");
        }
    }

    #[test]
    fn yaml_is_as_good() {
        let yaml = "version: 9999\nresources:\n- type: slot\n  count: {min: 2, max: 8, operator: '*', operand: 2}\n  label: s\n  \
                    with:\n  - {type: node, count: 0x2, exclusive: true}\ntasks:\n- command: [a]\n  slot: s\n  \
                    count: {per_slot: 1}\nattributes:\n  system:\n    duration: 3600.0\n    queue: batch\n";
        let job = jobspec(yaml).unwrap();
        assert_eq!(job.resources[0].count, Count { min: 2, max: 8, growth: Growth::Multiply(2) });
        assert_eq!(
            (job.resources[0].with[0].count, job.resources[0].with[0].exclusive),
            (Count::exactly(2), Some(true))
        );
        assert_eq!((job.hold, job.queue.as_deref()), (Hold::Seconds(3600), Some("batch")));
        for (from, to, names) in [
            (
                "count: 0x2",
                "count: two",
                "resources[0].with[0]: count: neither an unsigned number nor a range (line 7)",
            ),
            ("exclusive: true", "exclusive: yes", "exclusive: neither true nor false (line 7)"),
            ("    queue: batch", "    constraints: {properties: [arm]}", "in quotes (line 15)"),
            ("  label: s", "  label: s\n  label: t", "line 6: \"label\" is there twice"),
            ("  count: {per_slot: 1}", "", "tasks[0]: count: missing"),
        ] {
            let error = jobspec(&yaml.replace(from, to)).unwrap_err();
            assert!(error.text.contains(names), "{error}");
        }
    }

    #[test]
    fn resources_and_settings_of_slots_are_counted() {
        let slot = |at: usize| {
            format!(
                r#"{{"type":"slot","count":1,"label":"s{at}","with":[{{"type":"cpu","count":1}}]}}"#
            )
        };
        let all = |count: usize| (0..count).map(slot).collect::<Vec<_>>().join(",");
        let limit = RESOURCES_MAX.max;
        assert!(jobspec(&spec(&format!("[{}]", all(limit / 2)), "null")).is_ok());
        let error = jobspec(&spec(&format!("[{}]", all(limit / 2 + 1)), "null")).unwrap_err();
        assert!(error.text.starts_with("resources: more than 65536 resources"), "{error}");
        // Many settings, each of a label of its own, and many labels.
        let labels = |count: usize| {
            (0..count).map(|at| format!(r#"{{"label":"s{at}"}}"#)).collect::<Vec<_>>().join(",")
        };
        let extras = |extras: &str| {
            jobspec(&spec(SLOT, &format!(r#"{{"system":{{"fluxion":{{{extras}}}}}}}"#)))
        };
        assert!(extras(&format!(r#""slots":[{}]"#, labels(limit))).is_ok());
        let names = vec![r#""s""#; limit].join(",");
        for more in [
            format!(r#""slots":[{}]"#, labels(500_000)),
            format!(r#""max_per_node":[{{"labels":[{names}],"count":1}}]"#),
            format!(r#""levels":[{{"level":"rack","labels":[{names}]}}]"#),
        ] {
            let error = extras(&more).unwrap_err();
            assert!(error.text.contains("fluxion: more than 65536 resources"), "{error}");
        }
    }

    #[test]
    fn refuses_bottomless_nesting() {
        let mut nested = r#"{"type":"core","count":1}"#.to_owned();
        for _ in 0..40 {
            nested = format!(r#"{{"type":"node","count":1,"with":[{nested}]}}"#);
        }
        assert!(
            jobspec(&spec(&format!("[{nested}]"), "null")).unwrap_err().text.contains("levels")
        );
    }
}
