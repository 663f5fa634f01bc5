//! A request that starts: slots for its pods, and the statistics of the start.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{EstimateKind, StartEstimates};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::jobs::expected::Expected;
use crate::jobs::job::Job;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::seats::Seating;
use crate::parts::Slots;
use crate::records::bounds::bounded_requests;
use crate::records::on_record::{Begun, end_of};
use crate::records::times::time_of;
use crate::sound::{Lookup, Sound};
use crate::telling::report::EstimateSaid;
use fluxqueue_machine::ledger::{Allocation, Allocations};
use fluxqueue_planner::plan::{Kept, Request};
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_workload::quantity::quantities;
use fluxqueue_workload::{Pod, Shape, Time, Uid};

impl Slots<'_> {
    pub(crate) fn start(
        &mut self,
        pending: &PendingRequest,
        request: &Request,
        slots: Allocations,
    ) -> Sound {
        let id = pending.job();
        self.planner.queue.remove(pending);
        if let Err(found) = self.jobs.all.known(&id) {
            self.free_allocations(slots.into_iter().flatten().flatten());
            return Err(found);
        }
        let kept = self.jobs.all.get(&id).and_then(|job| self.said_before(job));
        let job = self.jobs.all.known_mut(&id)?;
        // While a placed gang has not begun, other pods may join it and start: its promise
        // stands until the gang begins.
        job.start.promised_before = kept.or(job.start.promised_before.take());
        self.promise_keeping().forget_promise(pending);
        self.note_start_on(id, request, &slots);
        let job = self.jobs.all.known_mut(&id)?;
        job.waiting.requests.remove(pending);
        job.waiting.expected = Expected::default();
        job.waiting.position = None;
        if matches!(pending, PendingRequest::Start(_)) {
            job.life = Lifecycle::Placed;
        }
        let blocker = job.told.blocker.take();
        job.told.blocker = blocker.filter(|blocker| job.says_until_it_begins(blocker.reason()));
        let are_alike = self.jobs.tell_stand_ins_apart(id);
        let mut numbers = 0..;
        let mut assigned: BTreeMap<Uid, Allocation> = BTreeMap::new();
        let mut slots = slots.into_iter();
        // One for each pod; a slot that is over would stay taken for ever.
        let mut spare: Vec<Allocation> = Vec::new();
        for (group, of_group) in request.groups.iter().zip(&mut slots) {
            for (pods, of_want) in group.pods.iter().zip(of_group) {
                let mut of_want = of_want.into_iter();
                for (pod, slot) in pods.iter().zip(&mut of_want) {
                    let uid = match numbers.next().filter(|_| are_alike) {
                        Some(number) => pod.stand_in_of_number(number).id.uid,
                        None => pod.id.uid.clone(),
                    };
                    spare.extend(assigned.insert(uid, slot));
                }
                spare.extend(of_want);
            }
        }
        debug_assert!(spare.is_empty(), "{} slots for no pod", spare.len());
        self.free_allocations(spare);
        self.free_allocations(slots.flatten().flatten());
        // Seats are given in the order of the pods, not of the nodes.
        let job = self.jobs.all.known(&id)?;
        let live: Vec<Arc<Pod>> =
            self.jobs.live(job).map(|member| Arc::clone(&member.pod)).collect();
        let job = self.jobs.all.known_mut(&id)?;
        let pod_sets: Vec<usize> = live.iter().map(|pod| pod_set_of(job, &pod.shape)).collect();
        for (pod, pod_set) in live.iter().zip(pod_sets) {
            if let Some(allocation) = assigned.remove(&pod.id.uid) {
                let assigned = self.assign(&pod.id.uid, allocation, Seating::Free { pod_set });
                self.agenda.heed(assigned);
            }
        }
        self.free_allocations(assigned.into_values());
        self.agenda.touched.insert(id);
        Ok(())
    }

    /// Notes that the first pod of a job is on its node, since this time by the API server's clock.
    pub(crate) fn note_start(&mut self, id: JobId, started: Time) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        if !job.writes_ahead() {
            job.start.promised_before = None;
        }
        if job.start.at.is_none() {
            job.start.at = Some(started);
            self.count_start(id, started)?;
        }
        Ok(())
    }

    /// Records how long a job that starts now has waited, and how accurate the estimates in its
    /// record were.
    fn count_start(&mut self, id: JobId, started: Time) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let queue = self.queues.name(job.queue.id);
        let waited = started.0 - job.waiting.since.unwrap_or(started).0;
        self.agenda.gauges.waits.observe(queue, waited);
        let said = job.status_on_record().and_then(|status| status.start_estimates.as_ref());
        // A job may start before an estimate is on record.
        let Some(StartEstimates { first, promised, .. }) = said else { return Ok(()) };
        let later = |than: &MicroTime| started.0 - time_of(than).0;
        if let Some(first) = first {
            let said = match first.kind {
                EstimateKind::Reserved => EstimateSaid::FirstReserved,
                EstimateKind::Projected => EstimateSaid::FirstProjected,
            };
            self.agenda.gauges.start_estimates.observe(said, later(&first.time));
        }
        if let Some(promised) = promised {
            self.agenda.gauges.start_estimates.observe(EstimateSaid::LastPromised, later(promised));
        }
        Ok(())
    }

    /// Notes the nodes on which a job starts. The records that this depends on are determined when
    /// all starts are known.
    fn note_start_on(&mut self, id: JobId, request: &Request, slots: &Allocations) {
        if self.records.on_record.is_empty() {
            return;
        }
        let repelling = request.groups.iter().filter(|group| group.repels_pods());
        let begun = Begun {
            job: id,
            end: end_of(request, self.clock.now.seconds()),
            nodes: slots.iter().flatten().flatten().map(|allocation| allocation.rank).collect(),
            repelling: repelling.map(|group| Arc::clone(&group.sample)).collect(),
        };
        self.records.on_record.begun.push(begun);
    }

    // --- on record ---

    /// Returns the promise in the record of a job, if it has a date.
    fn said_before(&self, job: &Job) -> Option<Kept> {
        let said = job.told.promise.as_ref()?;
        Some(Kept { start: said.start?.seconds(), nodes: self.sight().nodes_of(&said.nodes) })
    }
}

/// Returns the number of the pod set of this shape in a job's placement. A shape that this process
/// has not seen is that of a set on record with the same requests.
fn pod_set_of(job: &mut Job, shape: &Arc<Shape>) -> usize {
    if !job.writes_ahead() {
        return 0;
    }
    let written = job.record.seen.status.as_deref().and_then(|status| status.workload.as_ref());
    let sets = written.map_or(&[][..], |written| &written.pod_sets);
    let requests = || bounded_requests(quantities(&shape.requests));
    let may_be = |set: usize| sets.get(set).is_none_or(|set| set.requests == requests());
    job.start.seats.pod_set_of(shape, may_be)
}
