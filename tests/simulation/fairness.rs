//! First come, first served, judged at rest: no job waits that could start, unless an earlier job
//! holds the place.
//!
//! The answer is uncertain for groups with contradicting labels, and for groups larger than their
//! size and of several shapes. Then the waiting job is not claimed to start, and is accepted as an
//! excuse for those behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{FluxJob, JobState};
use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_workload::{NodeName, Pod, Time, Uid};

use crate::jobs::{self, Unit};
use crate::objects::{self, FOREIGN_GATE};
use crate::pod_groups;
use crate::room::{self, Nodes};
use crate::seating::{self, Seating};
use crate::simulation::Simulation;
use crate::suspended;
use crate::trace;
use crate::violation::{Violation, broken};
use crate::world::ends;

const HEAD_STARTS: &str = "a job at the head of the queue that could start does";
const GANG_AT_HEAD_STARTS: &str = "a gang of several shapes starts if it fits";

/// A job with pods that wait.
struct Waiting<'a> {
    unit: Unit,
    pods: Vec<&'a Arc<Pod>>,
    priority: i32,
    queued_at: Option<Time>,
    /// Number of pods that start together.
    together: usize,
    /// True if that number is certain.
    sized: bool,
    /// True if the pods are of one shape, and certain in all other respects.
    alike: bool,
    /// True if none of its pods has started, and all that start together exist.
    complete: bool,
    /// True if this number of pods may certainly start.
    claim: bool,
    /// True if pods of several shapes are placed in one request.
    joint: bool,
    /// True if it is promised a start, or holds nodes without one.
    reserved: bool,
}

impl Waiting<'_> {
    /// Returns the pods that start together.
    fn starters(&self) -> Vec<&Pod> {
        self.pods[..self.together].iter().map(|pod| &***pod).collect()
    }

    /// True if it has to start when there is room.
    fn is_claimed(&self) -> bool {
        self.claim && (self.alike || (self.joint && self.complete))
    }
}

/// Judges that no job of this scheduler waits that could start, without an earlier one that may
/// hold it back.
pub(crate) fn judge(sim: &mut Simulation, scheduler: &str) -> Result<(), Violation> {
    let mut claims = 0;
    let calm = unhindered(&sim.server.nodes);
    let stand_ins = suspended::stand_ins(&sim.server, scheduler);
    let waiting = waiting(sim, scheduler, &stand_ins);
    for job in &waiting {
        judge_satisfiable(sim, &calm, job)?;
        if !job.is_claimed() {
            continue;
        }
        claims += 1;
        if !fits(sim, job) {
            continue;
        }
        let excuse = waiting.iter().find(|other| {
            other.unit != job.unit && may_go_ahead(other, job) && holds(sim, &calm, other, job)
        });
        if excuse.is_none() {
            let rule = if job.alike { HEAD_STARTS } else { GANG_AT_HEAD_STARTS };
            return broken(rule, describe(sim, job, &waiting));
        }
    }
    let joint = waiting.iter().filter(|job| !job.alike && job.complete).count();
    sim.stats.add("head of the queue would have to be checked", claims);
    sim.stats.add("gang of several shapes waits", joint as u64);
    Ok(())
}

/// Judges that a gang of several shapes is called Unsatisfiable exactly if the idle cluster has no
/// room for all of it.
fn judge_satisfiable(sim: &Simulation, calm: &Nodes, job: &Waiting) -> Result<(), Violation> {
    let records = jobs::records(&job.unit, &sim.server.flux_jobs);
    let [record] = records.as_slice() else { return Ok(()) };
    if job.alike || !job.complete || !job.joint {
        return Ok(());
    }
    let said =
        record.status.as_ref().is_some_and(|status| status.state == Some(JobState::Unsatisfiable));
    if said == could_ever_start(calm, job) {
        let text = format!("said: {said}, {}", describe(sim, job, &[]));
        return broken("Unsatisfiable is what does not fit the idle cluster", text);
    }
    Ok(())
}

fn describe(sim: &Simulation, job: &Waiting, waiting: &[Waiting]) -> String {
    let record = jobs::records(&job.unit, &sim.server.flux_jobs);
    format!(
        "{:?} waits, pods {:?}, record {:?}, all that waits: {:?}",
        job.unit,
        job.pods.iter().map(|pod| trace::pod(pod)).collect::<Vec<_>>(),
        record.iter().map(|job| trace::flux_job(job)).collect::<Vec<_>>(),
        waiting.iter().map(|it| (&it.unit, it.priority, it.queued_at)).collect::<Vec<_>>(),
    )
}

