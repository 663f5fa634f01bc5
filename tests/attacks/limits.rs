//! Limits of queues, and ways around them.

use super::tenants::Tenants;
use crate::harness::{ControlPlane, job, pod, until};
use crate::newer;

const NODES: &str = "groups: [{namePrefix: n-, count: 3, cpu: '4', memory: 16Gi, pods: 110}]";

/// Makes a FluxQueue with this spec.
fn queue(name: &str, spec: &str) -> String {
    format!(
        "
apiVersion: jobs.converged-computing.org/v1alpha1
kind: FluxQueue
metadata: {{name: {name}}}
spec: {spec}
"
    )
}

/// Makes a Job with this label or annotation on its pods.
fn with(job: &str, metadata: &str) -> String {
    job.replace("  template:\n", &format!("  template:\n    metadata: {metadata}\n"))
}

/// Checks the set-up itself: in team-a alice has the rights of the role edit, and in team-b none.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_tenant_reaches_no_other_namespace_by_itself() {
    let tenants = Tenants::start(
        "groups: [{namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}]",
        &[],
    );
    let (alice, bob) = (tenants.alice(), tenants.bob());
    bob.create(&job("work", 2, "1", "infinity"));
    bob.seen_by_admin().running(2);
    let (ok, _, error) = alice.try_kubectl(&["get", "pods", "--all-namespaces"], "");
    assert!(!ok && error.contains("Forbidden"), "{error}");
    alice.create(&pod("small", "1", "infinity", ""));
    alice.seen_by_admin().running(1);
    let (ok, _, error) = alice.try_kubectl(&["create", "-f", "-"], &pod("large", "4", "1", ""));
    assert!(!ok && error.contains("exceeded quota"), "{error}");
    drop(tenants.fluxqueue);
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_running_job_does_not_leave_the_queue_whose_limit_it_uses() {
    let mut tenants = Tenants::start(NODES, &[]);
    let admin = tenants.alice().seen_by_admin();
    admin.apply(&queue("gpu", "{limits: {perNamespace: {runningJobs: 1}}}"));
    admin.apply(&queue("other", "{}"));
    let labelled = |name: &str| {
        with(&job(name, 1, "100m", "infinity"), "{labels: {fluxqueue/queue-name: gpu}}")
    };
    tenants.alice().create(&labelled("one"));
    admin.state("one", "Running");
    tenants.alice().create(&labelled("two"));
    let limited = |job: &serde_json::Value| job["status"]["blockedBy"][0]["reason"] == "QueueLimit";
    admin.flux_job("two", "is at the limit", limited);
    let pods = ["label", "pods", "-l", "batch.kubernetes.io/job-name=one", "--overwrite"];
    for name in ["nowhere", "other"] {
        let label = format!("fluxqueue/queue-name={name}");
        let (ok, _, error) = tenants.alice().try_kubectl(&[&pods[..], &[&label]].concat(), "");
        assert!(ok, "{error}");
    }
    let one = admin.state("one", "Running");
    let name = one["metadata"]["name"].as_str().expect("a name");
    let wish = crate::harness::overrides(r#""queueName": "other""#);
    let (ok, _, error) =
        tenants.alice().try_kubectl(&["patch", "fluxjob", name, "--type=merge", "-p", &wish], "");
    assert!(ok, "{error}");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let admin_sees = |tenants: &Tenants| {
        let admin = tenants.alice().seen_by_admin();
        assert_eq!(admin.state("one", "Running")["status"]["queueName"], "gpu");
        admin.flux_job("two", "is at the limit", limited);
        admin.running(1);
    };
    admin_sees(&tenants);
    // A new process reads the queue from the pod.
    tenants.fluxqueue.kill();
    tenants.fluxqueue = tenants.plane.fluxqueue(&[]);
    let seen = tenants.alice().seen_by_admin();
    tenants.alice().create(&labelled("three"));
    seen.state("three", "Pending");
    admin_sees(&tenants);
    let (ok, _, error) = tenants.alice().try_kubectl(&["delete", "job", "one"], "");
    assert!(ok, "{error}");
    seen.state("two", "Running");
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn nodes_alone_are_not_had_for_the_price_of_small_pods() {
    let tenants = Tenants::start(NODES, &[]);
    let admin = tenants.alice().seen_by_admin();
    admin.apply(&queue("default", "{limits: {perNamespace: {resources: {cpu: 4}}}}"));
    let squat = job("squat", 3, "1m", "infinity").replace(
        "      schedulerName: fluxqueue\n",
        "      schedulerName: fluxqueue\n      topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, \
         whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: squat}}}]\n",
    );
    let squat = with(&squat, "{labels: {app: squat}, annotations: {fluxqueue/exclusive: 'true'}}");
    tenants.alice().create(&squat);
    let blocked = admin.flux_job("squat", "is at the limit", |job| {
        job["status"]["blockedBy"][0]["reason"] == "QueueLimit"
    });
    let message = blocked["status"]["blockedBy"][0]["message"].as_str().expect("a message");
    assert!(message.contains("12 cpu asked for"), "{message}");
    // Alice may have a single node.
    let one = |name: &str| {
        with(&job(name, 1, "1m", "infinity"), "{annotations: {fluxqueue/exclusive: 'true'}}")
    };
    tenants.alice().create(&one("one"));
    admin.state("one", "Running");
    tenants.alice().create(&one("two"));
    admin.flux_job("two", "is at the limit", |job| {
        job["status"]["blockedBy"][0]["reason"] == "QueueLimit"
    });
    tenants.bob().create(&job("victim", 2, "2", "infinity"));
    tenants.bob().seen_by_admin().running(2);
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn batch_work_does_not_get_into_the_queue_of_services() {
    let tenants = Tenants::start(NODES, &[]);
    let (alice, admin) = (tenants.alice(), tenants.alice().seen_by_admin());
    // The check is the one that docs/queues.md shows.
    let text = include_str!("../../docs/queues.md");
    let documented = text.split("```yaml\n").find_map(|part| {
        let manifest = part.split("```").next()?;
        manifest.contains("metadata: {name: services}").then(|| manifest.to_owned())
    });
    admin.apply(&documented.expect("the queue of services in docs/queues.md"));
    tenants.plane.kubectl(&["label", "namespace", "team-a", "services=allowed"]);
    until("the queue to be there", || {
        admin.plane.try_kubectl(&["get", "fluxqueue", "services"], "").0.then_some(())
    });
    let jumper = with(
        &job("jumper", 1, "100m", "infinity"),
        "{annotations: {fluxqueue/walltime: unlimited}}",
    );
    alice.create(&jumper);
    assert_eq!(admin.state("jumper", "Running")["status"]["queueName"], "default");
    alice
        .create(&with(&job("named", 1, "100m", "1"), "{labels: {fluxqueue/queue-name: services}}"));
    let refused = admin.state("named", "Refused");
    let message = refused["status"]["blockedBy"][0]["message"].as_str().expect("a message");
    assert!(message.contains("takes no Job"), "{message}");
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_quota_refuses_anti_affinity_to_other_namespaces() {
    let tenants = Tenants::start(NODES, &[]);
    let quota = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: no-cross-namespace}
spec:
  hard: {pods: '0'}
  scopeSelector: {matchExpressions: [{scopeName: CrossNamespacePodAffinity, operator: Exists}]}
";
    let hermit = pod("hermit", "1m", "1", "").replace(
        "spec:\n",
        "spec:\n  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
         {topologyKey: topology.kubernetes.io/zone, labelSelector: {}, namespaceSelector: {}}]}}\n",
    );
    tenants.alice().seen_by_admin().apply(quota);
    until("the quota to count", || {
        let (ok, _, error) =
            tenants.alice().try_kubectl(&["create", "--dry-run=server", "-f", "-"], &hermit);
        (!ok && error.contains("exceeded quota: no-cross-namespace")).then_some(())
    });
    tenants.alice().create(&pod("usual", "1m", "infinity", ""));
    tenants.alice().seen_by_admin().running(1);
}

