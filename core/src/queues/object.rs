//! Queues and namespaces as the API server has them, reduced to what concerns jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{FluxQueue, FluxQueueStatus, MaxWalltimeAction, Policy, StopPolicy, names};
use k8s_openapi::api::core::v1 as core_v1;

use super::limits::Limits;
use crate::settings::QueuePolicy;
use fluxqueue_workload::constraints::{Constraints, Requirement, Toleration, all_match, selector};
use fluxqueue_workload::metadata::{self, Labels};
use fluxqueue_workload::{Lifetime, Uid};

/// The label that every namespace has: its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A queue that an administrator has made.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueObject {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// What goes for its jobs.
    pub rules: Rules,
    /// What is on record of it.
    pub status: FluxQueueStatus,
}

/// What goes for the jobs of a queue. By default nothing that the settings do not say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules {
    /// Which namespaces may use it; `None`: all.
    pub namespaces: Option<Vec<Requirement>>,
    /// Whether those who wait may start.
    pub stop: StopPolicy,
    /// What goes for their walltimes.
    pub walltimes: Walltimes,
    /// Who may start before whom.
    pub policy: Option<QueuePolicy>,
    /// How many of those who wait may hold a reservation.
    pub queue_depth: Option<usize>,
    /// How many do under [`QueuePolicy::Hybrid`].
    pub reservation_depth: Option<usize>,
    /// How long others may go ahead of the first who waits, if nobody knows when he can start.
    pub bypass_secs: Option<u64>,
    /// Higher goes first.
    pub priority: i32,
    /// Which nodes its jobs may use, as a pod would say that tolerates everything; `None`: all.
    pub nodes: Option<Constraints>,
    /// How much its jobs may have at a time.
    pub limits: Limits,
}

/// What a queue says about walltimes, in seconds.
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
}

impl QueueObject {
    /// Reads a `FluxQueue`; the text says what is wrong with it.
    pub fn from_api(object: &FluxQueue) -> Result<Self, String> {
        let (name, uid) = metadata::name_and_uid("FluxQueue", &object.metadata).map_err(|error| error.to_string())?;
        let spec = &object.spec;
        let seconds = |seconds: Option<i64>| seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let count = |count: Option<i32>| count.and_then(|count| usize::try_from(count).ok());
        let walltimes = Walltimes {
            default_secs: seconds(spec.default_walltime_seconds),
            max_secs: seconds(spec.max_walltime_seconds),
            action: spec.max_walltime_action,
        };
        let rules = Rules {
            namespaces: spec.namespace_selector.as_ref().map(selector),
            stop: spec.stop_policy,
            walltimes,
            policy: spec.policy.map(policy_of),
            queue_depth: count(spec.queue_depth),
            reservation_depth: count(spec.reservation_depth),
            bypass_secs: seconds(spec.bypass_seconds),
            priority: spec.priority,
            limits: Limits::from_api(&spec.limits)?,
            nodes: (!spec.node_selector.is_empty()).then(|| nodes_of(&spec.node_selector)),
        };
        Ok(QueueObject { name, uid, rules, status: object.status.clone().unwrap_or_default() })
    }
}

/// The nodes with these labels, whatever their taints: whether a pod tolerates those is its own matter.
pub(super) fn nodes_of(labels: &BTreeMap<String, String>) -> Constraints {
    let everything = Toleration { key: Arc::default(), exists: true, value: Arc::default(), effect: Arc::default() };
    Constraints {
        node_selector: metadata::sorted(Some(labels)).collect(),
        tolerations: vec![everything],
        ..Constraints::default()
    }
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
    /// Jobs of this namespace may use the queue.
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
    /// How long a job is taken to run that says this: the default where it says nothing, and no more than there is at all.
    pub(crate) fn of(&self, said: Lifetime, of_settings: Option<u64>) -> Lifetime {
        let said = match (said, self.default_secs.or(of_settings), self.max_secs) {
            (Lifetime::Eventually, Some(default), max) => {
                return Lifetime::Seconds(max.map_or(default, |max| default.min(max)));
            }
            (Lifetime::Eventually, None, Some(max)) => return Lifetime::Seconds(max),
            (said, ..) => said,
        };
        match (said, self.max_secs, self.action) {
            (Lifetime::Seconds(asked), Some(max), MaxWalltimeAction::Clamp) => Lifetime::Seconds(asked.min(max)),
            (said, ..) => said,
        }
    }

    /// The maximum that this exceeds, if it does.
    pub(crate) fn exceeded_by(&self, counts: Lifetime) -> Option<u64> {
        let max = self.max_secs?;
        match counts {
            Lifetime::Seconds(asked) if asked <= max => None,
            Lifetime::Seconds(_) | Lifetime::Endless => Some(max),
            Lifetime::Eventually => None,
        }
    }
}

impl Namespace {
    /// Reads a namespace; the text says what is wrong with it.
    pub fn from_kubernetes(object: &core_v1::Namespace) -> Result<Self, String> {
        let meta = &object.metadata;
        let (name, uid) = metadata::name_and_uid("Namespace", meta).map_err(|error| error.to_string())?;
        let queue = metadata::annotation(meta, names::DEFAULT_QUEUE).filter(|queue| !queue.is_empty());
        Ok(Namespace {
            name,
            uid,
            labels: metadata::sorted(meta.labels.as_ref()).collect(),
            queue: queue.map(Arc::from),
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
        QueueObject::from_api(&serde_json::from_value(object).expect("a FluxQueue")).expect("a queue")
    }

    fn namespace(labels: &serde_json::Value) -> Namespace {
        let object = json!({"metadata": {"name": "ns", "uid": "u", "labels": labels}});
        Namespace::from_kubernetes(&serde_json::from_value(object).expect("a Namespace")).expect("a namespace")
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
            (
                json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Like", "values": ["p"]}]}}),
                false,
            ),
        ];
        for (spec, admitted) in cases {
            assert_eq!(read(&spec).rules.admits("ns", Some(&physics)), admitted, "{spec}");
        }
        let by_name = read(&json!({"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: "ns"}}}));
        assert!(by_name.rules.admits("ns", None) && !by_name.rules.admits("other", None), "known without being seen");
    }

    #[test]
    fn walltimes() {
        use Lifetime::{Endless, Eventually, Seconds};
        // default, maximum, clamps; of the settings; said; what counts, and the maximum that it exceeds
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
            assert_eq!((found, walltimes.exceeded_by(found)), (counts, exceeded), "{walltimes:?} {said:?}");
        }
    }
}
