//! The texts and fields that a tenant writes into objects of its own namespace reach no job of
//! another one.

use fluxqueue_api::WorkloadKind;

use super::promises::lasting;
use super::*;
use crate::QueuePolicy;

fn of_namespace(namespace: &str, mut pod: Pod) -> Pod {
    pod.id.key.namespace = Arc::from(namespace);
    pod
}

/// Kind, namespace and name of each workload that has a FluxJob.
fn recorded(world: &World) -> Vec<String> {
    let of = |(key, record): (&ObjectKey, &FluxJob)| {
        let of = &record.spec.workload_ref;
        format!("{:?} {}/{}", of.kind, key.namespace, of.name)
    };
    let mut all: Vec<String> = world.records.iter().map(of).collect();
    all.sort();
    all
}

/// Seconds pass one by one, and everything settles after each.
pub(super) fn seconds_go_by(world: &mut World, seconds: i64) {
    for _ in 0..seconds {
        world.pass_seconds(1);
        world.settle();
    }
}

fn elastic(name: &str, kind: OwnerKind, owner: Option<Owner>) -> Controller {
    Controller { kind, owner, completions: None, ..job(name, 1, 1) }
}

fn owned_by(kind: OwnerKind, name: &str, pod: Pod) -> Pod {
    Pod { owner: Some(owner(kind, name)), ..pod }
}

pub(super) fn owner(kind: OwnerKind, name: &str) -> Owner {
    let api_version = if kind == OwnerKind::Job { "batch/v1" } else { "apps/v1" };
    Owner {
        kind,
        name: name.into(),
        uid: Uid::from(format!("uid-{name}")),
        api_version: api_version.into(),
    }
}

// --- owners ---

#[test]
fn a_pod_that_names_a_job_of_another_namespace_is_alone() {
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(job("victim", 2, 2))));
    world.submit(of_namespace("team-a", of_job(pod("intruder", 1), "victim")));
    world.settle();
    assert_eq!(recorded(&world), ["Pod team-a/intruder"]);
    for name in ["v0", "v1"] {
        world.submit(of_job(pod(name, 1), "victim"));
    }
    world.settle();
    assert_eq!(recorded(&world), ["Job ns/victim", "Pod team-a/intruder"]);
    assert_eq!(world.record("victim").status.as_ref().map(|status| status.total), Some(2));
}

#[test]
fn an_intruder_that_is_seen_before_the_job_does_not_refuse_it() {
    let mut world = World::new(&[("a", 4)]);
    let unsupported =
        Unsupported { field: "metadata.annotations".to_owned(), message: "no duration".to_owned() };
    let intruder = Pod { unsupported: vec![unsupported], ..of_job(pod("intruder", 1), "victim") };
    world.submit(of_namespace("team-a", intruder));
    world.settle();
    world.tell(Event::Controller(Arc::new(job("victim", 2, 2))));
    for name in ["v0", "v1"] {
        world.submit(of_job(pod(name, 1), "victim"));
    }
    world.settle();
    assert_eq!(world.state("victim"), Some(JobState::Running));
    assert_eq!(recorded(&world), ["Job ns/victim", "Pod team-a/intruder"]);
}

#[test]
fn the_record_of_a_deployment_is_not_made_in_the_namespace_of_an_intruder() {
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(elastic("web", OwnerKind::Deployment, None))));
    let above = Some(owner(OwnerKind::Deployment, "web"));
    world.tell(Event::Controller(Arc::new(elastic("set", OwnerKind::ReplicaSet, above.clone()))));
    world
        .submit(of_namespace("team-a", owned_by(OwnerKind::ReplicaSet, "set", pod("intruder", 1))));
    // A ReplicaSet of the intruder's own that claims to be the Deployment's.
    let mut forged = elastic("forged", OwnerKind::ReplicaSet, above);
    forged.id.key.namespace = Arc::from("team-a");
    world.tell(Event::Controller(Arc::new(forged)));
    world.submit(of_namespace(
        "team-a",
        owned_by(OwnerKind::ReplicaSet, "forged", pod("second", 1)),
    ));
    world.settle();
    assert_eq!(recorded(&world), ["Pod team-a/intruder", "ReplicaSet team-a/forged"]);
    world.submit(owned_by(OwnerKind::ReplicaSet, "set", pod("own", 1)));
    world.settle();
    assert!(recorded(&world).contains(&"Deployment ns/web".to_owned()), "{:?}", recorded(&world));
}

