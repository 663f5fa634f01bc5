//! Jobs that wait for the records of others: for a write without an answer they do so for 10 s at
//! most.

use super::promises::{lasting, reserved, starts};
use super::refused::{of_namespace, seconds_go_by_but, settle_but};
use super::*;
use crate::QueuePolicy;

/// "first" was promised the second node and starts on the first one; "next", of another namespace,
/// takes the room that "first" has left.
fn takes_what_another_has_left() -> (World, ObjectKey) {
    let mut world = super::promises::world(QueuePolicy::Easy);
    for (name, seconds) in [("a", 100), ("b", 40)] {
        assert!(starts(&mut world, lasting(name, 4, seconds)));
    }
    assert!(!starts(&mut world, lasting("first", 4, 60)));
    assert_eq!(reserved(&world, "first"), Some((Some(2040), "n2".to_owned())));
    world.pass_seconds(10);
    world.submit(of_namespace("other", lasting("next", 2, 500)));
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.change("b", |pod| pod.phase = Phase::Succeeded);
    let first = key_of(world.record("first"));
    (world, first)
}

/// Writes of this status have this outcome.
fn status_of<'a>(
    key: &'a ObjectKey,
    outcome: &'a WriteOutcome,
) -> impl Fn(&Action) -> Option<Outcome> + 'a {
    move |action| {
        status_written(action)
            .is_some_and(|(job, ..)| job.key == *key)
            .then(|| Outcome::Write(outcome.clone()))
    }
}

#[test]
fn a_write_without_an_answer_is_waited_for_by_others_for_ten_seconds() {
    let (mut world, first) = takes_what_another_has_left();
    let failed = WriteOutcome::Failed("no answer within 10000 ms".to_owned());
    settle_but(&mut world, status_of(&first, &failed));
    seconds_go_by_but(&mut world, 9, status_of(&first, &failed));
    assert_eq!(world.node_of("next"), None);
    // Also a pod that comes meanwhile to the other half of the node.
    world.submit(of_namespace("other", lasting("later", 2, 500)));
    seconds_go_by_but(&mut world, 2, status_of(&first, &failed));
    assert_eq!((world.node_of("next"), world.node_of("later")), (Some("n2"), Some("n2")));
    assert_eq!(world.core.gauges().records_given_up, 1);
    assert!(world.notes.iter().any(|reason| reason == "RecordUnanswered"), "{:?}", world.notes);
}

#[test]
fn a_record_that_is_refused_is_not_waited_for_by_another_namespace() {
    for outcome in
        [WriteOutcome::Refused("403: no".to_owned()), WriteOutcome::Invalid("422: no".to_owned())]
    {
        let (mut world, first) = takes_what_another_has_left();
        settle_but(&mut world, status_of(&first, &outcome));
        assert_eq!(world.node_of("next"), Some("n2"), "{outcome:?}");
        assert!(world.core.gauges().records_given_up > 0);
    }
}

#[test]
fn a_record_that_can_be_written_is_waited_for() {
    let (mut world, first) = takes_what_another_has_left();
    let failed = WriteOutcome::Failed("no answer within 10000 ms".to_owned());
    settle_but(&mut world, status_of(&first, &failed));
    seconds_go_by_but(&mut world, 3, status_of(&first, &failed));
    assert_eq!(world.node_of("next"), None);
    world.pass_seconds(5);
    world.settle();
    assert_eq!((world.node_of("next"), world.core.gauges().records_given_up), (Some("n2"), 0));
}
