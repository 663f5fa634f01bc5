//! JSON to [`Jobspec`], strictly.

use serde_json::{Map, Value};

use super::{Constraint, Count, Extras, Growth, Hold, Jobspec, Limit, Resource};
use crate::traverser::Policy;
use crate::{Error, idset};

/// The longest duration: the width of Fluxion's graph window, 100 years.
const DURATION_SECONDS_MAX: f64 = 3_153_600_000.0;
/// Levels of nested resources; deeper ones are refused before they could exhaust the stack.
const DEPTH_MAX: usize = 32;

type Object = Map<String, Value>;

pub(super) fn jobspec(text: &str) -> Result<Jobspec, Error> {
    let document: Value = serde_json::from_str(text).map_err(|error| Error::invalid(format!("jobspec: {error}")))?;
    let top = object(&document, "jobspec")?;
    only(top, "jobspec", &["version", "resources", "tasks", "attributes"])?;
    let version = require(top, "jobspec", "version")?.as_u64();
    if !version.is_some_and(|version| (1..=9999).contains(&version)) {
        return Err(Error::invalid("jobspec: version: not a number from 1 to 9999"));
    }
    tasks(require(top, "jobspec", "tasks")?)?;
    let listed = list(require(top, "jobspec", "resources")?, "resources")?;
    if listed.is_empty() {
        return Err(Error::invalid("resources: empty"));
    }
    let mut resources = Vec::with_capacity(listed.len());
    for (at, value) in listed.iter().enumerate() {
        resources.push(resource(value, &format!("resources[{at}]"), 0)?);
    }
    let mut all = Jobspec { resources, hold: Hold::Endless, constraint: None, queue: None, extras: Extras::default() };
    attributes(require(top, "jobspec", "attributes")?, &mut all)?;
    Ok(all)
}

fn resource(value: &Value, at: &str, depth: usize) -> Result<Resource, Error> {
    if depth == DEPTH_MAX {
        return Err(Error::invalid(format!("{at}: more than {DEPTH_MAX} levels")));
    }
    let fields = object(value, at)?;
    only(fields, at, &["type", "count", "unit", "exclusive", "with", "label", "id"])?;
    let kind = string(require(fields, at, "type")?, at, "type")?;
    let exclusive = match fields.get("exclusive") {
        None => None,
        Some(Value::Bool(flag)) => Some(*flag),
        Some(Value::String(text)) if text == "true" => Some(true),
        Some(Value::String(text)) if text == "false" => Some(false),
        Some(_) => return Err(Error::invalid(format!("{at}: exclusive: neither true nor false"))),
    };
    let label = fields.get("label").map(|label| string(label, at, "label")).transpose()?;
    if kind == "slot" && label.is_none() {
        return Err(Error::invalid(format!("{at}: label: a slot needs one")));
    }
    for name in ["unit", "id"] {
        if let Some(value) = fields.get(name) {
            string(value, at, name)?;
        }
    }
    let mut with = Vec::new();
    if let Some(children) = fields.get("with") {
        for (index, child) in list(children, at)?.iter().enumerate() {
            with.push(resource(child, &format!("{at}.with[{index}]"), depth + 1)?);
        }
    }
    if kind == "slot" && with.is_empty() {
        return Err(Error::invalid(format!("{at}: with: a slot holds at least one resource")));
    }
    let count = count(require(fields, at, "count")?, at)?;
    Ok(Resource { kind: kind.into(), count, exclusive, label: label.map(Into::into), with })
}

fn count(value: &Value, at: &str) -> Result<Count, Error> {
    if let Some(count) = value.as_u64() {
        return Ok(Count::exactly(count));
    }
    let wrong = |what: &str| Error::invalid(format!("{at}: count: {what}"));
    let fields = value.as_object().ok_or_else(|| wrong("neither an unsigned number nor a range"))?;
    only(fields, at, &["min", "max", "operator", "operand"])?;
    let number = |name: &str| match fields.get(name) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| wrong(&format!("{name}: not an unsigned number"))),
    };
    let min = number("min")?.ok_or_else(|| wrong("min: missing"))?;
    if min == 0 {
        return Err(wrong("min: less than 1"));
    }
    let (max, operand) = (number("max")?, number("operand")?);
    let (max, operator, operand) = match (max, fields.get("operator"), operand) {
        (None, None, None) => return Ok(Count { min, max: u64::MAX, growth: Growth::Add(1) }),
        (Some(max), Some(operator), Some(operand)) => (max, operator, operand),
        _ => return Err(wrong("max, operator and operand go together")),
    };
    if max < min {
        return Err(wrong("max: less than min"));
    }
    let growth = match operator.as_str() {
        Some("+") if operand >= 1 => Growth::Add(operand),
        Some("*") if operand >= 2 => Growth::Multiply(operand),
        Some("^") if operand >= 2 && min >= 2 => Growth::Power(operand),
        Some("+" | "*" | "^") => return Err(wrong("operand: too small")),
        _ => return Err(wrong("operator: not one of + * ^")),
    };
    Ok(Count { min, max, growth })
}

