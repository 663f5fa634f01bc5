//! The note of the user that created an object, so that people find their own jobs.
//!
//! The API server says which user asks it, so no client has to be believed: a value that a client
//! sends is written over. The controllers of Kubernetes make objects for others; their objects keep
//! the values in the templates that they are made from, which were noted when the workload was
//! created. So the pods of a Job carry the user of the Job, and pods that an operator makes carry
//! the service account of the operator.
//!
//! That the note does not change afterwards, and that none is forged while this server is down, is
//! the business of a policy that the API server evaluates itself (`user-policy.yaml`).

use std::iter;

use fluxqueue_api::names;
use json_patch::{Patch, PatchOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::admission::Operation;

use crate::admission::Admission;
use crate::mutate::annotate;
use crate::objects::Kind;
use crate::review::{Object, Request};

/// The longest name of a user that is noted, in bytes: a few in one object are far below the
/// 256 KiB that all annotations of an object may take.
const NAME_BYTES_MAX: usize = 4096;

/// The user as which the controllers of Kubernetes ask, if they do not ask as service accounts.
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// The beginning of the names of service accounts of Kubernetes' own controllers.
const OF_KUBE_SYSTEM: &str = "system:serviceaccount:kube-system:";

/// Metadata of an object, or of the objects that are made from it.
struct Place<'a> {
    path: Vec<&'static str>,
    /// `None` if the object has nothing there.
    metadata: Option<&'a ObjectMeta>,
}

impl Admission {
    /// Returns the changes that note the user of a new object, or put back notes that an update
    /// leaves out.
    pub(crate) fn user(&self, request: &Request<'_>) -> Patch {
        Patch(self.note_user(request).unwrap_or_default())
    }

    fn note_user(&self, request: &Request<'_>) -> Option<Vec<PatchOperation>> {
        let kind = self.kind_of(request)?;
        let object = request.object.as_ref()?;
        if is_controller_of_kubernetes(&request.user) {
            return None;
        }
        let places = places(kind, object);
        match request.operation {
            Operation::Create => {
                let is_bounded = (1..=NAME_BYTES_MAX).contains(&request.user.len());
                let user = if is_bounded { request.user.as_str() } else { "" };
                let noted = places.iter().filter(|place| place.user() != user);
                Some(noted.map(|place| place.note(user)).collect())
            }
            Operation::Update => {
                let old = self::places(kind, request.old_object.as_ref()?);
                let lost = iter::zip(&places, &old)
                    .filter(|(place, old)| place.user().is_empty() && !old.user().is_empty());
                Some(lost.map(|(place, old)| place.note(old.user())).collect())
            }
            _ => None,
        }
    }
}

/// True if this user makes objects for others, from templates that were admitted.
fn is_controller_of_kubernetes(user: &str) -> bool {
    user == CONTROLLER_MANAGER || user.starts_with(OF_KUBE_SYSTEM)
}

fn places<'a>(kind: Kind, object: &'a Object<'_>) -> Vec<Place<'a>> {
    let mut places = vec![Place { path: vec!["metadata"], metadata: Some(&object.metadata) }];
    if kind == Kind::CronJob {
        let metadata = object.of_jobs.as_ref().filter(|_| object.has_of_jobs);
        places.push(Place { path: vec!["spec", "jobTemplate", "metadata"], metadata });
    }
    if kind != Kind::Pod
        && let Some(template) = &object.pod
    {
        let path = kind.path().iter().copied().chain(["metadata"]).collect();
        let metadata = Some(&template.metadata).filter(|_| template.has_metadata);
        places.push(Place { path, metadata });
    }
    places
}

