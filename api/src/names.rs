//! Names by which users and Fluxqueue talk to each other: labels, annotations, gates, scheduler
//! names.
//!
//! Fluxqueue's own have one prefix, `fluxqueue/`. Those of the fluxqueue prototype, fluxnetes and
//! Fluence keep their meaning as aliases.

use std::collections::BTreeMap;

use crate::WorkloadKind;
use crate::syntax::LABEL_LENGTH_MAX;
use crate::text::NAME_BYTES_MAX;

/// The API group of FluxJob.
pub const GROUP: &str = "jobs.converged-computing.org";

/// The `spec.schedulerName` that is served unless configured otherwise.
pub const SCHEDULER_NAME: &str = "fluxqueue";

/// The `spec.schedulerName` values of the systems that Fluxqueue continues. They are served only if
/// the settings say so: beside one of these systems both would bind the same pods.
pub const SEED_SCHEDULER_NAMES: [&str; 3] = ["FluxionScheduler", "fluxnetes", "fluence"];

/// The scheduling gate that Fluxqueue removes from its own pods once it has decided.
pub const GATE: &str = "fluxqueue";

/// Label of a pod: the group to which it belongs.
pub const POD_GROUP: &str = "fluxqueue/pod-group";

/// Label of a pod: how many pods of its group start together.
pub const GROUP_SIZE: &str = "fluxqueue/group-size";

/// Label pairs that form a group: the group's name, and how many of its pods start together.
/// The first pair of which a pod carries both counts. All but the first are aliases.
pub const GROUP_LABELS: [(&str, &str); 5] = [
    (POD_GROUP, GROUP_SIZE),
    ("fluxqueue.pod-group", "fluxqueue.group-size"),
    ("fluxnetes.group-name", "fluxnetes.group-size"),
    ("scheduling.x-k8s.io/pod-group", "fluence.group-size"),
    ("fluence.pod-group", "fluence.group-size"),
];

/// Annotation of a pod, or of the object that makes it: how long it runs at most, as a Flux
/// Standard Duration (RFC 23), a Kubernetes duration, or a bare number of seconds; `unlimited` for
/// a service.
pub const WALLTIME: &str = "fluxqueue/walltime";

/// Annotation of a pod, or of the object that makes it: all pods of the job that carry it are in
/// one part of this level of the machine, or none starts. The value is the name of a level in the
/// settings, such as `rack`, or a node label of the level.
pub const REQUIRED_LEVEL: &str = "fluxqueue/required-level";

/// Annotation beside [`REQUIRED_LEVEL`], [`PREFERRED_LEVEL`] or [`SPREAD_LEVEL`]: `role` applies
/// them to the pods of each role of the job separately, `job` (default) to all together.
pub const LEVEL_SCOPE: &str = "fluxqueue/level-scope";

/// Annotation of a pod, or of the object that makes it: the pods of each role are divided into
/// slices, and each slice is in one part of this level; see [`SLICE_SIZE`].
pub const SLICE_LEVEL: &str = "fluxqueue/slice-level";

/// Annotation beside [`SLICE_LEVEL`]: how many pods a slice has. In an Indexed Job the first slice
/// has the indexes from 0 on; of several Jobs of one role in a JobSet, the pods of the first Job
/// come first.
pub const SLICE_SIZE: &str = "fluxqueue/slice-size";

/// Annotation of a pod, or of the object that makes it: the pods of the job are in one part of this
/// level if that is possible now, else in as few parts as possible.
pub const PREFERRED_LEVEL: &str = "fluxqueue/preferred-level";

/// Annotation of a pod, or of the object that makes it: the pods of the job are spread over the
/// parts of this level; see [`MAX_PER_PART`] and [`MAX_SKEW`].
pub const SPREAD_LEVEL: &str = "fluxqueue/spread-level";

/// Annotation beside [`SPREAD_LEVEL`]: how many of these pods one part may have at most.
pub const MAX_PER_PART: &str = "fluxqueue/max-per-part";

/// Annotation beside [`SPREAD_LEVEL`]: by how much the numbers of these pods in any two parts may
/// differ at most.
pub const MAX_SKEW: &str = "fluxqueue/max-skew";

/// Annotation of a pod, or of the object that makes it: `true` asks for nodes alone. The job gets
/// only nodes that no other pods use, and Fluxqueue puts no other pods on them; pods of DaemonSets
/// do not count.
pub const EXCLUSIVE: &str = "fluxqueue/exclusive";

/// Label of a pod, or of the object that makes it: the queue in which it waits.
pub const QUEUE_NAME: &str = "fluxqueue/queue-name";

/// Annotation of a pod that has its node: the queue that it is charged to, whatever its labels say
/// later. It comes with the Binding, and only Fluxqueue writes it.
pub const CHARGED_QUEUE: &str = "fluxqueue/charged-queue";

/// Annotation of a pod, or of an object that makes pods: the user that created the object.
/// `fluxqueue webhook` writes it, over any value that a client sends, and it never changes.
pub const USER: &str = "fluxqueue/user";

