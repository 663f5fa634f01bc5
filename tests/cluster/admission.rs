//! Pods that admission gives to Fluxqueue, objects that it refuses, and creations while the webhook
//! does not answer.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::config::KubeConfigOptions;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use crate::harness::{ControlPlane, Namespace, job, pod, root, until};
use crate::newer;
use crate::webhook::{Webhook, process};

const NODES: &str = "groups:\n- {namePrefix: n-, count: 4, cpu: '4', memory: 16Gi, pods: 110}\n";

/// Starts a control plane without kube-scheduler: pods of other schedulers stay pending.
pub(crate) fn plane() -> ControlPlane {
    ControlPlane::start(NODES, &[])
}

/// Makes a namespace with these labels, such as `fluxqueue/admission=enabled`.
pub(crate) fn labelled<'a>(
    plane: &'a ControlPlane,
    prefix: &str,
    labels: &[&str],
) -> Namespace<'a> {
    let ns = plane.namespace(prefix);
    plane.kubectl(&[&["label", "namespace", &ns.name], labels].concat());
    ns
}

/// Removes the scheduler's name from one of our manifests, as a user would write it without knowing
/// of Fluxqueue.
pub(crate) fn unnamed(manifest: &str) -> String {
    manifest.lines().filter(|line| !line.contains("schedulerName:")).collect::<Vec<_>>().join("\n")
}

fn scheduler_of(pod: &Value) -> &str {
    pod["spec"]["schedulerName"].as_str().unwrap_or_default()
}

/// Returns the scheduler that a new pod of this namespace gets. The pod is not stored.
pub(crate) fn given(ns: &Namespace<'_>) -> String {
    let args = ["create", "-n", &ns.name, "--dry-run=server", "-o", "json", "-f", "-"];
    let (ok, out, err) = ns.plane.try_kubectl(&args, &unnamed(&pod("probe", "100m", "1", "")));
    assert!(ok, "{err}");
    let stored: Value = serde_json::from_str(&out).expect("JSON");
    scheduler_of(&stored).to_owned()
}

/// Waits until new pods of this namespace go to this scheduler.
pub(crate) fn goes_to(ns: &Namespace<'_>, scheduler: &str) {
    until(&format!("pods of {} to go to {scheduler}", ns.name), || {
        (given(ns) == scheduler).then_some(())
    });
}

/// Makes manifests of the shapes of the seed projects' examples, without our scheduler's name: a
/// pod, Jobs of one and several pods with and without labels for groups, and each kind of service.
fn seeds_examples() -> String {
    let service = |kind: &str, replicas: u32, more: &str| {
        let name = format!("{}-{replicas}", kind.to_lowercase());
        format!(
            "
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  {more}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: pause, image: registry.k8s.io/pause}}]
---"
        )
    };
    let grouped = |name: &str, pods: u32, labels: &str| {
        let labels = format!("    metadata: {{labels: {{{labels}}}}}\n    spec:");
        unnamed(&job(name, pods, "100m", "infinity")).replace("    spec:", &labels)
    };
    [
        unnamed(&pod("pod", "100m", "infinity", "")),
        unnamed(&job("job-1", 1, "100m", "infinity")),
        unnamed(&job("job-2", 2, "100m", "infinity")),
        grouped("group-too-large", 2, "fluxqueue.pod-group: g, fluxqueue.group-size: '5'"),
        grouped("indexed", 5, "fluence.pod-group: i, fluence.group-size: '5'"),
        grouped("half", 2, "fluxnetes.group-name: h"),
        service("Deployment", 1, ""),
        service("Deployment", 2, ""),
        service("ReplicaSet", 1, ""),
        service("ReplicaSet", 2, ""),
        service("StatefulSet", 1, "serviceName: none"),
        service("StatefulSet", 2, "serviceName: none"),
        service("Deployment", 0, ""),
    ]
    .join("\n")
}

#[test]
fn the_seeds_examples_go_to_fluxqueue_unchanged() {
    let plane = plane();
    let _webhook = Webhook::start(&plane, &[]);
    seeds_examples_run(&plane);
}

