use serde_json::{Value, json};

use super::*;
use crate::mutate::tests::request;

fn judged(kind: &str, object: Value, old: Option<Value>) -> Vec<String> {
    let admission =
        Admission::new(vec!["fluxqueue".to_owned()], "fluxqueue-system".to_owned()).unwrap();
    let findings = admission.judge(&request(kind, object, old));
    findings
        .problems
        .into_iter()
        .map(|problem| format!("{}: {}", problem.field, problem.message))
        .collect()
}

fn problems(kind: &str, object: Value) -> Vec<String> {
    judged(kind, object, None)
}

/// Makes a pod, or a template of one, for our scheduler. `spec` is added to its spec.
fn pod(labels: Value, annotations: Value, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec});
    pod["spec"]["schedulerName"] = json!("fluxqueue");
    if pod["spec"]["containers"].is_null() {
        pod["spec"]["containers"] = json!([{"name": "main"}]);
    }
    pod
}

fn claim() -> Value {
    json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]})
}

#[test]
fn faults_that_the_scheduler_refuses_are_refused_with_their_fields() {
    let none = json!({});
    let container = |requests: Value| {
        json!({
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        })
    };
    let cases = [
        (
            pod(none.clone(), none.clone(), claim()),
            "spec.resourceClaims: dynamic resource allocation is not supported yet",
        ),
        (
            pod(none.clone(), none.clone(), container(json!({"cpu": "9223372036854775808"}))),
            "spec.containers[0].resources.requests.cpu: \"9223372036854775808\" is larger than \
             2^63 - 1",
        ),
        (
            pod(none.clone(), json!({"fluxqueue/walltime": "soon"}), none.clone()),
            "metadata.annotations[fluxqueue/walltime]: \"soon\" is not a duration",
        ),
        (
            pod(
                json!({"fluxqueue/pod-group": "g", "fluxqueue/group-size": "0"}),
                none.clone(),
                none.clone(),
            ),
            "metadata.labels: label fluxqueue/group-size: \"0\" is not a size",
        ),
        (
            pod(json!({"fluxqueue/pod-group": "g"}), none.clone(), none.clone()),
            "metadata.labels: label fluxqueue/pod-group names a group, but label \
             fluxqueue/group-size is missing",
        ),
    ];
    for (object, expected) in cases {
        let found = problems("Pod", object.clone());
        assert!(
            found.len() == 1 && found[0].starts_with(expected),
            "{found:?} instead of {expected}"
        );
        let found = problems("Job", json!({"metadata": {}, "spec": {"template": object}}));
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("spec.template.{expected}")),
            "{found:?}"
        );
    }
    assert_eq!(problems("Pod", pod(none.clone(), none.clone(), none)), [""; 0]);
}

