//! The order of starts: which pods start, and which ones wait for which others.

use super::*;

#[test]
fn a_lone_pod_is_bound_first_and_recorded_after() {
    let mut world = World::new(&[("n", 4)]);
    world.submit(pod("p", 1));
    let actions = world.step();
    assert_eq!(actions.len(), 1, "{actions:?}");
    assert_eq!(binds(&actions), 1);
    world.carry_out_all(actions);
    world.settle();
    assert_eq!(world.state("p"), Some(JobState::Running));
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.state("p"), Some(JobState::Completed));
}

#[test]
fn a_gang_is_bound_after_its_placement_is_acknowledged() {
    let mut world = World::new(&[("a", 2), ("b", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    for name in ["p0", "p1", "p2", "p3"] {
        world.submit(of_job(pod(name, 1), "j"));
        if name != "p3" {
            world.settle();
            assert_eq!(world.bound(), 0, "the gang is not complete");
        }
    }
    let mut written = false;
    for _ in 0..10 {
        for action in world.step() {
            if let ActionKind::Write(Write::WriteStatus { status, .. }) = &action.kind
                && !status.placement.is_empty()
            {
                assert_eq!(planned(&status.placement), ["a", "a", "b", "b"]);
                written = true;
            }
            assert!(
                written || !matches!(action.kind, ActionKind::Bind { .. }),
                "bound before it was written"
            );
            world.carry_out(action);
        }
    }
    assert_eq!(world.bound(), 4);
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Running));
}

#[test]
fn who_joins_one_that_waits_for_its_record_waits_for_the_record_too() {
    let mut world = World::new(&[("n", 8)]);
    let wants = |pods: u32| Controller { wants: pods, can_start_together: pods, ..job("j", 2, 2) };
    let held_write = |world: &mut World| loop {
        let mut held = None;
        for action in world.step() {
            match &action.kind {
                ActionKind::Write(Write::WriteStatus { .. }) => held = Some(action.id),
                _ => world.carry_out(action),
            }
        }
        if let Some(held) = held {
            break held;
        }
        world.pass_seconds(1);
    };
    world.submit_gang(1);
    let placement = held_write(&mut world);
    world.delete("p1");
    // It is not known whether the placement of two is on record: what follows it is.
    world.tell(Event::Done(placement, Outcome::Write(WriteOutcome::Failed("timeout".to_owned()))));
    let incomplete = held_write(&mut world);
    world.tell(Event::Controller(Arc::new(wants(1))));
    world.pass_seconds(2);
    let actions = world.step();
    world.carry_out_all(actions);
    world.tell(Event::Controller(Arc::new(wants(2))));
    world.submit(of_job(pod("p2", 1), "j"));
    let actions = world.step();
    world.carry_out_all(actions);
    assert_eq!(world.bound(), 0);
    // The write that was on its way removes the placement: neither of the two is in one.
    world.tell(Event::Done(incomplete, Outcome::Write(WriteOutcome::Written(None))));
    let actions = world.step();
    assert_eq!(binds(&actions), 0, "two pods start by a placement that is on record");
    world.carry_out_all(actions);
    world.settle();
    assert_eq!(world.bound(), 2);
}

#[test]
fn a_gang_that_does_not_fit_holds_its_nodes_and_a_hopeless_one_holds_none() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("runs", 2));
    world.settle();
    for name in ["g1", "g2"] {
        world.submit(of_group(pod(name, 2), "gang", Ok(2)));
    }
    world.settle();
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!(world.bound(), 1, "the small one would delay the gang");
    assert_eq!(world.blocked("gang").0, "InsufficientResources");
    assert_eq!(world.blocked("small").0, "QueuedBehind");
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(
        (world.node_of("g1"), world.node_of("g2"), world.node_of("small")),
        (Some("a"), Some("a"), None)
    );

    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("vast", 9));
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!((world.node_of("vast"), world.node_of("small")), (None, Some("a")));
    assert_eq!(world.blocked("vast").0, "Unsatisfiable");
    world.tell(Event::Node(node("b", 16)));
    world.settle();
    assert_eq!(world.node_of("vast"), Some("b"));
}

#[test]
fn work_without_an_end_is_passed_by() {
    let mut world = World::new(&[("a", 4)]);
    let mut service = pod("service", 3);
    service.lifetime = Lifetime::Endless;
    world.submit(service);
    world.settle();
    world.submit(pod("large", 2));
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!((world.node_of("large"), world.node_of("small")), (None, Some("a")));
    assert!(world.blocked("large").1.contains("no end"), "{:?}", world.blocked("large"));
}

