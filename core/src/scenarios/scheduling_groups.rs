//! Pods that name a group of Kubernetes' own.

use super::neighbours::{near, on};
use super::stand_ins::marked;
use super::*;
use crate::members::attaching::OWNER_WAIT_MILLIS;
use fluxqueue_workload::NamedGroup;
use fluxqueue_workload::pod_group::{GroupCondition, GroupPolicy, GroupWorkload, PodGroup, Terms};

/// The group of this name, without a uid of it.
pub(super) fn named(name: &str) -> NamedGroup {
    NamedGroup { name: Arc::from(name), uid: None }
}

/// A pod of a Job, with the PodGroup that the Job controller names in it.
fn member(name: &str, job: &str) -> Pod {
    Pod { scheduling_group: Some(named("j-group")), ..of_job(pod(name, 1), job) }
}

/// A pod that names a group, as it is read.
fn in_group(pod: Pod, group: &NamedGroup) -> Pod {
    let mut labels = vec![group.label()];
    labels.extend(pod.labels.iter().cloned());
    Pod { scheduling_group: Some(group.clone()), labels: labels.into(), ..pod }
}

/// A pod of group `g`.
pub(super) fn of_g(name: &str, cores: u64) -> Pod {
    in_group(pod(name, cores), &named("g"))
}

pub(super) fn group(name: &str, policy: GroupPolicy) -> PodGroup {
    let uid = Uid::from(format!("uid-{name}"));
    let id = ObjectRef { key: ObjectKey::new("ns", name), uid };
    PodGroup { resource_version: Some(Arc::from("1")), ..PodGroup::new(id, policy) }
}

pub(super) fn gang(min_count: u32) -> PodGroup {
    group("g", GroupPolicy::Gang(min_count))
}

pub(super) fn basic() -> PodGroup {
    group("g", GroupPolicy::Basic)
}

impl World {
    pub(super) fn tell_group(&mut self, group: PodGroup) {
        self.tell(Event::PodGroup(Arc::new(group)));
    }
}

/// A policy of a Job.
fn refused() -> Unsupported {
    let (field, message) = ("spec.scheduling.schedulingPolicy".to_owned(), "no".to_owned());
    Unsupported { field, message }
}

#[test]
fn a_job_that_says_nothing_of_groups_stays_a_gang() {
    let mut world = World::new(&[("a", 2)]);
    world.submit(member("p0", "j"));
    world.settle();
    assert_eq!(world.bound(), 0, "the Job has not been seen");
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.settle();
    assert_eq!(world.bound(), 0, "one of two is there");
    world.submit(member("p1", "j"));
    world.settle();
    assert_eq!((world.bound(), world.state("j")), (2, Some(JobState::Running)));
}

#[test]
fn a_job_that_says_how_its_group_is_scheduled_is_refused_by_name() {
    let mut world = World::new(&[("a", 2)]);
    world.tell(Event::Controller(Arc::new(Controller {
        scheduling: Some(refused()),
        ..job("j", 2, 2)
    })));
    world.submit(member("p0", "j"));
    world.submit(member("p1", "j"));
    world.settle();
    let said = "Job ns/j: spec.scheduling.schedulingPolicy: no".to_owned();
    assert_eq!(world.blocked("j"), ("UnsupportedConstraint".to_owned(), said.clone()));
    assert_eq!((world.bound(), world.state("j")), (0, Some(JobState::Refused)));
    let condition = &world.conditions["p1"];
    assert_eq!((condition.reason.as_str(), &condition.message), ("SchedulerError", &said));
}

#[test]
fn so_is_one_that_waits_without_pods() {
    let mut world = World::new(&[("a", 2)]);
    world.submit_job(Controller { scheduling: Some(refused()), ..marked("j", 2, 1) });
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Refused));
    assert!(!world.is_released("j"));
}

