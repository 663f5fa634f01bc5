//! Jobs that are suspended while they wait: stand-ins for their pods, the release, and the place
//! that is held.

use fluxqueue_api::names;
use fluxqueue_workload::{Suspension, SuspensionPhase};

use super::*;
use fluxqueue_planner::queue::PendingRequest;
use fluxqueue_planner::queues::Namespace;

/// A Job that carries our mark, with pods of this number of cores.
pub(super) fn marked(name: &str, pods: u32, cores: u64) -> Controller {
    let mut controller = job(name, pods, pods);
    let mut sample = of_job(pod(name, cores), name);
    sample.id = controller.id.clone();
    sample.stands_in = true;
    let phase =
        SuspensionPhase::Marked { resource_version: Some(Arc::from("1")), is_suspended: true };
    controller.suspension =
        Some(Suspension { phase, sample, priority_class: None, is_indexed: false });
    controller
}

impl World {
    /// The namespace of all jobs is there, with or without the label.
    pub(super) fn label_namespace(&mut self, suspends: bool) {
        let label = (Arc::from(names::ADMISSION_SUSPEND), Arc::from(names::ENABLED));
        let labels = if suspends { Arc::from([label]) } else { Arc::from([]) };
        let namespace = Namespace {
            name: Arc::from("ns"),
            uid: Uid::from("uid-ns"),
            labels,
            queue: None,
            paused: None,
        };
        self.tell(Event::Namespace(Arc::new(namespace)));
    }

    /// A Job comes, or is seen again, where Jobs wait without pods.
    pub(super) fn submit_job(&mut self, job: Controller) {
        self.label_namespace(true);
        self.submit_marked(job);
    }

    fn submit_marked(&mut self, job: Controller) {
        self.jobs.insert(job.id.key.name.to_string(), job.clone());
        self.tell(Event::Controller(Arc::new(job)));
    }

    /// Plays the API server's side of a write to a Job.
    pub(super) fn write_job(
        &mut self,
        job: &ObjectRef,
        resource_version: Option<&str>,
        release_at: Option<Time>,
    ) -> WriteOutcome {
        let Some(job) = self.jobs.get_mut(&*job.key.name) else { return WriteOutcome::Gone };
        let suspension = job.suspension.as_mut().expect("only such Jobs are written to");
        let SuspensionPhase::Marked { resource_version: Some(known), .. } = &suspension.phase
        else {
            return WriteOutcome::Conflict;
        };
        if Some(&**known) != resource_version {
            return WriteOutcome::Conflict;
        }
        let next = known.parse::<u64>().expect("a number") + 1;
        suspension.phase = match release_at {
            Some(at) => SuspensionPhase::Released { at },
            None => SuspensionPhase::Marked {
                resource_version: Some(next.to_string().into()),
                is_suspended: true,
            },
        };
        let job = Arc::new(job.clone());
        self.tell(Event::Controller(job));
        WriteOutcome::Written(None)
    }

    /// Changes a Job as a user does: its version is another one then.
    pub(super) fn change_job(&mut self, name: &str, how: impl FnOnce(&mut Controller)) {
        let job = self.jobs.get_mut(name).expect("it is there");
        how(job);
        if let Some(SuspensionPhase::Marked { resource_version, .. }) =
            job.suspension.as_mut().map(|it| &mut it.phase)
        {
            let next =
                resource_version.as_ref().expect("a version").parse::<u64>().expect("a number") + 1;
            *resource_version = Some(next.to_string().into());
        }
        let job = Arc::new(job.clone());
        self.tell(Event::Controller(job));
    }

    pub(super) fn is_released(&self, name: &str) -> bool {
        let suspension = self.jobs[name].suspension.as_ref().expect("it was suspended");
        matches!(suspension.phase, SuspensionPhase::Released { .. })
    }

    /// A new process, which lists these nodes and all Jobs.
    pub(super) fn succeed(&mut self, nodes: &[(&str, u64)]) {
        self.restart();
        self.label_namespace(true);
        let jobs: Vec<Controller> = self.jobs.values().cloned().collect();
        self.list(nodes, &jobs);
    }

