//! Permissions of ordinary users: with the cluster's own roles view and edit, and with the extra
//! permission that each override needs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use crate::harness::{ControlPlane, Namespace, job, overrides, pod, shared, until};
use crate::webhook::{Files, free_port, install_trusting, process};

/// Runs kubectl as this user. Returns true if it succeeded, and its output.
fn as_user(ns: &Namespace<'_>, user: &str, args: &[&str]) -> (bool, String) {
    let all = [args, &["-n", &ns.name, "--as", user]].concat();
    let (ok, out, err) = ns.plane.try_kubectl(&all, "");
    (ok, format!("{out}{err}"))
}

/// Gives a user one of the cluster's roles in this namespace, and waits until the role is
/// aggregated.
fn give_role(ns: &Namespace<'_>, user: &str, role: &str) {
    ns.kubectl(&[
        "create",
        "rolebinding",
        user,
        &format!("--clusterrole={role}"),
        &format!("--user={user}"),
    ]);
    until("the role to be complete", || as_user(ns, user, &["get", "fluxjobs"]).0.then_some(()));
}

/// Sets this override of a FluxJob.
fn wish(ns: &Namespace<'_>, user: &str, job: &str, wish: &str) -> (bool, String) {
    as_user(ns, user, &["patch", "fluxjob", job, "--type=merge", "-p", &overrides(wish)])
}

/// Makes a namespace with a job that waits for ever, and returns the name of its FluxJob as well.
fn waiting(prefix: &str) -> (Namespace<'static>, String) {
    let ns = shared().namespace(prefix);
    ns.apply(&job("vast", 2, "300", "1"));
    let name =
        ns.state("vast", "Unsatisfiable")["metadata"]["name"].as_str().expect("a name").to_owned();
    (ns, name)
}

#[test]
fn a_viewer_sees_flux_jobs_and_changes_none() {
    let (ns, name) = waiting("viewer");
    let (ok, text) = as_user(&ns, "vera", &["get", "fluxjobs"]);
    assert!(!ok && text.contains("Forbidden"), "{text}");
    give_role(&ns, "vera", "view");
    let (ok, text) = as_user(&ns, "vera", &["get", "fluxjobs"]);
    assert!(ok && text.contains(&name), "{text}");
    let (ok, text) = wish(&ns, "vera", &name, r#""hold": true"#);
    assert!(!ok && text.contains("cannot patch"), "{text}");
    let (ok, text) = as_user(&ns, "vera", &["delete", "fluxjob", &name]);
    assert!(!ok && text.contains("cannot delete"), "{text}");
    let (ok, text) = as_user(&ns, "vera", &["get", "nodes"]);
    assert!(!ok, "{text}");
    let who = [
        "create",
        "clusterrolebinding",
        "vera",
        "--clusterrole=fluxqueue-cluster-reader",
        "--user=vera",
    ];
    ns.plane.kubectl(&who);
    until("the nodes to be shown", || as_user(&ns, "vera", &["get", "nodes"]).0.then_some(()));
}

#[test]
fn all_users_read_queues_and_administrators_of_queues_change_them() {
    let ns = shared().namespace("queue-users");
    let may =
        |user: &str, verb: &str, what: &str| as_user(&ns, user, &["auth", "can-i", verb, what]).0;
    until("queues to be shown", || may("quinn", "list", "fluxqueues").then_some(()));
    assert!(as_user(&ns, "quinn", &["get", "fluxqueues"]).0);
    let all_changes = ["create", "patch", "delete"];
    assert!(!all_changes.iter().any(|verb| may("quinn", verb, "fluxqueues")));
    ns.plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "quentin",
        "--clusterrole=fluxqueue-queue-admin",
        "--user=quentin",
    ]);
    until("the administrator to be one", || may("quentin", "create", "fluxqueues").then_some(()));
    assert!(all_changes.iter().all(|verb| may("quentin", verb, "fluxqueues")));
    let of_status = ["auth", "can-i", "patch", "fluxqueues", "--subresource=status"];
    assert!(!as_user(&ns, "quentin", &of_status).0, "that is the scheduler's");
}

#[test]
fn an_editor_wishes_what_could_have_been_submitted() {
    let (ns, name) = waiting("editor");
    give_role(&ns, "edith", "edit");
    for wished in [r#""hold": true"#, r#""walltimeSeconds": 60"#, r#""queueName": "gpu""#] {
        let (ok, text) = wish(&ns, "edith", &name, wished);
        assert!(ok, "{wished}: {text}");
    }
    ns.state("vast", "Held");
    // The placement is not hers to write.
    let status = r#"{"status": {"position": 1}}"#;
    let (ok, text) = as_user(
        &ns,
        "edith",
        &["patch", "fluxjob", &name, "--subresource=status", "--type=merge", "-p", status],
    );
    assert!(!ok && text.contains("cannot patch"), "{text}");
    assert!(as_user(&ns, "edith", &["delete", "fluxjob", &name]).0);
}

