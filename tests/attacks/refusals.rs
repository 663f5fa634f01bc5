//! Writes that the API server refuses or does not answer, and the jobs of others meanwhile.

use std::time::Duration;

use serde_json::Value;

use super::tenants::{Tenant, Tenants};
use crate::harness::{job, pod, within};

/// Two nodes. A job of `team-b` that requests both is the victim.
const NODES: &str = "groups: [{namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}]";

/// Message of the administrator's policy.
const WORDS: &str = "the namespace is not approved for this cluster";

/// Longest time from the end of the refusals to the start of a refused job: the last attempt came a
/// moment earlier, and the pause before the next one had doubled several times.
const NEXT_ATTEMPT: Duration = Duration::from_secs(200);

/// Makes a policy that denies one operation in `team-a`, as a security product does.
fn policy(group: &str, version: &str, resource: &str, operation: &str) -> String {
    format!(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: needs-approval}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {{apiGroups: ['{group}'], apiVersions: [{version}], operations: [{operation}], resources: [{resource}]}}
  validations: [{{expression: 'false', message: {WORDS}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: needs-approval}}
spec:
  policyName: needs-approval
  validationActions: [Deny]
  matchResources: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: team-a}}}}}}
"
    )
}

fn create_as_admin(tenants: &Tenants, manifest: &str) {
    let (ok, _, error) = tenants.plane.try_kubectl(&["create", "-f", "-"], manifest);
    assert!(ok, "kubectl create: {error}\n{manifest}");
    // A policy takes effect with a delay.
    std::thread::sleep(Duration::from_secs(5));
}

/// Waits until each of the tenant's pods has these words in its condition PodScheduled.
fn pods_are_told(tenant: Tenant<'_>, pods: usize, words: &str) {
    let says = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.iter().find(|condition| condition["type"] == "PodScheduled");
        scheduled.is_some_and(|it| it["message"].as_str().unwrap_or("").contains(words))
    };
    tenant.seen_by_admin().pods(pods, &format!("are told {words:?}"), says);
}

/// Checks that the victim, which requests the whole machine, gets it.
fn the_victim_runs(tenants: &Tenants) {
    let bob = tenants.bob();
    bob.create(&job("victim", 2, "4", "1"));
    bob.seen_by_admin().succeeded(2);
}

/// Waits until `team-a` has this number of running pods.
fn runs_in_the_end(tenants: &Tenants, pods: usize) {
    let seen = tenants.alice().seen_by_admin();
    within(NEXT_ATTEMPT, "the refused pods run", || {
        let running =
            seen.list("pods").into_iter().filter(|pod| pod["status"]["phase"] == "Running").count();
        (running == pods).then_some(())
    });
}

fn end_policy(tenants: &Tenants) {
    tenants.plane.kubectl(&["delete", "validatingadmissionpolicybinding", "needs-approval"]);
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_gang_whose_bindings_are_denied_holds_no_nodes() {
    let tenants = Tenants::start(NODES, &[]);
    create_as_admin(&tenants, &policy("", "v1", "pods/binding", "CREATE"));
    let alice = tenants.alice();
    alice.create(&job("denied", 2, "2", "infinity"));
    pods_are_told(alice, 2, WORDS);
    the_victim_runs(&tenants);
    let said = alice.seen_by_admin().flux_job("denied", "says BindFailed", |job| {
        job["status"]["blockedBy"][0]["reason"] == "BindFailed"
    });
    assert!(
        said["status"]["blockedBy"][0]["message"].as_str().unwrap_or("").contains(WORDS),
        "{said}"
    );
    end_policy(&tenants);
    runs_in_the_end(&tenants, 2);
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn lone_pods_whose_bindings_are_denied_hold_no_nodes() {
    let tenants = Tenants::start(NODES, &[]);
    create_as_admin(&tenants, &policy("", "v1", "pods/binding", "CREATE"));
    let alice = tenants.alice();
    for name in ["one", "two", "three", "four"] {
        alice.create(&pod(name, "1", "infinity", ""));
    }
    pods_are_told(alice, 4, WORDS);
    the_victim_runs(&tenants);
    end_policy(&tenants);
    runs_in_the_end(&tenants, 4);
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_job_beyond_the_quota_of_flux_jobs_holds_no_nodes() {
    let tenants = Tenants::start(NODES, &[]);
    let alice = tenants.alice();
    create_as_admin(
        &tenants,
        "
apiVersion: v1
kind: ResourceQuota
metadata: {name: records, namespace: team-a}
spec: {hard: {count/fluxjobs.jobs.converged-computing.org: '1'}}
",
    );
    // Until the quota controller has discovered the kind FluxJob, for which it looks twice a
    // minute, the quota refuses all FluxJobs. It counts them afterwards, from the next change of
    // the quota on.
    let mut services = 0;
    within(Duration::from_mins(2), "the quota is in force", || {
        services += 1;
        let change = format!(r#"{{"spec": {{"hard": {{"services": "{services}"}}}}}}"#);
        tenants.plane.kubectl(&[
            "patch",
            "resourcequota",
            "records",
            "-n",
            "team-a",
            "--type=merge",
            "-p",
            &change,
        ]);
        std::thread::sleep(Duration::from_secs(1));
        let used =
            ["get", "resourcequota", "records", "-n", "team-a", "-o", "jsonpath={.status.used}"];
        tenants.plane.kubectl(&used).contains("fluxjobs").then_some(())
    });
    alice.create(&job("first", 2, "1", "1"));
    alice.seen_by_admin().succeeded(2);
    alice.create(&job("second", 2, "2", "infinity"));
    let waiting = |pod: &Value| pod["metadata"]["labels"]["job-name"] == "second";
    alice.seen_by_admin().pods(2, "of the second job", waiting);
    within(Duration::from_mins(1), "an Event names the quota", || {
        let events = alice.seen_by_admin().list("events.events.k8s.io");
        let names_quota =
            |event: &Value| event["note"].as_str().unwrap_or("").contains("exceeded quota");
        events.iter().any(names_quota).then_some(())
    });
    the_victim_runs(&tenants);
    tenants.plane.kubectl(&["delete", "resourcequota", "records", "-n", "team-a"]);
    runs_in_the_end(&tenants, 2);
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_job_whose_status_is_invalid_holds_no_nodes() {
    let tenants = Tenants::start(NODES, &[]);
    create_as_admin(
        &tenants,
        &policy("jobs.converged-computing.org", "v1alpha1", "fluxjobs/status", "UPDATE"),
    );
    let alice = tenants.alice();
    alice.create(&job("denied", 2, "2", "infinity"));
    pods_are_told(alice, 2, WORDS);
    the_victim_runs(&tenants);
    end_policy(&tenants);
    runs_in_the_end(&tenants, 2);
}