    pub(super) fn placement_on_record(&self, workload: &str) -> Vec<String> {
        self.record(workload)
            .status
            .as_ref()
            .map(|status| planned(&status.placement))
            .unwrap_or_default()
    }
}

fn releases(actions: &[Action]) -> usize {
    actions
        .iter()
        .filter(|action| matches!(action.kind, ActionKind::Write(Write::ReleaseJob { .. })))
        .count()
}

/// Pods `<job>-pod-<n>` of the Job.
pub(super) fn pods_of(name: &str, count: u32, cores: u64) -> Vec<Pod> {
    (0..count).map(|n| of_job(pod(&format!("{name}-pod-{n}"), cores), name)).collect()
}

#[test]
fn a_suspended_job_is_released_when_its_placement_is_on_record_and_starts_when_all_its_pods_are_there()
 {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.submit_job(marked("j", 2, 3));
    for _ in 0..10 {
        let actions = world.step();
        if releases(&actions) > 0 {
            assert_eq!(world.placement_on_record("j"), ["a", "b"], "before it is released");
        }
        assert_eq!(binds(&actions), 0);
        world.carry_out_all(actions);
    }
    assert!(world.is_released("j"));
    assert_eq!(world.state("j"), Some(JobState::Starting));
    let [first, second] = pods_of("j", 2, 3).try_into().expect("two");
    world.submit(first);
    world.settle();
    assert_eq!(world.bound(), 0, "the other one is missing");
    world.submit(second);
    world.settle();
    assert_eq!((world.node_of("j-pod-0"), world.node_of("j-pod-1")), (Some("a"), Some("b")));
    assert_eq!(world.state("j"), Some(JobState::Running));
    assert_eq!(world.core.gauges().placements_withdrawn, 0);
}

#[test]
fn a_job_of_one_pod_is_on_record_before_it_is_released_too() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_job(marked("j", 1, 3));
    world.settle();
    assert!(world.is_released("j"));
    assert_eq!(world.placement_on_record("j"), ["a"]);
    world.submit(pods_of("j", 1, 3).remove(0));
    world.settle();
    assert_eq!((world.node_of("j-pod-0"), world.state("j")), (Some("a"), Some(JobState::Running)));
}

#[test]
fn who_waits_has_no_pods_and_is_told_by_its_flux_job_alone() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("busy", 4));
    world.settle();
    for name in ["j", "k"] {
        world.submit_job(marked(name, 1, 3));
    }
    world.settle();
    assert!(!world.is_released("j"));
    assert_eq!(world.blocked("j").0, "InsufficientResources");
    assert!(
        world.conditions.is_empty(),
        "nothing is written to pods that are not there: {:?}",
        world.conditions
    );
    assert_eq!(world.core.gauges().pods, 1);
    world.delete("busy");
    world.settle();
    assert!(world.is_released("j") && !world.is_released("k"));
}

#[test]
fn suspensions_of_others_are_left_alone() {
    let mut world = World::new(&[("a", 4)]);
    let mut theirs = job("j", 2, 2);
    theirs.wants = 0;
    world.submit_job(theirs);
    let mut other = marked("k", 1, 1);
    other.suspension.as_mut().expect("it is marked").sample.scheduler = Arc::from("another");
    world.submit_job(other);
    world.settle();
    assert!(!world.is_released("k"));
    assert!(world.records.is_empty());
}

