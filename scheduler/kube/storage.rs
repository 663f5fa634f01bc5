//! Storage: its kinds, which are watched if all of them may be read, and the values that their
//! objects become.
//!
//! A process that may not read one of them logs that, and goes on without storage: pods with claims
//! then wait, and their conditions say so.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::storage::v1 as storage_v1;
use kube::Client;

use super::convert::Watched;
use super::kinds::WatchedKind;
use super::lean::Lean;
use super::seen::Known;
use fluxqueue_core::Event;
use fluxqueue_machine::cluster::volumes::StorageNews;
use fluxqueue_workload::ObjectKey;
use fluxqueue_workload::storage::{
    Claim, CsiDriver, CsiNode, PersistentVolume, StorageCapacity, StorageClass, VolumeAttachment,
};

/// Returns the reason why storage may not be read; `None` if it may, or if that is unknown: then
/// the watches will show it.
pub(super) async fn refusal(client: &Client) -> Option<String> {
    for kind in KINDS {
        if let Some(refusal) = kind.refusal(client).await {
            return Some(refusal);
        }
    }
    None
}

/// Returns the event for the core that storage may not be read.
pub(super) fn hidden(why: &str) -> Event {
    let text =
        format!("fluxqueue may not read claims and volumes ({why}); it is restarted once it may");
    Event::Storage(StorageNews::Hidden(text.into()))
}

macro_rules! watched {
    ($($object:ty => $value:ident $kind:literal $inner:tt;)*) => {
        /// The kinds of storage.
        pub(super) const KINDS: &[WatchedKind] = &[$(WatchedKind::of::<$object>()),*];

        $(impl Watched for $object {
            type Value = $value;
            type Memory = ();
            const KIND: &'static str = $kind;

            fn convert(self, (): &mut ()) -> Result<$value, String> {
                $value::from_kubernetes(watched!(@ self $inner)).map_err(|error| error.to_string())
            }
        })*
    };
    (@ $self:ident lean) => { &$self.0 };
    (@ $self:ident whole) => { &$self };
}

watched! {
    Lean<core_v1::PersistentVolumeClaim> => Claim "PersistentVolumeClaim" lean;
    Lean<core_v1::PersistentVolume> => PersistentVolume "PersistentVolume" lean;
    storage_v1::StorageClass => StorageClass "StorageClass" whole;
    storage_v1::CSINode => CsiNode "CSINode" whole;
    storage_v1::CSIDriver => CsiDriver "CSIDriver" whole;
    storage_v1::CSIStorageCapacity => StorageCapacity "CSIStorageCapacity" whole;
    storage_v1::VolumeAttachment => VolumeAttachment "VolumeAttachment" whole;
}

macro_rules! known {
    ($($value:ident $object:ident: $key:expr, $uid:expr, $there:ident, $gone:expr
        $(, edited if $is_edit:expr)?;)*) => {
        $(impl Known for $value {
            fn key(&self) -> ObjectKey {
                let $object = self;
                $key
            }
            fn uid(&self) -> &str {
                let $object = self;
                $uid
            }
            fn there(self: Arc<Self>) -> Event {
                Event::Storage(StorageNews::$there(self))
            }
            fn gone(&self) -> Event {
                let $object = self;
                Event::Storage($gone)
            }
            fn is_edit_of(&self, _known: &Self) -> bool {
                false $(|| $is_edit(self, _known))?
            }
        })*
    };
}

known! {
    Claim it: it.id.key.clone(), &it.id.uid, Claim,
        StorageNews::ClaimGone(it.id.clone()), edited if is_edit;
    PersistentVolume it: named(&it.name), &it.uid, Volume,
        StorageNews::VolumeGone(Arc::clone(&it.name), it.uid.clone());
    StorageClass it: named(&it.name), &it.uid, Class, StorageNews::ClassGone(Arc::clone(&it.name));
    CsiNode it: ObjectKey::new("", &*it.node), &it.uid, CsiNode,
        StorageNews::CsiNodeGone(it.node.clone());
    CsiDriver it: named(&it.name), &it.uid, Driver, StorageNews::DriverGone(Arc::clone(&it.name));
    StorageCapacity it: it.id.key.clone(), &it.id.uid, Capacity,
        StorageNews::CapacityGone(it.id.key.clone());
    VolumeAttachment it: named(&it.name), &it.uid, Attachment,
        StorageNews::AttachmentGone(Arc::new(it.clone()));
}

fn is_edit(claim: &Claim, known: &Claim) -> bool {
    let is_as_served = claim.deleting == known.deleting
        && claim.volume == known.volume
        && claim.is_bound == known.is_bound
        && claim.is_lost == known.is_lost;
    let unversioned = |claim: &Claim| Claim { resource_version: None, ..claim.clone() };
    is_as_served && unversioned(claim) != unversioned(known)
}

fn named(name: &Arc<str>) -> ObjectKey {
    ObjectKey::new("", Arc::clone(name))
}
