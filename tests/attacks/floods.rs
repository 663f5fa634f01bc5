//! Floods of connections, requests, bodies and tokens against both servers, and what-if questions
//! about jobs of others.

use std::time::Duration;

use serde_json::{Value, json};

use crate::flood::servers_hold_out;
use crate::harness::{ControlPlane, until};
use crate::promised::timed;
use crate::what_if::{Asking, FOUR};

/// Sends 200 slow clients, 200 silent clients and 200 requests a second to each server. Some bodies
/// become a hundred times as large when they are decoded, and some tokens are made up.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_flood_keeps_no_probe_no_known_client_and_no_job_waiting() {
    servers_hold_out(Duration::from_mins(1));
}

/// A submission that delays every job is a question about all jobs.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_what_if_request_names_no_waiting_job_of_another_namespace() {
    let plane = ControlPlane::start(FOUR, &[]);
    let (_fluxqueue, _, port) = plane.secured_fluxqueue(&[]);
    let (ours, theirs) = (plane.namespace("asking"), plane.namespace("asked-about"));
    ours.kubectl(&["create", "serviceaccount", "alice"]);
    let who = format!("--serviceaccount={}:alice", ours.name);
    ours.kubectl(&["create", "rolebinding", "alice", "--clusterrole=edit", &who]);
    let token = ours.kubectl(&["create", "token", "alice"]).trim().to_owned();
    let asking = Asking { ns: &ours, port, token };
    theirs.apply(&timed("runs", 4, 300, 300.0));
    theirs.running(4);
    theirs.apply(&timed("secret-project", 4, 300, 300.0));
    theirs.flux_job("secret-project", "is promised", |job| {
        job["status"]["reservation"] != Value::Null
    });
    plane.kubectl(&["create", "priorityclass", "urgent", "--value=1000"]);
    let urgent = timed("urgent", 4, 300, 300.0).replace(
        "schedulerName: fluxqueue",
        "schedulerName: fluxqueue\n      priorityClassName: urgent",
    );
    // The permission to create the job does not include the permission to ask.
    let (ok, text) = asking.ask(&urgent, "json");
    assert!(!ok && text.contains("may not create /what-if"), "{text}");
    asking.may_ask();
    let answer: Value = until("an answer", || {
        let (ok, text) = asking.ask(&urgent, "json");
        ok.then(|| serde_json::from_str(&text).expect("JSON"))
    });
    assert_eq!((&answer["delayed"], &answer["delayedCount"]), (&json!([]), &json!(1)), "{answer}");
    assert!(!answer.to_string().contains("secret-project"), "{answer}");
}