#[test]
fn a_mark_counts_only_where_the_namespace_has_the_label() {
    let told =
        |world: &World| world.notes.iter().filter(|reason| *reason == "SuspensionIgnored").count();
    let mut world = World::new(&[("a", 4)]);
    world.submit_marked(marked("j", 2, 1));
    world.settle();
    assert_eq!(
        (world.is_released("j"), told(&world)),
        (false, 0),
        "its namespace has not been seen"
    );
    world.label_namespace(false);
    world.change_job("j", |_| {});
    world.settle();
    assert_eq!(
        (world.is_released("j"), told(&world), world.records.len()),
        (false, 1, 0),
        "{:?}",
        world.texts
    );
    world.submit(pod("busy", 4));
    world.settle();
    assert_eq!(world.node_of("busy"), Some("a"), "nothing is held for it");
    world.label_namespace(true);
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Pending));
    // The label goes again: what waits by it waits no more.
    world.label_namespace(false);
    world.delete("busy");
    world.settle();
    assert_eq!(
        (world.is_released("j"), world.placement_on_record("j").len(), told(&world)),
        (false, 0, 1)
    );
    world.restart();
    world.label_namespace(false);
    let jobs: Vec<Controller> = world.jobs.values().cloned().collect();
    world.list(&[("a", 4)], &jobs);
    world.settle();
    assert_eq!(
        (world.is_released("j"), told(&world)),
        (false, 1),
        "a new process does not repeat it"
    );
    world.label_namespace(true);
    world.settle();
    assert!(world.is_released("j"));
}

#[test]
fn a_job_costs_the_same_whatever_number_of_pods_it_will_have() {
    let nodes = [("a", 4), ("b", 4)];
    let mut world = World::new(&nodes);
    for n in 0..13 {
        let mut job = marked(&format!("flood-{n}"), 100_000, 1);
        job.suspension.as_mut().expect("it is marked").is_indexed = n % 2 == 0;
        world.submit_job(job);
    }
    world.settle();
    let blocked = world.blocked("flood-0");
    assert_eq!(
        (world.core.jobs.members.len(), blocked.0.as_str()),
        (13, "Unsatisfiable"),
        "{blocked:?}"
    );
    assert_eq!(world.record("flood-1").status.as_ref().map(|status| status.total), Some(100_000));
    let request = world
        .core
        .sight()
        .asking()
        .key(&PendingRequest::Start(*world.core.jobs.all.keys().next().expect("a job")));
    assert_eq!(request.slots.iter().map(|slot| slot.count).collect::<Vec<_>>(), [100_000]);
    world.succeed(&nodes);
    world.settle();
    assert_eq!(world.core.jobs.members.len(), 13);
    // One that can be placed has as many as it will have pods, and one again when it loses its
    // place.
    world.submit_job(marked("j", 8, 1));
    world.settle();
    assert_eq!((world.is_released("j"), world.core.jobs.members.len()), (true, 13 + 8));
    assert_eq!(world.placement_on_record("j").len(), 8);
    let mut small = marked("k", 2, 1);
    small.suspension.as_mut().expect("it is marked").is_indexed = true;
    world.submit_job(small);
    world.settle();
    assert_eq!((world.is_released("k"), world.core.jobs.members.len()), (false, 13 + 8 + 1));
    for pod in pods_of("j", 8, 1) {
        world.submit(pod);
    }
    world.settle();
    assert_eq!((world.bound(), world.core.jobs.members.len()), (8, 13 + 8 + 1));
}

#[test]
fn a_placement_that_is_withdrawn_leaves_one_stand_in() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.submit_job(marked("j", 6, 1));
    while world.records.is_empty() || world.placement_on_record("j").is_empty() {
        let actions = world.step();
        world.carry_out_all(
            actions.into_iter().filter(|action| {
                !matches!(action.kind, ActionKind::Write(Write::ReleaseJob { .. }))
            }),
        );
    }
    assert_eq!(world.core.jobs.members.len(), 6);
    world.tell(Event::NodeGone("a".into(), "uid-a".into()));
    world.settle();
    assert_eq!((world.is_released("j"), world.core.jobs.members.len()), (false, 1));
    world.tell(Event::Node(node("c", 8)));
    world.pass_seconds(40);
    world.settle();
    assert_eq!((world.is_released("j"), world.placement_on_record("j").len()), (true, 6));
}

