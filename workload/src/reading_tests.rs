//! Tests of reading pods, apart from what they request (see `requests.rs`) and require of nodes
//! (see `golden.rs`).

use serde_json::{Value, json};

use super::*;
use crate::object::OwnerKind;
use crate::pod::GroupLabels;
use crate::time::Time;

/// Makes a pod in namespace `ns`, with `parts` merged over the minimum.
fn pod(parts: &Value) -> Pod {
    let mut object = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [{"name": "c"}]},
    });
    merge(&mut object, parts);
    let pod: KubePod = serde_json::from_value(object).unwrap();
    Pod::from_kubernetes(&pod, &mut ShapeInterner::new()).unwrap()
}

fn merge(into: &mut Value, parts: &Value) {
    match (into, parts) {
        (Value::Object(into), Value::Object(parts)) => {
            for (key, part) in parts {
                merge(into.entry(key.clone()).or_insert(Value::Null), part);
            }
        }
        (into, part) => *into = part.clone(),
    }
}

fn fields(unsupported: &[Unsupported]) -> Vec<&str> {
    unsupported.iter().map(|entry| entry.field.as_str()).collect()
}

#[test]
fn a_plain_pod_is_read_whole() {
    let read = pod(&json!({
        "metadata": {
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-02T03:04:06Z",
            "labels": {"b": "2", "a": "1", "batch.kubernetes.io/job-completion-index": "7"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "x"},
                {
                    "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "y",
                    "controller": true,
                },
            ],
        },
        "spec": {
            "schedulerName": "fluxqueue", "nodeName": "n1", "priority": -5,
            "restartPolicy": "Never",
            "schedulingGates": [{"name": "fluxqueue"}, {"name": "other"}],
        },
        "status": {
            "phase": "Running", "nominatedNodeName": "n2",
            "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "no",
            }],
        },
    }));
    assert_eq!((&*read.id.key.namespace, &*read.id.key.name, &*read.id.uid), ("ns", "p", "u"));
    assert_eq!(read.created, Time::from_seconds(1_767_323_045));
    assert!(read.deleting);
    assert_eq!(
        read.labels.iter().map(|(key, _)| &**key).collect::<Vec<_>>(),
        ["a", "b", "batch.kubernetes.io/job-completion-index"]
    );
    assert_eq!(read.completion_index, Some(7));
    let owner = read.owner.unwrap();
    assert_eq!(
        (owner.kind, &*owner.name, &*owner.uid, &*owner.api_version),
        (OwnerKind::Job, "j", "y", "batch/v1")
    );
    assert_eq!(
        (&*read.scheduler, read.node.as_deref(), read.nominated.as_deref()),
        ("fluxqueue", Some("n1"), Some("n2"))
    );
    assert_eq!(
        (read.priority, read.phase, read.lifetime),
        (-5, Phase::Running, Lifetime::Eventually)
    );
    assert_eq!(read.gates.iter().map(|gate| &**gate).collect::<Vec<_>>(), ["fluxqueue", "other"]);
    let condition = read.scheduled_condition.unwrap();
    assert_eq!(
        (condition.scheduled, &*condition.reason, &*condition.message),
        (false, "Unschedulable", "no")
    );
    assert_eq!((read.unsupported, read.soft_ignored), (vec![], vec![]));
}

#[test]
fn absent_fields_have_the_values_that_kubernetes_gives_them() {
    let read = pod(&json!({
        "spec": {"nodeName": "", "schedulerName": ""}, "status": {"nominatedNodeName": ""},
    }));
    assert_eq!((read.node, read.nominated, &*read.scheduler), (None, None, "default-scheduler"));
    assert_eq!(
        (read.phase, read.priority, read.group, read.owner),
        (Phase::Pending, 0, None, None)
    );
    assert_eq!(read.lifetime, Lifetime::Endless, "the default restart policy is Always");
    assert!(!read.deleting && read.labels.is_empty());
}

