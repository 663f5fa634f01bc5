//! Which pod of a gang goes to which node, and how much of that the API server has acknowledged.
//!
//! A seat is a pod index of the placement and its node. It keeps its index as long as the placement
//! stands: a pod that replaces another one takes its seat.

use std::sync::Arc;

use fluxqueue_workload::{NodeName, Shape, Uid};

/// The seat that a pod gets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seating {
    /// This seat.
    At(PodIndex),
    /// The seat of the pod's own number if it has one, else the first free seat of its pod set.
    Free {
        /// The place of its shape among the job's pod sets.
        pod_set: usize,
    },
}

/// The placement of a job that is written before its first Binding.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    all: Vec<Seat>,
    /// The shape of each pod set, by its number. A set that was restored has none until a pod of it
    /// is there.
    sets: Vec<Option<Arc<Shape>>>,
    /// The number of changes so far.
    version: u64,
    /// The newest version that the API server has acknowledged.
    acked: u64,
    /// The epoch of the leader that made the placement.
    epoch: Option<i64>,
    /// True if a placement may stand in its FluxJob.
    on_record: bool,
}

/// The number of a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodIndex(usize);

/// One pod's place.
#[derive(Debug)]
pub(crate) struct Seat {
    pod_set: usize,
    node: NodeName,
    occupant: Occupant,
    /// The version of the placement that first had this node.
    version: u64,
}

/// The use of a seat.
#[derive(Debug, PartialEq, Eq)]
enum Occupant {
    /// The seat is free.
    Free,
    /// A slot is retained with the seat, for a pod that is to come.
    Kept,
    /// The seat is this pod's.
    Pod(Uid),
}

impl Seat {
    /// Returns the place of its shape among the job's pod sets.
    pub(crate) fn pod_set(&self) -> usize {
        self.pod_set
    }

    pub(crate) fn node(&self) -> &NodeName {
        &self.node
    }

    /// True if no pod has the seat; it may be kept for one.
    pub(crate) fn is_empty(&self) -> bool {
        !matches!(self.occupant, Occupant::Pod(_))
    }
}

impl Seats {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    fn get(&self, index: PodIndex) -> Option<&Seat> {
        self.all.get(index.0)
    }

    /// Returns the pod that has a seat.
    pub(crate) fn occupant(&self, index: PodIndex) -> Option<&Uid> {
        match &self.get(index)?.occupant {
            Occupant::Pod(pod) => Some(pod),
            Occupant::Free | Occupant::Kept => None,
        }
    }

    /// True if a seat is kept for a pod that is to come.
    pub(crate) fn is_kept(&self, index: PodIndex) -> bool {
        self.get(index).is_some_and(|seat| seat.occupant == Occupant::Kept)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodIndex, &Seat)> {
        self.all.iter().enumerate().map(|(at, seat)| (PodIndex(at), seat))
    }

    /// Returns the seats that no pod has, in order.
    pub(crate) fn empty(&self) -> impl Iterator<Item = (PodIndex, &Seat)> {
        self.iter().filter(|(_, seat)| seat.is_empty())
    }

    /// Returns the seat of this number, if no pod has it.
    pub(crate) fn empty_of_number(&self, number: u32) -> Option<(PodIndex, &Seat)> {
        let index = PodIndex(usize::try_from(number).ok()?);
        Some((index, self.get(index).filter(|seat| seat.is_empty())?))
    }

    /// Returns the epoch of the leader that made the placement; `None` without a placement.
    pub(crate) fn epoch(&self) -> Option<i64> {
        self.epoch.filter(|_| !self.is_empty())
    }

    // --- pod sets ---

    /// Returns the number of the pod set of this shape. Sets keep their numbers as long as the
    /// placement stands, also when all pods of one have ended. A shape that is not known is that of
    /// a restored set that `may_be` it, or else of a new set.
    pub(crate) fn pod_set_of(
        &mut self,
        shape: &Arc<Shape>,
        may_be: impl Fn(usize) -> bool,
    ) -> usize {
        let is_it = |known: &Option<Arc<Shape>>| known.as_ref().is_some_and(|known| known == shape);
        if let Some(known) = self.sets.iter().position(is_it) {
            return known;
        }
        let restored = (0..self.sets.len()).find(|set| self.sets[*set].is_none() && may_be(*set));
        let number = restored.unwrap_or(self.sets.len());
        if restored.is_none() {
            self.sets.push(None);
        }
        self.sets[number] = Some(Arc::clone(shape));
        number
    }

