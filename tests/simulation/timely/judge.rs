//! The rules of these worlds: each promise equals the naive planner's, none is missing, none is
//! broken except for a cause that happened, and no job is passed by for longer than the rule
//! allows.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_core::{Note, QueuePolicy, Subject};
use fluxqueue_workload::constraints::PodTerm;
use fluxqueue_workload::{Lifetime, NodeName, Pod};

use super::planner::{Ask, Interval, NEVER, Plan};
use super::{BYPASS_SECONDS, Job, Timely};
use crate::room;
use crate::server::flux_job_ref;
use crate::violation::{Violation, broken};

const KEPT: &str = "a promise is broken only for a cause that an Event names";
const CAUSE: &str = "the cause for which a promise is broken is one that there was";
const EARLIEST: &str = "a promise is for the earliest second around all others";
const MADE: &str = "a job that may be promised a start is";
const STARTS: &str = "a job that fits beside all promises starts";
const ESTIMATED: &str = "a job that repels others is promised no start";
const PASSED_BY: &str = "no job is passed by for longer than the rule allows";

/// Number of jobs with a reservation under hybrid, as the tests set it.
const HYBRID_DEPTH: usize = 3;
/// Seconds by which a start may be put off before an Event says so.
const PUT_OFF_SECONDS: i64 = 1;
/// Seconds beyond the rule for which a job may be passed by: the first undated job is determined
/// only at rest.
const BYPASS_SLACK_SECONDS: i64 = 2;

/// Events since the last rest. Only these can be the cause of a delay.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Happened {
    pub(super) since: i64,
    /// True if a node went, shrank or was closed, or another scheduler took room.
    pub(super) capacity: bool,
    /// The highest priority of the jobs that arrived, if any did.
    pub(super) came: Option<i32>,
    pub(super) edit: bool,
}