#[test]
fn a_pod_without_identity_is_refused_by_name() {
    let object: KubePod =
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}})).unwrap();
    let error = Pod::from_kubernetes(&object, &mut ShapeInterner::new()).unwrap_err();
    assert_eq!(error.to_string(), "Pod ns/p: metadata.uid: is empty");
    let object: KubePod =
        serde_json::from_value(json!({"metadata": {"name": "", "namespace": "ns", "uid": "u"}}))
            .unwrap();
    let error = Pod::from_kubernetes(&object, &mut ShapeInterner::new()).unwrap_err();
    assert_eq!(error.to_string(), "Pod ns/: metadata.name: is empty");
}

#[test]
fn phases_tell_refused_from_failed() {
    let phase = |status: Value| pod(&json!({ "status": status })).phase;
    let refused = |reason: &str| Phase::Refused { reason: reason.into() };
    assert_eq!(phase(json!({"phase": "Unknown"})), Phase::Pending);
    assert_eq!(phase(json!({"phase": "Succeeded", "reason": "Evicted"})), Phase::Succeeded);
    assert_eq!(phase(json!({"phase": "Failed"})), Phase::Failed);
    assert_eq!(phase(json!({"phase": "Failed", "reason": "DeadlineExceeded"})), Phase::Failed);
    assert_eq!(phase(json!({"phase": "Failed", "reason": "Error"})), Phase::Failed);
    let reasons = [
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfnvidia.com/gpu",
        "NodeAffinity",
        "NodePorts",
        "TaintToleration",
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "Evicted",
        "Preempting",
        "Terminated",
        "NodeShutdown",
        "PodOSNotSupported",
        "UnknownReason",
    ];
    for reason in reasons {
        assert_eq!(phase(json!({"phase": "Failed", "reason": reason})), refused(reason));
        assert_eq!(phase(json!({"phase": "Running", "reason": reason})), Phase::Running);
    }
}

#[test]
fn a_pod_that_was_drained_or_preempted_was_not_refused_by_its_kubelet() {
    let phase = |status: &str, by: &str, reason: &str| {
        let condition = json!({"type": "DisruptionTarget", "status": status, "reason": by});
        pod(&json!({"status": {"phase": "Failed", "reason": reason, "conditions": [condition]}}))
            .phase
    };
    let disrupted = |by: &str| Phase::Disrupted { reason: by.into() };
    let refused = |reason: &str| Phase::Refused { reason: reason.into() };
    for by in [
        "EvictionByEvictionAPI",
        "PreemptionByScheduler",
        "DeletionByTaintManager",
        "DeletionByPodGC",
    ] {
        assert_eq!(phase("True", by, ""), disrupted(by));
        assert_eq!(
            phase("True", by, "DeadlineExceeded"),
            disrupted(by),
            "whatever its containers made of it"
        );
        assert_eq!(phase("False", by, ""), Phase::Failed);
        assert_eq!(phase("True", by, "OutOfcpu"), refused("OutOfcpu"), "it was refused before");
    }
    assert_eq!(phase("True", "", ""), disrupted("DisruptionTarget"));
    assert_eq!(phase("True", "TerminationByKubelet", ""), refused("TerminationByKubelet"));
    assert_eq!(phase("True", "TerminationByKubelet", "Evicted"), refused("Evicted"));
}

#[test]
fn a_pod_ended_with_its_last_container_or_when_it_was_refused() {
    let ended = |status: Value| pod(&json!({"status": status})).ended;
    let at = |text: &str| {
        Some(metadata::time(Some(&serde_json::from_value(json!(text)).expect("a time"))))
    };
    let exited =
        |at: &str| json!({"name": "c", "state": {"terminated": {"exitCode": 0, "finishedAt": at}}});
    let (start, first, last) =
        ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z");
    let containers = json!([exited(first), exited(last)]);
    let whole = json!({"phase": "Succeeded", "startTime": start, "containerStatuses": containers});
    assert_eq!(ended(whole), at(last));
    assert_eq!(
        ended(json!({"phase": "Failed", "reason": "OutOfcpu", "startTime": start})),
        at(start)
    );
    assert_eq!(ended(json!({"phase": "Running", "startTime": start})), None);
}