#[test]
fn a_group_that_is_not_there_is_waited_for_by_its_name() {
    let mut world = World::new(&[("a", 4)]);
    // The Job of the first never comes, and the others have none.
    world.submit(member("p0", "j"));
    world.submit(of_g("g0", 1));
    let other = NamedGroup { name: Arc::from("g"), uid: Some(Uid::from("other")) };
    world.submit(in_group(pod("x0", 1), &other));
    world.settle();
    world.pass_seconds(OWNER_WAIT_MILLIS / 1000 + 1);
    world.settle();
    let said = |world: &World| -> Vec<String> {
        let status = world.records.values().filter_map(|record| record.status.as_ref());
        let mut said: Vec<String> = status
            .flat_map(|status| &status.blocked_by)
            .map(|by| format!("{}: {}", by.reason, by.message))
            .collect();
        said.sort_unstable();
        said
    };
    let gone = "Incomplete: PodGroup ns/g with uid other is not there";
    assert_eq!(said(&world), ["Incomplete: PodGroup ns/g is not there yet", gone]);
    assert_eq!(world.bound(), 0, "so does the pod that its Job has left behind");
    world.tell_group(group("j-group", GroupPolicy::Basic));
    world.tell_group(gang(1));
    world.settle();
    assert_eq!(world.bound(), 2);
    assert_eq!(said(&world), [gone]);
    assert_eq!(world.node_of("x0"), None, "a group of another uid is another one");
}

#[test]
fn a_gang_waits_for_as_many_pods_as_its_group_says_and_others_join() {
    let mut world = World::new(&[("a", 4)]);
    world.tell_group(gang(3));
    world.submit(of_g("p0", 1));
    world.submit(of_g("p1", 1));
    world.settle();
    assert_eq!((world.bound(), world.state("g")), (0, Some(JobState::Incomplete)));
    assert_eq!(world.blocked("g").1, "2 of 3 pods are there");
    assert_eq!(world.record("g").spec.workload_ref.kind, fluxqueue_api::WorkloadKind::PodGroup);
    world.submit(of_g("p2", 1));
    world.settle();
    assert_eq!((world.bound(), world.state("g")), (3, Some(JobState::Running)));
    world.submit(of_g("p3", 1));
    world.submit(of_g("p4", 1));
    world.settle();
    assert_eq!(world.bound(), 4, "one joins at once");
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.bound(), 5, "the other when there is room");
}

#[test]
fn a_gang_starts_only_where_all_that_it_needs_have_room() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(gang(3));
    for name in ["p0", "p1", "p2"] {
        world.submit(of_g(name, 1));
    }
    world.settle();
    assert_eq!(world.bound(), 0);
    world.tell(Event::Node(node("b", 1)));
    world.settle();
    assert_eq!(world.bound(), 3);
}

#[test]
fn a_gang_of_which_some_pods_have_succeeded_needs_fewer() {
    let mut world = World::new(&[("a", 3)]);
    world.tell_group(gang(3));
    for name in ["p0", "p1", "p2"] {
        world.submit(of_job(of_g(name, 1), "j"));
    }
    let policy = JobGroup::Policy;
    world.tell(Event::Controller(Arc::new(Controller { said_of_group: policy, ..job("j", 3, 3) })));
    world.settle();
    assert_eq!(world.bound(), 3);
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    for name in ["p1", "p2"] {
        world.change(name, |pod| pod.phase = Phase::Failed);
    }
    world.settle();
    world.submit(of_job(of_g("p3", 1), "j"));
    world.settle();
    assert_eq!(world.node_of("p3"), None, "it needs the other");
    world.submit(of_job(of_g("p4", 1), "j"));
    world.settle();
    assert!(world.node_of("p3").is_some() && world.node_of("p4").is_some());
}

