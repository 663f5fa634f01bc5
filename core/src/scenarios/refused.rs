//! Writes that the API server refuses, or does not answer: nodes are not idle because of them, and
//! pods get the reason.

use super::*;
use crate::QueuePolicy;
use crate::telling::words;

/// The words of the API server.
const WORDS: &str = "403: the namespace is not approved";

/// Like [`World::settle`], but actions for which `instead` has an outcome get that outcome. Returns
/// how often that was.
pub(super) fn settle_but(world: &mut World, instead: impl Fn(&Action) -> Option<Outcome>) -> usize {
    let mut count = 0;
    for _ in 0..100 {
        let actions = world.step();
        if actions.is_empty() {
            let soon = world.now.plus_millis(100);
            match world.core.next_wake().filter(|wake| *wake <= soon) {
                Some(wake) => world.now = world.now.max(wake),
                None => return count,
            }
        }
        for action in actions {
            match instead(&action) {
                Some(outcome) => {
                    count += 1;
                    world.tell(Event::Done(action.id, outcome));
                }
                None => world.carry_out(action),
            }
        }
    }
    panic!("the core does not come to rest");
}

/// A second at a time.
pub(super) fn seconds_go_by_but(
    world: &mut World,
    seconds: u32,
    instead: impl Fn(&Action) -> Option<Outcome>,
) -> usize {
    let mut count = 0;
    for _ in 0..seconds {
        world.pass_seconds(1);
        count += settle_but(world, &instead);
    }
    count
}

pub(super) fn of_namespace(namespace: &str, mut pod: Pod) -> Pod {
    pod.id.key = ObjectKey::new(namespace, &*pod.id.key.name);
    pod
}

/// Bindings in namespace "ns" are refused.
fn refused_bindings(action: &Action) -> Option<Outcome> {
    let refused = || Outcome::Bind(BindOutcome::Refused(WORDS.to_owned()));
    matches!(&action.kind, ActionKind::Bind { pod, .. } if &*pod.key.namespace == "ns")
        .then(refused)
}

/// Bindings in namespace "ns" have no answer.
fn unanswered_bindings(action: &Action) -> Option<Outcome> {
    let failed = || Outcome::Bind(BindOutcome::Failed("no answer within 5000 ms".to_owned()));
    matches!(&action.kind, ActionKind::Bind { pod, .. } if &*pod.key.namespace == "ns").then(failed)
}

fn creation(action: &Action, outcome: WriteOutcome) -> Option<Outcome> {
    let ActionKind::Write(Write::CreateFluxJob { job, .. }) = &action.kind else { return None };
    (job.metadata.namespace.as_deref() == Some("ns")).then_some(Outcome::Write(outcome))
}

fn refused_creation(action: &Action) -> Option<Outcome> {
    creation(action, WriteOutcome::Refused("403: exceeded quota: objects".to_owned()))
}

/// A pod of another namespace that needs a whole node of four cores.
fn victim(world: &mut World, name: &str) {
    let created = Time::from_seconds(1500);
    world.submit(of_namespace("other", Pod { created, ..pod(name, 4) }));
}

#[test]
fn a_gang_whose_bindings_are_refused_gives_its_nodes_back_and_says_why() {
    for queue_policy in [QueuePolicy::Fcfs, QueuePolicy::Easy] {
        let told = CoreSettings { queue_policy, ..settings() };
        let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
        world.submit_gang(2);
        settle_but(&mut world, refused_bindings);
        assert_eq!(world.blocked("j"), ("BindFailed".to_owned(), format!("pod ns/p0: {WORDS}")));
        for name in ["p0", "p1"] {
            assert!(
                world.conditions[name].message.contains(WORDS),
                "{name}: {:?}",
                world.conditions
            );
        }
        victim(&mut world, "victim");
        settle_but(&mut world, refused_bindings);
        assert_eq!(world.node_of("victim"), Some("a"), "{queue_policy:?}");
        world.change("victim", |pod| pod.phase = Phase::Succeeded);
        // It is tried less and less often, and what comes meanwhile starts.
        let attempts = seconds_go_by_but(&mut world, 1200, refused_bindings);
        assert!((2..40).contains(&attempts), "{queue_policy:?}: {attempts}");
        assert_eq!(world.core.gauges().placements_withdrawn, 11 + 1);
        world.pass_seconds(301);
        world.settle();
        assert_eq!(
            (world.node_of("p0"), world.node_of("p1")),
            (Some("a"), Some("a")),
            "{queue_policy:?}"
        );
    }
}