#[test]
fn pods_that_ask_for_more_than_their_template_wait_first_at_their_jobs_place() {
    let mut world = World::new(&[("a", 4), ("b", 8)]);
    world.submit(pod("busy", 8));
    world.settle();
    assert_eq!(world.node_of("busy"), Some("b"));
    world.submit_job(marked("j", 1, 3));
    world.settle();
    assert!(world.is_released("j"));
    let queued_at = world.record("j").status.as_ref().and_then(|status| status.queued_at.clone());
    // Of two that come at the same moment, the name decides.
    world.pass_seconds(1);
    world.submit(pod("behind", 5));
    world.settle();
    world.pass_seconds(1);
    // A sidecar was injected: with it the pod does not fit on `a`.
    world.submit(pods_of("j", 1, 6).remove(0));
    world.settle();
    assert_eq!(world.bound(), 1);
    assert_eq!(
        world.record("j").status.as_ref().and_then(|status| status.queued_at.clone()),
        queued_at
    );
    world.delete("busy");
    world.settle();
    assert_eq!(world.node_of("j-pod-0"), Some("b"), "it goes before those who came later");
    assert_eq!(world.node_of("behind"), None);
}

#[test]
fn what_stand_ins_held_is_free_for_the_pods_first() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.submit_job(marked("j", 2, 1));
    world.settle();
    assert_eq!(world.placement_on_record("j"), ["a", "a"]);
    // Both do not fit on one node as they are.
    for pod in pods_of("j", 2, 3) {
        world.submit(pod);
    }
    world.submit(pod("later", 4));
    world.settle();
    assert_eq!((world.bound(), world.node_of("later")), (2, None));
    assert_ne!(world.node_of("j-pod-0"), world.node_of("j-pod-1"));
}

#[test]
fn a_place_is_held_for_so_long_and_no_longer() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_job(marked("j", 2, 2));
    world.settle();
    assert!(world.is_released("j"));
    world.submit(pods_of("j", 2, 2).remove(0));
    world.submit(pod("next", 4));
    world.pass_seconds(59);
    world.settle();
    assert_eq!(world.bound(), 0);
    world.pass_seconds(2);
    world.settle();
    assert_eq!(world.node_of("next"), Some("a"));
    assert_eq!(world.blocked("j").0, "Incomplete");
    assert!(world.placement_on_record("j").is_empty());
    world.submit(pods_of("j", 2, 2).remove(1));
    world.settle();
    assert_eq!(world.bound(), 1);
    world.delete("next");
    world.settle();
    assert_eq!(world.bound(), 2, "they start together as any other gang");
}

#[test]
fn a_place_is_held_no_longer_when_the_clock_is_set_back() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_job(marked("j", 2, 2));
    world.settle();
    world.submit(pod("next", 4));
    world.tell(Event::ClockOffset(-3_600_000_000));
    world.pass_seconds(61);
    world.settle();
    assert_eq!(world.node_of("next"), Some("a"));
}

#[test]
fn a_job_that_was_let_go_past_us_is_suspended_again_and_its_pods_do_not_start() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("busy", 4));
    world.settle();
    world.submit_job(marked("j", 1, 3));
    world.settle();
    world.change_job("j", |job| {
        if let Some(SuspensionPhase::Marked { is_suspended, .. }) =
            job.suspension.as_mut().map(|it| &mut it.phase)
        {
            *is_suspended = false;
        }
    });
    world.submit(pods_of("j", 1, 1).remove(0));
    world.submit(pod("small", 1));
    world.delete("busy");
    let actions = world.step();
    let suspends =
        |action: &Action| matches!(action.kind, ActionKind::Write(Write::SuspendJob { .. }));
    assert_eq!(actions.iter().filter(|action| suspends(action)).count(), 1);
    world.carry_out_all(actions);
    // Its controller takes the pod back.
    world.delete("j-pod-0");
    world.pass_seconds(1);
    world.settle();
    let suspension = world.jobs["j"].suspension.clone().expect("it was suspended");
    assert!(
        matches!(suspension.phase, SuspensionPhase::Released { .. }),
        "in its turn: {suspension:?}"
    );
    assert_eq!(world.bindings.iter().filter(|(pod, _)| pod.starts_with("j-")).count(), 0);
}

