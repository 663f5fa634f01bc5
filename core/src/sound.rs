//! Lookups of jobs and pods by references, and the two reasons for which one leads nowhere.
//!
//! - News that is out of date: an answer to a write, a timer, or a place in a list that is weeded
//!   later. The job or pod has gone since, and nothing is left to do. [`Lookup::current`]
//! - A contradiction: the reference is removed together with the job or pod that it leads to, and
//!   yet leads nowhere. That is a defect of the core. [`Lookup::known`]
//!
//! Both end the work on that job or pod ([`Interruption`]). `Agenda::heed` counts
//! news of the first kind, and keeps the second until `Core::mend_contradictions` repairs it.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

use fluxqueue_machine::table::Table;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Uid;

/// The result of work on a job or a pod that may be interrupted.
pub(crate) type Sound<T = ()> = Result<T, Interruption>;

/// The reason for which work on a job or a pod ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The news is about something that has gone since.
    Outdated,
    /// Two parts of the core's state say different things.
    Contradiction(Contradiction),
}

/// A reference that should lead to a job or a pod, and does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contradiction {
    pub about: Reference,
    /// The place in the code that followed the reference.
    pub at: &'static Location<'static>,
}

/// The number of a job, or the uid of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reference {
    Job(JobId),
    Pod(Uid),
}

impl Contradiction {
    /// Reports that a reference leads nowhere. A build with debug assertions panics here, where the
    /// cause is near.
    #[track_caller]
    fn about(about: Reference) -> Interruption {
        let found = Contradiction { about, at: Location::caller() };
        debug_assert!(false, "{found}");
        Interruption::Contradiction(found)
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.about {
            Reference::Job(id) => write!(f, "{}: job {id:?} does not exist", self.at),
            Reference::Pod(uid) => write!(f, "{}: pod {uid} does not exist", self.at),
        }
    }
}

/// A table with entries that are found by references that the core keeps elsewhere.
pub(crate) trait Lookup<K> {
    type Entry;

    /// The entry of a reference that must lead to one.
    fn known(&self, reference: &K) -> Sound<&Self::Entry>;

    /// The entry of a reference that must lead to one, to be changed.
    fn known_mut(&mut self, reference: &K) -> Sound<&mut Self::Entry>;

    /// The entry of a reference that may have outlived it.
    fn current(&self, reference: &K) -> Sound<&Self::Entry>;

    /// The entry of a reference that may have outlived it, to be changed.
    fn current_mut(&mut self, reference: &K) -> Sound<&mut Self::Entry>;
}

impl<T> Lookup<JobId> for BTreeMap<JobId, Box<T>> {
    type Entry = T;

    #[track_caller]
    fn known(&self, id: &JobId) -> Sound<&T> {
        match self.get(id) {
            Some(it) => Ok(it),
            None => Err(Contradiction::about(Reference::Job(*id))),
        }
    }

    #[track_caller]
    fn known_mut(&mut self, id: &JobId) -> Sound<&mut T> {
        match self.get_mut(id) {
            Some(it) => Ok(it),
            None => Err(Contradiction::about(Reference::Job(*id))),
        }
    }

    fn current(&self, id: &JobId) -> Sound<&T> {
        self.get(id).map(Box::as_ref).ok_or(Interruption::Outdated)
    }

    fn current_mut(&mut self, id: &JobId) -> Sound<&mut T> {
        self.get_mut(id).map(Box::as_mut).ok_or(Interruption::Outdated)
    }
}

impl<T> Lookup<Uid> for Table<Uid, T> {
    type Entry = T;

    #[track_caller]
    fn known(&self, uid: &Uid) -> Sound<&T> {
        match self.get(uid) {
            Some(it) => Ok(it),
            None => Err(Contradiction::about(Reference::Pod(uid.clone()))),
        }
    }

    #[track_caller]
    fn known_mut(&mut self, uid: &Uid) -> Sound<&mut T> {
        match self.get_mut(uid) {
            Some(it) => Ok(it),
            None => Err(Contradiction::about(Reference::Pod(uid.clone()))),
        }
    }

    fn current(&self, uid: &Uid) -> Sound<&T> {
        self.get(uid).ok_or(Interruption::Outdated)
    }

    fn current_mut(&mut self, uid: &Uid) -> Sound<&mut T> {
        self.get_mut(uid).ok_or(Interruption::Outdated)
    }
}
