//! Estimates: the recorded start of a job, and how often it is written.

use super::queues::{queue, timed};
use super::*;
use crate::QueuePolicy;
use crate::lookahead::estimates::Progress;
use crate::records::times::time_of;
use fluxqueue_planner::plan::Effort;
use serde_json::json;

fn world(queue_policy: QueuePolicy, nodes: &[(&str, u64)]) -> World {
    World::told(CoreSettings { queue_policy, ..settings() }, FunctionTable::builtin(), nodes)
}

fn lasting(name: &str, cores: u64, seconds: u64) -> Pod {
    Pod { lifetime: Lifetime::Seconds(seconds), ..pod(name, cores) }
}

/// A node on which a pod `runs` for this long, and as many pods `waits-0` and so on that wait for
/// it. Each is a question of its own.
fn waiting(count: usize, seconds: u64) -> (World, Vec<String>) {
    let mut world = world(QueuePolicy::Fcfs, &[("a", 4)]);
    world.submit(lasting("runs", 4, seconds));
    world.settle();
    let started = world.now;
    world.change("runs", |pod| pod.started = Some(started));
    let names: Vec<String> = (0..count).map(|at| format!("waits-{at}")).collect();
    for (name, seconds) in names.iter().zip(60..) {
        world.submit(lasting(name, 4, seconds));
    }
    for _ in 0..20 {
        world.settle();
        world.pass_seconds(1);
    }
    (world, names)
}

#[test]
fn a_promise_is_told_as_such_and_as_the_reservation_has_it() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    world.submit(lasting("runs", 4, 100));
    world.settle();
    world.submit(lasting("first", 4, 50));
    world.settle();
    assert_eq!(world.estimate("first"), Some((EstimateKind::Reserved, 2100)));
    let status = world.record("first").status.clone().expect("a status");
    assert_eq!(
        status.reservation.and_then(|kept| kept.start),
        status.estimated_start.map(|start| start.time)
    );
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.estimate("first"), None, "it has started");
}

#[test]
fn what_started_in_the_last_walk_counts_once_against_a_limit_when_others_are_estimated() {
    for policy in ["fcfs", "easy"] {
        let mut world = World::new(&[("a", 8)]);
        queue(&mut world, "gpu", &json!({"policy": policy, "limits": {"resources": {"cpu": 3}}}));
        for (name, seconds) in
            [("a", 100), ("b", 200), ("c", 300), ("first", 1000), ("second", 1000)]
        {
            world.submit(timed(name, 1, "gpu", seconds));
        }
        world.settle();
        let (_, message) = world.blocked("first");
        assert!(message.contains("3 of 3"), "{policy}: {message}");
        let start = |name: &str| world.estimate(name).map(|(_, start)| start);
        assert_eq!((start("first"), start("second")), (Some(2100), Some(2200)), "{policy}");
    }
}

#[test]
fn what_waits_for_an_end_that_nobody_knows_has_no_estimate_and_says_whose_end_it_is() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    world.submit(pod("runs", 4));
    world.settle();
    world.submit(lasting("waits", 4, 50));
    world.settle();
    assert_eq!(world.estimate("waits"), None);
    let (_, message) = world.blocked("waits");
    assert!(message.contains("No end is known for ns/runs"), "{message}");
}

#[test]
fn an_instant_at_which_many_are_asked_anew_is_looked_at_in_several_goes() {
    // Returns which pods start when, the number of goes, and the most questions in one of them.
    let look = |stint: Effort| {
        let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
        world.submit(lasting("runs", 4, 3_600));
        for at in 0..20 {
            world.submit(lasting(&format!("waits-{at}"), 4, 60 + at));
        }
        world.settle();
        let mut projection =
            world.core.projecting().project_all().expect("the built-in library copies");
        let (mut found, mut goes, mut most) = (Vec::new(), 0, 0);
        while !projection.is_done() {
            let before = projection.questions();
            match projection.advance(&world.core.sight().asking(), stint) {
                Progress::UnderWay => {}
                Progress::At(at, started) => {
                    found.extend(started.into_iter().map(|pending| (at, pending)));
                }
                Progress::Over(_) | Progress::TooFar => unreachable!("each has its turn"),
            }
            goes += 1;
            most = most.max(projection.questions() - before);
        }
        (found, goes, most)
    };
    let (found, goes, most) = look(Effort::ALL);
    assert_eq!((found.len(), goes), (20, 20));
    let (found_in_stints, goes_in_stints, most_in_stints) = look(Effort::questions(1));
    assert_eq!(found_in_stints, found);
    assert!(
        most_in_stints < most && goes_in_stints > goes,
        "{most}, {most_in_stints} in {goes_in_stints}"
    );
    let (found_one_by_one, ..) = look(Effort::questions(0).and(1));
    assert_eq!(found_one_by_one, found);
}