/// Returns the waiting jobs. `stand_ins` are pods that suspended Jobs will have.
fn waiting<'a>(
    sim: &'a Simulation<'_>,
    scheduler: &str,
    stand_ins: &'a [Arc<Pod>],
) -> Vec<Waiting<'a>> {
    let mut units: BTreeMap<Unit, Vec<&Arc<Pod>>> = BTreeMap::new();
    let pods = sim
        .server
        .pods
        .values()
        .filter(|pod| *pod.scheduler == *scheduler && !pod.phase.is_terminal());
    for pod in pods.chain(stand_ins) {
        units.entry(Unit::of(pod)).or_default().push(pod);
    }
    let mut all = Vec::new();
    for (unit, members) in units {
        let records = jobs::records(&unit, &sim.server.flux_jobs);
        if held(sim, &members, &records) {
            continue;
        }
        // The others of its job may or may not be started without a pod that cannot be.
        let is_barred = |pod: &Pod| is_barred(pod) || pod_groups::is_barred(&sim.server, pod);
        let barred = members.iter().any(|pod| is_barred(pod));
        let pods: Vec<_> = members
            .iter()
            .filter(|pod| pod.node.is_none() && !pod.deleting && !is_barred(pod))
            .copied()
            .collect();
        let Some(first) = pods.first() else { continue };
        let record = if let [record] = records.as_slice() { Some(record) } else { None };
        let queued_at = record.and_then(|job| queued_at(job));
        let of_set = || {
            sim.server
                .flux_jobs
                .values()
                .find(|job| owners(sim, &members).iter().any(|uid| jobs::is_for(job, uid)))
        };
        let counts = |job: &Arc<FluxJob>| job.status.as_ref()?.priority;
        let priority = record.copied().or_else(of_set).and_then(counts).unwrap_or(first.priority);
        // It is not certain which priority counts in a group with pods of different ones.
        let all_of_it = sim.server.pods.values().filter(|pod| Unit::of(pod) == unit);
        let mixed = !single_priority(all_of_it.map(|pod| pod.priority));
        let priority = if mixed { i32::MAX } else { priority };
        // The open nodes of these pods depend on others, and no other job is held up for them.
        let asks =
            |pod: &Pod| pod.shape.constraints.asks_about_pods() || objects::is_bound_to_others(pod);
        // Of groups that share a name, some may require nodes alone, and others not: such a gang is
        // refused.
        let asks = pods.iter().any(|pod| asks(pod) || pod.exclusive != first.exclusive);
        let alike =
            !mixed && !barred && !asks && pods.iter().all(|pod| seating::are_alike(pod, first));
        let single = matches!(unit, Unit::Single(_));
        // Pods of a job that has begun join it one by one. Once all pods that have begun are being
        // deleted, a new start follows, with as many pods as its owner or its group then wants.
        let begun = members.iter().any(|pod| pod.node.is_some() && !pod.deleting);
        let leaves = !begun && members.iter().any(|pod| pod.node.is_some());
        let size = match () {
            () if begun || single => Some(1),
            () if leaves => None,
            () => start_size(sim, &unit, &members),
        };
        let claim = !mixed
            && !barred
            && !asks
            && (single || record.is_some())
            && size.is_some_and(|size| size <= pods.len());
        let complete =
            claim && !begun && size == Some(members.len()) && pods.len() == members.len();
        let together = size.unwrap_or(pods.len()).min(pods.len());
        let own_place = first.owner.is_none() || !single;
        let queued_at = queued_at.filter(|_| own_place);
        let reserved = record.is_some_and(|job| {
            job.status.as_ref().is_some_and(|status| status.reservation.is_some())
        });
        let sized = size.is_some();
        // A library without extensions places pods of several shapes one after the other.
        let joint = !sim.rng.whole_amounts;
        all.push(Waiting {
            unit,
            pods,
            priority,
            queued_at,
            together,
            sized,
            alike,
            complete,
            claim,
            joint,
            reserved,
        });
    }
    all
}

fn single_priority(mut priorities: impl Iterator<Item = i32>) -> bool {
    let first = priorities.next();
    priorities.all(|priority| Some(priority) == first)
}

/// True if the pod cannot be started as it is.
fn is_barred(pod: &Pod) -> bool {
    let gated = pod.gates.iter().any(|gate| **gate == *FOREIGN_GATE);
    let invalid = pod.group.as_ref().is_some_and(|group| group.size.is_err());
    gated || invalid || !pod.unsupported.is_empty()
}

/// True if a user holds the job, or the set that the pod is a part of.
fn held(sim: &Simulation, members: &[&Arc<Pod>], records: &[&Arc<FluxJob>]) -> bool {
    let owners = owners(sim, members);
    let of_owner = |job: &&Arc<FluxJob>| owners.iter().any(|uid| jobs::is_for(job, uid));
    let mut all = records.iter().copied().chain(sim.server.flux_jobs.values().filter(of_owner));
    all.any(|job| job.spec.overrides.hold)
}