#[test]
fn lifetimes_come_from_annotation_deadline_and_restart_policy_in_this_order() {
    let lifetime = |walltime: Option<&str>, deadline: Option<u64>, policy: &str| {
        let annotations = walltime.map_or(json!({}), |text| json!({"fluxqueue/walltime": text}));
        pod(&json!({
            "metadata": {"annotations": annotations},
            "spec": {"activeDeadlineSeconds": deadline, "restartPolicy": policy},
        }))
    };
    let read = |walltime, deadline, policy| lifetime(walltime, deadline, policy).lifetime;
    assert_eq!(read(Some("1h"), Some(60), "Always"), Lifetime::Seconds(3600));
    assert_eq!(read(Some("unlimited"), Some(60), "Never"), Lifetime::Endless);
    assert_eq!(read(None, Some(60), "Always"), Lifetime::Seconds(60));
    assert_eq!(read(None, None, "Always"), Lifetime::Endless);
    assert_eq!(read(None, None, "OnFailure"), Lifetime::Eventually);
    assert_eq!(read(None, None, "Never"), Lifetime::Eventually);

    let bad = lifetime(Some("soon"), Some(60), "Never");
    assert_eq!(bad.lifetime, Lifetime::Seconds(60));
    assert_eq!(fields(&bad.unsupported), ["metadata.annotations[fluxqueue/walltime]"]);
    assert!(bad.unsupported[0].message.contains("\"soon\""), "{}", bad.unsupported[0].message);
}

#[test]
fn group_labels_are_read_from_the_pod() {
    let read = pod(
        &json!({"metadata": {"labels": {"fluxqueue.pod-group": "g", "fluxqueue.group-size": "3"}}}),
    );
    assert_eq!(read.group, Some(GroupLabels { name: "g".into(), size: Ok(3) }));
}

#[test]
fn unsupported_requirements_are_named() {
    let term = json!({"topologyKey": "zone", "labelSelector": {}});
    let affinity = json!({
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
    });
    let read = pod(&json!({"spec": {
        "volumes": [
            {"name": "a", "emptyDir": {}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "x"}},
            {"name": "c", "ephemeral": {}},
            {"name": "d", "cinder": {"volumeID": "i"}},
            {"name": "e", "csi": {"driver": "inline"}},
        ],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        ],
        "affinity": affinity,
        "resourceClaims": [{"name": "gpu"}],
        "schedulingGroup": {"podGroupName": "g"},
    }}));
    assert_eq!(fields(&read.unsupported), ["spec.resourceClaims"]);
    let constraints = &read.shape.constraints;
    assert_eq!((constraints.near.len(), constraints.repels.len()), (1, 1));
    assert_eq!((constraints.spreads.len(), constraints.preferred_spreads.len()), (1, 1));
}

#[test]
fn preferences_about_other_pods_are_read_with_their_weights() {
    let term =
        |weight: i32, key: &str| json!({"weight": weight, "podAffinityTerm": {"topologyKey": key}});
    let read = pod(&json!({"spec": {"affinity": {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term(3, "zone")]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [term(5, "rack"), term(7, "host")],
            "requiredDuringSchedulingIgnoredDuringExecution": [],
        },
    }}}));
    assert_eq!((read.unsupported, read.soft_ignored), (vec![], vec![]));
    let constraints = &read.shape.constraints;
    let preferred: Vec<(i32, &str)> = constraints
        .preferred_pods
        .iter()
        .map(|(weight, term)| (*weight, &*term.topology_key))
        .collect();
    assert_eq!(preferred, [(3, "zone"), (-5, "rack"), (-7, "host")]);
    assert!(constraints.prefers_by_pods() && !constraints.asks_about_pods());
}

#[test]
fn a_pod_with_a_bad_quantity_is_kept_with_its_other_fields() {
    let read = pod(&json!({"spec": {"nodeName": "n", "containers": [
        {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "9223372036854775808"}}},
    ]}}));
    assert_eq!(read.shape.requests.get("cpu"), 2000);
    assert_eq!(fields(&read.unsupported), ["spec.containers[0].resources.requests.memory"]);
}

