//! Which queue is a job's, may it use it, and what does that say.
//!
//! The one owner of what is known of queues and namespaces. It knows no jobs but by their numbers: who has to be looked at again
//! is for others to find out (`queueing`).

mod object;
mod tally;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{StopPolicy, names};

pub use object::{Namespace, QueueObject, Rules, Walltimes};
pub(crate) use tally::{Life, Tally};

/// The queues and namespaces that there are.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    objects: BTreeMap<Arc<str>, Arc<QueueObject>>,
    namespaces: BTreeMap<Arc<str>, Arc<Namespace>>,
    /// What is in them.
    pub tally: Tally,
}

/// What a queue says to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Standing {
    /// It may wait and start.
    #[default]
    Open,
    /// Nobody starts.
    Stopped,
    /// Not for jobs of its namespace.
    Closed,
    /// There is no such queue.
    Missing,
}

impl Queues {
    /// A queue is there, or has changed. True if something else goes for its jobs than before.
    pub(crate) fn put(&mut self, queue: &Arc<QueueObject>) -> bool {
        let old = self.objects.insert(Arc::clone(&queue.name), Arc::clone(queue));
        let is_news = old.is_none_or(|old| (&old.uid, &old.rules) != (&queue.uid, &queue.rules));
        if is_news {
            // What another Fluxqueue says of the queue in its status is let stand until there is something new to say.
            self.tally.note_object(&queue.name);
        }
        is_news
    }

    /// A queue is gone.
    pub(crate) fn remove(&mut self, name: &str) {
        self.objects.remove(name);
    }

    /// A namespace is there, or has changed. True if that may concern its jobs.
    pub(crate) fn put_namespace(&mut self, namespace: &Arc<Namespace>) -> bool {
        let old = self.namespaces.insert(Arc::clone(&namespace.name), Arc::clone(namespace));
        old.is_none_or(|old| (&old.labels, &old.queue) != (&namespace.labels, &namespace.queue))
    }

    /// A namespace is gone: its jobs go by themselves.
    pub(crate) fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Somebody has made a queue: else there is only the one of the settings.
    pub(crate) fn is_any_object(&self) -> bool {
        !self.objects.is_empty()
    }

    /// The object of a queue.
    pub(crate) fn object(&self, name: &str) -> Option<&Arc<QueueObject>> {
        self.objects.get(name)
    }

    /// The queue of a job of this namespace that names none.
    pub(crate) fn default_of(&self, namespace: &str) -> &str {
        let queue = self.namespaces.get(namespace).and_then(|namespace| namespace.queue.as_deref());
        queue.unwrap_or(names::QUEUE_DEFAULT)
    }

    /// What a queue says to jobs of a namespace.
    pub(crate) fn standing(&self, queue: &str, namespace: &str) -> Standing {
        let Some(object) = self.objects.get(queue) else {
            return if queue == names::QUEUE_DEFAULT { Standing::Open } else { Standing::Missing };
        };
        let known = self.namespaces.get(namespace).map(|namespace| &**namespace);
        match object.rules.stop {
            _ if !object.rules.admits(namespace, known) => Standing::Closed,
            StopPolicy::Hold => Standing::Stopped,
            StopPolicy::None => Standing::Open,
        }
    }

    /// What a queue says about walltimes.
    pub(crate) fn walltimes(&self, queue: &str) -> Walltimes {
        self.objects.get(queue).map(|object| object.rules.walltimes).unwrap_or_default()
    }
}
