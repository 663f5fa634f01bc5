//! The limits of queues that jobs have reached.

use crate::parts::Telling;
use crate::telling::obstacle::{LimitNumbers, Obstacle, ReachedLimit};
use fluxqueue_planner::queues::{AtLimit, Counted};

impl Telling<'_> {
    /// Returns the limit that a job has reached, with its numbers.
    pub(crate) fn explain_limit(&self, at: &AtLimit) -> Obstacle {
        let AtLimit { account, asked, used, most, never, .. } = at;
        let limit =
            self.queues.limits(account.queue).and_then(|limits| limits.running.get(account.limit));
        let numbers = limit.map(|limit| LimitNumbers {
            path: limit.path.to_string(),
            resource: match &limit.what {
                Counted::Jobs => None,
                Counted::Resource(name) => Some(name.clone()),
            },
            namespace: account.namespace.clone(),
            asked: *asked,
            used: *used,
            most: *most,
            never: *never,
        });
        let queue = self.queues.name(account.queue).to_owned();
        Obstacle::Limit(ReachedLimit { queue, numbers })
    }
}