#[test]
fn what_was_decided_leaves_before_a_look_ahead() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4), ("b", 3)]);
    for name in ["runs", "waits", "waits-too"] {
        world.submit(lasting(name, 4, 3_600));
    }
    world.settle();
    // A look ahead is due by now, and a pod comes that fits.
    world.pass_seconds(10);
    world.submit(pod("small", 1));
    let before = world.core.slices_ahead();
    let actions = world.core.step(world.now);
    assert!(
        actions.iter().any(|action| matches!(action.kind, ActionKind::Bind { .. })),
        "{actions:?}"
    );
    assert_eq!(world.core.slices_ahead(), before);
    world.carry_out_all(actions);
    world.look_ahead();
    assert!(world.core.slices_ahead() > before);
}

#[test]
fn a_large_job_that_ends_is_given_back_in_several_goes() {
    let look = |stint: Effort| {
        let mut world = world(QueuePolicy::Easy, &[("a", 20)]);
        for at in 0..20 {
            world.submit(lasting(&format!("runs-{at}"), 1, 3_600));
        }
        world.submit(lasting("waits", 20, 60));
        world.settle();
        let mut projection =
            world.core.projecting().project_all().expect("the built-in library copies");
        for goes in 1.. {
            match projection.advance(&world.core.sight().asking(), stint) {
                Progress::UnderWay => {}
                Progress::At(at, started) => return (goes, at, started),
                Progress::Over(_) | Progress::TooFar => unreachable!("it has its turn"),
            }
        }
        unreachable!("it has its turn")
    };
    let (goes, at, started) = look(Effort::ALL);
    assert_eq!((goes, started.len()), (1, 1));
    assert_eq!(look(Effort::questions(0).and(6 * 8)), (4, at, started));
}

#[test]
fn an_estimate_that_moves_by_little_is_not_written_again() {
    let (mut world, _) = waiting(1, 7200);
    assert_eq!(world.estimate("waits-0"), Some((EstimateKind::Projected, 2000 + 7200)));
    // It began earlier than it had reported: first by a little less than a tenth of the rest, then
    // by more.
    for (seconds, expected) in [(700, 9200), (900, 8300)] {
        world.change("runs", |pod| pod.started = Some(Time::from_seconds(2000 - seconds)));
        for _ in 0..10 {
            world.settle();
            world.pass_seconds(1);
        }
        world.pass_seconds(2);
        world.settle();
        assert_eq!(
            world.estimate("waits-0"),
            Some((EstimateKind::Projected, expected)),
            "{seconds}"
        );
    }
}

#[test]
fn of_many_estimates_that_move_at_once_five_are_written_in_a_second() {
    let (mut world, waiting) = waiting(20, 3600);
    let with_estimate =
        |world: &World| waiting.iter().filter(|name| world.estimate(name).is_some()).count();
    let before: Vec<_> = waiting.iter().map(|name| world.estimate(name)).collect();
    assert_eq!(with_estimate(&world), 20);
    world.change("runs", |pod| pod.started = Some(Time::from_seconds(200)));
    let mut moved_at: Vec<Time> = Vec::new();
    for _ in 0..200 {
        let actions = world.step();
        let written = actions.iter().filter(|action| match &action.kind {
            ActionKind::Write(Write::WriteStatus { job, status, .. }) => {
                let known = world.records[&job.key].status.clone().expect("a status");
                let mut as_known = (**status).clone();
                as_known.estimated_start.clone_from(&known.estimated_start);
                known.estimated_start != status.estimated_start && known == as_known
            }
            _ => false,
        });
        moved_at.extend(written.map(|_| world.now));
        world.carry_out_all(actions);
        world.now = world.now.plus_millis(50);
    }
    assert_eq!(moved_at.len(), 20, "each is written once");
    assert!(moved_at.windows(6).all(|six| six[5].0 - six[0].0 >= 1_000_000), "{moved_at:?}");
    let after: Vec<_> = waiting.iter().map(|name| world.estimate(name)).collect();
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{after:?}");
    let status = world
        .record("waits-0")
        .status
        .clone()
        .and_then(|status| status.estimated_start)
        .expect("one");
    assert!(time_of(&status.as_of) <= time_of(&status.time));
}

