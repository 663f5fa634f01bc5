//! The rules of the schemas that need more than a type: written in CEL, evaluated by the API
//! server.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A quantity that is not negative, in the notation of Kubernetes.
const QUANTITY: &str =
    r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,4})?$";

/// The value of a label.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// The key of a label.
const LABEL_KEY: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
);

/// Returns the rules on spec: once the object exists, only `overrides` can be changed.
///
/// They stand on spec and not on each field, because a rule on a field is not evaluated when the
/// field comes or goes. The rules apply `has` to required fields too: an object that an earlier
/// version stored may lack them.
pub(crate) fn only_overrides_change() -> Value {
    ["workloadRef", "schedulerName"]
        .map(|field| {
            json!({
                "rule": format!(
                    "has(self.{field}) == has(oldSelf.{field}) && \
                     (!has(self.{field}) || self.{field} == oldSelf.{field})"
                ),
                "message": format!("{field} cannot be changed: of spec only overrides can"),
                "fieldPath": format!(".{field}"),
                "reason": "FieldValueForbidden",
            })
        })
        .into()
}

/// Returns the schema of a quantity: a whole number, or a text of Kubernetes' form for quantities.
/// Neither is less than 0.
pub(crate) fn quantity() -> Value {
    json!({
        "x-kubernetes-int-or-string": true,
        "description": "A quantity in the notation of Kubernetes, such as 8, 500m or 64Gi; \
                        not less than 0.",
        "minimum": 0,
        "maxLength": 64,
        "pattern": QUANTITY,
    })
}

/// Returns the schema of the value of a label.
pub(crate) fn label_value() -> Value {
    json!({ "type": "string", "maxLength": 63, "pattern": LABEL_VALUE })
}

/// Returns the schema of a label selector, which the API server checks as it does those of its own
/// objects.
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
                "description": "Further requirements on the labels of a namespace.",
                "maxItems": 64,
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "type": "string", "description": "The label.",
                            "maxLength": 317, "pattern": LABEL_KEY,
                        },
                        "operator": {
                            "type": "string",
                            "description": "The requirement on its value.",
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
                        "rule": "(self.operator in ['In', 'NotIn']) == \
                                 (has(self.values) && size(self.values) > 0)",
                        "message": "In and NotIn need values, Exists and DoesNotExist have none",
                        "fieldPath": ".values",
                    }],
                },
            },
        },
    })
}

/// Returns the schema of an object whose content only Fluxqueue knows.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Returns a rule on a queue: the default walltime is at most the maximum.
pub(crate) fn default_within_maximum() -> Value {
    json!([{
        "rule": "!has(self.defaultWalltimeSeconds) || !has(self.maxWalltimeSeconds) || \
                 self.defaultWalltimeSeconds <= self.maxWalltimeSeconds",
        "message": "defaultWalltimeSeconds is more than maxWalltimeSeconds",
        "fieldPath": ".defaultWalltimeSeconds",
    }])
}
