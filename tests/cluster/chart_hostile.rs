//! Values of the chart that make no sense, or that are meant to break its objects.
//!
//! The tests need Helm's binary (`make helm`), and no control plane.

use serde_json::{Value, json};

use crate::chart::{chart, image, templated, the, try_helm, try_template};

#[test]
fn values_that_make_no_sense_are_refused() {
    let cases = [
        ("replicaCount: 2", "replicaCount"),
        ("scheduler: {replica: 2}", "replica"),
        ("scheduler: {replicas: 0}", "/scheduler/replicas"),
        ("scheduler: {replicas: '2'}", "/scheduler/replicas"),
        // The API server would make another number of it.
        ("scheduler: {replicas: 99999999999}", "/scheduler/replicas"),
        ("webhook: {replicas: 101}", "/webhook/replicas"),
        ("settings: {queueDepth: 99999999999999999999}", "/settings/queueDepth"),
        ("settings: {gangStartTimeout: 99999999999999}", "/settings/gangStartTimeout"),
        ("podDisruptionBudget: {maxUnavailable: 500%}", "/podDisruptionBudget/maxUnavailable"),
        ("scheduler: {extraArgs: [log-level=debug]}", "/scheduler/extraArgs/0"),
        ("webhook: {enabled: 'yes'}", "/webhook/enabled"),
        (
            "webhook: {certManager: {issuerRef: {kind: Vault, name: x}}}",
            "/webhook/certManager/issuerRef",
        ),
        ("image: {tag: 1.0}", "/image/tag"),
        ("image: {digest: latest}", "/image/digest"),
        ("settings: {queuePolicy: fifo}", "/settings/queuePolicy"),
        ("settings: {queuepolicy: fcfs}", "queuepolicy"),
        ("settings: {topology: [{levels: [{name: rack}]}]}", "/settings/topology/0/levels/0"),
        ("settings: {bindConcurrency: 129}", "/settings/bindConcurrency"),
        ("settings: {schedulerNames: [default-scheduler]}", "/settings/schedulerNames/0"),
        ("metrics: {readers: [prometheus]}", "/metrics/readers/0"),
        // Without a name, a list of clients would admit all of them.
        ("networkPolicy: {clients: {webhook: []}}", "/networkPolicy/clients/webhook"),
        (
            "networkPolicy: {clients: {scheduler: [{cidr: 10.0.0.0/8}]}}",
            "/networkPolicy/clients/scheduler/0",
        ),
        ("networkPolicy: {egress: []}", "/networkPolicy/egress"),
        ("policies: {breakGlassGroup: \"it's\"}", "/policies/breakGlassGroup"),
        ("podDisruptionBudget: {maxUnavailable: some}", "/podDisruptionBudget/maxUnavailable"),
        ("roles: {queueAdmins: [{kind: ServiceAccount, name: ops}]}", "/roles/queueAdmins/0"),
        ("runAsUser: 0", "/runAsUser"),
        ("webhook: {enabled: true, ports: {webhook: 99999}}", "/webhook/ports/webhook"),
        ("webhook: {enabled: true, ports: {webhook: 8081}}", "webhook.ports"),
        ("image: {repository: ''}", "image.repository: name the image"),
        ("image: {repository: 'https://example.com/x'}", "/image/repository"),
        ("image: {repository: 'example.com/x:1.2'}", "/image/repository"),
        ("image: {repository: Example/x}", "/image/repository"),
        (
            "settings: {topology: [{levels: [{name: rack, nodeLabels: [a b]}]}]}",
            "/settings/topology/0/levels/0/nodeLabels/0",
        ),
        ("settings: {defaultWalltime: soon}", "/settings/defaultWalltime"),
        ("labels: {'a b': c}", "'a b'"),
        ("annotations: {'a b': c}", "'a b'"),
        // A key with nothing but comments behind it has the value null, which removes defaults.
        ("settings:", "missing property 'settings'"),
        ("labels:", "missing property 'labels'"),
        ("webhook: {enabled: true, certManager: }", "missing property 'certManager'"),
        ("networkPolicy: {clients: {scheduler: }}", "missing property 'scheduler'"),
        ("scheduler: {resources: }", "missing property 'resources'"),
        ("scheduler: {extraVolumes: [{name: settings}]}", "scheduler.extraVolumes: settings is"),
        (
            "scheduler: {extraEnv: [{name: A, value: a}, {name: A, value: b}]}",
            "scheduler.extraEnv: A is",
        ),
        (
            "webhook: {enabled: true, extraEnv: [{name: POD_NAMESPACE}]}",
            "webhook.extraEnv: POD_NAMESPACE is",
        ),
    ];
    for (values, named) in cases {
        let (ok, _, err) = try_template(values);
        assert!(!ok && err.contains(named), "{values}: {err}");
    }
    assert!(try_template("{runAsUser: , settings: {defaultWalltime: }}").0, "they may be null");
    // As a subchart it receives the values that all charts share.
    assert!(try_template("global: {imageRegistry: registry.example.com}").0);
    let (chart, image) = (chart(), image());
    let old = [
        "template",
        "fluxqueue",
        chart.to_str().expect("a path"),
        "--kube-version=1.35.0",
        "-f",
        &image,
        "-f",
        "-",
    ];
    let (ok, _, err) = try_helm(&old, "admissionPolicies: {enabled: true}");
    assert!(!ok && err.contains("admissionPolicies.enabled: needs Kubernetes 1.36"), "{err}");
}

