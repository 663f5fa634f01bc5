//! The booking of the places that a trial has found: its question to the graph, and the check of
//! each pod on its node.

use std::sync::Arc;

use super::cells::Share;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::fluxion::{Fit, Within};
use fluxqueue_machine::ledger::{Allocations, GroupRequest, LevelWant, LevelWants, SlotRequest};

/// Shares in one question to the graph at most; it looks for no place for more than 500 shapes.
const SHARES_MAX: usize = 400;

/// Takes the slots that a trial gave to the pods.
pub(super) fn book(room: &mut Room<'_>, request: &Request, shares: &[Share]) -> Fit<Allocations> {
    if shares.len() > SHARES_MAX {
        return Fit::NotNow;
    }
    let mut groups = Vec::with_capacity(shares.len());
    for share in shares {
        let group = &request.groups[share.group];
        let shape = Arc::clone(&group.wants[share.want].shape);
        let all = group.ordered_request(&share.nodes, room.cluster);
        let wants = vec![SlotRequest {
            slices: share.slices.clone(),
            ..SlotRequest::new(shape, share.count)
        }];
        let max_per_node = [share.max_per_node, all.max_per_node].into_iter().flatten().min();
        let levels = if share.keeps_levels { wishes(&all.levels) } else { all.levels.clone() };
        groups.push(GroupRequest { wants, max_per_node, levels, ..all });
    }
    let placed = match room.ledger.allocate(room.cluster, &groups) {
        Fit::Placed(placed) => placed,
        Fit::NotNow => return Fit::NotNow,
        Fit::NotFound => return Fit::NotFound,
    };
    let mut slots: Allocations = request
        .groups
        .iter()
        .map(|group| group.wants.iter().map(|_| Vec::new()).collect())
        .collect();
    for (share, of_share) in shares.iter().zip(placed) {
        slots[share.group][share.want].extend(of_share.into_iter().flatten());
    }
    housed(Fit::Placed(slots), room, request)
}

/// Lets the pods into slots that were taken; gives the slots back if one may not come to its own.
pub(super) fn housed(
    fit: Fit<Allocations>,
    room: &mut Room<'_>,
    request: &Request,
) -> Fit<Allocations> {
    let Fit::Placed(mut slots) = fit else { return fit };
    if room.house(request, &mut slots) {
        return Fit::Placed(slots);
    }
    for allocation in slots.into_iter().flatten().flatten() {
        room.ledger.free(room.cluster, allocation);
    }
    Fit::NotFound
}

/// Returns the wants about levels that are wishes, not conditions.
fn wishes(levels: &LevelWants) -> LevelWants {
    let wishes: Arc<[LevelWant]> = levels
        .iter()
        .flat_map(|wants| wants.iter())
        .filter(|want| want.within == Within::Fewest)
        .cloned()
        .collect();
    (!wishes.is_empty()).then_some(wishes)
}
