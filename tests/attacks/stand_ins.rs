//! Jobs that wait without pods, in large numbers and beyond their quota.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::tenants::{Tenant, Tenants};
use crate::harness::{job, pod, until};

/// Six nodes; alice's quota is less than one of them.
const NODES: &str = "groups: [{namePrefix: n-, count: 6, cpu: '8', memory: 16Gi, pods: 110}]";

/// Most memory that the process may take above that at rest.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Time for which the place of a released Job is held.
const HELD: Duration = Duration::from_mins(1);

/// Makes a Job of this number of pods that its author has marked as suspended by Fluxqueue.
fn marked(name: &str, pods: u32, cpu: &str) -> String {
    let annotations = "annotations: {fluxqueue/suspended: 'true', fluxqueue/walltime: 10m}";
    job(name, pods, cpu, "1")
        .replace(
            &format!("metadata: {{name: {name}}}"),
            &format!("metadata: {{name: {name}, {annotations}}}"),
        )
        .replacen("\nspec:", "\nspec:\n  suspend: true", 1)
}

/// Labels alice's namespace, so that its Jobs wait without pods.
fn let_alice_suspend(tenants: &Tenants) {
    tenants.plane.kubectl(&["label", "namespace", "team-a", "fluxqueue/suspend=enabled"]);
}

/// Returns the time from the creation of one of bob's pods until it runs.
fn start_of_a_pod(bob: Tenant<'_>, name: &str) -> Duration {
    let begun = Instant::now();
    bob.create(&pod(name, "100m", "infinity", ""));
    until("the pod to run", || {
        let (ok, phase, _) =
            bob.try_kubectl(&["get", "pod", name, "-o=jsonpath={.status.phase}"], "");
        (ok && phase == "Running").then_some(())
    });
    begun.elapsed()
}

fn released(alice: Tenant<'_>) -> usize {
    let jobs = alice.seen_by_admin().list("jobs");
    jobs.iter()
        .filter(|job| job["metadata"]["annotations"]["fluxqueue/released-at"].is_string())
        .count()
}

/// Submits thirteen Jobs of 100,000 pods each. Pods that do not exist cost next to nothing, for a
/// successor too, and delay no pod of others.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn jobs_of_many_pods_that_do_not_exist_cost_nothing() {
    const JOBS: usize = 13;
    let mut tenants = Tenants::start(NODES, &[]);
    let mut before: Vec<Duration> =
        (0..5).map(|at| start_of_a_pod(tenants.bob(), &format!("before-{at}"))).collect();
    before.sort();
    let start_within = (before[2] * 3).max(Duration::from_secs(2));
    let at_rest = tenants.fluxqueue.resident_kib();
    // The mark means nothing in a namespace in which no administrator has let Jobs wait without
    // pods.
    tenants.alice().create(&marked("ignored", 100_000, "1m"));
    until("the author to be told", || {
        let events = tenants.alice().seen_by_admin().list("events.events.k8s.io");
        events.iter().any(|event| event["reason"] == "SuspensionIgnored").then_some(())
    });
    assert_eq!(tenants.alice().seen_by_admin().list("fluxjobs"), [] as [Value; 0]);
    let_alice_suspend(&tenants);
    let floods: Vec<String> =
        (1..JOBS).map(|at| marked(&format!("flood-{at}"), 100_000, "1m")).collect();
    tenants.alice().create(&floods.concat());
    let all_wait = |tenants: &Tenants| {
        until("all are on record", || {
            let jobs = tenants.alice().seen_by_admin().list("fluxjobs");
            let of_all_pods = jobs.iter().filter(|job| job["status"]["total"] == 100_000).count();
            (of_all_pods == JOBS).then_some(())
        });
    };
    all_wait(&tenants);
    for at in 0..20 {
        let note = format!("note={at}");
        let (ok, _, error) =
            tenants.alice().try_kubectl(&["annotate", "job", "flood-1", &note, "--overwrite"], "");
        assert!(ok, "{error}");
        if at % 5 == 0 {
            let took = start_of_a_pod(tenants.bob(), &format!("during-{at}"));
            assert!(took < start_within, "a pod of bob ran after {took:?}; before: {before:?}");
        }
    }
    let grown = |tenants: &Tenants| tenants.fluxqueue.resident_kib().saturating_sub(at_rest);
    assert!(grown(&tenants) < GROWTH_KIB_MAX, "{} KiB more than {at_rest}", grown(&tenants));
    tenants.fluxqueue.kill();
    tenants.fluxqueue = tenants.plane.fluxqueue(&[]);
    start_of_a_pod(tenants.bob(), "after");
    all_wait(&tenants);
    assert!(
        grown(&tenants) < GROWTH_KIB_MAX,
        "{} KiB more than {at_rest}, of a successor",
        grown(&tenants)
    );
    assert_eq!(released(tenants.alice()), 0);
}

/// Submits Jobs that take the whole machine, and whose quota admits no pod. Together they do not
/// stand in the way of others, one after the other.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn jobs_beyond_their_quota_do_not_empty_the_machine_again_and_again() {
    let tenants = Tenants::start(NODES, &[]);
    let_alice_suspend(&tenants);
    let drains: Vec<String> = (1..=3).map(|at| marked(&format!("drain-{at}"), 6, "7")).collect();
    tenants.alice().create(&drains.concat());
    let seen = tenants.alice().seen_by_admin();
    until("all are on record", || (seen.list("fluxjobs").len() == 3).then_some(()));
    // By then the longest hold of a single Job is over, and the next Job is not released.
    std::thread::sleep(HELD);
    assert!(released(tenants.alice()) <= 1, "{} were released", released(tenants.alice()));
    for at in 0..6 {
        tenants.bob().create(&job(&format!("honest-{at}"), 1, "4", "infinity"));
    }
    tenants.bob().seen_by_admin().running(6);
    assert!(released(tenants.alice()) <= 1, "{} were released", released(tenants.alice()));
    assert_eq!(seen.list("pods"), [] as [Value; 0], "the quota refuses them");
    drop(tenants.fluxqueue);
}