/// Texts that end a quoted string, a line or a document, or that YAML reads as something else.
const HOSTILE: [&str; 9] = [
    "it's",
    "say \"no\"",
    "two\nlines",
    "\n---\nkind: Secret\n",
    "{{ .Values.image }}",
    "# no comment",
    "&anchor *alias !tag",
    "1e3",
    "~",
];

/// Where any text is allowed, each arrives as it was given. Elsewhere it is refused with the name
/// of the value.
#[test]
fn hostile_texts_arrive_as_they_are_or_are_refused_by_name() {
    let long = "x".repeat(300);
    let texts = || HOSTILE.into_iter().chain([long.as_str()]);
    for text in texts() {
        let values = json!({
            "annotations": {"note": text},
            "webhook": {"enabled": true},
            "scheduler": {
                "podAnnotations": {"note2": text},
                "extraEnv": [{"name": "A", "value": text}],
                "extraArgs": [format!("--flag={text}")],
            },
            "roles": {"queueAdmins": [{"kind": "User", "name": text}]},
        });
        let all = templated(&values.to_string());
        for ((kind, name), object) in &all {
            assert_eq!(object["metadata"]["annotations"]["note"], text, "{kind} {name}");
        }
        let template = &the(&all, "Deployment", "fluxqueue")["spec"]["template"];
        assert_eq!(template["metadata"]["annotations"]["note2"], text);
        let container = &template["spec"]["containers"][0];
        assert_eq!(container["env"][1]["value"], text);
        let flag = format!("--flag={text}");
        assert_eq!(container["args"].as_array().and_then(|args| args.last()), Some(&json!(flag)));
        let binding = the(&all, "ClusterRoleBinding", "fluxqueue-queue-admin");
        assert_eq!(binding["subjects"][0]["name"], text);
    }
    let names = [
        "/image/repository",
        "/image/registry",
        "/image/tag",
        "/labels/team",
        "/scheduler/priorityClassName",
        "/scheduler/nodeSelector/role",
        "/webhook/podLabels/team",
        "/scheduler/extraVolumes/0/name",
        "/settings/schedulerNames/0",
        "/metrics/readers/0/name",
        "/metrics/serviceMonitor/labels/release",
        "/metrics/serviceMonitor/interval",
        "/image/pullSecrets/0/name",
        "/policies/breakGlassGroup",
    ];
    for name in names {
        for text in texts().filter(|text| !is_plain(text)) {
            let mut value = json!(text);
            for part in name.split('/').rev().filter(|part| !part.is_empty()) {
                value = if part == "0" { json!([value]) } else { json!({part: value}) };
            }
            let (ok, _, err) = try_template(&value.to_string());
            assert!(!ok && err.contains(name), "{name} {text:?}: {err}");
        }
    }
}

/// True if a text is a name, though YAML without quotes would read it as a number.
fn is_plain(text: &str) -> bool {
    text == "1e3"
}

/// A number in place of a text is refused, not turned into a text of another form. A text that
/// looks like a number stays a text.
#[test]
fn numbers_and_texts_are_kept_apart() {
    for (values, named) in [
        ("labels: {team: 5}", "/labels/team"),
        ("annotations: {note: true}", "/annotations/note"),
        ("scheduler: {nodeSelector: {gpu: true}}", "/scheduler/nodeSelector/gpu"),
        ("scheduler: {extraEnv: [{name: A, value: 1}]}", "/scheduler/extraEnv/0/value"),
        ("webhook: {ports: {webhook: '9443'}}", "/webhook/ports/webhook"),
        ("runAsUser: '1000'", "/runAsUser"),
        ("settings: {queueDepth: '5'}", "/settings/queueDepth"),
    ] {
        let (ok, _, err) = try_template(values);
        assert!(!ok && err.contains(named), "{values}: {err}");
    }
    let all = templated(
        "{labels: {team: '5'}, image: {tag: '1.10'}, settings: {schedulerNames: ['1e3']}}",
    );
    let deployment = the(&all, "Deployment", "fluxqueue");
    assert_eq!(deployment["metadata"]["labels"]["team"], "5");
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "fluxqueue:1.10");
    let settings = the(&all, "ConfigMap", "fluxqueue")["data"]["config.yaml"].clone();
    let settings: Value = serde_saphyr::from_str(settings.as_str().expect("a text")).expect("YAML");
    assert_eq!(settings["schedulerNames"], json!(["1e3"]));
}

#[test]
fn a_namespace_that_cannot_be_is_refused() {
    let (chart, image) = (chart(), image());
    let chart = chart.to_str().expect("a path");
    let long = "x".repeat(64);
    for namespace in ["it's", "a: b", "two\nlines", "UPPER", &long] {
        let args = ["template", "fluxqueue", chart, "-f", &image, "-n", namespace];
        let (ok, _, err) = try_helm(&args, "");
        assert!(!ok && err.contains("namespace"), "{namespace:?}: {err}");
    }
}
