//! Texts, names and shapes of any length and form, which tenants may write into objects: their
//! effect is bounded.

use fluxqueue_api::fluxjob::{POD_SETS_MAX, REQUESTS_MAX};
use fluxqueue_api::text::MESSAGE_BYTES_MAX;
use fluxqueue_api::{ConditionType, names};
use fluxqueue_workload::ShapeInterner;
use fluxqueue_workload::constraints::HostPort;
use serde_json::{Value, json};

use super::*;

/// The API server takes annotations of this many bytes in all.
const LONGEST: usize = 256 << 10;

/// What one pod or Job may cost in memory, as text, in bytes. With a label of any length that is
/// cut it is below.
const OBJECT_BYTES_MAX: usize = 8 << 10;

/// Annotations of pods and Jobs that are read.
const ANNOTATIONS: [&str; 17] = [
    names::WALLTIME,
    names::REQUIRED_LEVEL,
    names::PREFERRED_LEVEL,
    names::SPREAD_LEVEL,
    names::LEVEL_SCOPE,
    names::MAX_PER_PART,
    names::MAX_SKEW,
    names::SLICE_LEVEL,
    names::SLICE_SIZE,
    names::EXCLUSIVE,
    names::SUSPENDED,
    names::RELEASED_AT,
    "batch.kubernetes.io/job-completion-index",
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-group-name",
    "kueue.x-k8s.io/podset-slice-size",
];

/// Values of 256 KiB, and short ones that are odd: of labels, where these may have them.
fn hostile() -> Vec<String> {
    let odd = [
        "",
        "A__-.",
        "n-0.9",
        "default",
        "..",
        "-0",
        "9999999999999",
        "1e9999",
        "0.0000000001",
        "9223372036854775807",
    ];
    let long =
        ["\u{7f}", "x", "\"", "\n", "ü", "\u{202e}"].map(|text| text.repeat(LONGEST / text.len()));
    odd.map(str::to_owned).into_iter().chain(long).collect()
}

fn object(kind: &str, metadata: &Value) -> Value {
    let spec = json!({
        "schedulerName": "fluxqueue", "restartPolicy": "Never",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    });
    match kind {
        "Pod" => json!({"metadata": metadata, "spec": spec}),
        _ => {
            json!({"metadata": metadata, "spec": {"parallelism": 1, "completions": 1, "template": {"spec": spec}}})
        }
    }
}

/// Steps for some seconds; everything that is written on the way is within its bound.
fn settle_within_bounds(world: &mut World, of: &str) {
    let check = |text: &str| {
        assert!(
            text.len() <= MESSAGE_BYTES_MAX && !text.contains(char::is_control),
            "{of}: {text:?}"
        );
    };
    for _ in 0..60 {
        let actions = world.step();
        for action in &actions {
            match &action.kind {
                ActionKind::Note(note) => check(&note.note),
                ActionKind::Write(Write::SetPodScheduled { message, .. }) => check(message),
                ActionKind::Write(Write::CreateFluxJob { job, .. }) => {
                    assert!(serde_json::to_string(job).unwrap().len() < 4 << 10, "{of}: {job:?}");
                }
                ActionKind::Write(Write::WriteStatus { status, .. }) => {
                    status.conditions.iter().for_each(|condition| check(&condition.message));
                    status.blocked_by.iter().for_each(|blocker| check(&blocker.message));
                    assert!(
                        serde_json::to_string(&**status).unwrap().len() < 32 << 10,
                        "{of}: {status:?}"
                    );
                }
                _ => {}
            }
        }
        world.carry_out_all(actions);
        world.pass_seconds(1);
    }
}

