//! A gang stays the same after a restart: its size, whether it was whole, and which FluxJob is its
//! own.

use super::queues::queue;
use super::restarts::writes_after_restart;
use super::*;
use serde_json::json;

#[test]
fn a_group_that_comes_late_does_not_take_the_flux_job_that_is_being_removed() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(of_group(pod("g1", 1), "gang", Ok(2)));
    world.settle();
    world.pass_seconds(3);
    world.settle();
    let left = key_of(world.record("gang"));
    world.pods.clear();
    world.restart();
    world.list(&[("a", 4)], &[]);
    world.settle();
    world.pass_seconds(6);
    let removal = world.step();
    assert!(
        removal.iter().any(|action| match &action.kind {
            ActionKind::Write(Write::DeleteFluxJob { job, .. }) => job.key == left,
            _ => false,
        }),
        "{removal:?}"
    );
    world.submit(of_group(pod("g2", 1), "gang", Ok(2)));
    let mut made = Vec::new();
    for _ in 0..5 {
        for action in world.step() {
            match &action.kind {
                ActionKind::Write(Write::WriteStatus { job, .. }) => {
                    assert_ne!(job.key, left, "while it is being removed");
                }
                ActionKind::Write(Write::CreateFluxJob { job, .. }) => made.push(key_of(job)),
                _ => {}
            }
        }
        world.pass_seconds(1);
    }
    assert!(made.iter().all(|key| *key != left) && !made.is_empty(), "{made:?}");
}

