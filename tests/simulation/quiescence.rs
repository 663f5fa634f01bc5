//! Rules at rest, once nothing is under way any more: each job that could run runs; each ended one
//! is recorded as ended; and where everything was deleted, nothing is left.

use std::sync::Arc;

use flux_lists::hostlist;
use fluxqueue_api::JobState;
use fluxqueue_workload::{Lifetime, Phase, Pod, SuspensionPhase, Time};

use crate::controllers::waits_without_pods;
use crate::executor::Weather;
use crate::fairness;
use crate::instance::Instance;
use crate::jobs::{self, Unit};
use crate::kubelet;
use crate::machine::BYPASS_SECONDS;
use crate::objects::{OURS, Run, Template, is_ours};
use crate::pod_groups;
use crate::simulation::Simulation;
use crate::suspended;
use crate::trace;
use crate::violation::{Violation, broken};

/// Most rounds until the system must have come to rest.
const ROUNDS_MAX: usize = 4_000;
/// Longer than every back-off, hold-back and retry, in milliseconds.
const CALM_MILLIS: i64 = 650_000;
/// Time after a planned end in which its consequences may be announced, with the differences of
/// clocks.
const PLANNED_END_MILLIS: i64 = 40_000;
/// Time afterwards in which nothing may happen at all.
const QUIET_MILLIS: i64 = 120_000;
/// Longer than finished jobs are kept, in milliseconds.
const KEPT_MILLIS: i64 = 4_000_000;

/// The rule, which holds also where jobs wait.
pub(crate) const WRITES_NOTHING: &str = "a new process writes nothing where nothing has changed";

/// The pods' behaviour meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pods {
    Frozen,
    Ending,
}

/// Brings the system to rest and judges it. Running pods go on running meanwhile, so that waiting
/// jobs wait.
pub(crate) fn rest(sim: &mut Simulation) -> Result<(), Violation> {
    let wall = sim.wall();
    sim.world.complete_groups(&mut sim.server, wall, &mut sim.rng, &mut sim.stats);
    while !sim.late.is_empty() {
        sim.land()?;
    }
    sim.world.open_queues(&mut sim.server);
    if sim.rng.chance(40) {
        sim.world.release_everything(&mut sim.server);
    }
    if sim.rng.chance(40) {
        kubelet::heal(&mut sim.server);
    }
    settle(sim, Pods::Frozen, CALM_MILLIS)?;
    stay_quiet(sim)?;
    sim.stats.count("quiescence reached");
    for who in sim.everyone() {
        sim.instances[who].succession.forget();
        let scheduler = Arc::clone(&sim.instances[who].start.scheduler);
        fairness::judge(sim, &scheduler)?;
    }
    judge_records(sim)?;
    suspended::judge_at_rest(&sim.server)?;
    pod_groups::judge_at_rest(&sim.server)?;
    if sim.rng.chance(30) { restart(sim) } else { Ok(()) }
}

/// Lets new processes take over while all is quiet. They have nothing to write, so they place no
/// job that the last ones have not.
fn restart(sim: &mut Simulation) -> Result<(), Violation> {
    let waits = |pod: &Arc<Pod>| is_ours(pod) && pod.node.is_none() && !pod.phase.is_terminal();
    if sim.instances.iter().any(|instance| instance.executor.waiting() > 0) {
        // A planned end has passed while the quiet was being checked: its consequences have to be
        // on record first.
        settle(sim, Pods::Frozen, CALM_MILLIS)?;
    }
    let is_at_rest = !sim.server.pods.values().any(waits)
        && !sim.server.controllers.values().any(|it| waits_without_pods(it));
    for who in sim.everyone() {
        sim.restart(who);
        // A job without a place may get one from a new search, and that is written.
        let may_start = is_at_rest
            || !(may_find_a_place(sim)
                || has_failed_release(sim)
                || holds_for_one_of_several(sim)
                || waits_for_several_promised_nodes(sim));
        let is_judged = !has_passed_a_planned_end(sim) && may_start;
        sim.quiet_by = is_judged.then_some(WRITES_NOTHING);
        settle(sim, Pods::Frozen, CALM_MILLIS)?;
        // Something may have happened meanwhile.
        if sim.quiet_by.take().is_some() {
            sim.stats.count(if is_at_rest {
                "quiet restart"
            } else {
                "quiet restart beside jobs that wait"
            });
        }
    }
    Ok(())
}

/// True if a running gang holds nodes for one of several pods that are to join it. The record does
/// not say for which, and a new process tries the first of them first.
fn holds_for_one_of_several(sim: &Simulation) -> bool {
    sim.server.flux_jobs.values().filter_map(|job| job.status.as_ref()).any(|status| {
        let is_dateless =
            status.reservation.as_ref().is_some_and(|reservation| reservation.start.is_none());
        is_dateless && !status.placement.is_empty() && status.total - status.bound > 1
    })
}

