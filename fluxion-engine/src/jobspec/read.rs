//! A tree to [`Jobspec`], strictly.

use std::borrow::Cow;
use std::fmt::{Arguments, Display};

use super::{
    Cap, Constraint, Count, Extras, Growth, Hold, Jobspec, LevelRule, Resource, SlotExtras, Within,
};
use crate::limits::{JOBSPEC_DEPTH_MAX, Limit, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::policy::Policy;
use crate::pools::Tenancy;
use crate::tree::{Value, wrong};
use crate::{Error, idset};

/// The longest duration: the width of Fluxion's graph window, 100 years.
const DURATION_SECONDS_MAX: f64 = 3_153_600_000.0;

type Fields<'a> = [(Cow<'a, str>, Value<'a>)];

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
        // As upstream, which looks for keys wherever there could be some.
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
    if let Some(extras) = get(system, "fluxion") {
        read_extras(extras, into)?;
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to lie in 0..=100 years"
)]
fn hold(value: &Value<'_>, at: impl Display) -> Result<Hold, Error> {
    let seconds = value.float().ok_or_else(|| wrong(value, at, "not a number"))?;
    if !(0.0..=DURATION_SECONDS_MAX).contains(&seconds) {
        return Ok(Hold::Refused);
    }
    Ok(if seconds == 0.0 { Hold::Endless } else { Hold::Seconds(seconds.ceil() as u64) })
}

fn read_extras(value: &Value<'_>, into: &mut Jobspec) -> Result<(), Error> {
    const AT: &str = "attributes.system.fluxion";
    let fields = map(value, AT)?;
    let known = [
        "policy",
        "prefer",
        "counted",
        "max_per_node",
        "end",
        "slots",
        "levels",
        "tenant",
        "guest",
        "not_before",
    ];
    only(fields, AT, &known)?;
    if let Some(policy) = get(fields, "policy") {
        let name = scalar(policy, format_args!("{AT}.policy"))?;
        let known = Policy::parse(&name)
            .ok_or_else(|| wrong(policy, AT, format_args!("policy: unknown {name:?}")))?;
        into.extras.policy = Some(known);
    }
    if let Some(tiers) = get(fields, "prefer") {
        into.extras.prefer = read_tiers(tiers, AT)?;
    }
    into.extras.counted = read_ranks(fields, "counted", AT)?.unwrap_or_default();
    for cap in get(fields, "max_per_node").map_or(Ok(&[][..]), |caps| list(caps, AT))? {
        into.extras.max_per_node.push(read_cap(cap)?);
    }
    for rule in get(fields, "levels").map_or(Ok(&[][..]), |rules| list(rules, AT))? {
        into.extras.levels.push(read_level_rule(rule)?);
    }
    into.extras.tenancy = read_tenancy(value, fields, AT)?;
    if ends_eventually(fields, AT)? {
        into.hold = Hold::Eventually;
    }
    for slots in
        get(fields, "slots").map_or(Ok(&[][..]), |slots| list(slots, format_args!("{AT}.slots")))?
    {
        let read = read_slots(slots)?;
        if into.extras.slots.iter().any(|other| other.label == read.label) {
            return Err(wrong(
                slots,
                format_args!("{AT}.slots"),
                format_args!("label {:?}: is there twice", read.label),
            ));
        }
        into.extras.slots.push(read);
    }
    if let Some(second) = get(fields, "not_before") {
        let read = second.unsigned().and_then(|second| i64::try_from(second).ok());
        into.extras.not_before =
            Some(read.ok_or_else(|| wrong(second, AT, "not_before: not a second"))?);
    }
    Ok(())
}

fn read_tenancy(value: &Value<'_>, fields: &Fields<'_>, at: &str) -> Result<Tenancy, Error> {
    let tenant = match get(fields, "tenant").map(|tenant| (tenant, tenant.unsigned())) {
        None => None,
        Some((tenant, None)) => return Err(wrong(tenant, at, "tenant: not an unsigned number")),
        Some((_, tenant)) => tenant,
    };
    let is_guest = get(fields, "guest")
        .map_or(Ok(false), |guest| bool_of(guest, format_args!("{at}.guest")))?;
    Tenancy::of(tenant, is_guest)
        .ok_or_else(|| wrong(value, at, "tenant and guest exclude each other"))
}

fn read_slots(value: &Value<'_>) -> Result<SlotExtras, Error> {
    const AT: &str = "attributes.system.fluxion.slots";
    let fields = map(value, AT)?;
    only(fields, AT, &["label", "ranks", "prefer", "counted", "duration", "end"])?;
    let label = name(require(value, fields, AT, "label")?, AT)?.into();
    let (ranks, counted) = (read_ranks(fields, "ranks", AT)?, read_ranks(fields, "counted", AT)?);
    let prefer = get(fields, "prefer").map(|tiers| read_tiers(tiers, AT)).transpose()?;
    let mut hold = None;
    if let Some(duration) = get(fields, "duration") {
        let at = format_args!("{AT}.duration");
        hold = Some(self::hold(duration, at)?);
        if hold == Some(Hold::Refused) {
            return Err(wrong(duration, at, "not a number of seconds from 0 to 100 years"));
        }
    }
    if ends_eventually(fields, AT)? {
        hold = Some(Hold::Eventually);
    }
    Ok(SlotExtras { label, ranks, prefer, counted, hold })
}

/// An idset.
fn read_ranks(fields: &Fields<'_>, name: &str, at: &str) -> Result<Option<Vec<(u32, u32)>>, Error> {
    get(fields, name)
        .map(|ranks| idset::parse(&scalar(ranks, format_args!("{at}.{name}"))?))
        .transpose()
}

