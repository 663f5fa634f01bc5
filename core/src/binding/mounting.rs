//! The volumes of members: whether their claims are ready while the pods wait, and the binding of
//! every claim once a pod has a slot.
//!
//! The volume of a claim is chosen with the slot (`slots::volumes`). Then it is written: an
//! existing volume is bound to its claim from its own side, and a claim that needs a new volume
//! names the node for it; the controllers do the rest. A pod's Binding leaves when all its claims
//! are bound, and the first Binding of a gang when the claims of all its pods are. The writes stay
//! if a later step fails, so the next plan finds them: a bound volume by its nodes, and a claim
//! with a volume that is being made by the node that it names.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::action::Write;
use crate::backoff::Backoff;
use crate::event::WriteOutcome;
use crate::in_flight::InFlight;
use crate::jobs::job::Style;
use crate::parts::Binding;
use crate::sound::{Lookup, Sound};
use crate::telling::outside::Outside;
use crate::timers::Timer;
use fluxqueue_machine::cluster::filters::Rejection;
use fluxqueue_machine::cluster::volumes::{Progress, StorageNews, Unready, VolumeNeeds, Written};
use fluxqueue_machine::cluster::{summary, volumes};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Pod, Uid};

/// The pause after a write has failed.
const RETRY: Backoff = Backoff { min_millis: 200, max_millis: 30_000 };

/// The pause of a pod after its volumes could not be bound.
const FAILED: Backoff = Backoff { min_millis: 1_000, max_millis: 30_000 };

/// The state of the volumes of a pod with a slot.
pub(crate) enum Mounting {
    /// All volumes are bound.
    Done,
    /// Some are not bound yet: news of them bring the pod back.
    Later,
    /// The volumes cannot be bound on the pod's node.
    Failed(String),
}

