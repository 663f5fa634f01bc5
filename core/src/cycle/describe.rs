//! The core's state as JSON, for people.

use std::collections::BTreeMap;

use crate::cycle::{Core, state_name};
use crate::telling::blockers::Blockers;
use fluxqueue_workload::Time;

impl Core {
    /// Returns the core's state as JSON, with everything that a person may want to see of it.
    pub fn describe(&self) -> serde_json::Value {
        let nodes: BTreeMap<&str, serde_json::Value> = self
            .planner
            .cluster
            .nodes()
            .iter()
            .filter_map(|(name, rank)| {
                let used: BTreeMap<&str, u64> = self
                    .planner
                    .cluster
                    .nodes()
                    .used(rank)?
                    .iter()
                    .map(|(n, a)| (&**n, a))
                    .collect();
                Some((&**name, serde_json::json!({"rank": rank, "used": used})))
            })
            .collect();
        let jobs: BTreeMap<String, serde_json::Value> = self
            .jobs
            .all
            .values()
            .map(|job| {
                let live = self.jobs.live_members(job);
                let waiting: Vec<String> = live
                    .iter()
                    .filter(|m| m.stage.is_waiting())
                    .map(|m| m.pod.id.to_string())
                    .collect();
                let text = |at: Time| at.timestamp().to_string();
                let about = serde_json::json!({
                    "state": state_name(self.jobs.state(job)),
                    "priority": job.priority(),
                    "queuedAt": job.waiting.since.map(text),
                    "position": job.waiting.position,
                    "expectedStart": job.waiting.expected.start().map(text),
                    "blockedBy": job.told.blocker.as_ref().map(Blockers::list),
                    "bound": live.iter().filter(|m| m.is_bound()).count(),
                    "wanted": self.jobs.wanted(job),
                    "waiting": waiting,
                    "retained": job.start.retained.len(),
                });
                (job.key.to_string(), about)
            })
            .collect();
        let queue = self.planner.queue.iter();
        let queue: Vec<String> = queue.map(|(place, _)| format!("{:?}", place.request())).collect();
        serde_json::json!({
            "now": self.clock.now.timestamp().to_string(),
            "synced": self.intake.synced,
            "queue": queue,
            "jobs": jobs,
            "nodes": nodes,
        })
    }
}
