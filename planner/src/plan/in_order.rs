//! First come, first served: within priority, a request that does not fit holds the nodes that it
//! could use once everything with an end has ended, against all that come later, if it could start
//! then at all; otherwise (services are in the way, or no node is large enough) it is passed over.

use std::collections::BTreeSet;

use super::attempt::{Attempt, attempt};
use super::capacity::{Capacity, Requests};
use super::claims::Claims;
use super::group::Group;
use super::progress::{Decision, News, Pending, Progress, untried};
use crate::queue::{ClassId, PendingRequest, Place};

/// Returns the requests that are visited first, one of each class.
pub(super) fn heads(queue: &Pending, news: News) -> BTreeSet<(Place, ClassId)> {
    match news {
        News::Arrivals => untried(queue).map(|(place, class)| (place.clone(), class)).collect(),
        News::Anything => queue.heads().map(|(place, class)| (place.clone(), class)).collect(),
    }
}

/// Walks the queue in order. What starts has its slots in `capacity` afterwards.
pub(super) fn go_on<C: Capacity>(
    queue: &Pending,
    requests: &impl Requests,
    capacity: &mut C,
    Progress { heads, holds, plan, resting, .. }: &mut Progress<C::Slots>,
    mut enough: impl FnMut(&C) -> bool,
) {
    while let Some((place, class)) = heads.pop_first() {
        let pending = place.request();
        let next = queue.next_of(class, &place).map(|next| (next.clone(), class));
        if requests.is_put_off(pending) {
            heads.extend(next);
        } else if let Some(known) = queue.last_attempt(class)
            && let Some(standing) = known.still_stands(capacity, holds)
        {
            hold(known, pending, capacity, holds, &mut plan.first_undated);
            if standing.differs_from(known) {
                plan.confirmed.push((class, standing));
            }
        } else if let Some(request) = requests.request(pending) {
            if resting.includes(&request) {
                heads.extend(next);
                continue;
            }
            match attempt((pending, request), queue.last_attempt(class), capacity, holds) {
                Ok((request, slots)) => {
                    heads.extend(next);
                    if let Some(nodes) = capacity.is_to_stay_undisturbed(&request, &slots) {
                        holds.note_beginning(nodes, &request, pending);
                    }
                    plan.decisions.push(Decision::Start {
                        pending: pending.clone(),
                        request,
                        slots,
                    });
                }
                Err(attempt) => {
                    resting.note(&attempt);
                    hold(&attempt, pending, capacity, holds, &mut plan.first_undated);
                    plan.decisions.push(Decision::Blocked {
                        class,
                        pending: pending.clone(),
                        attempt,
                    });
                }
            }
        }
        holds.come_to(place);
        if enough(capacity) {
            break;
        }
    }
}

/// A request that waits holds the nodes that it could use; of those that hold them for some time
/// only, the first is counted the time.
fn hold<C: Capacity>(
    attempt: &Attempt,
    pending: &PendingRequest,
    capacity: &mut C,
    holds: &mut Claims,
    undated: &mut Vec<PendingRequest>,
) {
    let is_over = capacity.has_held_its_time(pending, &attempt.request);
    if !is_over {
        let is_first = holds.nodes().is_empty();
        holds.add(&attempt.outcome, &attempt.request, pending.job());
        let is_for_a_time = attempt.request.groups.iter().any(Group::repels_other_namespaces);
        if is_first && is_for_a_time && !holds.nodes().is_empty() {
            undated.push(pending.clone());
        }
    }
}