#[test]
fn an_owner_reference_with_another_kind_or_name_than_the_object_has_is_not_true() {
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    let with_uid =
        |kind: OwnerKind, name: &str| Owner { uid: Uid::from("uid-j"), ..owner(kind, name) };
    world.submit(Pod { owner: Some(with_uid(OwnerKind::StatefulSet, "j")), ..pod("kind", 1) });
    world.submit(Pod { owner: Some(with_uid(OwnerKind::Job, "k")), ..pod("name", 1) });
    world.submit(Pod {
        owner: Some(with_uid(OwnerKind::Other(Arc::from("Job")), "j")),
        ..pod("group", 1)
    });
    world.settle();
    assert_eq!(recorded(&world), ["Pod ns/group", "Pod ns/kind", "Pod ns/name"]);
    assert_eq!(world.bound(), 3);
}

/// While its pods run on, a pod that names the Job that made them is not counted among them.
#[test]
fn a_pod_that_names_a_job_of_another_namespace_that_is_gone_is_none_of_its_pods() {
    let mut world = World::new(&[("a", 8)]);
    world.submit_gang(1);
    world.settle();
    world.tell(Event::ControllerGone(Uid::from("uid-j")));
    world.submit(of_namespace("team-a", of_job(pod("intruder", 1), "j")));
    world.settle();
    seconds_go_by(&mut world, 31);
    assert_eq!(world.record("j").status.as_ref().map(|status| status.bound), Some(2));
    assert!(world.records.keys().any(|key| *key.namespace == *"ns"), "{:?}", recorded(&world));
    assert!(!recorded(&world).contains(&"Job team-a/j".to_owned()), "{:?}", recorded(&world));
}

#[test]
fn a_flux_job_that_says_it_is_the_record_of_a_job_elsewhere_is_nobodys() {
    let mut world = World::new(&[("a", 4)]);
    world.settle();
    world.submit_gang(1);
    world.settle();
    let mut forged = world.record("j").clone();
    forged.metadata.namespace = Some("team-a".to_owned());
    forged.metadata.uid = Some("forged".to_owned());
    world.records.insert(key_of(&forged), forged.clone());
    // Another process finds it, before any pod of the Job is there.
    let pods = std::mem::take(&mut world.pods);
    world.records.retain(|key, _| *key.namespace == *"team-a");
    world.restart();
    world.list(&[("a", 4)], &[job("j", 2, 2)]);
    world.settle();
    for pod in pods.into_values() {
        world.submit(Pod { node: None, ..pod });
    }
    world.settle();
    assert_eq!(recorded(&world), ["Job ns/j", "Job team-a/j"]);
    let own = world
        .records
        .iter()
        .find(|(key, _)| *key.namespace == *"ns")
        .expect("a record of its own")
        .1;
    assert_eq!(own.status.as_ref().map(|status| (status.bound, status.total)), Some((2, 2)));
}

#[test]
fn a_flux_job_with_the_name_of_another_workload_is_read_by_nobody() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("p", 8));
    world.settle();
    let mut forged = world.record("p").clone();
    forged.spec.workload_ref.uid = "uid-of-another".to_owned();
    forged.spec.overrides.hold = true;
    forged.metadata.resource_version = Some("9".to_owned());
    world.tell(Event::FluxJob(Arc::new(forged)));
    world.tell(Event::Node(node("b", 8)));
    world.settle();
    assert_eq!(world.node_of("p"), Some("b"), "nobody holds it");
}