#[test]
fn the_release_is_asked_for_until_it_is_known_to_have_happened() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_job(marked("j", 1, 3));
    let release = loop {
        let mut actions = world.step();
        if let Some(at) = actions
            .iter()
            .position(|action| matches!(action.kind, ActionKind::Write(Write::ReleaseJob { .. })))
        {
            break actions.remove(at);
        }
        world.carry_out_all(actions);
    };
    // Meanwhile a client has labelled the Job.
    world.change_job("j", |_| {});
    world.carry_out(release);
    world.settle();
    assert!(!world.is_released("j"));
    for _ in 0..40 {
        world.now = world.now.plus_millis(100);
        for action in world.step() {
            if matches!(action.kind, ActionKind::Write(Write::ReleaseJob { .. })) {
                let failed = WriteOutcome::Failed("403: not allowed".to_owned());
                world.tell(Event::Done(action.id, Outcome::Write(failed)));
            } else {
                world.carry_out(action);
            }
        }
    }
    assert_eq!(
        world.blocked("j"),
        ("BindFailed".to_owned(), "its Job cannot be released: 403: not allowed".to_owned())
    );
    for _ in 0..10 {
        world.pass_seconds(5);
        world.settle();
    }
    assert!(world.is_released("j"));
    assert_eq!(world.state("j"), Some(JobState::Starting));
    assert!(world.blockers("j").is_empty());
}

#[test]
fn a_release_whose_answer_got_lost_is_seen() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_job(marked("j", 1, 3));
    for _ in 0..10 {
        for action in world.step() {
            if let ActionKind::Write(Write::ReleaseJob { job, resource_version, at }) = action.kind
            {
                let at = Some(at);
                assert!(matches!(
                    world.write_job(&job, resource_version.as_deref(), at),
                    WriteOutcome::Written(_)
                ));
                let lost = WriteOutcome::Failed("no answer".to_owned());
                world.tell(Event::Done(action.id, Outcome::Write(lost)));
            } else {
                world.carry_out(action);
            }
        }
    }
    world.submit(pods_of("j", 1, 3).remove(0));
    world.settle();
    assert_eq!(world.node_of("j-pod-0"), Some("a"));
}

#[test]
fn a_successor_releases_what_was_placed_and_holds_what_was_released_for_what_is_left() {
    let nodes = [("a", 4), ("b", 4)];
    let mut world = World::new(&nodes);
    world.submit_job(marked("j", 2, 3));
    // Dies when the placement is on record, and before the release is sent.
    while world.records.is_empty() || world.placement_on_record("j").is_empty() {
        let actions = world.step();
        world.carry_out_all(actions);
    }
    world.succeed(&nodes);
    world.submit(pod("rival", 3));
    world.settle();
    assert!(world.is_released("j"));
    assert_eq!(world.placement_on_record("j"), ["a", "b"]);
    assert_eq!(world.node_of("rival"), None, "the place is taken");
    world.pass_seconds(50);
    world.submit(pods_of("j", 2, 3).remove(0));
    world.settle();
    world.succeed(&nodes);
    world.settle();
    assert_eq!(world.bound(), 0, "the place is held");
    world.submit(pods_of("j", 2, 3).remove(1));
    world.settle();
    assert_eq!((world.node_of("j-pod-0"), world.node_of("j-pod-1")), (Some("a"), Some("b")));

    let mut world = World::new(&nodes);
    world.submit_job(marked("j", 2, 3));
    world.settle();
    world.submit(pod("rival", 3));
    world.pass_seconds(50);
    world.succeed(&nodes);
    world.settle();
    assert_eq!(world.bound(), 0);
    world.pass_seconds(11);
    world.settle();
    assert_eq!(world.bound(), 1, "time counts on from the release");
    assert!(world.placement_on_record("j").is_empty());
}
