//! The effects of the values of the chart.
//!
//! The tests need Helm's binary (`make helm`), and no control plane.

use serde_json::{Value, json};

use crate::chart::{Objects, chart, find, image, objects, templated, the, try_helm};

/// Path of the pod in a Deployment.
const POD: &str = "/spec/template/spec";
const CONTAINER: &str = "/spec/template/spec/containers/0";

#[test]
fn every_value_of_deployments_goes_where_it_belongs() {
    let each = |values: &str| {
        format!("{{scheduler: {values}, webhook: {{enabled: true, {}", &values[1..]) + "}"
    };
    let (pod, container) = (POD, CONTAINER);
    let of_deployments = [
        ("{replicas: 3}", "/spec/replicas".to_owned(), json!(3)),
        (
            "{resources: {requests: {cpu: 2}}}",
            format!("{container}/resources/requests/cpu"),
            json!(2),
        ),
        ("{priorityClassName: ''}", format!("{pod}/priorityClassName"), Value::Null),
        ("{nodeSelector: {role: infra}}", format!("{pod}/nodeSelector"), json!({"role": "infra"})),
        (
            "{tolerations: [{operator: Exists}]}",
            format!("{pod}/tolerations"),
            json!([{"operator": "Exists"}]),
        ),
        ("{affinity: {nodeAffinity: {}}}", format!("{pod}/affinity"), json!({"nodeAffinity": {}})),
        (
            "{topologySpreadConstraints: [{maxSkew: 1, labelSelector: {}}]}",
            format!("{pod}/topologySpreadConstraints"),
            json!([{"maxSkew": 1, "labelSelector": {}}]),
        ),
        (
            "{extraEnv: [{name: HTTPS_PROXY, value: 'http://proxy:3128'}]}",
            format!("{container}/env/1"),
            json!({"name": "HTTPS_PROXY", "value": "http://proxy:3128"}),
        ),
        (
            "{podLabels: {team: hpc}}",
            "/spec/template/metadata/labels/team".to_owned(),
            json!("hpc"),
        ),
        (
            "{podAnnotations: {note: x}}",
            "/spec/template/metadata/annotations/note".to_owned(),
            json!("x"),
        ),
    ];
    for (values, pointer, expected) in of_deployments {
        let objects = templated(&each(values));
        for name in ["fluxqueue", "fluxqueue-webhook"] {
            let deployment = &objects[&("Deployment".to_owned(), name.to_owned())];
            let found = deployment.pointer(&pointer).cloned().unwrap_or_default();
            assert_eq!(found, expected, "{values} of {name}");
            // The selector of the Deployment stays as it is.
            assert_eq!(
                deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"],
                deployment["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
            );
        }
    }
}

#[test]
fn every_value_of_single_objects_goes_where_it_belongs() {
    let (pod, container) = (POD, CONTAINER);
    let digest = format!("sha256:{}", "a".repeat(64));
    let values = format!(
        "
image: {{repository: registry.example.com/fluxqueue, tag: '1', digest: '{digest}', pullPolicy: Always, pullSecrets: [{{name: s}}]}}
settings:
  schedulerNames: [hpc, fluence]
  queueDepth: 1000000
  recordLonePods: true
  topology: [{{levels: [{{name: rack, nodeLabels: [example.com/rack]}}]}}]
scheduler: {{extraArgs: [--log-level=debug]}}
webhook: {{enabled: true, extraArgs: [--log-level=debug], certManager: {{enabled: true, issuerRef: {{kind: ClusterIssuer, name: ca}}}}}}
metrics:
  readers: [{{namespace: monitoring, name: prometheus}}]
  serviceMonitor: {{enabled: true, interval: 10s, labels: {{release: prometheus}}}}
podDisruptionBudget: {{enabled: false}}
networkPolicy: {{enabled: false}}
policies: {{breakGlassGroup: 'ops:repairs'}}
crds: {{keep: false}}
"
    );
    let objects = templated(&values);
    let at = |kind: &str, name: &str, pointer: &str| {
        let object = objects.get(&(kind.to_owned(), name.to_owned()));
        object.and_then(|object| object.pointer(pointer)).cloned().unwrap_or_default()
    };
    for name in ["fluxqueue", "fluxqueue-webhook"] {
        let container = at("Deployment", name, container);
        assert_eq!(container["image"], format!("registry.example.com/fluxqueue@{digest}"));
        assert_eq!(container["imagePullPolicy"], "Always");
        assert!(
            container["args"].as_array().expect("args").contains(&json!("--log-level=debug")),
            "{container}"
        );
        assert_eq!(
            at("Deployment", name, &format!("{pod}/imagePullSecrets")),
            json!([{"name": "s"}])
        );
    }
    let args = at("Deployment", "fluxqueue-webhook", &format!("{container}/args"));
    let names = ["--scheduler-name=hpc", "--scheduler-name=fluence"].map(Value::from);
    assert!(names.iter().all(|name| args.as_array().expect("args").contains(name)), "{args}");
    let settings = at("ConfigMap", "fluxqueue", "/data/config.yaml");
    for line in ["queueDepth: 1000000", "recordLonePods: true", "kind: FluxqueueConfiguration"] {
        assert!(
            settings.as_str().expect("a text").lines().any(|other| other == line),
            "{line} in {settings}"
        );
    }
    let other = templated("settings: {queueDepth: 2}");
    let checksum = |objects: &Objects| {
        objects[&("Deployment".to_owned(), "fluxqueue".to_owned())]["spec"]["template"]["metadata"]
            ["annotations"]["checksum/settings"]
            .clone()
    };
    assert_ne!(checksum(&objects), checksum(&other), "other settings restart the replicas");
    assert_eq!(
        at("Certificate", "fluxqueue-webhook", "/spec/issuerRef"),
        json!({"kind": "ClusterIssuer", "name": "ca"})
    );
    assert_eq!(
        at("ClusterRoleBinding", "fluxqueue-metrics-reader", "/subjects/0/name"),
        "prometheus"
    );
    assert_eq!(at("ServiceMonitor", "fluxqueue", "/metadata/labels/release"), "prometheus");
    assert_eq!(at("ServiceMonitor", "fluxqueue", "/spec/endpoints/0/interval"), "10s");
    let port = at("ServiceMonitor", "fluxqueue", "/spec/endpoints/0/port");
    assert_eq!(port, at("Service", "fluxqueue-metrics", "/spec/ports/0/name"));
    let policy = |name: &str, pointer: &str| at("ValidatingAdmissionPolicy", name, pointer);
    let served = policy("fluxqueue-required", "/spec/variables/0/expression");
    assert_eq!(served, r#"["hpc","fluence"]"#);
    for name in ["fluxqueue-wishes", "fluxqueue-records", "fluxqueue-required"] {
        let excepted = policy(name, "/spec/matchConditions/0/expression");
        assert!(excepted.as_str().expect("a text").contains("'ops:repairs'"), "{name}: {excepted}");
    }
    for gone in ["PodDisruptionBudget", "NetworkPolicy", "Issuer"] {
        assert!(!objects.keys().any(|(kind, _)| kind == gone), "{gone}");
    }
    assert_eq!(
        at(
            "CustomResourceDefinition",
            "fluxjobs.jobs.converged-computing.org",
            "/metadata/annotations"
        ),
        Value::Null
    );
}

#[test]
fn policies_name_the_clients_and_servers_that_they_are_given() {
    let block = |cidr: &str| json!([{"ipBlock": {"cidr": cidr}}]);
    let policies = templated(
        "
webhook: {enabled: true}
networkPolicy:
  clients:
    scheduler: [{ipBlock: {cidr: 192.0.2.1/32}}]
    webhook: [{ipBlock: {cidr: 192.0.2.2/32}}]
    webhookMetrics: [{ipBlock: {cidr: 192.0.2.3/32}}]
  egress: [{to: [{ipBlock: {cidr: 192.0.2.4/32}}], ports: [{port: 6443}]}]
",
    );
    let clients = [
        ("fluxqueue", 0, "metrics", "192.0.2.1/32"),
        ("fluxqueue-webhook", 0, "webhook", "192.0.2.2/32"),
        ("fluxqueue-webhook", 1, "metrics", "192.0.2.3/32"),
    ];
    for (name, rule, port, cidr) in clients {
        let spec = &policies[&("NetworkPolicy".to_owned(), name.to_owned())]["spec"];
        let rule = &spec["ingress"][rule];
        assert_eq!(
            (&rule["from"], &rule["ports"][0]["port"]),
            (&block(cidr), &json!(port)),
            "{name}"
        );
        assert_eq!(
            spec["egress"],
            json!([{"to": block("192.0.2.4/32"), "ports": [{"port": 6443}]}])
        );
        assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    }
}

/// The names of the two Deployments.
const DEPLOYMENTS: [&str; 2] = ["fluxqueue", "fluxqueue-webhook"];

/// On a cluster that assigns users itself, such as OpenShift, the pods name none.
#[test]
fn processes_run_as_the_user_that_values_or_the_cluster_say() {
    let user = |values: &str| {
        let objects = templated(&format!("{values}\nwebhook: {{enabled: true}}"));
        DEPLOYMENTS.map(|name| {
            let context =
                &the(&objects, "Deployment", name)["spec"]["template"]["spec"]["securityContext"];
            assert_eq!(context["runAsNonRoot"], true);
            (context.get("runAsUser").cloned(), context.get("runAsGroup").cloned())
        })
    };
    let both = |id: u64| [(Some(json!(id)), Some(json!(id))), (Some(json!(id)), Some(json!(id)))];
    assert_eq!(user(""), both(65532));
    assert_eq!(user("runAsUser: 1000650000"), both(1_000_650_000));
    assert_eq!(user("runAsUser: null"), [(None, None), (None, None)]);
}

#[test]
fn every_object_has_the_labels_and_annotations_that_values_say() {
    let values = "
labels: {team: hpc, app.kubernetes.io/name: other}
annotations: {example.com/note: 'a: \"b\"'}
webhook: {enabled: true, certManager: {enabled: true, issuerRef: {name: ca}}}
metrics: {readers: [{namespace: a, name: b}], serviceMonitor: {enabled: true}}
roles: {queueAdmins: [{kind: Group, name: admins}]}
";
    let all = templated(values);
    assert!(all.len() > 40, "{}", all.len());
    for ((kind, name), object) in &all {
        let (labels, annotations) =
            (&object["metadata"]["labels"], &object["metadata"]["annotations"]);
        assert_eq!(labels["team"], "hpc", "{kind} {name}");
        assert_eq!(annotations["example.com/note"], "a: \"b\"", "{kind} {name}");
        if kind == "Deployment" {
            let pod = &object["spec"]["template"]["metadata"];
            assert_eq!(
                (&pod["labels"]["team"], &pod["labels"]["app.kubernetes.io/name"]),
                (&json!("hpc"), &json!("fluxqueue")),
                "{name}"
            );
            assert_eq!(pod["annotations"]["example.com/note"], "a: \"b\"", "{name}");
        }
    }
}

#[test]
fn volumes_of_values_stand_beside_those_of_the_chart() {
    let more = "extraVolumes: [{name: tls, secret: {secretName: s}}], \
                extraVolumeMounts: [{name: tls, mountPath: /tls, readOnly: true}]";
    let all = templated(&format!("{{scheduler: {{{more}}}, webhook: {{enabled: true, {more}}}}}"));
    for (name, of_volumes) in
        [("fluxqueue", vec!["settings", "tls"]), (DEPLOYMENTS[1], vec!["tls"])]
    {
        let pod = &the(&all, "Deployment", name)["spec"]["template"]["spec"];
        let names = |list: &Value| {
            let names = list.as_array().into_iter().flatten().map(|it| it["name"].clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&pod["volumes"]), of_volumes, "{name}");
        assert_eq!(names(&pod["containers"][0]["volumeMounts"]), of_volumes, "{name}");
    }
}

/// A spread constraint without a selector gets that of its Deployment: otherwise it would count no
/// pods, and spread nothing.
#[test]
fn replicas_are_spread_among_themselves() {
    let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone}]";
    let all =
        templated(&format!("{{scheduler: {{{spread}}}, webhook: {{enabled: true, {spread}}}}}"));
    for name in DEPLOYMENTS {
        let spec = &the(&all, "Deployment", name)["spec"];
        let constraint = &spec["template"]["spec"]["topologySpreadConstraints"][0];
        assert_eq!(constraint["labelSelector"], spec["selector"], "{name}");
    }
}