#[test]
fn groups_of_kubernetes_are_refused_where_they_are_not_supported() {
    let in_group = |field: Value| pod(json!({}), json!({}), field);
    let workload = in_group(json!({"workloadRef": {"name": "ring", "podGroup": "x"}}));
    let expected = "spec.workloadRef: Workload \"ring\"";
    let found = problems("Pod", workload.clone());
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    let found = problems("Job", json!({"metadata": {}, "spec": {"template": workload}}));
    let expected = format!("spec.template.{expected}");
    assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
    // Admission does not read the group.
    let group = in_group(json!({"schedulingGroup": {"podGroupName": "ring"}}));
    assert_eq!(problems("Pod", group.clone()), [""; 0]);
    let template = json!({"metadata": {}, "spec": {"template": group}});
    assert_eq!(problems("Job", template), [""; 0]);

    let job = |scheduling: Value| {
        let template = in_group(json!({}));
        json!({"metadata": {}, "spec": {"scheduling": scheduling, "template": template}})
    };
    for fine in [
        json!({"disruptionMode": {"all": {}}, "resourceClaims": []}),
        json!({"schedulingPolicy": {"gang": {"minCount": 2}}}),
        json!({"schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}}),
    ] {
        assert_eq!(problems("Job", job(fine)), [""; 0]);
    }
    let claims = job(json!({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}));
    let found = problems("Job", claims.clone());
    let expected = "spec.scheduling.resourceClaims: ";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    let found = problems("CronJob", json!({"metadata": {}, "spec": {"jobTemplate": claims}}));
    let expected = format!("spec.jobTemplate.{expected}");
    assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
}

#[test]
fn walltimes_of_controllers_are_read_too() {
    let walltime = json!({"annotations": {"fluxqueue/walltime": "2 days"}});
    let fine = pod(json!({}), json!({}), json!({}));
    let found = problems("Job", json!({"metadata": walltime, "spec": {"template": fine}}));
    assert!(
        found.len() == 1 && found[0].starts_with("metadata.annotations[fluxqueue/walltime]: "),
        "{found:?}"
    );
    let job = json!({"metadata": walltime, "spec": {"template": fine}});
    let found = problems("CronJob", json!({"metadata": {}, "spec": {"jobTemplate": job}}));
    let path = "spec.jobTemplate.metadata.annotations[fluxqueue/walltime]: ";
    assert!(found.len() == 1 && found[0].starts_with(path), "{found:?}");
}

#[test]
fn a_walltime_that_a_cron_job_does_not_hand_on_is_a_problem() {
    let walltime = json!({"annotations": {"fluxqueue/walltime": "2h"}});
    let fine = pod(json!({}), json!({}), json!({}));
    let cron_job = |of_jobs: serde_json::Value, template: serde_json::Value| {
        let job = json!({"metadata": of_jobs, "spec": {"template": template}});
        problems("CronJob", json!({"metadata": walltime, "spec": {"jobTemplate": job}}))
    };
    let found = cron_job(json!({}), fine.clone());
    assert!(
        found.len() == 1 && found[0].starts_with("metadata.annotations[fluxqueue/walltime]: "),
        "{found:?}"
    );
    assert!(found[0].contains("spec.jobTemplate.metadata.annotations"), "{found:?}");
    assert_eq!(cron_job(walltime.clone(), fine.clone()), [""; 0]);
    let mut template = fine;
    template["metadata"]["annotations"] = walltime["annotations"].clone();
    assert_eq!(cron_job(json!({}), template), [""; 0]);
}

#[test]
fn a_request_for_whole_nodes_is_true_or_false() {
    let odd = json!({"annotations": {"fluxqueue/exclusive": "yes"}});
    let path =
        "metadata.annotations[fluxqueue/exclusive]: \"yes\" is neither \"true\" nor \"false\"";
    let fine = pod(json!({}), json!({}), json!({}));
    assert_eq!(problems("Job", json!({"metadata": odd, "spec": {"template": fine}})), [path]);
    let mut template = fine.clone();
    template["metadata"]["annotations"] = odd["annotations"].clone();
    let found = problems("Deployment", json!({"metadata": {}, "spec": {"template": template}}));
    assert_eq!(found, [format!("spec.template.{path}")]);
}

#[test]
fn levels_that_contradict_each_other_are_refused_wherever_they_stand() {
    let both = json!({
        "annotations": {"fluxqueue/required-level": "rack", "fluxqueue/preferred-level": "zone"},
    });
    let path =
        "metadata.annotations[fluxqueue/preferred-level]: fluxqueue/required-level is present too";
    let fine = pod(json!({}), json!({}), json!({}));
    let found = problems("Job", json!({"metadata": both, "spec": {"template": fine}}));
    assert!(found.len() == 1 && found[0].starts_with(path), "{found:?}");
    let job = json!({"metadata": both, "spec": {"template": fine}});
    let found = problems("CronJob", json!({"metadata": {}, "spec": {"jobTemplate": job}}));
    assert!(
        found.len() == 1 && found[0].starts_with(&format!("spec.jobTemplate.{path}")),
        "{found:?}"
    );
    let mut template = fine.clone();
    template["metadata"]["annotations"] = both["annotations"].clone();
    let found = problems("Job", json!({"metadata": {}, "spec": {"template": template}}));
    assert!(
        found.len() == 1 && found[0].starts_with(&format!("spec.template.{path}")),
        "{found:?}"
    );
}

#[test]
fn pods_of_other_schedulers_are_not_judged() {
    let mut other = pod(json!({}), json!({}), claim());
    other["spec"]["schedulerName"] = json!("default-scheduler");
    assert_eq!(problems("Pod", other), [""; 0]);
    let mut bound = pod(json!({}), json!({}), claim());
    bound["spec"]["nodeName"] = json!("n");
    assert_eq!(problems("Pod", bound), [""; 0]);
}

#[test]
fn an_update_is_judged_only_by_its_own_faults() {
    let stored = pod(json!({}), json!({}), claim());
    let mut changed = stored.clone();
    changed["metadata"]["labels"]["app"] = json!("x");
    assert_eq!(judged("Pod", changed.clone(), Some(stored.clone())), [""; 0]);
    changed["metadata"]["annotations"]["fluxqueue/walltime"] = json!("soon");
    assert_eq!(judged("Pod", changed.clone(), Some(stored.clone())).len(), 1);
    changed["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(
        judged("Pod", changed, Some(stored)),
        [""; 0],
        "it only has to get rid of its finalizers"
    );
}

#[test]
fn templates_of_objects_with_a_controller_are_not_judged() {
    let owner = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "o", "uid": "u", "controller": true,
    });
    let template = pod(json!({}), json!({}), claim());
    let job = json!({"metadata": {"ownerReferences": [owner]}, "spec": {"template": template}});
    assert_eq!(problems("Job", job), [""; 0]);
    let mut pod = template;
    pod["metadata"]["ownerReferences"] = json!([owner]);
    assert_eq!(problems("Pod", pod).len(), 1);
}
