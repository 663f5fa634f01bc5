use super::*;
use serde_json::json;

/// Makes a question about an object, in the form in which the API server asks it.
pub(crate) fn request(kind: &str, object: Value, old: Option<Value>) -> Request<'static> {
    let group = match kind {
        "Pod" => "",
        "Job" | "CronJob" => "batch",
        _ => "apps",
    };
    let request = json!({
        "uid": "u", "namespace": "team",
        "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": kind.to_lowercase()},
        "userInfo": {}, "object": object, "oldObject": old,
    });
    // A test is short: its questions may leak.
    let review: &'static str =
        Box::leak(json!({ "request": request }).to_string().into_boxed_str());
    Request::read(review.as_bytes()).unwrap()
}

pub(crate) fn admission() -> Admission {
    Admission::new(
        vec!["fluxqueue".to_owned(), "fluence".to_owned()],
        "fluxqueue-system".to_owned(),
    )
    .unwrap()
}

fn patch_of(request: &Request<'_>, gating: Gating) -> Value {
    serde_json::to_value(admission().patch(request, gating)).unwrap()
}

fn ungated(kind: &str, object: Value, old: Option<Value>) -> Value {
    patch_of(&request(kind, object, old), Gating::Ungated)
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"generateName": "p-"}, "spec": spec})
}

/// Makes a Deployment, or an object of any other kind with a template in its place.
fn with_template(template: Value) -> Value {
    json!({"metadata": {"name": "w"}, "spec": {"replicas": 0, "template": template}})
}

fn template(scheduler: &str) -> Value {
    json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [], "schedulerName": scheduler},
    })
}

const NOTHING: [u8; 0] = [];

#[test]
fn pods_that_name_no_scheduler_get_ours() {
    let name = json!([{"op": "add", "path": "/spec/schedulerName", "value": "fluxqueue"}]);
    for spec in
        [json!({}), json!({"schedulerName": ""}), json!({"schedulerName": "default-scheduler"})]
    {
        assert_eq!(ungated("Pod", pod(spec), None), name);
    }
    let in_template =
        json!([{"op": "add", "path": "/spec/template/spec/schedulerName", "value": "fluxqueue"}]);
    for kind in ["Job", "Deployment", "ReplicaSet", "StatefulSet"] {
        assert_eq!(ungated(kind, with_template(template("default-scheduler")), None), in_template);
    }
    let cron_job = json!({
        "metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}},
    });
    let path = "/spec/jobTemplate/spec/template/spec/schedulerName";
    assert_eq!(
        ungated("CronJob", cron_job, None),
        json!([{"op": "add", "path": path, "value": "fluxqueue"}])
    );
}

#[test]
fn another_scheduler_that_was_named_on_purpose_stays() {
    for name in ["volcano", "fluxqueue", "fluence"] {
        assert_eq!(ungated("Pod", pod(json!({"schedulerName": name})), None), json!(NOTHING));
        assert_eq!(ungated("Job", with_template(template(name)), None), json!(NOTHING));
    }
}

#[test]
fn pods_that_have_their_node_or_are_a_daemon_sets_stay_as_they_are() {
    assert_eq!(ungated("Pod", pod(json!({"nodeName": "n"})), None), json!(NOTHING));
    let of = |kind: &str| {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true,
        });
        ungated("Pod", json!({"metadata": {"ownerReferences": [owner]}, "spec": {}}), None)
    };
    assert_eq!(of("DaemonSet"), json!(NOTHING));
    assert_ne!(of("ReplicaSet"), json!(NOTHING));
    assert_ne!(of("MPIJob"), json!(NOTHING));
}

#[test]
fn objects_of_a_controller_stay_as_they_are_and_only_pods_are_changed() {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "o", "uid": "u", "controller": true,
    });
    let mut set = with_template(template(""));
    set["metadata"]["ownerReferences"] = json!([owner]);
    assert_eq!(ungated("ReplicaSet", set.clone(), None), json!(NOTHING));
    set["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    assert_ne!(ungated("ReplicaSet", set, None), json!(NOTHING));
}