#[test]
fn a_gang_of_which_one_is_bound_keeps_the_seats_of_the_others_for_a_minute() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_gang(2);
    let second = |action: &Action| refused_bindings(action).filter(|_| names_pod(action, "p1"));
    settle_but(&mut world, second);
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("a"), None));
    victim(&mut world, "small");
    world.change("small", |pod| pod.shape = Arc::clone(&super::pod("x", 2).shape));
    let timeout = u32::try_from(world.core.settings.gang_start_timeout_secs).expect("a minute");
    seconds_go_by_but(&mut world, timeout - 1, second);
    assert_eq!(world.node_of("small"), None, "the seat is kept");
    seconds_go_by_but(&mut world, 10, second);
    assert_eq!(world.node_of("small"), Some("a"), "it is given back");
    let status = world.record("j").status.clone().expect("a status");
    let degraded = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Degraded")
        .expect("it says so");
    assert!(degraded.status == "True" && degraded.message.contains(WORDS), "{degraded:?}");
    world.change("small", |pod| pod.phase = Phase::Succeeded);
    for _ in 0..301 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.node_of("p1"), Some("a"));
}

/// The Bindings of a pod were refused while its gang ran; then it starts again with others.
#[test]
fn a_gang_that_starts_again_is_not_parted_by_the_pause_of_one_of_its_pods() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_gang(2);
    let second = |action: &Action| refused_bindings(action).filter(|_| names_pod(action, "p1"));
    seconds_go_by_but(&mut world, 50, second);
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("a"), None));
    world.change("p0", |pod| pod.phase = Phase::Failed);
    world.submit(of_job(pod("p2", 2), "j"));
    let mut bound = Vec::new();
    for _ in 0..400 {
        world.settle();
        bound.push([world.node_of("p1").is_some(), world.node_of("p2").is_some()]);
        world.pass_seconds(1);
    }
    assert!(bound.iter().all(|[a, b]| a == b), "one was bound long before the other: {bound:?}");
    assert_eq!(bound.last(), Some(&[true, true]));
}

fn names_pod(action: &Action, name: &str) -> bool {
    matches!(&action.kind, ActionKind::Bind { pod, .. } if &*pod.key.name == name)
}

#[test]
fn a_lone_pod_whose_binding_is_refused_takes_a_node_for_no_longer_than_an_answer_takes() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("alone", 4));
    settle_but(&mut world, refused_bindings);
    assert!(world.conditions["alone"].message.contains(WORDS), "{:?}", world.conditions);
    assert!(world.notes.iter().any(|reason| reason == "FailedScheduling"), "{:?}", world.notes);
    victim(&mut world, "victim");
    settle_but(&mut world, refused_bindings);
    assert_eq!(world.node_of("victim"), Some("a"));
    world.change("victim", |pod| pod.phase = Phase::Succeeded);
    let attempts = seconds_go_by_but(&mut world, 1200, refused_bindings);
    assert!((5..15).contains(&attempts), "{attempts}");
    world.pass_seconds(301);
    world.settle();
    assert_eq!(world.node_of("alone"), Some("a"));
}

