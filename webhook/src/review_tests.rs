use serde_json::{Value, json};

use super::*;

fn review(kind: &str, object: &str) -> String {
    let group = if kind == "Pod" { "" } else { "batch" };
    let kind = json!({"group": group, "version": "v1", "kind": kind});
    format!(
        r#"{{"request": {{
            "uid": "u", "kind": {kind}, "operation": "CREATE", "object": {object}
        }}}}"#
    )
}

/// Memory grows by the text of an object alone if none of its content is read.
#[test]
fn unread_fields_are_not_decoded() {
    let bomb = r#"{"":0},"#.repeat(1_000_000);
    let object = format!(
        r#"{{"metadata": {{"name": "x"}}, "status": [{bomb}0], "spec": {{"a": [{bomb}0]}}}}"#
    );
    let text = review("Job", &object);
    let before = resident_kib();
    let requests: Vec<Request<'_>> =
        (0..5).map(|_| Request::read(text.as_bytes()).unwrap()).collect();
    assert!(requests.iter().all(|request| request.object.as_ref().unwrap().pod.is_none()));
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB");
}

/// Returns the kernel's count of the memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_spec_with_too_many_values_is_not_decoded() {
    let pod = |containers: usize| {
        let containers = vec![json!({}); containers];
        json!({"metadata": {}, "spec": {"schedulerName": "fluxqueue", "containers": containers}})
    };
    for (containers, is_too_large) in [(1_000, false), (SPEC_VALUES_MAX, true)] {
        let text = review("Pod", &pod(containers).to_string());
        let request = Request::read(text.as_bytes()).unwrap();
        let part = request.object.unwrap().pod.unwrap();
        assert_eq!((part.is_too_large(), part.spec().is_none()), (is_too_large, is_too_large));
        assert_eq!(part.scheduler(), "fluxqueue");
    }
}

#[test]
fn metadata_that_cannot_be_read_is_an_error() {
    let owners = format!("[{}]", vec!["{}"; METADATA_VALUES_MAX].join(","));
    for metadata in [
        format!(r#"{{"ownerReferences": {owners}}}"#),
        r#"{"labels": 1}"#.to_owned(),
        "1".to_owned(),
    ] {
        let text = review("Pod", &format!(r#"{{"metadata": {metadata}, "spec": {{}}}}"#));
        assert!(Request::read(text.as_bytes()).is_err(), "{}", &metadata[..20.min(metadata.len())]);
    }
    let text = review("Pod", r#"{"metadata": null, "spec": {}}"#);
    assert!(Request::read(text.as_bytes()).unwrap().object.unwrap().pod.is_some());
}

#[test]
fn templates_differ_by_their_content() {
    let job = |template: &str| {
        review("Job", &format!(r#"{{"metadata": {{}}, "spec": {{"template": {template}}}}}"#))
    };
    let one = job(r#"{"spec": {"a": 1, "b": [2]}}"#);
    let differs = |other: String| {
        let read = |text: &'static str| Request::read(text.as_bytes()).unwrap().object.unwrap();
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        read(leak(&one)).has_other_template(&read(leak(&other)))
    };
    assert!(!differs(one.clone()) && !differs(job(r#"{"spec":{"b":[2],"a":1}}"#)));
    assert!(differs(job(r#"{"spec": {"a": 1, "b": [3]}}"#)));
    assert!(differs(review("Job", &json!({"metadata": {}, "spec": Value::Null}).to_string())));
}