#[test]
fn host_ports_are_those_of_running_containers_with_defaults() {
    let read = pod(&json!({"spec": {
        "initContainers": [
            {"name": "i", "ports": [{"containerPort": 1, "hostPort": 1}]},
            {
                "name": "s", "restartPolicy": "Always",
                "ports": [{"containerPort": 2, "hostPort": 2, "protocol": "UDP"}],
            },
        ],
        "containers": [
            {"name": "a", "ports": [
                {"containerPort": 9}, {"containerPort": 9, "hostPort": 0},
                {"containerPort": 3, "hostPort": 3},
            ]},
            {"name": "b", "ports": [
                {"containerPort": 3, "hostPort": 3},
                {"containerPort": 4, "hostPort": 4, "hostIP": "10.0.0.1"},
            ]},
        ],
    }}));
    let ports: Vec<_> =
        read.shape.constraints.host_ports.iter().map(|p| (&*p.ip, &*p.protocol, p.port)).collect();
    assert_eq!(ports, [("0.0.0.0", "TCP", 3), ("0.0.0.0", "UDP", 2), ("10.0.0.1", "TCP", 4)]);
}

#[test]
fn malformed_requirements_are_unknown_and_so_match_nothing() {
    use crate::constraints::Operator::{self, Exists, Gt, In, NotIn, Unknown};
    let operator = |list: &str, operator: &str, values: &[&str]| -> Operator {
        let term = json!({list: [{"key": "k", "operator": operator, "values": values}]});
        let required = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        });
        let read = pod(&json!({"spec": {"affinity": {"nodeAffinity": required}}}));
        let term = &read.shape.constraints.required.as_ref().unwrap()[0];
        term.labels.iter().chain(&term.fields).next().unwrap().operator
    };
    let longest = "x".repeat(63);
    let too_long = "x".repeat(64);
    let cases: [(&str, &str, &[&str], Operator); 17] = [
        ("matchExpressions", "In", &["a", "B.c-d_1", ""], In),
        ("matchExpressions", "In", &[&longest], In),
        ("matchExpressions", "In", &[&too_long], Unknown),
        ("matchExpressions", "In", &["-a"], Unknown),
        ("matchExpressions", "NotIn", &["a."], Unknown),
        ("matchExpressions", "NotIn", &["a b"], Unknown),
        ("matchExpressions", "In", &[], Unknown),
        ("matchExpressions", "Exists", &[], Exists),
        ("matchExpressions", "Exists", &["a"], Unknown),
        ("matchExpressions", "Gt", &["12"], Gt),
        ("matchExpressions", "Gt", &["1", "2"], Unknown),
        ("matchExpressions", "Lt", &["x"], Unknown),
        ("matchExpressions", "in", &["a"], Unknown),
        ("matchFields", "NotIn", &["a"], NotIn),
        ("matchFields", "In", &["a", "b"], Unknown),
        ("matchFields", "NotIn", &[], Unknown),
        ("matchFields", "Exists", &[], Unknown),
    ];
    for (list, text, values, expected) in cases {
        assert_eq!(operator(list, text, values), expected, "{list} {text} {values:?}");
    }
}

#[test]
fn terms_are_about_the_named_namespaces_the_selected_ones_or_their_own() {
    let scope = |term: Value| {
        let affinity =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let scope = pod(&json!({"spec": {"affinity": affinity}})).shape.constraints.repels[0]
            .pods
            .namespaces
            .clone();
        (scope.named, scope.selected.map(|selected| selected.len()))
    };
    assert_eq!(scope(json!({"topologyKey": "z"})), (vec!["ns".into()], None));
    assert_eq!(scope(json!({"topologyKey": "z", "namespaces": ["x"]})), (vec!["x".into()], None));
    let all_and_one = json!({"topologyKey": "z", "namespaceSelector": {}, "namespaces": ["x"]});
    assert_eq!(scope(all_and_one), (vec!["x".into()], Some(0)), "both parts count");
    let selected = json!({"topologyKey": "z", "namespaceSelector": {"matchLabels": {"a": "b"}}});
    assert_eq!(scope(selected), (vec![], Some(1)));
}

