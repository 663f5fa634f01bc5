//! Namespaces for which no more is searched in a walk.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::attempt::Attempt;
use super::request::Request;

/// The steps of searches that gave up after which a namespace rests: those of an ordinary question,
/// half a millisecond. Searches that give up sooner cost less than the next walk.
const STEPS_MAX: u64 = 16_384;

/// The namespaces of which a long search gave up in this walk. Their other requests for several
/// pods are left alone for the rest of it: a search takes a second at most, and a tenant may submit
/// thousands of requests that need one.
#[derive(Debug, Default)]
pub(super) struct Resting(BTreeSet<Arc<str>>);

impl Resting {
    /// Notes the steps of an attempt in vain.
    pub(super) fn note(&mut self, attempt: &Attempt) {
        if attempt.steps_in_vain > STEPS_MAX {
            self.0.extend(namespace(&attempt.request).cloned());
        }
    }

    /// True if the request is left alone.
    pub(super) fn includes(&self, request: &Request) -> bool {
        !self.0.is_empty()
            && request.pods() > 1
            && namespace(request).is_some_and(|namespace| self.0.contains(namespace))
    }
}

/// Returns the namespace of the pods of a request, which is that of their job.
fn namespace(request: &Request) -> Option<&Arc<str>> {
    request.groups.first().map(|group| &group.sample.id.key.namespace)
}
