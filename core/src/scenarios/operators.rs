//! Pods of the common operators: each starts as docs/user-guide.md says, with group labels and
//! without.

use super::*;

/// A cluster with a scheduler that has been there for a while.
fn cluster(nodes: &[(&str, u64)]) -> World {
    let mut world = World::new(nodes);
    world.settle();
    world
}

/// The object of an operator that makes pods itself, or the object that makes them for it.
fn owner(kind: OwnerKind, api_version: &str, name: &str) -> Owner {
    let (name, uid) = (Arc::from(name), Uid::from(format!("uid-{name}")));
    Owner { kind, name, uid, api_version: Arc::from(api_version) }
}

/// A pod that the operator of this kind has made itself.
fn made_by(pod: Pod, kind: &str, api_version: &str, name: &str) -> Pod {
    Pod { owner: Some(owner(OwnerKind::Other(Arc::from(kind)), api_version, name)), ..pod }
}

fn of_set(pod: Pod, set: &str) -> Pod {
    Pod { owner: Some(owner(OwnerKind::StatefulSet, "apps/v1", set)), ..pod }
}

/// A StatefulSet that makes its pods all at once.
fn stateful_set(name: &str, replicas: u32) -> Controller {
    Controller { kind: OwnerKind::StatefulSet, completions: None, ..job(name, replicas, replicas) }
}

fn submit_all(world: &mut World, pods: impl IntoIterator<Item = Pod>) {
    pods.into_iter().for_each(|pod| world.submit(pod));
    world.settle();
}

/// Which workloads have a FluxJob: kind and name, and how many pods each has seen.
fn recorded(world: &World) -> Vec<(String, String)> {
    let of = |record: &FluxJob| {
        (format!("{:?}", record.spec.workload_ref.kind), record.spec.workload_ref.name.clone())
    };
    let mut all: Vec<_> = world.records.values().map(of).collect();
    all.sort();
    all
}

fn names(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
}

#[test]
fn each_job_of_a_job_set_is_a_gang() {
    let mut world = cluster(&[("n0", 3)]);
    for name in ["set-a-0", "set-b-0"] {
        let of_set =
            owner(OwnerKind::Other(Arc::from("JobSet")), "jobset.x-k8s.io/v1alpha2", "set");
        world.tell(Event::Controller(Arc::new(Controller {
            owner: Some(of_set),
            ..job(name, 2, 2)
        })));
    }
    let pods = [("a0", "set-a-0"), ("a1", "set-a-0"), ("b0", "set-b-0"), ("b1", "set-b-0")];
    submit_all(&mut world, pods.map(|(name, of)| of_job(pod(name, 1), of)));
    assert_eq!(recorded(&world), names(&[("Job", "set-a-0"), ("Job", "set-b-0")]));
    assert_eq!(world.bound(), 2, "there is room for one of the Jobs");
}

#[test]
fn a_job_set_with_group_labels_starts_as_a_whole() {
    let mut world = cluster(&[("n0", 3)]);
    for name in ["set-a-0", "set-b-0"] {
        world.tell(Event::Controller(Arc::new(job(name, 2, 2))));
    }
    let pods = [("a0", "set-a-0"), ("a1", "set-a-0"), ("b0", "set-b-0"), ("b1", "set-b-0")];
    submit_all(&mut world, pods.map(|(name, of)| of_group(of_job(pod(name, 1), of), "set", Ok(4))));
    assert_eq!((recorded(&world), world.bound()), (names(&[("Group", "set")]), 0));
    world.tell(Event::Node(node("n1", 1)));
    world.settle();
    assert_eq!(world.bound(), 4);
}

/// `startupPolicy: InOrder`: the second Job is made when the first one is ready.
#[test]
fn a_job_set_that_is_made_in_order_does_not_wait_for_what_cannot_come() {
    let mut world = cluster(&[("n0", 4)]);
    world.tell(Event::Controller(Arc::new(job("set-a-0", 2, 2))));
    submit_all(
        &mut world,
        ["a0", "a1"].map(|name| of_group(of_job(pod(name, 1), "set-a-0"), "set", Ok(4))),
    );
    assert_eq!(world.bound(), 0, "others may be on their way");
    world.pass_seconds(4);
    world.settle();
    assert_eq!(world.bound(), 2);
    world.tell(Event::Controller(Arc::new(job("set-b-0", 2, 2))));
    submit_all(
        &mut world,
        ["b0", "b1"].map(|name| of_group(of_job(pod(name, 1), "set-b-0"), "set", Ok(4))),
    );
    assert_eq!(world.bound(), 4);
}