    /// Notes the shape of a pod that has this seat.
    pub(crate) fn note_shape(&mut self, index: PodIndex, shape: &Arc<Shape>) {
        let set = self.all.get(index.0).and_then(|seat| self.sets.get_mut(seat.pod_set));
        if let Some(set) = set {
            set.get_or_insert_with(|| Arc::clone(shape));
        }
    }

    // --- the pods on the seats ---

    /// Gives a pod this seat on this node: an existing seat, or a new one at the end. If the node
    /// differs from the seat's former one, the pod is sent there once a placement with that node is
    /// acknowledged.
    pub(crate) fn take(&mut self, index: PodIndex, pod_set: usize, node: &NodeName, pod: &Uid) {
        if index.0 == self.all.len() {
            self.version += 1;
            self.all.push(Seat {
                pod_set,
                node: node.clone(),
                occupant: Occupant::Free,
                version: self.version,
            });
        }
        self.follow(index, node);
        self.fill(index, Occupant::Pod(pod.clone()));
    }

    /// Moves a seat to this node.
    pub(crate) fn follow(&mut self, index: PodIndex, node: &NodeName) {
        if let Some(seat) = self.all.get_mut(index.0).filter(|seat| seat.node != *node) {
            self.version += 1;
            seat.node = node.clone();
            seat.version = self.version;
        }
    }

    /// Frees a seat.
    pub(crate) fn leave(&mut self, index: PodIndex) {
        self.fill(index, Occupant::Free);
    }

    /// Keeps a seat for a pod that is to come.
    pub(crate) fn keep(&mut self, index: PodIndex) {
        self.fill(index, Occupant::Kept);
    }

    fn fill(&mut self, index: PodIndex, occupant: Occupant) {
        if let Some(seat) = self.all.get_mut(index.0) {
            seat.occupant = occupant;
        }
    }

    /// Returns the seat for a pod of this pod set: its own number if it has one and that seat is
    /// free, else the lowest free seat, else a new one.
    pub(crate) fn next_free(&self, pod_set: usize, own: Option<u32>) -> PodIndex {
        let will_do = |seat: Option<&Seat>| seat.is_none_or(|seat| seat.pod_set == pod_set);
        self.own_or_lowest(own, will_do)
    }

    /// Returns the seat for a pod that is on this node already: its own number if that seat is on
    /// the node and free, else the lowest free seat on the node, else a new one.
    pub(crate) fn next_free_on(&self, node: &NodeName, own: Option<u32>) -> PodIndex {
        let will_do = |seat: Option<&Seat>| seat.is_some_and(|seat| seat.node == *node);
        self.own_or_lowest(own, will_do)
    }

    /// Returns the free seat of the pod's own number, else the lowest free one. `will_do` is called
    /// with a seat, or with `None` for the one to be made at the end.
    fn own_or_lowest(&self, own: Option<u32>, will_do: impl Fn(Option<&Seat>) -> bool) -> PodIndex {
        let is_free = |at: &usize| {
            let seat = self.all.get(*at);
            seat.is_none_or(|seat| seat.occupant == Occupant::Free) && will_do(seat)
        };
        let new = self.all.len();
        let own =
            own.and_then(|at| usize::try_from(at).ok()).filter(|at| *at <= new).filter(is_free);
        PodIndex(own.or_else(|| (0..new).find(is_free)).unwrap_or(new))
    }

    /// Removes the placement.
    pub(crate) fn clear(&mut self) {
        self.sets.clear();
        if !self.all.is_empty() {
            self.all.clear();
            self.version += 1;
        }
    }

    // --- the placement on record ---

