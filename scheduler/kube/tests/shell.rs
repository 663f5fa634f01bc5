//! The whole process except its signals, against the small API server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::server::{DEFINITION, QUEUE_DEFINITION, Script, Server, eventually};
use crate::kube::driver::Machine;
use crate::kube::executors::ExecutorSettings;
use crate::kube::lease::LeaseSettings;
use crate::kube::shell::{ShellError, ShellSettings, run_until};
use crate::kube::tasks::Tasks;
use crate::serve::Exposure;
use fluxqueue_core::report::Gauges;
use fluxqueue_core::{Action, ActionKind, Event, Preview};
use fluxqueue_workload::{ObjectRef, Time};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/fluxqueue";
const POD: &str = "/api/v1/namespaces/ns/pods/p";

/// Binds every pod that it hears of to n1, once all lists have ended.
#[derive(Default)]
struct Eager {
    /// The time that a decision takes.
    ponders: Duration,
    deciding: Arc<AtomicBool>,
    heard: Arc<Mutex<Vec<String>>>,
    waiting: Vec<ObjectRef>,
    synced: bool,
    ids: u64,
}

impl Machine for Eager {
    fn handle(&mut self, event: Event, _: Time) {
        match event {
            Event::Synced => {
                self.synced = true;
                self.heard.lock().unwrap().push("synced".to_owned());
            }
            Event::ClockOffset(micros) => {
                self.heard
                    .lock()
                    .unwrap()
                    .push(format!("clock {}", (micros + 500_000) / 60_000_000));
            }
            Event::Pod(pod) if pod.node.is_none() => self.waiting.push(pod.id.clone()),
            _ => {}
        }
    }
    fn step(&mut self, _: Time) -> Vec<Action> {
        if !self.synced {
            return Vec::new();
        }
        let mut actions = Vec::new();
        if !self.waiting.is_empty() {
            self.deciding.store(true, Ordering::SeqCst);
            std::thread::sleep(self.ponders);
            self.deciding.store(false, Ordering::SeqCst);
        }
        for pod in self.waiting.drain(..) {
            self.ids += 1;
            actions.push(Action {
                id: self.ids,
                kind: ActionKind::Bind { pod, node: "n1".into(), queue: "default".into() },
            });
        }
        actions
    }
    fn next_wake(&self) -> Option<Time> {
        None
    }
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }
    fn describe(&self) -> serde_json::Value {
        json!({})
    }
    fn preview(&mut self, _: Time) -> Option<Preview> {
        None
    }
}

/// A scheduler process inside of this one.
struct Process {
    end: CancellationToken,
    done: tokio::task::JoinHandle<Result<(), ShellError>>,
    epoch: Arc<Mutex<Option<i64>>>,
    kubeconfig: PathBuf,
}

impl Process {
    fn start(server: &Server, name: &str) -> Self {
        Self::around(Eager::default(), server, name)
    }

    fn around(machine: Eager, server: &Server, name: &str) -> Self {
        let kubeconfig =
            std::env::temp_dir().join(format!("fluxqueue-shell-{}-{name}", std::process::id()));
        let file = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": server.url } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "" } }],
            "users": [] });
        std::fs::write(&kubeconfig, file.to_string()).unwrap();
        let settings = ShellSettings {
            kubeconfig: Some(kubeconfig.clone()),
            serve_on: "127.0.0.1:0".parse().unwrap(),
            exposure: Exposure::Open,
            probes_on: None,
            lease: Some(LeaseSettings {
                namespace: "ns".to_owned(),
                name: "fluxqueue".to_owned(),
                identity: name.to_owned(),
                lease_duration: Duration::from_secs(1),
                renew_deadline: Duration::from_millis(500),
                retry_period: Duration::from_millis(50),
                write_timeout_max: Duration::from_millis(800),
            }),
            executors: ExecutorSettings {
                bind_concurrency: 2,
                bind_timeout: Duration::from_millis(800),
                instance: name.to_owned(),
            },
        };
        let (end, epoch) = (CancellationToken::new(), Arc::new(Mutex::new(None)));
        let told = Arc::clone(&epoch);
        let make = Box::new(move |epoch| {
            *told.lock().unwrap() = Some(epoch);
            Ok(machine)
        });
        let done = tokio::spawn(run_until(end.clone(), Tasks::default(), settings, make));
        Process { end, done, epoch, kubeconfig }
    }

    fn leads(&self) -> bool {
        self.epoch.lock().unwrap().is_some()
    }

    async fn ended(&mut self) -> Result<(), ShellError> {
        tokio::time::timeout(Duration::from_secs(5), &mut self.done)
            .await
            .expect("the process ends")
            .unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.done.abort();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

fn put_pod(server: &Server) {
    server.put(
        POD,
        json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": "u1" },
            "spec": { "containers": [] },
        }),
    );
}

#[tokio::test]
async fn leads_binds_and_hands_over_in_order() {
    let server = Server::start().await;
    put_pod(&server);
    let mut first = Process::start(&server, "orderly-1");
    eventually("the Binding", || server.object(POD).unwrap()["spec"]["nodeName"] == "n1").await;
    let second = Process::start(&server, "orderly-2");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!second.leads(), "two lead");
    first.end.cancel();
    first.ended().await.unwrap();
    eventually("the handover", || second.leads()).await;
    assert_eq!(*second.epoch.lock().unwrap(), Some(1));
    assert_eq!(server.seen("/binding").len(), 1);
}

