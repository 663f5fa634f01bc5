//! A bounded queue of work for a pool of workers, which also knows how much of the work is still
//! under way.
//!
//! Pushing never waits, so the network cannot hold up the core. An item that does not fit is
//! returned, and the caller deals with it.

use std::collections::VecDeque;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

/// A bounded first-in, first-out queue, shared by its producers and the workers.
#[derive(Debug)]
pub struct WorkQueue<T> {
    items: Mutex<VecDeque<(Instant, T)>>,
    capacity: usize,
    /// One permit per item in `items`.
    ready: Semaphore,
    /// Items that are queued, or that a worker has taken and not finished.
    outstanding: AtomicUsize,
    idle: Notify,
}

/// An item that a worker has taken; dropping it marks the work as done.
#[derive(Debug)]
pub struct Taken<'a, T> {
    queue: &'a WorkQueue<T>,
    item: T,
}

// === impl WorkQueue ===

impl<T> WorkQueue<T> {
    /// Creates an empty queue that holds at most `capacity` waiting items.
    pub fn new(capacity: usize) -> Self {
        WorkQueue {
            items: Mutex::new(VecDeque::new()),
            capacity,
            ready: Semaphore::new(0),
            outstanding: AtomicUsize::new(0),
            idle: Notify::new(),
        }
    }

    /// Queues `item`, or returns it if the queue is full or closed.
    pub fn push(&self, item: T) -> Result<(), T> {
        let mut items = self.lock();
        if items.len() >= self.capacity || self.ready.is_closed() {
            return Err(item);
        }
        items.push_back((Instant::now(), item));
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        drop(items);
        self.ready.add_permits(1);
        Ok(())
    }

    /// Returns the next item, or `None` once the queue is closed.
    pub async fn pop(&self) -> Option<Taken<'_, T>> {
        loop {
            self.ready.acquire().await.ok()?.forget();
            // The queue is shorter than its permits only after `discard` and `take_out`.
            if let Some((_, item)) = self.lock().pop_front() {
                return Some(Taken { queue: self, item });
            }
        }
    }

    /// Returns the number of items that are queued or being worked on.
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Acquire)
    }

    /// Returns how long the first item has waited.
    pub fn head_age(&self) -> Option<Duration> {
        self.lock().front().map(|(since, _)| since.elapsed())
    }

    /// Resolves once nothing is queued and no worker is busy.
    pub async fn idle(&self) {
        loop {
            let mut notified = pin!(self.idle.notified());
            // Registering comes before the look, so that an end in between is not missed.
            notified.as_mut().enable();
            if self.outstanding() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Takes the first item that `is_meant` out of the queue, if no worker has taken it yet.
    pub fn take_out(&self, is_meant: impl Fn(&T) -> bool) -> Option<T> {
        let mut items = self.lock();
        let at = items.iter().position(|(_, item)| is_meant(item))?;
        let (_, item) = items.remove(at)?;
        drop(items);
        self.finish(1);
        Some(item)
    }

    /// Drops the queued items, and returns their number. Workers finish the items that they have
    /// taken.
    pub fn discard(&self) -> usize {
        let dropped = std::mem::take(&mut *self.lock()).len();
        self.finish(dropped);
        dropped
    }

    /// Ends the workers when they ask for more. Queued items are not handed out any more.
    pub fn close(&self) {
        self.ready.close();
        self.discard();
    }

    fn finish(&self, count: usize) {
        if self.outstanding.fetch_sub(count, Ordering::AcqRel) == count {
            self.idle.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, T)>> {
        // Nothing that can panic runs under the lock, so a poisoned queue is still whole.
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Taken ===

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        self.queue.finish(1);
    }
}

#[cfg(test)]
mod tests {
    use super::WorkQueue;
    use std::time::Duration;

    #[tokio::test]
    async fn a_full_queue_returns_the_item() {
        let queue = WorkQueue::new(2);
        assert_eq!(queue.push('a'), Ok(()));
        assert_eq!(queue.push('b'), Ok(()));
        assert_eq!(queue.push('c'), Err('c'));
        assert_eq!(*queue.pop().await.unwrap(), 'a');
        assert_eq!(queue.push('c'), Ok(()));
    }

    #[tokio::test]
    async fn idle_waits_for_items_that_a_worker_has_taken() {
        let queue = WorkQueue::new(8);
        queue.push(1).unwrap();
        let taken = queue.pop().await.unwrap();
        assert_eq!(queue.outstanding(), 1);
        assert!(tokio::time::timeout(Duration::from_millis(20), queue.idle()).await.is_err());
        drop(taken);
        tokio::time::timeout(Duration::from_secs(1), queue.idle()).await.unwrap();
    }

    #[tokio::test]
    async fn an_item_that_no_worker_has_taken_can_be_taken_out() {
        let queue = WorkQueue::new(8);
        for item in [1, 2, 3] {
            queue.push(item).unwrap();
        }
        let taken = queue.pop().await.unwrap();
        assert_eq!(queue.take_out(|item| *item == 1), None, "a worker has it");
        assert_eq!(queue.take_out(|item| *item == 2), Some(2));
        assert_eq!(queue.outstanding(), 2);
        drop(taken);
        assert_eq!(*queue.pop().await.unwrap(), 3);
        queue.push(4).unwrap();
        assert_eq!(*queue.pop().await.unwrap(), 4);
        queue.idle().await;
    }

    #[tokio::test]
    async fn a_queue_can_be_used_after_a_discard() {
        let queue = WorkQueue::new(8);
        queue.push(1).unwrap();
        queue.push(2).unwrap();
        assert_eq!(queue.discard(), 2);
        assert_eq!(queue.outstanding(), 0);
        queue.push(3).unwrap();
        assert_eq!(*queue.pop().await.unwrap(), 3);
        queue.close();
        assert!(queue.pop().await.is_none());
        assert_eq!(queue.push(4), Err(4));
    }
}