fn tasks(value: &Value) -> Result<(), Error> {
    for (index, task) in list(value, "tasks")?.iter().enumerate() {
        let at = format!("tasks[{index}]");
        let fields = object(task, &at)?;
        only(fields, &at, &["command", "slot", "count", "attributes", "distribution"])?;
        list(require(fields, &at, "command")?, &at)?;
        string(require(fields, &at, "slot")?, &at, "slot")?;
        if let Some(count) = fields.get("count")
            && object(count, &at)?.len() != 1
        {
            return Err(Error::invalid(format!("{at}: count: not exactly one key")));
        }
    }
    Ok(())
}

fn attributes(value: &Value, into: &mut Jobspec) -> Result<(), Error> {
    if value.is_null() {
        return Ok(());
    }
    let fields = object(value, "attributes")?;
    only(fields, "attributes", &["user", "system"])?;
    let Some(system) = fields.get("system").filter(|system| !system.is_null()) else { return Ok(()) };
    let system = object(system, "attributes.system")?;
    if let Some(duration) = system.get("duration") {
        into.hold = hold(duration)?;
    }
    if let Some(queue) = system.get("queue") {
        into.queue = Some(string(queue, "attributes.system", "queue")?.to_owned());
    }
    if let Some(constraints) = system.get("constraints") {
        into.constraint = Some(Constraint::read(constraints)?);
    }
    if let Some(extras) = system.get("fluxion") {
        read_extras(extras, into)?;
    }
    Ok(())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to lie in 0..=100 years")]
fn hold(value: &Value) -> Result<Hold, Error> {
    let Some(seconds) = value.as_f64() else {
        return Err(Error::invalid("attributes.system.duration: not a number"));
    };
    if !(0.0..=DURATION_SECONDS_MAX).contains(&seconds) {
        return Ok(Hold::Refused);
    }
    Ok(if seconds == 0.0 { Hold::Endless } else { Hold::Seconds(seconds.ceil() as u64) })
}

fn read_extras(value: &Value, into: &mut Jobspec) -> Result<(), Error> {
    const AT: &str = "attributes.system.fluxion";
    let fields = object(value, AT)?;
    only(fields, AT, &["policy", "prefer", "max_per_node", "end"])?;
    if let Some(policy) = fields.get("policy") {
        let name = string(policy, AT, "policy")?;
        let policy = Policy::parse(name).ok_or_else(|| Error::invalid(format!("{AT}.policy: unknown {name:?}")))?;
        into.extras.policy = Some(policy);
    }
    for tier in fields.get("prefer").map_or(Ok(&[][..]), |tiers| list(tiers, AT))? {
        into.extras.prefer.push(idset::parse(string(tier, AT, "prefer")?)?);
    }
    for limit in fields.get("max_per_node").map_or(Ok(&[][..]), |limits| list(limits, AT))? {
        into.extras.max_per_node.push(read_limit(limit)?);
    }
    match fields.get("end").map(Value::as_str) {
        None => {}
        Some(Some("eventually")) => into.hold = Hold::Eventually,
        Some(_) => return Err(Error::invalid(format!("{AT}.end: not \"eventually\""))),
    }
    Ok(())
}

fn read_limit(value: &Value) -> Result<Limit, Error> {
    const AT: &str = "attributes.system.fluxion.max_per_node";
    let fields = object(value, AT)?;
    only(fields, AT, &["labels", "count"])?;
    let labels = list(require(fields, AT, "labels")?, AT)?;
    let labels = labels.iter().map(|label| string(label, AT, "labels").map(Box::from)).collect::<Result<_, _>>()?;
    let count = require(fields, AT, "count")?.as_u64();
    let count = count.ok_or_else(|| Error::invalid(format!("{AT}: count: not an unsigned number")))?;
    Ok(Limit { labels, count })
}

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Object, Error> {
    value.as_object().ok_or_else(|| Error::invalid(format!("{at}: not a mapping")))
}

fn list<'a>(value: &'a Value, at: &str) -> Result<&'a [Value], Error> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| Error::invalid(format!("{at}: not a list")))
}

fn string<'a>(value: &'a Value, at: &str, name: &str) -> Result<&'a str, Error> {
    value.as_str().ok_or_else(|| Error::invalid(format!("{at}: {name}: not a string")))
}

fn require<'a>(fields: &'a Object, at: &str, name: &str) -> Result<&'a Value, Error> {
    fields.get(name).ok_or_else(|| Error::invalid(format!("{at}: {name}: missing")))
}

fn only(fields: &Object, at: &str, known: &[&str]) -> Result<(), Error> {
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(Error::invalid(format!("{at}: {key}: unknown key"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn spec(resources: &str, attributes: &str) -> String {
        let tasks = r#"[{"command":["a"],"slot":"s","count":{"per_slot":1}}]"#;
        format!(r#"{{"version":1,"resources":{resources},"tasks":{tasks},"attributes":{attributes}}}"#)
    }

    const SLOT: &str = r#"[{"type":"slot","count":3,"label":"s","with":[{"type":"cpu","count":1000}]}]"#;

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
        assert_eq!(job.extras.max_per_node, [Limit { labels: vec!["s".into()], count: 2 }]);
        assert_eq!(jobspec(&spec(SLOT, "null")).unwrap().hold, Hold::Endless);
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
    fn refuses_bottomless_nesting() {
        let mut nested = r#"{"type":"core","count":1}"#.to_owned();
        for _ in 0..40 {
            nested = format!(r#"{{"type":"node","count":1,"with":[{nested}]}}"#);
        }
        assert!(jobspec(&spec(&format!("[{nested}]"), "null")).unwrap_err().text.contains("levels"));
    }
}