fn read_tiers(value: &Value<'_>, at: &str) -> Result<Vec<Vec<(u32, u32)>>, Error> {
    let tier = |tier| idset::parse(&scalar(tier, format_args!("{at}.prefer"))?);
    list(value, at)?.iter().map(tier).collect()
}

fn ends_eventually(fields: &Fields<'_>, at: impl Display) -> Result<bool, Error> {
    match get(fields, "end").map(|end| (end, end.text())) {
        None => Ok(false),
        Some((_, Some(end))) if end == "eventually" => Ok(true),
        Some((end, _)) => Err(wrong(end, format_args!("{at}.end"), "not \"eventually\"")),
    }
}

fn read_cap(value: &Value<'_>) -> Result<Cap, Error> {
    const AT: &str = "attributes.system.fluxion.max_per_node";
    let fields = map(value, AT)?;
    only(fields, AT, &["labels", "count"])?;
    let labels = list(require(value, fields, AT, "labels")?, AT)?;
    let labels =
        labels.iter().map(|label| Ok(name(label, AT)?.into())).collect::<Result<_, Error>>()?;
    let count = require(value, fields, AT, "count")?;
    let count =
        count.unsigned().ok_or_else(|| wrong(count, AT, "count: not an unsigned number"))?;
    Ok(Cap { labels, count })
}

fn read_level_rule(value: &Value<'_>) -> Result<LevelRule, Error> {
    const AT: &str = "attributes.system.fluxion.levels";
    let fields = map(value, AT)?;
    only(fields, AT, &["level", "labels", "within", "part", "slice", "max_per_part", "max_skew"])?;
    let level = name(require(value, fields, AT, "level")?, AT)?.into();
    let labels = match get(fields, "labels") {
        Some(labels) => {
            let labels = list(labels, AT)?.iter();
            Some(labels.map(|label| Ok(name(label, AT)?.into())).collect::<Result<_, Error>>()?)
        }
        None => None,
    };
    let within =
        match (get(fields, "within").map(|within| (within, within.text())), get(fields, "part")) {
            (None, None) => Within::Any,
            (None, Some(part)) => Within::Part(path(part, AT)?.into()),
            (Some((_, Some(within))), None) if within == "one" => Within::One,
            (Some((_, Some(within))), None) if within == "fewest" => Within::Fewest,
            (Some((within, _)), None) => {
                return Err(wrong(within, AT, "within: neither \"one\" nor \"fewest\""));
            }
            (Some(_), Some(_)) => {
                return Err(wrong(value, AT, "within and part exclude each other"));
            }
        };
    let number = |name: &str| match get(fields, name) {
        None => Ok(None),
        Some(number) => match number.unsigned() {
            None => Err(wrong(number, AT, format_args!("{name}: not an unsigned number"))),
            some => Ok(some),
        },
    };
    let (max_per_part, max_skew) = (number("max_per_part")?, number("max_skew")?);
    if max_skew.is_some() && matches!(within, Within::One | Within::Fewest) {
        return Err(wrong(value, AT, "within and max_skew exclude each other"));
    }
    let is_slice = match get(fields, "slice") {
        None => false,
        Some(slice) => bool_of(slice, format_args!("{AT}.slice"))?,
    };
    if is_slice && within != Within::One {
        return Err(wrong(value, AT, "slice: only of slots within one part"));
    }
    Ok(LevelRule { level, labels, within, is_slice, max_per_part, max_skew })
}

fn bool_of(value: &Value<'_>, at: impl Display) -> Result<bool, Error> {
    match value.text().as_deref() {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        _ => Err(wrong(value, at, "neither true nor false")),
    }
}

fn map<'n, 'a>(value: &'n Value<'a>, at: impl Display) -> Result<&'n Fields<'a>, Error> {
    value.map().ok_or_else(|| wrong(value, at, "not a mapping"))
}

fn list<'n, 'a>(value: &'n Value<'a>, at: impl Display) -> Result<&'n [Value<'a>], Error> {
    value.list().ok_or_else(|| wrong(value, at, "not a list"))
}

fn scalar<'n>(value: &'n Value<'_>, at: impl Display) -> Result<Cow<'n, str>, Error> {
    value.text().ok_or_else(|| wrong(value, at, "not a scalar"))
}

/// A name, or a label.
fn name<'n>(value: &'n Value<'_>, at: impl Display) -> Result<Cow<'n, str>, Error> {
    limited(value, at, NAME_BYTES_MAX)
}

/// The name of a part, which may be the path of a vertex.
fn path<'n>(value: &'n Value<'_>, at: impl Display) -> Result<Cow<'n, str>, Error> {
    limited(value, at, PATH_BYTES_MAX)
}

fn limited<'n>(
    value: &'n Value<'_>,
    at: impl Display,
    limit: Limit,
) -> Result<Cow<'n, str>, Error> {
    let text = scalar(value, &at)?;
    if limit.allows(text.len()) {
        Ok(text)
    } else {
        Err(wrong(value, at, format_args!("more than {limit}")))
    }
}

fn get<'n, 'a>(fields: &'n Fields<'a>, name: &str) -> Option<&'n Value<'a>> {
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn require<'n, 'a>(
    of: &Value<'_>,
    fields: &'n Fields<'a>,
    at: impl Display,
    name: &str,
) -> Result<&'n Value<'a>, Error> {
    get(fields, name).ok_or_else(|| wrong(of, at, format_args!("{name}: missing")))
}

fn only(fields: &Fields<'_>, at: impl Display, known: &[&str]) -> Result<(), Error> {
    match fields.iter().find(|(key, _)| !known.contains(&&**key)) {
        Some((key, value)) => Err(wrong(value, at, format_args!("{key}: unknown key"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

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
