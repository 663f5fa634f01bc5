//! Placing requests: among the nodes that have room by their accounts, where the library says.

use std::sync::Arc;

use fluxion_sys::errno;

use super::VertexGraph;
use super::node::{Claim, When};
use super::room::{self, Needs};
use super::telling::BookedVertices;
use crate::fluxion::answer::Explanation;
use crate::fluxion::error::GraphError;
use crate::fluxion::placement::{Fit, Forecast, Placement, SlotsAt};
use crate::fluxion::rankset::{Rank, RankSet};
use crate::fluxion::request::{End, Request};

impl VertexGraph {
    pub(in crate::fluxion) fn allocate(
        &mut self,
        job: u64,
        request: &Request<'_>,
    ) -> Result<Fit, GraphError> {
        const ALLOCATE: &str = "allocate";
        let needs = self.needs(ALLOCATE, request)?;
        if self.jobs.contains_key(&job) {
            let text = format!("job {job}: there already is one");
            return Err(GraphError { operation: ALLOCATE, errno: errno::EEXIST, text });
        }
        self.settle()?;
        // Parties are placed one after the other, those with the fewest nodes first, then once more
        // in the opposite order: a placement that exists only in an order between these is not
        // found.
        let mut parties = room::parties(request);
        parties
            .sort_by_key(|party| request.shapes[party[0]].ranks.map_or(usize::MAX, RankSet::len));
        let tries = if parties.len() > 1 { 2 } else { 1 };
        for _ in 0..tries {
            match self.place_all(job, request, &needs, &parties) {
                Ok(Some(placement)) => return Ok(Fit::Placed(placement)),
                Ok(None) => self.cancel(job)?,
                Err(error) => {
                    self.cancel(job)?;
                    return Err(error);
                }
            }
            parties.reverse();
        }
        Ok(Fit::NotNow)
    }