/// True if a job waits behind a promise of several nodes. The record does not say how many pods are
/// for each of them: a new process may keep the promise on fewer of them, and start the job on the
/// others.
fn waits_for_several_promised_nodes(sim: &Simulation) -> bool {
    let statuses = || sim.server.flux_jobs.values().filter_map(|job| job.status.as_ref());
    let is_behind = |key: &str| {
        let mut blockers = statuses().flat_map(|status| &status.blocked_by);
        blockers.any(|blocker| blocker.behind.as_deref() == Some(key))
    };
    sim.server.flux_jobs.iter().any(|(key, job)| {
        let promise = job.status.as_ref().and_then(|status| status.reservation.as_ref());
        let promise = promise.filter(|promise| promise.start.is_some());
        promise.is_some_and(|promise| {
            hostlist::decode(&promise.nodes).expect("a hostlist").len() > 1
                && is_behind(&key.to_string())
        })
    })
}

/// True if a Job was released, and its pods have not all come: a new process counts that as a
/// failure, and starts a new pause for the namespace.
fn has_failed_release(sim: &Simulation) -> bool {
    sim.server.controllers.values().any(|made_by| {
        let phase = made_by.suspension.as_ref().map(|suspension| &suspension.phase);
        let pods = || {
            sim.server
                .pods
                .values()
                .filter(|pod| pod.owner.as_ref().is_some_and(|owner| owner.uid == made_by.id.uid))
        };
        matches!(phase, Some(SuspensionPhase::Released { .. }))
            && pods().count() < made_by.parallelism as usize
    })
}

/// True if it depends on the order of attempts whether a gang fits: where no place was found and
/// none proved impossible, and without extensions, where gangs of several shapes are placed pod by
/// pod.
fn may_find_a_place(sim: &Simulation) -> bool {
    let blockers =
        sim.server.flux_jobs.values().filter_map(|job| job.status.as_ref()?.blocked_by.first());
    sim.rng.whole_amounts
        || blockers
            .into_iter()
            .any(|blocker| blocker.message.contains("none was proved impossible"))
}

/// Lets everything end, deletes the rest, and checks that the cluster is as empty as at first.
pub(crate) fn clear(sim: &mut Simulation) -> Result<(), Violation> {
    // Records of jobs that ended before the clock was set back are kept until it is as late again.
    if sim.offset < sim.offset_max {
        sim.set_offset(sim.offset_max);
    }
    sim.world.release_everything(&mut sim.server);
    sim.world.open_queues(&mut sim.server);
    kubelet::heal(&mut sim.server);
    settle(sim, Pods::Ending, CALM_MILLIS)?;
    judge_records(sim)?;
    restart(sim)?;
    let uids: Vec<_> = sim.server.controllers.keys().cloned().collect();
    for uid in &uids {
        sim.server.remove_controller(uid);
    }
    let keys: Vec<_> = sim.server.pods.keys().cloned().collect();
    for key in &keys {
        sim.server.delete_pod(key);
    }
    settle(sim, Pods::Ending, CALM_MILLIS)?;
    fill_nodes(sim)?;
    settle(sim, Pods::Ending, KEPT_MILLIS)?;
    stay_quiet(sim)?;
    if let Some(job) = sim.server.flux_jobs.values().next() {
        return broken("deleted objects leave nothing behind", trace::flux_job(job));
    }
    Ok(())
}

/// Delivers everything with success, until nothing moves for `calm_millis`.
fn settle(sim: &mut Simulation, pods: Pods, calm_millis: i64) -> Result<(), Violation> {
    let mut until = sim.now.plus_millis(calm_millis);
    for _ in 0..ROUNDS_MAX {
        let moved = drain(sim)?;
        if moved {
            until = until.max(sim.now.plus_millis(calm_millis.min(CALM_MILLIS)));
            continue;
        }
        if sim.now >= until {
            return sim.instances.iter().try_for_each(Instance::judge_accounts);
        }
        let timers = [
            sim.next_wake(),
            sim.world
                .controllers
                .next_retry(&sim.server, sim.wall())
                .map(|at| Time(at.0 - sim.offset)),
            if pods == Pods::Ending { sim.kubelets.next_end(&sim.server) } else { None },
            Some(until),
        ];
        let next = timers.into_iter().flatten().min().unwrap_or(until);
        sim.now = next.max(sim.now.plus_millis(1));
        if sim.quiet_by.is_some() && has_passed_a_planned_end(sim) {
            // This is news.
            sim.quiet_by = None;
        }
        if pods == Pods::Ending {
            sim.end_pods();
        }
    }
    broken("the core becomes quiet", format!("{ROUNDS_MAX} rounds and no end"))
}

