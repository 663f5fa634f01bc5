//! One node's account: its amounts, the claims on them, and the free part at each moment.
//!
//! A claim that was *booked* holds whole vertices of its own. All others are *charged* together:
//! the vertices that the sum of their exact amounts leaves unusable, so ten small pods do not cost
//! ten cores.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::kinds;
use crate::fluxion::request::End;
use fluxqueue_workload::Resources;

/// Slots of one label that a job has on a node.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) job: u64,
    pub(super) label: Box<str>,
    pub(super) count: u64,
    /// What one slot takes, in exact amounts.
    pub(super) requests: Arc<Resources>,
    pub(super) end: End,
    /// The library's job that holds its vertices; `None`: it is charged.
    pub(super) booking: Option<u64>,
}

/// A node.
#[derive(Debug)]
pub(super) struct VertexNode {
    pub(super) name: Box<str>,
    pub(super) up: bool,
    /// Its vertices in the library's graph, if it is there.
    pub(super) known: Option<Resources>,
    /// True if the library refused vertices that it had to take: nothing more goes here.
    pub(super) broken: bool,
    /// The library's job that holds the charges, and its vertices.
    pub(super) charged: Option<(u64, Resources)>,
    pools: Resources,
    claims: Vec<Claim>,
    free: Free,
}

/// Vertices that are free, at each moment.
#[derive(Debug, Default)]
struct Free {
    now: Resources,
    /// The free vertices from each of these seconds on, in their order: each once a known end has
    /// passed.
    later: Vec<(i64, Resources)>,
    /// Once everything that has an end has ended.
    eventually: Resources,
    idle: Resources,
    /// What booked slots hold now.
    booked: Resources,
}

/// A moment to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Now,
    /// Whatever is known to end by this second has ended.
    After(i64),
    /// All that has an end has ended.
    Eventually,
    /// Nothing runs, and every node is up.
    Idle,
}

impl VertexNode {
    pub(super) fn new(name: &str, pools: &Resources) -> Self {
        let mut node = VertexNode {
            name: name.into(),
            up: true,
            known: None,
            broken: false,
            charged: None,
            pools: pools.clone(),
            claims: Vec::new(),
            free: Free::default(),
        };
        node.count();
        node
    }

    /// The vertices that it should have.
    pub(super) fn vertices(&self) -> &Resources {
        &self.free.idle
    }

    pub(super) fn pools(&self) -> &Resources {
        &self.pools
    }

    pub(super) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Changes its amount of a resource.
    pub(super) fn resize(&mut self, resource: &str, size: u64) {
        self.pools.set(resource, size);
        self.count();
    }

    /// Changes the claims.
    pub(super) fn change_claims<T>(&mut self, change: impl FnOnce(&mut Vec<Claim>) -> T) -> T {
        let result = change(&mut self.claims);
        self.count();
        result
    }

    /// Vertices that are free then, whether or not it is up.
    pub(super) fn free(&self, when: When) -> &Resources {
        match when {
            When::Now => &self.free.now,
            When::After(second) => {
                match self.free.later.partition_point(|(from, _)| *from <= second) {
                    0 => &self.free.now,
                    passed => &self.free.later[passed - 1].1,
                }
            }
            When::Eventually => &self.free.eventually,
            When::Idle => &self.free.idle,
        }
    }

    /// True if it may be used then.
    pub(super) fn is_open(&self, when: When) -> bool {
        !self.broken && (self.up || when == When::Idle)
    }

    /// The seconds at which a known end frees something.
    pub(super) fn ends(&self) -> impl Iterator<Item = i64> {
        self.free.later.iter().map(|(second, _)| *second)
    }

    /// Returns the vertices to be taken for the charges: all that are neither booked nor free.
    pub(super) fn unusable(&self) -> Resources {
        let mut taken = self.free.idle.clone();
        taken.subtract(&self.free.booked);
        taken.subtract(&self.free.now);
        taken
    }

    /// Exact amounts that are taken.
    pub(super) fn used(&self) -> Resources {
        sum(self.claims.iter())
    }

    fn count(&mut self) {
        let ends: BTreeSet<i64> =
            self.claims.iter().filter_map(|claim| second(claim.end)).collect();
        let later = ends
            .into_iter()
            .map(|now| (now, self.left_by(|claim| second(claim.end).is_none_or(|end| end > now))));
        self.free = Free {
            later: later.collect(),
            now: self.left_by(|_| true),
            eventually: self.left_by(|claim| claim.end == End::Never),
            idle: kinds::enough_for(&self.pools),
            booked: booked(self.claims.iter()),
        };
    }

