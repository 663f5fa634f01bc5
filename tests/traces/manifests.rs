//! Traces as manifests: with pods, records and Bindings, the whole core starts jobs at the same
//! times as the plain simulator.

use std::fmt::Write as _;
use std::path::Path;

use fluxion_sys::FunctionTable;
use fluxqueue::simulate::progress::Progress;
use fluxqueue::simulate::{Outcome, world};
use fluxqueue_core::{CoreSettings, QueuePolicy};

use crate::against_plain::settings;
use crate::command::{Scratch, simulate, text};
use crate::plain::{self, Job, Policy};
use crate::random;

/// Makes nodes that take one pod each.
fn cluster(nodes: usize) -> String {
    let mut text = String::new();
    for node in 0..nodes {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: node-{node:03}}}\nstatus: {{allocatable: {{pods: \"1\"}}}}\n"
        );
    }
    text
}

/// Makes each job a Job whose pods all run at once. Every third becomes a group of pods.
fn workload(jobs: &[Job]) -> String {
    let mut jobs: Vec<&Job> = jobs.iter().collect();
    jobs.sort_by_key(|job| (job.submit, job.number));
    let mut text = String::new();
    for Job { number, submit, nodes, walltime, run } in jobs {
        let run = run.min(walltime);
        let annotations = format!(
            "{{fluxqueue/walltime: \"{walltime}\", fluxqueue/simulated-submit: \"{submit}\", fluxqueue/simulated-run: \"{run}\"}}"
        );
        let spec = "restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: work, image: none}]";
        if number % 3 != 0 {
            let _ = write!(
                text,
                "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: \"{number:04}\", annotations: {annotations}}}\n\
                 spec: {{parallelism: {nodes}, completions: {nodes}, template: {{spec: {{{spec}}}}}}}\n"
            );
            continue;
        }
        for pod in 0..*nodes {
            let labels = format!(
                "{{fluxqueue.pod-group: \"{number:04}\", fluxqueue.group-size: \"{nodes}\"}}"
            );
            let _ = write!(
                text,
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: pod-{number:04}-{pod}, labels: {labels}, annotations: {annotations}}}\n\
                 spec: {{{spec}}}\n"
            );
        }
    }
    text
}

fn simulated(jobs: &[Job], nodes: usize, settings: &CoreSettings) -> Outcome {
    let cluster = Scratch::new("cluster.yaml", cluster(nodes));
    let workload = Scratch::new("workload.yaml", workload(jobs));
    let files = (Path::new(cluster.path()), Path::new(workload.path()));
    world::run(files, settings, FunctionTable::builtin(), &mut Progress::none()).unwrap()
}

fn compare(policy: Policy, settings: &CoreSettings, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let (jobs, nodes) = random::trace(seed);
        let outcome = simulated(&jobs, nodes, settings);
        assert_eq!(outcome.skipped, [], "seed {seed}");
        let mut starts: Vec<(u64, u64, u64)> = outcome
            .ran
            .iter()
            .map(|job| (job.job.rsplit('/').next().unwrap().parse().unwrap(), job.start, job.end))
            .collect();
        starts.sort_unstable();
        let expected = plain::run(&jobs, nodes, policy).into_iter();
        let expected: Vec<(u64, u64, u64)> =
            expected.map(|(number, ran)| (number, ran.start, ran.end)).collect();
        assert_eq!(starts, expected, "seed {seed}, {policy:?}");
    }
}

#[test]
fn fcfs() {
    compare(Policy::Fcfs, &settings(QueuePolicy::Fcfs, 64), 0..30);
}

#[test]
fn easy() {
    compare(Policy::Backfill(1), &settings(QueuePolicy::Easy, 64), 0..60);
}

#[test]
fn hybrid() {
    compare(Policy::Backfill(2), &settings(QueuePolicy::Hybrid, 2), 0..60);
}

#[test]
fn conservative() {
    compare(Policy::Backfill(usize::MAX), &settings(QueuePolicy::Conservative, 64), 0..60);
}

