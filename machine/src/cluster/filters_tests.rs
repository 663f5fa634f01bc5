//! Tests of the filters by hand; `golden.rs` has them against kube-scheduler's own.

use fluxqueue_workload::constraints::{HostPort, NamespaceScope, PodSelector};

use super::*;
use fluxqueue_workload::Resources;

fn node() -> Node {
    Node {
        name: "n".into(),
        uid: "u".into(),
        allocatable: Resources::new(),
        labels: vec![("cores".into(), "16".into()), ("zone".into(), "a".into())],
        taints: vec![],
        unschedulable: false,
        readiness: Readiness::Ready,
        declared_features: vec![],
    }
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.into(), value: "v".into(), effect: effect.into() }
}

fn toleration(key: &str, exists: bool, value: &str, effect: &str) -> Toleration {
    Toleration { key: key.into(), exists, value: value.into(), effect: effect.into() }
}

fn require(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement {
        key: key.into(),
        operator,
        values: values.iter().map(|value| (*value).into()).collect(),
    }
}

fn labels_term(requirements: Vec<Requirement>) -> NodeSelectorTerm {
    NodeSelectorTerm { labels: requirements, fields: vec![] }
}

fn fields_term(requirements: Vec<Requirement>) -> NodeSelectorTerm {
    NodeSelectorTerm { labels: vec![], fields: requirements }
}

fn required(terms: Vec<NodeSelectorTerm>) -> Constraints {
    Constraints { required: Some(terms), ..Constraints::default() }
}

#[test]
fn an_unrestricted_pod_may_use_a_plain_node() {
    assert_eq!(admit(&node(), &Constraints::default()), Ok(()));
    assert_eq!(liking(&node(), &Constraints::default()), Liking::default());
}

#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
    let node = Node { unschedulable: true, ..node() };
    let with = |toleration| Constraints { tolerations: vec![toleration], ..Constraints::default() };
    let passing = Err(Rejected { first: Rejection::Unschedulable, lasting: false });
    let key = "node.kubernetes.io/unschedulable";
    assert_eq!(admit(&node, &Constraints::default()), passing);
    assert_eq!(admit(&node, &with(toleration(key, true, "", "NoSchedule"))), Ok(()));
    assert_eq!(admit(&node, &with(toleration("", true, "", ""))), Ok(()));
    assert_eq!(admit(&node, &with(toleration(key, true, "", "NoExecute"))), passing);
    assert_eq!(admit(&node, &with(toleration(key, false, "x", ""))), passing);
}

#[test]
fn taints_that_controllers_put_on_pass_and_others_last() {
    let with = |taints: Vec<Taint>| admit(&Node { taints, ..node() }, &Constraints::default());
    let rejected =
        |key: &str, lasting| Err(Rejected { first: Rejection::Taint { key: key.into() }, lasting });
    assert_eq!(with(vec![taint("gpu", "NoSchedule")]), rejected("gpu", true));
    assert_eq!(with(vec![taint("gpu", "NoExecute")]), rejected("gpu", true));
    assert_eq!(with(vec![taint("gpu", "PreferNoSchedule")]), Ok(()));
    let not_ready = "node.kubernetes.io/not-ready";
    assert_eq!(with(vec![taint(not_ready, "NoSchedule")]), rejected(not_ready, false));
    assert_eq!(
        with(vec![taint(not_ready, "NoSchedule"), taint("gpu", "NoSchedule")]),
        rejected(not_ready, true)
    );
}

#[test]
fn tolerating_not_ready_for_a_while_does_not_let_a_pod_start_there() {
    // Every pod gets this NoExecute toleration from the API server; only the NoSchedule taint keeps
    // new pods off.
    let constraints = Constraints {
        tolerations: vec![toleration("node.kubernetes.io/not-ready", true, "", "NoExecute")],
        ..Constraints::default()
    };
    let tainted =
        Node { taints: vec![taint("node.kubernetes.io/not-ready", "NoSchedule")], ..node() };
    assert!(admit(&tainted, &constraints).is_err());
    let silent = Node { readiness: Readiness::NotReady, ..node() };
    assert_eq!(
        admit(&silent, &constraints),
        Err(Rejected { first: Rejection::NotReady, lasting: false })
    );
    let daemon = Constraints {
        tolerations: vec![toleration("node.kubernetes.io/not-ready", true, "", "NoSchedule")],
        ..Constraints::default()
    };
    assert_eq!(admit(&silent, &daemon), Ok(()));
}

