//! The changes of objects: the scheduler's name where none is named, and the gate where the
//! namespace asks for it.
//!
//! Templates are changed so that they show the scheduler, and so that their pods go to Fluxqueue
//! even while this server does not answer. Pods are always changed, as the last resort: whatever
//! made them, they name a scheduler for themselves.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use kube::core::admission::Operation;
use serde_json::{Value, json};

use fluxqueue_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::admission::{Admission, Gating, is_unnamed};
use crate::objects::{self, Kind};
use crate::review::{Object, PodPart, Request};

impl Admission {
    /// Returns the changes to the object of a request; in most cases there are none.
    pub(crate) fn patch(&self, request: &Request<'_>, gating: Gating) -> Patch {
        Patch(self.changes(request, gating).unwrap_or_default())
    }

    fn changes(&self, request: &Request<'_>, gating: Gating) -> Option<Vec<PatchOperation>> {
        let kind = self.kind_of(request)?;
        let object = request.object.as_ref()?;
        let part = object.pod.as_ref()?;
        if objects::declines(&object.metadata) || part.declines() {
            return None;
        }
        if kind == Kind::Pod {
            return self.changes_of_pod(request, object, part, gating);
        }
        let name = self.name_for_template(kind, request, object, part)?;
        Some(vec![set_scheduler(kind, name)])
    }

    fn changes_of_pod(
        &self,
        request: &Request<'_>,
        pod: &Object<'_>,
        part: &PodPart<'_>,
        gating: Gating,
    ) -> Option<Vec<PatchOperation>> {
        // A pod keeps its scheduler for life, and loses gates only. A pod of a DaemonSet has only
        // one node to go to.
        let is_anothers =
            part.has_node() || objects::controller(&pod.metadata) == Some("DaemonSet");
        if request.operation != Operation::Create || is_anothers {
            return None;
        }
        let unnamed = is_unnamed(part.scheduler());
        let mut changes = Vec::new();
        if unnamed {
            changes.push(set_scheduler(Kind::Pod, self.scheduler_name()));
        }
        if gating == Gating::Gated && (unnamed || self.is_ours(part.scheduler())) {
            changes.extend(add_gate(part));
        }
        Some(changes)
    }

    /// Returns the scheduler for a template that names none.
    fn name_for_template<'a>(
        &'a self,
        kind: Kind,
        request: &Request<'_>,
        object: &Object<'_>,
        part: &PodPart<'_>,
    ) -> Option<&'a str> {
        // A controller compares the object that it made with the one that it wanted, and makes
        // another one for ever if they differ: a Deployment finds its ReplicaSet by its template.
        if !is_unnamed(part.scheduler()) || objects::controller(&object.metadata).is_some() {
            return None;
        }
        if request.operation != Operation::Update {
            return Some(self.scheduler_name());
        }
        let old = request.old_object.as_ref()?;
        let before = old.pod.as_ref()?.scheduler();
        let ours_before = self.own(before);
        // Another template of a Deployment replaces all its pods: a user who changed something else
        // did not ask for that.
        let template_is_new = object.has_other_template(old);
        match kind {
            // The template of a Job cannot change, but a new manifest of the Job may have left the
            // name out.
            Kind::Job => ours_before,
            _ if template_is_new => Some(ours_before.unwrap_or(self.scheduler_name())),
            _ => None,
        }
    }
}

fn set_scheduler(kind: Kind, name: &str) -> PatchOperation {
    // `add` replaces an existing member.
    add(kind.path().iter().chain(&["spec", "schedulerName"]), name.into())
}

fn add_gate(pod: &PodPart<'_>) -> Option<PatchOperation> {
    let gate = json!({"name": names::GATE});
    match pod.gates().map(|mut gates| gates.any(|name| name == names::GATE)) {
        Some(true) => None,
        Some(false) => Some(add(&["spec", "schedulingGates", "-"], gate)),
        None => Some(add(&["spec", "schedulingGates"], json!([gate]))),
    }
}

pub(crate) fn add<'a>(path: impl IntoIterator<Item = &'a &'a str>, value: Value) -> PatchOperation {
    let path = PointerBuf::from_tokens(path.into_iter().copied());
    PatchOperation::Add(AddOperation { path, value })
}

/// Sets an annotation in the metadata at this path. `None` says that there is no such metadata yet.
pub(crate) fn annotate(
    path: &[&str],
    metadata: Option<&ObjectMeta>,
    key: &str,
    value: &str,
) -> PatchOperation {
    let with = |more: &[&str], value| add(path.iter().chain(more), value);
    match metadata.map(|metadata| metadata.annotations.is_some()) {
        Some(true) => with(&["annotations", key], value.into()),
        Some(false) => with(&["annotations"], json!({ key: value })),
        None => with(&[], json!({"annotations": { key: value }})),
    }
}

#[cfg(test)]
#[path = "mutate_tests.rs"]
pub(crate) mod tests;
