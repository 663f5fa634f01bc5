//! Rules of the schemas that need more than a type: written in CEL, carried out by the API server.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A quantity that is not negative, as Kubernetes reads it.
const QUANTITY: &str =
    r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,4})?$";

/// The value of a label.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// The key of a label.
const LABEL_KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";

/// Rules on spec: once the object is there, nobody changes anything but `overrides`.
///
/// They stand on spec and not on each field, because a rule on a field is not asked when the field
/// comes or goes. `has` is asked also for what is required: an object that an earlier version
/// stored may lack it.
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

/// The schema of a quantity: a whole number, or a text of Kubernetes' form for quantities. Neither
/// is less than 0.
pub(crate) fn quantity() -> Value {
    json!({
        "x-kubernetes-int-or-string": true,
        "description": "A quantity as Kubernetes reads it, such as 8, 500m or 64Gi; not less than 0.",
        "minimum": 0,
        "maxLength": 64,
        "pattern": QUANTITY,
    })
}

/// The schema of the value of a label.
pub(crate) fn label_value() -> Value {
    json!({ "type": "string", "maxLength": 63, "pattern": LABEL_VALUE })
}

/// The schema of a label selector, which the API server checks as it does those of its own objects.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels that a namespace has to have.",
                "maxProperties": 64,
                "additionalProperties": label_value(),
            },
            "matchExpressions": {
                "type": "array",
                "description": "What else has to be so of the labels of a namespace.",
                "maxItems": 64,
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "type": "string", "description": "The label.", "maxLength": 317, "pattern": LABEL_KEY },
                        "operator": {
                            "type": "string",
                            "description": "What has to be so of its value.",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "type": "array",
                            "description": "The values of In and NotIn; the others have none.",
                            "maxItems": 256,
                            "items": label_value(),
                        },
                    },
                    "x-kubernetes-validations": [{
                        "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                        "message": "In and NotIn need values, Exists and DoesNotExist have none",
                        "fieldPath": ".values",
                    }],
                },
            },
        },
    })
}

/// The schema of an object of which only Fluxqueue knows what is in it.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// A rule on a queue: what a job has that says nothing is no more than any job may have.
pub(crate) fn default_within_maximum() -> Value {
    json!([{
        "rule": "!has(self.defaultWalltimeSeconds) || !has(self.maxWalltimeSeconds) || self.defaultWalltimeSeconds <= self.maxWalltimeSeconds",
        "message": "defaultWalltimeSeconds is more than maxWalltimeSeconds",
        "fieldPath": ".defaultWalltimeSeconds",
    }])
}
