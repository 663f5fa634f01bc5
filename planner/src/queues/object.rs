//! Queues and namespaces as the API server has them, reduced to what concerns jobs.

use std::sync::Arc;

use fluxqueue_api::conditions::ACCEPTED;
use fluxqueue_api::{
    AcceptedReason, FluxQueue, FluxQueueSpec, FluxQueueStatus, MaxWalltimeAction, Policy,
    StopPolicy, WorkloadKind, names, text,
};
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition, LabelSelector, ObjectMeta, Time as MetaTime,
};

use super::fields::{at_least, check_key, check_labels, check_value, nodes_of};
use super::limits::Limits;
use crate::policies::QueuePolicy;
use fluxqueue_workload::constraints::{Constraints, Requirement, all_match, selector};
use fluxqueue_workload::metadata::{self, Labels};
use fluxqueue_workload::{Lifetime, Time, Uid};

/// The label that every namespace has: its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A queue that an administrator has made.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueObject {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// `metadata.generation`: the version of its spec.
    pub generation: Option<i64>,
    /// What goes for its jobs, by the spec that counts.
    pub rules: Rules,
    /// The spec that counts: the last that was accepted. `None` if none ever was.
    pub accepted: Option<Box<FluxQueueSpec>>,
    /// The error in its present spec, with the name of the field.
    pub trouble: Option<String>,
    /// Its recorded status, without conditions of others.
    pub status: FluxQueueStatus,
}

/// What goes for the jobs of a queue. By default nothing that the settings do not say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules {
    /// The namespaces that may use it; `None`: all.
    pub namespaces: Option<Vec<Requirement>>,
    /// The kinds of work that it takes; empty: all.
    pub kinds: Vec<WorkloadKind>,
    /// Whether waiting jobs may start.
    pub stop: StopPolicy,
    /// What goes for their walltimes.
    pub walltimes: Walltimes,
    /// The rule that decides which requests may start before others.
    pub policy: Option<QueuePolicy>,
    /// The most waiting requests that may hold a reservation.
    pub queue_depth: Option<usize>,
    /// The number of reservations under [`QueuePolicy::Hybrid`].
    pub reservation_depth: Option<usize>,
    /// The seconds for which others may go ahead of the first request that waits, if its start is
    /// unknown.
    pub bypass_secs: Option<u64>,
    /// Higher goes first.
    pub priority: i32,
    /// The nodes that its jobs may use, as the constraints of a pod that tolerates everything;
    /// `None`: all.
    pub nodes: Option<Constraints>,
    /// The amounts that its jobs may have at a time.
    pub limits: Limits,
}

/// The rules of a queue about walltimes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walltimes {
    /// Of a job that says none, and would end some day.
    pub default_secs: Option<u64>,
    /// The longest.
    pub max_secs: Option<u64>,
    /// What becomes of a job that asks for more.
    pub action: MaxWalltimeAction,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// Its labels, sorted by key.
    pub labels: Labels,
    /// The queue of those of its jobs that name none.
    pub queue: Option<Arc<str>>,
    /// Of the namespace of Fluxqueue: the value of the annotation that pauses it, with the person
    /// and the reason, while it is paused.
    pub paused: Option<Arc<str>>,
}

impl QueueObject {
    /// Reads a `FluxQueue`. Fails only without a name or uid.
    pub fn from_api(object: &FluxQueue) -> Result<Self, String> {
        let status = object.status.clone().unwrap_or_default();
        Self::from_parts(&object.metadata, Ok(object.spec.clone()), status)
    }

    /// Reads a queue even if its spec is not readable. If the spec is not accepted, the last
    /// accepted one is in the status.
    pub fn from_parts(
        metadata: &ObjectMeta,
        spec: Result<FluxQueueSpec, String>,
        mut status: FluxQueueStatus,
    ) -> Result<Self, String> {
        let (name, uid) =
            metadata::name_and_uid("FluxQueue", metadata).map_err(|error| error.to_string())?;
        status.conditions.retain(|condition| condition.type_ == ACCEPTED);
        let (read, trouble) = match spec.and_then(read_spec) {
            Ok(read) => (Some(read), None),
            Err(trouble) => (None, Some(text::into_message(trouble))),
        };
        let on_record =
            || status.accepted_spec.as_deref().cloned().and_then(|spec| read_spec(spec).ok());
        let (rules, accepted) = read.or_else(on_record).unwrap_or_default();
        Ok(QueueObject {
            name,
            uid,
            generation: metadata.generation,
            rules,
            accepted,
            trouble,
            status,
        })
    }