/// A Workload of one template, and its PodGroup, with these annotations.
fn workload_and_group(of_workload: &str, of_group: &str) -> [(&'static str, String); 2] {
    let head = "apiVersion: scheduling.k8s.io/v1beta1";
    let policy = "schedulingPolicy: {gang: {minCount: 1}}";
    let workload = format!(
        "{{{head}, kind: Workload, metadata: {{name: train, annotations: {of_workload}}}, \
         spec: {{podGroupTemplates: [{{name: ring, {policy}}}]}}}}"
    );
    let group = format!(
        "{{{head}, kind: PodGroup, metadata: {{name: ring, annotations: {of_group}}}, \
         spec: {{{policy}, workloadRef: {{workloadName: train, templateName: ring}}}}}}"
    );
    [("workload/train", workload), ("podgroup/ring", group)]
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_group_does_not_change_the_walltime_of_a_pod_that_runs() {
    if newer::is_left_out("limits::a_group_does_not_change_the_walltime_of_a_pod_that_runs") {
        return;
    }
    let plane = ControlPlane::start(NODES, &["--workload-with-job"]);
    let tenants = Tenants::on(plane, &[]);
    let admin = tenants.alice().seen_by_admin();
    let resources = "--resource=pods,podgroups.scheduling.k8s.io,workloads.scheduling.k8s.io";
    let verbs = "--verb=get,list,create,patch,update,delete";
    admin.kubectl(&["create", "role", "changer", verbs, resources]);
    admin.kubectl(&["create", "rolebinding", "hugo", "--role=changer", "--user=hugo"]);
    let as_hugo = |tenants: &Tenants, args: &[&str], stdin: &str| {
        let args = [args, &["-n", "team-a", "--as", "hugo"]].concat();
        tenants.plane.try_kubectl(&args, stdin)
    };
    until("the role to count", || as_hugo(&tenants, &["get", "podgroups"], "").0.then_some(()));
    for (_, manifest) in workload_and_group("{fluxqueue/walltime: 1h}", "{}") {
        admin.apply(&manifest);
    }
    let named = "spec:\n  schedulingGroup: {podGroupName: ring}";
    admin.apply(&pod("ring-0", "100m", "infinity", "").replace("spec:", named));
    admin.running(1);
    let is_as_before = |tenants: &Tenants, after: &str| {
        std::thread::sleep(std::time::Duration::from_secs(3));
        let record = tenants.alice().seen_by_admin().state("ring", "Running");
        assert_eq!(record["status"]["walltimeSeconds"], 3600, "{after}: {record}");
    };
    is_as_before(&tenants, "the start");
    let (longer, shorter) = ("fluxqueue/walltime=9h", "fluxqueue/walltime=1s");
    for (object, walltime) in [
        ("workload/train", longer),
        ("workload/train", "fluxqueue/walltime-"),
        ("podgroup/ring", longer),
        ("podgroup/ring", shorter),
    ] {
        let (ok, _, error) = as_hugo(&tenants, &["annotate", object, "--overwrite", walltime], "");
        assert!(!ok && error.contains("needs verb update on fluxjobs/walltime"), "{error}");
    }
    let (shorter, longer) = ("{fluxqueue/walltime: 1s}", "{fluxqueue/walltime: 9h}");
    for (object, manifest) in workload_and_group(shorter, longer) {
        let (ok, _, error) = as_hugo(&tenants, &["delete", "--wait=false", object], "");
        assert!(ok, "{error}");
        // A group goes with its last pod, unless a user takes the finalizer away.
        let unguarded = r#"{"metadata": {"finalizers": null}}"#;
        as_hugo(&tenants, &["patch", object, "--type=merge", "-p", unguarded], "");
        until("it to go", || (!as_hugo(&tenants, &["get", object], "").0).then_some(()));
        is_as_before(&tenants, "it is gone");
        let (ok, _, error) = as_hugo(&tenants, &["create", "-f", "-"], &manifest);
        assert!(ok, "{error}");
        is_as_before(&tenants, "it is there again");
    }
}
