//! The wishes for a job, in the spec of its `FluxJob`.
//! manifests/chart/files/base/admission-policy.yaml says which users may have which wishes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The wishes of people, which override the values of the workload. For a field that is absent, the
/// value of the workload counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    /// The PriorityClass whose value is the priority of the job. A class that does not exist counts
    /// as no wish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// The longest time for which the job runs, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub walltime_seconds: Option<i64>,
    /// The queue in which the job waits. A job that has nodes stays in the queue that it started
    /// from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub queue_name: Option<String>,
    /// While true, the job does not start. A job that has begun goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    /// Holds by name: while there is any, the job does not start. A job that has begun goes on.
    /// Each user makes and lifts a hold of their own name; lifting that of another user needs the
    /// verb release on fluxjobs/hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = json!(["by"]))
    )]
    pub holds: Vec<Hold>,
}

/// A hold in the name of a user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The name of the user, as the API server knows it.
    #[schemars(length(min = 1, max = 253))]
    pub by: String,
    /// The reason, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub reason: String,
}

impl Overrides {
    /// True if there is no wish.
    pub fn is_empty(&self) -> bool {
        *self == Overrides::default()
    }

    /// True if people hold the job.
    pub fn is_held(&self) -> bool {
        self.hold || !self.holds.is_empty()
    }

    /// Returns, for people, the reason for which the job is held; `None` if it is not.
    pub fn held(&self) -> Option<String> {
        let by_name = self.holds.iter().map(|hold| match hold.reason.as_str() {
            "" => format!("held by {}", hold.by),
            reason => format!("held by {}: {reason}", hold.by),
        });
        let by_anyone = self.hold.then(|| "spec.overrides.hold of its FluxJob is true".to_owned());
        let all: Vec<String> = by_anyone.into_iter().chain(by_name).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_held_while_any_hold_is_there() {
        let read =
            |wishes: serde_json::Value| serde_json::from_value::<Overrides>(wishes).unwrap().held();
        assert_eq!(read(json!({})), None);
        assert_eq!(
            read(json!({ "hold": true })).unwrap(),
            "spec.overrides.hold of its FluxJob is true"
        );
        let holds = json!({ "holds": [{ "by": "ann", "reason": "audit" }, { "by": "bob" }] });
        assert_eq!(read(holds.clone()).unwrap(), "held by ann: audit; held by bob");
        let wishes: Overrides = serde_json::from_value(holds.clone()).unwrap();
        assert_eq!(serde_json::to_value(&wishes).unwrap(), holds, "absent fields stay absent");
    }
}
