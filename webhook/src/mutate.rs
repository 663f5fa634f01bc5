//! What is changed: the scheduler's name where nobody named one, and the gate where the namespace
//! asks for it.
//!
//! Templates are changed so that they say what happens, and so that their pods go to Fluxqueue also
//! while nobody answers here. Pods are changed always, as the last resort: whatever made them, they
//! name a scheduler for themselves.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use kube::core::admission::Operation;
use serde_json::{Value, json};

use fluxqueue_api::names;

use crate::admission::{Admission, Gating, is_nobodys};
use crate::objects::{self, Kind};
use crate::review::{Object, PodPart, Request};

impl Admission {
    /// What is to be changed in the object of a request; nothing most often.
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
        // A pod keeps its scheduler for life, and loses gates only. Those of a DaemonSet have one
        // node each to go to.
        let is_anothers =
            part.has_node() || objects::controller(&pod.metadata) == Some("DaemonSet");
        if request.operation != Operation::Create || is_anothers {
            return None;
        }
        let nobodys = is_nobodys(part.scheduler());
        let mut changes = Vec::new();
        if nobodys {
            changes.push(set_scheduler(Kind::Pod, self.scheduler_name()));
        }
        if gating == Gating::Gated && (nobodys || self.is_ours(part.scheduler())) {
            changes.extend(add_gate(part));
        }
        Some(changes)
    }

    /// The scheduler that a template is to name instead of none.
    fn name_for_template<'a>(
        &'a self,
        kind: Kind,
        request: &Request<'_>,
        object: &Object<'_>,
        part: &PodPart<'_>,
    ) -> Option<&'a str> {
        // Whoever made the object compares it with what he wanted, and makes another one for ever
        // if it differs: a Deployment finds its ReplicaSet by its template.
        if !is_nobodys(part.scheduler()) || objects::controller(&object.metadata).is_some() {
            return None;
        }
        if request.operation != Operation::Update {
            return Some(self.scheduler_name());
        }
        let old = request.old_object.as_ref()?;
        let before = old.pod.as_ref()?.scheduler();
        let ours_before = self.own(before);
        // Another template of a Deployment replaces all its pods: nobody asked for that who changed
        // something else.
        let template_is_new = object.has_other_template(old);
        match kind {
            // The template of a Job cannot change, but whoever replaces the Job may have left the
            // name out.
            Kind::Job => ours_before,
            _ if template_is_new => Some(ours_before.unwrap_or(self.scheduler_name())),
            _ => None,
        }
    }
}

fn set_scheduler(kind: Kind, name: &str) -> PatchOperation {
    // `add` replaces a member that is there.
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

#[cfg(test)]
#[path = "mutate_tests.rs"]
pub(crate) mod tests;