#[test]
fn a_gang_whose_bindings_have_no_answer_gives_its_nodes_back_when_none_can_take_effect_any_more() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_gang(2);
    victim(&mut world, "victim");
    settle_but(&mut world, unanswered_bindings);
    seconds_go_by_but(&mut world, 9, unanswered_bindings);
    assert_eq!(world.node_of("victim"), None, "a Binding may have taken effect");
    seconds_go_by_but(&mut world, 60, unanswered_bindings);
    assert_eq!(world.node_of("victim"), Some("a"));
    assert!(world.texts.iter().any(|text| text.contains("no answer within")), "{:?}", world.texts);
}

#[test]
fn a_binding_that_takes_effect_late_begins_its_gang() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_gang(2);
    seconds_go_by_but(&mut world, 12, |action| {
        unanswered_bindings(action)
            .or_else(|| refused_bindings(action).filter(|_| names_pod(action, "p1")))
    });
    world.change("p0", |pod| pod.node = Some("a".into()));
    for _ in 0..120 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("a"), Some("a")));
}

#[test]
fn a_job_whose_flux_job_is_refused_is_told_and_claims_nothing() {
    for queue_policy in [QueuePolicy::Fcfs, QueuePolicy::Easy] {
        let told = CoreSettings { queue_policy, ..settings() };
        let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
        world.submit_gang(2);
        settle_but(&mut world, refused_creation);
        assert!(
            world.conditions["p0"].message.contains("exceeded quota"),
            "{:?}",
            world.conditions
        );
        victim(&mut world, "victim");
        settle_but(&mut world, refused_creation);
        assert_eq!(world.node_of("victim"), Some("a"), "{queue_policy:?}");
        world.change("victim", |pod| pod.phase = Phase::Succeeded);
        let attempts = seconds_go_by_but(&mut world, 1200, refused_creation);
        assert!((5..15).contains(&attempts), "{queue_policy:?}: {attempts}");
        world.pass_seconds(301);
        world.settle();
        assert_eq!(world.bound(), 3, "{queue_policy:?}: it starts when its FluxJob can be written");
    }
}

/// Carries out all actions; but before each status of a FluxJob in namespace "ns" is written,
/// another client changes that FluxJob.
fn settle_while_edited(world: &mut World, workload: &str) -> u64 {
    let mut conflicts = 0;
    for _ in 0..100 {
        let actions = world.step();
        if actions.is_empty() {
            return conflicts;
        }
        for action in actions {
            match &action.kind {
                ActionKind::Write(Write::WriteStatus { job, .. })
                    if &*job.key.namespace == "ns" =>
                {
                    conflicts += 1;
                    let version = |known: Option<&str>| {
                        known.map_or(0, |known| known.parse().expect("a number"))
                    };
                    world.change_record(workload, |record| {
                        let known: u64 = version(record.metadata.resource_version.as_deref());
                        record.metadata.resource_version = Some((known + 1).to_string());
                    });
                    world.tell(Event::Done(action.id, Outcome::Write(WriteOutcome::Conflict)));
                }
                _ => world.carry_out(action),
            }
        }
    }
    panic!("each conflict leads to another write at once");
}

#[test]
fn a_gang_whose_flux_job_changes_before_each_write_gives_its_nodes_back() {
    for queue_policy in [QueuePolicy::Fcfs, QueuePolicy::Easy] {
        let told = CoreSettings { queue_policy, ..settings() };
        let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
        world.submit_gang(2);
        let mut conflicts = settle_while_edited(&mut world, "j");
        victim(&mut world, "victim");
        for _ in 0..20 {
            world.pass_seconds(1);
            conflicts += settle_while_edited(&mut world, "j");
        }
        assert_eq!(world.node_of("victim"), Some("a"), "{queue_policy:?}");
        assert!(
            world.conditions["p0"].message.contains("changes before each write"),
            "{:?}",
            world.conditions
        );
        for _ in 0..1200 {
            world.pass_seconds(1);
            conflicts += settle_while_edited(&mut world, "j");
        }
        assert!((6..60).contains(&conflicts), "{queue_policy:?}: {conflicts}");
        world.change("victim", |pod| pod.phase = Phase::Succeeded);
        world.pass_seconds(301);
        world.settle();
        assert_eq!(world.bound(), 3, "{queue_policy:?}: it starts when its FluxJob can be written");
    }
}