#[test]
fn the_number_of_a_group_may_change() {
    let mut world = World::new(&[("a", 4)]);
    world.tell_group(gang(3));
    world.submit(of_g("p0", 1));
    world.submit(of_g("p1", 1));
    world.settle();
    assert_eq!(world.bound(), 0);
    world.tell_group(gang(4));
    world.submit(of_g("p2", 1));
    world.settle();
    assert_eq!(world.bound(), 0, "it was raised");
    world.tell_group(gang(2));
    world.settle();
    assert_eq!(world.bound(), 3, "it was lowered");
    world.tell_group(gang(9));
    world.submit(of_g("p3", 1));
    world.settle();
    assert_eq!(world.bound(), 4, "a start is not undone");
}

#[test]
fn the_pods_of_a_basic_group_start_one_by_one() {
    let mut world = World::new(&[("a", 1), ("b", 1)]);
    // The group comes late.
    for name in ["p0", "p1", "p2"] {
        world.submit(of_g(name, 1));
    }
    world.settle();
    world.tell_group(basic());
    world.settle();
    assert_eq!(world.bound(), 2);
    assert_eq!(world.state("p2"), Some(JobState::Pending));
    world.look_ahead();
    let kinds = world.records.values().map(|record| record.spec.workload_ref.name.as_str());
    assert!(!kinds.clone().any(|name| name == "g"), "{:?}", kinds.collect::<Vec<_>>());
}

#[test]
fn labels_count_in_a_basic_group_and_not_in_a_gang() {
    for (policy, bound) in [(GroupPolicy::Basic, 0), (GroupPolicy::Gang(1), 2)] {
        let mut world = World::new(&[("a", 4)]);
        world.tell_group(group("g", policy));
        for name in ["p0", "p1"] {
            world.submit(of_group(of_g(name, 1), "labelled", Ok(3)));
        }
        world.settle();
        assert_eq!(world.bound(), bound, "{policy:?}");
    }
}

#[test]
fn the_policy_of_a_job_counts_if_the_job_states_it() {
    for (said, bound) in [(JobGroup::NoPolicy, 0), (JobGroup::Policy, 1)] {
        let mut world = World::new(&[("a", 2)]);
        world.tell_group(basic());
        world.tell(Event::Controller(Arc::new(Controller {
            said_of_group: said,
            ..job("j", 2, 2)
        })));
        world.submit(of_job(of_g("p0", 1), "j"));
        world.settle();
        assert_eq!(world.bound(), bound, "{said:?}");
        world.submit(of_job(of_g("p1", 1), "j"));
        world.settle();
        assert_eq!(world.bound(), 2, "{said:?}");
    }
}

#[test]
fn a_group_that_was_made_again_is_followed_unless_the_pods_name_another() {
    let mut world = World::new(&[("a", 4)]);
    let first = NamedGroup { uid: Some(Uid::from("uid-g")), ..named("g") };
    world.tell_group(gang(3));
    world.submit(of_g("p0", 1));
    world.submit(in_group(pod("q0", 1), &first));
    world.settle();
    world.tell(Event::PodGroupGone(gang(1).id));
    world.settle();
    let mut again = gang(1);
    again.id.uid = Uid::from("again");
    world.tell_group(again.clone());
    world.settle();
    assert!(world.node_of("p0").is_some() && world.node_of("q0").is_none());
    // Late news about the first.
    world.tell(Event::PodGroupGone(gang(1).id));
    let second = NamedGroup { uid: Some(again.id.uid), ..named("g") };
    world.submit(in_group(pod("r0", 1), &second));
    world.settle();
    assert!(world.node_of("r0").is_some());
}