/// In a labelled namespace, all these examples run on Fluxqueue, and each service is created once.
fn seeds_examples_run(plane: &ControlPlane) {
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = labelled(plane, "seeds", &["fluxqueue/admission=enabled"]);
    goes_to(&ns, "fluxqueue");
    ns.apply(&seeds_examples());
    let pods = ns.running(1 + 1 + 2 + 2 + 5 + 2 + 3 + 3 + 3);
    assert!(pods.iter().all(|pod| scheduler_of(pod) == "fluxqueue"));
    for kind in ["jobs", "deployments", "replicasets", "statefulsets"] {
        for object in ns.list(kind) {
            assert_eq!(
                object["spec"]["template"]["spec"]["schedulerName"], "fluxqueue",
                "{object}"
            );
        }
    }
    // A Deployment finds its ReplicaSet again, and makes no second one.
    assert_eq!(ns.list("replicasets").len(), 2 + 3);
    // An existing workload changes only if its author changes the template.
    ns.kubectl(&["scale", "deployment", "deployment-2", "--replicas=3"]);
    ns.running(23);
    assert_eq!(ns.list("replicasets").len(), 2 + 3);
}

#[test]
fn each_pod_goes_to_the_scheduler_that_it_names() {
    let plane = plane();
    let _webhook = Webhook::start(&plane, &[]);
    each_gets_what_it_asks_for(&plane);
}

/// The decision depends on labels of namespaces and of objects, and on the kind of an object.
fn each_gets_what_it_asks_for(plane: &ControlPlane) {
    let (plain, ours) =
        (plane.namespace("plain"), labelled(plane, "ours", &["fluxqueue/admission=enabled"]));
    goes_to(&ours, "fluxqueue");
    assert_eq!(given(&plain), "default-scheduler");
    let labels = |value: &str| format!("  labels: {{fluxqueue/admission: {value}}}");
    plain.apply(&unnamed(&pod("asks", "100m", "1", &labels("enabled"))));
    ours.apply(&unnamed(&pod("declines", "100m", "1", &labels("disabled"))));
    ours.apply(
        &pod("elsewhere", "100m", "1", "")
            .replace("schedulerName: fluxqueue", "schedulerName: volcano"),
    );
    ours.apply(&unnamed(&pod("x", "100m", "1", "")).replace("name: x", "generateName: made-"));
    let daemons = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemons}
spec:
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: pause, image: registry.k8s.io/pause}]}
";
    ours.apply(daemons);
    let cron = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: hourly}
spec:
  schedule: '0 * * * *'
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: busybox, command: [sleep, '1']}]
";
    ours.apply(cron);
    ours.kubectl(&["create", "job", "by-hand", "--from=cronjob/hourly"]);
    let scheduler = |ns: &Namespace<'_>, begins: &str| {
        let pods = ns.pods(1, &format!("called {begins}"), |pod| {
            pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(begins))
        });
        scheduler_of(&pods[0]).to_owned()
    };
    assert_eq!(scheduler(&plain, "asks"), "fluxqueue");
    assert_eq!(scheduler(&ours, "declines"), "default-scheduler");
    assert_eq!(scheduler(&ours, "elsewhere"), "volcano");
    assert_eq!(scheduler(&ours, "made-"), "fluxqueue");
    assert_eq!(scheduler(&ours, "by-hand"), "fluxqueue");
    assert_eq!(
        ours.list("cronjobs")[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["schedulerName"],
        "fluxqueue"
    );
    ours.pods(4, "of the DaemonSet", |pod| {
        pod["metadata"]["labels"]["app"] == "d" && scheduler_of(pod) == "default-scheduler"
    });
    // Fluxqueue's own namespace is exempt, whatever its labels are.
    plane.kubectl(&[
        "label",
        "namespace",
        "fluxqueue-system",
        "kube-system",
        "fluxqueue/admission=enabled",
    ]);
    for name in ["fluxqueue-system", "kube-system"] {
        let args = [
            "create",
            "-n",
            name,
            "--dry-run=server",
            "-o",
            "jsonpath={.spec.schedulerName}",
            "-f",
            "-",
        ];
        let confined = "
apiVersion: v1
kind: Pod
metadata: {name: own}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 1, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: busybox
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";
        let (ok, out, err) = until("its service account", || {
            let answer = plane.try_kubectl(&args, confined);
            (!answer.2.contains("serviceaccount")).then_some(answer)
        });
        assert!(ok, "{err}");
        assert_eq!(out, "default-scheduler", "{name}");
    }
}

#[test]
fn a_namespace_that_asks_for_it_has_its_pods_gated() {
    let plane = plane();
    let _webhook = Webhook::start(&plane, &[]);
    pods_are_gated(&plane);
}