// --- a pod with a maker that is not seen ---

#[test]
fn edits_of_a_pod_whose_job_is_not_seen_do_not_make_it_wait_longer() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(of_job(pod("p", 1), "unseen"));
    world.settle();
    for at in 0..3 {
        assert_eq!(world.node_of("p"), None, "after {at} edits");
        world.pass_seconds(10);
        world.change("p", |pod| pod.labels = super::neighbours::labels(&format!("edit-{at}")));
        world.settle();
    }
    assert_eq!(world.node_of("p"), Some("a"), "after 30 s");
}

#[test]
fn an_edit_of_a_pod_that_counts_as_lone_does_not_have_its_job_waited_for_again() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(of_job(pod("p", 8), "unseen"));
    seconds_go_by(&mut world, 31);
    assert_eq!(recorded(&world), ["Pod ns/p"]);
    world.change("p", |pod| *pod = of_group(pod.clone(), "g", Ok(1)));
    world.settle();
    world.tell(Event::Node(node("b", 8)));
    world.settle();
    assert_eq!(world.node_of("p"), Some("b"));
}

// --- refusals ---

#[test]
fn a_pod_that_is_going_without_a_node_refuses_nothing() {
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    let unsupported =
        Unsupported { field: "metadata.annotations".to_owned(), message: "no duration".to_owned() };
    world.submit(Pod { unsupported: vec![unsupported], ..of_job(pod("bad", 1), "j") });
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Refused));
    // A finalizer keeps it.
    world.change("bad", |pod| pod.deleting = true);
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    assert_eq!(world.bound(), 2);
    assert_eq!(world.node_of("bad"), None);
}

// --- FluxJobs that are deleted ---

/// Deletes the FluxJob of `j` as soon as it is there, for this many seconds; returns how often that
/// was.
fn delete_as_soon_as_there(world: &mut World, seconds: i64) -> usize {
    let mut deleted = 0;
    for _ in 0..seconds {
        if world.records.values().any(|record| record.spec.workload_ref.name == "j") {
            world.delete_record("j");
            deleted += 1;
        }
        world.settle();
        world.pass_seconds(1);
        world.settle();
    }
    deleted
}

#[test]
fn a_flux_job_that_is_deleted_again_and_again_comes_back_ever_later() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_gang(1);
    world.settle();
    // After 1, 2, 4, ... 256 s, and then each 300 s.
    assert_eq!(delete_as_soon_as_there(&mut world, 600), 10);
    assert_eq!(delete_as_soon_as_there(&mut world, 3_600), 12);
}

#[test]
fn a_flux_job_that_was_deleted_once_is_back_after_a_second() {
    let mut world = World::new(&[("a", 1)]);
    world.submit_gang(1);
    world.settle();
    for _ in 0..3 {
        assert_eq!(recorded(&world), ["Job ns/j"]);
        world.delete_record("j");
        world.settle();
        assert!(world.records.is_empty(), "not at once");
        world.pass_seconds(1);
        world.settle();
        assert_eq!(recorded(&world), ["Job ns/j"]);
        // It has been there for long by the next time.
        world.pass_seconds(400);
        world.settle();
    }
}

// --- priority ---

fn in_group(name: &str, priority: i32) -> Pod {
    Pod { priority, ..of_group(pod(name, 1), "g", Ok(4)) }
}

pub(super) fn priority(world: &World, workload: &str) -> Option<i32> {
    world.record(workload).status.as_ref()?.priority
}

pub(super) fn has_warning(world: &World, workload: &str, warning: &str) -> bool {
    let status = world.record(workload).status.as_ref().expect("a status");
    status.conditions.iter().any(|condition| condition.type_ == warning)
}

