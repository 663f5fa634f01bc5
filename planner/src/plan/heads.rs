//! The requests with which a backfill walk begins.

use std::collections::BTreeSet;

use super::progress::{News, Pending, untried};
use super::promising::Promising;
use crate::queue::{ClassId, Place};

/// Returns the requests that are tried first: the first of each class, or of the whole queue if the
/// others are found on the way, and all that are promised something.
pub(super) fn heads(
    queue: &Pending,
    capacity: &impl Promising,
    news: News,
    are_found_on_the_way: bool,
) -> BTreeSet<(Place, ClassId)> {
    match news {
        News::Arrivals => arrivals(queue),
        News::Anything => {
            let promised = capacity.promised();
            let promised = promised.iter().filter_map(|pending| queue.place_of(pending));
            let known = if are_found_on_the_way { 1 } else { usize::MAX };
            let heads = queue.heads().take(known).chain(promised);
            heads.map(|(place, class)| (place.clone(), class)).collect()
        }
    }
}

/// Returns the first arrival of each class: a request of a class that waits may be promised
/// something too.
fn arrivals(queue: &Pending) -> BTreeSet<(Place, ClassId)> {
    let first =
        queue.arrivals().filter_map(|(class, places)| Some((places.first()?.clone(), class)));
    first.chain(untried(queue).map(|(place, class)| (place.clone(), class))).collect()
}