/// Gates are added to our pods, and to no others.
fn pods_are_gated(plane: &ControlPlane) {
    let ns = labelled(plane, "gated", &["fluxqueue/admission=enabled", "fluxqueue/gate=enabled"]);
    goes_to(&ns, "fluxqueue");
    ns.apply(&unnamed(&pod("nobodys", "100m", "infinity", "")));
    ns.apply(&pod("named", "100m", "infinity", ""));
    ns.apply(
        &pod("elsewhere", "100m", "1", "")
            .replace("schedulerName: fluxqueue", "schedulerName: volcano"),
    );
    ns.apply(&unnamed(&job("job", 2, "100m", "infinity")));
    let gated =
        ns.pods(4, "gated", |pod| pod["spec"]["schedulingGates"] == json!([{"name": "fluxqueue"}]));
    assert!(gated.iter().all(|pod| scheduler_of(pod) == "fluxqueue"));
    // Fluxqueue removes the gates that it has added.
    let _fluxqueue = plane.fluxqueue(&[]);
    ns.running(4);
}

#[test]
fn a_strict_namespace_refuses_at_once_what_would_be_refused_later() {
    let plane = plane();
    let _webhook = Webhook::start(&plane, &[]);
    let ns =
        labelled(&plane, "strict", &["fluxqueue/admission=enabled", "fluxqueue/strict=enabled"]);
    goes_to(&ns, "fluxqueue");
    let create =
        |manifest: &str| plane.try_kubectl(&["create", "-n", &ns.name, "-f", "-"], manifest);
    let claim = "spec:\n  resourceClaims: [{name: gpu, resourceClaimName: g}]";
    let claims = unnamed(&pod("claims", "100m", "1", "")).replace("spec:", claim);
    until("it to be strict", || (!create(&claims).0).then_some(()));
    let walltime = "  annotations: {fluxqueue/walltime: soon}";
    let size = "  labels: {fluxqueue.pod-group: g, fluxqueue.group-size: three}";
    let half = "  labels: {fluxqueue/pod-group: g}";
    let in_template = unnamed(&job("job", 2, "100m", "1"))
        .replace("    spec:", &format!("    {}", claim.replace('\n', "\n    ")));
    let refused = [
        (claims.clone(), "spec.resourceClaims"),
        (
            unnamed(&pod("walltime", "100m", "1", walltime)),
            "metadata.annotations[fluxqueue/walltime]",
        ),
        (unnamed(&pod("size", "100m", "1", size)), "label fluxqueue.group-size"),
        (unnamed(&pod("half", "100m", "1", half)), "label fluxqueue/group-size is missing"),
        (in_template, "spec.template.spec.resourceClaims"),
    ];
    for (manifest, expected) in refused {
        let (ok, out, err) = create(&manifest);
        assert!(!ok && err.contains(expected), "{expected}: {out}{err}");
    }
    // In another namespace the same object is stored, and the scheduler refuses it with the same
    // message.
    let _fluxqueue = plane.fluxqueue(&[]);
    let lenient = labelled(&plane, "lenient", &["fluxqueue/admission=enabled"]);
    lenient.apply(&claims);
    let record = lenient.state("claims", "Refused");
    let message =
        record["status"]["blockedBy"][0]["message"].as_str().unwrap_or_default().to_owned();
    let (_, _, refusal) = create(&claims);
    let (_, words) = message.split_once("spec.resourceClaims: ").expect("the field");
    assert!(refusal.contains(words), "{words:?} in {refusal:?}");
    // Pods of kube-scheduler are not ours to judge, and valid pods run.
    let declined = claims
        .replace("  name: claims", "  name: claims\n  labels: {fluxqueue/admission: disabled}");
    assert!(create(&declined).0);
    ns.apply(&unnamed(&pod("fine", "100m", "infinity", "")));
    ns.running(1);
    let (ok, _, err) =
        plane.try_kubectl(&["label", "pod", "fine", "-n", &ns.name, "fluxqueue/pod-group=g"], "");
    assert!(ok, "a pod that has its node is not judged: {err}");
}

/// Installs the policies, which need no server.
fn install_policies(plane: &ControlPlane) {
    let path = root().join("manifests/admission-policies");
    plane.kubectl(&["apply", "--server-side", "-k", &path.display().to_string()]);
}

#[test]
fn policies_do_without_a_server_what_the_webhook_does() {
    if newer::is_left_out("admission::policies_do_without_a_server_what_the_webhook_does") {
        return;
    }
    let plane = plane();
    install_policies(&plane);
    seeds_examples_run(&plane);
    each_gets_what_it_asks_for(&plane);
    pods_are_gated(&plane);
    for kind in ["mutatingadmissionpolicies", "validatingadmissionpolicies"] {
        let warnings = plane.kubectl(&[
            "get",
            kind,
            "-o=jsonpath={.items[*].status.typeChecking.expressionWarnings}",
        ]);
        assert_eq!(warnings, "", "{kind}");
    }
}

