//! PodGroups and Workloads: which version of their API is served, found out again each minute, and
//! their watches in the newest one.
//!
//! Kubernetes 1.36 and 1.37 serve them only if an administrator turns them on, and an upgrade
//! brings another version while this process runs. Where none is served, or none may be read,
//! nothing is watched, and pods that name a group wait: the core learns why.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde::Deserialize;

use super::convert::Watched;
use super::kinds::refusal_to_list;
use super::lean::{LoosePodGroup, LooseWorkload};
use super::request::get;
use super::seen::Known;
use super::watch::{NoReceiver, WatchState, Watches};
use fluxqueue_core::Event;
use fluxqueue_workload::ObjectKey;
use fluxqueue_workload::pod_group::{API_GROUP, GroupVersion, GroupWorkload, PodGroup};

/// The pause between two looks at the versions.
pub(super) const LOOK_EVERY: Duration = Duration::from_mins(1);

/// The time that one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The kinds as they are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Served {
    /// In this version; Workloads too, if they may be read.
    In(GroupVersion, HasWorkloads),
    /// None are to be read, for this reason.
    Hidden(Arc<str>),
}

/// True if Workloads are watched.
type HasWorkloads = bool;

#[derive(Deserialize)]
struct ApiGroup {
    #[serde(default)]
    versions: Vec<ApiVersion>,
}

#[derive(Deserialize)]
struct ApiVersion {
    version: String,
}

#[derive(Deserialize)]
struct ApiResources {
    #[serde(default)]
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
}

// === impl Served ===

impl Served {
    /// Finds the newest version in which PodGroups are served and may be read. The error says why
    /// that is not known now.
    pub(super) async fn look(client: &Client) -> Result<Served, String> {
        let none = || Served::Hidden("the API server serves no PodGroups".into());
        let path = format!("/apis/{API_GROUP}");
        let versions = match get::<ApiGroup>(client, &path, ANSWER_WITHIN).await? {
            Ok(group) => group.versions,
            Err(reply) if reply.code == 404 => return Ok(none()),
            Err(reply) => return Err(reply.explain()),
        };
        for version in GroupVersion::NEWEST_FIRST {
            if !versions.iter().any(|served| served.version == version.as_str()) {
                continue;
            }
            let path = format!("/apis/{API_GROUP}/{}", version.as_str());
            let resources = match get::<ApiResources>(client, &path, ANSWER_WITHIN).await? {
                Ok(found) => found.resources,
                Err(reply) if reply.code == 404 => continue,
                Err(reply) => return Err(reply.explain()),
            };
            if !resources.iter().any(|resource| resource.name == "podgroups") {
                continue;
            }
            if let Some(refusal) = refusal_to_list(client, &format!("{path}/podgroups")).await {
                let why = format!("fluxqueue may not read PodGroups ({refusal})");
                return Ok(Served::Hidden(why.into()));
            }
            let refusal = refusal_to_list(client, &format!("{path}/workloads")).await;
            return Ok(Served::In(version, refusal.is_none()));
        }
        Ok(none())
    }

    /// Returns the number of kinds that are watched.
    pub(super) fn kinds(&self) -> usize {
        match self {
            Served::In(_, has_workloads) => 1 + usize::from(*has_workloads),
            Served::Hidden(_) => 0,
        }
    }

    /// Returns the event for the core about that.
    pub(super) fn news(&self) -> Event {
        Event::PodGroupsHidden(match self {
            Served::In(..) => None,
            Served::Hidden(why) => Some(Arc::clone(why)),
        })
    }

    /// Looks again, with this pause, until the answer is another one, and returns that.
    async fn other(&self, client: &Client, pause: Duration) -> Served {
        loop {
            tokio::time::sleep(pause).await;
            match Served::look(client).await {
                Ok(found) if found != *self => return found,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "asking for the served versions of PodGroups");
                }
            }
        }
    }
}

/// Watches PodGroups and Workloads as they are served, for ever, with this pause between two looks
/// at that. Kinds that are served at first belong to the first lists, others do not.
pub(super) async fn watch(
    watches: Watches,
    first: Served,
    pause: Duration,
) -> Result<(), NoReceiver> {
    let (mut groups, mut workloads) = (WatchState::default(), WatchState::default());
    if first.kinds() < 1 {
        groups.belongs_to_no_first_list();
    }
    if first.kinds() < 2 {
        workloads.belongs_to_no_first_list();
    }
    let mut served = first;
    loop {
        watches.hand_on::<LoosePodGroup>(vec![served.news()]).await?;
        let other = served.other(&watches.client, pause);
        let other = tokio::select! {
            ended = follow(&watches, &served, &mut groups, &mut workloads) => return ended,
            other = other => other,
        };
        tracing::info!(served = ?other, "PodGroups are served in another way");
        served = other;
    }
}

/// Watches the kinds as they are served, for ever.
async fn follow(
    watches: &Watches,
    served: &Served,
    groups: &mut WatchState<LoosePodGroup>,
    workloads: &mut WatchState<LooseWorkload>,
) -> Result<(), NoReceiver> {
    let Served::In(version, has_workloads) = served else {
        watches.forget_all(groups).await?;
        watches.forget_all(workloads).await?;
        return std::future::pending().await;
    };
    groups.memory = *version;
    let of_groups = watches.clone().watch_as(version, groups);
    if *has_workloads {
        let of_workloads = watches.clone().watch_as(version, workloads);
        return tokio::try_join!(of_groups, of_workloads).map(|_| ());
    }
    tracing::info!("Workloads may not be read: their walltimes and queues do not count");
    watches.forget_all(workloads).await?;
    of_groups.await
}

// === impl Watched ===

impl Watched for LoosePodGroup {
    type Value = PodGroup;
    /// The version in which the groups are watched.
    type Memory = GroupVersion;
    const KIND: &'static str = "PodGroup";

    fn convert(self, version: &mut GroupVersion) -> Result<PodGroup, String> {
        PodGroup::from_parts(*version, &self.metadata, &self.spec, &self.status)
            .map_err(|error| error.to_string())
    }
}

impl Watched for LooseWorkload {
    type Value = GroupWorkload;
    type Memory = ();
    const KIND: &'static str = "Workload";

    fn convert(self, (): &mut ()) -> Result<GroupWorkload, String> {
        GroupWorkload::from_metadata(&self.metadata).map_err(|error| error.to_string())
    }
}

// === impl Known ===

impl Known for PodGroup {
    fn key(&self) -> ObjectKey {
        self.id.key.clone()
    }
    fn uid(&self) -> &str {
        &self.id.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::PodGroup(self)
    }
    fn gone(&self) -> Event {
        Event::PodGroupGone(self.id.clone())
    }
    fn is_edit_of(&self, known: &Self) -> bool {
        let unversioned = |group: &PodGroup| PodGroup { resource_version: None, ..group.clone() };
        self.condition == known.condition && unversioned(self) != unversioned(known)
    }
}

impl Known for GroupWorkload {
    fn key(&self) -> ObjectKey {
        self.id.key.clone()
    }
    fn uid(&self) -> &str {
        &self.id.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::Workload(self)
    }
    fn gone(&self) -> Event {
        Event::WorkloadGone(self.id.clone())
    }
    fn is_edit_of(&self, known: &Self) -> bool {
        self != known
    }
}
