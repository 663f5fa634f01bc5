//! Roles in a job, such as a launcher and its workers: rules about levels for each by itself, and
//! slices of the pods of one.

use std::collections::BTreeSet;

use fluxqueue_workload::levels::{LevelBound, LevelRule, RuleScope, Spread};

use super::topology::*;
use super::*;

const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";

fn labelled(labels: &[(&str, &str)], mut pod: Pod) -> Pod {
    let mut all: Vec<(Arc<str>, Arc<str>)> = pod.labels.to_vec();
    all.extend(labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))));
    all.sort();
    pod.labels = all.into();
    pod
}

fn rule(bound: LevelBound, of: RuleScope, pod: Pod) -> Pod {
    Pod { levels: Some(within(bound, "rack", of)), ..pod }
}

fn role_in_a_rack(pod: Pod) -> Pod {
    rule(LevelBound::Required, RuleScope::Role, pod)
}

/// How pods say which role they have.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Says {
    Label(&'static str),
    Owner,
    Nothing,
}

/// `x0`, `x1`, `y0`, `y1`: two roles of two pods that take a node each, in one group.
fn submit_two_roles(world: &mut World, says: Says, ask: impl Fn(Pod) -> Pod) {
    for role in ["x", "y"] {
        if says == Says::Owner {
            world.tell(Event::Controller(Arc::new(job(role, 2, 2))));
        }
        for at in 0..2 {
            let pod = of_group(pod(&format!("{role}{at}"), 2), "g", Ok(4));
            world.submit(ask(match says {
                Says::Label(label) => labelled(&[(label, role)], pod),
                Says::Owner => of_job(pod, role),
                Says::Nothing => pod,
            }));
        }
    }
    world.settle();
}

#[test]
fn roles_that_ask_for_the_same_are_each_in_a_rack() {
    let labels = [
        REPLICATED_JOB,
        "training.kubeflow.org/replica-type",
        "training.kubeflow.org/job-role",
        "ray.io/group",
    ];
    for says in labels.map(Says::Label).into_iter().chain([Says::Owner, Says::Nothing]) {
        let mut world = racks(settings());
        submit_two_roles(&mut world, says, role_in_a_rack);
        let racks = [racks_of(&world, "x"), racks_of(&world, "y")];
        if says == Says::Nothing {
            // They are one role of four, and no rack has four nodes.
            assert_eq!((world.state("g"), world.bound()), (Some(JobState::Unsatisfiable), 0));
        } else {
            let are_each_in_one = racks.iter().all(|racks| ["aa", "bb", "cc"].contains(&&**racks));
            assert!(are_each_in_one && racks[0] != racks[1], "{says:?}: {racks:?}");
        }
    }
}

