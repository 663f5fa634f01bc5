//! The pods of a request that ask for the same: each by itself, or one for all that are alike in
//! everything.

use std::ops::Index;
use std::sync::Arc;

use fluxqueue_workload::Pod;

/// Pods in their order. Those of a Job that waits without pods are one pod and a number, however
/// many there will be.
#[derive(Debug, Clone)]
pub struct Pods {
    each: Vec<Arc<Pod>>,
    /// The number of pods that each of these stands for.
    times: usize,
}

/// Some of them that follow each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    of: &'a Pods,
    first: usize,
    count: usize,
}

impl Pods {
    /// Makes an empty list with room for `capacity` pods.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Pods { each: Vec::with_capacity(capacity), times: 1 }
    }

    /// Adds `times` pods that are like this one.
    pub(super) fn add(&mut self, pod: &Arc<Pod>, times: usize) {
        if self.each.is_empty() {
            self.times = times;
            self.each.push(Arc::clone(pod));
            return;
        }
        if times != self.times {
            *self = Pods { each: self.iter().cloned().collect(), times: 1 };
        }
        let more = if times == self.times { 1 } else { times };
        self.each.extend(std::iter::repeat_n(pod, more).cloned());
    }

    /// Returns the number of pods.
    pub(crate) fn len(&self) -> usize {
        self.each.len() * self.times
    }

    /// True if one stands for several.
    pub(crate) fn are_alike(&self) -> bool {
        self.times > 1
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Pod>> + Clone {
        self.each.iter().flat_map(|pod| std::iter::repeat_n(pod, self.times))
    }

    /// Returns all pods that differ from each other.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = &Arc<Pod>> + Clone {
        self.each.iter()
    }

    /// The same in this order. Those that are alike have none.
    pub(super) fn put_in_order(&mut self, order: impl Iterator<Item = Arc<Pod>>) {
        if !self.are_alike() {
            self.each = order.collect();
        }
    }

    /// Takes the one at this place out.
    pub(super) fn remove(&mut self, at: usize) -> Arc<Pod> {
        if self.are_alike() {
            *self = Pods { each: self.iter().cloned().collect(), times: 1 };
        }
        self.each.remove(at)
    }

    /// Each by itself, as the stand-ins that are made when they have a place.
    pub(super) fn told_apart(&self) -> Self {
        let numbered = |(pod, number): (&Arc<Pod>, u32)| Arc::new(pod.stand_in_of_number(number));
        if self.are_alike() {
            Pods { each: self.iter().zip(0..).map(numbered).collect(), times: 1 }
        } else {
            self.clone()
        }
    }

    /// All of them, as a part that can be split.
    pub(super) fn whole(&self) -> Part<'_> {
        Part { of: self, first: 0, count: self.len() }
    }
}

impl<'a> Part<'a> {
    /// Splits off the first pods, at most `count`, and returns them and the others.
    pub(super) fn split_at(self, count: usize) -> (Self, Self) {
        let count = count.min(self.count);
        (
            Part { count, ..self },
            Part { first: self.first + count, count: self.count - count, ..self },
        )
    }

    /// Returns the number of pods.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The one at this place.
    pub(super) fn get(&self, at: usize) -> Option<&'a Arc<Pod>> {
        if at < self.count { self.of.each.get((self.first + at) / self.of.times) } else { None }
    }
}

impl Index<usize> for Part<'_> {
    type Output = Arc<Pod>;

    fn index(&self, at: usize) -> &Arc<Pod> {
        &self.of.each[(self.first + at) / self.of.times]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::pod;

    fn named(pods: &Pods) -> Vec<&str> {
        pods.iter().map(|pod| &*pod.id.key.name).collect()
    }

    #[test]
    fn one_stands_for_many() {
        let [a, b] = ["a", "b"].map(|name| Arc::new(pod(name, 1)));
        let mut pods = Pods::with_capacity(0);
        pods.add(&a, 100_000);
        assert_eq!(
            (pods.len(), pods.distinct().count(), pods.iter().count()),
            (100_000, 1, 100_000)
        );
        let (first, others) = pods.whole().split_at(3);
        assert_eq!((first.len(), others.len(), others.get(99_997)), (3, 99_997, None));
        assert_eq!(others[99_996].id, a.id);

        let mut pods = Pods::with_capacity(2);
        pods.add(&a, 2);
        pods.add(&b, 1);
        assert_eq!(named(&pods), ["a", "a", "b"]);
        pods.add(&a, 2);
        assert_eq!((pods.len(), pods.remove(2).id.key.name.to_string()), (5, "b".to_owned()));
        assert_eq!(named(&pods), ["a"; 4]);
    }
}