    /// Makes a queue with these accepted rules, with nothing on record.
    pub fn of_rules(name: Arc<str>, uid: Uid, rules: Rules) -> Self {
        QueueObject {
            name,
            uid,
            generation: None,
            rules,
            accepted: Some(Box::default()),
            trouble: None,
            status: FluxQueueStatus::default(),
        }
    }

    /// Returns this version of the queue with the spec that `known`, an earlier version of it, went
    /// by. It may not be on record yet.
    pub(super) fn going_by(&self, known: &QueueObject) -> Self {
        QueueObject { rules: known.rules.clone(), accepted: known.accepted.clone(), ..self.clone() }
    }

    /// The condition that says whether its spec counts.
    pub(super) fn acceptance(&self, now: Time) -> Condition {
        let (status, reason) = match self.trouble {
            None => ("True", AcceptedReason::Accepted),
            Some(_) => ("False", AcceptedReason::InvalidSpec),
        };
        let instead = match self.accepted {
            Some(_) => "the spec that was accepted last counts",
            None => "no spec was ever accepted, so its jobs are held",
        };
        let message = self.trouble.as_ref().map(|trouble| format!("{trouble}: {instead}"));
        let on_record = self.status.conditions.iter().find(|condition| condition.status == status);
        Condition {
            type_: ACCEPTED.to_owned(),
            status: status.to_owned(),
            reason: reason.as_str().to_owned(),
            message: text::into_message(message.unwrap_or_default()),
            observed_generation: self.generation,
            last_transition_time: on_record.map_or_else(
                || MetaTime(now.timestamp()),
                |condition| condition.last_transition_time.clone(),
            ),
        }
    }
}

/// What goes by a spec, and the spec.
fn read_spec(spec: FluxQueueSpec) -> Result<(Rules, Option<Box<FluxQueueSpec>>), String> {
    Rules::from_api(&spec).map(|rules| (rules, Some(Box::new(spec))))
}

/// Checks a label selector as the API server checks those of its own objects; the error names the
/// field below `path`.
fn check_selector(path: &str, selector: &LabelSelector) -> Result<(), String> {
    if let Some(labels) = &selector.match_labels {
        check_labels(&format!("{path}.matchLabels"), labels)?;
    }
    for (at, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        check_key(&format!("{path}.key"), &expression.key)?;
        for value in expression.values.iter().flatten() {
            check_value(&format!("{path}.values"), value)?;
        }
        let has_values = expression.values.as_ref().is_some_and(|values| !values.is_empty());
        match expression.operator.as_str() {
            "In" | "NotIn" if has_values => {}
            "Exists" | "DoesNotExist" if !has_values => {}
            "In" | "NotIn" => return Err(format!("{path}.values: In and NotIn need values")),
            "Exists" | "DoesNotExist" => {
                return Err(format!("{path}.values: Exists and DoesNotExist have no values"));
            }
            other => {
                let known = "In, NotIn, Exists and DoesNotExist";
                return Err(format!("{path}.operator: {} is none of {known}", text::quoted(other)));
            }
        }
    }
    Ok(())
}

fn policy_of(policy: Policy) -> QueuePolicy {
    match policy {
        Policy::Fcfs => QueuePolicy::Fcfs,
        Policy::Easy => QueuePolicy::Easy,
        Policy::Hybrid => QueuePolicy::Hybrid,
        Policy::Conservative => QueuePolicy::Conservative,
    }
}

impl Rules {
    /// Reads the spec of a FluxQueue; the text names the wrong field and its error.
    fn from_api(spec: &FluxQueueSpec) -> Result<Self, String> {
        let walltimes = Walltimes {
            default_secs: at_least(
                "spec.defaultWalltimeSeconds",
                spec.default_walltime_seconds,
                1,
            )?,
            max_secs: at_least("spec.maxWalltimeSeconds", spec.max_walltime_seconds, 1)?,
            action: spec.max_walltime_action,
        };
        if let Some(selector) = &spec.namespace_selector {
            check_selector("spec.namespaceSelector", selector)?;
        }
        Ok(Rules {
            namespaces: spec.namespace_selector.as_ref().map(selector),
            kinds: spec.workload_kinds.clone(),
            stop: spec.stop_policy,
            walltimes,
            policy: spec.policy.map(policy_of),
            queue_depth: at_least("spec.queueDepth", spec.queue_depth, 1)?,
            reservation_depth: at_least("spec.reservationDepth", spec.reservation_depth, 1)?,
            bypass_secs: at_least("spec.bypassSeconds", spec.bypass_seconds, 0)?,
            priority: spec.priority,
            limits: Limits::from_api(&spec.limits)?,
            nodes: (!spec.node_selector.is_empty())
                .then(|| nodes_of("spec.nodeSelector", &spec.node_selector))
                .transpose()?,
        })
    }

