//! A gang starts whole or not at all; and one that has begun and cannot be finished says so.

use super::*;
use crate::telling::words;

/// A core with a gang of two on nodes `a` and `b` with a placement that is acknowledged next.
/// Returns the actions that do so.
fn placed(gates: bool) -> (World, Vec<Action>) {
    let mut world = World::new(&[("a", 2), ("b", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in ["p0", "p1"] {
        let mut pod = of_job(pod(name, 2), "j");
        if gates {
            pod.gates = vec![Arc::from("fluxqueue")];
        }
        world.submit(pod);
    }
    for _ in 0..10 {
        let actions = world.step();
        if actions.iter().any(writes_placement) {
            return (world, actions);
        }
        world.carry_out_all(actions);
    }
    panic!("no placement was written");
}

fn theirs(node: &str, cores: u64) -> Pod {
    let mut theirs = pod(&format!("theirs-{node}"), cores);
    theirs.scheduler = Arc::from("default-scheduler");
    theirs.node = Some(node.into());
    theirs
}

fn acknowledge(world: &mut World, actions: Vec<Action>) {
    world.carry_out_all(actions);
    world.settle();
}

#[test]
fn nothing_is_sent_if_another_scheduler_took_one_of_its_nodes() {
    let (mut world, actions) = placed(false);
    world.submit(theirs("b", 1));
    acknowledge(&mut world, actions);
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
    assert_eq!(
        world.record("j").status.as_ref().map(|status| status.placement.len()),
        Some(0),
        "withdrawn"
    );
    world.delete("theirs-b");
    world.settle();
    assert!(world.bindings.is_empty(), "it pauses for a second");
    world.pass_seconds(1);
    world.settle();
    assert_eq!(world.bound(), 2);
}

#[test]
fn nothing_is_sent_if_one_of_its_nodes_is_gone() {
    let (mut world, actions) = placed(false);
    world.tell(Event::NodeGone("a".into(), "uid-a".into()));
    acknowledge(&mut world, actions);
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
    assert_eq!(world.core.gauges().placements_withdrawn, 1);
}

#[test]
fn nothing_is_sent_if_one_of_its_pods_is_gone() {
    let (mut world, actions) = placed(false);
    world.delete("p1");
    acknowledge(&mut world, actions);
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
    // Its successor makes it whole again.
    world.submit(of_job(pod("p2", 2), "j"));
    world.settle();
    world.pass_seconds(1);
    world.settle();
    assert_eq!(world.bound(), 2);
}

#[test]
fn the_check_comes_after_the_last_gate_is_off() {
    let (mut world, actions) = placed(true);
    world.carry_out_all(actions);
    let ungates = world.step();
    assert_eq!(
        ungates
            .iter()
            .filter(|a| matches!(a.kind, ActionKind::Write(Write::Ungate { .. })))
            .count(),
        2
    );
    // One gate is off; meanwhile another pod takes the node of the other pod.
    let mut ungates = ungates.into_iter();
    world.carry_out(ungates.next().expect("two gates"));
    assert_eq!(binds(&world.step()), 0, "not all gates are off");
    world.submit(theirs("b", 1));
    acknowledge(&mut world, ungates.collect());
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
}

#[test]
fn pauses_double_and_end_with_the_first_binding() {
    let (mut world, actions) = placed(false);
    world.submit(theirs("b", 1));
    acknowledge(&mut world, actions);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        // It is placed again at once, and each time another pod is faster than its Bindings.
        world.delete("theirs-b");
        world.settle();
        world.submit(theirs("b", 1));
        let (begun, withdrawn) = (world.now, world.core.gauges().placements_withdrawn);
        while world.core.gauges().placements_withdrawn == withdrawn {
            world.now = world.now.plus_millis(100);
            world.settle();
            assert!(world.now.seconds() - begun.seconds() < 60, "it never begins");
        }
        pauses.push((world.now.0 - begun.0 + 500_000) / 1_000_000);
    }
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
    assert_eq!(pauses, [1, 2, 4]);
}

#[test]
fn a_new_leader_withdraws_a_placement_that_cannot_be_kept_whole() {
    let (mut world, actions) = placed(false);
    world.carry_out_all(actions);
    // It died before the first Binding; then one of the nodes went.
    world.restart();
    world.list(&[("a", 2)], &[job("j", 2, 2)]);
    world.settle();
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
    world.tell(Event::Node(node("c", 2)));
    world.settle();
    world.pass_seconds(1);
    world.settle();
    assert_eq!(world.bound(), 2);
}

#[test]
fn a_gang_that_cannot_be_completed_says_so_after_its_time() {
    let (mut world, actions) = placed(false);
    world.carry_out_all(actions);
    let actions = world.step();
    assert_eq!(binds(&actions), 2);
    // The first Binding takes effect, then the node of the second is gone.
    let mut actions =
        actions.into_iter().filter(|action| matches!(action.kind, ActionKind::Bind { .. }));
    world.carry_out(actions.next().expect("two Bindings"));
    let lost = actions.next().expect("two Bindings");
    world.tell(Event::NodeGone("b".into(), "uid-b".into()));
    world.tell(Event::Done(lost.id, Outcome::Bind(BindOutcome::Failed("no such node".to_owned()))));
    world.settle();
    world.pass_seconds(11);
    world.settle();
    let degraded = |world: &World| {
        let status = world.record("j").status.clone().expect("a status");
        status
            .conditions
            .into_iter()
            .find(|condition| condition.type_ == "Degraded")
            .expect("it is written ahead")
    };
    assert_eq!(degraded(&world).status, "False", "its time is not over");
    world.pass_seconds(50);
    world.settle();
    let condition = degraded(&world);
    assert_eq!(
        (&*condition.status, &*condition.reason),
        ("True", "StartTimeout"),
        "{}",
        condition.message
    );
    assert!(
        condition.message.starts_with("1 of 2 pods are bound; 0/1 nodes are available"),
        "{}",
        condition.message
    );
    world.tell(Event::Node(node("c", 2)));
    world.settle();
    assert_eq!((world.bound(), &*degraded(&world).status), (2, "False"));
}

/// What two such gangs ask.
struct Pair<'a> {
    what: &'a str,
    ask: fn(Pod) -> Pod,
    /// The number of cores that the missing pods need.
    cores: u64,
    /// What else is on nodes.
    beside: &'a [(&'a str, u64)],
    /// True if they wait for each other.
    is_mutual: bool,
}

