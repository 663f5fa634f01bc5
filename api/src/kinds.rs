//! The kinds of workloads, and the facts about each in one table: its words, and where the API
//! server serves its objects. The behaviour of jobs of a kind is not decided here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of workload behind a FluxJob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum WorkloadKind {
    /// A lone pod.
    #[default]
    Pod,
    /// A Job.
    Job,
    /// A Deployment.
    Deployment,
    /// A ReplicaSet.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
    /// Pods that share a group label.
    Group,
    /// Pods that name one PodGroup of Kubernetes' own.
    PodGroup,
}

/// The facts about a kind of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindFacts {
    /// The kind as it is written in a FluxJob or FluxQueue.
    pub name: &'static str,
    /// The kind in lower case: the suffix of a FluxJob's name, and a label's value.
    pub suffix: &'static str,
    /// Where the objects are; `None` for pods that share a label, which are no object.
    pub served: Option<Served>,
    /// Further words of users for the kind, in lower case.
    pub aliases: &'static [&'static str],
}

/// The place of a kind of objects at the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Its group and version, as an object names them.
    pub api_version: &'static str,
    /// Its resource.
    pub plural: &'static str,
}

impl Served {
    /// Returns the API group; that of pods is empty.
    pub fn group(&self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

impl WorkloadKind {
    /// All kinds, in the order in which messages list them.
    pub const ALL: [WorkloadKind; 7] = [
        WorkloadKind::Job,
        WorkloadKind::Pod,
        WorkloadKind::Group,
        WorkloadKind::PodGroup,
        WorkloadKind::Deployment,
        WorkloadKind::ReplicaSet,
        WorkloadKind::StatefulSet,
    ];

    /// The kinds of objects that make pods.
    pub const CONTROLLERS: [WorkloadKind; 4] = [
        WorkloadKind::Job,
        WorkloadKind::Deployment,
        WorkloadKind::ReplicaSet,
        WorkloadKind::StatefulSet,
    ];

    /// Returns the facts about the kind.
    pub const fn facts(self) -> &'static KindFacts {
        match self {
            WorkloadKind::Pod => &KindFacts {
                name: "Pod",
                suffix: "pod",
                served: Some(Served { api_version: "v1", plural: "pods" }),
                aliases: &["po"],
            },
            WorkloadKind::Job => &KindFacts {
                name: "Job",
                suffix: "job",
                served: Some(Served { api_version: "batch/v1", plural: "jobs" }),
                aliases: &["job.batch"],
            },
            WorkloadKind::Deployment => &KindFacts {
                name: "Deployment",
                suffix: "deployment",
                served: Some(Served { api_version: "apps/v1", plural: "deployments" }),
                aliases: &["deploy"],
            },
            WorkloadKind::ReplicaSet => &KindFacts {
                name: "ReplicaSet",
                suffix: "replicaset",
                served: Some(Served { api_version: "apps/v1", plural: "replicasets" }),
                aliases: &["rs"],
            },
            WorkloadKind::StatefulSet => &KindFacts {
                name: "StatefulSet",
                suffix: "statefulset",
                served: Some(Served { api_version: "apps/v1", plural: "statefulsets" }),
                aliases: &["sts"],
            },
            WorkloadKind::Group => {
                &KindFacts { name: "Group", suffix: "group", served: None, aliases: &[] }
            }
            WorkloadKind::PodGroup => &KindFacts {
                name: "PodGroup",
                suffix: "podgroup",
                served: Some(Served {
                    api_version: "scheduling.k8s.io/v1beta1",
                    plural: "podgroups",
                }),
                aliases: &[],
            },
        }
    }

    /// Returns the kind as it is written in a FluxJob or FluxQueue.
    pub fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// Returns the kind in lower case: the suffix of a FluxJob's name, and a label's value.
    pub fn suffix(self) -> &'static str {
        self.facts().suffix
    }

    /// Returns the group and version of its objects, as an object names them.
    pub fn api_version(self) -> Option<&'static str> {
        self.facts().served.map(|served| served.api_version)
    }

    /// Returns the kind of an object that makes pods, by its API group, of any version.
    pub fn of_controller(group: &str, kind: &str) -> Option<Self> {
        let is_it = |facts: &KindFacts| {
            facts.name == kind && facts.served.is_some_and(|served| served.group() == group)
        };
        Self::CONTROLLERS.into_iter().find(|controller| is_it(controller.facts()))
    }

    /// Returns the kind that a word of a user names, in any case.
    pub fn of_word(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let is_it = |facts: &KindFacts| {
            facts.suffix == word
                || facts.served.is_some_and(|served| served.plural == word)
                || facts.aliases.contains(&word.as_str())
        };
        Self::ALL.into_iter().find(|kind| is_it(kind.facts()))
    }

    /// True if pods say of themselves that they belong together, and no object makes them all.
    pub fn is_group(self) -> bool {
        matches!(self, WorkloadKind::Group | WorkloadKind::PodGroup)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kind_of_a_workload_is_one_of_a_closed_set() {
        for kind in WorkloadKind::ALL {
            let name = kind.as_str();
            let read: WorkloadKind = serde_json::from_value(json!(name)).unwrap();
            assert_eq!((read, json!(read)), (kind, json!(name)));
            assert_eq!(kind.suffix(), name.to_lowercase());
        }
        for bad in [json!(1), json!("job"), json!("JobSet")] {
            assert!(serde_json::from_value::<WorkloadKind>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_kind_is_missing() {
        let schema = serde_json::to_value(schemars::schema_for!(WorkloadKind)).unwrap();
        let kinds = schema["oneOf"].as_array().unwrap();
        assert_eq!(kinds.len(), WorkloadKind::ALL.len(), "{schema}");
    }

    #[test]
    fn no_word_names_two_kinds() {
        for kind in WorkloadKind::ALL {
            let KindFacts { suffix, served, aliases, .. } = *kind.facts();
            let words = aliases.iter().copied().chain([suffix]);
            for word in words.chain(served.map(|served| served.plural)) {
                assert_eq!(WorkloadKind::of_word(word), Some(kind), "{word}");
                assert_eq!(WorkloadKind::of_word(&word.to_uppercase()), Some(kind), "{word}");
            }
        }
        assert_eq!(WorkloadKind::of_word("groups"), None);
    }

    #[test]
    fn objects_that_make_pods_are_known_by_group_and_kind() {
        for kind in WorkloadKind::CONTROLLERS {
            let group = kind.facts().served.unwrap().group();
            assert_eq!(WorkloadKind::of_controller(group, kind.as_str()), Some(kind));
            assert_eq!(WorkloadKind::of_controller("example.org", kind.as_str()), None);
        }
        for (group, kind) in
            [("", "Pod"), ("scheduling.k8s.io", "PodGroup"), ("", "Group"), ("batch", "CronJob")]
        {
            assert_eq!(WorkloadKind::of_controller(group, kind), None, "{kind}");
        }
    }
}
