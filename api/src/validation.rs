//! Rules of the FluxJob schema that need more than a type: written in CEL, carried out by the API server.

use serde_json::{Value, json};

/// Fields of spec that nobody may change once the object is there, and whether each may be absent.
const FIXED: [(&str, Presence); 9] = [
    ("jobspec", Presence::Optional),
    ("type", Presence::Always),
    ("name", Presence::Always),
    ("nodes", Presence::Always),
    ("reservation", Presence::Always),
    ("object", Presence::Optional),
    ("resources", Presence::Optional),
    ("roles", Presence::Optional),
    ("topology", Presence::Optional),
];

/// Whether a field is there in every stored object. Those with a default are.
#[derive(Clone, Copy)]
enum Presence {
    Always,
    Optional,
}

/// Rules on spec: what was asked stays, except `priority`, `queue`, `duration` and `hold`.
///
/// They stand on spec and not on each field, because a rule on a field is not asked when the field comes or goes.
pub(crate) fn only_a_persons_fields_change() -> Value {
    FIXED
        .iter()
        .map(|&(field, presence)| {
            let rule = match presence {
                Presence::Always => format!("self.{field} == oldSelf.{field}"),
                Presence::Optional => format!(
                    "has(self.{field}) == has(oldSelf.{field}) && \
                     (!has(self.{field}) || self.{field} == oldSelf.{field})"
                ),
            };
            json!({
                "rule": rule,
                "message": format!("{field} cannot be changed: of spec only priority, queue, duration and hold can"),
                "fieldPath": format!(".{field}"),
                "reason": "FieldValueForbidden",
            })
        })
        .collect()
}

/// Rule on a role: not more pods may be needed at the start than there are.
pub(crate) fn minimum_within_count() -> Value {
    json!([{ "rule": "self.min <= self.count", "message": "min cannot be larger than count", "fieldPath": ".min" }])
}