/// Returns how two gangs of two, "one" and "two", are stalled when their time is over. Each has a
/// pod on a node of four cores, put there by another scheduler, and waits for a node for the other.
fn stalled(
    cores: u64,
    ask: impl Fn(Pod) -> Pod,
    beside: &[(&str, u64)],
) -> Vec<(&'static str, fluxqueue_api::DegradedReason, String)> {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    for gang in ["one", "two"] {
        world.tell(Event::Controller(Arc::new(job(gang, 2, 2))));
    }
    for (node, cores) in beside {
        let theirs = pod(&format!("on-{node}"), *cores);
        world.submit(Pod { node: Some((*node).into()), scheduler: "other".into(), ..theirs });
    }
    for (gang, node) in [("one", "a"), ("two", "b")] {
        let mut bound = ask(of_job(pod(&format!("{gang}-0"), 2), gang));
        bound.node = Some(node.into());
        bound.claims.clear();
        world.submit(bound);
        world.submit(ask(of_job(pod(&format!("{gang}-1"), cores), gang)));
    }
    world.settle();
    world.pass_seconds(61);
    world.settle();
    let stalled = |gang: &'static str| {
        let job = world
            .core
            .jobs
            .all
            .values()
            .find(|job| *job.workload.name == *gang)
            .expect("it is there");
        let stalled = job.start.stalled.clone().expect("its time is over");
        (gang, stalled.reason(), words::stalled::message(&stalled))
    };
    ["one", "two"].map(stalled).into()
}

#[test]
fn two_gangs_that_wait_for_each_other_are_named() {
    use fluxqueue_api::DegradedReason::{MutualWait, StartTimeout};
    let alone = |pod: Pod| Pod { exclusive: Some(true), ..pod };
    let mounting = |mut pod: Pod| {
        let claim =
            fluxqueue_workload::storage::PodClaim { name: "missing".into(), is_ephemeral: false };
        pod.claims = vec![claim];
        pod
    };
    let stay: &[_] = &[("a", 1), ("b", 1)];
    let pair = |what, ask, cores, beside, is_mutual| Pair { what, ask, cores, beside, is_mutual };
    for Pair { what, ask, cores, beside, is_mutual } in [
        pair("shared", |pod| pod, 3, &[], true),
        pair("alone", alone, 3, &[], true),
        pair("alone, beside others who stay", alone, 3, stay, false),
        pair("shared, beside others who stay", |pod| pod, 3, stay, true),
        pair("claims that are missing", mounting, 1, &[], false),
    ] {
        for (gang, reason, message) in stalled(cores, ask, beside) {
            let other = if gang == "one" { "two" } else { "one" };
            assert_eq!(
                reason,
                if is_mutual { MutualWait } else { StartTimeout },
                "{what}: {message}"
            );
            let text =
                "its missing pods need nodes that this job holds: one of the two has to be deleted";
            let named = message.contains(&format!("the others need nodes that ns/{other}-job-"));
            assert_eq!(message.contains(text) && named, is_mutual, "{what}: {message}");
        }
    }
}

