//! Gangs: whether a gang is whole, has stalled, or has become larger than its start.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fluxqueue_api::{DegradedReason, names};

use crate::jobs::job::{Identity, Job, Style};
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::setbacks::{Setback, Setbacks};
use crate::jobs::stalled::{Stall, StallCause, Stalled};
use crate::parts::Refresh;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_machine::fluxion::Rank;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Resources;

/// The largest number of gangs among which a ring is searched: each may be compared with each, on
/// all nodes that it holds. If more gangs have begun and are not whole, some rings show as
/// `StartTimeout`.
const RING_JOBS_MAX: usize = 64;

impl Refresh<'_> {
    /// Handles pods of a gang that another client bound: the gang has begun, and its other pods
    /// join. The record follows.
    pub(crate) fn seat_externally_bound(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang {
            return Ok(());
        }
        let bound = self.jobs.remaining(job).into_iter().filter(|member| member.is_bound());
        let externally_bound = bound.filter(|member| {
            !job.life.is_placed() || (job.writes_ahead() && member.seat.is_none())
        });
        let externally_bound: Vec<_> = externally_bound
            .filter_map(|m| {
                Some((m.pod.id.uid.clone(), m.pod.node.clone()?, m.pod.completion_index))
            })
            .collect();
        if externally_bound.is_empty() {
            return Ok(());
        }
        let now = self.clock.now;
        let wanted = self.jobs.all.get(&id).map_or(0, |job| self.jobs.wanted(job));
        let job = self.jobs.all.known_mut(&id)?;
        if !job.life.is_placed() {
            // The start size of the gang has not been computed yet.
            job.start.size = job.start.size.max(wanted);
            job.life = Lifecycle::Starting { since: now };
        }
        let before = job.start.seats.version();
        if job.writes_ahead() {
            for (uid, node, index) in externally_bound {
                self.slots().seat_bound(id, &uid, &node, index)?;
            }
        }
        if let Some(job) =
            self.jobs.all.get_mut(&id).filter(|job| job.start.seats.version() != before)
        {
            job.start.seats.placed_by(Some(self.records.epoch));
        }
        Ok(())
    }

    /// Withdraws a pod that was to start alone, unless it was sent: it waits for the others that
    /// are wanted by now. The same holds for the pods of a PodGroup that needs more than have
    /// places, or is not there any more.
    pub(crate) fn outgrow_start(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang || job.life != Lifecycle::Placed {
            return Ok(());
        }
        let follows_group = matches!(job.workload.identity, Identity::PodGroup(..));
        let (places, setback) = match job.writes_ahead() {
            false => (1, Setback::LostRace),
            true if follows_group => (job.start.seats.len(), Setback::Changed),
            true => return Ok(()),
        };
        let why = match self.sight().start_size_now(job) {
            Some(size) if size > places => format!("{size} pods start together by now"),
            None if follows_group => "its PodGroup is not there any more".to_owned(),
            Some(_) | None => return Ok(()),
        };
        self.slots().withdraw(id, &why, setback)
    }

    pub(crate) fn notice_completeness(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let bound = self.jobs.remaining(job).iter().filter(|member| member.is_bound()).count();
        // A pod that has ended since was bound too. A Job may also want fewer pods by now.
        let (wanted, is_group) = (self.jobs.wanted(job), job.workload.identity.is_group());
        let start_size = if is_group { job.start.size } else { job.start.size.min(wanted) };
        let reached = bound + job.start.ended_early;
        let whole = reached >= start_size && bound > 0;
        let now = self.clock.now;
        let job = self.jobs.all.known_mut(&id)?;
        if job.style != Style::Gang {
            return Ok(());
        }
        job.life = match job.life {
            Lifecycle::Placed | Lifecycle::Starting { .. } if whole => Lifecycle::Whole,
            // Another client bound one of them.
            Lifecycle::Placed if bound > 0 => Lifecycle::Starting { since: now },
            life => life,
        };
        let most = job.start.most_bound.max(reached);
        // A Job states how many pods it wants; a group has only the pods that exist.
        job.start.most_bound = if is_group { most } else { most.min(wanted) };
        if job.life == Lifecycle::Whole {
            job.start.stalled = None;
            job.start.setbacks = Setbacks::default();
        }
        Ok(())
    }

    /// Reports a gang that has begun and does not become whole in time, with the obstacle.
    pub(crate) fn notice_stall(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        // Only a gang of which some pods have begun can stall.
        let Lifecycle::Starting { since } = job.life else { return Ok(()) };
        let due = since.plus_secs(self.settings.gang_start_timeout_secs);
        if self.clock.now < due {
            self.agenda.timers.wake(Timer::Job(id), due);
            return Ok(());
        }
        let live = self.jobs.live_members(job);
        let bound = live.iter().filter(|member| member.is_bound()).count();
        // As the condition Scheduled has it: the size at the start is not on record.
        let (size, namespace) = (self.jobs.wanted(job), Arc::clone(&job.key.namespace));
        let ring = self.ring_of(id);
        let why = if ring.is_empty() {
            let job = self.jobs.all.known(&id)?;
            StallCause::Obstacles(job.told.blocker.clone().map(Box::new))
        } else {
            let others = ring.iter().filter_map(|other| self.jobs.all.get(other));
            let is_told = |job: &Job| {
                let stalled = job.start.stalled.as_ref();
                stalled.is_some_and(|it| it.reason() == DegradedReason::MutualWait)
            };
            for other in others.clone().filter(|job| !is_told(job)) {
                self.agenda.timers.wake(Timer::Job(other.id), self.clock.now);
            }
            let reader = self.settings.reader(&namespace);
            StallCause::Ring(others.map(|job| reader.job(&job.key)).collect())
        };
        let job = self.jobs.all.known_mut(&id)?;
        let stall = Stall { bound, size, why };
        job.start.stalled = Some(Stalled::after(job.start.stalled.take(), stall));
        Ok(())
    }

    /// Returns a ring of other gangs that have begun and are not whole. Each of them holds room on
    /// a node where a missing pod of the one before it would fit; this gang comes before the first
    /// and after the last. It is the shortest such ring, or empty if there is none.
    fn ring_of(&mut self, id: JobId) -> Vec<JobId> {
        let waits = |job: &&Job| job.id != id && !job.waiting.requests.is_empty();
        let mut unseen: Vec<JobId> =
            self.jobs.starting().filter(waits).map(|job| job.id).take(RING_JOBS_MAX).collect();
        let mut to_look_at = VecDeque::from([vec![id]]);
        while let Some(chain) = to_look_at.pop_front() {
            let last = chain.last().copied().unwrap_or(id);
            if last != id && self.is_in_the_way_of(id, last) {
                return chain[1..].to_vec();
            }
            let (ahead, rest): (Vec<JobId>, Vec<JobId>) =
                unseen.into_iter().partition(|other| self.is_in_the_way_of(*other, last));
            unseen = rest;
            to_look_at.extend(ahead.into_iter().map(|other| [chain.as_slice(), &[other]].concat()));
        }
        Vec::new()
    }

    /// True if a pod of `waiting` without a slot would fit on a node if `holder` had nothing there,
    /// and does not fit there as it is.
    pub(crate) fn is_in_the_way_of(&mut self, holder: JobId, waiting: JobId) -> bool {
        let (Some(holder), Some(waiting)) =
            (self.jobs.all.get(&holder), self.jobs.all.get(&waiting))
        else {
            return false;
        };
        let mut held: BTreeMap<Rank, (Resources, Vec<u64>)> = BTreeMap::new();
        for allocation in
            self.jobs.live_members(holder).into_iter().filter_map(|member| member.allocation())
        {
            let (freed, numbers) = held.entry(allocation.rank).or_default();
            freed.add(&allocation.shape.requests);
            numbers.push(allocation.number);
        }
        let missing =
            self.jobs.live_members(waiting).into_iter().find(|member| member.is_ready(names::GATE));
        let Some((pod, tenancy)) =
            missing.map(|member| (Arc::clone(&member.pod), member.terms.tenancy))
        else {
            return false;
        };
        held.into_iter().any(|(rank, (freed, numbers))| {
            let (cluster, ledger) = (&mut self.planner.cluster, &self.planner.ledger);
            let fits = |freed: &Resources, gone: &[u64]| {
                cluster.nodes().would_hold(rank, &pod.shape.requests, freed)
                    && ledger.is_open_without(rank, tenancy, gone)
            };
            fits(&freed, &numbers)
                && !fits(&Resources::new(), &[])
                && cluster.class(&pod.shape.constraints).now.contains(rank)
        })
    }
}