#[test]
fn a_priority_needs_the_right_to_use_its_class() {
    let (ns, name) = waiting("priority");
    give_role(&ns, "paul", "edit");
    for (class, value) in [("modest", 10), ("urgent", 1000)] {
        let name = format!("{class}-{}", ns.name);
        ns.plane.kubectl(&["create", "priorityclass", &name, &format!("--value={value}")]);
    }
    let (modest, urgent) = (format!("modest-{}", ns.name), format!("urgent-{}", ns.name));
    let (ok, text) = wish(&ns, "paul", &name, &format!(r#""priorityClassName": "{modest}""#));
    assert!(!ok && text.contains(&format!("needs verb use on priorityclasses {modest}")), "{text}");
    // kubectl creates no role with this verb by itself.
    let role = format!("use-{}", ns.name);
    ns.apply(&format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {role}}}
rules:
- {{apiGroups: [scheduling.k8s.io], resources: [priorityclasses], resourceNames: [{modest}], verbs: [use]}}
"
    ));
    ns.plane.kubectl(&[
        "create",
        "clusterrolebinding",
        &role,
        &format!("--clusterrole={role}"),
        "--user=paul",
    ]);
    until("the permission to count", || {
        wish(&ns, "paul", &name, &format!(r#""priorityClassName": "{modest}""#)).0.then_some(())
    });
    ns.flux_job("vast", "has the priority of the class", |job| job["status"]["priority"] == 10);
    let (ok, text) = wish(&ns, "paul", &name, &format!(r#""priorityClassName": "{urgent}""#));
    assert!(!ok && text.contains(&urgent), "{text}");
    // A user cannot remove an administrator's override.
    ns.wish(&name, &format!(r#""priorityClassName": "{urgent}""#));
    let (ok, text) = wish(&ns, "paul", &name, r#""priorityClassName": null"#);
    assert!(!ok && text.contains(&urgent), "{text}");
}

#[test]
fn each_wish_has_a_permission_of_its_own() {
    let (ns, name) = waiting("wishes");
    let resources = "--resource=fluxjobs.jobs.converged-computing.org";
    ns.kubectl(&["create", "role", "changer", "--verb=get,list,patch,update", resources]);
    ns.kubectl(&["create", "rolebinding", "hugo", "--role=changer", "--user=hugo"]);
    until("the role to count", || as_user(&ns, "hugo", &["get", "fluxjobs"]).0.then_some(()));
    let wishes = [
        ("hold", r#""hold": true"#),
        ("walltime", r#""walltimeSeconds": 60"#),
        ("queue", r#""queueName": "gpu""#),
    ];
    for (part, wished) in wishes {
        let (ok, text) = wish(&ns, "hugo", &name, wished);
        assert!(!ok && text.contains(&format!("needs verb update on fluxjobs/{part}")), "{text}");
        let resource = format!("{resources}/{part}");
        ns.kubectl(&["create", "role", part, "--verb=update", &resource]);
        ns.kubectl(&["create", "rolebinding", part, &format!("--role={part}"), "--user=hugo"]);
        until("the permission to count", || wish(&ns, "hugo", &name, wished).0.then_some(()));
    }
    // A change of other fields needs no such permission.
    let (ok, text) = as_user(&ns, "hugo", &["annotate", "fluxjob", &name, "note=mine"]);
    assert!(ok, "{text}");
}

/// Checks that this user is refused this command with a message that contains these words.
fn refused(ns: &Namespace<'_>, user: &str, words: &str, args: &[&str], stdin: &str) {
    let all = [args, &["-n", &ns.name, "--as", user]].concat();
    let (ok, out, error) = ns.plane.try_kubectl(&all, stdin);
    assert!(!ok && error.contains(words), "{args:?} {stdin}: {out}{error}");
}

#[test]
fn an_editor_lifts_no_hold_of_another_user() {
    let (ns, name) = waiting("holds");
    give_role(&ns, "edith", "edit");
    let admin = ns.kubectl(&["auth", "whoami", "-o=jsonpath={.status.userInfo.username}"]);
    ns.wish(&name, &format!(r#""holds": [{{"by": "{admin}", "reason": "audit"}}]"#));
    ns.state("vast", "Held");
    let patch = ["patch", "fluxjob", &name, "--type=merge", "-p"];
    let needs = "needs verb release on fluxjobs/hold";
    refused(&ns, "edith", needs, &[&patch[..], &[&overrides(r#""holds": null"#)]].concat(), "");
    refused(&ns, "edith", needs, &["delete", "fluxjob", &name], "");
    let forged = overrides(r#""holds": [{"by": "somebody"}]"#);
    refused(&ns, "edith", "under that name, and no other", &[&patch[..], &[&forged]].concat(), "");
    for (op, at) in [("add", "-"), ("remove", "1")] {
        let patch = format!(
            r#"[{{"op": "{op}", "path": "/spec/overrides/holds/{at}", "value": {{"by": "edith"}}}}]"#
        );
        let (ok, text) =
            as_user(&ns, "edith", &["patch", "fluxjob", &name, "--type=json", "-p", &patch]);
        assert!(ok, "her own hold: {text}");
    }
    ns.state("vast", "Held");
}

#[test]
fn an_owner_of_a_namespace_writes_no_records_there() {
    let (ns, name) = waiting("owner");
    give_role(&ns, "olga", "cluster-admin");
    let status = ["patch", "fluxjob", &name, "--subresource=status", "--type=merge", "-p"];
    let forged =
        r#"{"status": {"queuedAt": "1970-01-01T00:00:00.000000Z", "priority": 2000000000}}"#;
    refused(
        &ns,
        "olga",
        "status is written by Fluxqueue alone",
        &[&status[..], &[forged]].concat(),
        "",
    );
    let charged = pod("charged", "100m", "1", "  annotations: {fluxqueue/charged-queue: other}");
    refused(&ns, "olga", "written by Fluxqueue alone", &["create", "-f", "-"], &charged);
    let forged = "{apiVersion: jobs.converged-computing.org/v1alpha1, kind: FluxJob, metadata: {name: forged},
        spec: {workloadRef: {kind: Group, name: g, uid: u}}}";
    refused(&ns, "olga", "denied request", &["create", "-f", "-"], forged);
}

#[test]
fn a_namespace_that_requires_fluxqueue_takes_no_pod_past_it() {
    let ns = shared().namespace("required");
    give_role(&ns, "rita", "edit");
    ns.plane.kubectl(&["label", "namespace", &ns.name, "fluxqueue/required=enabled"]);
    let plain = pod("plain", "100m", "1", "");
    let other = plain.replace("schedulerName: fluxqueue", "schedulerName: default-scheduler");
    let dry_run = ["create", "--dry-run=server", "-n", &ns.name, "--as=rita", "-f", "-"];
    until("the label to count", || (!ns.plane.try_kubectl(&dry_run, &other).0).then_some(()));
    let words = "this namespace requires fluxqueue";
    refused(&ns, "rita", words, &["create", "-f", "-"], &other);
    let on_node =
        plain.replace("schedulerName: fluxqueue", "schedulerName: fluxqueue\n  nodeName: n-0");
    refused(&ns, "rita", "chooses the node", &["create", "-f", "-"], &on_node);
    refused(&ns, "rita", words, &["create", "deployment", "x", "--image=busybox"], "");
    ns.apply(&plain);
    ns.succeeded(1);
}

/// A user without the right to extend a walltime cannot change it by an annotation either, and
/// Fluxqueue itself changes no such annotation.
#[test]
fn annotations_of_a_running_pod_need_a_permission_to_change() {
    let ns = shared().namespace("annotated");
    ns.apply(&pod("runs", "100m", "infinity", "  annotations: {fluxqueue/walltime: 1h}"));
    ns.running(1);
    ns.kubectl(&[
        "create",
        "role",
        "patcher",
        "--verb=get,list,patch,update",
        "--resource=pods,fluxjobs",
    ]);
    ns.kubectl(&["create", "rolebinding", "hugo", "--role=patcher", "--user=hugo"]);
    until("the role to count", || as_user(&ns, "hugo", &["get", "pods"]).0.then_some(()));
    let needs = "needs verb update on fluxjobs/walltime";
    refused(
        &ns,
        "hugo",
        needs,
        &["annotate", "pod", "runs", "--overwrite", "fluxqueue/walltime=1s"],
        "",
    );
    refused(&ns, "hugo", needs, &["annotate", "pod", "runs", "fluxqueue/walltime-"], "");
    let fluxqueue = "system:serviceaccount:fluxqueue-system:fluxqueue";
    let relabel = ["label", "pod", "runs", "fluxqueue/queue-name=other"];
    refused(&ns, fluxqueue, "Fluxqueue changes nothing there", &relabel, "");
}

/// Returns the status code and the answer over TLS. Only this certificate is trusted.
fn get(
    certificate: &rcgen::Certificate,
    port: u16,
    path: &str,
    token: Option<&str>,
) -> (u16, String) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let client =
        client.expect("versions of TLS").with_root_certificates(roots).with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let connection = rustls::ClientConnection::new(Arc::new(client), name).expect("a connection");
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut stream = rustls::StreamOwned::new(connection, socket);
    let header =
        token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n{header}\r\n").as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    // Some servers close without the notice that TLS requires. The bytes before that are the
    // answer.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status code");
    (code, answer)
}

fn status_of(certificate: &rcgen::Certificate, port: u16, path: &str, token: Option<&str>) -> u16 {
    get(certificate, port, path, token).0
}

/// Returns the port that a process logs after this word.
fn port_after(plane: &ControlPlane, log: &str, word: &str) -> u16 {
    until("its port", || {
        let log = std::fs::read_to_string(plane.dir.join(log)).ok()?;
        let rest = log.split_once(word)?.1.split_once(':')?.1;
        rest.split_whitespace().next()?.parse::<u16>().ok()
    })
}

/// Makes a service account, and returns a token of it.
fn account_with_token(ns: &Namespace<'_>, name: &str) -> String {
    ns.kubectl(&["create", "serviceaccount", name]);
    ns.kubectl(&["create", "token", name]).trim().to_owned()
}

#[test]
fn the_webhook_counts_questions_and_shows_them_to_clients_that_the_api_server_allows() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 1, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let files = Files::in_dir(&plane);
    files.write(&made.cert, &made.signing_key);
    let webhook_port = free_port();
    install_trusting(&plane, webhook_port, &made.cert.pem());
    let kubeconfig = format!("--kubeconfig={}", plane.account("fluxqueue-webhook").display());
    let [certificate, key] = files.flags();
    let flags = ["--metrics-bind-address=0.0.0.0:0", &kubeconfig, &certificate, &key];
    let _webhook = process(&plane, webhook_port, &flags);
    let port = port_after(&plane, "webhook.log", "metrics=0.0.0.0");
    let ns = plane.namespace("counted");
    let token = account_with_token(&ns, "prometheus");
    let status = |path, token: Option<&str>| status_of(&made.cert, port, path, token);
    assert_eq!((status("/metrics", None), status("/metrics", Some(&token))), (401, 403));
    let who = format!("--serviceaccount={}:prometheus", ns.name);
    plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "prometheus",
        "--clusterrole=fluxqueue-metrics-reader",
        &who,
    ]);
    until("the role to count", || (status("/metrics", Some(&token)) == 200).then_some(()));
    let value = |of: &str| {
        let text = get(&made.cert, port, "/metrics", Some(&token)).1;
        let line = text.lines().find_map(|line| line.strip_prefix(of)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("{of} in {text}"))
    };
    let refused = r#"fluxqueue_webhook_requests_total{question="validate",answer="refused"}"#;
    assert_eq!(value(refused), 0);
    plane.kubectl(&[
        "label",
        "namespace",
        &ns.name,
        "fluxqueue/admission=enabled",
        "fluxqueue/strict=enabled",
    ]);
    let half = pod("half", "100m", "1", "  labels: {fluxqueue/pod-group: g}");
    until("a refusal", || {
        let (ok, _, _) =
            plane.try_kubectl(&["create", "-n", &ns.name, "--dry-run=server", "-f", "-"], &half);
        (!ok).then_some(())
    });
    assert_eq!(value(refused), 1);
    assert!(value(r#"fluxqueue_webhook_request_duration_seconds_count{question="validate"}"#) >= 1);
}

#[test]
fn metrics_are_for_clients_that_the_api_server_allows() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 1, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let (_fluxqueue, certificate, port) = plane.secured_fluxqueue(&[]);
    let ns = plane.namespace("metrics");
    let token = account_with_token(&ns, "prometheus");
    let status = |path, token: Option<&str>| status_of(&certificate, port, path, token);
    assert_eq!((status("/livez", None), status("/metrics", None)), (200, 401));
    assert_eq!(
        (status("/metrics", Some("nonsense")), status("/metrics", Some(&token))),
        (401, 403)
    );
    let who = format!("--serviceaccount={}:prometheus", ns.name);
    plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "prometheus",
        "--clusterrole=fluxqueue-metrics-reader",
        &who,
    ]);
    until("the role to count", || (status("/metrics", Some(&token)) == 200).then_some(()));
    assert_eq!(status("/debug/state", Some(&token)), 403, "it shows every namespace");
}
