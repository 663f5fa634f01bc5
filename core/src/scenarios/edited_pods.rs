//! Pods that are edited while they wait.

use super::scheduling_groups::named;
use super::topology;
use super::walls::{has_warning, seconds_go_by};
use super::*;

/// An edit of a waiting pod, by the name of the field.
type Edit = (&'static str, fn(&mut Pod));

/// Fields that a waiting pod is placed by, and the others. A field that is new in `Pod` has to be
/// put into one of the lists.
fn edits() -> (Vec<Edit>, Vec<Edit>) {
    let Pod {
        resource_version: _,
        id: _,
        scheduler: _,
        node: _,
        nominated: _,
        phase: _,
        deleting: _,
        gates: _,
        owner: _,
        group: _,
        scheduling_group: _,
        completion_index: _,
        priority: _,
        created: _,
        started: _,
        ended: _,
        labels: _,
        shape: _,
        levels: _,
        exclusive: _,
        claims: _,
        lifetime: _,
        states_lifetime: _,
        grace_secs: _,
        unsupported: _,
        soft_ignored: _,
        scheduled_condition: _,
        stands_in: _,
        charged_queue: _,
    } = pod("p", 1);
    let wishes: Vec<Edit> = vec![
        ("deleting", |pod| pod.deleting = true),
        ("gates", |pod| pod.gates = vec![Arc::from("example.com/gate")]),
        ("owner", |pod| *pod = of_job(pod.clone(), "unseen")),
        ("group", |pod| *pod = of_group(pod.clone(), "g", Ok(2))),
        ("scheduling_group", |pod| pod.scheduling_group = Some(named("g"))),
        ("completion_index", |pod| pod.completion_index = Some(3)),
        ("priority", |pod| pod.priority = 7),
        ("labels", |pod| pod.labels = super::neighbours::labels("edited")),
        ("shape", |pod| pod.shape = super::pod("q", 2).shape),
        ("levels", |pod| *pod = topology::in_one("rack", pod.clone())),
        ("exclusive", |pod| pod.exclusive = Some(true)),
        ("claims", |pod| pod.claims = super::storage::mounting(pod.clone(), &["data"]).claims),
        ("lifetime", |pod| pod.lifetime = Lifetime::Seconds(9)),
        ("states_lifetime", |pod| pod.states_lifetime = true),
        ("grace_secs", |pod| pod.grace_secs = 9),
        ("unsupported", |pod| {
            let (field, message) = ("spec.x".to_owned(), "is unknown".to_owned());
            pod.unsupported = vec![Unsupported { field, message }];
        }),
        ("soft_ignored", |pod| pod.soft_ignored = vec!["fluxqueue/preferred-level"]),
    ];
    let others: Vec<Edit> = vec![
        ("resource_version", |pod| pod.resource_version = Some(Arc::from("2"))),
        ("charged_queue", |pod| pod.charged_queue = Some(Arc::from("other"))),
        ("scheduled_condition", |pod| {
            let (reason, message) = ("Unschedulable".to_owned(), "edited".to_owned());
            pod.scheduled_condition =
                Some(ScheduledCondition { scheduled: false, reason, message });
        }),
    ];
    (wishes, others)
}

#[test]
fn each_field_of_a_waiting_pod_that_it_is_placed_by_counts_when_it_is_edited() {
    let looked_at = |edit: fn(&mut Pod)| {
        let mut world = World::new(&[("a", 1)]);
        world.submit(pod("runs", 1));
        world.submit(pod("p", 1));
        world.settle();
        let before = world.core.gauges().jobs_looked_at;
        world.change("p", edit);
        world.step();
        world.core.gauges().jobs_looked_at > before
    };
    let (wishes, others) = edits();
    for (field, edit) in wishes {
        assert!(looked_at(edit), "{field}");
    }
    for (field, edit) in others {
        assert!(!looked_at(edit), "{field}");
    }
}

#[test]
fn a_waiting_gang_whose_pods_ask_for_no_rack_any_more_starts() {
    let mut world = topology::racks(settings());
    topology::fill(&mut world, &["b1"]);
    topology::submit(&mut world, "j", 3, 2, |pod| topology::in_one("rack", pod));
    world.settle();
    assert_eq!(topology::racks_of(&world, "j"), "");
    for name in ["j0", "j1", "j2"] {
        world.change(name, |pod| pod.levels = None);
    }
    world.settle();
    assert_eq!(topology::racks_of(&world, "j").len(), 3);
}

#[test]
fn a_waiting_gang_whose_pods_ask_for_a_rack_now_is_placed_in_one() {
    let mut world = topology::racks(settings());
    topology::fill(&mut world, &["a1", "a2", "b1", "b2", "b3", "c1", "c2"]);
    topology::submit(&mut world, "j", 2, 2, |pod| pod);
    world.settle();
    for name in ["j0", "j1"] {
        world.change(name, |pod| *pod = topology::in_one("rack", pod.clone()));
    }
    world.settle();
    for node in ["a1", "b1"] {
        world.delete(&format!("on-{node}"));
    }
    world.settle();
    seconds_go_by(&mut world, 60);
    assert_eq!(topology::racks_of(&world, "j"), "", "the free nodes are in two racks");
    assert_eq!(
        world.core.gauges().placements_withdrawn,
        0,
        "no placement is made that cannot stand"
    );
}

#[test]
fn sizes_that_agree_after_an_edit_are_no_contradiction_any_more() {
    let mut world = World::new(&[("a", 1)]);
    for name in ["w0", "w1", "w2", "w3"] {
        let size = if name == "w0" { 6 } else { 4 };
        world.submit(of_group(pod(name, 1), "g", Ok(size)));
    }
    seconds_go_by(&mut world, 3);
    assert!(has_warning(&world, "g", "SizeContradiction"));
    world.change("w0", |pod| *pod = of_group(pod.clone(), "g", Ok(4)));
    seconds_go_by(&mut world, 1);
    assert!(!has_warning(&world, "g", "SizeContradiction"));
}

// --- Events ---
