//! A walk under way: a long pass is interrupted now and then for lone pods that have just come.
//!
//! Many reservations take a while to be made again. Until all are made, other events wait, so that
//! the walk sees one state of the cluster from its beginning to its end: its plan is that of a walk
//! in one go. Only a pod that has just come, and is a job of its own, need not wait for that.
//! Between two requests of a walk all promises stand: if the pod fits beside them, it starts.
//!
//! Such a pod goes to no node for which news is waiting, and starts only if nodes are its sole
//! condition. If its queue has limits, or allows no overtaking, the next walk decides.

use std::sync::Arc;

use fluxqueue_api::{WorkloadKind, names};

use crate::cycle::Core;
use crate::cycle::walks::{Meanwhile, UnderWay};
use crate::event::Event;
use crate::jobs::registry::Jobs;
use crate::occupancy::Occupancy;
use crate::settings::CoreSettings;
use crate::taken;
use fluxqueue_machine::fluxion::RankSet;
use fluxqueue_machine::ledger::Allocations;
use fluxqueue_planner::plan::{Decision, Effort, Policies, Requests};
use fluxqueue_planner::queue::PendingRequest;
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{NodeName, ObjectKey, Phase, Pod, Uid};

/// The number of waiting events at which the walk is finished in one go.
const EVENTS_MAX: usize = 10_000;

/// How many times in a row pods that have come may put a walk off.
const YIELDS_MAX: u32 = 20;

impl Core {
    /// True if a pass is under way, and continues in the next step.
    pub fn is_passing(&self) -> bool {
        self.walks.under_way.is_some()
    }

    /// Keeps an event until the walk under way is over, unless it can be taken up before. Returns
    /// the event if it is to be taken up now.
    pub(crate) fn keep_for_later(&mut self, event: Event) -> Option<Event> {
        let Some(mut walk) = self.walks.under_way.take() else { return Some(event) };
        let to_take_up = match &event {
            Event::Pod(pod) if self.comes_alone(pod, &walk.meanwhile) => {
                walk.meanwhile.came.push(pod.id.uid.clone());
                Some(event)
            }
            _ => {
                let node = may_be_fuller(&self.jobs, &self.occupancy, &event);
                walk.meanwhile.keep(event, node);
                None
            }
        };
        self.walks.under_way = Some(walk);
        to_take_up
    }

    /// Continues the walk under way, if there is one. Returns whether none is under way any more.
    pub(crate) fn go_on_walking(&mut self) -> bool {
        let Some(mut walk) = self.walks.under_way.take() else { return true };
        let begun = self.start_arrivals(&mut walk);
        // The decisions of a step leave at its end.
        if begun && walk.meanwhile.yields < YIELDS_MAX {
            walk.meanwhile.yields += 1;
            self.walks.under_way = Some(walk);
        } else {
            walk.meanwhile.yields = 0;
            self.walk(walk);
        }
        self.walks.under_way.is_none()
    }

    /// Finishes the walk under way, if there is one.
    pub(crate) fn finish_walking(&mut self) {
        while let Some(walk) = self.walks.under_way.take() {
            self.walk(walk);
        }
    }

    /// True if a pod has just come, is a job of its own of which nothing is known, and asks for
    /// nothing but a node.
    fn comes_alone(&self, pod: &Pod, meanwhile: &Meanwhile) -> bool {
        let uid = &pod.id.uid;
        let is_alone = self.settings.scheduler_names.contains(&pod.scheduler)
            && pod.group.is_none()
            && pod.scheduling_group.is_none()
            && pod.owner.as_ref().is_none_or(|owner| !owner.kind.is_read());
        let is_ready = pod.phase == Phase::Pending
            && !pod.deleting
            && pod.gates.is_empty()
            && pod.node.is_none()
            && pod.nominated.is_none();
        let is_new = !self.jobs.members.contains_key(uid)
            && !self.occupancy.foreign.contains_key(uid)
            && !meanwhile.pods.contains(uid)
            && self.records.get(&record_of_lone(pod)).is_none();
        is_alone && is_ready && pod.asks_only_for_room() && is_new
    }