#[test]
fn a_status_that_is_invalid_gives_the_slots_back_and_a_smaller_one_says_so() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_gang(2);
    let invalid = |action: &Action| {
        let ActionKind::Write(Write::WriteStatus { status, .. }) = &action.kind else {
            return None;
        };
        let words = "422: status.workload.podSets: Too many: 1025".to_owned();
        status.workload.is_some().then_some(Outcome::Write(WriteOutcome::Invalid(words)))
    };
    settle_but(&mut world, invalid);
    assert_eq!(world.blocked("j").0, "BindFailed");
    assert!(world.blocked("j").1.contains("Too many: 1025"), "{:?}", world.blocked("j"));
    assert!(world.conditions["p0"].message.contains("Too many: 1025"), "{:?}", world.conditions);
    victim(&mut world, "victim");
    settle_but(&mut world, invalid);
    assert_eq!(world.node_of("victim"), Some("a"));
    world.change("victim", |pod| pod.phase = Phase::Succeeded);
    let attempts = seconds_go_by_but(&mut world, 1200, invalid);
    assert!((3..30).contains(&attempts), "{attempts}");
    world.pass_seconds(301);
    world.settle();
    assert_eq!((world.bound(), world.state("j")), (3, Some(JobState::Running)));
    assert!(world.record("j").status.as_ref().is_some_and(|status| status.workload.is_some()));
}

#[test]
fn a_lone_pod_starts_though_its_flux_job_is_refused() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("before", 4));
    world.settle();
    world.submit(pod("p", 4));
    seconds_go_by_but(&mut world, 5, refused_creation);
    world.change("before", |pod| pod.phase = Phase::Succeeded);
    settle_but(&mut world, refused_creation);
    assert_eq!(world.node_of("p"), Some("a"));
}

#[test]
fn a_job_that_has_lost_a_race_is_not_overtaken_by_later_ones() {
    for queue_policy in [QueuePolicy::Fcfs, QueuePolicy::Easy] {
        let told = CoreSettings { queue_policy, ..settings() };
        let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
        world.submit_gang(2);
        let actions = world.step();
        assert_eq!(binds(&actions), 0, "the placement is to be written first");
        let mut theirs = pod("theirs", 3);
        theirs.scheduler = Arc::from("default-scheduler");
        theirs.node = Some("a".into());
        world.submit(theirs);
        world.submit(Pod { created: Time::from_seconds(1500), ..pod("behind", 4) });
        world.carry_out_all(actions);
        world.settle();
        assert!(world.bindings.is_empty(), "{:?}", world.bindings);
        world.tell(Event::Node(node("b", 4)));
        world.settle();
        assert_eq!(world.node_of("behind"), None, "{queue_policy:?}");
        world.pass_seconds(1);
        world.settle();
        assert_eq!(
            (world.node_of("p0"), world.node_of("p1")),
            (Some("b"), Some("b")),
            "{queue_policy:?}"
        );
    }
}

/// The plan and the check before a Binding disagree about a node until the audit has been there.
#[test]
fn a_pod_that_is_placed_and_rejected_again_and_again_is_tried_after_pauses_and_told() {
    let mut world = World::new(&[("a", 4)]);
    world.pass_seconds(1);
    world.settle();
    let shape = Arc::clone(&pod("any", 4).shape);
    let rank = world.core.planner.cluster.rank(&NodeName::from("a")).expect("it is there");
    world.core.planner.cluster.occupy(rank, &shape);
    let (before, until) = (world.core.gauges().passes, world.now.plus_millis(5_000));
    world.submit(pod("p", 1));
    loop {
        let actions = world.step();
        world.carry_out_all(actions);
        match world.core.next_wake().filter(|wake| *wake < until) {
            Some(wake) => world.now = world.now.max(wake),
            None => break,
        }
    }
    let passes = world.core.gauges().passes - before;
    assert!(passes <= 20, "{passes} walks in 5 s");
    assert!(world.conditions["p"].message.contains("does not fit on a"), "{:?}", world.conditions);
}

