//! Answers that get lost, nodes that go, other schedulers that come first, restarts.

use super::*;

#[test]
fn an_answer_that_got_lost_is_asked_for_on_the_same_node() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.submit(pod("p", 1));
    let actions = world.step();
    let ActionKind::Bind { node: first, .. } = &actions[0].kind else { panic!("{actions:?}") };
    world.tell(Event::Done(actions[0].id, Outcome::Bind(BindOutcome::Failed("timeout".into()))));
    assert_eq!(binds(&world.step()), 0, "not at once");
    world.pass_seconds(1);
    let again = world.step();
    let bind = again.iter().find_map(|action| match &action.kind {
        ActionKind::Bind { node, .. } => Some(node),
        _ => None,
    });
    assert_eq!(bind, Some(first));
}

#[test]
fn a_binding_on_its_way_counts_on_a_node_that_comes_back() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("sent", 3));
    let unanswered = world.step();
    assert_eq!(binds(&unanswered), 1);
    world.tell(Event::NodeGone("a".into(), "uid-a".into()));
    world.step();
    let mut back = Node::clone(&node("a", 4));
    back.uid = "uid-of-another".into();
    world.tell(Event::Node(Arc::new(back)));
    world.submit(pod("next", 2));
    assert_eq!(binds(&world.step()), 0, "it may be there already");
    world.carry_out_all(unanswered);
    world.settle();
    assert_eq!((world.node_of("sent"), world.node_of("next")), (Some("a"), None));
    world.change("sent", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("next"), Some("a"));
}

#[test]
fn a_binding_is_not_sent_where_another_scheduler_came_first() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_gang(2);
    let actions = world.step();
    assert_eq!(binds(&actions), 0, "the placement is to be written first");
    let mut theirs = pod("theirs", 3);
    theirs.scheduler = Arc::from("default-scheduler");
    theirs.node = Some("a".into());
    world.submit(theirs);
    world.carry_out_all(actions);
    world.settle();
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
    world.tell(Event::Node(node("b", 4)));
    world.settle();
    assert_eq!(world.node_of("p0"), None, "after a withdrawal it pauses for a second");
    world.pass_seconds(1);
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("b"), Some("b")));
}

#[test]
fn a_seat_that_somebody_else_has_moved_is_written_before_it_is_passed_on() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 4))));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("a"), Some("a")));
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    world.submit(of_job(pod("p2", 1), "j"));
    for action in world.step() {
        if !matches!(action.kind, ActionKind::Bind { .. }) {
            world.carry_out(action);
            continue;
        }
        // It comes too late.
        world.change("p2", |pod| pod.node = Some("b".into()));
        world.tell(Event::Done(action.id, Outcome::Bind(BindOutcome::BoundElsewhere("b".into()))));
    }
    let mut unanswered = world.step();
    world.change("p2", |pod| pod.phase = Phase::Succeeded);
    world.submit(of_job(pod("p3", 1), "j"));
    unanswered.extend(world.step());
    assert_eq!(binds(&unanswered), 0, "the placement that is written does not say so yet");
    world.carry_out_all(unanswered);
    world.settle();
    assert_eq!(world.node_of("p3"), Some("b"));
    let record = world.record("j").status.as_ref().expect("a status");
    assert_eq!(planned(&record.placement), ["b", "a"]);
}

#[test]
fn a_half_bound_gang_is_finished_where_its_placement_says() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = World::new(&nodes);
    let j = job("j", 4, 4);
    world.tell(Event::Controller(Arc::new(j.clone())));
    for name in ["p0", "p1", "p2", "p3"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    // Up to the Bindings, of which two take effect.
    loop {
        let actions = world.step();
        let leaves = binds(&actions) > 0;
        let mut taken = 0;
        for action in actions {
            if matches!(action.kind, ActionKind::Bind { .. }) {
                taken += 1;
                if taken > 2 {
                    continue;
                }
            }
            world.carry_out(action);
        }
        if leaves {
            break;
        }
    }
    let before = world.bindings.clone();
    assert_eq!(before.len(), 2);
    let queued_at = world.record("j").status.as_ref().and_then(|status| status.queued_at.clone());
    world.restart();
    // A larger node that is emptier must not tempt it.
    world.list(&[("0", 64), ("a", 2), ("b", 2)], &[j]);
    world.settle();
    let mut nodes: Vec<&str> =
        ["p0", "p1", "p2", "p3"].iter().filter_map(|pod| world.node_of(pod)).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["a", "a", "b", "b"]);
    let status = world.record("j").status.as_ref().expect("a status");
    assert_eq!((status.queued_at.clone(), status.epoch), (queued_at, Some(1)));
}

#[test]
fn pods_that_their_job_has_left_behind_stay_with_its_flux_job() {
    let mut world = World::new(&[("a", 2)]);
    world.submit(pod("runs", 1));
    world.settle();
    world.submit_gang(1);
    world.settle();
    world.edit("j", |spec| spec.overrides.hold = true);
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Held));
    // The Job is deleted, and its pods and its FluxJob are not yet, when a new process begins.
    world.restart();
    world.list(&[("a", 2)], &[]);
    world.settle();
    world.pass_seconds(31);
    world.settle();
    assert_eq!(world.bound(), 1, "a pod of a held job has started as if it were one of its own");
    assert_eq!(world.records.len(), 2);
}

#[test]
fn a_placement_that_was_deleted_is_written_again_before_anybody_is_bound() {
    let mut world = World::new(&[("a", 2)]);
    world.submit_gang(1);
    let mut deleted = false;
    for _ in 0..10 {
        let actions = world.step();
        let writes = |action: &Action| {
            let ActionKind::Write(Write::WriteStatus { status, .. }) = &action.kind else {
                return false;
            };
            !status.placement.is_empty()
        };
        let is_written = actions.iter().any(writes);
        world.carry_out_all(actions);
        if is_written && !deleted {
            deleted = true;
            world.delete_record("j");
            let next = world.step();
            assert_eq!(binds(&next), 0, "nothing says where they go");
            world.carry_out_all(next);
        }
    }
    world.settle();
    assert!(deleted);
    assert_eq!(
        world.bound(),
        0,
        "it is written again after a second, and keeps no nodes until then"
    );
    world.pass_seconds(1);
    world.settle();
    assert_eq!((world.bound(), world.state("j")), (2, Some(JobState::Running)));
}

#[test]
fn a_placement_does_not_wait_behind_what_trails() {
    let mut world = World::new(&[("a", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.submit(pod("before", 2));
    world.settle();
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Pending));
    // Something about it changes: a trailing write, which gets no answer for now.
    world.pass_seconds(60);
    world.edit("j", |spec| spec.overrides.priority_class_name = Some("high".to_owned()));
    let trailing = world.step();
    let writes = |actions: &[Action], urgency| {
        let is = |action: &&Action| status_written(action).is_some_and(|(_, _, of)| of == urgency);
        actions.iter().filter(is).count()
    };
    assert_eq!(writes(&trailing, Urgency::Trailing), 1, "{trailing:?}");
    world.change("before", |pod| pod.phase = Phase::Succeeded);
    let urgent = world.step();
    assert_eq!(writes(&urgent, Urgency::Urgent), 1, "{urgent:?}");
    world.carry_out_all(urgent);
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("a"), Some("a")));
    // The one that was overtaken is answered at last, and changes nothing.
    for action in trailing {
        world.tell(Event::Done(action.id, Outcome::Write(WriteOutcome::Replaced)));
    }
    world.settle();
}