#[test]
fn policies_and_the_webhook_refuse_the_same() {
    if newer::is_left_out("admission::policies_and_the_webhook_refuse_the_same") {
        return;
    }
    let plane = plane();
    let ns =
        labelled(&plane, "alike", &["fluxqueue/admission=enabled", "fluxqueue/strict=enabled"]);
    // Checks the message for a pod, and that for a Job of such pods.
    let lines = |key: &str, value: &str| format!("  {key}: {{{value}}}");
    let walltime = |text: &str| lines("annotations", &format!("fluxqueue/walltime: '{text}'"));
    let group = |labels: &str| lines("labels", labels);
    let cases = [
        (true, String::new()),
        (true, walltime("90")),
        (true, walltime("1h30m15.5s")),
        (true, walltime("Infinity")),
        (true, walltime(" .5h ")),
        (false, walltime("1h30")),
        (false, walltime("2 days")),
        (false, walltime("-5")),
        (false, walltime("")),
        (true, group("fluxqueue/pod-group: g, fluxqueue/group-size: '2'")),
        (true, group("fluxqueue.pod-group: g, fluxqueue.group-size: '0100000'")),
        (true, group("fluxqueue.group-size: 'x', fluence.pod-group: g, fluence.group-size: '2'")),
        (false, group("fluxqueue/pod-group: g, fluxqueue/group-size: '0'")),
        (false, group("fluxqueue/pod-group: g, fluxqueue/group-size: '100001'")),
        (false, group("fluxqueue/pod-group: g, fluxqueue/group-size: '2.5'")),
        (false, group("fluxqueue/pod-group: '', fluxqueue/group-size: '2'")),
        (false, group("fluxqueue/pod-group: g")),
        (false, group("fluence.group-size: '2'")),
        (false, group("fluxnetes.group-name: g, fluence.group-size: '2'")),
    ];
    let claims = "spec:\n  resourceClaims: [{name: gpu, resourceClaimName: g}]";
    let manifests: Vec<(bool, String)> = cases
        .iter()
        .flat_map(|(is_fine, metadata)| {
            let in_template = metadata.replace("  ", "      ");
            let template = format!("    metadata:\n{in_template}\n    spec:");
            let template = if metadata.is_empty() { "    spec:" } else { &template };
            let of_job = unnamed(&job("job", 2, "100m", "1")).replace("    spec:", template);
            [(*is_fine, unnamed(&pod("pod", "100m", "1", metadata))), (*is_fine, of_job)]
        })
        .chain([(false, unnamed(&pod("claims", "100m", "1", "")).replace("spec:", claims))])
        .collect();
    let judge = |by: &str| {
        goes_to(&ns, "fluxqueue");
        let dry = ["create", "-n", &ns.name, "--dry-run=server", "-f", "-"];
        let last = &manifests[manifests.len() - 1].1;
        until("it to be strict", || (!plane.try_kubectl(&dry, last).0).then_some(()));
        for (is_fine, manifest) in &manifests {
            let (ok, out, err) = plane.try_kubectl(&dry, manifest);
            assert_eq!(ok, *is_fine, "{by}: {manifest}: {out}{err}");
            assert!(ok || err.contains("is invalid"), "{err}");
        }
    };
    install_policies(&plane);
    judge("policies");
    let path = root().join("manifests/admission-policies");
    plane.kubectl(&["delete", "-k", &path.display().to_string()]);
    until("the policies to be gone", || (given(&ns) == "default-scheduler").then_some(()));
    let _webhook = Webhook::start(&plane, &[]);
    judge("webhook");
}

#[test]
fn a_dead_webhook_blocks_nothing() {
    let plane = plane();
    let mut webhook = Webhook::start(&plane, &[]);
    let ns = labelled(&plane, "dead", &["fluxqueue/admission=enabled", "fluxqueue/strict=enabled"]);
    goes_to(&ns, "fluxqueue");
    webhook.process.kill();
    let begun = Instant::now();
    ns.apply(&unnamed(&pod("refused-connection", "100m", "1", "")));
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(scheduler_of(&ns.list("pods")[0]), "default-scheduler");
    // A process that accepts connections and never answers costs a second per question, and nothing
    // else.
    webhook.process = process(&plane, webhook.port, &[]);
    goes_to(&ns, "fluxqueue");
    webhook.process.signal("-STOP");
    ns.apply(&unnamed(&pod("silent", "100m", "1", "")));
    assert_eq!(ns.list("pods").len(), 2);
    webhook.process.signal("-CONT");
    goes_to(&ns, "fluxqueue");
}