#[test]
fn the_webhook_listens_where_it_is_told_also_on_the_network_of_its_node() {
    let values = "{webhook: {enabled: true, hostNetwork: true, \
                  ports: {webhook: 10250, metrics: 10251, health: 10252}}}";
    let all = templated(values);
    let spec = &the(&all, "Deployment", "fluxqueue-webhook")["spec"];
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["dnsPolicy"], "ClusterFirstWithHostNet");
    // The old and the new pod use the same host port.
    assert_eq!(spec["strategy"]["rollingUpdate"], json!({"maxUnavailable": 1, "maxSurge": 0}));
    let container = &pod["containers"][0];
    let ports: Vec<_> = container["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .map(|port| (port["name"].as_str().expect("a name"), port["containerPort"].clone()))
        .collect();
    let expected = [("webhook", json!(10250)), ("metrics", json!(10251)), ("health", json!(10252))];
    assert_eq!(ports, expected);
    let args = container["args"].as_array().expect("args");
    for flag in
        ["--bind-address=:10250", "--metrics-bind-address=:10251", "--health-bind-address=:10252"]
    {
        let (name, _) = flag.split_once('=').expect("a value");
        let same: Vec<_> = args
            .iter()
            .filter(|arg| arg.as_str().is_some_and(|arg| arg.starts_with(name)))
            .collect();
        assert_eq!(same, [flag], "given once");
    }
    // Services find the ports by name.
    for (service, port) in
        [("fluxqueue-webhook", "webhook"), ("fluxqueue-webhook-metrics", "metrics")]
    {
        assert_eq!(the(&all, "Service", service)["spec"]["ports"][0]["targetPort"], port);
    }
}