    /// Places party after party.
    fn place_all(
        &mut self,
        job: u64,
        request: &Request<'_>,
        needs: &[Needs<'_>],
        parties: &[Vec<usize>],
    ) -> Result<Option<Placement>, GraphError> {
        let mut placement = Placement::default();
        for party in parties {
            let needs: Vec<Needs<'_>> = party.iter().map(|at| needs[*at].clone()).collect();
            if !self.place_party(job, request, &needs, &mut placement)? {
                return Ok(None);
            }
        }
        Ok(Some(placement))
    }

    /// Places the shapes of a party in one of their orders; says whether that worked.
    fn place_party(
        &mut self,
        job: u64,
        request: &Request<'_>,
        needs: &[Needs<'_>],
        placement: &mut Placement,
    ) -> Result<bool, GraphError> {
        let before = placement.slots.clone();
        for order in room::orders(&self.nodes, needs) {
            if self.place_in(job, request, needs, &order, placement)? {
                return Ok(true);
            }
            if before.is_empty() {
                self.cancel(job)?;
            } else {
                for slots in placement
                    .slots
                    .iter()
                    .filter(|slots| needs.iter().any(|needs| needs.shape == slots.shape))
                {
                    self.release(job, slots.rank, request.shapes[slots.shape].label, slots.count)?;
                }
                // The library has to know that they are free again before it gets the next request.
                self.settle()?;
            }
            placement.slots.clone_from(&before);
        }
        Ok(false)
    }

    fn place_in(
        &mut self,
        job: u64,
        request: &Request<'_>,
        needs: &[Needs<'_>],
        order: &[usize],
        placement: &mut Placement,
    ) -> Result<bool, GraphError> {
        for needs in order.iter().map(|at| &needs[*at]) {
            let mut left = needs.count;
            let mut rest: RankSet =
                room::open(&self.nodes, needs, When::Now).map(|(rank, _)| rank).collect();
            let tiers = request.shapes[needs.shape].prefer.iter().map(Some).chain([None]);
            for tier in tiers {
                let mut ranks = rest.clone();
                if let Some(tier) = tier {
                    ranks.intersect_with(tier);
                    rest.subtract(tier);
                }
                left -= self.place(job, request, needs, left, &ranks, placement)?;
            }
            if left > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Places up to `count` slots of a shape on these ranks; says how many.
    fn place(
        &mut self,
        job: u64,
        request: &Request<'_>,
        needs: &Needs<'_>,
        count: u64,
        ranks: &RankSet,
        placement: &mut Placement,
    ) -> Result<u64, GraphError> {
        let limit = |rank: Rank, placement: &Placement| {
            let of_limit = |limit: &usize| {
                let (labels, most) = &request.max_per_node[*limit];
                let counts = |slots: &&SlotsAt| {
                    slots.rank == rank
                        && labels.iter().any(|label| *label == request.shapes[slots.shape].label)
                };
                most.saturating_sub(
                    placement.slots.iter().filter(counts).map(|slots| slots.count).sum(),
                )
            };
            needs.limits.iter().map(of_limit).min().unwrap_or(u64::MAX)
        };
        let mut placed = 0;
        let mut ranks = ranks.clone();
        while placed < count {
            // The library cannot be told how many slots a node may get: where there is a limit, one
            // after the other.
            let mut room = 0_u64;
            let mut roomy = RankSet::new();
            for rank in ranks.iter() {
                let free = self
                    .nodes
                    .get(&rank)
                    .map_or(0, |node| room::slots_in(node.free(When::Now), &needs.per_slot));
                let here = free.min(limit(rank, placement));
                if here > 0 {
                    roomy.insert(rank);
                    room = room.saturating_add(here);
                }
            }
            let now = if needs.limits.is_empty() { room.min(count - placed) } else { room.min(1) };
            if now == 0 {
                break;
            }
            let booked = self.book("allocate", &needs.per_slot, now, &roomy)?;
            self.claim(job, request, needs, &booked);
            placed += now;
            for (rank, count) in booked.slots {
                let shape = needs.shape;
                let is_same = |known: &&mut SlotsAt| (known.shape, known.rank) == (shape, rank);
                let known = if needs.limits.is_empty() {
                    None
                } else {
                    placement.slots.iter_mut().find(is_same)
                };
                match known {
                    Some(known) => known.count += count,
                    None => placement.slots.push(SlotsAt { shape, rank, count }),
                }
            }
            ranks = roomy;
        }
        Ok(placed)
    }

    fn claim(
        &mut self,
        job: u64,
        request: &Request<'_>,
        needs: &Needs<'_>,
        booked: &BookedVertices,
    ) {
        let end = End::of(request.shapes[needs.shape].end, self.now);
        let requests = Arc::new(request.shapes[needs.shape].requests.clone());
        for (rank, count) in &booked.slots {
            let requests = Arc::clone(&requests);
            let booking = Some(booked.job);
            let claim =
                Claim { job, label: needs.label.into(), count: *count, requests, end, booking };
            if let Some(node) = self.nodes.get_mut(rank) {
                node.change_claims(|claims| claims.push(claim));
            }
        }
        self.bookings.insert(booked.job, booked.slots.len());
        *self.jobs.entry(job).or_default() += booked.slots.len();
    }

    pub(in crate::fluxion) fn forecast(
        &mut self,
        request: &Request<'_>,
    ) -> Result<Forecast, GraphError> {
        let needs = self.needs("forecast", request)?;
        Ok(room::forecast(&self.nodes, request, &needs, self.now))
    }

    pub(in crate::fluxion) fn eligible(
        &mut self,
        request: &Request<'_>,
    ) -> Result<RankSet, GraphError> {
        let needs = self.needs("eligible", request)?;
        Ok(room::eligible(&self.nodes, &needs))
    }

    pub(in crate::fluxion) fn explain(
        &mut self,
        request: &Request<'_>,
    ) -> Result<Explanation, GraphError> {
        let needs = self.needs("explain", request)?;
        let shapes = needs.iter().map(|needs| room::report(&self.nodes, request, needs)).collect();
        Ok(Explanation { shapes })
    }

    fn needs<'a>(
        &self,
        operation: &'static str,
        request: &Request<'a>,
    ) -> Result<Vec<Needs<'a>>, GraphError> {
        if request.policy.is_some_and(|policy| policy != self.policy) {
            let text = format!(
                "policy: this Fluxion library has one for all requests, {}",
                self.policy.as_str()
            );
            return Err(GraphError { operation, errno: errno::ENOTSUP, text });
        }
        room::needs(operation, request)
    }
}