#[test]
fn spread_constraints_are_read_with_kube_schedulers_defaults_and_the_pods_own_labels() {
    let spread = |more: Value| {
        let mut constraint =
            json!({"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"});
        constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let labels = json!({"app": "a", "hash": "h"});
        let read = pod(&json!({
            "metadata": {"labels": labels}, "spec": {"topologySpreadConstraints": [constraint]},
        }));
        assert_eq!(read.unsupported, []);
        read.shape.constraints.spreads[0].clone()
    };
    let plain = spread(json!({}));
    assert_eq!(
        (plain.max_skew, plain.min_domains, plain.honors_affinity, plain.honors_taints),
        (2, 1, true, false)
    );
    assert_eq!(plain.pods.labels, None, "no selector selects nothing");
    let all = spread(
        json!({"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}),
    );
    assert_eq!((all.min_domains, all.honors_affinity, all.honors_taints), (3, false, true));
    let keyed = spread(json!({
        "labelSelector": {"matchLabels": {"hash": "h"}},
        "matchLabelKeys": ["hash", "app", "none"],
    }));
    let keys: Vec<_> =
        keyed.pods.labels.unwrap().into_iter().map(|requirement| requirement.key).collect();
    assert_eq!(keys, ["hash".into(), "app".into()], "each label that the pod has, once");
}

#[test]
fn pods_of_one_template_share_a_shape() {
    let mut interner = ShapeInterner::new();
    let mut read = |name: &str, index: &str| {
        let object = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"index": index}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        });
        Pod::from_kubernetes(&serde_json::from_value(object).unwrap(), &mut interner).unwrap()
    };
    assert!(Arc::ptr_eq(&read("a", "1").shape, &read("b", "2").shape));
}

#[test]
fn pods_that_ask_for_their_node_alone_and_those_that_stay_on_it() {
    let read = |metadata: Value| pod(&json!({"metadata": metadata, "spec": {}}));
    let asking = read(json!({"annotations": {"fluxqueue/exclusive": "true"}}));
    assert_eq!((asking.exclusive, asking.stays_on_its_node()), (Some(true), false));
    let odd = read(json!({"annotations": {"fluxqueue/exclusive": "1"}}));
    assert_eq!((odd.exclusive, odd.unsupported.len()), (None, 1));
    let of = |kind: &str| {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": true,
        });
        read(json!({"ownerReferences": [owner]})).stays_on_its_node()
    };
    assert_eq!(["DaemonSet", "Node", "ReplicaSet", "Job"].map(of), [true, true, false, false]);
}

#[test]
fn pods_that_ask_only_for_room_and_those_that_ask_for_more() {
    let asks_only_for_room = |parts: &Value| pod(parts).asks_only_for_room();
    let of_spec = |spec: Value| asks_only_for_room(&json!({"spec": spec}));
    let of_annotation = |name: &str, value: &str| {
        asks_only_for_room(&json!({"metadata": {"annotations": {name: value}}}))
    };
    let of_affinity = |kind: &str, strength: &str, term: Value| {
        let strength = format!("{strength}DuringSchedulingIgnoredDuringExecution");
        of_spec(json!({"affinity": {kind: {strength: [term]}}}))
    };
    let of_spread = |otherwise: &str| {
        let spread = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": otherwise});
        of_spec(json!({"topologySpreadConstraints": [spread]}))
    };
    let zone = json!({"topologyKey": "zone"});
    let rather = json!({"weight": 1, "podAffinityTerm": zone});
    let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});

    assert!(of_spec(json!({})));
    let by_node = json!({
        "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}],
        "nodeSelector": {"disk": "ssd"},
        "priority": 5,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "v", "rbd": {"monitors": ["m"], "image": "i"}}],
    });
    assert!(of_spec(by_node));
    assert!(of_annotation("fluxqueue/walltime", "1h"));

    let with_more = [
        ("levels", of_annotation("fluxqueue/required-level", "rack")),
        ("exclusive", of_annotation("fluxqueue/exclusive", "true")),
        ("not exclusive", of_annotation("fluxqueue/exclusive", "false")),
        ("claims", of_spec(json!({"volumes": [claim]}))),
        ("disks", of_spec(json!({"volumes": [{"name": "v", "cinder": {"volumeID": "i"}}]}))),
        ("near", of_affinity("podAffinity", "required", zone.clone())),
        ("repels", of_affinity("podAntiAffinity", "required", zone)),
        ("rather near", of_affinity("podAffinity", "preferred", rather.clone())),
        ("rather apart", of_affinity("podAntiAffinity", "preferred", rather)),
        ("spreads", of_spread("DoNotSchedule")),
        ("rather even", of_spread("ScheduleAnyway")),
    ];
    for (what, only_for_room) in with_more {
        assert!(!only_for_room, "{what}");
    }
}