#[test]
fn a_group_of_a_name_that_was_used_before_is_one_job_after_a_restart() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    let submit = |world: &mut World, name, created| {
        let mut member = of_group(pod(name, 1), "g", Ok(2));
        member.created = Time::from_seconds(created);
        world.submit(member);
    };
    submit(&mut world, "p0", 1000);
    submit(&mut world, "p1", 1000);
    world.settle();
    for name in ["p0", "p1"] {
        world.change(name, |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    submit(&mut world, "q0", 3000);
    submit(&mut world, "q1", 3000);
    world.settle();
    assert_eq!((world.bound(), world.records.len()), (4, 2));
    world.restart();
    world.list(&nodes, &[]);
    world.settle();
    world.delete("p0");
    world.settle();
    submit(&mut world, "q2", 3001);
    world.pass_seconds(5);
    world.settle();
    assert_eq!(world.records.len(), 2, "it joins the others");
    assert_eq!(world.node_of("q2"), Some("a"));
}

#[test]
fn what_is_left_of_an_ended_group_belongs_to_it_though_the_clock_was_set_back_since() {
    let mut world = World::new(&[("a", 4)]);
    for (name, created) in [("p0", 1000), ("p1", 9000)] {
        let mut member = of_group(pod(name, 1), "g", Ok(2));
        member.created = Time::from_seconds(created);
        world.submit(member);
    }
    world.settle();
    for name in ["p0", "p1"] {
        world.change(name, |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    // It ended at 2000 by a clock that had shown 9000 before.
    let writes = writes_after_restart(&mut world, &[("a", 4)], &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

/// A group `g` of two pods that asks for three, and has waited for the third: on one node it does
/// not fit.
fn clamped_group(nodes: &[(&str, u64)], made_by: &Controller) -> World {
    let mut world = World::new(nodes);
    world.tell(Event::Controller(Arc::new(made_by.clone())));
    for name in ["p0", "p1"] {
        let mut member = of_group(of_job(pod(name, 1), "j"), "g", Ok(3));
        member.created = world.now;
        world.submit(member);
    }
    for _ in 0..20 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.state("g"), Some(JobState::Unsatisfiable));
    world.show_conditions(&["p0", "p1"]);
    world
}

#[test]
fn a_clamped_group_is_not_waited_for_again_though_the_clock_was_set_back_since() {
    let (nodes, made_by) = ([("a", 1)], job("j", 2, 2));
    let mut world = clamped_group(&nodes, &made_by);
    world.restart();
    // By the API server's clock its pods are still to be made.
    world.tell(Event::ClockOffset(-3_600_000_000));
    world.list(&nodes, &[made_by]);
    let actions = world.step();
    world.carry_out_all(actions);
    assert_eq!(world.state("g"), Some(JobState::Unsatisfiable));
}

#[test]
fn a_clamped_group_is_not_waited_for_again() {
    let (nodes, made_by) = ([("a", 1)], job("j", 2, 2));
    let mut world = clamped_group(&nodes, &made_by);
    let writes = writes_after_restart(&mut world, &nodes, &[made_by]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn what_has_ended_keeps_its_priority_whoever_is_found_beside_it() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    world.submit(of_group(pod("p", 1), "g", Ok(1)));
    world.settle();
    let ended = Some(world.now);
    world.change("p", |pod| (pod.phase, pod.ended) = (Phase::Succeeded, ended));
    world.settle();
    assert_eq!(world.state("g"), Some(JobState::Completed));
    let other = of_group(
        Pod { phase: Phase::Succeeded, node: Some("a".into()), priority: 9, ..pod("other", 1) },
        "g",
        Ok(1),
    );
    world.pods.insert("other".to_owned(), other);
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

/// Another scheduler has bound a pod of a gang of two, and for the other one there is no room.
fn begun_by_somebody_else(nodes: &[(&str, u64)]) -> World {
    let mut world = World::new(nodes);
    world.submit(pod("busy", 2));
    world.settle();
    world.submit_gang(2);
    world.settle();
    world.change("p0", |pod| pod.node = Some("b".into()));
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    world
}

#[test]
fn a_gang_that_somebody_else_began_is_not_whole_with_those_whom_he_has_bound() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = begun_by_somebody_else(&nodes);
    let message = |world: &World| {
        let conditions = &world.record("j").status.as_ref().expect("a status").conditions;
        let degraded =
            conditions.iter().find(|it| it.type_ == "Degraded" && it.reason == "StartTimeout");
        degraded.expect("it waits for the other pod").message.clone()
    };
    assert_eq!(world.state("j"), Some(JobState::Starting));
    // An earlier process may have said it in other words.
    let said = format!("once {}", message(&world));
    world.change_record("j", |record| {
        let conditions = &mut record.status.as_mut().expect("a status").conditions;
        conditions
            .iter_mut()
            .filter(|it| it.type_ == "Degraded")
            .for_each(|it| it.message.clone_from(&said));
    });
    world.show_conditions(&["p1"]);
    let writes = writes_after_restart(&mut world, &nodes, &[job("j", 2, 2)]);
    assert!(writes.is_empty(), "{writes:#?}");
    world.pass_seconds(70);
    assert!(world.step().is_empty(), "nor when it would have said so anew");
    assert_eq!(message(&world), said);
}

#[test]
fn a_gang_that_never_became_whole_has_not_become_whole_by_the_loss_of_all_its_pods() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = World::new(&nodes);
    world.submit_gang(2);
    // One is bound, the other never is.
    world.carry_out_to_first_binding();
    assert_eq!(world.bound(), 1);
    let left = world
        .pods
        .values()
        .find(|pod| pod.node.is_none())
        .expect("one waits")
        .id
        .key
        .name
        .to_string();
    world.delete(&left);
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    let degraded = |world: &World| {
        let conditions = &world.record("j").status.as_ref().expect("a status").conditions;
        conditions.iter().find(|it| it.type_ == "Degraded").map(|it| it.reason.clone())
    };
    assert_eq!(degraded(&world).as_deref(), Some("StartTimeout"));
    let suspended = Controller { wants: 0, can_start_together: 0, ..job("j", 2, 2) };
    world.tell(Event::Controller(Arc::new(suspended.clone())));
    let bound = world.pods.keys().next().expect("one is bound").clone();
    world.delete(&bound);
    world.settle();
    let before = degraded(&world);
    let writes = writes_after_restart(&mut world, &nodes, &[suspended]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(degraded(&world), before);
}

#[test]
fn a_gang_that_never_became_whole_has_not_become_whole_by_a_restart() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = World::new(&nodes);
    for name in ["g0", "g1"] {
        world.submit(of_group(pod(name, 2), "g", Ok(2)));
    }
    // One is bound, the other is deleted before it is.
    world.carry_out_to_first_binding();
    let left = world
        .pods
        .values()
        .find(|pod| pod.node.is_none())
        .expect("one waits")
        .id
        .key
        .name
        .to_string();
    world.delete(&left);
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.state("g"), Some(JobState::Starting));
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
    world.pass_seconds(70);
    assert!(world.step().is_empty(), "nor when it would have said so anew");
}

#[test]
fn who_keeps_a_gang_from_becoming_whole_does_not_get_his_old_seat_by_a_restart() {
    let nodes = [("a", 2), ("b", 2)];
    let limits = json!({"limits": {"resources": {"cpu": 2}}});
    let mut world = World::new(&nodes);
    for name in ["g0", "g1"] {
        world.submit(of_group(pod(name, 2), "g", Ok(2)));
    }
    world.carry_out_to_first_binding();
    // The node of the other comes back, and its queue may have no more by then.
    let taken = world.pods.values().find_map(|pod| pod.node.clone()).expect("one is bound");
    let free = if &*taken == "a" { "b" } else { "a" };
    queue(&mut world, "default", &limits);
    world.tell(Event::NodeGone(NodeName::from(free), Uid::from(format!("uid-{free}"))));
    world.settle();
    world.tell(Event::Node(node(free, 2)));
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!((world.state("g"), world.bound()), (Some(JobState::Starting), 1));
    world.restart();
    queue(&mut world, "default", &limits);
    world.list(&nodes, &[]);
    world.settle();
    assert_eq!(world.bound(), 1);
}

#[test]
fn a_group_that_somebody_else_began_is_no_more_whole_after_a_restart() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = World::new(&nodes);
    for name in ["g0", "g1", "g2"] {
        world.submit(of_group(pod(name, 1), "g", Ok(4)));
    }
    world.settle();
    let started = Some(world.now);
    world.change("g0", |pod| (pod.node, pod.started) = (Some("a".into()), started));
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(
        (world.bound(), world.state("g")),
        (3, Some(JobState::Starting)),
        "the fourth was never made"
    );
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn how_many_failed_and_how_large_a_refused_group_was_to_be_stays() {
    let nodes = [("a", 8)];
    let mut world = World::new(&nodes);
    for name in ["f0", "f1"] {
        world.submit(of_group(pod(name, 1), "failed", Ok(2)));
    }
    world.submit(of_group(pod("r0", 1), "refused", Ok(5)));
    world.settle();
    for name in ["f0", "f1"] {
        let ended = Some(world.now);
        world.change(name, |pod| {
            pod.phase = Phase::Failed;
            pod.ended = ended;
        });
    }
    world.pass_seconds(3);
    world.settle();
    let mut bad = of_group(pod("r1", 1), "refused", Ok(5));
    bad.unsupported =
        vec![Unsupported { field: "spec.x".into(), message: "is not supported".into() }];
    world.submit(bad);
    world.settle();
    world.delete("f1");
    world.settle();
    assert_eq!(
        (world.state("failed"), world.state("refused")),
        (Some(JobState::Failed), Some(JobState::Refused))
    );
    world.show_conditions(&["r1"]);
    let before = world.records.clone();
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(world.records, before);
}

#[test]
fn a_gang_that_ran_and_has_lost_a_pod_has_run_also_for_the_next_process() {
    let nodes = [("a", 2)];
    let mut world = World::new(&nodes);
    let job = job("j", 2, 2);
    world.tell(Event::Controller(Arc::new(job.clone())));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    world.change("p1", |pod| pod.phase = Phase::Refused { reason: "OutOfcpu".into() });
    world.settle();
    world.submit(of_job(pod("p2", 9), "j"));
    world.settle();
    world.pass_seconds(31);
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Running));
    world.show_conditions(&["p2"]);
    let writes = writes_after_restart(&mut world, &nodes, &[job]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn what_is_left_of_an_ended_group_gives_its_priority_to_no_other() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    world.submit(Pod { priority: 9, ..of_group(pod("p0", 1), "g", Ok(1)) });
    world.settle();
    let ended = Some(world.now);
    world.change("p0", |pod| (pod.phase, pod.ended) = (Phase::Succeeded, ended));
    world.settle();
    world.pass_seconds(61);
    world.settle();
    assert!(world.records.is_empty(), "its time is over");
    world.submit(Pod { created: world.now, ..of_group(pod("q0", 8), "g", Ok(1)) });
    world.settle();
    world.show_conditions(&["q0"]);
    world.pass_seconds(60);
    world.settle();
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn a_gang_of_which_nobody_wants_more_has_not_become_whole_by_a_restart() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = begun_by_somebody_else(&nodes);
    // It is suspended, and the pod that was bound is slow to go.
    let suspended = Controller { wants: 0, can_start_together: 0, ..job("j", 2, 2) };
    world.tell(Event::Controller(Arc::new(suspended.clone())));
    world.delete("p1");
    world.change("p0", |pod| pod.deleting = true);
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Starting));
    let writes = writes_after_restart(&mut world, &nodes, &[suspended]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn a_gang_whose_placement_was_withdrawn_says_again_why_it_waits_though_a_restart_has_found_the_same()
 {
    let nodes = [("a", 2), ("b", 2)];
    let theirs = || Pod {
        scheduler: Arc::from("default-scheduler"),
        node: Some("b".into()),
        ..pod("theirs", 1)
    };
    let mut world = World::new(&nodes);
    world.submit(theirs());
    world.submit_gang(2);
    world.settle();
    world.pass_seconds(60);
    world.settle();
    let why = world.blocked("j");
    let writes = writes_after_restart(&mut world, &nodes, &[job("j", 2, 2)]);
    let is_status =
        |kind: &ActionKind| matches!(kind, ActionKind::Write(Write::WriteStatus { .. }));
    assert!(!writes.iter().any(is_status), "{writes:#?}");
    world.delete("theirs");
    let mut placed = world.step();
    while !placed.iter().any(writes_placement) {
        assert!(!placed.is_empty(), "it is placed");
        world.carry_out_all(placed);
        placed = world.step();
    }
    // Before it begins there is as little room as before.
    world.submit(theirs());
    world.carry_out_all(placed);
    world.settle();
    assert_eq!(world.core.gauges().placements_withdrawn, 1);
    for _ in 0..60 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.blocked("j"), why);
}
