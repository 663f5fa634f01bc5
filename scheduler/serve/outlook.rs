//! The outlook on the machine for users that may ask what if: how much of it is used, promised and
//! held. No job is named.
//!
//! The answer is kept for [`KEPT`]: the core makes one a second at most, for any number of clients.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use fluxqueue_core::{NodeOutlook, Outlook};
use fluxqueue_workload::{Resources, Time};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The path at which it is served.
pub const PATH: &str = "/outlook";

/// The time for which an answer is given again.
const KEPT: Duration = Duration::from_secs(1);

/// The last answer, and the time at which it was made.
#[derive(Debug, Default)]
pub struct LastOutlook(Mutex<Option<(Instant, Bytes)>>);

impl LastOutlook {
    /// Returns the answer as JSON; `None` if a new one is due and the core makes none. Clients that
    /// come meanwhile wait for the same answer.
    pub(super) async fn answer(
        &self,
        asked: impl Future<Output = Option<Outlook>>,
    ) -> Option<Bytes> {
        let mut last = self.0.lock().await;
        if let Some((_, body)) = last.as_ref().filter(|(made, _)| made.elapsed() < KEPT) {
            return Some(body.clone());
        }
        let body = Bytes::from(to_json(&asked.await?).to_string());
        *last = Some((Instant::now(), body.clone()));
        Some(body)
    }
}

fn to_json(outlook: &Outlook) -> Value {
    let queues: Vec<Value> = outlook
        .queues
        .iter()
        .map(|it| json!({ "name": &*it.queue, "waiting": it.waiting, "running": it.running }))
        .collect();
    json!({
        "asOf": outlook.as_of.map(instant),
        "nodes": outlook.nodes.iter().map(node).collect::<Vec<_>>(),
        "queues": queues,
    })
}

/// A node. Amounts are thousandths of cores for `cpu`, and bytes or numbers for all else.
fn node(node: &NodeOutlook) -> Value {
    json!({
        "name": &*node.name,
        "ready": node.is_ready,
        "schedulable": node.is_schedulable,
        "allocatable": amounts(&node.allocatable),
        "used": amounts(&node.used),
        "alone": node.is_alone,
        "promisedFrom": node.promised_from.map(instant),
        "held": node.is_held,
        "lastEnd": node.last_end.map(instant),
    })
}

fn amounts(resources: &Resources) -> BTreeMap<&str, u64> {
    resources.iter().map(|(name, amount)| (&**name, amount)).collect()
}

fn instant(time: Time) -> String {
    time.timestamp().to_string()
}