impl Place<'_> {
    /// Returns the user that is noted; empty if none is.
    fn user(&self) -> &str {
        let annotations = self.metadata.and_then(|metadata| metadata.annotations.as_ref());
        annotations.and_then(|all| all.get(names::USER)).map_or("", String::as_str)
    }

    fn note(&self, user: &str) -> PatchOperation {
        annotate(&self.path, self.metadata, names::USER, user)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::mutate::tests::{admission, request};

    fn asked(user: &str, kind: &str, object: &Value, old: Option<&Value>) -> Value {
        let mut request = request(kind, object.clone(), old.cloned());
        user.clone_into(&mut request.user);
        let patch = admission().user(&request);
        let mut patched = object.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        patched
    }

    /// Returns the users that are noted in an object, from the outside to the inside.
    fn noted(object: &Value) -> Vec<&str> {
        let paths = ["", "/spec/jobTemplate", "/spec/template", "/spec/jobTemplate/spec/template"];
        let of = |path: &&str| {
            object.pointer(&format!("{path}/metadata/annotations/fluxqueue~1user"))?.as_str()
        };
        paths.iter().filter_map(of).collect()
    }

    fn pod(user: Option<&str>) -> Value {
        let annotations = user.map(|user| json!({"fluxqueue/user": user, "other": "x"}));
        json!({
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"schedulerName": "fluxqueue"},
        })
    }

    fn job(template: &Value) -> Value {
        json!({"metadata": {"name": "j"}, "spec": {"template": template}})
    }

    fn spec() -> Value {
        json!({"schedulerName": "fluxqueue", "containers": []})
    }

    #[test]
    fn a_new_object_is_its_users_whatever_it_says() {
        for said in [None, Some("bob"), Some(""), Some("ann")] {
            let patched = asked("ann", "Pod", &pod(said), None);
            assert_eq!(noted(&patched), ["ann"], "{said:?}");
            let others = said.map_or(Value::Null, |_| json!("x"));
            assert_eq!(patched["metadata"]["annotations"]["other"], others, "{said:?}");
        }
        let account = "system:serviceaccount:team:robot";
        assert_eq!(noted(&asked(account, "Pod", &pod(Some("ann")), None)), [account]);
    }

    #[test]
    fn a_template_hands_the_user_on() {
        let templates = [
            json!({"spec": spec()}),
            json!({"metadata": null, "spec": spec()}),
            json!({"metadata": {}, "spec": spec()}),
            json!({"metadata": {"annotations": {"fluxqueue/user": "bob"}}, "spec": spec()}),
        ];
        for template in templates {
            for kind in ["Job", "Deployment", "ReplicaSet", "StatefulSet"] {
                let patched = asked("ann", kind, &job(&template), None);
                assert_eq!(noted(&patched), ["ann", "ann"], "{kind} {template}");
            }
            for of_jobs in [Value::Null, json!({}), json!({"annotations": {"a": "b"}})] {
                let cron = json!({"metadata": {"name": "c"}, "spec": {
                    "jobTemplate": {"metadata": of_jobs, "spec": {"template": template}},
                }});
                let patched = asked("ann", "CronJob", &cron, None);
                assert_eq!(noted(&patched), ["ann", "ann", "ann"], "{of_jobs} {template}");
            }
        }
    }

    #[test]
    fn controllers_of_kubernetes_make_objects_for_others() {
        for user in
            ["system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager"]
        {
            assert_eq!(noted(&asked(user, "Pod", &pod(Some("ann")), None)), ["ann"]);
            assert_eq!(noted(&asked(user, "Pod", &pod(None), None)), [""; 0]);
        }
        for user in
            ["system:serviceaccount:kube-systems:a", "system:serviceaccount:team:kube-system"]
        {
            assert_eq!(noted(&asked(user, "Pod", &pod(Some("ann")), None)), [user]);
        }
    }

    #[test]
    fn an_update_loses_no_user_and_gains_none() {
        let with = |user: &str| {
            let annotations = json!({"annotations": {"fluxqueue/user": user}});
            let template = json!({"metadata": annotations, "spec": spec()});
            json!({"metadata": annotations, "spec": {"template": template}})
        };
        let plain = job(&json!({"spec": spec()}));
        for (old, new, then) in [
            (with("ann"), plain.clone(), vec!["ann", "ann"]),
            // A policy refuses this one.
            (with("ann"), with("bob"), vec!["bob", "bob"]),
            (plain.clone(), plain.clone(), vec![]),
            (plain, with("bob"), vec!["bob", "bob"]),
        ] {
            let patched = asked("bob", "Deployment", &new, Some(&old));
            assert_eq!(noted(&patched), then, "{old} {new}");
        }
    }

    #[test]
    fn a_name_without_bounds_is_not_noted_and_nor_is_that_of_another() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        assert_eq!(noted(&asked(&longest, "Pod", &pod(None), None)), [longest.as_str()]);
        let too_long = format!("{longest}a");
        assert_eq!(noted(&asked(&too_long, "Pod", &pod(None), None)), [""; 0]);
        assert_eq!(noted(&asked(&too_long, "Pod", &pod(Some("bob")), None)), [""]);
    }
}