#[test]
fn a_node_of_which_nothing_is_heard_is_for_those_that_tolerate_its_being_unreachable() {
    let tolerating = |key| Constraints {
        tolerations: vec![toleration(key, true, "", "NoSchedule")],
        ..Constraints::default()
    };
    let [not_ready, unreachable] =
        ["not-ready", "unreachable"].map(|key| format!("node.kubernetes.io/{key}"));
    let lost = Node { readiness: Readiness::Unreachable, ..node() };
    let tainted = Node { taints: vec![taint(&unreachable, "NoSchedule")], ..lost.clone() };
    let refused = Err(Rejected { first: Rejection::NotReady, lasting: false });
    for lost in [&lost, &tainted] {
        assert_eq!(admit(lost, &tolerating(&unreachable)), Ok(()));
        assert!(admit(lost, &tolerating(&not_ready)).is_err());
    }
    assert_eq!(admit(&lost, &tolerating(&not_ready)), refused);
    let broken = Node { readiness: Readiness::NotReady, ..node() };
    assert_eq!(admit(&broken, &tolerating(&unreachable)), refused);
}

#[test]
fn a_lasting_rejection_behind_a_passing_one_is_seen() {
    let cordoned = Node { unschedulable: true, ..node() };
    let constraints =
        Constraints { node_selector: vec![("zone".into(), "b".into())], ..Constraints::default() };
    assert_eq!(
        admit(&cordoned, &constraints),
        Err(Rejected { first: Rejection::Unschedulable, lasting: true })
    );
}

#[test]
fn node_selectors_are_all_met() {
    let selected = |pairs: &[(&str, &str)]| {
        let node_selector =
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        admit(&node(), &Constraints { node_selector, ..Constraints::default() }).is_ok()
    };
    assert!(selected(&[("zone", "a")]));
    assert!(selected(&[("cores", "16"), ("zone", "a")]));
    assert!(!selected(&[("cores", "16"), ("zone", "b")]));
    assert!(!selected(&[("absent", "")]));
}

#[test]
fn every_operator_of_node_affinity() {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn, Unknown};
    let cases = [
        (require("zone", In, &["b", "a"]), true),
        (require("zone", In, &["b"]), false),
        (require("absent", In, &["a"]), false),
        (require("zone", NotIn, &["a"]), false),
        (require("zone", NotIn, &["b"]), true),
        (require("absent", NotIn, &["a"]), true),
        (require("zone", Exists, &[]), true),
        (require("absent", Exists, &[]), false),
        (require("zone", DoesNotExist, &[]), false),
        (require("absent", DoesNotExist, &[]), true),
        (require("cores", Gt, &["15"]), true),
        (require("cores", Gt, &["16"]), false),
        (require("cores", Lt, &["17"]), true),
        (require("cores", Lt, &["9"]), false),
        (require("zone", Gt, &["0"]), false),
        (require("absent", Lt, &["5"]), false),
        (require("zone", Unknown, &["a"]), false),
    ];
    for (requirement, expected) in cases {
        let admitted =
            admit(&node(), &required(vec![labels_term(vec![requirement.clone()])])).is_ok();
        assert_eq!(admitted, expected, "{requirement:?}");
    }
}

#[test]
fn terms_are_alternatives_and_requirements_are_not() {
    let (yes, no) =
        (require("zone", Operator::Exists, &[]), require("zone", Operator::DoesNotExist, &[]));
    let admitted = |terms: Vec<NodeSelectorTerm>| admit(&node(), &required(terms)).is_ok();
    assert!(admitted(vec![labels_term(vec![no.clone()]), labels_term(vec![yes.clone()])]));
    assert!(!admitted(vec![labels_term(vec![yes, no])]));
    assert!(!admitted(vec![]), "no term matches no node");
    assert!(!admitted(vec![NodeSelectorTerm::default()]), "an empty term matches no node");
}

#[test]
fn fields_are_the_name_of_the_node() {
    let admitted =
        |requirement| admit(&node(), &required(vec![fields_term(vec![requirement])])).is_ok();
    assert!(admitted(require("metadata.name", Operator::In, &["n"])));
    assert!(!admitted(require("metadata.name", Operator::In, &["m"])));
    assert!(!admitted(require("metadata.name", Operator::NotIn, &["n"])));
    assert!(admitted(require("metadata.name", Operator::NotIn, &["m"])));
    assert!(!admitted(require("metadata.uid", Operator::In, &["u"])));
}

#[test]
fn features_must_all_be_declared() {
    let constraints =
        Constraints { features: vec!["A".into(), "B".into()], ..Constraints::default() };
    let declaring = |features: &[&str]| {
        let declared_features = features.iter().map(|feature| (*feature).into()).collect();
        admit(&Node { declared_features, ..node() }, &constraints)
    };
    assert_eq!(declaring(&["B", "C", "A"]), Ok(()));
    assert_eq!(declaring(&["B"]), Err(Rejected { first: Rejection::Features, lasting: true }));
}