#[test]
fn who_replaces_a_pod_is_where_its_role_is() {
    for restarts in [false, true] {
        let mut world = racks(settings());
        let says = Says::Label(REPLICATED_JOB);
        submit_two_roles(&mut world, says, role_in_a_rack);
        if restarts {
            world.restart();
            for (name, rack) in NODES {
                world.tell(node_in(name, rack));
            }
            world.list(&[], &[]);
            world.settle();
        }
        let rack = rack_of(&world, "y0").expect("it runs");
        let lost = world.node_of("y1").expect("it runs").to_owned();
        world.change("y1", |pod| pod.phase = Phase::Failed);
        fill(&mut world, &[&lost]);
        let pod = of_group(pod("y2", 2), "g", Ok(4));
        world.submit(role_in_a_rack(labelled(&[(REPLICATED_JOB, "y")], pod)));
        world.settle();
        assert_eq!(world.node_of("y2"), None, "the rack of its role is full");
        let message = &world.conditions["y2"].message;
        let text =
            format!("The rest of its job is in rack {rack}, which has no room for 1 pod more.");
        assert!(message.contains(&text), "{message}");
        world.change(&format!("on-{lost}"), |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert_eq!(rack_of(&world, "y2"), Some(rack));
    }
}

#[test]
fn who_replaces_a_pod_of_a_job_whose_pods_were_resized_is_where_they_are() {
    let mut world = racks(settings());
    submit(&mut world, "j", 2, 1, role_in_a_rack);
    world.settle();
    let rack = rack_of(&world, "j0").expect("it runs");
    for name in ["j0", "j1"] {
        world.change(name, |pod| {
            let requests: Resources = [("cpu", 2_000), ("pods", 1)].into_iter().collect();
            Arc::make_mut(&mut pod.shape).requests = requests;
        });
    }
    world.settle();
    let full: Vec<&str> =
        NODES.iter().filter(|(_, of)| of.starts_with(rack)).map(|(name, _)| *name).collect();
    fill(&mut world, &full);
    world.change("j1", |pod| pod.phase = Phase::Failed);
    world.submit(role_in_a_rack(of_job(pod("j2", 1), "j")));
    world.settle();
    assert_eq!(world.node_of("j2"), None, "there is room in other racks alone");
}

#[test]
fn a_spread_may_be_for_each_role() {
    for (of, starts) in [(RuleScope::Role, true), (RuleScope::Job, false)] {
        let mut world = racks(settings());
        let spread = LevelBound::Spread(Spread { max_per_part: Some(2), max_skew: None });
        for role in ["x", "y"] {
            for at in 0..4 {
                let pod = of_group(pod(&format!("{role}{at}"), 1), "g", Ok(8));
                world.submit(rule(spread, of.clone(), labelled(&[(REPLICATED_JOB, role)], pod)));
            }
        }
        world.settle();
        assert_eq!(world.bound() == 8, starts, "{of:?}");
        let most = |role: &str| {
            ['a', 'b', 'c']
                .map(|rack| racks_of(&world, role).matches(rack).count())
                .into_iter()
                .max()
        };
        assert!(most("x") <= Some(2) && most("y") <= Some(2), "{of:?}");
    }
}

/// Submits a JobSet with one replicated Job, with these numbers of Jobs and of pods of 1 core in
/// each, in slices: `w-0-0`, `w-0-1` and so on.
fn submit_job_set(world: &mut World, jobs: u32, pods: u32, slices: u32) {
    for at in 0..jobs {
        let name = format!("w-{at}");
        world.tell(Event::Controller(Arc::new(job(&name, pods, pods))));
        for index in 0..pods {
            world.submit(of_job_set(
                &name,
                at,
                index,
                (jobs * pods, slices),
                &format!("{name}-{index}"),
            ));
        }
    }
    world.settle();
}

fn of_job_set(job: &str, at: u32, index: u32, (pods, slices): (u32, u32), name: &str) -> Pod {
    let labels = [(REPLICATED_JOB, "w"), (JOB_INDEX, &*at.to_string())];
    let pod = of_group(of_job(labelled(&labels, pod(name, 1)), job), "set", Ok(pods));
    rule(
        LevelBound::Required,
        RuleScope::Slice(slices),
        Pod { completion_index: Some(index), ..pod },
    )
}

#[test]
fn slices_of_a_job_set_are_numbered_job_by_job() {
    // Jobs, pods of each, pods of a slice.
    for (jobs, pods, size) in [(4, 2, 2), (4, 2, 4), (2, 4, 2), (3, 2, 4)] {
        let mut world = racks(settings());
        submit_job_set(&mut world, jobs, pods, size);
        let names: Vec<String> = (0..jobs)
            .flat_map(|at| (0..pods).map(move |index| format!("w-{at}-{index}")))
            .collect();
        for slice in names.chunks(size as usize) {
            let racks: BTreeSet<Option<char>> =
                slice.iter().map(|name| rack_of(&world, name)).collect();
            assert!(
                racks.len() == 1 && !racks.contains(&None),
                "{jobs} Jobs of {pods}, {slice:?}: {racks:?}"
            );
        }
    }
}

#[test]
fn who_replaces_a_pod_of_a_job_set_is_where_its_slice_is() {
    let mut world = racks(settings());
    submit_job_set(&mut world, 4, 2, 2);
    let rack = rack_of(&world, "w-3-0").expect("it runs");
    world.change("w-3-1", |pod| pod.phase = Phase::Failed);
    world.submit(of_job_set("w-3", 3, 1, (8, 2), "w-3-1-again"));
    world.settle();
    assert_eq!(rack_of(&world, "w-3-1-again"), Some(rack));
}

#[test]
fn slices_go_by_the_numbers_of_pods_or_by_names() {
    // How pods are numbered; the pods of each of three slices.
    let by_label = [["p5", "p3"], ["p4", "p0"], ["p2", "p1"]];
    let by_name = [["p7", "p8"], ["p9", "p10"], ["p11", "p12"]];
    for (label, slices) in
        [(Some("training.kubeflow.org/replica-index"), by_label), (None, by_name)]
    {
        let mut world = racks(settings());
        fill(&mut world, &["b1"]);
        // Each pod has a node to itself.
        for (number, name) in slices.iter().flatten().enumerate() {
            let pod = of_group(pod(name, 2), "g", Ok(6));
            let number = number.to_string();
            let labels: Vec<(&str, &str)> = label.iter().map(|label| (*label, &*number)).collect();
            world.submit(rule(LevelBound::Required, RuleScope::Slice(2), labelled(&labels, pod)));
        }
        world.settle();
        for slice in slices {
            let racks = slice.map(|name| rack_of(&world, name));
            assert!(racks[0].is_some() && racks[0] == racks[1], "{label:?}, {slice:?}: {racks:?}");
        }
    }
}

#[test]
fn a_role_is_asked_for_by_the_object_that_makes_its_pods_as_well() {
    let mut world = racks(settings());
    let levels: Arc<[LevelRule]> = within(LevelBound::Required, "rack", RuleScope::Role);
    for role in ["x", "y"] {
        world.tell(Event::Controller(Arc::new(Controller {
            levels: Ok(Some(Arc::clone(&levels))),
            ..job(role, 2, 2)
        })));
        for at in 0..2 {
            world.submit(of_group(of_job(pod(&format!("{role}{at}"), 2), role), "g", Ok(4)));
        }
    }
    world.settle();
    assert_eq!(world.bound(), 4);
}