/// Delivers everything that is under way. False if nothing was.
fn drain(sim: &mut Simulation) -> Result<bool, Violation> {
    let mut moved = false;
    sim.publish();
    for who in sim.everyone() {
        while !sim.instances[who].channel.is_empty() && sim.deliver(who) {
            moved = true;
        }
        while sim.instances[who].executor.waiting() > 0 {
            sim.execute(who, Weather::Calm);
            moved = true;
        }
        while sim.answer(who) {
            moved = true;
        }
        moved |= !sim.decide(who)?.is_empty();
    }
    while sim.admit()? {
        moved = true;
    }
    let uids: Vec<_> = sim.server.controllers.keys().cloned().collect();
    let wall = sim.wall();
    for uid in uids {
        let (server, rng, stats) = (&mut sim.server, &mut sim.rng, &mut sim.stats);
        let (did, made) = sim.world.controllers.sync_one(server, &uid, wall, rng, stats);
        moved |= did;
        if did {
            // Pods that it made or removed are news.
            sim.quiet_by = None;
        }
        if let Some((uid, run)) = made {
            sim.world.runs.insert(uid, run);
        }
    }
    while sim.world.controllers.collect_garbage(&mut sim.server, &mut sim.rng) {
        moved = true;
    }
    while sim.kubelets.let_go(&mut sim.server, &mut sim.rng, &mut sim.stats) {
        moved = true;
    }
    sim.publish();
    Ok(moved)
}

/// Checks that nothing is done where nothing changes: timers may fire, but lead to no action.
fn stay_quiet(sim: &mut Simulation) -> Result<(), Violation> {
    let end = sim.now.plus_millis(QUIET_MILLIS);
    let mut wakes = 0_u32;
    while sim.now < end {
        let next = sim.next_wake().unwrap_or(end).min(end);
        sim.now = next.max(sim.now.plus_millis(1));
        wakes += 1;
        // A pod that outlives its planned end is news, with consequences that may come half a
        // minute later.
        let is_at_rest = !has_passed_a_planned_end(sim);
        sim.quiet_by = is_at_rest.then_some("the core becomes quiet");
        for who in sim.everyone() {
            sim.decide(who)?;
        }
        sim.quiet_by = None;
        if wakes > 10_000 {
            return broken("the core becomes quiet", "it wants to be woken all the time");
        }
    }
    Ok(())
}

/// True if a running pod reached its planned end a while ago, by some clock, or a job has been
/// passed by for long enough.
fn has_passed_a_planned_end(sim: &Simulation) -> bool {
    // The processes may have compared their clock with the server's before that jumped.
    let known = sim.instances.iter().map(|instance| instance.promises.offset);
    let walls: Vec<Time> =
        known.chain([sim.offset]).map(|offset| Time(sim.now.0 + offset)).collect();
    let is_near = |end: Time| {
        let near = |wall: &Time| {
            wall.plus_millis(-PLANNED_END_MILLIS) <= end
                && end <= wall.plus_millis(PLANNED_END_MILLIS)
        };
        walls.iter().any(near)
    };
    // A nominated pod takes the node, too.
    let is_there = |pod: &&Arc<Pod>| pod.node.is_some() || pod.nominated.is_some();
    let runs = sim.server.pods.values().filter(|pod| is_there(pod) && !pod.phase.is_terminal());
    // A Job with more completions than parallelism is planned until its last wave ends.
    let waves = |pod: &Pod| {
        let job = pod.owner.as_ref().and_then(|owner| sim.server.controllers.get(&owner.uid));
        job.and_then(|job| Some(u64::from(job.completions?.div_ceil(job.parallelism.max(1)))))
            .unwrap_or(1)
            .max(1)
    };
    let mut ends = runs.flat_map(|pod| {
        let from = pod.started.unwrap_or(pod.created);
        let after = |seconds: u64| {
            (1..=waves(pod)).map(move |wave| from.plus_secs(seconds.saturating_mul(wave)))
        };
        let seconds =
            if let Lifetime::Seconds(seconds) = pod.lifetime { Some(seconds) } else { None };
        seconds.into_iter().flat_map(after).collect::<Vec<Time>>()
    });
    let mut deadlines =
        sim.server.controllers.values().filter_map(|controller| controller.deadline);
    let passed_by = sim
        .server
        .flux_jobs
        .values()
        .filter_map(|job| job.status.as_ref()?.passed_by_since.as_ref());
    let mut patience =
        passed_by.map(|since| Time(since.0.as_microsecond()).plus_secs(BYPASS_SECONDS));
    let mut annotated =
        sim.server.controllers.values().filter(|controller| controller.walltime.is_some());
    ends.any(is_near)
        || patience.any(is_near)
        || deadlines.any(is_near)
        || annotated.next().is_some()
}