#[test]
fn a_small_pod_with_a_high_priority_lifts_no_gang() {
    let mut world = World::new(&[("a", 1)]);
    for (name, priority) in [("w0", 0), ("w1", 0), ("spark", 100_000)] {
        world.submit(in_group(name, priority));
    }
    seconds_go_by(&mut world, 3);
    assert_eq!(priority(&world, "g"), Some(0), "the lowest counts");
    assert!(has_warning(&world, "g", "PriorityContradiction"));
    assert_eq!(world.notes.iter().filter(|reason| *reason == "PriorityContradiction").count(), 1);
    world.delete("spark");
    seconds_go_by(&mut world, 1);
    assert_eq!(priority(&world, "g"), Some(0));
    assert!(!has_warning(&world, "g", "PriorityContradiction"), "they agree now");
}

#[test]
fn the_priority_of_a_gang_follows_its_pods_down_and_up_also_after_a_restart() {
    let mut world = World::new(&[("a", 1)]);
    world.submit(in_group("spark", 100_000));
    seconds_go_by(&mut world, 3);
    assert_eq!(priority(&world, "g"), Some(100_000), "it is the only one");
    world.delete("spark");
    world.submit(in_group("w0", 0));
    seconds_go_by(&mut world, 1);
    assert_eq!(priority(&world, "g"), Some(0));
    // On record is what an earlier process found.
    world.change_record("g", |record| {
        let status = record.status.as_mut().expect("a status");
        status.priority = Some(100_000);
        status.workload.as_mut().expect("a workload").priority = Some(100_000);
    });
    world.restart();
    world.list(&[("a", 1)], &[]);
    world.settle();
    assert_eq!(priority(&world, "g"), Some(0));
    // One that is going does not count, though it is there.
    world.change("w0", |pod| pod.deleting = true);
    world.submit(in_group("w1", 7));
    seconds_go_by(&mut world, 1);
    assert_eq!(priority(&world, "g"), Some(7));
}

#[test]
fn pods_that_start_one_by_one_have_priorities_of_their_own() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("runs", 4));
    world.settle();
    world.tell(Event::Controller(Arc::new(Controller {
        wants: 2,
        ..elastic("set", OwnerKind::ReplicaSet, None)
    })));
    world.submit(owned_by(OwnerKind::ReplicaSet, "set", Pod { priority: -5, ..pod("old", 4) }));
    world.submit(pod("other", 4));
    world.submit(owned_by(OwnerKind::ReplicaSet, "set", Pod { priority: 10, ..pod("new", 4) }));
    world.settle();
    let mut order = Vec::new();
    for running in ["runs", "new", "other"] {
        world.change(running, |pod| pod.phase = Phase::Succeeded);
        world.settle();
        let placed =
            ["new", "other", "old"].into_iter().filter(|name| world.node_of(name).is_some());
        order = placed.collect();
        assert!(!order.is_empty(), "after {running}");
    }
    assert_eq!(order, ["new", "other", "old"]);
    assert!(!has_warning(&world, "set", "PriorityContradiction"), "they need not agree");
}

// --- names ---

/// A job of team-b holds the machine, without an end or with one; another one of team-b is the
/// first to wait; then one of team-a.
fn behind_another_team(names: bool, lifetime: Lifetime) -> World {
    let told = CoreSettings {
        queue_policy: QueuePolicy::Conservative,
        names_across_namespaces: names,
        ..settings()
    };
    let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
    world.submit(of_namespace("team-b", Pod { lifetime, ..pod("secret-project", 4) }));
    world.settle();
    world.submit(of_namespace("team-b", lasting("secret-next", 4, 100)));
    world.submit(of_namespace("team-a", lasting("mine", 4, 100)));
    world.settle();
    seconds_go_by(&mut world, 3);
    world
}

