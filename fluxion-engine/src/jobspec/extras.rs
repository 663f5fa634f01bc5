//! Our own part of a jobspec: `attributes.system.fluxion`.

use std::collections::HashSet;
use std::fmt::Display;

use super::fields::{
    Fields, bool_of, get, hold as read_hold, list, map, name, only, path, require, scalar,
};
use super::{Cap, Extras, Hold, Jobspec, LevelRule, SlotExtras, Within};
use crate::limits::RESOURCES_MAX;
use crate::policy::Policy;
use crate::pools::Tenancy;
use crate::tree::{Value, wrong};
use crate::{Error, lists};

pub(super) fn read(value: &Value<'_>, into: &mut Jobspec) -> Result<(), Error> {
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
    let mut labels = HashSet::new();
    for slots in
        get(fields, "slots").map_or(Ok(&[][..]), |slots| list(slots, format_args!("{AT}.slots")))?
    {
        let read = read_slots(slots)?;
        if !labels.insert(read.label.clone()) {
            return Err(wrong(
                slots,
                format_args!("{AT}.slots"),
                format_args!("label {:?}: is there twice", read.label),
            ));
        }
        into.extras.slots.push(read);
    }
    check_parts(&into.extras)?;
    if let Some(second) = get(fields, "not_before") {
        let read = second.unsigned().and_then(|second| i64::try_from(second).ok());
        into.extras.not_before =
            Some(read.ok_or_else(|| wrong(second, AT, "not_before: not a second"))?);
    }
    Ok(())
}

/// Counts the rules and labels that are looked up in the slots of a request, one by one.
fn check_parts(extras: &Extras) -> Result<(), Error> {
    let labels = extras.max_per_node.iter().map(|cap| cap.labels.len());
    let of_rules = extras.levels.iter().map(|rule| rule.labels.as_ref().map_or(0, Vec::len));
    let own = extras.slots.len() + extras.max_per_node.len() + extras.levels.len();
    let all = own + labels.sum::<usize>() + of_rules.sum::<usize>();
    RESOURCES_MAX.check(all, "attributes.system.fluxion")
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
        hold = Some(read_hold(duration, at)?);
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
        .map(|ranks| lists::read_idset(&scalar(ranks, format_args!("{at}.{name}"))?))
        .transpose()
}

fn read_tiers(value: &Value<'_>, at: &str) -> Result<Vec<Vec<(u32, u32)>>, Error> {
    let tier = |tier| lists::read_idset(&scalar(tier, format_args!("{at}.prefer"))?);
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
