//! Finding jobs again after a restart: their FluxJobs, their places, and the FluxJobs without a
//! job.

pub(crate) mod late_owners;
pub(crate) mod priority_classes;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::Write;
use crate::agenda::Agenda;
use crate::in_flight::InFlight;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::job::Identity;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::registry::Jobs;
use crate::occupancy::Occupancy;
use crate::records::stored::{UNSEEN_MILLIS, version_of};
use crate::records::{Records, reference};
use crate::settings::CoreSettings;
use crate::timers::Timer;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{ObjectKey, Pod, Uid};

/// Finds the jobs again after a restart, and joins those with an owner that is seen late.
pub(crate) struct Recovery<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

impl Recovery<'_> {
    /// Gives these pods their jobs, and takes up the records of new jobs.
    pub(crate) fn find_jobs(&mut self, mut pods: Vec<Arc<Pod>>) {
        // Without a record, age is the order; names make it the same each time.
        pods.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        self.jobs.members.reserve(pods.len());
        let first_new = self.jobs.index.next;
        for pod in pods {
            let done = self.members().attach(pod, false);
            self.agenda.heed(done);
        }
        self.stand_ins().stand_in_for_all(|_| true);
        let ids: Vec<JobId> = self.jobs.all.range(first_new..).map(|(id, _)| *id).collect();
        for id in &ids {
            let done = self.slots().restore_placement(*id);
            self.agenda.heed(done);
        }
        // Waiting pods come first: the seats that stay free are retained after that.
        let elsewhere = self.pods_elsewhere();
        for id in ids {
            let done = self.slots().retain_free_seats(id, &elsewhere);
            self.agenda.heed(done);
        }
    }

    /// Counts the pods of each Job that have nodes as pods of another job, since their labels
    /// changed: each takes a slot of its Job all the same.
    fn pods_elsewhere(&self) -> BTreeMap<Uid, usize> {
        let mut elsewhere = BTreeMap::new();
        for member in self.jobs.members.values().filter(|member| member.is_bound()) {
            let made_by = self
                .jobs
                .controllers
                .that_made(&member.pod)
                .filter(|made_by| made_by.kind.runs_to_completion());
            let identity = self.jobs.all.get(&member.job).map(|job| &job.workload.identity);
            let is_of =
                |uid: &Uid| matches!(identity, Some(Identity::Controller(_, of)) if of == uid);
            if let Some(made_by) = made_by.filter(|made_by| !is_of(&made_by.id.uid)) {
                *elsewhere.entry(made_by.id.uid.clone()).or_default() += 1;
            }
        }
        elsewhere
    }

    /// Finds placed jobs that have not begun and have rules about spreading or nearness, so that
    /// their nodes stay undisturbed in this process too.
    pub(crate) fn protect_placed_gangs(&mut self) {
        let placed = self.jobs.all.values().filter(|job| job.life == Lifecycle::Placed);
        let ids: Vec<JobId> = placed.map(|job| job.id).collect();
        for id in ids {
            let live: Vec<Uid> = self
                .jobs
                .all
                .get(&id)
                .map(|job| job.pods.live.values().cloned().collect())
                .unwrap_or_default();
            for uid in live {
                if let Some(member) = self.jobs.members.get_mut(&uid) {
                    member.terms.stance = self.planner.cluster.neighbours().stance(&member.pod);
                }
            }
            let placed = self.jobs.all.get(&id).and_then(|job| self.sight().asking().placed(job));
            if let Some((request, nodes)) =
                placed.filter(|(request, _)| request.is_to_stay_undisturbed())
            {
                self.planner.claims.note_beginning(nodes, &request, &PendingRequest::Start(id));
            }
        }
    }

    /// Handles FluxJobs to which no pods belong.
    pub(crate) fn sort_out_strays(&mut self) {
        let keys: Vec<ObjectKey> = self
            .records
            .keys()
            .filter(|key| !self.jobs.index.by_key.contains_key(*key))
            .cloned()
            .collect();
        for key in keys {
            let done = self.members().consider_stray(&key);
            self.agenda.heed(done);
        }
    }

    pub(crate) fn remove_stray(&mut self, key: &ObjectKey) {
        if self.jobs.index.by_key.contains_key(key) {
            return;
        }
        // It may have been removed since it was found.
        let Some(object) = self.records.get(key) else { return };
        if self.intake.awaiting_owner.contains(&object.spec.workload_ref.uid) {
            return self
                .agenda
                .timers
                .wake(Timer::Stray(key.clone()), self.clock.now.plus_millis(UNSEEN_MILLIS));
        }
        if let Some(reference) = reference(object) {
            let write = Write::DeleteFluxJob {
                job: reference.clone(),
                resource_version: version_of(object),
            };
            let action = self.agenda.actions.ask(write, InFlight::Stray(key.clone()));
            self.records.note_removal(reference, action);
        }
    }
}