/// Gangs of two, in a ring: each has a pod on its node, and the other one may only go to the node
/// of the next.
fn ring(nodes: &[&'static str]) -> Vec<(fluxqueue_api::DegradedReason, String)> {
    use super::neighbours::constrained;
    let mut world = World::new(&[]);
    for name in nodes {
        let labels = vec![("host".into(), (*name).into())];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 4)) })));
    }
    for at in 0..nodes.len() {
        world.tell(Event::Controller(Arc::new(job(&format!("g{at}"), 2, 2))));
    }
    for (at, node) in nodes.iter().enumerate() {
        let gang = format!("g{at}");
        let bound = of_job(pod(&format!("{gang}-0"), 2), &gang);
        world.submit(Pod { node: Some((*node).into()), ..bound });
        let next = nodes[(at + 1) % nodes.len()];
        let missing = constrained(pod(&format!("{gang}-1"), 3), |constraints| {
            constraints.node_selector = vec![("host".into(), next.into())];
        });
        world.submit(of_job(missing, &gang));
    }
    world.settle();
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    let stalled = world
        .core
        .jobs
        .all
        .values()
        .map(|job| job.start.stalled.clone().expect("its time is over"));
    stalled.map(|stalled| (stalled.reason(), words::stalled::message(&stalled))).collect()
}

#[test]
fn rings_of_jobs_that_wait_for_each_other_are_named() {
    for nodes in [&["a", "b"][..], &["a", "b", "c"], &["a", "b", "c", "d", "e"]] {
        let stalled = ring(nodes);
        let is_named =
            |(reason, _): &(fluxqueue_api::DegradedReason, String)| reason.as_str() == "MutualWait";
        assert!(stalled.len() == nodes.len() && stalled.iter().all(is_named), "{stalled:?}");
        for at in 1..nodes.len() {
            assert!(stalled[0].1.contains(&format!("ns/g{at}-job-")), "{stalled:?}");
        }
    }
}

/// The last pod of a Job follows when the first has ended: nothing of the Job is left on a node.
#[test]
fn a_pod_that_follows_all_others_and_is_refused_claims_nothing() {
    for queue_policy in [QueuePolicy::Fcfs, QueuePolicy::Conservative] {
        let told = CoreSettings { queue_policy, questions_per_slice: 1, ..settings() };
        let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
        world.tell(Event::Controller(Arc::new(job("j", 1, 2))));
        world.submit(of_job(pod("p0", 4), "j"));
        world.settle();
        assert_eq!(world.node_of("p0"), Some("a"));
        world.change("p0", |pod| pod.phase = Phase::Succeeded);
        world.tell(Event::Controller(Arc::new(Controller {
            succeeded: 1,
            wants: 1,
            ..job("j", 1, 2)
        })));
        world.submit(of_job(pod("p1", 4), "j"));
        settle_but(&mut world, refused_bindings);
        assert_eq!(world.blocked("j"), ("BindFailed".to_owned(), format!("pod ns/p1: {WORDS}")));
        victim(&mut world, "victim");
        settle_but(&mut world, refused_bindings);
        assert_eq!(world.node_of("victim"), Some("a"), "{queue_policy:?}");
        world.change("victim", |pod| pod.phase = Phase::Succeeded);
        let attempts = seconds_go_by_but(&mut world, 600, refused_bindings);
        assert!((2..40).contains(&attempts), "{queue_policy:?}: {attempts}");
        world.pass_seconds(301);
        world.settle();
        assert_eq!(world.node_of("p1"), Some("a"), "{queue_policy:?}");
    }
}