#[test]
fn the_pods_of_a_leader_worker_set_start_one_by_one() {
    let mut world = cluster(&[("n0", 2)]);
    for (name, replicas) in [("lws", 1), ("lws-0", 2)] {
        world.tell(Event::Controller(Arc::new(stateful_set(name, replicas))));
    }
    submit_all(
        &mut world,
        [("lws-0", "lws"), ("lws-0-1", "lws-0"), ("lws-0-2", "lws-0")]
            .map(|(name, of)| of_set(pod(name, 1), of)),
    );
    assert_eq!(recorded(&world), names(&[("StatefulSet", "lws"), ("StatefulSet", "lws-0")]));
    assert_eq!(world.bound(), 2);
}

#[test]
fn a_leader_worker_set_of_one_replica_with_group_labels_starts_as_a_whole() {
    let mut world = cluster(&[("n0", 2)]);
    for (name, replicas) in [("lws", 1), ("lws-0", 2)] {
        world.tell(Event::Controller(Arc::new(stateful_set(name, replicas))));
    }
    let pods = [("lws-0", "lws"), ("lws-0-1", "lws-0"), ("lws-0-2", "lws-0")];
    submit_all(&mut world, pods.map(|(name, of)| of_group(of_set(pod(name, 1), of), "lws", Ok(3))));
    assert_eq!((recorded(&world), world.bound()), (names(&[("Group", "lws")]), 0));
    world.tell(Event::Node(node("n1", 1)));
    world.settle();
    assert_eq!(world.bound(), 3);
}

/// The workers of an MPIJob are bare pods of its, the launcher is a Job.
fn mpi_job(world: &mut World, label: impl Fn(Pod) -> Pod) {
    world.tell(Event::Controller(Arc::new(job("mpi-launcher", 1, 1))));
    let worker = |name: &str| made_by(pod(name, 1), "MPIJob", "kubeflow.org/v2beta1", "mpi");
    submit_all(
        world,
        [worker("w0"), worker("w1"), of_job(pod("launcher", 1), "mpi-launcher")].map(label),
    );
}

#[test]
fn the_pods_of_an_mpi_job_start_one_by_one_without_group_labels_and_together_with_them() {
    let mut world = cluster(&[("n0", 2)]);
    mpi_job(&mut world, |pod| pod);
    assert_eq!(recorded(&world), names(&[("Job", "mpi-launcher"), ("Pod", "w0"), ("Pod", "w1")]));
    assert_eq!(world.bound(), 2);

    let mut world = cluster(&[("n0", 2)]);
    mpi_job(&mut world, |pod| of_group(pod, "mpi", Ok(3)));
    world.pass_seconds(10);
    world.settle();
    assert_eq!((recorded(&world), world.bound()), (names(&[("Group", "mpi")]), 0));
    world.tell(Event::Node(node("n1", 1)));
    world.settle();
    assert_eq!(world.bound(), 3);
}

#[test]
fn the_pods_of_a_ray_cluster_start_one_by_one_without_group_labels_and_together_with_them() {
    let of_cluster = |name: &str| made_by(pod(name, 1), "RayCluster", "ray.io/v1", "ray");
    let mut world = cluster(&[("n0", 1)]);
    submit_all(&mut world, ["head", "w0"].map(of_cluster));
    assert_eq!((recorded(&world), world.bound()), (names(&[("Pod", "head"), ("Pod", "w0")]), 1));

    let mut world = cluster(&[("n0", 2)]);
    submit_all(
        &mut world,
        ["head", "w0", "w1"].map(|name| of_group(of_cluster(name), "ray", Ok(3))),
    );
    assert_eq!((recorded(&world), world.bound()), (names(&[("Group", "ray")]), 0));
    world.tell(Event::Node(node("n1", 2)));
    world.settle();
    assert_eq!(world.bound(), 3);
    // One that an autoscaler adds later starts by itself.
    submit_all(&mut world, [of_group(of_cluster("w2"), "ray", Ok(3))]);
    assert_eq!(world.bound(), 4);
}

/// With its owner the API server removes the FluxJob, and another one would go the same way while
/// the pods take their time.
#[test]
fn a_ray_cluster_that_is_deleted_has_no_further_flux_job() {
    let mut world = cluster(&[("n0", 2)]);
    let of_cluster = |name: &str| made_by(pod(name, 1), "RayCluster", "ray.io/v1", "ray");
    submit_all(&mut world, ["head", "w0"].map(|name| of_group(of_cluster(name), "ray", Ok(2))));
    assert_eq!((recorded(&world), world.bound()), (names(&[("Group", "ray")]), 2));
    for name in ["head", "w0"] {
        world.change(name, |pod| pod.deleting = true);
    }
    world.delete_record("ray");
    world.pass_seconds(5);
    world.settle();
    assert_eq!(recorded(&world), []);
}