#[test]
fn pods_that_contradict_their_group_wait() {
    for policy in [GroupPolicy::Basic, GroupPolicy::Gang(2)] {
        let mut world = World::new(&[("a", 4)]);
        world.tell_group(PodGroup { priority: Some(7), ..group("g", policy) });
        world.submit(Pod { priority: 7, ..of_g("p0", 1) });
        world.submit(Pod { priority: 8, ..of_g("p1", 1) });
        world.settle();
        let said = "pod ns/p1 has priority 8, and its PodGroup ns/g has 7";
        let condition = &world.conditions["p1"];
        assert_eq!((&*condition.reason, &*condition.message), ("SchedulerError", said));
        assert_eq!(world.bound(), usize::from(policy == GroupPolicy::Basic));
    }
    let mut world = World::new(&[("a", 4)]);
    world.tell_group(gang(2));
    world.submit(of_g("p0", 1));
    world.submit(of_g("p1", 1));
    world.submit(Pod { scheduler: Arc::from("other"), ..of_g("f", 1) });
    world.settle();
    let said = "PodGroup ns/g has pods of several schedulers: \"fluxqueue\", \"other\"";
    assert_eq!(world.blocked("g"), ("InvalidRequest".to_owned(), said.to_owned()));
    assert_eq!(world.conditions["p0"].reason, "SchedulerError");
    world.delete("f");
    world.settle();
    assert_eq!(world.bound(), 2);
}

#[test]
fn parts_of_a_group_that_are_not_supported_are_refused_by_name() {
    let unsupported = |field: &str| {
        let (field, message) = (format!("spec.{field}"), "no".to_owned());
        Unsupported { field, message }
    };
    let policy = Err(unsupported("schedulingPolicy"));
    let claims = Some(unsupported("resourceClaims"));
    for (group, field) in [
        (PodGroup { policy, ..gang(1) }, "schedulingPolicy"),
        (PodGroup { unsupported: claims, ..gang(1) }, "resourceClaims"),
    ] {
        let mut world = World::new(&[("a", 4)]);
        world.tell_group(group);
        world.submit(of_g("p0", 1));
        world.settle();
        let said = format!("PodGroup ns/g: spec.{field}: no");
        assert_eq!(world.blocked("g"), ("UnsupportedConstraint".to_owned(), said));
        assert_eq!(world.state("g"), Some(JobState::Refused));
    }
}

/// Two racks of two nodes each, and a node in none.
fn racks() -> World {
    let mut world = World::new(&[("none", 64)]);
    for (name, rack) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")] {
        let labels = vec![(Arc::from("example.com/rack"), Arc::from(rack))];
        let node = Arc::unwrap_or_clone(node(name, 4));
        world.tell(Event::Node(Arc::new(super::Node { labels, ..node })));
    }
    world
}

fn rack_of(world: &World, pod: &str) -> Option<String> {
    Some(world.node_of(pod)?[..1].to_owned())
}

#[test]
fn all_pods_of_a_group_are_in_one_value_of_the_label_that_it_names() {
    let key: Option<Arc<str>> = Some(Arc::from("example.com/rack"));
    // A gang has to find a rack with room for both; one by one, the second follows the first.
    for (policy, cores) in [(GroupPolicy::Basic, 2), (GroupPolicy::Gang(2), 3)] {
        for comes_late in [false, true] {
            let mut world = racks();
            world.submit(on(pod("busy", 3), "a1"));
            world.settle();
            let group = PodGroup { topology: key.clone(), ..group("g", policy) };
            if !comes_late {
                world.tell_group(group.clone());
            }
            for name in ["p0", "p1"] {
                world.submit(of_g(name, cores));
            }
            world.settle();
            world.tell_group(group);
            world.settle();
            let of = |name| rack_of(&world, name);
            assert!(of("p0").is_some_and(|rack| rack != "n"), "{policy:?} {comes_late}");
            assert_eq!(of("p0"), of("p1"), "{policy:?} {comes_late}: {:?}", world.bindings);
            // Further ones are where these are, or wait.
            let rack = of("p0");
            for name in ["q0", "q1", "q2"] {
                world.submit(of_g(name, 1));
            }
            world.settle();
            let further: Vec<_> =
                ["q0", "q1", "q2"].iter().filter_map(|name| rack_of(&world, name)).collect();
            assert!(!further.is_empty() && further.iter().all(|of| Some(of) == rack.as_ref()));
        }
    }
    // Required terms of their own are about other pods.
    let mut world = racks();
    world.tell_group(PodGroup { topology: key, ..gang(1) });
    world.submit(near(of_g("p0", 1), "db", "example.com/rack"));
    world.settle();
    let said = "pod ns/p0: spec.affinity.podAffinity: required terms cannot be honoured beside \
                spec.schedulingConstraints.topology of PodGroup ns/g";
    assert_eq!(world.blocked("g").1, said);
}

