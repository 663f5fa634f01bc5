//! The account: all that a job has, or is to have, of vertices and of the units of nodes.
//!
//! There is no other record of it. The schedule, by vertex, and the pools, by node, are indexes:
//! they are changed in the same step as the claims, and can be made again from them at any time
//! ([`rebuild`](super::restoring::rebuild)). Copies of a book share the claims of each job that
//! neither side has changed, and the end of a trial restores them; the indexes follow.

use smallvec::SmallVec;

use crate::pools::Slots;
use crate::schedule::Touch;
use crate::vertex::VertexId;

/// Few jobs are on more than a handful of nodes.
pub(crate) type Ranks = SmallVec<[u32; 4]>;

/// All that one job has, or is to have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Claims {
    vertices: Vec<Touch>,
    slots: Vec<Slots>,
}

impl Claims {
    /// True if the job has nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.vertices.is_empty() && self.slots.is_empty()
    }

    /// Vertices that the job has for itself or passes through, children before parents.
    pub(crate) fn vertices(&self) -> &[Touch] {
        &self.vertices
    }

    /// The vertices that the job has for itself.
    pub(crate) fn own_vertices(&self) -> impl Iterator<Item = VertexId> + '_ {
        self.vertices.iter().filter(|touch| touch.exclusive).map(|touch| touch.vertex)
    }

    /// Slots on nodes that are there, oldest first.
    pub(crate) fn slots(&self) -> &[Slots] {
        &self.slots
    }

    /// True if the job has slots.
    pub(crate) fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    /// How many slots the job has.
    pub(crate) fn slot_count(&self) -> u64 {
        self.slots.iter().flat_map(Slots::on).map(|(_, count)| count).sum()
    }

    /// How many slots of a label the job has on a rank.
    pub(crate) fn slots_on(&self, rank: u32, label: &str) -> u64 {
        let labelled = self.slots.iter().filter(|slots| *slots.shape.label == *label);
        let on = labelled.flat_map(Slots::on).filter(|(known, _)| *known == rank);
        on.map(|(_, count)| count).sum()
    }

    /// True if the job has slots on a rank.
    pub(crate) fn has_rank(&self, rank: u32) -> bool {
        self.slots.iter().any(|slots| slots.has_rank(rank))
    }

    /// The ranks on which the job has slots, ascending, each once.
    pub(crate) fn ranks(&self) -> Ranks {
        let mut ranks: Ranks =
            self.slots.iter().flat_map(Slots::on).map(|(rank, _)| *rank).collect();
        if self.slots.len() > 1 {
            ranks.sort_unstable();
        }
        ranks.dedup();
        ranks
    }

    /// Adds vertices.
    pub(super) fn add_vertices(&mut self, more: Vec<Touch>) {
        if self.vertices.is_empty() {
            self.vertices = more;
        } else {
            self.vertices.extend(more);
        }
    }

    /// Takes all vertices out.
    pub(super) fn take_vertices(&mut self) -> Vec<Touch> {
        std::mem::take(&mut self.vertices)
    }

    /// The vertices, to be changed.
    pub(super) fn vertices_mut(&mut self) -> &mut Vec<Touch> {
        &mut self.vertices
    }

    /// Adds slots. Charges come one by one: those of one shape and time share an entry.
    pub(super) fn add_slots(&mut self, slots: Slots) {
        if let [(rank, count)] = slots.on[..]
            && let Some(last) = self.slots.last_mut()
            && (&last.shape, last.times, last.planned) == (&slots.shape, slots.times, slots.planned)
            && let Err(at) = last.on.binary_search_by_key(&rank, |(known, _)| *known)
        {
            last.on.insert(at, (rank, count));
            return;
        }
        self.slots.push(slots);
    }

    /// The slots that have not begun, to be changed.
    pub(super) fn planned_mut(&mut self) -> impl Iterator<Item = &mut Slots> {
        self.slots.iter_mut().filter(|slots| slots.planned)
    }

    /// Takes out `count` slots of a label on a rank, newest first.
    pub(super) fn take_slots(&mut self, rank: u32, label: &str, mut count: u64) -> Vec<Slots> {
        let mut taken = Vec::new();
        for slots in self.slots.iter_mut().rev().filter(|slots| *slots.shape.label == *label) {
            if let Ok(at) = slots.on.binary_search_by_key(&rank, |(known, _)| *known) {
                let here = &mut slots.on[at].1;
                let less = count.min(*here);
                *here -= less;
                count -= less;
                if *here == 0 {
                    slots.on.remove(at);
                }
                if less > 0 {
                    let mut part = slots.elsewhere();
                    part.on.push((rank, less));
                    taken.push(part);
                }
            }
            if count == 0 {
                break;
            }
        }
        self.slots.retain(|slots| !slots.on.is_empty());
        taken
    }

    /// Takes out all slots on some ranks.
    pub(super) fn take_ranks(&mut self, within: impl Fn(u32) -> bool) -> Vec<Slots> {
        let mut taken = Vec::new();
        for slots in &mut self.slots {
            let mut part = slots.elsewhere();
            slots.on.retain(|(rank, count)| {
                let is_taken = within(*rank);
                if is_taken {
                    part.on.push((*rank, *count));
                }
                !is_taken
            });
            if !part.on.is_empty() {
                taken.push(part);
            }
        }
        self.slots.retain(|slots| !slots.on.is_empty());
        taken
    }
}
