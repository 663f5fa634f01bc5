//! The `metadata` of any Kubernetes object: its identity, its owner, and its labels.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::text::{self, KEY_BYTES_MAX, NAME_BYTES_MAX};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time as KubeTime};

use crate::ids::Uid;
use crate::object::{ObjectKey, ObjectRef, Owner, OwnerKind};
use crate::time::Time;

/// Labels, sorted by key.
pub type Labels = Arc<[(Arc<str>, Arc<str>)]>;

/// An object that lacks a field that every object from an API server has. It cannot be identified,
/// so it is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {object}: {field}: {message}")]
pub struct InvalidObject {
    /// Its kind.
    pub kind: &'static str,
    /// Namespace and name, as far as they are known.
    pub object: String,
    /// The JSON path of the field.
    pub field: &'static str,
    /// The fault.
    pub message: String,
}

/// Returns namespace, name and uid of a namespaced object.
pub fn object_ref(kind: &'static str, metadata: &ObjectMeta) -> Result<ObjectRef, InvalidObject> {
    let namespace = required(kind, metadata, "metadata.namespace", metadata.namespace.as_deref())?;
    let (name, uid) = name_and_uid(kind, metadata)?;
    Ok(ObjectRef { key: ObjectKey::new(namespace, name), uid })
}

/// Returns name and uid of an object.
pub fn name_and_uid(
    kind: &'static str,
    metadata: &ObjectMeta,
) -> Result<(Arc<str>, Uid), InvalidObject> {
    let name = required(kind, metadata, "metadata.name", metadata.name.as_deref())?;
    let uid = required(kind, metadata, "metadata.uid", metadata.uid.as_deref())?;
    Ok((name.into(), uid.into()))
}

/// Returns the owner reference that is the controller; none if it is one that no API server
/// accepts.
pub fn owner(metadata: &ObjectMeta) -> Option<Owner> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    // The API server only checks that no field of a reference is empty. No object can have such a
    // name.
    if [&owner.name, &owner.uid, &owner.kind, &owner.api_version]
        .iter()
        .any(|part| part.len() > KEY_BYTES_MAX)
    {
        return None;
    }
    Some(Owner {
        kind: owner_kind(&owner.api_version, &owner.kind),
        name: owner.name.as_str().into(),
        uid: owner.uid.as_str().into(),
        api_version: owner.api_version.as_str().into(),
    })
}

/// Returns a map of labels, or of a node selector, sorted by key.
pub fn sorted(
    map: Option<&BTreeMap<String, String>>,
) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
    map.into_iter().flatten().map(|(key, value)| (key.as_str().into(), label_value(value).into()))
}

/// Returns the value of a label: the API server takes none of more than 63 bytes, and none is kept
/// that is longer than any name.
pub(super) fn label_value(value: &str) -> Cow<'_, str> {
    if value.len() > NAME_BYTES_MAX { text::name(value) } else { Cow::Borrowed(value) }
}

/// Returns the value of a label.
pub fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<Cow<'a, str>> {
    metadata.labels.as_ref()?.get(key).map(|value| label_value(value))
}

/// Returns the value of an annotation.
pub fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Converts a Kubernetes time stamp; the epoch stands for none.
pub fn time(stamp: Option<&KubeTime>) -> Time {
    stamp.map_or(Time::default(), |stamp| Time(stamp.0.as_microsecond()))
}

fn required<'a>(
    kind: &'static str,
    metadata: &ObjectMeta,
    field: &'static str,
    value: Option<&'a str>,
) -> Result<&'a str, InvalidObject> {
    value.filter(|value| !value.is_empty()).ok_or_else(|| {
        let part =
            |part: &Option<String>| text::name(part.as_deref().unwrap_or_default()).into_owned();
        let object = format!("{}/{}", part(&metadata.namespace), part(&metadata.name));
        InvalidObject { kind, object, field, message: "is empty".to_owned() }
    })
}

/// Returns the kind that an owner reference names. Versions of one group are the same kind:
/// `apps/v1beta1` is long gone, but a reference may still name it.
pub fn owner_kind(api_version: &str, kind: &str) -> OwnerKind {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    OwnerKind::of_object(group, kind)
}