#[test]
fn the_monitor_asks_as_values_say() {
    let of = |values: &str| {
        let values = format!("metrics: {{serviceMonitor: {{enabled: true, {values}}}}}");
        the(&templated(&values), "ServiceMonitor", "fluxqueue").clone()
    };
    let plain = of("");
    let endpoint = &plain["spec"]["endpoints"][0];
    assert_eq!(endpoint["tlsConfig"], json!({"insecureSkipVerify": true}));
    assert!(endpoint["bearerTokenFile"].is_string() && endpoint["authorization"].is_null());
    let monitor = of("namespace: monitoring, scrapeTimeout: 5s, \
                      tlsConfig: {insecureSkipVerify: false, serverName: fluxqueue}, \
                      credentials: {name: reader, key: token}, \
                      relabelings: [{action: labelmap, regex: 'a(\"|'')'}], \
                      metricRelabelings: [{action: drop}]");
    assert_eq!(monitor["metadata"]["namespace"], "monitoring");
    assert_eq!(monitor["spec"]["namespaceSelector"], json!({"matchNames": ["fluxqueue-system"]}));
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(endpoint["scrapeTimeout"], "5s");
    assert_eq!(
        endpoint["tlsConfig"],
        json!({"insecureSkipVerify": false, "serverName": "fluxqueue"})
    );
    assert_eq!(
        endpoint["authorization"],
        json!({"type": "Bearer", "credentials": {"name": "reader", "key": "token"}})
    );
    assert!(endpoint["bearerTokenFile"].is_null());
    assert_eq!(endpoint["relabelings"][0]["regex"], "a(\"|')");
    assert_eq!(endpoint["metricRelabelings"], json!([{"action": "drop"}]));
}