    /// Starts the lone pods that have come since the walk began, if they fit. Returns whether one
    /// does.
    fn start_arrivals(&mut self, walk: &mut UnderWay) -> bool {
        let came = std::mem::take(&mut walk.meanwhile.came);
        if came.is_empty() {
            return false;
        }
        self.refreshing().refresh_those(&came);
        // Other Bindings and records wait until the walk is over: there may be news about them, and
        // their promises may have changed by then.
        let (outbox, dirty) =
            (std::mem::take(&mut self.agenda.outbox), std::mem::take(&mut self.agenda.dirty));
        let (from, slice) =
            (self.planner.ledger.questions, slice(&self.queues, &self.settings, walk));
        let mut begun = Vec::new();
        for uid in came {
            if Effort::questions(self.planner.ledger.questions - from) >= slice {
                walk.meanwhile.came.push(uid);
            } else if let Some(start) = self.start_beside(walk, &uid) {
                let done = self.follow(start);
                self.agenda.heed(done);
                begun.push(uid);
            }
        }
        self.refreshing().refresh_those(&begun);
        self.binding().dispatch();
        self.recording().write_records();
        let left = std::mem::replace(&mut self.agenda.outbox, outbox);
        self.agenda.outbox.append(left);
        self.agenda.dirty.extend(dirty);
        !begun.is_empty()
    }

    /// Returns the decision to start a lone pod beside the walk under way, if it fits.
    fn start_beside(&mut self, walk: &mut UnderWay, uid: &Uid) -> Option<Decision<Allocations>> {
        let job = self.jobs.all.get(&self.jobs.members.get(uid)?.job)?;
        let pending = PendingRequest::Member(job.id, uid.clone());
        let (place, class) = self.planner.queue.place_of(&pending)?;
        let meanwhile = &walk.meanwhile;
        let is_in_question = meanwhile.concerns_all
            || meanwhile.pods.contains(uid)
            || meanwhile.records.contains(&job.key);
        let is_known =
            meanwhile.tried.contains(&class) || self.planner.queue.last_attempt(class).is_some();
        let is_for_the_walk = walk.excludes_others
            || walk.walking.has_started(&pending)
            || self.queues.limits(place.queue()).is_some()
            || self.queues.policies().is_in_order(place.queue());
        if is_in_question || is_known || is_for_the_walk {
            return None;
        }
        let ranks = meanwhile.nodes.iter().filter_map(|name| self.planner.cluster.rank(name));
        let news: RankSet = ranks.collect();
        let (asking, mut parts) = self.parts(walk.now);
        let request = asking.request(&pending)?;
        let Some(slots) =
            walk.walking.place_beside((&pending, &request), &mut parts.live, parts.claims, &news)
        else {
            walk.meanwhile.tried.insert(class);
            return None;
        };
        Some(Decision::Start { pending, request, slots })
    }
}

/// Returns the name of the FluxJob of a pod that is a job of its own.
fn record_of_lone(pod: &Pod) -> ObjectKey {
    let name = names::fluxjob_name(&pod.id.key.name, WorkloadKind::Pod, &pod.id.uid);
    ObjectKey::new(Arc::clone(&pod.id.key.namespace), name)
}

/// Returns the node on which there may be less room than is known.
fn may_be_fuller(jobs: &Jobs, occupancy: &Occupancy, event: &Event) -> Option<NodeName> {
    let pod = match event {
        Event::Node(node) => return Some(node.name.clone()),
        Event::NodeGone(name, _) => return Some(name.clone()),
        Event::Pod(pod) => pod,
        _ => return None,
    };
    let node = pod.node.as_ref().or(pod.nominated.as_ref())?;
    let is_counted = taken::by(jobs, occupancy, &pod.id.uid)
        .is_some_and(|known| known.pod.shape == pod.shape && known.allocation.node == *node);
    (!is_counted).then(|| node.clone())
}

/// Returns the amount of work after which this walk is interrupted.
pub(crate) fn slice(queues: &Queues, settings: &CoreSettings, walk: &UnderWay) -> Effort {
    // If no request may overtake another, no pod could start meanwhile.
    let in_one_go = *queues.policies() == Policies::FirstComeFirstServed;
    if in_one_go || walk.meanwhile.events.len() >= EVENTS_MAX {
        return Effort::ALL;
    }
    Effort::questions(settings.questions_per_slice)
}