/// Annotation of a namespace: the queue for its jobs that name none.
pub const DEFAULT_QUEUE: &str = "fluxqueue/default-queue";

/// Annotation of the namespace of Fluxqueue: while it is there, no job starts. The value names the
/// user and the reason, for people.
pub const PAUSED: &str = "fluxqueue/paused";

/// The queue of jobs for which no queue is named. It exists even without an object.
pub const QUEUE_DEFAULT: &str = "default";

/// Label of a namespace or of an object: [`ENABLED`] gives pods that name no scheduler to
/// Fluxqueue; [`DISABLED`] on an object leaves it alone.
pub const ADMISSION: &str = "fluxqueue/admission";

/// Label of a namespace: [`ENABLED`] gives Fluxqueue's pods there the scheduling gate `fluxqueue`
/// when they are created.
pub const ADMISSION_GATE: &str = "fluxqueue/gate";

/// Label of a namespace: with [`ENABLED`], pods and templates that the scheduler would refuse later
/// are refused there at once.
pub const ADMISSION_STRICT: &str = "fluxqueue/strict";

/// Label of a namespace: [`ENABLED`] suspends Fluxqueue's Jobs there until they have a place, so
/// that they wait without pods.
pub const ADMISSION_SUSPEND: &str = "fluxqueue/suspend";

/// Label of a namespace: [`ENABLED`] refuses there all pods and templates that do not name
/// Fluxqueue, or name a node.
pub const REQUIRED: &str = "fluxqueue/required";

/// Label of a namespace with [`REQUIRED`]: [`ENABLED`] excepts DaemonSets and their pods.
pub const REQUIRED_EXCEPT_DAEMONSETS: &str = "fluxqueue/daemonsets";

/// Annotation of a Job: the Job is suspended until Fluxqueue has a place for it, and only Fluxqueue
/// releases it.
pub const SUSPENDED: &str = "fluxqueue/suspended";

/// Annotation of a Job: when Fluxqueue had a place for the Job and released it.
pub const RELEASED_AT: &str = "fluxqueue/released-at";

/// The value that turns one of the labels for admission on.
pub const ENABLED: &str = "enabled";

/// The value of [`ADMISSION`] that leaves an object alone.
pub const DISABLED: &str = "disabled";

/// The queue of services that name none, if there is a FluxQueue of that name and their namespace
/// may use it.
pub const QUEUE_SERVICES: &str = "services";

/// Label of a FluxJob: the uid of its workload; for a group, the uid of its first pod.
pub const WORKLOAD_UID: &str = "fluxqueue/workload-uid";

/// Label of a FluxJob: the name of its workload, if that fits into a label.
pub const WORKLOAD_NAME: &str = "fluxqueue/workload-name";

/// Label of a FluxJob: the kind of its workload, in lower case.
pub const WORKLOAD_KIND: &str = "fluxqueue/workload-kind";

/// Label of every object that Fluxqueue makes.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "fluxqueue");

/// Returns the labels by which a FluxJob is found from its workload. A name that is too long for a
/// label is left out: such a FluxJob is found by the field `spec.workloadRef.name`.
pub fn fluxjob_labels(kind: WorkloadKind, name: &str, uid: &str) -> BTreeMap<String, String> {
    let fits = |value: &str| !value.is_empty() && value.len() <= LABEL_LENGTH_MAX;
    let all =
        [MANAGED_BY, (WORKLOAD_KIND, kind.suffix()), (WORKLOAD_NAME, name), (WORKLOAD_UID, uid)];
    let fitting = all.into_iter().filter(|(_, value)| fits(value));
    fitting.map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
}

/// Returns the name of the FluxJob of a workload: `<name>-<suffix>-<five characters made of the
/// uid>`, such as `lammps-job-4f7qa`. A later workload of the same name has another uid, so it gets
/// another FluxJob.
///
/// `name` may be a label value (a group's name): a character that no object's name may have becomes
/// `-` or lower case, and a name that is too long is cut. Names that become alike by this still
/// differ in the part made of the uid.
pub fn fluxjob_name(name: &str, workload: WorkloadKind, uid: &str) -> String {
    let tail = format!("{}-{}", workload.suffix(), uid_suffix(uid));
    let mut head = String::with_capacity(name.len());
    for character in name.chars().map(|c| c.to_ascii_lowercase()) {
        match character {
            'a'..='z' | '0'..='9' => head.push(character),
            _ if head.is_empty() => {}
            '.' if head.ends_with(|c: char| c.is_ascii_alphanumeric()) => head.push('.'),
            // A label of a subdomain begins with a letter or digit.
            _ if head.ends_with('.') => {}
            _ => head.push('-'),
        }
    }
    head.truncate(NAME_BYTES_MAX - tail.len() - 1);
    let head = head.trim_end_matches(['-', '.']);
    if head.is_empty() { tail } else { format!("{head}-{tail}") }
}