#[test]
fn a_group_of_another_namespace_has_no_say() {
    let mut world = World::new(&[("a", 4)]);
    let mut elsewhere = gang(1);
    elsewhere.id.key = ObjectKey::new("other", "g");
    world.tell_group(elsewhere);
    world.submit(of_g("p0", 1));
    world.settle();
    assert_eq!(world.blocked("g").1, "PodGroup ns/g is not there yet");
    world.tell(Event::PodGroupsHidden(Some(Arc::from("none are served"))));
    world.settle();
    assert_eq!(world.blocked("g").1, "PodGroup ns/g is not there: none are served");
}

#[test]
fn walltime_and_queue_come_from_the_group_and_then_from_its_workload() {
    let seconds = |seconds| Some(Ok(Lifetime::Seconds(seconds)));
    let workload = |walltime| {
        let id = ObjectRef { key: ObjectKey::new("ns", "w"), uid: Uid::from("w") };
        let terms = Terms { walltime, queue: Some(Arc::from("night")) };
        Event::Workload(Arc::new(GroupWorkload { id, created: Time::default(), terms }))
    };
    let mut world = World::new(&[("a", 4)]);
    world.tell(workload(seconds(100)));
    let of_workload = PodGroup { workload: Some(Arc::from("w")), ..gang(1) };
    world.tell_group(of_workload.clone());
    world.submit(of_g("p0", 1));
    world.settle();
    let said = |world: &World| {
        let status = world.record("g").status.clone().expect("a status");
        (status.walltime_seconds, status.workload.and_then(|workload| workload.queue_name))
    };
    assert_eq!(said(&world), (Some(100), Some("night".to_owned())));
    let terms = Terms { walltime: seconds(50), queue: Some(Arc::from("day")) };
    world.tell_group(PodGroup { terms, ..of_workload });
    world.settle();
    assert_eq!(said(&world), (Some(50), Some("day".to_owned())));
    // The pod's own word comes first.
    world.tell_group(PodGroup {
        terms: Terms { walltime: seconds(50), queue: None },
        ..group("h", GroupPolicy::Gang(1))
    });
    let own = in_group(pod("own", 1), &named("h"));
    world.submit(Pod { lifetime: Lifetime::Seconds(20), states_lifetime: true, ..own });
    world.settle();
    let status = world.record("h").status.clone().expect("a status");
    assert_eq!(status.walltime_seconds, Some(20));
}

#[test]
fn a_gang_of_a_group_goes_on_after_a_restart() {
    let mut world = World::new(&[("a", 4)]);
    world.tell_group(gang(2));
    for name in ["p0", "p1"] {
        world.submit(of_g(name, 1));
    }
    world.carry_out_to_first_binding();
    world.restart();
    world.tell_group(gang(2));
    world.list(&[("a", 4)], &[]);
    world.settle();
    assert_eq!((world.bound(), world.state("g")), (2, Some(JobState::Running)));
    assert_eq!(world.records.len(), 1);
}

#[test]
fn pods_that_their_job_has_left_behind_are_what_they_were() {
    let mut world = World::new(&[("a", 1)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.submit(member("p0", "j"));
    world.submit(member("p1", "j"));
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Unsatisfiable));
    world.tell(Event::ControllerGone(Uid::from("uid-j")));
    world.settle();
    assert_ne!(world.state("j"), Some(JobState::Refused), "no Job said anything of groups");
}

