//! Queues: administrators make, change, stop and delete them, and pause all of Fluxqueue. The rules
//! here are those of jobs that start from a queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::StopPolicy;
use fluxqueue_api::names::QUEUE_NAME;
use fluxqueue_core::QueuePolicy;
use fluxqueue_planner::queues::{Counted, Limit, Limits, Namespace, QueueObject, Rules};
use fluxqueue_workload::Pod;
use fluxqueue_workload::metadata::Labels;

use crate::objects::OWN_NAMESPACE;
use crate::rng::Rng;
use crate::server::Server;
use crate::stats::Stats;
use crate::view::View;
use crate::violation::{Violation, broken};

/// Names of queues that users choose. The queues exist at times.
pub(crate) const NAMES: [&str; 2] = ["line", "gpu"];

/// Events that a run with queues in all worlds must have met.
pub(crate) const MUST_HAPPEN: [&str; 12] = [
    "crash with a half-bound gang",
    "FluxJob held by hand",
    "FluxJob priority edited by hand",
    "Fluxqueue paused",
    "Fluxqueue resumed",
    "limits of a queue changed",
    "policy of a queue changed",
    "priority of a queue changed",
    "queue deleted",
    "queue made",
    "queue opened",
    "queue stopped",
];

const STOPPED: &str = "no job starts from a queue that is stopped or gone";
/// The rule about a pause.
pub(crate) const PAUSED: &str = "no job starts while Fluxqueue is paused";

/// Returns the labels with another queue, or none.
pub(crate) fn named(labels: &Labels, queue: Option<&str>) -> Labels {
    let others = labels.iter().filter(|(name, _)| **name != *QUEUE_NAME).cloned();
    others.chain(queue.map(|queue| (Arc::from(QUEUE_NAME), Arc::from(queue)))).collect()
}

/// Lets an administrator edit a queue, pause Fluxqueue, or resume it.
pub(crate) fn edit(server: &mut Server, rng: &mut Rng, stats: &mut Stats) {
    // A pause is short, so that most of a run is about something else.
    if rng.chance(if server.is_paused { 50 } else { 8 }) {
        server.pause(!server.is_paused);
        stats.count(if server.is_paused { "Fluxqueue paused" } else { "Fluxqueue resumed" });
        return;
    }
    let name = *rng.pick(&[NAMES[0], NAMES[1], "default"]).expect("there are three");
    let Some(known) = server.queues.get(name).cloned() else {
        let rules = Rules { limits: limits(rng), policy: policy(rng), ..Rules::default() };
        stats.count("queue made");
        put(server, name, rules);
        return;
    };
    let mut rules = known.rules.clone();
    match rng.weighted(&[3, 3, 2, 2, 2]) {
        0 => {
            rules.stop =
                if rules.stop == StopPolicy::Hold { StopPolicy::None } else { StopPolicy::Hold };
            stats.count(if rules.stop == StopPolicy::Hold {
                "queue stopped"
            } else {
                "queue opened"
            });
        }
        1 => {
            rules.limits = limits(rng);
            stats.count("limits of a queue changed");
        }
        2 => {
            rules.priority = *rng.pick(&[0, 10, -10]).unwrap_or(&0);
            stats.count("priority of a queue changed");
        }
        3 => {
            rules.policy = policy(rng);
            stats.count("policy of a queue changed");
        }
        _ => {
            server.remove_queue(name);
            stats.count("queue deleted");
            return;
        }
    }
    server.put_queue(QueueObject { rules, ..QueueObject::clone(&known) });
}

/// Makes all queues, without limits, and ends a pause: jobs that wait afterwards wait for other
/// jobs.
pub(crate) fn open(server: &mut Server) {
    if server.is_paused {
        server.pause(false);
    }
    for name in [NAMES[0], NAMES[1], "default"] {
        let rules = Rules { policy: Some(QueuePolicy::Easy), ..Rules::default() };
        match server.queues.get(name).cloned() {
            Some(known) => server.put_queue(QueueObject { rules, ..QueueObject::clone(&known) }),
            None => put(server, name, rules),
        }
    }
}

fn put(server: &mut Server, name: &str, rules: Rules) {
    let uid = server.new_uid();
    server.put_queue(QueueObject::of_rules(Arc::from(name), uid, rules));
}

fn policy(rng: &mut Rng) -> Option<QueuePolicy> {
    rng.pick(&QueuePolicy::ALL).copied()
}

/// Limits some CPU, or some jobs, or nothing.
fn limits(rng: &mut Rng) -> Limits {
    let limit = |what, most| Limit {
        per_namespace: false,
        nodes: None,
        what,
        most,
        path: Arc::from("spec.limits"),
    };
    let mut limits = Limits::default();
    if rng.chance(85) {
        limits.running.push(limit(Counted::Resource(Arc::from("cpu")), 1_000 * rng.between(1, 4)));
    }
    if rng.chance(30) {
        limits.running.push(limit(Counted::Jobs, rng.between(1, 4)));
    }
    if rng.chance(20) {
        limits.waiting = Some(rng.between(1, 3));
    }
    limits
}

/// The queues as a process knows them.
#[derive(Debug, Default)]
pub(crate) struct Known {
    queues: BTreeMap<Arc<str>, Arc<QueueObject>>,
    /// True if it knows of one.
    is_any: bool,
    /// True if one of them had a priority of its own.
    had_priorities: bool,
    /// True if Fluxqueue is paused.
    is_paused: bool,
}

impl Known {
    pub(crate) fn put(&mut self, queue: &Arc<QueueObject>) {
        self.is_any = true;
        self.had_priorities |= queue.rules.priority != 0;
        self.queues.insert(Arc::clone(&queue.name), Arc::clone(queue));
    }

    pub(crate) fn put_namespace(&mut self, namespace: &Namespace) {
        if *namespace.name == *OWN_NAMESPACE {
            self.is_paused = namespace.paused.is_some();
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.queues.remove(name);
    }

    /// True if some queue goes, or went, ahead of another, or behind it.
    pub(crate) fn have_priorities(&self) -> bool {
        self.had_priorities
    }
}

/// Judges the Binding of a pod of a job that has not begun.
pub(crate) fn judge(view: &View, pod: &Pod, about: &str) -> Result<(), Violation> {
    if view.queues.is_paused {
        return broken(PAUSED, about.to_owned());
    }
    let Some(named) = pod.label(QUEUE_NAME) else { return Ok(()) };
    let Some(queue) = view.queues.queues.get(named) else {
        return if view.queues.is_any {
            broken(STOPPED, format!("{about}: there is no queue {named}"))
        } else {
            Ok(())
        };
    };
    if queue.rules.stop == StopPolicy::Hold {
        return broken(STOPPED, format!("{about}: {named}"));
    }
    Ok(())
}