/// Returns kind and name of the workload in the name of a FluxJob, as far as [`fluxjob_name`] has
/// kept them: `job` and `lammps`. `None` if it has not made that name.
pub fn workload_in(fluxjob: &str) -> Option<(&str, &str)> {
    let (rest, suffix) = fluxjob.rsplit_once('-')?;
    let (name, kind) = rest.rsplit_once('-')?;
    let is_suffix = suffix.len() == 5 && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_kind = WorkloadKind::ALL.iter().any(|known| known.suffix() == kind);
    (is_suffix && is_kind).then_some((kind, name))
}

/// Returns five characters that stay the same for a uid in every version of this program: 25 bits
/// of FNV-1a, in base 32.
fn uid_suffix(uid: &str) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The upper bits of the hash have seen every byte; the lowest ones of similar uids resemble
    // each other.
    let folded = hash ^ (hash >> 32);
    let digits = folded.to_le_bytes();
    let digit = |at: usize| {
        (u16::from_le_bytes([digits[at * 5 / 8], digits[at * 5 / 8 + 1]]) >> (at * 5 % 8)) & 31
    };
    (0..5).map(|at| char::from(ALPHABET[usize::from(digit(at))])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::is_object_name;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const UID: &str = "0b1a7c52-5f0e-4a57-9d1b-3f0c0f7e2a11";

    #[test]
    fn names_have_the_kind_and_the_uid() {
        assert_eq!(fluxjob_name("lammps", WorkloadKind::Job, UID), "lammps-job-fj41v");
        assert_eq!(
            fluxjob_name("web.v1", WorkloadKind::Deployment, UID),
            "web.v1-deployment-fj41v"
        );
        assert_ne!(
            fluxjob_name("lammps", WorkloadKind::Job, UID),
            fluxjob_name("lammps", WorkloadKind::Job, "0b1a7c52-5f0e-4a57-9d1b-3f0c0f7e2a12")
        );
    }

    #[test]
    fn the_workload_is_found_in_the_name_of_its_fluxjob() {
        for kind in WorkloadKind::ALL {
            let name = fluxjob_name("web-job.v1", kind, UID);
            assert_eq!(workload_in(&name), Some((kind.suffix(), "web-job.v1")));
        }
        for other in ["lammps", "lammps-job", "lammps-job-1", "lammps-task-fj41v", "job-fj41v"] {
            assert_eq!(workload_in(other), None, "{other}");
        }
    }

    #[test]
    fn label_values_become_names() {
        assert_eq!(
            fluxjob_name("My_Group..1.-x", WorkloadKind::Group, UID),
            "my-group.1.x-group-fj41v"
        );
        assert_eq!(fluxjob_name("a-.b", WorkloadKind::Group, UID), "a--b-group-fj41v");
        assert_eq!(fluxjob_name("", WorkloadKind::Group, UID), "group-fj41v");
        assert_eq!(fluxjob_name("__", WorkloadKind::Group, UID), "group-fj41v");
        assert_eq!(fluxjob_name("x_", WorkloadKind::Group, UID), "x-group-fj41v");
    }

    #[test]
    fn long_names_are_cut() {
        let name = fluxjob_name(&"n".repeat(253), WorkloadKind::StatefulSet, UID);
        assert_eq!(name.len(), 253);
        assert!(name.ends_with("n-statefulset-fj41v"), "{name}");
    }

    #[test]
    fn a_fluxjob_is_found_by_labels_that_can_hold_it() {
        let labels = |name: &str| fluxjob_labels(WorkloadKind::Job, name, UID);
        assert_eq!(labels("lammps")[WORKLOAD_NAME], "lammps");
        assert_eq!(labels("lammps")[WORKLOAD_UID], UID);
        assert_eq!(labels(&"n".repeat(63)).len(), 4);
        assert_eq!(labels(&"n".repeat(64)).get(WORKLOAD_NAME), None);
    }

    #[test]
    fn uids_seldom_share_a_suffix() {
        let uids = (0..2000).map(|n: u32| {
            format!("{:08x}-5f0e-4a57-9d1b-3f0c0f7e2a11", n.wrapping_mul(0x9e37_79b9))
        });
        let suffixes: BTreeSet<String> = uids.map(|uid| uid_suffix(&uid)).collect();
        // 2000 of 2^25: 0.06 pairs are expected to collide.
        assert!(suffixes.len() >= 1998, "{}", suffixes.len());
    }

    proptest! {
        #[test]
        fn every_name_is_valid(name in "[A-Za-z0-9._-]{0,300}", uid in "[0-9a-f-]{0,36}") {
            let made = fluxjob_name(&name, WorkloadKind::ReplicaSet, &uid);
            prop_assert!(is_object_name(&made), "{}", made);
        }

        #[test]
        fn valid_names_stay_readable(
            name in "[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?(\\.[a-z0-9]{1,8})?",
        ) {
            let made = fluxjob_name(&name, WorkloadKind::Pod, UID);
            prop_assert!(made.starts_with(&format!("{name}-pod-")), "{}", made);
        }
    }
}
