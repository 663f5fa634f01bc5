//! What PodGroups and Workloads say of walltimes and queues.

use super::scheduling_groups::{group, of_g};
use super::*;
use fluxqueue_api::{ConditionType, conditions, names};
use fluxqueue_workload::pod_group::{GroupPolicy, GroupWorkload, PodGroup, Terms};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

#[test]
fn a_walltime_of_a_group_or_workload_that_cannot_be_read_is_told_with_the_object_and_the_field() {
    let annotations = json!({names::WALLTIME: "\u{7f}".repeat(5_440)});
    let metadata = |name: &str| -> ObjectMeta {
        let metadata =
            json!({"name": name, "namespace": "ns", "uid": name, "annotations": annotations});
        serde_json::from_value(metadata).unwrap()
    };
    let workload = || Arc::new(GroupWorkload::from_metadata(&metadata("w")).unwrap());
    let terms = || workload().terms.clone();
    let warning = |world: &World, job: &str| {
        let status = world.record(job).status.clone().expect("a status");
        let found = conditions::of_type(&status.conditions, ConditionType::InvalidWalltime);
        found.map(|condition| condition.message.clone())
    };
    for policy in [GroupPolicy::Basic, GroupPolicy::Gang(1)] {
        for is_of_workload in [false, true] {
            let mut world = World::new(&[("a", 4)]);
            let named = Some(Arc::from("w"));
            let (named, terms, said) = if is_of_workload {
                (
                    named,
                    Terms::default(),
                    "Workload ns/w: metadata.annotations[fluxqueue/walltime]: ",
                )
            } else {
                (None, terms(), "PodGroup ns/g: metadata.annotations[fluxqueue/walltime]: ")
            };
            world.tell_group(PodGroup { workload: named, terms, ..group("g", policy) });
            world.submit(of_g("p0", 1));
            world.settle();
            world.tell(Event::Workload(workload()));
            world.settle();
            let job = if policy == GroupPolicy::Basic { "p0" } else { "g" };
            let text = warning(&world, job).expect("a warning");
            assert!(text.starts_with(said), "{text}");
            assert!(text.contains("more bytes) is not a duration") && text.len() < 500, "{text}");
            assert_eq!(world.bound(), 1, "it starts all the same");
            assert_eq!(world.texts.iter().filter(|told| **told == text).count(), 1);
            world.tell_group(PodGroup { terms: Terms::default(), ..group("g", policy) });
            world.settle();
            assert_eq!(warning(&world, job), None, "it was mended");
        }
    }
}

#[test]
fn what_a_group_or_workload_said_of_a_running_pod_stays_when_it_goes_or_is_made_again() {
    let terms = |seconds| Terms { walltime: Some(Ok(Lifetime::Seconds(seconds))), queue: None };
    let workload = |uid: &str, created, seconds| {
        let id = ObjectRef { key: ObjectKey::new("ns", "w"), uid: Uid::from(uid) };
        GroupWorkload { id, created, terms: terms(seconds) }
    };
    let walltime = |world: &World, job: &str| {
        world.record(job).status.clone().expect("a status").walltime_seconds
    };
    for policy in [GroupPolicy::Basic, GroupPolicy::Gang(1)] {
        let job = if policy == GroupPolicy::Basic { "p0" } else { "g" };
        for is_of_workload in [false, true] {
            let made = |uid: &str, created, seconds| {
                let mut made = PodGroup { created, ..group("g", policy) };
                made.id.uid = Uid::from(uid);
                if is_of_workload {
                    (made.workload, made.id.uid) = (Some(Arc::from("w")), Uid::from("g"));
                    (Event::Workload(Arc::new(workload(uid, created, seconds))), made)
                } else {
                    made.terms = terms(seconds);
                    (Event::PodGroup(Arc::new(made.clone())), made)
                }
            };
            let mut world = World::new(&[("a", 4)]);
            let (first, of_first) = made("first", Time::default(), 1000);
            world.tell_group(of_first.clone());
            world.tell(first);
            world.submit(of_g("p0", 1));
            world.settle();
            let begin = world.now;
            world.change("p0", |pod| (pod.phase, pod.started) = (Phase::Running, Some(begin)));
            world.settle();
            assert_eq!(walltime(&world, job), Some(1000));
            let gone = |world: &mut World| {
                let goes = if is_of_workload {
                    Event::WorkloadGone(workload("first", begin, 0).id)
                } else {
                    Event::PodGroupGone(of_first.id.clone())
                };
                world.tell(goes);
                world.look_ahead();
            };
            let (again, of_again) = made("again", begin.plus_secs(1), 10);
            let (edited, _) = made("first", Time::default(), 500);
            // It is gone.
            gone(&mut world);
            assert_eq!(walltime(&world, job), Some(1000), "{policy:?} {is_of_workload}");
            // It is made again, which says something of the pods that come.
            world.tell_group(of_again);
            world.tell(again);
            world.look_ahead();
            assert_eq!(walltime(&world, job), Some(1000), "{policy:?} {is_of_workload}");
            // The first one is there after all, and is edited.
            world.tell(edited);
            world.look_ahead();
            assert_eq!(walltime(&world, job), Some(500), "{policy:?} {is_of_workload}");
        }
    }
}
