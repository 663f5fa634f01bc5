//! The Events of an object.

use jiff::Timestamp;
use serde::Deserialize;

use crate::api_path::{Resource, check_name};
use crate::cluster::{Cluster, Selection};
use crate::when_text::lenient;

/// Most Events of an object that are read, and most of the newest that are shown.
const EVENTS_MAX: usize = 250;
const EVENTS_SHOWN: usize = 10;

/// An Event.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Event {
    #[serde(rename = "eventTime", deserialize_with = "lenient")]
    made_at: Option<Timestamp>,
    #[serde(deserialize_with = "lenient")]
    last_timestamp: Option<Timestamp>,
    series: Option<Series>,
    /// The reason, as a word.
    pub reason: String,
    /// The reason for people.
    pub message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    #[serde(deserialize_with = "lenient")]
    last_observed_time: Option<Timestamp>,
}

impl Event {
    /// Returns the time at which it was last seen.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        let last = self.series.as_ref().and_then(|series| series.last_observed_time);
        last.or(self.last_timestamp).or(self.made_at)
    }
}

/// Returns the newest Events of an object, oldest first.
pub(crate) async fn events_of(cluster: &Cluster, uid: &str) -> anyhow::Result<Vec<Event>> {
    check_name(uid)?;
    let selection = Selection {
        namespace: Some(cluster.namespace.clone()),
        fields: format!("involvedObject.uid={uid}"),
        ..Selection::default()
    };
    let listed = cluster.list(Resource::EVENT, &selection, EVENTS_MAX).await?;
    let mut events: Vec<Event> =
        listed.items.iter().filter_map(|raw| serde_json::from_str(raw.get()).ok()).collect();
    events.sort_by_key(Event::time);
    Ok(events.split_off(events.len().saturating_sub(EVENTS_SHOWN)))
}