impl Timely<'_> {
    // --- at every instant ---

    /// Takes note of an Event that a job starts later.
    pub(super) fn hear(&mut self, note: &Note) -> Result<(), Violation> {
        let ("ReservationDelayed", Subject::FluxJob(record)) = (note.reason, &note.subject) else {
            return Ok(());
        };
        let Some(stored) = self.world.server.flux_job(record).cloned() else { return Ok(()) };
        let found = self.jobs.iter().find(|(_, job)| job.unit.is_recorded_by(&stored));
        let Some((name, job)) = found.map(|(name, job)| (Arc::clone(name), job.clone())) else {
            return Ok(());
        };
        let is_true = match note.note.split(':').next() {
            Some("walltime") => {
                self.world.stats.count("delay: walltime");
                self.world.server.pods.values().any(|pod| self.is_to_blame(pod, &job))
            }
            Some("capacity") => {
                self.world.stats.count("delay: capacity");
                self.happened.capacity
            }
            Some("priority") => {
                self.world.stats.count("delay: priority");
                self.happened.came.is_some_and(|came| came > job.priority)
            }
            Some("edit") => {
                self.world.stats.count("delay: edit");
                self.happened.edit
            }
            _ => false,
        };
        if !is_true {
            let text = format!(
                "{name}: {:?}, but what happened is {:?}, now {}",
                note.note, self.happened, self.world.now
            );
            return broken(CAUSE, text);
        }
        if let Some(job) = self.jobs.get_mut(&name) {
            job.is_delayed = true;
        }
        Ok(())
    }

    /// True if the pod has outlived its planned end just now, or is on a node that the job was
    /// promised.
    fn is_to_blame(&self, pod: &Pod, job: &Job) -> bool {
        let is_new = self.planned_end(pod).is_some_and(|end| end + 1 >= self.happened.since);
        let is_late =
            pod.uses_node() && self.planned_end(pod).is_some_and(|end| end <= self.world.now);
        is_late && (is_new || pod.node.as_ref().is_some_and(|node| job.nodes.contains(node)))
    }

    /// Judges that each promise is kept, or that an Event says it is not.
    pub(super) fn judge_instant(&mut self) -> Result<(), Violation> {
        let names: Vec<Arc<str>> = self.jobs.keys().cloned().collect();
        for name in &names {
            let job = &self.jobs[name];
            let has_node = job
                .pods
                .iter()
                .any(|key| self.world.server.pods.get(key).is_some_and(|pod| pod.node.is_some()));
            if has_node && !job.has_started {
                self.judge_start(name, job)?;
                if job.told.is_some() {
                    self.world.stats.count("promised job started");
                }
                let job = self.jobs.get_mut(name).expect("it was just looked at");
                (job.has_started, job.told) = (true, None);
            }
        }
        let waiting: Vec<Arc<str>> =
            self.waiting().iter().map(|(name, _)| Arc::clone(name)).collect();
        for name in waiting {
            let job = &self.jobs[&name];
            let said = self.said(job);
            let start = said.as_ref().and_then(|(start, _)| *start);
            let is_worse = job
                .told
                .is_some_and(|told| start.is_none_or(|start| start > told + PUT_OFF_SECONDS));
            let is_over = start.is_some_and(|start| self.world.now > start + PUT_OFF_SECONDS);
            if (is_worse && !job.is_delayed) || is_over {
                let text = format!(
                    "{name} was to start at {:?}, now {} it is {said:?}",
                    job.told, self.world.now
                );
                return broken(KEPT, text);
            }
            let job = self.jobs.get_mut(&name).expect("it was just looked at");
            // A start that is put off for a moment was promised for the moment before.
            let told = job.told.filter(|_| !job.is_delayed);
            job.told = start.map(|start| told.map_or(start, |told| told.min(start)));
            job.is_delayed = false;
            job.nodes = said.map(|(_, nodes)| nodes).unwrap_or_default();
        }
        self.tidy();
        Ok(())
    }

    /// Takes note of the records at this instant, whatever is under way: a start on record is
    /// promised. A reservation that is removed because the job starts still counts until the job
    /// has started.
    pub(super) fn note_what_is_written(&mut self) -> Result<(), Violation> {
        let waiting: Vec<Arc<str>> =
            self.waiting().iter().map(|(name, _)| Arc::clone(name)).collect();
        for name in waiting {
            let job = &self.jobs[&name];
            let Some((Some(start), nodes)) = self.said(job) else { continue };
            if job.told.is_some_and(|told| start > told + PUT_OFF_SECONDS) && !job.is_delayed {
                let text = format!(
                    "{name} was to start at {:?}, now {} it is written {start}",
                    job.told, self.world.now
                );
                return broken(KEPT, text);
            }
            let job = self.jobs.get_mut(&name).expect("it was just looked at");
            let told = job.told.filter(|_| !job.is_delayed);
            (job.told, job.is_delayed) = (Some(told.map_or(start, |told| told.min(start))), false);
            job.nodes = nodes;
        }
        Ok(())
    }

    /// Judges the start of a job: it comes when promised, and passes no other job for too long.
    fn judge_start(&self, name: &Arc<str>, job: &Job) -> Result<(), Violation> {
        if job.told.is_some_and(|told| self.world.now > told + PUT_OFF_SECONDS) && !job.is_delayed {
            return broken(
                KEPT,
                format!("{name} was to start at {:?}, and does at {}", job.told, self.world.now),
            );
        }
        // Earlier promises stand, and a job may take the nodes that are held for it.
        if !job.nodes.is_empty() || self.cpu_max.is_some() {
            return Ok(());
        }
        let pods = job.pods.iter().filter_map(|key| self.world.server.pods.get(key));
        let there: Vec<(&NodeName, &Pod)> =
            pods.filter_map(|pod| Some((pod.node.as_ref()?, &**pod))).collect();
        let mut held = BTreeSet::new();
        for (other, ahead) in self.waiting() {
            let place = |job: &Job| (-i64::from(job.priority), job.submitted);
            if place(ahead) > place(job) {
                break;
            }
            let taken = self.taken_from(ahead, &there);
            let said = self.said(ahead);
            let holds =
                said.as_ref().filter(|(start, _)| start.is_none()).map(|(_, nodes)| nodes.clone());
            let holds = holds.unwrap_or_default();
            let unheld = |nodes: BTreeSet<NodeName>| -> BTreeSet<NodeName> {
                nodes.difference(&held).cloned().collect()
            };
            let could = unheld(self.usable_some_day(ahead));
            let is_taken = if ahead.repels {
                // Nodes that come to be held for the job in this very pass may have been closed
                // when others were looked at. Nodes that were held before are not held any more
                // when they are taken.
                !self.could_lose_what_is_held(ahead, job) && !ahead.nodes.is_disjoint(&taken)
            } else if said.is_some() {
                !holds.is_disjoint(&taken)
            } else {
                // A job with a date is not protected beyond the depth of the policy.
                let now = || unheld(self.usable_beside(ahead, &[job]));
                let is_dated =
                    || self.plan_without(&[ahead, job]).earliest(&ask(ahead, now())).is_some();
                let is_owed = self.is_patience_over(ahead)
                    && self.could_start_one_day(ahead, &could)
                    && !is_dated();
                is_owed && !could.is_disjoint(&taken)
            };
            if is_taken {
                let since = ahead.first_undated;
                let there: Vec<&NodeName> = there.iter().map(|(node, _)| *node).collect();
                let text = format!(
                    "{name} starts at {} on {there:?} ahead of {other}: {since:?}, {said:?}",
                    self.world.now
                );
                return broken(PASSED_BY, text);
            }
            held.extend(holds);
        }
        Ok(())
    }

    /// True if nodes that were held for a job with repelling pods may be held no more, for another
    /// reason than the start of the other job: they are smaller, closed or taken by others, a job
    /// has come in ahead or was changed, or those ahead start around them or are promised to.
    fn could_lose_what_is_held(&self, job: &Job, other: &Job) -> bool {
        let has_come_ahead = self.happened.came.is_some_and(|came| came > job.priority);
        let is_promised_around = || self.out_of_the_way(job, job.nodes.clone(), &[]) != job.nodes;
        let is_closed = || !job.nodes.is_subset(&self.usable_beside(job, &[other]));
        self.happened.capacity
            || self.happened.edit
            || has_come_ahead
            || is_closed()
            || is_promised_around()
    }

    /// Returns the nodes that a job loses when these pods are on theirs.
    fn taken_from(&self, job: &Job, there: &[(&NodeName, &Pod)]) -> BTreeSet<NodeName> {
        let mut taken: BTreeSet<NodeName> =
            there.iter().map(|(node, _)| NodeName::clone(node)).collect();
        if let Some(sample) = self.sample(job) {
            let closed = self
                .world
                .server
                .nodes
                .values()
                .filter(|node| self.is_closed_by(there, node, sample));
            taken.extend(closed.map(|node| node.name.clone()));
        }
        taken
    }

    /// Returns the nodes that a job is promised, or that are held for it, each with one of its
    /// pods.
    fn places(&self, job: &Job, nodes: &BTreeSet<NodeName>) -> Vec<(NodeName, Arc<Pod>)> {
        let sample = self.sample(job).into_iter();
        sample
            .flat_map(|sample| nodes.iter().map(|node| (node.clone(), Arc::clone(sample))))
            .collect()
    }

    /// Keeps the nodes on which the job's pods are out of the way: its pods repel none from a place
    /// that is promised to another job, or held for a job ahead, and the pods for which nodes are
    /// held do not repel them.
    fn out_of_the_way(
        &self,
        job: &Job,
        mut nodes: BTreeSet<NodeName>,
        held_for: &[(NodeName, Arc<Pod>)],
    ) -> BTreeSet<NodeName> {
        let Some(sample) = self.sample(job) else { return nodes };
        let held = || held_for.iter().map(|(node, pod)| (node, &**pod));
        nodes.retain(|node| {
            room::repeller(&self.world.server.nodes, held(), &self.world.server.nodes[node], sample)
                .is_none()
        });
        if !job.repels {
            return nodes;
        }
        let others = self.waiting().into_iter().filter(|(_, other)| other.unit != job.unit);
        let promised = others.filter_map(|(_, other)| {
            let (_, nodes) = self.said(other).filter(|(start, _)| start.is_some())?;
            Some(self.places(other, &nodes))
        });
        let places: Vec<(NodeName, Arc<Pod>)> =
            promised.flatten().chain(held_for.iter().cloned()).collect();
        let places = || places.iter().map(|(node, pod)| (node, &**pod));
        nodes.retain(|node| {
            room::avoided(
                &self.world.server.nodes,
                places(),
                &self.world.server.nodes[node],
                sample,
            )
            .is_none()
        });
        nodes
    }

    fn is_patience_over(&self, job: &Job) -> bool {
        let allowed = i64::try_from(BYPASS_SECONDS).expect("a minute") + BYPASS_SLACK_SECONDS;
        job.first_undated.is_some_and(|since| since + allowed < self.world.now)
    }

    // --- at rest ---

    /// Judges the promises once nothing moves any more: they are the naive planner's.
    pub(super) fn judge_promises(&mut self) -> Result<(), Violation> {
        // A pod that should end right now may end in a moment.
        if self
            .world
            .server
            .pods
            .values()
            .any(|pod| pod.uses_node() && self.planned_end(pod) == Some(self.world.now))
        {
            return Ok(());
        }
        let waiting: Vec<(Arc<str>, Job)> =
            self.waiting().into_iter().map(|(name, job)| (Arc::clone(name), job.clone())).collect();
        let (mut held, mut held_for, mut dated) = (BTreeSet::new(), Vec::new(), 0);
        let mut has_blocked = false;
        for (name, job) in &waiting {
            let said = self.said(job);
            let start = said.as_ref().and_then(|(start, _)| *start);
            let own = said.as_ref().map(|(_, nodes)| nodes.clone()).unwrap_or_default();
            let usable = self.usable(job);
            let left: BTreeSet<NodeName> = usable
                .iter()
                .filter(|node| !held.contains(*node) || own.contains(*node))
                .cloned()
                .collect();
            let mut nodes = self.out_of_the_way(job, left.clone(), &held_for);
            if start.is_some() {
                // Earlier promises stand.
                nodes.extend(left.intersection(&own).cloned());
            }
            let plan = self.plan_without(&[job]);
            let is_kept_from_some = nodes != left && plan.has_room(self.world.now, &ask(job, left));
            if is_kept_from_some {
                self.world.stats.count(if job.repels {
                    "kept from nodes promised to a job that it repels"
                } else {
                    "kept from the surroundings of nodes held for a repelling job"
                });
            }
            let earliest = plan.earliest(&ask(job, nodes));
            let say = || {
                format!(
                    "{name}: {said:?}, by the naive planner {earliest:?}, now {}: {job:?}",
                    self.world.now
                )
            };
            match (start, earliest) {
                (_, Some(earliest)) if earliest <= self.world.now => return broken(STARTS, say()),
                // The later places of its pods depend on pods that come and go, so it has no date,
                // even where the naive planner has one.
                (Some(_), _) if job.repels => return broken(ESTIMATED, say()),
                (Some(start), earliest) if earliest != Some(start) => {
                    return broken(EARLIEST, say());
                }
                (Some(_), _) => {
                    dated += 1;
                    self.world.stats.count("promise held against the naive planner's");
                    if self.cpu_max.is_some() {
                        self.world.stats.count("promise within limits");
                    }
                    self.count_repellers(job);
                }
                (None, Some(_)) if !job.repels && dated < self.depth() => {
                    return broken(MADE, say());
                }
                // The job is beyond the depth of the policy.
                (None, Some(_)) if !job.repels => {}
                (None, _) => {
                    // A promise to a job further behind is also a reason to wait, and then the job
                    // counts as passed by no other.
                    let waits_for_others = has_blocked || is_kept_from_some;
                    self.judge_undated(name, job, waits_for_others, &own, (&held, &held_for))?;
                    held_for.extend(self.places(job, &own));
                    held.extend(own);
                }
            }
            has_blocked |=
                start.is_some() || self.could_start_one_day(job, &self.usable_some_day(job));
        }
        Ok(())
    }

    /// Counts a promise that was judged beside repelling pods.
    fn count_repellers(&mut self, job: &Job) {
        let Some(sample) = self.sample(job).cloned() else { return };
        let keeps_it_off = |pod: &&Arc<Pod>| {
            let is_meant = |term: &PodTerm| room::is_selected(term, &sample);
            pod.uses_node() && pod.shape.constraints.repels.iter().any(is_meant)
        };
        let there: Vec<bool> = self
            .world
            .server
            .pods
            .values()
            .filter(keeps_it_off)
            .map(|pod| *pod.scheduler == *self.world.start.scheduler)
            .collect();
        for is_ours in there {
            self.world.stats.count(if is_ours {
                "promise held beside a repelling job"
            } else {
                "kept off by another scheduler's pod"
            });
        }
    }

    /// Judges a job without a known start: others pass it for a limited time, and then it holds as
    /// many nodes as it needs. A pod that repels it, or that it repels, is in its way like any
    /// other, if that pod has an end.
    fn judge_undated(
        &mut self,
        name: &Arc<str>,
        job: &Job,
        has_blocked: bool,
        own: &BTreeSet<NodeName>,
        (held, held_for): (&BTreeSet<NodeName>, &[(NodeName, Arc<Pod>)]),
    ) -> Result<(), Violation> {
        let some_day = self.out_of_the_way(job, self.usable_some_day(job), held_for);
        let usable: BTreeSet<NodeName> = some_day.difference(held).cloned().collect();
        if self.cpu_max.is_some() || !self.could_start_one_day(job, &usable) {
            return Ok(());
        }
        if !has_blocked {
            let job = self.jobs.get_mut(name).expect("it waits");
            job.first_undated.get_or_insert(self.world.now);
        }
        if own.is_empty() && self.is_patience_over(job) {
            return broken(
                PASSED_BY,
                format!("{name} holds nothing at {}: {job:?}", self.world.now),
            );
        }
        if !own.is_empty() {
            self.world.stats.count("nodes held for a job that was passed by");
            if own.is_disjoint(&self.usable(&self.jobs[name])) {
                self.world.stats.count("nodes held for a job that is kept away from them");
            }
            let is_enough = own.len() == job.pods.len() && self.could_start_one_day(job, own);
            if !is_enough {
                return broken(
                    PASSED_BY,
                    format!("{name} holds {own:?} at {}: {job:?}", self.world.now),
                );
            }
        }
        Ok(())
    }

    /// Returns how many jobs hold a reservation.
    fn depth(&self) -> usize {
        match self.world.start.queue_policy {
            QueuePolicy::Fcfs => 0,
            QueuePolicy::Easy => 1,
            QueuePolicy::Hybrid => HYBRID_DEPTH,
            QueuePolicy::Conservative => usize::MAX,
        }
    }

    /// True if the job fits on these nodes once everything with an end has ended.
    fn could_start_one_day(&self, job: &Job, nodes: &BTreeSet<NodeName>) -> bool {
        let mut plan = self.plan_without(&[job]);
        let stays = |pod: &&Arc<Pod>| pod.lifetime == Lifetime::Endless && pod.uses_node();
        plan.intervals = self
            .world
            .server
            .pods
            .values()
            .filter(stays)
            .filter_map(|pod| self.taken(pod))
            .collect();
        plan.has_room(self.world.now, &ask(job, nodes.clone()))
    }

    /// Returns the plan of running and promised jobs, without these.
    fn plan_without(&self, jobs: &[&Job]) -> Plan {
        let runs = self.world.server.pods.values().filter(|pod| pod.uses_node());
        let runs = runs.filter(|pod| !jobs.iter().any(|job| job.pods.contains(&pod.id.key)));
        let mut intervals: Vec<Interval> = runs.filter_map(|pod| self.taken(pod)).collect();
        let is_left_out = |other: &Job| jobs.iter().any(|job| job.unit == other.unit);
        for (_, other) in self.waiting().into_iter().filter(|(_, other)| !is_left_out(other)) {
            if let Some((Some(from), nodes)) = self.said(other) {
                let to = seconds(other).map_or(NEVER, |seconds| from + seconds);
                intervals.push(Interval { from, to, nodes, amounts: other.amounts, counts: true });
            }
        }
        Plan { now: self.world.now, nodes: self.capacities(), intervals, cpu_max: self.cpu_max }
    }

    /// Returns the interval that a pod on a node takes.
    fn taken(&self, pod: &Pod) -> Option<Interval> {
        let node = pod.node.clone()?;
        let to = self.planned_end(pod).filter(|_| !self.is_overdue(pod)).unwrap_or(NEVER);
        let requests = &pod.shape.requests;
        let amounts = super::Amounts { cpu: requests.get("cpu"), memory: requests.get("memory") };
        let counts = *pod.scheduler == *self.world.start.scheduler;
        Some(Interval { from: self.world.now, to, nodes: BTreeSet::from([node]), amounts, counts })
    }

    /// Returns the details of a failure.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.world.trace.lines().map(str::to_string).collect();
        lines.push(format!(
            "now {}, policy {:?}, limit {:?}",
            self.world.now, self.world.start.queue_policy, self.cpu_max
        ));
        lines.extend(self.world.server.nodes.values().map(|node| format!("{node:?}")));
        for pod in self.world.server.pods.values().filter(|pod| pod.uses_node()) {
            let shown = (
                self.planned_end(pod),
                pod.shape.requests.get("cpu"),
                pod.shape.requests.get("memory"),
            );
            let stands = (&pod.labels, &pod.shape.constraints.repels);
            lines.push(format!(
                "pod {} on {:?}, until, CPU, memory: {shown:?}, {stands:?}",
                pod.id, pod.node
            ));
        }
        let waiting = self.waiting();
        lines.extend(
            waiting
                .into_iter()
                .map(|(name, job)| format!("waits {name}: {:?} {job:?}", self.said(job))),
        );
        let records = self
            .world
            .server
            .flux_jobs
            .values()
            .map(|job| format!("{} {:?}", flux_job_ref(job), job.status));
        lines.extend(records.filter(|line| line.contains("Pending")));
        lines
    }
}

fn seconds(job: &Job) -> Option<i64> {
    match job.lifetime {
        Lifetime::Seconds(seconds) => i64::try_from(seconds).ok(),
        Lifetime::Eventually | Lifetime::Endless => None,
    }
}

fn ask(job: &Job, nodes: BTreeSet<NodeName>) -> Ask {
    Ask { pods: job.pods.len(), amounts: job.amounts, nodes, seconds: seconds(job) }
}
