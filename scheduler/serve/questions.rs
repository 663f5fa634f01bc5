//! Questions to the task that owns the core.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use fluxqueue_core::report::Gauges;
use fluxqueue_core::{Outlook, Preview};

/// The time that the core has for an answer.
const CORE_ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A question to the task that owns the core.
#[derive(Debug)]
pub enum Question {
    /// Asks for its numbers.
    Gauges(oneshot::Sender<Gauges>),
    /// Asks for its whole state, for people.
    State(oneshot::Sender<serde_json::Value>),
    /// Asks how much of the machine is used, promised and held.
    Outlook(oneshot::Sender<Outlook>),
    /// Asks for a copy of it, to run its plan forward.
    Preview(oneshot::Sender<Copied>),
}

/// A copy of the core, or the reason why there is none.
#[derive(Debug)]
pub enum Copied {
    /// The copy.
    Preview(Box<Preview>),
    /// No copy, since the last one was made a moment ago.
    TooSoon,
    /// No copy, since the resource graph cannot be copied, or not all objects have been listed yet.
    Impossible,
}

/// The sources of answers once this process leads.
#[derive(Debug)]
pub struct Leading {
    /// The way to the task that owns the core.
    pub questions: mpsc::Sender<Question>,
    /// The lengths of the work queues.
    pub depths: Box<dyn DepthSource>,
}

/// Reports the lengths of the work queues.
pub trait DepthSource: std::fmt::Debug + Send + Sync {
    /// Returns the requests that wait or are in flight, by work queue.
    fn depths(&self) -> Vec<(&'static str, usize)>;
}

pub(super) async fn ask<T>(
    questions: &mpsc::Sender<Question>,
    question: impl FnOnce(oneshot::Sender<T>) -> Question,
) -> Option<T> {
    let (sender, answer) = oneshot::channel();
    // A full channel means that the core is far behind: the answer then lacks its part, and no
    // questions pile up.
    questions.try_send(question(sender)).ok()?;
    tokio::time::timeout(CORE_ANSWER_WITHIN, answer).await.ok()?.ok()
}
