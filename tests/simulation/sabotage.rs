//! Proof that the checks can fail: a saboteur between the world and the core breaks one rule, and is caught by that rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::FluxJob;
use fluxqueue_core::cluster::Node;
use fluxqueue_core::{Action, ActionId, ActionKind, Event, Outcome, WriteOutcome};
use fluxqueue_workload::{ObjectKey, ObjectRef, Pod, Time};

use crate::machine::{self, Machine};
use crate::objects::{FOREIGN_GATE, NAMESPACE, OURS};
use crate::run;

/// Seeds that are tried until one of them catches the saboteur, and steps of each.
const SEEDS_MAX: u64 = 12;
const STEPS: u64 = 2_800;

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sabotage {
    BindTwice,
    BindBeforeTheAnswer,
    BindToAnotherNode,
    IgnoreOtherSchedulers,
    IgnoreCordons,
    IgnoreGates,
    IgnoreHolds,
    IgnoreWhatIsUnsupported,
    ForgetToFree,
    ForgetPlacements,
    ForgetAnswers,
    KeepRecords,
    WriteTwice,
    NeverRest,
    DecideTooEarly,
}

/// Each with the rule that must catch it.
const ALL: [(Sabotage, &[&str]); 15] = [
    (Sabotage::BindTwice, &["no pod is bound twice"]),
    (
        Sabotage::BindBeforeTheAnswer,
        &["a gang is bound by its acknowledged placement", "one write per object is under way"],
    ),
    (
        Sabotage::BindToAnotherNode,
        &[
            "what is bound fits beside all that is known to be there",
            "a gang is bound by its acknowledged placement",
            "a node that does not want a pod does not get it",
            "pods go to nodes that are there",
        ],
    ),
    (Sabotage::IgnoreOtherSchedulers, &["what is bound fits beside all that is known to be there"]),
    (Sabotage::IgnoreCordons, &["a node that does not want a pod does not get it"]),
    (Sabotage::IgnoreGates, &["gated pods are not bound"]),
    (Sabotage::IgnoreHolds, &["a held job is not started"]),
    (Sabotage::IgnoreWhatIsUnsupported, &["what cannot be honoured is refused"]),
    (Sabotage::ForgetToFree, &["who could start at the head of the queue starts", "finished jobs say how they ended"]),
    (
        Sabotage::ForgetPlacements,
        &["a gang is bound by its acknowledged placement", "a half-bound gang is finished where its placement says"],
    ),
    (Sabotage::ForgetAnswers, &["who could start at the head of the queue starts"]),
    (Sabotage::KeepRecords, &["nothing is left of what was deleted"]),
    (Sabotage::WriteTwice, &["one write per object is under way"]),
    (Sabotage::NeverRest, &["the core becomes quiet"]),
    (Sabotage::DecideTooEarly, &["nothing is decided before the first lists are complete"]),
];

/// Every saboteur is caught, by the rule it breaks.
pub(crate) fn each_is_caught() -> Result<(), String> {
    for (sabotage, rules) in ALL {
        let factory = move |scheduler: &Arc<str>, epoch| -> Box<dyn Machine> {
            Box::new(Saboteur::new(sabotage, scheduler, epoch))
        };
        let found = (1..=SEEDS_MAX).find_map(|seed| run(seed, STEPS, &factory, false).failure);
        let Some(failure) = found else { return Err(format!("{sabotage:?} is not caught within {SEEDS_MAX} seeds")) };
        if !rules.contains(&&*failure.rule) {
            return Err(format!("{sabotage:?} is caught by another rule: {}: {}", failure.rule, failure.text));
        }
        println!("{sabotage:?} is caught by seed {}, step {}: {}", failure.seed, failure.step, failure.rule);
    }
    Ok(())
}

/// The core, with something between it and the world.
struct Saboteur {
    core: Box<dyn Machine>,
    sabotage: Sabotage,
    epoch: i64,
    /// The core's own number of each action that went out; what it did not ask for, or was told of already, has none.
    asked: BTreeMap<ActionId, ActionId>,
    next_id: ActionId,
    /// A write that nobody needs, on its way.
    needless: Option<ActionId>,
}

impl Saboteur {
    fn new(sabotage: Sabotage, scheduler: &Arc<str>, epoch: i64) -> Self {
        let mut core = machine::core(scheduler, epoch);
        if sabotage == Sabotage::DecideTooEarly {
            core.handle(Event::Synced, Time(1));
        }
        Saboteur { core, sabotage, epoch, asked: BTreeMap::new(), next_id: 1, needless: None }
    }