/// The conditions of groups that were written, as status and reason.
pub(super) fn said(world: &World) -> Vec<(bool, &str)> {
    let written = world.group_conditions.iter();
    written.map(|(_, condition)| (condition.is_true, condition.reason.as_str())).collect()
}

#[test]
fn a_group_learns_that_it_waits_and_that_it_has_started() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(gang(2));
    world.submit(of_g("p0", 1));
    world.settle();
    assert_eq!(said(&world), [(false, "Unschedulable")]);
    let (group, condition) = &world.group_conditions[0];
    assert_eq!((group.as_str(), condition.message.as_str()), ("g", "1 of 2 pods are there"));
    assert_eq!(condition.observed_generation, 1);
    // It is written no more often than every ten seconds, and no Binding waits for that.
    world.submit(of_g("p1", 1));
    world.settle();
    assert_eq!((world.bound(), world.group_conditions.len()), (2, 1));
    world.pass_seconds(10);
    world.settle();
    assert_eq!(said(&world), [(false, "Unschedulable"), (true, "Scheduled")]);
    // It is never taken back, and not written again.
    world.delete("p0");
    world.delete("p1");
    world.submit(of_g("p2", 1));
    for _ in 0..5 {
        world.pass_seconds(30);
        world.settle();
    }
    assert_eq!(world.group_conditions.len(), 2);
    // Nor by a later process, which finds it.
    let condition = Some(world.group_conditions[1].1.clone());
    world.restart();
    world.tell_group(PodGroup { condition, ..gang(2) });
    world.list(&[("a", 2)], &[]);
    world.settle();
    assert_eq!(world.group_conditions.len(), 2);
}

#[test]
fn a_refused_write_is_tried_again_after_minutes_and_another_number_is_news() {
    let mut world = World::new(&[("a", 2)]);
    world.group_outcome = WriteOutcome::Refused("no".to_owned());
    world.tell_group(gang(3));
    world.submit(of_g("p0", 1));
    world.settle();
    world.pass_seconds(290);
    world.settle();
    assert_eq!(world.group_conditions.len(), 1);
    world.group_outcome = WriteOutcome::Written(None);
    world.pass_seconds(20);
    world.settle();
    assert_eq!(world.group_conditions.len(), 2);
    world.tell_group(PodGroup { generation: 2, ..gang(4) });
    world.settle();
    world.pass_seconds(10);
    world.settle();
    let (_, last) = world.group_conditions.last().expect("one");
    assert_eq!((&*last.message, last.observed_generation), ("1 of 4 pods are there", 2));
}

#[test]
fn the_condition_of_a_group_of_two_schedulers_is_written_once_and_not_over_the_others() {
    let foreign = || Pod { scheduler: Arc::from("other"), ..of_g("f", 1) };
    let mut world = World::new(&[("a", 4)]);
    world.tell_group(gang(1));
    world.submit(foreign());
    world.submit(of_g("p0", 1));
    world.settle();
    assert_eq!(said(&world), [(false, "SchedulerError")]);
    let ours = Some(world.group_conditions[0].1.clone());
    world.tell_group(PodGroup { condition: ours, ..gang(1) });
    let theirs = GroupCondition {
        is_true: false,
        reason: "Unschedulable".to_owned(),
        message: "theirs".to_owned(),
        observed_generation: 1,
    };
    world.tell_group(PodGroup { condition: Some(theirs.clone()), ..gang(1) });
    for _ in 0..5 {
        world.pass_seconds(30);
        world.settle();
    }
    assert_eq!(world.group_conditions.len(), 1);
    let mut world = World::new(&[("a", 4)]);
    world.tell_group(PodGroup { condition: Some(theirs), ..gang(1) });
    world.submit(foreign());
    world.submit(of_g("p0", 1));
    world.settle();
    assert_eq!(said(&world), []);
}
