//! Gangs that fit in one way only, and gangs that lose their nodes to another scheduler.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::harness::{ControlPlane, Namespace, job, node_of, pod, within};

/// Longest time of an immediate placement, on a slow machine.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Makes a pod of group `g`, of this size, that may use these nodes.
fn member(name: &str, size: usize, cpu: &str, nodes: &str) -> String {
    let labels = format!("  labels: {{fluxqueue.pod-group: g, fluxqueue.group-size: '{size}'}}");
    let affinity = format!(
        "spec:\n  affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: \
         [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{nodes}]}}]}}]}}}}}}"
    );
    pod(name, cpu, "infinity", &labels).replace("spec:", &affinity)
}

fn bound(ns: &Namespace<'_>) -> Vec<String> {
    ns.list("pods")
        .iter()
        .map(|pod| node_of(pod).to_owned())
        .filter(|node| !node.is_empty())
        .collect()
}

#[test]
fn two_roles_that_fit_in_one_way_only_start_at_once() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 4, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("roles");
    // A node holds one of the pods. A placement of one role on n-0 and n-1 leaves the other a
    // single node.
    let manifest: String = (0..4)
        .map(|number| {
            member(
                &format!("m-{number}"),
                4,
                "3",
                if number < 2 { "n-0, n-1, n-2" } else { "n-0, n-1, n-3" },
            )
        })
        .collect();
    ns.apply(&manifest);
    within(AT_ONCE, "all four to be bound", || (bound(&ns).len() == 4).then_some(()));
    assert_eq!(bound(&ns).into_iter().collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn two_roles_with_the_same_host_port_start_on_two_nodes() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 3, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("roles");
    let port = |text: String| {
        text.replace("name: main,", "name: main, ports: [{containerPort: 80, hostPort: 8080}],")
    };
    ns.apply(&(port(member("a", 2, "1", "n-0, n-1")) + &port(member("b", 2, "1", "n-0, n-2"))));
    within(AT_ONCE, "both to be bound", || (bound(&ns).len() == 2).then_some(()));
    assert_eq!(bound(&ns).into_iter().collect::<BTreeSet<_>>().len(), 2);
}

/// Records the order in which pods get their nodes, by the resource versions with which they do.
struct Order {
    watch: std::process::Child,
    lines: JoinHandle<Vec<String>>,
}

impl Order {
    fn watch(ns: &Namespace<'_>) -> Self {
        let fields = r#"jsonpath={.metadata.uid} {.spec.schedulerName} {.metadata.resourceVersion} {.spec.nodeName}{"\n"}"#;
        let mut watch = ns
            .plane
            .kubectl_in_background(&["get", "pods", "-n", &ns.name, "--watch", "-o", fields]);
        let lines = BufReader::new(watch.stdout.take().expect("stdout is piped")).lines();
        // A thread reads the lines as they come: the watch would stand still with a full pipe.
        let lines = std::thread::spawn(|| lines.map_while(Result::ok).collect());
        Order { watch, lines }
    }

    /// Returns, for each pod with a node, whether it is ours, and the version that gave it the
    /// node.
    fn end(mut self) -> Vec<(bool, u64)> {
        self.watch.kill().expect("it is killed");
        self.watch.wait().expect("it is gone");
        let lines = self.lines.join().expect("the lines");
        let (mut found, mut order) = (BTreeSet::new(), Vec::new());
        for line in &lines {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [uid, scheduler, version, _node] = fields[..]
                && found.insert(uid)
            {
                order.push((scheduler == "fluxqueue", version.parse().expect("a version")));
            }
        }
        order
    }
}

#[test]
fn a_gang_whose_nodes_are_taken_before_its_first_binding_does_not_start() {
    let nodes = "groups:\n- {namePrefix: n-, count: 20, cpu: '4', memory: 16Gi, pods: 110}\n";
    let plane = ControlPlane::start(nodes, &["--kube-scheduler"]);
    let _fluxqueue = plane.fluxqueue(&[]);
    for round in 0..8_u64 {
        let ns = plane.namespace("taken");
        let order = Order::watch(&ns);
        let intruders: String = (0..3)
            .map(|number| pod(&format!("intruder-{number}"), "3", "infinity", ""))
            .map(|text| {
                text.replace("schedulerName: fluxqueue", "schedulerName: default-scheduler")
            })
            .collect();
        // Both are created at once, so that the start of kubectl does not decide which comes first.
        std::thread::scope(|threads| {
            threads.spawn(|| ns.apply(&job("gang", 20, "3", "infinity")));
            std::thread::sleep(Duration::from_millis(round * 50));
            ns.apply(&intruders);
        });
        // The test waits until nothing changes any more.
        std::thread::sleep(Duration::from_secs(6));
        let order = order.end();
        let ours: Vec<u64> =
            order.iter().filter(|(ours, _)| *ours).map(|(_, version)| *version).collect();
        let first = ours.iter().min().copied().unwrap_or(u64::MAX);
        let taken_later = order.iter().any(|(ours, version)| !ours && *version > first);
        eprintln!("round {round}: {} of the gang, {} others", ours.len(), order.len() - ours.len());
        assert!(
            matches!(ours.len(), 0 | 20) || taken_later,
            "round {round}: {} of 20 started, though all nodes were taken before the first",
            ours.len()
        );
        ns.kubectl(&["delete", "job", "gang", "--wait=false"]);
        ns.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]);
        within(Duration::from_mins(1), "nothing to be left", || {
            ns.list("pods").is_empty().then_some(())
        });
    }
}