    /// True if jobs of this kind may use the queue.
    pub(super) fn takes(&self, kind: WorkloadKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// True if jobs of this namespace may use the queue.
    pub(super) fn admits(&self, namespace: &str, known: Option<&Namespace>) -> bool {
        let Some(selector) = &self.namespaces else { return true };
        match known {
            Some(namespace) => all_match(selector, &namespace.labels),
            // It has not been seen yet, but this is known of every one.
            None => all_match(selector, &[(Arc::from(NAMESPACE_NAME), Arc::from(namespace))]),
        }
    }
}

impl Walltimes {
    /// Returns how long a job with this lifetime is assumed to run: the default where it gives
    /// none, and no more than the maximum.
    pub fn of(&self, said: Lifetime, of_settings: Option<u64>) -> Lifetime {
        let said = match (said, self.default_secs.or(of_settings), self.max_secs) {
            (Lifetime::Eventually, Some(default), max) => {
                return Lifetime::Seconds(max.map_or(default, |max| default.min(max)));
            }
            (Lifetime::Eventually, None, Some(max)) => return Lifetime::Seconds(max),
            (said, ..) => said,
        };
        match (said, self.max_secs, self.action) {
            (Lifetime::Seconds(asked), Some(max), MaxWalltimeAction::Clamp) => {
                Lifetime::Seconds(asked.min(max))
            }
            (said, ..) => said,
        }
    }