#[test]
fn a_text_of_any_length_and_form_is_cut_where_it_is_read() {
    let labels = names::GROUP_LABELS
        .iter()
        .flat_map(|(name, size)| [*name, *size])
        .chain([names::QUEUE_NAME]);
    let places: Vec<(&str, &str)> = ANNOTATIONS
        .iter()
        .map(|name| ("annotations", *name))
        .chain(labels.map(|label| ("labels", label)))
        .collect();
    for (place, name) in places {
        let mut world = World::new(&[("a", 64)]);
        for (number, value) in hostile().into_iter().enumerate() {
            let of = format!("{place}[{name}] {number}");
            let group = names::GROUP_LABELS
                .iter()
                .find(|(label, _)| *label == name || name == names::QUEUE_NAME);
            let mut metadata = json!({"name": format!("p{number}"), "namespace": "ns", "uid": format!("u{number}")});
            // Half a pair says nothing.
            metadata["labels"] =
                group.map_or(json!({}), |(label, size)| json!({*label: "g", *size: "1"}));
            metadata[place][name] = value.into();
            let kube = serde_json::from_value(object("Pod", &metadata)).unwrap();
            let read = Pod::from_kubernetes(&kube, &mut ShapeInterner::new()).unwrap();
            assert!(
                format!("{read:?}").len() < OBJECT_BYTES_MAX,
                "{of}: {} bytes",
                format!("{read:?}").len()
            );
            world.submit(read);
            metadata["name"] = format!("j{number}").into();
            metadata["uid"] = format!("uid-j{number}").into();
            let kube = serde_json::from_value(object("Job", &metadata)).unwrap();
            let made_by = Controller::from_job(&kube, &mut ShapeInterner::new()).unwrap();
            assert!(
                format!("{made_by:?}").len() < 2 * OBJECT_BYTES_MAX,
                "{of}: {} bytes",
                format!("{made_by:?}").len()
            );
            world.tell(Event::Controller(Arc::new(made_by)));
            world.submit(of_job(pod(&format!("q{number}"), 1), &format!("j{number}")));
        }
        settle_within_bounds(&mut world, name);
        // What one pod said of itself keeps no other from its node.
        world.submit(pod("honest", 1));
        settle_within_bounds(&mut world, name);
        assert_eq!(world.node_of("honest"), Some("a"), "{place}[{name}]");
    }
}

#[test]
fn a_job_with_a_walltime_that_cannot_be_read_starts_and_says_so_in_few_words() {
    let mut world = World::new(&[("a", 8)]);
    let metadata = json!({"name": "j", "namespace": "ns", "uid": "uid-j", "annotations": {names::WALLTIME: "\u{7f}".repeat(5_440)}});
    let kube = serde_json::from_value(object("Job", &metadata)).unwrap();
    world.tell(Event::Controller(Arc::new(
        Controller::from_job(&kube, &mut ShapeInterner::new()).unwrap(),
    )));
    world.submit(of_job(pod("p0", 1), "j"));
    world.settle();
    assert_eq!(world.bound(), 1);
    let status = world.record("j").status.as_ref().unwrap();
    let warning =
        fluxqueue_api::conditions::of_type(&status.conditions, ConditionType::InvalidWalltime)
            .unwrap();
    assert!(warning.message.contains("more bytes) is not a duration"), "{}", warning.message);
}

/// A pod of the gang with its own request.
fn member(at: u64, of: usize) -> Pod {
    let mut one = pod(&format!("p{at}"), 0);
    let shape = Arc::make_mut(&mut one.shape);
    shape.requests.set("cpu", 1 + at);
    of_group(one, "g", Ok(u32::try_from(of).unwrap()))
}

#[test]
fn a_gang_of_more_shapes_than_its_record_holds_is_refused_and_takes_nothing() {
    for (shapes, is_refused) in [(POD_SETS_MAX, false), (POD_SETS_MAX + 1, true)] {
        let names: Vec<String> = (0..11).map(|at| format!("n{at}")).collect();
        let nodes: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 100)).collect();
        let mut world = World::new(&nodes);
        (0..shapes as u64).for_each(|at| world.submit(member(at, shapes)));
        world.settle();
        assert_eq!(world.bound() == 0, is_refused, "{shapes}");
        if is_refused {
            let (reason, message) = world.blocked("g");
            let expected = "its pods make 1025 different requests, and its FluxJob can hold 1024 (status.workload.podSets)";
            assert_eq!((&*reason, &*message), ("UnsupportedConstraint", expected));
            for name in &names {
                world.submit(pod(&format!("after-{name}"), 100));
            }
            world.settle();
            assert_eq!(world.bound(), nodes.len(), "all nodes are there for others");
            world.delete("p7");
            world.settle();
        }
    }
}

#[test]
fn a_gang_that_asks_for_more_resources_than_its_record_holds_is_refused_and_a_lone_pod_runs() {
    for (count, is_refused) in [(REQUESTS_MAX, false), (REQUESTS_MAX + 1, true)] {
        let mut world = World::new(&[]);
        let resources: Vec<String> = (1..count).map(|at| format!("example.com/{at:03}")).collect();
        for name in ["a", "b"] {
            let mut node = Node::clone(&node(name, 2));
            for resource in &resources {
                node.allocatable.set(resource.as_str(), 2);
            }
            world.tell(Event::Node(Arc::new(node)));
        }
        let asking = |name: &str| {
            let mut one = pod(name, 1);
            let shape = Arc::make_mut(&mut one.shape);
            for resource in &resources {
                shape.requests.set(resource.as_str(), 1);
            }
            one
        };
        for name in ["p0", "p1"] {
            world.submit(of_group(asking(name), "g", Ok(2)));
        }
        world.submit(asking("lone"));
        world.settle();
        assert_eq!(world.bound(), if is_refused { 1 } else { 3 }, "{count}");
        let recorded =
            world.record("lone").status.as_ref().unwrap().workload.as_ref().unwrap().pod_sets[0]
                .requests
                .clone();
        assert_eq!((recorded.len(), recorded.contains_key("cpu")), (REQUESTS_MAX, true));
        if is_refused {
            let (reason, message) = world.blocked("g");
            assert_eq!(reason, "UnsupportedConstraint");
            assert!(
                message.contains("requests 65 resources, and its FluxJob can hold 64"),
                "{message}"
            );
        }
    }
}