/// Returns all texts in a namespace: those of FluxJobs and of conditions of pods.
fn said_in(world: &World, namespace: &str) -> String {
    let records = world.records.iter().filter(|(key, _)| *key.namespace == *namespace);
    let records = records.map(|(_, record)| serde_json::to_string(record).expect("JSON"));
    let pods = world.pods.values().filter(|pod| *pod.id.key.namespace == *namespace);
    let conditions =
        pods.filter_map(|pod| Some(world.conditions.get(&*pod.id.key.name)?.message.clone()));
    records.chain(conditions).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_in_the_way_is_not_named_in_another_namespace() {
    for lifetime in [Lifetime::Eventually, Lifetime::Seconds(100)] {
        let world = behind_another_team(false, lifetime);
        let said = said_in(&world, "team-a");
        assert!(!said.contains("secret") && !said.contains("team-b"), "{said}");
        let behind = world.blockers("mine").into_iter().filter_map(|blocker| blocker.behind);
        assert_eq!(behind.collect::<Vec<_>>(), [] as [String; 0]);
        if lifetime == Lifetime::Eventually {
            assert!(said.contains("a job of another namespace"), "{said}");
            assert!(
                said_in(&world, "team-b").contains("team-b/secret-project"),
                "of its own namespace it is"
            );
        }
    }
}

#[test]
fn a_setting_has_jobs_named_everywhere() {
    let world = behind_another_team(true, Lifetime::Eventually);
    assert!(said_in(&world, "team-a").contains("team-b/secret-"), "{}", said_in(&world, "team-a"));
}

/// Three jobs without an end are three things that are not known, and one text.
#[test]
fn without_names_the_same_is_said_once() {
    let mut world = World::new(&[("a", 4)]);
    for name in ["b0", "b1", "b2", "b3"] {
        world
            .submit(of_namespace("team-b", Pod { lifetime: Lifetime::Eventually, ..pod(name, 1) }));
    }
    let theirs =
        Pod { scheduler: Arc::from("another"), node: Some(NodeName::from("a")), ..pod("b4", 0) };
    world.submit(of_namespace("team-b", theirs));
    world.settle();
    world.submit(of_namespace("team-a", pod("mine", 4)));
    world.settle();
    let messages: Vec<String> =
        world.blockers("mine").into_iter().map(|blocker| blocker.message).collect();
    let unknown = messages.iter().filter(|message| message.contains("No end is known")).count();
    assert_eq!(unknown, 1, "{messages:?}");
}

#[test]
fn a_delay_names_nothing_of_another_namespace() {
    for names in [false, true] {
        let told = CoreSettings {
            queue_policy: QueuePolicy::Conservative,
            names_across_namespaces: names,
            ..settings()
        };
        let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
        world.submit(of_namespace("team-b", lasting("secret-runs", 4, 100)));
        world.settle();
        world.submit(of_namespace("team-a", lasting("mine", 4, 100)));
        world.settle();
        let before = world.texts.len();
        // It outlives its walltime, and one with a higher priority comes.
        seconds_go_by(&mut world, 110);
        world.submit(of_namespace(
            "team-b",
            Pod { priority: 9, ..lasting("secret-urgent", 4, 100) },
        ));
        seconds_go_by(&mut world, 3);
        world.submit(of_namespace(
            "team-b",
            Pod {
                scheduler: Arc::from("another"),
                node: Some(NodeName::from("a")),
                ..pod("secret-other", 1)
            },
        ));
        seconds_go_by(&mut world, 3);
        let delays: Vec<&String> = world.texts[before..]
            .iter()
            .filter(|text| text.contains("later than") || text.contains("at an unknown time"))
            .collect();
        assert!(!delays.is_empty());
        assert_eq!(delays.iter().any(|text| text.contains("secret")), names, "{delays:?}");
        assert!(
            names || delays.iter().any(|text| text.contains("of another namespace")),
            "{delays:?}"
        );
    }
}

#[test]
fn a_restart_says_nothing_again_of_a_gate_on_a_pod_of_another_scheduler() {
    let mut world = World::new(&[("a", 4)]);
    let gates = vec![Arc::from(fluxqueue_api::names::GATE)];
    world.submit(Pod { scheduler: "default-scheduler".into(), gates, ..pod("theirs", 1) });
    world.settle();
    for _ in 0..3 {
        world.restart();
        world.list(&[("a", 4)], &[]);
        world.settle();
    }
    let said = world.notes.iter().filter(|reason| *reason == "GateIgnored").count();
    assert_eq!(said, 1, "once, and not once for each process");
}

/// A CronJob replaces a Job that waits by another one: a promise to a deleted job is not reported
/// as broken.
#[test]
fn a_job_that_is_deleted_while_it_waits_is_told_of_no_delay() {
    for is_seen_first in [true, false] {
        let told = CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() };
        let mut world = World::told(told, FunctionTable::builtin(), &[("a", 2)]);
        world.submit(lasting("runs", 2, 100));
        world.settle();
        world.submit_gang(1);
        seconds_go_by(&mut world, 3);
        assert!(
            world.record("j").status.as_ref().is_some_and(|status| status.reservation.is_some())
        );
        if is_seen_first {
            world.tell(Event::ControllerGone(Uid::from("uid-j")));
            world.settle();
        }
        for name in ["p0", "p1"] {
            world.change(name, |pod| pod.deleting = true);
        }
        world.settle();
        assert!(
            !world.notes.iter().any(|reason| reason == "ReservationDelayed"),
            "{:?}",
            world.texts
        );
    }
}