#[test]
fn each_pod_of_a_gang_is_booked_for_as_long_as_it_runs_itself() {
    let mut world = World::new(&[("a", 4)]);
    for (name, lifetime) in [("batch", Lifetime::Seconds(50)), ("service", Lifetime::Endless)] {
        let mut member = of_group(pod(name, 1), "gang", Ok(2));
        member.lifetime = lifetime;
        world.submit(member);
    }
    world.settle();
    assert_eq!(world.bound(), 2);
    world.submit(pod("large", 4));
    world.submit(pod("small", 1));
    world.settle();
    assert!(world.blocked("large").1.contains("no end"), "{:?}", world.blocked("large"));
    assert_eq!(world.node_of("small"), Some("a"));
}

#[test]
fn nobody_waits_behind_a_job_that_a_service_has_just_made_hopeless() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("runs", 2));
    world.settle();
    world.submit(pod("large", 4));
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!(
        world.blocked("small").0,
        "QueuedBehind",
        "large could start once what runs has ended"
    );
    let mut service = pod("service", 1);
    service.lifetime = Lifetime::Endless;
    service.priority = 5;
    world.submit(service);
    world.settle();
    assert_eq!(
        (world.node_of("service"), world.node_of("large"), world.node_of("small")),
        (Some("a"), None, Some("a"))
    );
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let mut world = World::new(&[("a", 4)]);
    let mut refused = pod("p", 1);
    refused.unsupported.push(Unsupported {
        field: "spec.volumes[0]".into(),
        message: "claims are not supported".into(),
    });
    world.submit(refused);
    world.settle();
    assert_eq!(world.state("p"), Some(JobState::Refused));
    let (reason, message) = world.blocked("p");
    assert!(
        reason == "UnsupportedConstraint" && message.contains("spec.volumes[0]"),
        "{reason}: {message}"
    );
    assert!(world.notes.iter().any(|reason| reason == "FailedScheduling"));
}

#[test]
fn a_held_job_waits_and_a_raised_one_overtakes() {
    let mut world = World::new(&[("a", 1)]);
    world.submit(pod("runs", 1));
    world.settle();
    world.submit(pod("first", 1));
    world.settle();
    world.submit(pod("second", 1));
    world.settle();
    world.edit("second", |spec| spec.overrides.priority_class_name = Some("high".to_owned()));
    world.settle();
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("second"), world.node_of("first")), (Some("a"), None));
    world.edit("first", |spec| spec.overrides.hold = true);
    world.settle();
    assert_eq!(world.state("first"), Some(JobState::Held));
    world.change("second", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("first"), None);
}

#[test]
fn a_waiting_job_whose_record_is_deleted_goes_to_the_end() {
    let mut world = World::new(&[("a", 1)]);
    world.submit(pod("runs", 1));
    world.settle();
    for name in ["first", "second"] {
        world.pass_seconds(1);
        world.submit(pod(name, 1));
        world.settle();
    }
    world.pass_seconds(1);
    world.delete_record("first");
    world.settle();
    world.pass_seconds(1);
    world.settle();
    assert_eq!(world.state("first"), Some(JobState::Pending), "it is written again");
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("first"), world.node_of("second")), (None, Some("a")));
}

#[test]
fn a_pod_waits_for_the_news_of_its_job_and_not_for_ever() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(of_job(pod("p0", 1), "late"));
    world.settle();
    assert_eq!(world.bound(), 0, "its Job may want more than one");
    world.tell(Event::Controller(Arc::new(job("late", 2, 2))));
    world.settle();
    assert_eq!(world.bound(), 0, "the other is missing");
    world.submit(of_job(pod("p1", 1), "late"));
    world.settle();
    assert_eq!(world.bound(), 2);
    world.submit(of_job(pod("orphan", 1), "never-seen"));
    world.settle();
    world.pass_seconds(31);
    world.settle();
    assert_eq!(world.node_of("orphan"), Some("a"));
}

#[test]
fn whoever_comes_to_wait_first_says_why_and_a_pod_that_joins_is_told() {
    let mut world = World::new(&[("a", 2)]);
    world.submit(pod("runs", 1));
    world.settle();
    // As many pods of one shape: requests that ask for the same.
    let shape = pod("any", 1).shape;
    for group in ["g", "h"] {
        for at in 0..2 {
            let member = Pod { shape: Arc::clone(&shape), ..pod(&format!("{group}{at}"), 1) };
            world.submit(of_group(member, group, Ok(2)));
        }
        world.settle();
        world.pass_seconds(3);
        world.settle();
    }
    assert_eq!(
        (world.blocked("g").0, world.blocked("h").0),
        ("InsufficientResources".into(), "QueuedBehind".into())
    );
    world.submit(of_group(Pod { shape, ..pod("g2", 1) }, "g", Ok(2)));
    world.settle();
    assert!(world.conditions.contains_key("g2"), "it waits with the others");
    for at in 0..3 {
        world.delete(&format!("g{at}"));
    }
    world.settle();
    assert_eq!(world.blocked("h").0, "InsufficientResources", "nobody is ahead of it any more");
    assert!(world.conditions.contains_key("h0"));
}