/// Returns a percentile of these times: `of` in a hundred take no longer.
fn percentile(times: &[Duration], of: usize) -> Duration {
    times[(times.len() * of / 100).saturating_sub(1)]
}

/// Most that a question may add to a creation that takes a millisecond without one. On a machine
/// that others use a creation takes longer, and a question may add twice that time.
const QUESTION: Duration = Duration::from_millis(2);

/// Percentiles of the creations in a namespace, from the second with the least disturbance.
#[derive(Debug, Clone, Copy)]
struct Creations {
    median: Duration,
    most: Duration,
}

impl Creations {
    const NONE: Creations = Creations { median: Duration::MAX, most: Duration::MAX };

    fn add(&mut self, mut times: Vec<Duration>) {
        times.sort_unstable();
        self.median = self.median.min(percentile(&times, 50));
        self.most = self.most.min(percentile(&times, 95));
    }

    /// True if the slowest creations take far longer than most: other programs use the machine, and
    /// the slowest times are theirs.
    fn are_disturbed(&self) -> bool {
        self.most > self.median * 2
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_creations_a_second_cost_little() {
    let plane = plane();
    let _webhook = Webhook::start(&plane, &[]);
    let unasked = plane.namespace("unasked");
    let asked = labelled(&plane, "asked", &["fluxqueue/admission=enabled"]);
    let strict = labelled(
        &plane,
        "asked-twice",
        &["fluxqueue/admission=enabled", "fluxqueue/strict=enabled"],
    );
    goes_to(&strict, "fluxqueue");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = kube::config::Kubeconfig::read_from(plane.dir.join("admin.kubeconfig"))
        .expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .expect("a configuration");
    let client = kube::Client::try_from(config).expect("a client");
    let pods =
        [&unasked, &asked, &strict].map(|ns| Api::<Pod>::namespaced(client.clone(), &ns.name));
    let body: Pod = serde_json::from_value(json!({
        "metadata": {"generateName": "p-"},
        "spec": {"containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1m"}}}]},
    }))
    .expect("a pod");
    // Each namespace has a second in turn, so that other load on the machine affects all of them
    // alike. The first second of each warms up connections. A machine that others use has few quiet
    // seconds, so the loop goes on for up to a minute.
    let mut best = [Creations::NONE; 3];
    let costs = |best: [Creations; 3], of: fn(&Creations) -> Duration| {
        let [unasked, asked, strict] = best.map(|creations| of(&creations));
        [asked.saturating_sub(unasked), strict.saturating_sub(asked)]
    };
    let is_little = |best: [Creations; 3], of: fn(&Creations) -> Duration| {
        let most = QUESTION.max(of(&best[0]).saturating_mul(2));
        costs(best, of).iter().all(|cost| *cost < most)
    };
    for round in 0..60 {
        let times = create_a_hundred(&pods[round % 3], &body).await;
        if round >= 3 {
            best[round % 3].add(times);
        }
        if round >= 11
            && round % 3 == 2
            && costs(best, |creations| creations.most).iter().all(|cost| *cost < QUESTION)
        {
            break;
        }
    }
    // The control plane ends with this test, so its thousands of pods need not be deleted one by
    // one.
    [unasked, asked, strict].into_iter().for_each(std::mem::forget);
    println!("100 creations a second, unasked, asked, asked in a strict namespace: {best:?}");
    println!("a question costs {:?}, median", costs(best, |creations| creations.median));
    println!("a question costs {:?}, 95th percentile", costs(best, |creations| creations.most));
    assert!(is_little(best, |creations| creations.median), "{best:?}");
    assert!(
        best.iter().any(Creations::are_disturbed) || is_little(best, |creations| creations.most),
        "{best:?}"
    );
}

/// Returns the time of each of a hundred creations, one begun every 10 ms.
async fn create_a_hundred(pods: &Api<Pod>, body: &Pod) -> Vec<Duration> {
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut creations = Vec::new();
    for _ in 0..100 {
        ticks.tick().await;
        let (pods, body) = (pods.clone(), body.clone());
        creations.push(tokio::spawn(async move {
            let begun = Instant::now();
            pods.create(&PostParams::default(), &body).await.expect("it is created");
            begun.elapsed()
        }));
    }
    let mut times = Vec::new();
    for creation in creations {
        times.push(creation.await.expect("it ends"));
    }
    times
}