#[test]
fn an_update_changes_a_template_only_where_its_author_does() {
    let set = |value: &str| {
        json!([{
            "op": "add", "path": "/spec/template/spec/schedulerName", "value": value,
        }])
    };
    let (unnamed, ours) =
        (with_template(template("default-scheduler")), with_template(template("fluence")));
    let mut scaled = unnamed.clone();
    scaled["spec"]["replicas"] = json!(3);
    let mut relabelled = unnamed.clone();
    relabelled["spec"]["template"]["metadata"]["labels"]["a"] = json!("c");
    for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
        assert_eq!(
            ungated(kind, scaled.clone(), Some(unnamed.clone())),
            json!(NOTHING),
            "all pods would be replaced"
        );
        assert_eq!(ungated(kind, relabelled.clone(), Some(unnamed.clone())), set("fluxqueue"));
        assert_eq!(
            ungated(kind, unnamed.clone(), Some(ours.clone())),
            set("fluence"),
            "which it had"
        );
    }
    // The API server refuses another template of a Job.
    assert_eq!(ungated("Job", relabelled, Some(unnamed.clone())), json!(NOTHING));
    assert_eq!(ungated("Job", unnamed.clone(), Some(ours)), set("fluence"));
    assert_eq!(
        ungated("Pod", pod(json!({})), Some(pod(json!({})))),
        json!(NOTHING),
        "a pod keeps its scheduler"
    );
}

#[test]
fn the_gate_is_for_our_pods_and_comes_once() {
    let gated = |spec: Value| patch_of(&request("Pod", pod(spec), None), Gating::Gated);
    let name = json!({"op": "add", "path": "/spec/schedulerName", "value": "fluxqueue"});
    let list =
        json!({"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "fluxqueue"}]});
    let another =
        json!({"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": "fluxqueue"}});
    assert_eq!(gated(json!({})), json!([name, list]));
    assert_eq!(gated(json!({"schedulerName": "fluence"})), json!([list]));
    assert_eq!(
        gated(json!({"schedulerName": "fluence", "schedulingGates": [{"name": "x"}]})),
        json!([another])
    );
    assert_eq!(gated(json!({"schedulingGates": [{"name": "fluxqueue"}]})), json!([name]));
    assert_eq!(gated(json!({"schedulerName": "volcano"})), json!(NOTHING));
    let of_template = patch_of(&request("Job", with_template(template("")), None), Gating::Gated);
    assert_eq!(
        of_template.as_array().unwrap().len(),
        1,
        "pods get it one by one, when they are created"
    );
}

#[test]
fn a_label_keeps_an_object_as_it_is() {
    let labels = json!({"fluxqueue/admission": "disabled"});
    assert_eq!(
        ungated("Pod", json!({"metadata": {"labels": labels}, "spec": {}}), None),
        json!(NOTHING)
    );
    let declines = json!({"metadata": {"labels": labels}, "spec": {}});
    assert_eq!(ungated("Job", with_template(declines), None), json!(NOTHING));
    let mut job = with_template(template(""));
    job["metadata"]["labels"] = labels;
    assert_eq!(ungated("Job", job, None), json!(NOTHING));
}

#[test]
fn nothing_that_fluxqueue_or_kubernetes_needs_is_changed_whatever_a_configuration_says() {
    for (namespace, is_changed) in
        [("team", true), ("kube-system", false), ("fluxqueue-system", false)]
    {
        let mut request = request("Pod", pod(json!({})), None);
        namespace.clone_into(&mut request.namespace);
        assert_eq!(
            !admission().patch(&request, Gating::Gated).is_empty(),
            is_changed,
            "{namespace}"
        );
        "team".clone_into(&mut request.namespace);
        "status".clone_into(&mut request.sub_resource);
        assert!(admission().patch(&request, Gating::Gated).is_empty());
    }
    assert_eq!(ungated("DaemonSet", with_template(template("")), None), json!(NOTHING));
    assert_eq!(
        ungated("Job", json!({"metadata": {}, "spec": {}}), None),
        json!(NOTHING),
        "no template at all"
    );
}

#[test]
fn a_patch_is_one_that_applies() {
    let mut object =
        pod(json!({"schedulerName": "default-scheduler", "schedulingGates": [{"name": "x"}]}));
    let patch = admission().patch(&request("Pod", object.clone(), None), Gating::Gated);
    json_patch::patch(&mut object, &patch).unwrap();
    let spec = json!({
        "schedulerName": "fluxqueue", "schedulingGates": [{"name": "x"}, {"name": "fluxqueue"}],
    });
    assert_eq!(object["spec"], spec);
}

#[test]
fn kube_schedulers_name_is_not_ours() {
    for names in [vec![], vec!["default-scheduler".to_owned()], vec![String::new()]] {
        assert_eq!(Admission::new(names, "ns".to_owned()).unwrap_err(), crate::NoSchedulerName);
    }
}