impl Binding<'_> {
    /// Takes up news of claims, volumes and other storage objects.
    pub(crate) fn storage(&mut self, news: StorageNews) {
        let news = match news {
            StorageNews::Claim(claim) if self.intake.synced => {
                StorageNews::Claim(claim.among(|node| self.planner.cluster.rank(node).is_some()))
            }
            news => news,
        };
        let concerned = self.planner.cluster.volumes_mut().take_up(news);
        self.agenda.queue_changed |= !self.planner.cluster.volumes().is_idle();
        self.slots().look_again(concerned);
    }

    // --- before a slot ---

    /// Determines the requirements that the waiting pods of a job have for their volumes, and
    /// whether their claims are ready.
    pub(crate) fn look_at_volumes(&mut self, id: JobId) -> Sound {
        if self.planner.cluster.volumes().is_idle() {
            return Ok(());
        }
        let job = self.jobs.all.known(&id)?;
        let waiting =
            self.jobs.live(job).filter(|m| m.stage.is_waiting() && volumes::concern(&m.pod));
        let waiting: Vec<Arc<Pod>> = waiting.map(|member| Arc::clone(&member.pod)).collect();
        let (is_gang, stands_for) = (job.style == Style::Gang, job.pods.stands_for);
        // Claims for one pod at a time, of pods that are to start together.
        let mut taken: BTreeSet<ObjectKey> = BTreeSet::new();
        for pod in waiting {
            let mut needs = self.needs_of(&pod);
            let exclusive = self.planner.cluster.volumes().for_one_pod(&pod);
            if let Some(shared) = exclusive
                .filter(|_| is_gang)
                .find(|key| !taken.insert(key.clone()) || stands_for > 1)
            {
                let said =
                    "pods that start together mount it, and its access mode is ReadWriteOncePod"
                        .to_owned();
                needs = Err(Unready { said, claim: shared.name, is_whole: false });
            }
            let member = self.jobs.members.known_mut(&pod.id.uid)?;
            match needs {
                Ok(needs) => {
                    member.unready = None;
                    if member.terms.volumes.as_deref() != needs.as_ref() {
                        member.terms.volumes = needs.map(Arc::new);
                    }
                }
                Err(unready) => (member.terms.volumes, member.unready) = (None, Some(unready)),
            }
        }
        Ok(())
    }

    fn needs_of(&self, pod: &Pod) -> Result<Option<VolumeNeeds>, Unready> {
        let volumes = self.planner.cluster.volumes();
        let needs = volumes.needs(pod)?;
        match volumes.in_use(pod) {
            Some(claim) => {
                let counted =
                    [(Rejection::ClaimInUse.reason(), self.planner.cluster.nodes().len())];
                let said =
                    summary::unavailable(self.planner.cluster.nodes().len(), &counted.into());
                Err(Unready { said, claim, is_whole: true })
            }
            None => Ok(needs),
        }
    }

    // --- from a slot to a Binding ---

    /// Returns why the volumes that were chosen for a pod with a slot will not be bound.
    pub(crate) fn mounting_trouble(&self, uid: &Uid) -> Option<String> {
        let choice =
            self.planner.cluster.volumes().choice(uid).filter(|choice| !choice.is_empty())?;
        let node = self.planner.cluster.node_named(&choice.node)?;
        self.planner.cluster.volumes().progress(choice, node).into_iter().find_map(
            |(_, progress)| match progress {
                Progress::Failed(why) => Some(why),
                _ => None,
            },
        )
    }

    /// Binds the volumes that were chosen for a pod with a slot, as far as possible now.
    pub(crate) fn mount(&mut self, uid: &Uid) -> Mounting {
        let Some(choice) =
            self.planner.cluster.volumes().choice(uid).filter(|choice| !choice.is_empty()).cloned()
        else {
            return Mounting::Done;
        };
        let node = self.planner.cluster.node_named(&choice.node).cloned();
        let Some(node) = node else {
            return Mounting::Failed(format!("node {} is gone", choice.node));
        };
        let retry_at = self.jobs.members.get(uid).map_or(self.clock.now, |member| member.retry_at);
        let mut waits_for: Option<ObjectRef> = None;
        for (claim, progress) in self.planner.cluster.volumes().progress(&choice, &node) {
            match progress {
                Progress::Bound => {}
                Progress::Waits => waits_for = waits_for.or(Some(claim)),
                Progress::Failed(why) => return Mounting::Failed(why),
                Progress::Claim(_) | Progress::Select(_) if retry_at > self.clock.now => {
                    waits_for = waits_for.or(Some(claim));
                }
                Progress::Claim(volume) => {
                    let resource_version = volume.resource_version.clone();
                    let write = Write::ClaimVolume {
                        volume: ObjectRef {
                            key: ObjectKey::new("", Arc::clone(&volume.name)),
                            uid: volume.uid.clone(),
                        },
                        resource_version: resource_version.clone(),
                        claim: claim.clone(),
                        was_meant: volume.claim.is_some(),
                    };
                    self.write_volume(uid, &claim, write, resource_version);
                    waits_for = waits_for.or(Some(claim));
                }
                Progress::Select(resource_version) => {
                    let write = Write::SelectNode {
                        claim: claim.clone(),
                        resource_version: resource_version.clone(),
                        node: choice.node.clone(),
                    };
                    self.write_volume(uid, &claim, write, resource_version);
                    waits_for = waits_for.or(Some(claim));
                }
            }
        }
        let Some(claim) = waits_for else { return Mounting::Done };
        let within = self.settings.volume_bind_timeout_secs;
        let now = self.clock.now;
        let Some(choice) = self.planner.cluster.volumes_mut().choice_mut(uid) else {
            return Mounting::Later;
        };
        let due = choice.since.get_or_insert(now).plus_secs(within);
        if now >= due {
            return Mounting::Failed(format!(
                "persistentvolumeclaim {} was not bound within {within} s",
                claim.key
            ));
        }
        self.agenda.timers.wake(Timer::Pod(uid.clone()), due);
        Mounting::Later
    }

    fn write_volume(
        &mut self,
        uid: &Uid,
        claim: &ObjectRef,
        write: Write,
        version: Option<Arc<str>>,
    ) {
        self.agenda.actions.ask(write, InFlight::Volume(uid.clone(), claim.clone(), version));
        if let Some(choice) = self.planner.cluster.volumes_mut().choice_mut(uid) {
            choice.written.insert(claim.clone(), Written::Asked);
        }
    }

    pub(crate) fn volume_written(
        &mut self,
        uid: &Uid,
        claim: &ObjectRef,
        version: Option<Arc<str>>,
        outcome: &WriteOutcome,
    ) -> Sound {
        if let Some(choice) = self.planner.cluster.volumes_mut().choice_mut(uid) {
            match outcome {
                WriteOutcome::Written(_) => {
                    choice.written.insert(claim.clone(), Written::Done(version))
                }
                _ => choice.written.remove(claim),
            };
        }
        let now = self.clock.now;
        let member = self.jobs.members.current_mut(uid)?;
        if !matches!(outcome, WriteOutcome::Written(_)) {
            // The conflicting change may be on its way.
            member.failed.count += 1;
            let pause = RETRY.after(member.failed.count);
            member.retry_at = now.plus_millis(pause);
            tracing::warn!(pod = %member.pod.id, claim = %claim.key, ?outcome, "a claim could not \
                be given its volume; it is tried again");
            self.agenda.timers.wake(Timer::Pod(uid.clone()), member.retry_at);
        }
        self.agenda.outbox.add(self.jobs, uid);
        Ok(())
    }

    /// Handles a pod with volumes that cannot be bound on its node: it waits again, with a pause
    /// that doubles each time.
    pub(crate) fn mounting_failed(&mut self, uid: &Uid, why: String) -> Sound {
        self.slots().unassign_one(uid)?;
        let now = self.clock.now;
        let member = self.jobs.members.known_mut(uid)?;
        member.mountings_failed += 1;
        let pause = FAILED.after(member.mountings_failed);
        member.retry_at = now.plus_millis(pause);
        let id = member.job;
        tracing::info!(pod = %member.pod.id, why, pause_millis = pause, "a pod gives its slot \
            back: its volumes cannot be bound");
        self.agenda.timers.wake(Timer::Pod(uid.clone()), now.plus_millis(pause));
        self.agenda.touched.insert(id);
        self.jobs.block(id, Outside::VolumesUnbound(why));
        Ok(())
    }

    /// Takes up a node that has appeared or gone: claims that name it may be waiting for another
    /// node, or may not be any more.
    pub(crate) fn note_nodes_of_volumes(&mut self) {
        if self.intake.synced {
            let is_there = |node: &NodeName| self.planner.cluster.rank(node).is_some();
            let claims = self.planner.cluster.volumes().claims_that_name_a_node();
            let changed = claims
                .map(|claim| (claim.among(is_there), claim))
                .filter(|(now, before)| now != *before);
            for claim in changed.map(|(now, _)| now).collect::<Vec<_>>() {
                self.storage(StorageNews::Claim(claim));
            }
        }
    }
}