#[test]
fn a_gang_whose_nodes_its_record_could_not_name_is_refused() {
    // Names of 250 characters: 900 of them have room, and 1,000 have not.
    let name = |at: usize| format!("{at:0>250}");
    let mut world = World::new(&[]);
    (0..1000).for_each(|at| world.tell(Event::Node(node(&name(at), 1))));
    for at in 0..1000 {
        world.submit(of_group(pod(&format!("p{at}"), 1), "g", Ok(1000)));
    }
    world.settle();
    let (reason, message) = world.blocked("g");
    let expected = "it may start on 1000 nodes; their names take 251000 bytes, and its FluxJob can hold 230400 (status.nodeList)";
    assert_eq!((&*reason, &*message, world.bound()), ("UnsupportedConstraint", expected, 0));
}

/// The names of its nodes have room, and which pods are there has not besides: that is known only
/// when it is placed.
#[test]
fn a_gang_whose_placement_is_too_long_gives_its_nodes_back_before_it_is_written() {
    const PODS: u32 = 900;
    // Names of 250 letters that have no number in common.
    let name = |at: u32| {
        let letters = [at / 676, at / 26, at]
            .map(|digit| char::from(b'a' + u8::try_from(digit % 26).unwrap()));
        format!("{}{}", "x".repeat(247), letters.iter().collect::<String>())
    };
    let mut world = World::new(&[]);
    (0..PODS).for_each(|at| world.tell(Event::Node(node(&name(at), 2))));
    for at in 0..PODS {
        // More than half a node, and each another request.
        let mut one = pod(&format!("p{at}"), 0);
        Arc::make_mut(&mut one.shape).requests.set("cpu", u64::from(1001 + at));
        world.submit(of_group(one, "g", Ok(PODS)));
    }
    world.settle();
    let (reason, message) = world.blocked("g");
    let said = "its FluxJob cannot be written: its placement makes a status of ";
    assert_eq!((&*reason, world.bound()), ("BindFailed", 0), "{message}");
    assert!(message.starts_with(said) && message.ends_with("262144 is the limit"), "{message}");
    let size = serde_json::to_vec(&world.record("g").status).unwrap().len();
    assert!(size <= fluxqueue_api::fluxjob::STATUS_BYTES_MAX, "{size}");
    world.submit(pod("other", 2));
    world.settle();
    assert!(world.node_of("other").is_some(), "the nodes are there for others");
}

#[test]
fn owners_that_cannot_be_and_other_schedulers_of_any_length_are_not_kept() {
    let long = "x".repeat(LONGEST);
    for part in ["name", "uid", "kind", "apiVersion"] {
        let mut owner = json!({"name": "j", "uid": "uid-j", "kind": "Job", "apiVersion": "batch/v1", "controller": true});
        owner[part] = long.as_str().into();
        let metadata =
            json!({"name": "p", "namespace": "ns", "uid": "u", "ownerReferences": [owner]});
        let mut object = object("Pod", &metadata);
        object["spec"]["schedulerName"] = long.as_str().into();
        object["status"] = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": long, "message": long}]});
        let read = Pod::from_kubernetes(
            &serde_json::from_value(object).unwrap(),
            &mut ShapeInterner::new(),
        )
        .unwrap();
        assert_eq!(read.owner, None, "{part}");
        assert!(format!("{read:?}").len() < OBJECT_BYTES_MAX);
    }
}

#[test]
fn a_gang_that_is_short_of_a_host_port_says_so() {
    let mut world = World::new(&[("a", 8), ("b", 8)]);
    for at in 0..3 {
        let mut one = pod(&format!("p{at}"), 1);
        let port = HostPort { ip: Arc::from("0.0.0.0"), protocol: Arc::from("TCP"), port: 8080 };
        Arc::make_mut(&mut one.shape).constraints.host_ports.push(port);
        world.submit(of_group(one, "g", Ok(3)));
    }
    world.settle();
    let (reason, message) = world.blocked("g");
    assert_eq!(reason, "Unsatisfiable");
    let expected =
        "Each of 3 pods needs a node of its own for host port 8080/TCP, and they may use 2.";
    assert!(message.contains(expected), "{message}");
}
