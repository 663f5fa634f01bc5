//! Names by which users and Fluxqueue talk to each other: labels, annotations, gates, scheduler names.
//!
//! Those of fluxqueue, fluxnetes and Fluence keep their meaning.

/// The API group of FluxJob.
pub const GROUP: &str = "jobs.converged-computing.org";

/// `spec.schedulerName` values that are served unless configured otherwise.
pub const SCHEDULER_NAMES: [&str; 4] = ["fluxqueue", "FluxionScheduler", "fluxnetes", "fluence"];

/// The scheduling gate that Fluxqueue removes from its own pods once it has decided.
pub const GATE: &str = "fluxqueue";

/// Label pairs that form a group: the group's name, and how many of its pods start together.
/// The first pair of which a pod carries both counts.
pub const GROUP_LABELS: [(&str, &str); 4] = [
    ("fluxqueue.pod-group", "fluxqueue.group-size"),
    ("fluxnetes.group-name", "fluxnetes.group-size"),
    ("scheduling.x-k8s.io/pod-group", "fluence.group-size"),
    ("fluence.pod-group", "fluence.group-size"),
];

/// Annotation of a pod, or of the object that makes it: how long it runs at most. A Flux Standard Duration (RFC 23), a
/// Kubernetes duration, or a bare number of seconds; `unlimited` for a service.
pub const WALLTIME: &str = "fluxqueue/walltime";

/// Annotation of a FluxJob: the uid of the object it stands for (of the first pod, for a group).
pub const WORKLOAD_UID: &str = "fluxqueue/workload-uid";

/// Label of a FluxJob: the kind of the workload it stands for, in lower case.
pub const WORKLOAD_KIND: &str = "fluxqueue/workload-kind";

/// Label of every object that Fluxqueue makes.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "fluxqueue");