#[test]
fn queues_are_read_and_administered_by_those_that_values_name() {
    let subjects = |values: &str, role: &str| {
        let all = templated(values);
        the(&all, "ClusterRole", role);
        find(&all, "ClusterRoleBinding", role).map(|binding| {
            assert_eq!(binding["roleRef"]["name"], role);
            binding["subjects"].clone()
        })
    };
    let api_group = "rbac.authorization.k8s.io";
    let group = |name: &str| json!([{"apiGroup": api_group, "kind": "Group", "name": name}]);
    let (reader, admin) = ("fluxqueue-queue-reader", "fluxqueue-queue-admin");
    assert_eq!(subjects("", reader), Some(group("system:authenticated")));
    assert_eq!(subjects("", admin), None);
    assert_eq!(subjects("roles: {queueReaders: []}", reader), None);
    let values = r#"roles: {queueAdmins: [{kind: Group, name: "it\"s: a\nline"}]}"#;
    assert_eq!(subjects(values, admin), Some(group("it\"s: a\nline")));
    let values = "roles: {queueAdmins: [{kind: ServiceAccount, name: a, namespace: b}]}";
    let account = json!([{"kind": "ServiceAccount", "name": "a", "namespace": "b"}]);
    assert_eq!(subjects(values, admin), Some(account));
}

