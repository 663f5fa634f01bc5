//! The kinds that are watched, as values: the list that starts their watches is the one that counts
//! them, and the path at which a kind is listed follows from its type.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Client;

use super::convert::Watched;
use super::lean::{Lean, LooseFluxJob, LooseFluxQueue};
use super::request::get;
use super::watch::{NoReceiver, Watches};

/// The time that one answer may take.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// The kinds without which nothing can be decided.
pub(super) const REQUIRED: [WatchedKind; 10] = [
    WatchedKind::of::<Lean<Node>>(),
    WatchedKind::of::<Lean<Pod>>(),
    WatchedKind::of::<Lean<Job>>(),
    WatchedKind::of::<Lean<ReplicaSet>>(),
    WatchedKind::of::<Lean<Deployment>>(),
    WatchedKind::of::<Lean<StatefulSet>>(),
    WatchedKind::of::<LooseFluxJob>(),
    WatchedKind::of::<LooseFluxQueue>(),
    WatchedKind::of::<Lean<Namespace>>(),
    WatchedKind::of::<PriorityClass>(),
];

/// A kind that is watched in all namespaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct WatchedKind {
    /// The kind, as a metric's label.
    pub(super) name: &'static str,
    path: fn() -> String,
    watch: fn(Watches) -> BoxFuture<'static, Result<(), NoReceiver>>,
}

impl WatchedKind {
    /// Makes the value for a type.
    pub(super) const fn of<K>() -> Self
    where
        K: Watched,
        K::DynamicType: Default + Send + Sync,
    {
        WatchedKind {
            name: K::KIND,
            path: || K::url_path(&K::DynamicType::default(), None),
            watch: |watches| watches.watch::<K>().boxed(),
        }
    }

    /// Returns the path at which all objects are listed.
    pub(super) fn path(self) -> String {
        (self.path)()
    }

    /// Returns the reason why the objects may not be listed; `None` if they may, or if that is
    /// unknown: then the watch will show it.
    pub(super) async fn refusal(self, client: &Client) -> Option<String> {
        refusal_to_list(client, &self.path()).await
    }

    /// Watches the objects, for ever.
    pub(super) async fn watch(self, watches: Watches) -> Result<(), NoReceiver> {
        (self.watch)(watches).await
    }
}

/// Returns the reason why the objects at this path may not be listed, in the same way.
pub(super) async fn refusal_to_list(client: &Client, path: &str) -> Option<String> {
    match get::<serde_json::Value>(client, &format!("{path}?limit=1"), ASK_WITHIN).await {
        Ok(Err(reply)) if reply.is_refused() => {
            Some(format!("listing {path}: {}", reply.explain()))
        }
        _ => None,
    }
}
