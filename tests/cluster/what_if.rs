//! What-if answers of the binary, compared with the jobs that are submitted afterwards.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{ControlPlane, Namespace, until};
use crate::promised::{Recorder, SLACK, seconds, timed};

/// Four nodes of four cores.
pub(crate) const FOUR: &str =
    "groups:\n- {namePrefix: n-, count: 4, cpu: '4', memory: 16Gi, pods: 110}\n";

/// A user who runs the what-if command.
pub(crate) struct Asking<'a> {
    pub(crate) ns: &'a Namespace<'a>,
    pub(crate) port: u16,
    pub(crate) token: String,
}

impl Asking<'_> {
    /// Runs the command. Returns true if it succeeded, and its output.
    pub(crate) fn ask(&self, manifest: &str, form: &str) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fluxqueue"));
        command.args([
            "simulate",
            "--from-cluster",
            "--submit",
            "-",
            "--within",
            "3s",
            "--output",
            form,
        ]);
        command.args(["--namespace", &self.ns.name, "--token", &self.token]);
        command.arg(format!("--leader=https://127.0.0.1:{}", self.port)).arg("--leader-ca");
        command.arg(self.ns.plane.certificate()).env_remove("KUBECONFIG").env_remove("HOME");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        child
            .stdin
            .take()
            .expect("stdin is piped")
            .write_all(manifest.as_bytes())
            .expect("it reads");
        let out = child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (out.status.success(), text(out.stdout) + &text(out.stderr))
    }

    /// Gives alice the right to ask what-if questions.
    pub(crate) fn may_ask(&self) {
        let who = format!("--serviceaccount={}:alice", self.ns.name);
        self.ns.plane.kubectl(&[
            "create",
            "clusterrolebinding",
            "alice",
            "--clusterrole=fluxqueue-what-if",
            &who,
        ]);
    }

    fn answer(&self, manifest: &str) -> Value {
        let (ok, text) = self.ask(manifest, "json");
        assert!(ok, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Returns the time at which all of a job would start.
    fn start(&self, manifest: &str) -> f64 {
        let answer = self.answer(manifest);
        let of_it = &answer["submitted"][0];
        assert_eq!(
            (&of_it["outcome"], &of_it["start"]),
            (&"Starts".into(), &of_it["allStart"]),
            "{answer}"
        );
        seconds(of_it["start"].as_str().expect("an instant"))
    }
}

#[test]
fn a_job_starts_and_delays_others_as_foretold() {
    let plane = ControlPlane::start(FOUR, &[]);
    let (_fluxqueue, _, port) = plane.secured_fluxqueue(&[]);
    let ns = plane.namespace("what-if");
    ns.kubectl(&["create", "serviceaccount", "alice"]);
    let token = ns.kubectl(&["create", "token", "alice"]).trim().to_owned();
    let asking = Asking { ns: &ns, port, token };
    let recorder = Recorder::start(&ns);

    // The right to ask is separate, and an answer reveals nothing beyond the result of creating the
    // object.
    let idle = timed("idle", 1, 5, 8.0);
    let (ok, text) = asking.ask(&idle, "json");
    assert!(!ok && text.contains("may not create /what-if"), "{text}");
    asking.may_ask();
    let refused = format!("may not create jobs.batch in namespace {}", ns.name);
    until("the right to count", || asking.ask(&idle, "json").1.contains(&refused).then_some(()));
    let who = format!("--serviceaccount={}:alice", ns.name);
    ns.kubectl(&["create", "rolebinding", "alice", "--clusterrole=edit", &who]);
    until("the role to count", || asking.ask(&idle, "json").0.then_some(()));
    let elsewhere = idle.replace("metadata: {", "metadata: {namespace: default, ");
    let (ok, text) = asking.ask(&elsewhere, "json");
    assert!(!ok && text.contains("in namespace default"), "{text}");

    // The job would start at once, and does. The question alone creates no object.
    let near = |what: &str, foretold: f64, earlier: f64| {
        let (started, history) = (recorder.started(what), &recorder.histories()[what]);
        let is_near = (-SLACK - earlier..=SLACK).contains(&(started - foretold));
        assert!(is_near, "{what}: foretold {foretold}, started {started}: {history:?}");
    };
    assert!(ns.list("jobs").is_empty() && ns.list("fluxjobs").is_empty());
    let foretold = asking.start(&idle);
    ns.apply(&idle);
    near("idle", foretold, 0.0);
    until("idle to end", || (recorder.histories()["idle"].state == "Completed").then_some(()));

    // The job is behind a running one, which runs for as long as planned, and takes all of its
    // grace period to stop.
    ns.apply(&timed("runs", 4, 8, 11.0));
    recorder.started("runs");
    let first = timed("first", 4, 4, 7.0);
    let foretold = asking.start(&first);
    ns.apply(&first);
    let (_, promised) = recorder.promised("first");
    assert!((promised - foretold).abs() <= SLACK, "promised {promised}, foretold {foretold}");
    let second = timed("second", 2, 4, 7.0);
    let (foretold_second, answer) = (asking.start(&second), asking.answer(&second));
    assert_eq!(answer["delayed"], serde_json::json!([]), "it stands behind the first");
    ns.apply(&second);

    // A job of higher priority would delay both, including the promised one. It is not submitted.
    plane.kubectl(&["create", "priorityclass", "urgent", "--value=1000"]);
    let urgent = timed("urgent", 4, 20, 23.0);
    let urgent = urgent.replace(
        "schedulerName: fluxqueue",
        "schedulerName: fluxqueue\n      priorityClassName: urgent",
    );
    let answer = until("the class to be known", || {
        let (ok, text) = asking.ask(&urgent, "json");
        ok.then(|| serde_json::from_str::<Value>(&text).expect("JSON"))
    });
    let delayed = answer["delayed"].as_array().expect("a list");
    assert_eq!(delayed.len(), 2, "{answer}");
    assert!(
        delayed.iter().all(|job| job["seconds"].as_i64().is_some_and(|seconds| seconds >= 20)),
        "{answer}"
    );
    assert_eq!(delayed.iter().filter(|job| job["promised"] == true).count(), 1, "{answer}");
    let (ok, text) = asking.ask(&urgent, "table");
    assert!(ok && text.contains("It would delay 2 jobs") && text.contains(", promised"), "{text}");

    near("first", foretold, 0.0);
    // The plan assumes that each job that has not begun starts two seconds late, and is seen to end
    // a second late.
    near("second", foretold_second, 3.0);

    // The answer about an object that would be refused contains the reason.
    let lost = timed("lost", 1, 5, 5.0).replace(
        "template:\n",
        "template:\n    metadata: {labels: {fluxqueue/queue-name: nowhere}}\n",
    );
    let answer = asking.answer(&lost);
    assert_eq!(
        (&answer["submitted"][0]["outcome"], &answer["submitted"][0]["state"]),
        (&"KeptOut".into(), &"Refused".into())
    );
    assert!(answer.to_string().contains("there is no FluxQueue nowhere"), "{answer}");
}

#[test]
fn what_admission_adds_to_pods_is_foretold() {
    let plane = ControlPlane::start(FOUR, &[]);
    let (_fluxqueue, _, port) = plane.secured_fluxqueue(&[]);
    let ns = plane.namespace("admitted");
    ns.kubectl(&["create", "serviceaccount", "alice"]);
    let token = ns.kubectl(&["create", "token", "alice"]).trim().to_owned();
    ns.kubectl(&[
        "create",
        "rolebinding",
        "alice",
        "--clusterrole=edit",
        &format!("--serviceaccount={}:alice", ns.name),
    ]);
    let asking = Asking { ns: &ns, port, token };
    asking.may_ask();
    let silent =
        |name: &str| timed(name, 4, 5, 4.0).replace(", resources: {requests: {cpu: '4'}}", "");
    let heavy = silent("heavy")
        .replace("restartPolicy: Never", "restartPolicy: Never\n      runtimeClassName: sandbox");
    assert!(!silent("light").contains("cpu") && heavy.contains("runtimeClassName"), "{heavy}");
    until("the role to count", || asking.ask(&silent("light"), "json").0.then_some(()));
    let (ok, text) = asking.ask(&heavy, "json");
    assert!(!ok && text.contains("there is no RuntimeClass"), "{text}");
    // Four pods of three cores each fit on four nodes of four. With two more cores for each they do
    // not.
    ns.apply(
        "
apiVersion: v1
kind: LimitRange
metadata: {name: defaults}
spec: {limits: [{type: Container, defaultRequest: {cpu: '3'}}]}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandbox}
handler: none
overhead: {podFixed: {cpu: '2'}}
",
    );
    let outcome = |manifest: &str| asking.answer(manifest)["submitted"][0]["outcome"].clone();
    let five = silent("five")
        .replace("parallelism: 4", "parallelism: 5")
        .replace("completions: 4", "completions: 5");
    assert_eq!((outcome(&silent("light")), outcome(&five)), ("Starts".into(), "NoDate".into()));
    assert_eq!(outcome(&heavy), "NoDate");
    // The jobs behave as foretold.
    for manifest in [&silent("light"), &five, &heavy] {
        ns.apply(manifest);
    }
    ns.state("five", "Unsatisfiable");
    ns.state("heavy", "Unsatisfiable");
    ns.state("light", "Completed");
}

#[test]
fn the_way_to_the_leader_is_a_role_of_its_own() {
    let ns = crate::harness::shared().namespace("way");
    let may = |verb: &str, what: &str, part: &str| {
        let part = format!("--subresource={part}");
        let ask = ["auth", "can-i", verb, what, &part, "-n", "fluxqueue-system", "--as=wanda"];
        ns.plane.try_kubectl(&ask, "").0
    };
    assert!(!may("get", "leases/fluxqueue", "") && !may("create", "pods", "proxy"));
    let role = [
        "create",
        "rolebinding",
        "wanda",
        "--role=fluxqueue-what-if",
        "--user=wanda",
        "-n",
        "fluxqueue-system",
    ];
    ns.plane.kubectl(&role);
    until("the role to count", || {
        (may("get", "leases/fluxqueue", "") && may("create", "pods", "proxy")).then_some(())
    });
    assert!(
        !may("get", "leases/other", "")
            && !may("get", "pods", "")
            && !may("create", "pods", "exec")
    );
}
