//! Rules of the schemas that need more than a type: written in CEL, carried out by the API server.

use serde_json::{Value, json};

/// Rules on spec: once the object is there, nobody changes anything but `overrides`.
///
/// They stand on spec and not on each field, because a rule on a field is not asked when the field comes or goes. `has` is
/// asked also for what is required: an object that an earlier version stored may lack it.
pub(crate) fn only_overrides_change() -> Value {
    ["workloadRef", "schedulerName"]
        .map(|field| {
            json!({
                "rule": format!(
                    "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
                ),
                "message": format!("{field} cannot be changed: of spec only overrides can"),
                "fieldPath": format!(".{field}"),
                "reason": "FieldValueForbidden",
            })
        })
        .into()
}

/// A rule on a queue: what a job has that says nothing is no more than any job may have.
pub(crate) fn default_within_maximum() -> Value {
    json!([{
        "rule": "!has(self.defaultWalltimeSeconds) || !has(self.maxWalltimeSeconds) || self.defaultWalltimeSeconds <= self.maxWalltimeSeconds",
        "message": "defaultWalltimeSeconds is more than maxWalltimeSeconds",
        "fieldPath": ".defaultWalltimeSeconds",
    }])
}