/// What runs and what waits, each with its cores and for how long it runs, if that is known.
type Work = (&'static str, u64, Option<u64>);

/// Submits each when the one before has found its place.
fn submit_all(world: &mut World, work: &[Work]) {
    for (name, cores, seconds) in work {
        let lifetime = seconds.map_or(Lifetime::Eventually, Lifetime::Seconds);
        world.submit(Pod { lifetime, ..pod(name, *cores) });
        world.settle();
    }
}

#[test]
fn the_plan_run_forward_says_when_each_starts() {
    use EstimateKind::{Projected, Reserved};
    use QueuePolicy::{Conservative, Easy, Fcfs};
    // A description, the policy, the work that runs on two nodes of four cores from 2000 on, the
    // work that waits, and its expected starts.
    type Case = (
        &'static str,
        QueuePolicy,
        &'static [Work],
        &'static [Work],
        &'static [Option<(EstimateKind, i64)>],
    );
    let cases: &[Case] = &[
        (
            "one after the other",
            Fcfs,
            &[("r1", 4, Some(100)), ("r2", 4, Some(1_000))],
            &[("a", 4, Some(50)), ("b", 4, Some(60)), ("c", 4, Some(70))],
            &[Some((Projected, 2_100)), Some((Projected, 2_150)), Some((Projected, 2_210))],
        ),
        (
            "the first is promised what the others are not",
            Easy,
            &[("r1", 4, Some(100)), ("r2", 4, Some(1_000))],
            &[("a", 4, Some(50)), ("b", 4, Some(60))],
            &[Some((Reserved, 2_100)), Some((Projected, 2_150))],
        ),
        (
            "all are promised theirs",
            Conservative,
            &[("r1", 4, Some(100)), ("r2", 4, Some(1_000))],
            &[("a", 4, Some(50)), ("b", 4, Some(60))],
            &[Some((Reserved, 2_100)), Some((Reserved, 2_150))],
        ),
        (
            "one behind who runs for as long as nobody knows",
            Fcfs,
            &[("r1", 4, Some(100)), ("r2", 4, Some(300))],
            &[("a", 4, None), ("b", 4, Some(60))],
            &[Some((Projected, 2_100)), Some((Projected, 2_300))],
        ),
        (
            "nobody knows when there is room",
            Fcfs,
            &[("r1", 4, None), ("r2", 4, None)],
            &[("a", 4, Some(60))],
            &[None],
        ),
        (
            "it goes ahead of the first where that delays nobody",
            Easy,
            &[("r1", 2, Some(100)), ("r2", 4, Some(50))],
            &[("a", 4, Some(500)), ("b", 4, Some(40))],
            &[Some((Reserved, 2_050)), Some((Projected, 2_100))],
        ),
    ];
    for (what, policy, running, waiting, expected) in cases {
        let mut world = world(*policy, &[("n1", 4), ("n2", 4)]);
        submit_all(&mut world, running);
        submit_all(&mut world, waiting);
        for _ in 0..20 {
            world.pass_seconds(1);
            world.settle();
        }
        let found: Vec<_> = waiting.iter().map(|(name, ..)| world.estimate(name)).collect();
        // A pod that was submitted a moment later ends a moment later.
        let is_near = |found: &Option<(EstimateKind, i64)>,
                       expected: &Option<(EstimateKind, i64)>| match (
            found, expected,
        ) {
            (Some((kind, at)), Some((as_expected, then))) => {
                kind == as_expected && (0..=1).contains(&(at - then))
            }
            (found, expected) => found == expected,
        };
        assert!(
            found.iter().zip(*expected).all(|(found, expected)| is_near(found, expected)),
            "{what}: {found:?}"
        );
        assert_eq!(world.core.gauges().graph_errors, 0);
    }
}

#[test]
fn a_successor_that_looks_ahead_anew_writes_nothing() {
    let (mut world, names) = waiting(5, 3_600);
    let before: Vec<_> = names.iter().map(|name| world.estimate(name)).collect();
    assert!(before.iter().all(Option::is_some), "{before:?}");
    world.show_conditions(&names.iter().map(String::as_str).collect::<Vec<_>>());
    world.settle();
    world.restart();
    world.list(&[("a", 4)], &[]);
    for _ in 0..100 {
        let actions = world.step();
        assert!(actions.is_empty(), "{actions:?}");
        world.now = world.now.plus_millis(100);
    }
}

#[test]
fn what_was_said_is_compared_with_what_came() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    submit_all(
        &mut world,
        &[("runs", 4, Some(100)), ("first", 4, Some(50)), ("second", 4, Some(50))],
    );
    for _ in 0..20 {
        world.settle();
        world.pass_seconds(1);
    }
    let said = |world: &World, name: &str| {
        world.record(name).status.clone().and_then(|status| status.start_estimates)
    };
    let before = said(&world, "first").expect("it was promised a start");
    assert_eq!((before.later_than_first_seconds, before.later_than_promised_seconds), (None, None));
    assert_eq!(before.first.map(|first| first.kind), Some(EstimateKind::Reserved));
    // What runs ends 60 seconds before it was to.
    world.now = Time::from_seconds(2_040);
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    let first = said(&world, "first").expect("it has started");
    assert_eq!(
        (first.later_than_first_seconds, first.later_than_promised_seconds),
        (Some(-60), Some(-60))
    );
    let second = said(&world, "second").and_then(|said| said.first).expect("an estimate");
    assert_eq!((second.kind, time_of(&second.time).seconds()), (EstimateKind::Projected, 2_150));
    let gauges = world.core.gauges();
    let errors = gauges
        .start_estimates
        .iter()
        .map(|(said, side, hours)| (said.labels(), side, hours.count()));
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [(("first", "Reserved"), "earlier", 1), (("last", "Reserved"), "earlier", 1)]
    );
    assert_eq!(
        gauges.waits.iter().map(|(queue, hours)| (queue, hours.count())).collect::<Vec<_>>(),
        [("default", 2)]
    );
}
