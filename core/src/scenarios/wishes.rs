//! The fields of a workload, the wishes of people instead, and the records of both.

use super::promises::lasting;
use super::*;
use fluxqueue_api::{FluxJobStatus, Overrides, PodSet, WorkloadKind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

fn status<'a>(world: &'a World, workload: &str) -> &'a FluxJobStatus {
    world.record(workload).status.as_ref().expect("a status")
}

/// A Job of one pod that waits for ever: `j`, with pod `p`.
fn waiting(world: &mut World, walltime: Option<Lifetime>) {
    world.tell(Event::Controller(Arc::new(Controller {
        walltime: walltime.map(Ok),
        ..job("j", 1, 1)
    })));
    let mut member = of_job(pod("p", 8), "j");
    member.priority = 3;
    world.submit(member);
    world.settle();
}

fn of_deployment(mut pod: Pod) -> Pod {
    pod.owner = Some(Owner {
        kind: OwnerKind::ReplicaSet,
        name: Arc::from("set"),
        uid: Uid::from("uid-set"),
        api_version: Arc::from("apps/v1"),
    });
    pod
}

fn scale(world: &mut World, replicas: u32) {
    let above = Owner {
        kind: OwnerKind::Deployment,
        name: Arc::from("web"),
        uid: Uid::from("uid-web"),
        api_version: Arc::from("apps/v1"),
    };
    let elastic = Controller { completions: None, ..job("web", replicas, replicas) };
    let set = Controller { kind: OwnerKind::ReplicaSet, owner: Some(above), ..elastic.clone() };
    let set = Controller {
        id: ObjectRef { key: ObjectKey::new("ns", "set"), uid: Uid::from("uid-set") },
        ..set
    };
    world.tell(Event::Controller(Arc::new(Controller { kind: OwnerKind::Deployment, ..elastic })));
    world.tell(Event::Controller(Arc::new(set)));
}

#[test]
fn a_wish_that_is_taken_back_leaves_what_the_workload_says() {
    let mut world = World::new(&[("a", 4)]);
    waiting(&mut world, Some(Lifetime::Seconds(600)));
    let counts = |world: &World| {
        let status = status(world, "j");
        (status.priority, status.walltime_seconds, status.queue_name.clone(), status.state)
    };
    let said = counts(&world);
    assert_eq!((said.0, said.1, said.2.as_deref()), (Some(3), Some(600), Some("default")));
    world.edit("j", |spec| {
        spec.overrides = Overrides {
            priority_class_name: Some("high".to_owned()),
            walltime_seconds: Some(60),
            queue_name: Some("gpu".to_owned()),
            holds: Vec::new(),
            hold: true,
        };
    });
    world.settle();
    assert_eq!(counts(&world), (Some(5), Some(60), Some("gpu".to_owned()), Some(JobState::Held)));
    let workload = status(&world, "j").workload.clone().expect("it was observed");
    assert_eq!(
        (workload.priority, workload.walltime_seconds),
        (Some(3), Some(600)),
        "what it says has not changed"
    );
    world.edit("j", |spec| spec.overrides = Overrides::default());
    world.settle();
    assert_eq!(counts(&world), said);
}

#[test]
fn a_deadline_of_the_job_is_its_walltime_unless_it_says_one() {
    let mut world = World::new(&[("a", 4)]);
    waiting(&mut world, None);
    let said = |world: &World| {
        let status = status(world, "j");
        (
            status.workload.as_ref().and_then(|workload| workload.walltime_seconds),
            status.walltime_seconds,
        )
    };
    assert_eq!(said(&world), (None, None));
    let limited = Controller { deadline_secs: Some(900), ..job("j", 1, 1) };
    world.tell(Event::Controller(Arc::new(limited.clone())));
    world.settle();
    assert_eq!(said(&world), (Some(900), Some(900)));
    world.edit("j", |spec| spec.overrides.walltime_seconds = Some(60));
    world.settle();
    assert_eq!(said(&world), (Some(900), Some(60)));
    world.tell(Event::Controller(Arc::new(Controller {
        walltime: Some(Ok(Lifetime::Seconds(50))),
        ..limited
    })));
    world.settle();
    assert_eq!(said(&world), (Some(50), Some(60)));
}