#[test]
fn the_default_walltime_is_a_day_unless_values_say_otherwise() {
    let settings = |values: &str| {
        let all = templated(values);
        let text = &the(&all, "ConfigMap", "fluxqueue")["data"]["config.yaml"];
        let settings: Value = serde_saphyr::from_str(text.as_str().expect("a text")).expect("YAML");
        settings.get("defaultWalltime").cloned()
    };
    assert_eq!(settings(""), Some(json!("24h")));
    assert_eq!(settings("settings: {queueDepth: 5}"), Some(json!("24h")));
    assert_eq!(settings("settings: {defaultWalltime: 1h30m}"), Some(json!("1h30m")));
    assert_eq!(settings("settings: {defaultWalltime: null}"), None);
    for (values, said) in [
        ("", "is planned with 24h (settings.defaultWalltime)"),
        ("settings: {defaultWalltime: null}", "has no known end"),
    ] {
        let notes = notes(values);
        assert!(notes.contains(said), "{notes}");
    }
}

/// Returns the notes that `helm install` prints at its end.
fn notes(values: &str) -> String {
    let (chart, image) = (chart(), image());
    let chart = chart.to_str().expect("a path");
    let args =
        ["install", "fluxqueue", chart, "-n", "hpc", "--dry-run=client", "-f", &image, "-f", "-"];
    let (ok, out, err) = try_helm(&args, values);
    assert!(ok, "{err}");
    out.split_once("\nNOTES:\n").expect("notes").1.to_owned()
}

#[test]
fn the_notes_say_what_to_do_next() {
    let notes = notes("{settings: {schedulerNames: [batch]}, image: {digest: ''}}");
    let commands: Vec<_> = notes.lines().filter(|line| line.starts_with("  ")).collect();
    let [up, submit, look] = &commands[..] else { panic!("{notes}") };
    assert!(up.contains("-n hpc rollout status") && up.contains("helm test fluxqueue -n hpc"));
    assert!(submit.contains(r#"{"schedulerName":"batch"}"#), "{submit}");
    assert_eq!(*look, "  kubectl get fluxjobs");
}

#[test]
fn the_chart_names_no_image_and_says_so_in_one_sentence() {
    let chart = chart();
    let args = ["template", "fluxqueue", chart.to_str().expect("a path")];
    let (ok, _, err) = try_helm(&args, "");
    assert!(!ok, "{err}");
    let said = "image.repository: name the image that you have built and pushed, \
                as in --set image.repository=registry.example.com/fluxqueue";
    assert!(err.contains(said), "{err}");
    let image = |values: &str| {
        let all = templated(values);
        the(&all, "Deployment", "fluxqueue")["spec"]["template"]["spec"]["containers"][0]["image"]
            .clone()
    };
    let values = "image: {registry: 'registry.example.com:5000/mirror', repository: hpc/fluxqueue}";
    assert_eq!(image(values), "registry.example.com:5000/mirror/hpc/fluxqueue:0.1.0");
}

/// The pod of `helm test` goes to Fluxqueue, and meets the restricted pod security standard.
#[test]
fn helm_test_submits_a_pod_to_fluxqueue() {
    let (chart, image) = (chart(), image());
    let chart = chart.to_str().expect("a path");
    let only = "--show-only=templates/tests/placement.yaml";
    let args = ["template", "fluxqueue", chart, "-n", "hpc", only, "-f", &image, "-f", "-"];
    let values = "{settings: {schedulerNames: [batch]}, image: {pullSecrets: [{name: s}]}, \
                  test: {nodeSelector: {kind: cpu}, podAnnotations: {note: 'x: y'}}}";
    let (ok, out, err) = try_helm(&args, values);
    assert!(ok, "{err}");
    let all = objects(&out);
    let pod = the(&all, "Pod", "fluxqueue-test");
    assert_eq!(pod["metadata"]["annotations"]["helm.sh/hook"], "test");
    assert_eq!(pod["metadata"]["annotations"]["note"], "x: y");
    assert_eq!(pod["metadata"]["namespace"], "hpc");
    let spec = &pod["spec"];
    assert_eq!(spec["schedulerName"], "batch");
    assert_eq!(spec["nodeSelector"], json!({"kind": "cpu"}));
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "s"}]));
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    assert_eq!(spec["containers"][0]["image"], "fluxqueue:0.1.0");
}