// --- a pass under way ---

#[test]
fn a_pod_of_which_a_record_is_known_is_kept_until_the_pass_is_over() {
    const NODES: [(&str, u64); 4] = [("n1", 4), ("n2", 4), ("n3", 4), ("n4", 2)];
    let told = CoreSettings {
        queue_policy: QueuePolicy::Conservative,
        questions_per_slice: 1,
        ..settings()
    };
    let mut world = World::told(told, FunctionTable::builtin(), &NODES);
    for (name, seconds) in [("a", 100), ("b", 200), ("c", 300)] {
        world.submit(lasting(name, 4, seconds));
    }
    world.settle();
    for seconds in 50..56 {
        world.submit(lasting(&format!("waits-{seconds}"), 4, seconds));
    }
    world.submit(Pod { gates: vec![Arc::from("example.com/wait")], ..lasting("small", 1, 10) });
    world.settle();
    seconds_go_by(&mut world, 2);
    let small = world.pods.remove("small").expect("a pod");
    world.restart();
    world.list(&NODES, &[]);
    world.settle();
    world.pods.insert("small".to_owned(), Pod { gates: Vec::new(), ..small });
    world.pass_seconds(1);
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.step();
    assert!(world.core.is_passing(), "a pass is under way");
    world.change("small", |_| {});
    assert!(
        !world.core.jobs.members.contains_key(&Uid::from("uid-small")),
        "it is not taken up beside the pass"
    );
    world.settle();
    assert!(world.node_of("small").is_some());
}

// --- the end ---

/// A Job that is deleted while it waits has not succeeded.
#[test]
fn a_job_that_never_ran_has_not_succeeded() {
    let mut world = World::new(&[("a", 1)]);
    world.submit_gang(2);
    seconds_go_by(&mut world, 3);
    // Its pods are left, without an owner.
    world.tell(Event::ControllerGone(Uid::from("uid-j")));
    for name in ["p0", "p1"] {
        world.change(name, |pod| pod.owner = None);
    }
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Failed));
    let record = world.record("j");
    let finished = record
        .status
        .as_ref()
        .expect("a status")
        .conditions
        .iter()
        .find(|it| it.type_ == "Finished");
    let finished = finished.expect("it has ended");
    assert_eq!(finished.message, "it was deleted before a pod of it was bound");
    assert_eq!(record.spec.workload_ref.kind, WorkloadKind::Job);
}