#[test]
fn to_hold_a_job_freezes_nothing() {
    let mut world = World::new(&[("a", 4)]);
    waiting(&mut world, Some(Lifetime::Seconds(600)));
    for hold in [true, false] {
        world.edit("j", |spec| spec.overrides.hold = hold);
        world.settle();
    }
    world.tell(Event::Controller(Arc::new(Controller {
        walltime: Some(Ok(Lifetime::Seconds(50))),
        ..job("j", 1, 1)
    })));
    world.settle();
    assert_eq!(status(&world, "j").walltime_seconds, Some(50), "the annotation was changed since");
}

#[test]
fn what_is_held_no_more_does_not_say_so_also_where_nothing_waits() {
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 1, 1))));
    world.submit(of_job(pod("p", 1), "j"));
    world.settle();
    scale(&mut world, 1);
    world.submit(of_deployment(pod("w", 8)));
    world.settle();
    world.delete("w");
    scale(&mut world, 0);
    for workload in ["j", "web"] {
        for hold in [true, false] {
            world.edit(workload, |spec| spec.overrides.hold = hold);
            world.settle();
        }
        assert_eq!(status(&world, workload).blocked_by, [], "{workload}");
    }
}

#[test]
fn half_a_pair_of_group_labels_is_no_group_and_that_is_said() {
    let labels = [("scheduling.x-k8s.io/pod-group", "gang"), ("fluxqueue.group-size", "2")];
    let expected = ["label fluence.group-size is missing", "label fluxqueue.pod-group is missing"];
    for (label, text) in labels.into_iter().zip(expected) {
        let mut world = World::new(&[("a", 4)]);
        let mut half = pod("p", 8);
        half.labels = Arc::from([(Arc::from(label.0), Arc::from(label.1))]);
        world.submit(half);
        world.settle();
        let said =
            status(&world, "p").conditions.iter().find(|it| it.type_ == "IncompleteGroupLabels");
        assert!(said.is_some_and(|said| said.message.contains(text)), "{said:?}");
        assert!(
            world.notes.iter().any(|reason| reason == "IncompleteGroupLabels"),
            "{:?}",
            world.notes
        );
    }
}

#[test]
fn what_nobody_says_is_absent() {
    let mut world = World::new(&[("a", 4)]);
    waiting(&mut world, None);
    let status = serde_json::to_value(status(&world, "j")).expect("JSON");
    assert_eq!(
        (status.get("walltimeSeconds"), status["workload"].get("walltimeSeconds")),
        (None, None)
    );
    assert_eq!(
        (&status["queueName"], status["workload"].get("queueName")),
        (&"default".into(), None)
    );
    assert_eq!(status["workload"]["podSets"][0]["requests"]["cpu"], "8");
}

#[test]
fn a_class_that_does_not_exist_is_no_wish_and_is_said() {
    let mut world = World::new(&[("a", 4)]);
    waiting(&mut world, None);
    world.edit("j", |spec| spec.overrides.priority_class_name = Some("urgent".to_owned()));
    world.settle();
    let warns = |world: &World| {
        status(world, "j").conditions.iter().any(|it| it.type_ == "UnknownPriorityClass")
    };
    assert_eq!((status(&world, "j").priority, warns(&world)), (Some(3), true));
    world.tell(Event::PriorityClass(priority_class("urgent", 70)));
    world.settle();
    assert_eq!((status(&world, "j").priority, warns(&world)), (Some(70), false));
    // Another one of the name: a class is never changed, but replaced.
    world.tell(Event::PriorityClassGone(Arc::from("urgent")));
    world.tell(Event::PriorityClass(priority_class("urgent", -70)));
    world.settle();
    assert_eq!((status(&world, "j").priority, warns(&world)), (Some(-70), false));
    world.tell(Event::PriorityClassGone(Arc::from("urgent")));
    world.settle();
    assert_eq!((status(&world, "j").priority, warns(&world)), (Some(3), true));
}