#[test]
fn preferences_add_up_and_disliked_taints_are_counted() {
    let liked = labels_term(vec![require("zone", Operator::In, &["a"])]);
    let other = labels_term(vec![require("zone", Operator::In, &["b"])]);
    let constraints = Constraints {
        preferred: vec![
            (100, liked.clone()),
            (7, liked),
            (50, other),
            (90, NodeSelectorTerm::default()),
        ],
        ..Constraints::default()
    };
    let is_liked = |node: &Node, constraints: &Constraints| {
        let Liking { weight, taints } = liking(node, constraints);
        (weight, taints)
    };
    assert_eq!(is_liked(&node(), &constraints), (107, 0));
    let disliked =
        Node { taints: vec![taint("old", "PreferNoSchedule"), taint("x", "NoSchedule")], ..node() };
    assert_eq!(is_liked(&disliked, &constraints), (107, 1));
    let tolerant =
        Constraints { tolerations: vec![toleration("old", false, "v", "")], ..constraints };
    assert_eq!(is_liked(&disliked, &tolerant), (107, 0));
}

#[test]
fn host_ports_conflict_on_one_address_or_all() {
    let port = |ip: &str, protocol: &str, port| HostPort {
        ip: ip.into(),
        protocol: protocol.into(),
        port,
    };
    let cases = [
        (port("0.0.0.0", "TCP", 80), port("0.0.0.0", "TCP", 80), true),
        (port("10.0.0.1", "TCP", 80), port("0.0.0.0", "TCP", 80), true),
        (port("10.0.0.1", "TCP", 80), port("10.0.0.1", "TCP", 80), true),
        (port("10.0.0.1", "TCP", 80), port("10.0.0.2", "TCP", 80), false),
        (port("0.0.0.0", "TCP", 80), port("0.0.0.0", "UDP", 80), false),
        (port("0.0.0.0", "TCP", 80), port("0.0.0.0", "TCP", 81), false),
    ];
    for (a, b, conflict) in cases {
        let with = |host_ports: &[HostPort]| Constraints {
            host_ports: host_ports.to_vec(),
            ..Constraints::default()
        };
        let (one, two) = (with(&[port("0.0.0.0", "SCTP", 9), a]), with(&[b]));
        assert_eq!(one.exclude(&two), conflict, "{one:?} {two:?}");
        assert_eq!(two.exclude(&one), conflict, "{two:?} {one:?}");
    }
    assert!(!Constraints::default().exclude(&Constraints::default()));
}

#[test]
fn anti_affinity_repels_selected_pods_in_its_namespaces() {
    let labels = [("app".into(), "db".into()), ("tier".into(), "back".into())];
    let pods = |labels: Option<Vec<Requirement>>, namespaces: NamespaceScope| PodSelector {
        namespaces,
        labels,
    };
    let own = || NamespaceScope { named: vec!["ns".into()], selected: None };
    let of =
        |selected: Vec<Requirement>| NamespaceScope { named: vec![], selected: Some(selected) };
    let db = || Some(vec![require("app", Operator::In, &["db"])]);
    let team = [("team".into(), "x".into())];
    assert!(pods(db(), own()).selects("ns", &[], &labels));
    assert!(!pods(db(), own()).selects("other", &[], &labels));
    assert!(
        pods(db(), of(vec![])).selects("other", &[], &labels),
        "an empty selector selects all namespaces"
    );
    assert!(
        pods(db(), of(vec![require("team", Operator::In, &["x"])]))
            .selects("other", &team, &labels)
    );
    assert!(
        !pods(db(), of(vec![require("team", Operator::In, &["y"])]))
            .selects("other", &team, &labels)
    );
    assert!(!pods(db(), own()).selects("ns", &[], &labels[1..]));
    assert!(
        pods(Some(vec![]), own()).selects("ns", &[], &[]),
        "an empty selector selects everything"
    );
    assert!(!pods(None, own()).selects("ns", &[], &labels), "no selector selects nothing");
}

#[test]
fn reasons_are_kube_schedulers() {
    let cases = [
        (Rejection::Unschedulable, "node(s) were unschedulable"),
        (Rejection::Taint { key: "x".into() }, "node(s) had untolerated taint(s)"),
        (Rejection::NotReady, "node(s) had untolerated taint(s)"),
        (Rejection::NodeAffinity, "node(s) didn't match Pod's node affinity/selector"),
        (Rejection::HostPorts, "node(s) didn't have free ports for the requested pod ports"),
        (Rejection::Spread, "node(s) didn't match pod topology spread constraints"),
        (
            Rejection::SpreadLabel,
            "node(s) didn't match pod topology spread constraints (missing required label)",
        ),
        (Rejection::Affinity, "node(s) didn't match pod affinity rules"),
        (Rejection::OwnAntiAffinity, "node(s) didn't match pod anti-affinity rules"),
        (Rejection::AntiAffinity, "node(s) didn't satisfy existing pods anti-affinity rules"),
        (Rejection::Features, "node(s) didn't match Pod's required features"),
        (Rejection::TooManyPods, "Too many pods"),
        (Rejection::Insufficient("nvidia.com/gpu".into()), "Insufficient nvidia.com/gpu"),
    ];
    for (rejection, text) in cases {
        assert_eq!(rejection.reason(), text);
    }
}
