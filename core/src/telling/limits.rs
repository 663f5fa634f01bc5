//! The words for a limit of a queue.

use fluxqueue_api::{BlockedBy, BlockedReason};

use crate::parts::Telling;
use fluxqueue_planner::queues::{AtLimit, Counted};
use fluxqueue_workload::quantity::quantity;

impl Telling<'_> {
    /// Describes a limit that a job has reached, for people.
    pub(crate) fn explain_limit(&self, at: &AtLimit) -> BlockedBy {
        let AtLimit { account, asked, used, most, never, .. } = at;
        let limit =
            self.queues.limits(account.queue).and_then(|limits| limits.running.get(account.limit));
        let Some(limit) = limit else {
            return BlockedBy::new(BlockedReason::QueueLimit, "a limit that has changed");
        };
        let resource = match &limit.what {
            Counted::Jobs => None,
            Counted::Resource(name) => Some(name.to_string()),
        };
        let text = |amount: u128| {
            resource.as_deref().map_or_else(|| amount.to_string(), |name| quantity(name, amount))
        };
        let what = resource.as_deref().unwrap_or("jobs that run");
        let of_whom = account
            .namespace
            .as_ref()
            .map_or(String::new(), |namespace| format!(" by namespace {namespace}"));
        let name = self.queues.name(account.queue);
        let mut message = format!(
            "{} {what} asked for, {} of {} used{of_whom}: {} of FluxQueue {name}.",
            text(*asked),
            text(*used),
            text(u128::from(*most)),
            limit.path
        );
        if *never {
            message += " It asks for more than the limit, so later jobs are not held back.";
        }
        BlockedBy {
            requested: resource.is_some().then(|| text(*asked)),
            available: resource.is_some().then(|| text(u128::from(*most).saturating_sub(*used))),
            used: Some(text(*used)),
            limit: Some(text(u128::from(*most))),
            queue: Some(name.to_owned()),
            resource: resource.clone(),
            ..BlockedBy::new(BlockedReason::QueueLimit, message)
        }
    }
}
