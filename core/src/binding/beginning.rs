//! A gang that begins: the conditions that have to hold before its first Binding leaves.

use std::sync::Arc;

use fluxqueue_api::names;

use crate::action::Write;
use crate::binding::dispatch::is_gated;
use crate::binding::mounting::Mounting;
use crate::in_flight::InFlight;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::setbacks::Setback;
use crate::jobs::stage::Sending;
use crate::parts::Binding;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_machine::rules;
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_workload::Uid;

impl Binding<'_> {
    /// Begins a gang: before its first Binding leaves, all its members are checked together against
    /// everything received so far. If all fit, the gang begins; if one does not, none is sent.
    pub(crate) fn begin(&mut self, id: JobId) -> Sound {
        let checked = match self.may_begin(id)? {
            Begin::Now(pods) => pods,
            Begin::Later => return Ok(()),
            Begin::Not(why) => return self.slots().withdraw(id, &why, Setback::LostRace),
        };
        let job = self.jobs.all.known_mut(&id)?;
        job.life = Lifecycle::Starting { since: self.clock.now };
        job.told.blocker = None;
        if job.writes_ahead() {
            job.start.promised_before = None;
        }
        self.planner.promises.forget_patience(id);
        self.slots().let_others_come_after(&PendingRequest::Start(id));
        self.jobs.note_life(id);
        self.agenda.outbox.put_first(checked);
        self.agenda.touched.insert(id);
        Ok(())
    }

    fn may_begin(&mut self, id: JobId) -> Sound<Begin> {
        let job = self.jobs.all.known(&id)?;
        if !job.may_send_all() {
            // The acknowledgement brings its pods back.
            return Ok(Begin::Later);
        }
        if job.suspended.is_being_released() {
            return Ok(Begin::Later);
        }
        let leaves_from = job.start.setbacks.leaves_from();
        if leaves_from > self.clock.now {
            // The gang has lost a race: it has a place again, and waits before the next attempt.
            self.agenda.timers.wake(Timer::Backoff(id), leaves_from);
            return Ok(Begin::Later);
        }
        let empty = job.start.seats.empty().count();
        if empty > 0 {
            return Ok(Begin::Not(format!("{empty} of its pods are gone")));
        }
        let (pods, waits_for_pods) = (self.jobs.unsent(job), job.suspended.has_stand_ins());
        if let Some(why) = self.misfit(id, &pods) {
            return Ok(Begin::Not(why));
        }
        if waits_for_pods {
            self.release_job(id)?;
            return Ok(Begin::Later);
        }
        if !self.planner.cluster.volumes().is_idle() {
            let mut are_mounted = true;
            for uid in &pods {
                match self.mount(uid) {
                    Mounting::Done => {}
                    Mounting::Later => are_mounted = false,
                    Mounting::Failed(why) => return Ok(Begin::Not(why)),
                }
            }
            if !are_mounted {
                // Pods without claims wait for the others too.
                for uid in &pods {
                    self.nominate(uid)?;
                }
                return Ok(Begin::Later);
            }
        }
        let mut later = false;
        for uid in &pods {
            let member = self.jobs.members.known(uid)?;
            if let Some(at) = member.held_until(self.clock.now) {
                self.agenda.timers.wake(Timer::Pod(uid.clone()), at);
                later = true;
            } else if member.stage.is_ungating() {
                later = true;
            } else if is_gated(member) {
                self.ungate(uid)?;
                later = true;
            }
        }
        Ok(if later { Begin::Later } else { Begin::Now(pods) })
    }

    /// Returns why these pods, which are all of a gang, cannot be where they have their slots, by
    /// everything received so far.
    pub(crate) fn misfit(&mut self, id: JobId, pods: &[Uid]) -> Option<String> {
        if let Some(why) = self.slots().torn_apart(id, pods) {
            return Some(why);
        }
        pods.iter().find_map(|uid| {
            if let Some(why) = self.mounting_trouble(uid) {
                return Some(why);
            }
            if self.still_fits(uid) {
                return None;
            }
            let member = self.jobs.members.get(uid)?;
            let node = member.allocation().map_or("its node", |allocation| &allocation.node);
            Some(format!("pod {} does not fit on {node} any more", member.pod.id))
        })
    }
}

/// Whether a gang for which no Binding has left may begin.
enum Begin {
    /// The whole gang fits: these are its pods, in the order of their seats.
    Now(Vec<Uid>),
    /// The placement is not acknowledged yet, a claim is not bound, or Fluxqueue's gates are still
    /// on.
    Later,
    /// The gang does not fit any more as it was placed.
    Not(String),
}

impl Binding<'_> {
    /// True if the pod fits beside all others on its node, and may be there, by everything received
    /// so far.
    pub(crate) fn still_fits(&mut self, uid: &Uid) -> bool {
        let Some(member) = self.jobs.members.get(uid) else { return false };
        let pod = Arc::clone(&member.pod);
        let Some(allocation) = member.allocation() else { return false };
        rules::admit(&mut self.planner.site(), allocation, &pod)
    }

    /// Removes Fluxqueue's gate; the pod comes back to the outbox after that.
    pub(crate) fn ungate(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.known(uid)?;
        let (pod, resource_version) = (member.pod.id.clone(), member.pod.resource_version.clone());
        let on_its_way = member.ungating;
        let ungate = || Write::Ungate { pod, resource_version, gate: Arc::from(names::GATE) };
        let action = on_its_way
            .unwrap_or_else(|| self.agenda.actions.ask(ungate(), InFlight::Ungate(uid.clone())));
        let member = self.jobs.members.known_mut(uid)?;
        member.ungating = Some(action);
        member.stage.send_by(Sending::Ungating(action));
        Ok(())
    }
}
