//! ResourceQuotas that leave too little for the pods of a Job that waits without pods.

use fluxqueue_workload::{Left, Quota};

use super::stand_ins::{marked, pods_of};
use super::*;

impl World {
    /// Sets a quota of the namespace of all jobs, which leaves this number of cores.
    fn quota(&mut self, uid: &str, cores: u64) {
        let id = ObjectRef { key: ObjectKey::new("ns", "team"), uid: Uid::from(uid) };
        let left =
            Left { name: "requests.cpu".into(), resource: "cpu".into(), amount: 1000 * cores };
        self.tell(Event::Quota(Arc::new(Quota { id, left: vec![left] })));
    }
}

#[test]
fn a_job_whose_pods_a_quota_would_refuse_is_not_released_and_holds_no_nodes() {
    let mut world = World::new(&[("a", 8)]);
    world.quota("1", 4);
    world.submit_job(marked("large", 6, 1));
    world.submit_job(marked("small", 4, 1));
    world.settle();
    let text = "resourcequota team leaves 4 of requests.cpu, and its pods ask for 6";
    assert_eq!(world.blocked("large"), ("QuotaExceeded".to_owned(), text.to_owned()));
    assert!(
        !world.is_released("large") && world.is_released("small"),
        "{:?}",
        world.record("small").status
    );
    // Others have the nodes meanwhile.
    world.submit(pod("other", 4));
    world.settle();
    assert_eq!(world.node_of("other"), Some("a"));
    for pod in pods_of("small", 4, 1) {
        world.submit(pod);
    }
    world.quota("1", 0);
    world.settle();
    assert_eq!(world.bound(), 5);
    world.delete("other");
    world.quota("1", 5);
    world.settle();
    assert!(!world.is_released("large"));
    let small: Vec<String> = world.pods.keys().cloned().collect();
    for name in &small {
        world.delete(name);
    }
    world.quota("1", 6);
    world.pass_seconds(5);
    world.settle();
    assert!(world.is_released("large"), "{:?}", world.record("large").status);
}

#[test]
fn jobs_that_a_quota_leaves_room_for_one_by_one_are_released_one_by_one() {
    let mut world = World::new(&[("a", 8)]);
    world.quota("1", 6);
    for name in ["first", "second"] {
        world.submit_job(marked(name, 4, 1));
    }
    world.settle();
    assert!(world.is_released("first") && !world.is_released("second"));
    let text = "resourcequota team leaves 6 of requests.cpu, and its pods ask for 4 beside those of Jobs that were just released";
    assert_eq!(world.blocked("second"), ("QuotaExceeded".to_owned(), text.to_owned()));
    for pod in pods_of("first", 4, 1) {
        world.submit(pod);
    }
    world.settle();
    assert_eq!(world.bound(), 4);
    // The quota's update is late.
    world.pass_seconds(1);
    world.settle();
    assert!(!world.is_released("second"));
    world.quota("1", 2);
    for _ in 0..20 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(
        (world.is_released("second"), world.blocked("second").0.as_str()),
        (false, "QuotaExceeded")
    );
    assert_eq!(world.core.gauges().releases_failed, 0);
    world.tell(Event::QuotaGone(ObjectRef {
        key: ObjectKey::new("ns", "team"),
        uid: Uid::from("1"),
    }));
    world.settle();
    assert!(world.is_released("second"), "{:?}", world.record("second").status);
}

#[test]
fn a_job_that_its_quota_lets_go_beside_another_is_released_though_the_quota_says_nothing_more() {
    let mut world = World::new(&[("a", 8)]);
    world.quota("1", 6);
    for name in ["first", "second"] {
        world.submit_job(marked(name, 4, 1));
    }
    world.settle();
    assert!(world.is_released("first") && !world.is_released("second"));
    // The first is deleted before it has any pods: the quota's numbers stay as they were.
    let gone = world.jobs.remove("first").expect("it is there");
    world.tell(Event::ControllerGone(gone.id.uid));
    for _ in 0..61 {
        world.pass_seconds(1);
        world.settle();
    }
    assert!(world.is_released("second"), "{:?}", world.record("second").status);
}

#[test]
fn pods_that_are_there_are_not_kept_by_a_quota() {
    let mut world = World::new(&[("a", 8)]);
    world.quota("1", 0);
    world.submit_gang(2);
    world.submit(pod("alone", 1));
    world.settle();
    assert_eq!(world.bound(), 3);
}