#[test]
fn pod_sets_follow_an_elastic_workload() {
    let mut world = World::new(&[("a", 4)]);
    scale(&mut world, 1);
    world.submit(of_deployment(pod("w0", 1)));
    world.settle();
    let sets =
        |world: &World| status(world, "web").workload.as_ref().expect("observed").pod_sets.clone();
    let counts = |world: &World| {
        sets(world).iter().map(|set| (set.count, set.min_count)).collect::<Vec<_>>()
    };
    assert_eq!(world.record("web").spec.workload_ref.kind, WorkloadKind::Deployment);
    assert_eq!(counts(&world), [(1, None)]);
    scale(&mut world, 3);
    for name in ["w1", "w2"] {
        world.submit(of_deployment(pod(name, 1)));
    }
    world.settle();
    assert_eq!(counts(&world), [(3, Some(1))]);
    // A rollout: the new pods ask for more.
    world.submit(of_deployment(pod("x0", 2)));
    world.settle();
    let requests = |set: &PodSet| set.requests["cpu"].clone();
    assert_eq!(
        sets(&world).iter().map(|set| (requests(set), set.count)).collect::<Vec<_>>(),
        [("1".to_owned(), 3), ("2".to_owned(), 1)]
    );
    for name in ["w0", "w1", "w2", "x0"] {
        world.delete(name);
    }
    scale(&mut world, 0);
    world.settle();
    assert!(world.record("web").spec.overrides.is_empty());
    let (record, generation) = (world.record("web").clone(), 1);
    assert_eq!(record.metadata.generation, Some(generation), "its spec was never written again");
}

#[test]
fn the_size_of_a_job_that_is_scaled_is_followed() {
    let mut world = World::new(&[("a", 8)]);
    world.submit_gang(1);
    world.settle();
    let count =
        |world: &World| status(world, "j").workload.as_ref().expect("observed").pod_sets[0].count;
    assert_eq!((world.bound(), count(&world)), (2, 2));
    world.tell(Event::Controller(Arc::new(job("j", 3, 3))));
    world.submit(of_job(pod("p2", 1), "j"));
    world.settle();
    assert_eq!((world.bound(), count(&world)), (3, 3));
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.tell(Event::Controller(Arc::new(Controller {
        succeeded: 1,
        wants: 2,
        ..job("j", 3, 3)
    })));
    world.settle();
    assert_eq!(
        (status(&world, "j").total, count(&world)),
        (2, 3),
        "it asked for three, and wants two more to end"
    );
}

#[test]
fn conditions_of_others_are_no_news() {
    let mut world = World::new(&[("a", 4)]);
    waiting(&mut world, None);
    let before = status(&world, "j").clone();
    world.change_record("j", |record| {
        let foreign: Condition = serde_json::from_value(serde_json::json!({
            "type": "example.com/Billed", "status": "True", "reason": "Paid", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }))
        .expect("a condition");
        record.status.as_mut().expect("a status").conditions.push(foreign);
        record.metadata.resource_version = Some("99".to_owned());
    });
    let actions = world.step();
    assert!(actions.is_empty(), "{actions:?}");
    assert_eq!(before.state, status(&world, "j").state);
}

#[test]
fn what_ended_before_it_was_bound_was_never_scheduled() {
    let mut world = World::new(&[("a", 4)]);
    waiting(&mut world, None);
    world.change("p", |pod| pod.phase = Phase::Failed);
    world.tell(Event::Controller(Arc::new(Controller {
        finished: true,
        failed: true,
        wants: 0,
        ..job("j", 1, 1)
    })));
    world.settle();
    let conditions = &status(&world, "j").conditions;
    let said: Vec<_> = conditions.iter().map(|it| (&*it.type_, &*it.status, &*it.reason)).collect();
    assert_eq!(said, [("Scheduled", "False", "NeverScheduled"), ("Finished", "True", "Failed")]);
    assert_eq!(world.state("j"), Some(JobState::Failed));
}

#[test]
fn a_new_reason_is_told_once_on_the_flux_job_and_on_pods_that_hear_of_it_in_no_other_way() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    world.submit(pod("runs", 4));
    world.settle();
    waiting(&mut world, None);
    let count =
        |world: &World, reason: &str| world.notes.iter().filter(|told| *told == reason).count();
    assert_eq!((count(&world, "Unsatisfiable"), count(&world, "Held")), (1, 0));
    world.edit("j", |spec| spec.overrides.hold = true);
    world.settle();
    assert_eq!(count(&world, "Held"), 2, "its FluxJob and its pod: {:?}", world.notes);
    world.pass_seconds(60);
    world.settle();
    world.restart();
    world.list(&nodes, &[job("j", 1, 1)]);
    world.settle();
    assert_eq!(count(&world, "Held"), 2, "a restart tells nothing: {:?}", world.notes);
    world.edit("j", |spec| spec.overrides.hold = false);
    world.settle();
    assert_eq!((count(&world, "Unsatisfiable"), count(&world, "Held")), (2, 2));
}

