//! The pods of a request in the order in which a trial puts them on nodes.

use crate::plan::pods::Part;
use crate::plan::request::Request;

/// Pods of a want, or of one slice of it.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) group: usize,
    pub(super) want: usize,
    pub(super) slice: Option<u32>,
    pub(super) pods: Part<'a>,
}

/// Its pods by want, or by slice, in the order in which they are tried: those that are to be
/// near to each other may be the first of their like only before others of it are elsewhere.
pub(super) fn pieces(request: &Request) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for (group, of) in request.groups.iter().enumerate() {
        for (want, (slots, pods)) in of.wants.iter().zip(&of.pods).enumerate() {
            let mut left = pods.whole();
            for (count, slice) in slots.pieces() {
                let (pods, others) = left.split_at(count);
                pieces.push(Piece { group, want, slice, pods });
                left = others;
            }
        }
    }
    pieces.sort_by_key(|piece| !request.groups[piece.group].is_near_its_own());
    pieces
}