/// The output in the guide is compared in [`crate::command`].
#[test]
fn what_never_starts_is_listed_with_the_reason() {
    let said = simulate(&[
        "--cluster",
        "tests/traces/cluster.yaml",
        "--workload",
        "tests/traces/workload.yaml",
    ]);
    let listed = "1 job is skipped: it never started (0/3 nodes are available: 3 Insufficient nvidia.com/gpu): pod/too-many-gpus";
    assert!(text(&said.stdout).contains(listed), "{}{}", text(&said.stdout), text(&said.stderr));
}

/// Nodes in racks, each with room for one pod.
const RACKS: &str = "---
{kind: Node, metadata: {name: a1, labels: {name: a1, rack: a}}, status: {allocatable: {pods: '1'}}}
---
{kind: Node, metadata: {name: a2, labels: {rack: a}}, status: {allocatable: {pods: '1'}}}
---
{kind: Node, metadata: {name: b1, labels: {rack: b}}, status: {allocatable: {pods: '1'}}}
";

/// A gang that waits for a rack, and a basic group of which the pods start where they can.
const GROUPS: &str = "
kind: Pod
metadata: {name: early, annotations: {fluxqueue/walltime: '100'}}
spec: {nodeSelector: {name: a1}, restartPolicy: Never}
---
kind: Pod
metadata: {name: ring-0}
spec: {schedulingGroup: {podGroupName: ring}, restartPolicy: Never}
---
kind: Pod
metadata: {name: ring-1}
spec: {schedulingGroup: {podGroupName: ring}, restartPolicy: Never}
---
kind: Pod
metadata: {name: loose-0}
spec: {schedulingGroup: {podGroupName: loose}, restartPolicy: Never}
---
kind: Pod
metadata: {name: loose-1, annotations: {fluxqueue/walltime: '30'}}
spec: {schedulingGroup: {podGroupName: loose}, restartPolicy: Never}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: ring}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  schedulingConstraints: {topology: [{key: rack}]}
  workloadRef: {workloadName: train, templateName: ring}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: Workload
metadata: {name: train, annotations: {fluxqueue/walltime: '200'}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: loose, annotations: {fluxqueue/walltime: '50'}}
spec: {schedulingPolicy: {basic: {}}}
";

#[test]
fn pods_start_as_their_pod_groups_say() {
    let cluster = Scratch::new("racks.yaml", RACKS);
    let workload = Scratch::new("groups.yaml", GROUPS);
    let args = ["--cluster", cluster.path(), "--workload", workload.path(), "--output", "csv"];
    let said = simulate(&args);
    let expected = "job,start,end\npod/early,0,100\npod/loose-0,0,50\npod/loose-1,0,30\n\
                    podgroup/ring,100,300\n";
    assert_eq!(text(&said.stdout), expected, "{}", text(&said.stderr));
}

#[test]
fn errors_in_manifests_are_printed() {
    let cluster = Scratch::new("wrong-cluster.yaml", cluster(1));
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {restartPolicy: Never}}}\n";
    let cases = [
        (
            "kind: ConfigMap\nmetadata: {name: a}\n",
            "ConfigMap a: is not of kind Pod, Job, Deployment",
        ),
        (job, "Job a: has neither the annotation fluxqueue/simulated-run nor fluxqueue/walltime"),
        (
            "kind: Pod\nmetadata: {name: a, annotations: {fluxqueue/simulated-run: soon}}\nspec: {}\n",
            "is not a duration",
        ),
        ("kind: [", "workload.yaml: "),
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {schedulingGroup: {podGroupName: ring}}\n",
            "Pod a: schedulingGroup: PodGroup default/ring is not in the file",
        ),
        (
            "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\n\
             metadata: {name: a, annotations: {fluxqueue/walltime: soon}}\n",
            "PodGroup a: metadata.annotations[fluxqueue/walltime]: \"soon\" is not a duration",
        ),
        (
            "apiVersion: scheduling.k8s.io/v2\nkind: Workload\nmetadata: {name: a}\n",
            "Workload a: apiVersion: \"v2\" is not known",
        ),
    ];
    for (manifest, expected) in cases {
        let workload = Scratch::new("wrong-workload.yaml", manifest);
        let said = simulate(&["--cluster", cluster.path(), "--workload", workload.path()]);
        assert!(!said.status.success() && said.stdout.is_empty());
        assert!(text(&said.stderr).contains(expected), "{}", text(&said.stderr));
    }
}