    /// Restores the placement from its FluxJob: pod set and node of each seat.
    pub(crate) fn restore(&mut self, seats: impl IntoIterator<Item = (usize, NodeName)>) {
        (self.version, self.acked, self.on_record) = (1, 1, true);
        self.all = seats
            .into_iter()
            .map(|(pod_set, node)| Seat { pod_set, node, occupant: Occupant::Free, version: 1 })
            .collect();
        let sets = self.all.iter().map(|seat| seat.pod_set + 1).max().unwrap_or(0);
        self.sets = vec![None; sets];
    }

    /// Notes the epoch of the leader that made the placement.
    pub(crate) fn placed_by(&mut self, epoch: Option<i64>) {
        self.epoch = epoch;
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Notes that a placement of this version is acknowledged.
    pub(crate) fn acknowledge(&mut self, version: u64) {
        self.acked = self.acked.max(version);
    }

    /// True if the whole placement is acknowledged.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.acked >= self.version
    }

    /// True if the node of each pod is acknowledged.
    pub(crate) fn may_all_leave(&self) -> bool {
        self.all.iter().all(|seat| seat.version <= self.acked)
    }

    /// True if the node of the pod on this seat is acknowledged.
    pub(crate) fn may_leave(&self, index: PodIndex) -> bool {
        self.get(index).is_none_or(|seat| seat.version <= self.acked)
    }

    /// Forgets the acknowledgements: the FluxJob is gone, and the placement with it. A pod that was
    /// not sent yet waits for the next acknowledgement.
    pub(crate) fn forget_acknowledgements(&mut self) {
        if self.all.is_empty() {
            return;
        }
        self.version += 1;
        for seat in &mut self.all {
            seat.version = self.version;
        }
    }

    /// True if a placement may stand in its FluxJob.
    pub(crate) fn is_on_record(&self) -> bool {
        self.on_record
    }

    pub(crate) fn note_on_record(&mut self, on_record: bool) {
        self.on_record = on_record;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<const N: usize>(names: [&str; N]) -> [NodeName; N] {
        names.map(NodeName::from)
    }

    #[test]
    fn a_pod_leaves_once_its_own_seat_is_acknowledged() {
        let [a, b] = names(["a", "b"]);
        let mut seats = Seats::default();
        seats.take(seats.next_free(0, None), 0, &a, &"p".into());
        let written = seats.version();
        seats.take(seats.next_free(0, None), 0, &b, &"q".into());
        seats.acknowledge(written);
        assert!(
            seats.may_leave(PodIndex(0)) && !seats.may_leave(PodIndex(1)) && !seats.may_all_leave()
        );
        seats.acknowledge(seats.version());
        assert!(seats.may_all_leave() && seats.is_acknowledged());
        seats.follow(PodIndex(0), &b);
        assert!(!seats.may_leave(PodIndex(0)) && seats.may_leave(PodIndex(1)));
        seats.acknowledge(seats.version());
        seats.forget_acknowledgements();
        assert!(!seats.may_leave(PodIndex(1)));
    }

    #[test]
    fn a_pod_takes_its_own_number_or_the_lowest_free_seat() {
        let [a, b] = names(["a", "b"]);
        let mut seats = Seats::default();
        seats.restore([(0, a.clone()), (0, b.clone()), (1, b.clone())]);
        assert!(seats.is_acknowledged());
        assert_eq!(seats.next_free(0, Some(1)), PodIndex(1));
        assert_eq!(seats.next_free(0, Some(2)), PodIndex(0), "of another pod set");
        seats.keep(PodIndex(0));
        assert_eq!(seats.next_free(0, None), PodIndex(1));
        assert!(seats.is_kept(PodIndex(0)) && seats.empty().count() == 3);
        seats.leave(PodIndex(0));
        assert!(seats.next_free(0, None) == PodIndex(0) && !seats.is_kept(PodIndex(0)));
        assert_eq!(seats.next_free_on(&b, Some(0)), PodIndex(1), "on another node");
        seats.take(PodIndex(1), 0, &b, &"p".into());
        assert_eq!(seats.next_free_on(&b, None), PodIndex(2));
        assert_eq!(seats.next_free_on(&"c".into(), None), PodIndex(3));
        seats.leave(PodIndex(1));
        assert_eq!(seats.empty().count(), 3);
    }
}