#[test]
fn a_pod_does_not_begin_alone_after_those_that_were_sent_are_gone() {
    let (mut world, actions) = placed(false);
    world.carry_out_all(actions);
    let sent = world.step();
    assert_eq!(binds(&sent), 2);
    // Both are deleted before their Bindings arrive; the Job has made only one other so far.
    world.tell(Event::Node(node("c", 2)));
    world.submit(of_job(pod("p2", 2), "j"));
    let joins = world.step();
    for name in ["p0", "p1"] {
        world.change(name, |pod| pod.deleting = true);
    }
    world.carry_out_all(joins);
    let next = world.step();
    assert_eq!(binds(&next), 0, "the other one is missing");
    world.carry_out_all(next);
    for action in sent {
        match action.kind {
            ActionKind::Bind { .. } => {
                world.tell(Event::Done(action.id, Outcome::Bind(BindOutcome::Deleting)));
            }
            _ => world.carry_out(action),
        }
    }
    world.settle();
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
    world.submit(of_job(pod("p3", 2), "j"));
    world.settle();
    world.pass_seconds(1);
    world.settle();
    assert_eq!(world.bound(), 2);
}

#[test]
fn a_pod_that_was_to_start_alone_waits_for_those_that_are_wanted_by_then() {
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 1, 4))));
    let mut gated = of_job(pod("p0", 1), "j");
    gated.gates = vec![Arc::from(fluxqueue_api::names::GATE)];
    world.submit(gated);
    for action in world.step() {
        match action.kind {
            ActionKind::Write(Write::Ungate { .. }) => {
                world.tell(Event::Done(
                    action.id,
                    Outcome::Write(WriteOutcome::Failed("timeout".to_owned())),
                ));
            }
            _ => world.carry_out(action),
        }
    }
    world.change("p0", |pod| pod.gates.clear());
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    world.settle();
    world.pass_seconds(5);
    world.settle();
    assert_eq!((world.bound(), world.blocked("j").0), (0, "Incomplete".to_owned()));
    for name in ["p1", "p2", "p3"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    assert_eq!(world.bound(), 4);
    let status = world.record("j").status.as_ref().expect("a status");
    assert_eq!(planned(&status.placement), ["a"; 4]);
}

/// A gang of two with Bindings that got no answer and had no effect.
fn sent_in_vain() -> World {
    let (mut world, actions) = placed(false);
    world.carry_out_all(actions);
    let sent = world.step();
    assert_eq!(binds(&sent), 2);
    for action in sent {
        match action.kind {
            ActionKind::Bind { .. } => {
                world.tell(Event::Done(
                    action.id,
                    Outcome::Bind(BindOutcome::Failed("timeout".to_owned())),
                ));
            }
            _ => world.carry_out(action),
        }
    }
    world
}

fn pass_a_minute(world: &mut World) {
    for _ in 0..60 {
        world.pass_seconds(1);
        world.settle();
    }
}

#[test]
fn a_gang_of_which_no_binding_had_an_effect_starts_anew_when_its_room_is_gone() {
    let mut world = sent_in_vain();
    for name in ["a", "b"] {
        world.tell(Event::Pod(Arc::new(theirs(name, 2))));
    }
    pass_a_minute(&mut world);
    assert_eq!(world.bound(), 0);
    let status = world.record("j").status.as_ref().expect("a status");
    assert_eq!((status.placement.len(), status.state), (0, Some(JobState::Pending)));
    // All or none, as if nothing had been sent.
    world.tell(Event::Node(node("c", 2)));
    world.settle();
    assert_eq!(world.bound(), 0);
    world.tell(Event::Node(node("d", 2)));
    world.settle();
    assert_eq!(world.bound(), 2);
}

#[test]
fn a_gang_of_which_nothing_was_bound_and_nobody_is_left_has_no_place() {
    let mut world = sent_in_vain();
    for name in ["p0", "p1"] {
        world.delete(name);
    }
    pass_a_minute(&mut world);
    assert!(world.record("j").status.as_ref().is_some_and(|status| status.placement.is_empty()));
}