    /// The maximum that this exceeds, if it does.
    pub fn exceeded_by(&self, counts: Lifetime) -> Option<u64> {
        let max = self.max_secs?;
        match counts {
            Lifetime::Seconds(asked) if asked <= max => None,
            Lifetime::Seconds(_) | Lifetime::Endless => Some(max),
            Lifetime::Eventually => None,
        }
    }
}

impl Namespace {
    /// Reads a namespace; the text names its error.
    pub fn from_kubernetes(object: &core_v1::Namespace) -> Result<Self, String> {
        let meta = &object.metadata;
        let (name, uid) =
            metadata::name_and_uid("Namespace", meta).map_err(|error| error.to_string())?;
        let queue =
            metadata::annotation(meta, names::DEFAULT_QUEUE).filter(|queue| !queue.is_empty());
        let paused = metadata::annotation(meta, names::PAUSED);
        Ok(Namespace {
            name,
            uid,
            labels: metadata::sorted(meta.labels.as_ref()).collect(),
            queue: queue.map(|queue| Arc::from(text::name(queue))),
            paused: paused.map(|by| Arc::from(text::message(by))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(spec: &serde_json::Value) -> QueueObject {
        let object = json!({
            "apiVersion": "jobs.converged-computing.org/v1alpha1", "kind": "FluxQueue",
            "metadata": {"name": "q", "uid": "u"}, "spec": spec,
        });
        QueueObject::from_api(&serde_json::from_value(object).expect("a FluxQueue"))
            .expect("a queue")
    }

    fn namespace(labels: &serde_json::Value) -> Namespace {
        let object = json!({"metadata": {"name": "ns", "uid": "u", "labels": labels}});
        Namespace::from_kubernetes(&serde_json::from_value(object).expect("a Namespace"))
            .expect("a namespace")
    }

    #[test]
    fn a_selector_says_which_namespaces() {
        let physics = namespace(&json!({"team": "physics"}));
        let cases = [
            (json!({}), true),
            (json!({"namespaceSelector": {}}), true),
            (json!({"namespaceSelector": {"matchLabels": {"team": "physics"}}}), true),
            (json!({"namespaceSelector": {"matchLabels": {"team": "chemistry"}}}), false),
            (
                json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["physics"]}]}}),
                false,
            ),
        ];
        for (spec, admitted) in cases {
            assert_eq!(read(&spec).rules.admits("ns", Some(&physics)), admitted, "{spec}");
        }
        let by_name = read(&json!({"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: "ns"}}}));
        assert!(
            by_name.rules.admits("ns", None) && !by_name.rules.admits("other", None),
            "known without being seen"
        );
    }

    #[test]
    fn walltimes() {
        use Lifetime::{Endless, Eventually, Seconds};
        // default, maximum, clamps; of the settings; said; what counts, and the maximum that it
        // exceeds
        let cases = [
            ((None, None, false), None, Eventually, Eventually, None),
            ((None, None, false), Some(60), Eventually, Seconds(60), None),
            ((Some(30), None, false), Some(60), Eventually, Seconds(30), None),
            ((None, Some(50), false), Some(60), Eventually, Seconds(50), None),
            ((None, Some(50), false), None, Eventually, Seconds(50), None),
            ((None, Some(50), false), None, Seconds(50), Seconds(50), None),
            ((None, Some(50), false), None, Seconds(51), Seconds(51), Some(50)),
            ((None, Some(50), true), None, Seconds(51), Seconds(50), None),
            ((Some(30), Some(50), true), None, Endless, Endless, Some(50)),
            ((Some(30), None, false), None, Endless, Endless, None),
        ];
        for ((default_secs, max_secs, clamps), of_settings, said, counts, exceeded) in cases {
            let action = if clamps { MaxWalltimeAction::Clamp } else { MaxWalltimeAction::Refuse };
            let walltimes = Walltimes { default_secs, max_secs, action };
            let found = walltimes.of(said, of_settings);
            assert_eq!(
                (found, walltimes.exceeded_by(found)),
                (counts, exceeded),
                "{walltimes:?} {said:?}"
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_spec_is_named_by_its_field_and_the_last_accepted_one_counts() {
        let selects = |expression: serde_json::Value| json!({"namespaceSelector": {"matchExpressions": [expression]}});
        let limits = |resource: &str, most: serde_json::Value| json!({"limits": {"resources": {resource: most}}});
        for (spec, expected) in [
            (
                limits("memory", json!("32GB")),
                r#"spec.limits.resources[memory]: "32GB" is not a quantity"#,
            ),
            (
                limits("cpu", json!("2e3m")),
                r#"spec.limits.resources[cpu]: "2e3m" is not a quantity"#,
            ),
            (limits("cpu", json!(-1)), r#"spec.limits.resources[cpu]: "-1" is negative"#),
            (
                limits("memroy", json!("1Gi")),
                "spec.limits.resources[memroy]: no pod can ask for a resource of this name",
            ),
            (
                json!({"limits": {"perNamespace": {"nodes": [{"nodeSelector": {"a": "b"}, "resources": {"cpu": "x"}}]}}}),
                r#"spec.limits.perNamespace.nodes[0].resources[cpu]: "x" is not a quantity"#,
            ),
            (json!({"limits": {"runningJobs": -1}}), "spec.limits.runningJobs: -1 is less than 0"),
            (
                json!({"nodeSelector": {"a b": "c"}}),
                r#"spec.nodeSelector: "a b" is not the key of a label"#,
            ),
            (
                json!({"limits": {"nodes": [
                    {"nodeSelector": {"/a": "b"}, "resources": {"cpu": 1}},
                ]}}),
                r#"spec.limits.nodes[0].nodeSelector: "/a" is not the key of a label"#,
            ),
            (
                json!({"namespaceSelector": {"matchLabels": {"team": "a b"}}}),
                r#"spec.namespaceSelector.matchLabels[team]: "a b" is not the value of a label"#,
            ),
            (json!({"maxWalltimeSeconds": 0}), "spec.maxWalltimeSeconds: 0 is less than 1"),
            (
                selects(json!({"key": "team", "operator": "Like", "values": ["p"]})),
                r#"spec.namespaceSelector.matchExpressions[0].operator: "Like" is none of In, NotIn, Exists and DoesNotExist"#,
            ),
            (
                selects(json!({"key": "a b", "operator": "Exists"})),
                "spec.namespaceSelector.matchExpressions[0].key: \"a b\" is not the key of a \
                 label",
            ),
            (
                selects(json!({"key": "team", "operator": "In"})),
                "spec.namespaceSelector.matchExpressions[0].values: In and NotIn need values",
            ),
        ] {
            let queue = read(&spec);
            assert_eq!((queue.trouble.as_deref(), queue.accepted), (Some(expected), None));
            let status = FluxQueueStatus {
                accepted_spec: read(&json!({"priority": 7})).accepted,
                ..FluxQueueStatus::default()
            };
            let metadata = ObjectMeta {
                name: Some("q".into()),
                uid: Some("u".into()),
                ..ObjectMeta::default()
            };
            let again = QueueObject::from_parts(
                &metadata,
                serde_json::from_value(spec).map_err(|e| e.to_string()),
                status,
            );
            let again = again.unwrap();
            assert_eq!((again.trouble.as_deref(), again.rules.priority), (Some(expected), 7));
        }
    }
}
