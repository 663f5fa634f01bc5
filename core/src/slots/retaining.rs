//! Slots that are retained for the pods that a controller makes next.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::jobs::grouping;
use crate::jobs::job::{Job, Style};
use crate::jobs::member::Member;
use crate::jobs::registry::lifetimes::ended_by;
use crate::jobs::registry::{Jobs, is_made_by};
use crate::jobs::retained::RetainedSlot;
use crate::jobs::seats::Seating;
use crate::parts::Slots;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_api::names;
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::End;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Pod, Uid};

impl Slots<'_> {
    /// Gives back slots that no pod will take: they were retained for too long, or there are more
    /// than the controller still wants.
    pub(crate) fn trim_retained(&mut self, id: JobId) -> Sound {
        let now = self.clock.now;
        let job = self.jobs.all.known_mut(&id)?;
        if job.start.retained.is_empty() {
            self.jobs.retaining.remove(&id);
            return Ok(());
        }
        let expired = job.start.unretain(|slot| slot.until <= now);
        self.free_allocations(expired.into_iter().map(|slot| slot.allocation));
        let job = self.jobs.all.known(&id)?;
        let succeeded = job.succeeded_seen();
        let mut room: BTreeMap<Uid, usize> = BTreeMap::new();
        for slot in &job.start.retained {
            if room.contains_key(&slot.controller) {
                continue;
            }
            let entry = room.entry(slot.controller.clone()).or_default();
            let unknown = if slot.is_of_unknown_kind { usize::MAX } else { 0 };
            let made_by = self.jobs.controllers.get(&job.key.namespace, &slot.controller);
            *entry = made_by.map_or(unknown, |made_by| {
                // A waiting pod is a candidate for a retained slot, so it holds none.
                let holds =
                    |m: &&Member| !m.stage.is_waiting() && is_made_by(&m.pod, &made_by.id.uid);
                let live = self.jobs.remaining(job).iter().filter(|m| holds(m)).count();
                (grouping::wants(made_by, succeeded) as usize).saturating_sub(live)
            });
        }
        let job = self.jobs.all.known_mut(&id)?;
        let surplus = job.start.unretain(|slot| match room.get_mut(&slot.controller) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        });
        let until = job.start.retained.iter().map(|slot| slot.until).min();
        self.free_allocations(surplus.into_iter().map(|slot| slot.allocation));
        match until {
            Some(until) => self.agenda.timers.wake(Timer::Job(id), until),
            None => {
                self.jobs.retaining.remove(&id);
            }
        }
        Ok(())
    }

    /// Keeps a slot for the pod that the controller makes next.
    pub(crate) fn retain_slot(&mut self, id: JobId, slot: RetainedSlot) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        let until = slot.until;
        self.planner.ledger.turn_out(&mut self.planner.cluster, &slot.allocation);
        job.start.retain(slot);
        self.jobs.retaining.insert(id);
        self.agenda.timers.wake(Timer::Job(id), until);
        Ok(())
    }

    /// Gives new pods of a gang the slots that are retained for them, without queueing. Returns the
    /// pods that are left.
    pub(crate) fn pass_on_retained(&mut self, id: JobId, ready: Vec<Uid>) -> Sound<Vec<Uid>> {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang || !job.life.is_placed() {
            return Ok(ready);
        }
        Ok(ready.into_iter().filter(|uid| !self.take_retained(id, uid)).collect())
    }

    /// Gives a new pod the slot that was retained for it. True if there is one.
    fn take_retained(&mut self, id: JobId, uid: &Uid) -> bool {
        let Some(member) = self.jobs.members.get(uid) else { return false };
        let pod = Arc::clone(&member.pod);
        let Some(job) = self.jobs.all.get_mut(&id) else { return false };
        let mut is_taken = false;
        let taken = job.start.unretain(|slot| {
            let takes = !is_taken && may_take(&mut self.planner.cluster, slot, &pod);
            is_taken |= takes;
            takes
        });
        let Some(mut slot) = taken.into_iter().next() else { return false };
        self.agenda.gauges.slots_passed_on += 1;
        // The pod gets its own time, also if it follows one that was to end earlier.
        let own = self.jobs.all.get(&id).map_or(pod.lifetime, |job| {
            ended_by(
                self.jobs.deadline(&pod, self.clock),
                self.jobs.occupies_from_binding(&pod, job),
                self.clock.now,
            )
        });
        let planned = End::of(own, self.clock.now.seconds());
        if planned.is_later_than(slot.allocation.end) {
            self.planner.ledger.set_end(&mut self.planner.cluster, &mut slot.allocation, planned);
            slot.allocation.is_overdue = false;
            self.queueing().note_other_end(id);
        }
        // Only a job without seats has slots without a seat.
        let seating = slot.seat.map_or(Seating::Free { pod_set: 0 }, Seating::At);
        let assigned = self.assign(uid, slot.allocation, seating);
        self.agenda.heed(assigned);
        true
    }
}

/// True if each of the pods that are ready has a retained slot of its own.
pub(super) fn have_retained_slots(jobs: &Jobs, cluster: &mut Cluster, job: &Job) -> bool {
    let mut slots: Vec<&RetainedSlot> = job.start.retained.iter().collect();
    let mut ready = jobs.remaining(job).into_iter().filter(|member| member.is_ready(names::GATE));
    ready.all(|member| {
        let found = slots.iter().position(|slot| may_take(cluster, slot, &member.pod));
        found.map(|at| slots.swap_remove(at)).is_some()
    })
}

/// True if the pod may have the slot, beside the pods that are on its node by now.
fn may_take(cluster: &mut Cluster, slot: &RetainedSlot, pod: &Pod) -> bool {
    slot.is_for(pod) && cluster.judge_neighbours(slot.allocation.rank, pod).is_none()
}