/// A LeaderWorkerSet of one replica with group labels: a set for its leader, and one for its two
/// workers, which is made with the leader. Everything that is made again has another number.
fn workers_of(lws: &str, number: u32) -> Controller {
    let mut set = stateful_set(&format!("{lws}-0"), 2);
    set.id.uid = Uid::from(format!("uid-{lws}-0-{number}"));
    Controller { group: Some(GroupLabels { name: Arc::from(lws), size: Ok(3) }), ..set }
}

fn leader(lws: &str, number: u32) -> Pod {
    of_group(of_set(pod(&format!("{lws}-leader-{number}"), 2), lws), lws, Ok(3))
}

fn worker(lws: &str, number: u32, at: u32) -> Pod {
    let mut pod = of_set(pod(&format!("{lws}-worker-{number}-{at}"), 2), &format!("{lws}-0"));
    pod.owner.as_mut().expect("its set").uid = Uid::from(format!("uid-{lws}-0-{number}"));
    of_group(pod, lws, Ok(3))
}

fn submit_replica(world: &mut World, lws: &str) {
    let group = Some(GroupLabels { name: Arc::from(lws), size: Ok(3) });
    world.tell(Event::Controller(Arc::new(Controller { group, ..stateful_set(lws, 1) })));
    world.submit(leader(lws, 1));
    world.tell(Event::Controller(Arc::new(workers_of(lws, 1))));
    submit_all(world, [1, 2].map(|at| worker(lws, 1, at)));
}

/// The leader of a replica is evicted: the next one comes at once, and the workers, which stop for
/// 20 s, are made again some seconds after they have gone.
fn evict_leader(
    world: &mut World,
    lws: &str,
    operator_takes_secs: i64,
    is_in_between: impl Fn(&World),
) {
    world.change(&format!("{lws}-leader-1"), |pod| pod.deleting = true);
    world.delete(&format!("{lws}-leader-1"));
    world.tell(Event::Controller(Arc::new(Controller { deleting: true, ..workers_of(lws, 1) })));
    let old = [1, 2].map(|at| format!("{lws}-worker-1-{at}"));
    for name in &old {
        world.change(name, |pod| pod.deleting = true);
    }
    world.submit(leader(lws, 2));
    let pass = |world: &mut World, seconds: i64| {
        for _ in 0..seconds {
            world.pass_seconds(1);
            world.settle();
            is_in_between(world);
        }
    };
    pass(world, 20);
    for name in &old {
        world.delete(name);
    }
    world.tell(Event::ControllerGone(workers_of(lws, 1).id.uid));
    pass(world, operator_takes_secs);
    world.tell(Event::Controller(Arc::new(workers_of(lws, 2))));
    [1, 2].map(|at| worker(lws, 2, at)).into_iter().for_each(|pod| world.submit(pod));
    pass(world, 30);
}

fn of_replica_on_nodes(world: &World, lws: &str, number: u32) -> usize {
    let is_of = |name: &String| {
        name.starts_with(&format!("{lws}-leader-{number}"))
            || name.starts_with(&format!("{lws}-worker-{number}-"))
    };
    world.pods.iter().filter(|(name, pod)| is_of(name) && pod.node.is_some()).count()
}

/// There is room for one replica and one pod more. However long the operator takes, within the time
/// that it is given, a replica starts whole or not at all.
#[test]
fn a_replica_whose_leader_was_evicted_starts_whole_or_another_one_does() {
    for (group_grace_secs, operator_takes_secs) in [(3, 1), (60, 30)] {
        let told = CoreSettings { group_grace_secs, ..settings() };
        let nodes = [("n0", 2), ("n1", 2), ("n2", 2), ("n3", 2)];
        let mut world = World::told(told, FunctionTable::builtin(), &nodes);
        world.settle();
        submit_replica(&mut world, "a");
        submit_replica(&mut world, "b");
        let on_nodes = |world: &World| {
            ["a", "b"].map(|lws| of_replica_on_nodes(world, lws, if lws == "a" { 2 } else { 1 }))
        };
        assert_eq!((of_replica_on_nodes(&world, "a", 1), on_nodes(&world)), (3, [0, 0]));
        evict_leader(&mut world, "a", operator_takes_secs, |world| {
            assert!(
                on_nodes(world).iter().all(|pods| [0, 3].contains(pods)),
                "{:?}",
                on_nodes(world)
            );
        });
        assert_eq!(on_nodes(&world).iter().sum::<usize>(), 3, "one of them runs");
    }
}