/// A pod more is wanted of a gang that runs, there is no room for it, and for a while its FluxJob
/// is refused.
#[test]
fn what_else_is_in_the_way_is_said_again_when_a_flux_job_is_written_again() {
    let refused_status = |action: &Action| {
        let refused = || Outcome::Write(WriteOutcome::Refused(WORDS.to_owned()));
        matches!(&action.kind, ActionKind::Write(Write::WriteStatus { .. })).then(refused)
    };
    let mut world = World::new(&[("a", 4)]);
    world.submit_gang(2);
    world.settle();
    assert_eq!(world.bound(), 2);
    world.tell(Event::Controller(Arc::new(job("j", 3, 3))));
    world.submit(of_job(pod("p2", 2), "j"));
    settle_but(&mut world, refused_status);
    let reasons = |world: &World| {
        let job = world.core.jobs.all.values().next().expect("the job");
        job.told.blocker.as_ref().map(Blockers::reason)
    };
    assert_eq!(reasons(&world), Some(fluxqueue_api::BlockedReason::BindFailed));
    for _ in 0..60 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(reasons(&world), Some(fluxqueue_api::BlockedReason::InsufficientResources));
    assert!(
        world.conditions["p2"].message.contains("Insufficient cpu"),
        "{:?}",
        world.conditions["p2"]
    );
}

/// A gang is promised a start, and then its FluxJob is refused.
#[test]
fn a_flux_job_that_says_it_cannot_be_written_promises_nothing() {
    let told = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
    world.submit(Pod { lifetime: fluxqueue_workload::Lifetime::Seconds(600), ..pod("runs", 4) });
    world.settle();
    world.submit_gang(2);
    world.settle();
    let promised = |world: &World| {
        world.record("j").status.as_ref().is_some_and(|status| status.reservation.is_some())
    };
    assert!(promised(&world));
    let refused_status = |action: &Action| {
        let refused = || Outcome::Write(WriteOutcome::Refused(WORDS.to_owned()));
        matches!(&action.kind, ActionKind::Write(Write::WriteStatus { .. })).then(refused)
    };
    world.edit("j", |spec| spec.overrides.priority_class_name = Some("other".to_owned()));
    settle_but(&mut world, refused_status);
    let mut contradictions = 0;
    for _ in 0..60 {
        world.pass_seconds(1);
        settle_but(&mut world, |action| {
            let ActionKind::Write(Write::WriteStatus { status, .. }) = &action.kind else {
                return None;
            };
            let cannot = status
                .blocked_by
                .iter()
                .any(|it| it.reason == fluxqueue_api::BlockedReason::BindFailed);
            assert!(!cannot || status.reservation.is_none(), "{status:?}");
            None
        });
        contradictions += u32::from(!promised(&world));
    }
    assert!(promised(&world) && contradictions < 60, "it is promised a start again");
}

#[test]
fn a_lone_pod_whose_bindings_have_no_answer_says_so_each_time_it_queues_again() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("p", 1));
    for _ in 0..400 {
        seconds_go_by_but(&mut world, 1, unanswered_bindings);
        let said = world.conditions.get("p").map_or("", |condition| &condition.message);
        assert!(!said.contains("does not fit"), "{said}");
    }
    let said = &world.conditions["p"].message;
    assert!(said.contains("no answer within 5000 ms"), "{said}");
    world.pass_seconds(301);
    world.settle();
    assert_eq!(world.node_of("p"), Some("a"));
}

/// Its first Binding had no answer, so that the pod could have been on its node when the hold came.
#[test]
fn a_pod_with_a_binding_in_doubt_is_held_once_that_is_known_to_have_had_no_effect() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("p", 1));
    settle_but(&mut world, unanswered_bindings);
    world.pass_seconds(1);
    settle_but(&mut world, refused_bindings);
    world.edit("p", |spec| spec.overrides.hold = true);
    world.settle();
    assert_eq!(world.node_of("p"), None);
    world.pass_seconds(60);
    world.settle();
    assert_eq!((world.node_of("p"), world.state("p")), (None, Some(JobState::Held)));
}
