use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::server::{Server, eventually};
use crate::kube::clock::Clock;
use crate::kube::driver::{Driver, Ending, Inbox, Machine};
use crate::kube::executors::{ExecutorSettings, Executors};
use crate::kube::fence::Fence;
use crate::kube::tasks::Tasks;
use crate::serve::{Health, Metrics, Question};
use fluxqueue_core::report::Gauges;
use fluxqueue_core::{Action, ActionId, ActionKind, BindOutcome, Event, Outcome, Preview};
use fluxqueue_workload::{ObjectKey, ObjectRef, Time};

/// Binds a pod for each Synced, and remembers all events.
#[derive(Default)]
struct Parrot {
    told: Arc<Mutex<Vec<String>>>,
    to_bind: Vec<ActionId>,
    wake: Option<Time>,
    wakes: u32,
    steps: u64,
    /// True if it always wants to be woken at once.
    restless: bool,
}

impl Machine for Parrot {
    fn handle(&mut self, event: Event, now: Time) {
        self.told.lock().unwrap().push(format!("{event:?}"));
        if matches!(event, Event::Synced) {
            self.to_bind.push(u64::try_from(self.to_bind.len()).unwrap() + 1);
            self.wake = Some(now.plus_millis(40));
        }
    }

    fn step(&mut self, now: Time) -> Vec<Action> {
        self.steps += 1;
        if self.wake.is_some_and(|wake| wake <= now) {
            self.wake = None;
            self.wakes += 1;
        }
        let pod = ObjectRef { key: ObjectKey::new("ns", "p"), uid: "u1".into() };
        let bind = |id| Action {
            id,
            kind: ActionKind::Bind { pod: pod.clone(), node: "n1".into(), queue: "default".into() },
        };
        self.to_bind.drain(..).map(bind).collect()
    }

    fn next_wake(&self) -> Option<Time> {
        if self.restless { Some(Time(0)) } else { self.wake }
    }

    fn gauges(&self) -> Gauges {
        Gauges { passes: self.steps, ..Gauges::default() }
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "wakes": self.wakes })
    }

    fn preview(&mut self, _: Time) -> Option<Preview> {
        None
    }
}

/// A driver with all its surroundings.
struct House {
    batches: mpsc::Sender<Vec<Event>>,
    questions: mpsc::Sender<Question>,
    told: Arc<Mutex<Vec<String>>>,
    executors: Arc<Executors>,
    health: Arc<Health>,
    ending: Ending,
    driver: tokio::task::JoinHandle<()>,
    _tasks: Tasks,
}

impl House {
    fn build(server: &Server) -> Self {
        Self::around(Parrot::default(), server)
    }

    fn around(machine: Parrot, server: &Server) -> Self {
        let (batches, batches_out) = mpsc::channel(8);
        let (outcomes_in, outcomes) = mpsc::channel(8);
        let (questions, questions_out) = mpsc::channel(8);
        let metrics = Arc::new(Metrics::new("0", "0"));
        let health = Arc::new(Health::default());
        let executors = Arc::new(Executors::new(Arc::clone(&metrics)));
        let mut tasks = Tasks::default();
        let settings = ExecutorSettings {
            bind_concurrency: 4,
            bind_timeout: Duration::from_secs(1),
            instance: "test".to_owned(),
        };
        executors.start(&mut tasks, &settings, &server.clients, Fence::open(), &outcomes_in);
        let told = Arc::clone(&machine.told);
        let inbox = Inbox { batches: batches_out, outcomes, questions: questions_out };
        let driver = Driver::new(
            machine,
            Clock::start(),
            inbox,
            Arc::clone(&executors),
            metrics,
            Arc::clone(&health),
        );
        let ending = Ending::default();
        let driver = tokio::spawn(driver.run(ending.clone()));
        House { batches, questions, told, executors, health, ending, driver, _tasks: tasks }
    }

    fn heard(&self, text: &str) -> bool {
        self.told.lock().unwrap().iter().any(|told| told.contains(text))
    }

    async fn passes(&self) -> u64 {
        let (sender, answer) = oneshot::channel();
        self.questions.send(Question::Gauges(sender)).await.unwrap();
        answer.await.unwrap().passes
    }

    async fn wakes(&self) -> u64 {
        let (sender, answer) = oneshot::channel();
        self.questions.send(Question::State(sender)).await.unwrap();
        answer.await.unwrap()["wakes"].as_u64().unwrap()
    }
}

#[tokio::test]
async fn an_action_is_carried_out_and_its_outcome_told() {
    let server = Server::start().await;
    server.put(
        "/api/v1/namespaces/ns/pods/p",
        serde_json::json!({ "metadata": { "uid": "u1" }, "spec": {} }),
    );
    let house = House::build(&server);
    house.batches.send(vec![Event::Synced]).await.unwrap();
    let bound = format!("{:?}", Event::Done(1, Outcome::Bind(BindOutcome::Bound)));
    eventually("the outcome", || house.heard(&bound)).await;
    let ready = house.health.report(crate::serve::Probe::Ready);
    assert!(ready.passed(), "{ready}");
}

#[tokio::test]
async fn the_core_is_woken_when_it_asked_to_be() {
    let house = House::build(&Server::start().await);
    house.batches.send(vec![Event::Synced]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(house.wakes().await, 1);
}

#[tokio::test]
async fn a_restless_core_does_not_spin() {
    let begun = Instant::now();
    let machine = Parrot { restless: true, ..Parrot::default() };
    let house = House::around(machine, &Server::start().await);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let passes = house.passes().await;
    let millis = u64::try_from(begun.elapsed().as_millis()).unwrap();
    assert!((2..=millis + 1).contains(&passes), "{passes} passes in {millis} ms");
}

#[tokio::test]
async fn after_the_stop_outcomes_are_heard_but_nothing_is_decided() {
    let server = Server::start().await;
    server.script("/binding", super::server::Script::Stall(Duration::from_millis(300)));
    let house = House::build(&server);
    house.batches.send(vec![Event::Synced]).await.unwrap();
    eventually("the Binding", || !server.seen("/binding").is_empty()).await;
    house.ending.stop.cancel();
    house.ending.stopped.cancelled().await;
    house.executors.finish_bindings().await;
    eventually("the outcome", || house.heard("Done(1")).await;
    house.batches.send(vec![Event::Synced]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.seen("/binding").len(), 1);
    house.ending.end.cancel();
    tokio::time::timeout(Duration::from_secs(1), house.driver).await.unwrap().unwrap();
}