    /// What the core gets to see of an event, if anything.
    fn falsify(&mut self, event: Event) -> Option<Event> {
        Some(match (self.sabotage, event) {
            (Sabotage::IgnoreOtherSchedulers, Event::Pod(pod)) if *pod.scheduler != *OURS => return None,
            (Sabotage::IgnoreCordons, Event::Node(node)) => {
                Event::Node(Arc::new(Node { unschedulable: false, taints: Vec::new(), ..Node::clone(&node) }))
            }
            (Sabotage::IgnoreGates, Event::Pod(pod)) => {
                let mut pod = Pod::clone(&pod);
                pod.gates.retain(|gate| **gate != *FOREIGN_GATE);
                Event::Pod(Arc::new(pod))
            }
            (Sabotage::IgnoreHolds, Event::FluxJob(job)) => {
                let mut job = FluxJob::clone(&job);
                job.spec.hold = false;
                Event::FluxJob(Arc::new(job))
            }
            (Sabotage::IgnoreWhatIsUnsupported, Event::Pod(pod)) => {
                Event::Pod(Arc::new(Pod { unsupported: Vec::new(), ..Pod::clone(&pod) }))
            }
            (Sabotage::ForgetToFree, Event::Pod(pod)) if pod.phase.is_terminal() => return None,
            (Sabotage::ForgetPlacements, Event::FluxJob(job)) if self.epoch > 1 => {
                let mut job = FluxJob::clone(&job);
                if let Some(status) = &mut job.status {
                    status.placement.clear();
                }
                Event::FluxJob(Arc::new(job))
            }
            (_, Event::Done(id, _)) if self.needless == Some(id) => {
                self.needless = None;
                return None;
            }
            (_, Event::Done(id, outcome)) => Event::Done(self.asked.remove(&id)?, outcome),
            (_, event) => event,
        })
    }

    /// What the world gets to see of an action.
    fn pass_on(&mut self, mut action: Action, now: Time, out: &mut Vec<Action>) {
        let written = |core: &mut dyn Machine| {
            core.handle(Event::Done(action.id, Outcome::Write(WriteOutcome::Written(None))), now);
        };
        let mut is_answered = true;
        let places = matches!(&action.kind, ActionKind::WriteStatus { status, .. } if !status.placement.is_empty());
        match (self.sabotage, &mut action.kind) {
            (Sabotage::KeepRecords, ActionKind::DeleteFluxJob { .. }) => {
                written(&mut *self.core);
                return;
            }
            (Sabotage::BindBeforeTheAnswer, _) if places => written(&mut *self.core),
            (Sabotage::ForgetAnswers, _) if places => {}
            (Sabotage::BindToAnotherNode, ActionKind::Bind { node, .. }) => {
                *node = Arc::from(if **node == *"node-0" { "node-1" } else { "node-0" });
                is_answered = false;
            }
            _ => is_answered = false,
        }
        let again = match action.kind {
            ActionKind::Bind { .. } => self.sabotage == Sabotage::BindTwice,
            ActionKind::WriteStatus { .. } | ActionKind::CreateFluxJob { .. } => self.sabotage == Sabotage::WriteTwice,
            _ => false,
        };
        let asked = (!is_answered).then_some(action.id);
        for _ in 0..=usize::from(again) {
            self.send(action.kind.clone(), asked, out);
        }
    }

    fn send(&mut self, kind: ActionKind, asked: Option<ActionId>, out: &mut Vec<Action>) {
        self.asked.extend(asked.map(|asked| (self.next_id, asked)));
        out.push(Action { id: self.next_id, kind });
        self.next_id += 1;
    }
}

impl Machine for Saboteur {
    fn handle(&mut self, event: Event, now: Time) {
        if let Some(event) = self.falsify(event) {
            self.core.handle(event, now);
        }
    }

    fn step(&mut self, now: Time) -> Vec<Action> {
        let mut out = Vec::new();
        for action in self.core.step(now) {
            self.pass_on(action, now, &mut out);
        }
        if self.sabotage == Sabotage::NeverRest && self.next_id > 1 && self.needless.is_none() {
            self.needless = Some(self.next_id);
            let pod = ObjectRef { key: ObjectKey::new(NAMESPACE, "nobody"), uid: Arc::from("none") };
            let kind = ActionKind::SetPodScheduled {
                pod,
                resource_version: None,
                reason: "Unschedulable",
                message: String::new(),
                newly: true,
            };
            self.send(kind, None, &mut out);
        }
        if self.sabotage == Sabotage::BindBeforeTheAnswer {
            for action in self.core.step(now) {
                self.pass_on(action, now, &mut out);
            }
        }
        out
    }

    fn next_wake(&self) -> Option<Time> {
        self.core.next_wake()
    }
}
