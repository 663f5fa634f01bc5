//! PodGroups that come, change and go while their pods wait.

use super::scheduling_groups::{gang, of_g};
use super::*;

#[test]
fn a_record_says_how_many_pods_its_group_needs_and_nothing_of_one_that_is_not_there() {
    let mut world = World::new(&[("a", 2)]);
    let min_count = |world: &World| {
        let status = world.record("g").status.clone().expect("a status");
        status.workload.expect("a workload").pod_sets[0].min_count
    };
    for name in ["p0", "p1", "p2"] {
        world.submit(of_g(name, 3));
    }
    world.settle();
    assert_eq!(min_count(&world), None);
    world.tell_group(gang(2));
    world.settle();
    assert_eq!(min_count(&world), Some(2));
    world.tell(Event::PodGroupGone(gang(2).id));
    world.settle();
    assert_eq!(min_count(&world), None, "a later process would know no more");
}