#[test]
fn a_group_starts_with_as_many_as_its_label_says() {
    let mut world = World::new(&[("a", 4)]);
    for name in ["g0", "g1", "g2"] {
        world.submit(of_group(pod(name, 8), "g", Ok(2)));
    }
    world.settle();
    let sets = |world: &World, group: &str| {
        status(world, group).workload.as_ref().expect("observed").pod_sets.clone()
    };
    assert_eq!((sets(&world, "g")[0].count, sets(&world, "g")[0].min_count), (3, Some(2)));
    // It cannot be said of a size that is no number.
    world.submit(of_group(pod("b0", 8), "bad", Err("\"many\" is no number".to_owned())));
    world.pass_seconds(3);
    world.settle();
    assert_eq!((sets(&world, "bad")[0].count, sets(&world, "bad")[0].min_count), (1, None));
}

/// A Job `j` runs for 100 seconds, and another one is promised to start then; with the second at
/// which it began.
fn promised_behind_one_that_runs() -> (World, i64) {
    let easy = CoreSettings { queue_policy: crate::QueuePolicy::Easy, ..settings() };
    let mut world = World::told(easy, FunctionTable::builtin(), &[("a", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 1, 1))));
    world.submit(of_job(lasting("runs", 4, 100), "j"));
    world.settle();
    let started = world.now;
    world.change("runs", |pod| (pod.phase, pod.started) = (Phase::Running, Some(started)));
    world.submit(lasting("waits", 4, 50));
    world.settle();
    assert_eq!(world.estimate("waits"), Some((EstimateKind::Reserved, started.seconds() + 100)));
    (world, started.seconds())
}

/// Improvements are on record a little later.
fn assert_promised(world: &mut World, at: i64) {
    for _ in 0..10 {
        world.settle();
        world.pass_seconds(1);
    }
    assert_eq!(world.estimate("waits"), Some((EstimateKind::Reserved, at)));
}

#[test]
fn a_wish_for_another_walltime_counts_for_what_runs_at_once() {
    let (mut world, started) = promised_behind_one_that_runs();
    // Shorter, longer, and as the workload says again: its pod does not change.
    for (wish, expected) in [(Some(60), 60), (Some(300), 300), (None, 100)] {
        world.edit("j", |spec| spec.overrides.walltime_seconds = wish);
        assert_promised(&mut world, started + expected);
    }
}

#[test]
fn an_annotation_that_is_changed_counts_for_what_runs_at_once() {
    let (mut world, started) = promised_behind_one_that_runs();
    // Of the Job, and taken away again.
    for (said, expected) in [(Some(60), 60), (Some(300), 300), (None, 100)] {
        let walltime = said.map(|seconds| Ok(Lifetime::Seconds(seconds)));
        world.tell(Event::Controller(Arc::new(Controller { walltime, ..job("j", 1, 1) })));
        assert_promised(&mut world, started + expected);
    }
    // Of the pod itself.
    for seconds in [60, 200] {
        world.change("runs", |pod| pod.lifetime = Lifetime::Seconds(seconds));
        assert_promised(&mut world, started + i64::try_from(seconds).expect("a number"));
    }
    let delays = world.texts.iter().filter(|text| text.starts_with("edit: ")).count();
    assert!(
        delays > 0 && world.texts.iter().all(|text| !text.starts_with("walltime: ")),
        "{:?}",
        world.texts
    );
}

#[test]
fn an_annotation_of_a_pod_that_waits_counts_at_once() {
    let (mut world, _) = promised_behind_one_that_runs();
    world.submit(lasting("gap", 4, 200));
    world.change("waits", |pod| pod.lifetime = Lifetime::Seconds(70));
    world.settle();
    assert_eq!(
        world.record("waits").status.as_ref().and_then(|status| status.walltime_seconds),
        Some(70)
    );
}