/// Returns the objects that made these pods, and their owners.
fn owners(sim: &Simulation, members: &[&Arc<Pod>]) -> BTreeSet<Uid> {
    let made_by = members.iter().filter_map(|pod| pod.owner.as_ref());
    let all = made_by.flat_map(|owner| {
        let top = sim.server.controllers.get(&owner.uid).and_then(|it| it.owner.as_ref());
        [Some(owner.uid.clone()), top.map(|top| top.uid.clone())]
    });
    all.flatten().collect()
}

fn queued_at(job: &FluxJob) -> Option<Time> {
    job.status.as_ref()?.queued_at.as_ref().map(|at| Time(at.0.as_microsecond()))
}

/// Returns how many pods start together, if that is certain.
fn start_size(sim: &Simulation, unit: &Unit, members: &[&Arc<Pod>]) -> Option<usize> {
    match unit {
        Unit::Single(_) => Some(1),
        Unit::Job(uid) => sim.server.controllers.get(uid).and_then(|job| {
            let active = members.iter().filter(|pod| !pod.deleting).count();
            (!job.finished && !job.deleting && active == job.wants as usize).then_some(active)
        }),
        Unit::PodGroup(..) => {
            let stays = |pod: &&Arc<Pod>| pod.owner.is_none() && !pod.deleting;
            members.iter().all(stays).then(|| pod_groups::start_size(&sim.server, members[0]))?
        }
        Unit::Group(..) => {
            let size_of =
                |pod: &Arc<Pod>| pod.group.as_ref().and_then(|group| group.size.clone().ok());
            let size = size_of(members[0])?;
            let alike = |pod: &&Arc<Pod>| {
                pod.owner.is_none() && !pod.deleting && size_of(pod) == Some(size)
            };
            members.iter().all(alike).then_some(size as usize)
        }
    }
}

/// True if `other` may go ahead of `job`: it was promised nodes that `job` may need, or it does not
/// certainly stand behind `job` in the queue.
fn may_go_ahead(other: &Waiting, job: &Waiting) -> bool {
    other.reserved || !is_later(other, job)
}

fn is_later(other: &Waiting, job: &Waiting) -> bool {
    if other.priority != job.priority {
        return other.priority < job.priority;
    }
    matches!((other.queued_at, job.queued_at), (Some(a), Some(b)) if a > b)
}

/// True if `other` may hold `job` back if it is earlier: it could start one day, and on nodes that
/// `job` could use too.
fn holds(sim: &Simulation, calm: &Nodes, other: &Waiting, job: &Waiting) -> bool {
    let shared = sim.server.nodes.values().any(|node| {
        let usable = |pod: &Arc<Pod>| room::barred(&calm[&node.name], pod).is_none();
        other.pods.iter().any(|pod| usable(pod))
            && job.pods.iter().any(|pod| room::barred(node, pod).is_none())
    });
    let certain = (other.alike && other.sized) || (other.joint && other.complete);
    shared && (!certain || could_start(sim, calm, other))
}

/// Returns the nodes without taints and the like that keep pods away only for a while.
fn unhindered(nodes: &Nodes) -> Nodes {
    let calm = |node: &Arc<Node>| Node {
        unschedulable: false,
        readiness: Readiness::Ready,
        ..Node::clone(node)
    };
    nodes.iter().map(|(name, node)| (name.clone(), Arc::new(calm(node)))).collect()
}

/// True if there is room for all pods that start together.
fn fits(sim: &Simulation, job: &Waiting) -> bool {
    Seating::new(&sim.server.nodes, placed(sim)).fits(&job.starters())
}

/// True if there could be room once everything with an end has ended, and no pod without an end
/// keeps it away.
fn could_start(sim: &Simulation, calm: &Nodes, job: &Waiting) -> bool {
    let stays = |pod: &Pod| !ends(pod) && pod.shape.constraints.repels.is_empty();
    Seating::new(calm, placed(sim).filter(|(_, pod)| stays(pod))).fits(&job.starters())
}

/// True if there would be room on the idle cluster.
fn could_ever_start(calm: &Nodes, job: &Waiting) -> bool {
    Seating::new(calm, std::iter::empty()).fits(&job.starters())
}

/// Returns pods that take up room, with their nodes. A nominated node counts, because another
/// scheduler relies on its room.
fn placed<'a>(sim: &'a Simulation<'_>) -> impl Iterator<Item = (&'a NodeName, &'a Pod)> {
    let alive = sim.server.pods.values().filter(|pod| !pod.phase.is_terminal());
    alive.filter_map(|pod| Some((pod.node.as_ref().or(pod.nominated.as_ref())?, &**pod)))
}