    /// The vertices that these claims leave.
    fn left_by(&self, counts: impl Fn(&Claim) -> bool) -> Resources {
        let mut amounts = self.pools.clone();
        amounts.subtract(&sum(self
            .claims
            .iter()
            .filter(|claim| claim.booking.is_none() && counts(claim))));
        let mut left = kinds::enough_for(&amounts);
        left.subtract(&booked(self.claims.iter().filter(|claim| counts(claim))));
        left
    }
}

fn second(end: End) -> Option<i64> {
    match end {
        End::At(second) => Some(second),
        End::Eventually | End::Never => None,
    }
}

fn sum<'a>(claims: impl Iterator<Item = &'a Claim>) -> Resources {
    let mut total = Resources::new();
    for claim in claims {
        total.add(&times(&claim.requests, claim.count));
    }
    total
}

fn booked<'a>(claims: impl Iterator<Item = &'a Claim>) -> Resources {
    let mut total = Resources::new();
    for claim in claims.filter(|claim| claim.booking.is_some()) {
        if let Ok(needed) = kinds::needed_for(&claim.requests) {
            total.add(&times(&needed, claim.count));
        }
    }
    total
}

pub(super) fn times(amounts: &Resources, count: u64) -> Resources {
    amounts.iter().map(|(name, amount)| (Arc::clone(name), amount.saturating_mul(count))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cpu: u64) -> VertexNode {
        VertexNode::new("node", &[("cpu", cpu), ("pods", 10)].into_iter().collect())
    }

    fn claim(cpu: u64, count: u64, end: End, booking: Option<u64>) -> Claim {
        let requests = Arc::new([("cpu", cpu), ("pods", 1)].into_iter().collect());
        Claim { job: 1, label: "0".into(), count, requests, end, booking }
    }

    fn free(node: &VertexNode, when: When) -> (u64, u64) {
        (node.free(when).get("cpu"), node.free(when).get("pods"))
    }

    #[test]
    fn small_charges_share_a_core_and_slots_do_not() {
        let mut node = node(3900);
        node.change_claims(|claims| claims.push(claim(100, 9, End::Never, None)));
        assert_eq!(free(&node, When::Now), (3, 1), "900m of the 900m that no core is made of");
        assert_eq!(node.unusable().get("cpu"), 0);
        node.change_claims(|claims| claims.push(claim(100, 1, End::Never, None)));
        assert_eq!((free(&node, When::Now), node.unusable().get("cpu")), ((2, 0), 1));
        node.change_claims(|claims| claims.push(claim(100, 2, End::Never, Some(7))));
        assert_eq!((free(&node, When::Now), node.unusable().get("cpu")), ((0, 0), 1));
        assert_eq!(node.used().get("cpu"), 1200);
    }

    #[test]
    fn an_overcharged_node_is_full() {
        let mut node = node(2000);
        node.change_claims(|claims| claims.push(claim(1000, 1, End::Eventually, Some(7))));
        node.change_claims(|claims| claims.push(claim(5000, 1, End::Never, None)));
        assert_eq!(free(&node, When::Now).0, 0);
        assert_eq!(node.unusable().get("cpu"), 1, "the library cannot take more than there is");
        assert_eq!(free(&node, When::Eventually).0, 0);
        assert_eq!(free(&node, When::Idle), (2, 10));
    }

    #[test]
    fn each_moment_has_its_account() {
        let mut node = node(4000);
        for (at, booking) in [(20, Some(1)), (10, None)] {
            node.change_claims(|claims| claims.push(claim(1000, 1, End::At(at), booking)));
        }
        node.change_claims(|claims| claims.push(claim(1000, 1, End::Eventually, None)));
        node.change_claims(|claims| claims.push(claim(1000, 1, End::Never, None)));
        let at = |second| free(&node, When::After(second)).0;
        assert_eq!([at(9), at(10), at(19), at(20), at(1000)], [0, 1, 1, 2, 2]);
        assert_eq!((free(&node, When::Now).0, free(&node, When::Eventually).0), (0, 3));
        assert!(node.ends().eq([10, 20]));
    }
}
