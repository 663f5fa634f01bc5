//! What an event costs does not depend on how much else there is. Counted, not timed: jobs that are
//! looked at, requests that are tried.

use fluxqueue_workload::constraints::{NodeSelectorTerm, Operator, Requirement};

use super::*;

/// What one event led to: jobs looked at, and requests of pods that found no room.
#[derive(Debug, PartialEq)]
struct Work {
    looked_at: u64,
    tried: u64,
}

/// Nodes `n0`, `n1`, ..., each with a running gang of one pod on it, and as many gangs and groups
/// of two that wait for them, each of a shape of its own.
fn full(size: u64) -> World {
    let names: Vec<String> = (0..size).map(|at| format!("n{at}")).collect();
    let nodes: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 4)).collect();
    let mut world = World::new(&nodes);
    for at in 0..size {
        let name = format!("runs{at}");
        world.tell(Event::Controller(Arc::new(job(&name, 1, 1))));
        world.submit(of_job(on(&name, at, 4), &name));
    }
    world.settle();
    for at in 0..size {
        // The first waits for two nodes, of which the second group wants one too.
        let nodes = [at, (at + 1) % size];
        let (waits, group) = (format!("waits{at}"), format!("group{at}"));
        world.tell(Event::Controller(Arc::new(job(&waits, 2, 2))));
        for rank in 0..2 {
            world.submit(of_job(on_one_of(&format!("{waits}-{rank}"), 4, &nodes), &waits));
        }
        world.settle();
        world.pass_seconds(1);
        for rank in 0..2 {
            world.submit(of_group(on_one_of(&format!("{group}-{rank}"), 3, &nodes), &group, Ok(2)));
        }
    }
    world.settle();
    world.pass_seconds(60);
    world.settle();
    world
}

/// A pod that may use only that node.
fn on(name: &str, node: u64, cores: u64) -> Pod {
    on_one_of(name, cores, &[node])
}

fn on_one_of(name: &str, cores: u64, nodes: &[u64]) -> Pod {
    let mut pod = pod(name, cores);
    let values = nodes.iter().map(|node| format!("n{node}").into()).collect();
    let hosts = Requirement { key: "metadata.name".into(), operator: Operator::In, values };
    let term = NodeSelectorTerm { labels: Vec::new(), fields: vec![hosts] };
    let constraints = Constraints { required: Some(vec![term]), ..Constraints::default() };
    pod.shape = Arc::new(Shape { requests: pod.shape.requests.clone(), constraints });
    pod
}

/// What this event costs, with all that follows from it.
fn cost(world: &mut World, event: impl FnOnce(&mut World)) -> Work {
    let count = |world: &World| {
        let gauges = world.core.gauges();
        let tried = gauges
            .attempts
            .iter()
            .map(|attempts| attempts.scheduled + attempts.unschedulable)
            .sum::<u64>();
        (gauges.jobs_looked_at, tried)
    };
    let before = count(world);
    event(world);
    world.settle();
    let after = count(world);
    Work { looked_at: after.0 - before.0, tried: after.1 - before.1 }
}

/// A pod ends, and then its Job says that it has seen that.
fn ends(world: &mut World, at: u64) -> Work {
    cost(world, |world| {
        world.change(&format!("runs{at}"), |pod| pod.phase = Phase::Succeeded);
        world.settle();
        let mut job = job(&format!("runs{at}"), 1, 1);
        (job.wants, job.succeeded, job.finished) = (0, 1, true);
        world.tell(Event::Controller(Arc::new(job)));
    })
}

#[test]
fn what_an_event_costs_does_not_grow_with_what_waits_and_runs() {
    let (mut small, mut large) = (full(8), full(32));
    let pairs = [
        ("a pod ends, nothing can start", ends(&mut small, 0), ends(&mut large, 0)),
        ("a pod ends, the head starts", ends(&mut small, 1), ends(&mut large, 1)),
        (
            "a node leaves",
            cost(&mut small, |world| world.tell(Event::NodeGone("n6".into(), "uid-n6".into()))),
            cost(&mut large, |world| world.tell(Event::NodeGone("n6".into(), "uid-n6".into()))),
        ),
        (
            "a node joins",
            cost(&mut small, |world| world.tell(Event::Node(node("n6", 4)))),
            cost(&mut large, |world| world.tell(Event::Node(node("n6", 4)))),
        ),
        (
            "a lone pod comes",
            cost(&mut small, |world| world.submit(on("lone", 7, 1))),
            cost(&mut large, |world| world.submit(on("lone", 7, 1))),
        ),
    ];
    assert_eq!(small.node_of("waits0-0"), Some("n0"));
    for (event, small, large) in pairs {
        assert_eq!(small, large, "{event}");
    }
}