#[tokio::test]
async fn a_binding_in_flight_is_waited_for_at_the_end() {
    let server = Server::start().await;
    put_pod(&server);
    server.script("/binding", Script::Stall(Duration::from_millis(400)));
    let mut process = Process::start(&server, "in-flight");
    eventually("the Binding", || !server.seen("/binding").is_empty()).await;
    process.end.cancel();
    process.ended().await.unwrap();
    assert_eq!(server.object(POD).unwrap()["spec"]["nodeName"], "n1");
    assert_eq!(server.object(LEASE).unwrap()["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn the_lease_is_kept_while_a_decision_is_being_made() {
    let server = Server::start().await;
    put_pod(&server);
    let deciding = Arc::new(AtomicBool::new(false));
    let slow = Eager {
        ponders: Duration::from_millis(700),
        deciding: Arc::clone(&deciding),
        ..Eager::default()
    };
    let mut process = Process::around(slow, &server, "ponders");
    eventually("a decision", || deciding.load(Ordering::SeqCst)).await;
    process.end.cancel();
    process.ended().await.unwrap();
    assert!(!deciding.load(Ordering::SeqCst), "the lease was released in the middle of a decision");
    assert_eq!(server.object(LEASE).unwrap()["spec"]["holderIdentity"], "");
    // The next leader decides about the pod: the late decision was not sent, or has ended.
    let bindings = server.seen("/binding").len();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.seen("/binding").len(), bindings);
}

#[tokio::test]
async fn the_core_knows_the_servers_clock_before_it_decides() {
    let server = Server::start().await;
    server.set_clock(600);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let machine = Eager { heard: Arc::clone(&heard), ..Eager::default() };
    let _process = Process::around(machine, &server, "clock");
    eventually("the lists", || heard.lock().unwrap().len() == 2).await;
    assert_eq!(*heard.lock().unwrap(), ["clock 10", "synced"]);
}

#[tokio::test]
async fn no_process_leads_while_a_kind_is_defined_by_an_older_release_or_not_at_all() {
    for (definition, field) in [
        (DEFINITION, "/status/properties/placement"),
        (QUEUE_DEFINITION, "/spec/properties/stopPolicy"),
    ] {
        let server = Server::start().await;
        let current = server.object(definition).unwrap();
        server.silently(|objects| drop(objects.remove(definition)));
        let process = Process::start(&server, "older");
        eventually("a look", || !server.seen(definition).is_empty()).await;
        let mut older = current.clone();
        let (parent, name) = field.rsplit_once('/').unwrap();
        let fields = older
            .pointer_mut(&format!("/spec/versions/0/schema/openAPIV3Schema/properties{parent}"))
            .unwrap();
        assert!(fields.as_object_mut().unwrap().remove(name).is_some(), "{field}");
        server.put(definition, older);
        let looks = server.seen(definition).len();
        eventually("another look", || server.seen(definition).len() > looks).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!process.leads() && server.object(LEASE).is_none());
        server.put(definition, current);
        eventually("the lead", || process.leads()).await;
    }
}

#[tokio::test]
async fn a_process_that_may_not_read_the_definitions_goes_on() {
    let server = Server::start().await;
    for definition in [DEFINITION, QUEUE_DEFINITION] {
        server.script(definition, Script::Refuse(403, "Forbidden"));
    }
    let process = Process::start(&server, "forbidden");
    eventually("the lead", || process.leads()).await;
}

#[tokio::test]
async fn a_lost_lease_ends_the_process_with_an_error() {
    let server = Server::start().await;
    let mut process = Process::start(&server, "loser");
    eventually("the lead", || process.leads()).await;
    let mut taken = server.object(LEASE).unwrap();
    taken["spec"]["holderIdentity"] = json!("someone");
    server.put(LEASE, taken);
    assert!(matches!(process.ended().await, Err(ShellError::Lost(_))));
    assert_eq!(server.object(LEASE).unwrap()["spec"]["holderIdentity"], "someone");
}

/// Another leader may reach the API server where this one does not.
#[tokio::test]
async fn a_leader_without_answers_to_its_writes_gives_the_lease_up() {
    let server = Server::start().await;
    put_pod(&server);
    let pods: Vec<String> =
        (0..6).map(|number| format!("/api/v1/namespaces/ns/pods/p{number}")).collect();
    for _ in 0..20 {
        server.script("/binding", Script::Stall(Duration::from_secs(20)));
    }
    let mut first = Process::start(&server, "mute");
    eventually("the lead", || first.leads()).await;
    for (number, path) in pods.iter().enumerate() {
        let metadata = json!({
            "name": format!("p{number}"), "namespace": "ns", "uid": format!("u{number}x"),
        });
        server.put(path, json!({ "metadata": metadata, "spec": { "containers": [] } }));
    }
    let ended = first.ended().await;
    let Err(ShellError::Lost(lost)) = ended else { panic!("{ended:?}") };
    assert!(
        lost.to_string()
            .contains("is given up: no write was answered for 1 s: no answer within 800 ms"),
        "{lost}"
    );
    assert_eq!(server.object(LEASE).unwrap()["spec"]["holderIdentity"], "");
}