/// Judges that each submission has its record, except lone pods that did not wait, and that ended
/// jobs are recorded as ended.
fn judge_records(sim: &mut Simulation) -> Result<(), Violation> {
    // The record of a pod with a group that is not there is that of the group.
    let is_judged = |pod: &&Arc<Pod>| {
        is_ours(pod) && pod.owner.is_none() && !pod_groups::is_barred(&sim.server, pod)
    };
    for pod in sim.server.pods.values().filter(is_judged) {
        let unit = Unit::of(pod);
        let records = jobs::records(&unit, &sim.server.flux_jobs);
        // A pod that is being deleted gets no new record if a user has deleted the old one.
        let owed = !pod.deleting
            && (pod.node.is_none()
                || sim.instances.iter().all(|instance| instance.start.record_lone_pods));
        if let (Unit::Single(_), false, true, []) =
            (&unit, pod.phase.is_terminal(), owed, records.as_slice())
        {
            return broken(
                "everything submitted is recorded",
                format!("no FluxJob for pod {} ({})", pod.id, pod.id.uid),
            );
        }
        if let (Unit::Single(_), []) = (&unit, records.as_slice())
            && !owed
        {
            sim.stats.count("lone pod without a FluxJob");
        }
        if let (Unit::Single(_), [job]) = (&unit, records.as_slice()) {
            let expected = match pod.phase {
                Phase::Succeeded => JobState::Completed,
                Phase::Failed | Phase::Refused { .. } | Phase::Disrupted { .. } => JobState::Failed,
                Phase::Pending | Phase::Running => continue,
            };
            let state = job.status.as_ref().and_then(|status| status.state);
            if state != Some(expected) {
                let text = format!("{}, {}", trace::pod(pod), trace::flux_job(job));
                return broken("finished jobs say how they ended", text);
            }
        }
    }
    for controller in sim.server.controllers.values().filter(|it| it.finished) {
        let running = |pod: &Arc<Pod>| {
            !pod.phase.is_terminal()
                && pod.owner.as_ref().is_some_and(|owner| owner.uid == controller.id.uid)
        };
        if sim.server.pods.values().any(running) {
            continue;
        }
        let unit = Unit::Job(controller.id.uid.clone());
        for job in jobs::records(&unit, &sim.server.flux_jobs) {
            let state = job.status.as_ref().and_then(|status| status.state);
            let expected = if controller.failed { JobState::Failed } else { JobState::Completed };
            if state != Some(expected) {
                let text = format!(
                    "Job {} failed: {}, {}",
                    controller.id,
                    controller.failed,
                    trace::flux_job(job)
                );
                return broken("finished jobs say how they ended", text);
            }
        }
    }
    Ok(())
}

/// Binds a pod that needs all of a node to each of them, which fails if deleted pods are still
/// charged.
fn fill_nodes(sim: &mut Simulation) -> Result<(), Violation> {
    kubelet::heal(&mut sim.server);
    let nodes: Vec<_> = sim.server.nodes.values().cloned().collect();
    let mut keys = Vec::new();
    for node in &nodes {
        let mut shape = fluxqueue_workload::Shape {
            requests: node.allocatable.clone(),
            constraints: fluxqueue_workload::constraints::Constraints::default(),
        };
        shape
            .constraints
            .node_selector
            .push((Arc::from(crate::objects::HOST), Arc::from(&*node.name)));
        let template = Template {
            scheduler: Arc::from(OURS),
            shape: Arc::new(shape),
            lifetime: Lifetime::Seconds(10),
            priority: 0,
            gates: Vec::new(),
            labels: Arc::from([]),
            group: None,
            pod_group: None,
            unsupported: Vec::new(),
            levels: None,
            exclusive: false,
            run: Run { seconds: None, fails_percent: 0 },
        };
        let id = sim.server.new_ref(&format!("whole-{}", node.name));
        sim.world.runs.insert(id.uid.clone(), template.run);
        sim.server.put_pod(template.pod(id.clone(), sim.wall(), None, None));
        keys.push(id.key);
    }
    settle(sim, Pods::Frozen, CALM_MILLIS)?;
    for key in keys {
        let pod = &sim.server.pods[&key];
        if pod.phase != Phase::Running {
            let record = jobs::records(&Unit::of(pod), &sim.server.flux_jobs)
                .first()
                .map(|job| job.status.clone());
            let text = format!(
                "pod {key} asks for all of an empty node and is {:?}: {record:?}",
                pod.phase
            );
            return broken("nothing is charged for pods that are gone", text);
        }
        sim.stats.count("whole node filled again");
        sim.server.delete_pod(&key);
    }
    settle(sim, Pods::Ending, CALM_MILLIS)
}
