//! The outbox: gangs that may begin, and pods with Bindings that may leave, in the order of the
//! decisions.

use std::collections::{BTreeSet, VecDeque};

use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::registry::Jobs;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Uid;

/// The turn of a gang or of a pod.
#[derive(Debug)]
pub(crate) enum Turn {
    /// No Binding of the gang has left: its pods are checked together.
    Gang(JobId),
    /// The pod is bound by itself: it is no gang's, or its gang has begun.
    Pod(Uid),
}

/// The turns that are to come. A pod may have lost its slot when its turn comes, or have two turns:
/// its stage at that time decides.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    turns: VecDeque<Turn>,
    /// The gangs that have a turn. One is enough for all their pods.
    gangs: BTreeSet<JobId>,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Adds a turn for a pod, or for its gang if that has not begun. A pod without a slot, or with
    /// a write under way, has none.
    pub(crate) fn add(&mut self, jobs: &Jobs, uid: &Uid) {
        let member = jobs.members.get(uid).filter(|member| member.stage.is_assigned());
        match member.and_then(|member| jobs.all.get(&member.job)) {
            Some(job) if job.life != Lifecycle::Placed => {
                self.turns.push_back(Turn::Pod(uid.clone()));
            }
            Some(job) if self.gangs.insert(job.id) => self.turns.push_back(Turn::Gang(job.id)),
            Some(_) | None => {}
        }
    }

    /// Gives the next turns to the pods of a gang that has begun.
    pub(crate) fn put_first(&mut self, pods: Vec<Uid>) {
        for uid in pods.into_iter().rev() {
            self.turns.push_front(Turn::Pod(uid));
        }
    }

    /// Takes the next turn out.
    pub(crate) fn next(&mut self) -> Option<Turn> {
        let turn = self.turns.pop_front()?;
        if let Turn::Gang(id) = turn {
            self.gangs.remove(&id);
        }
        Some(turn)
    }

    /// Adds the turns of another outbox.
    pub(crate) fn append(&mut self, other: Outbox) {
        for turn in other.turns {
            match turn {
                Turn::Gang(id) if !self.gangs.insert(id) => {}
                turn => self.turns.push_back(turn),
            }
        }
    }
}
