//! How many questions were answered, how, and how long that took.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// What the API server asks, one for each path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Whom an object goes to.
    Mutate,
    /// The same, with the gate.
    MutateGated,
    /// Whether a Job is to be suspended.
    Suspend,
    /// Whether an object would be refused.
    Validate,
}

/// What it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The object stays as it is.
    Unchanged,
    /// The object is changed.
    Changed,
    /// Nothing is wrong with the object.
    Accepted,
    /// The object is refused.
    Refused,
    /// The question could not be read.
    Unreadable,
    /// There was no memory for the question.
    TurnedAway,
}

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The counters of admission. Clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<Labels<2>, Counter>,
    durations: Family<Labels<1>, Histogram, fn() -> Histogram>,
}

impl Question {
    const ALL: [Question; 4] =
        [Question::Mutate, Question::MutateGated, Question::Suspend, Question::Validate];

    fn as_str(self) -> &'static str {
        match self {
            Question::Mutate => "mutate",
            Question::MutateGated => "mutate_gated",
            Question::Suspend => "suspend",
            Question::Validate => "validate",
        }
    }

    /// What may be answered to it.
    fn answers(self) -> &'static [Answer] {
        match self {
            Question::Mutate | Question::MutateGated | Question::Suspend => {
                &[Answer::Unchanged, Answer::Changed, Answer::Unreadable, Answer::TurnedAway]
            }
            Question::Validate => {
                &[Answer::Accepted, Answer::Refused, Answer::Unreadable, Answer::TurnedAway]
            }
        }
    }
}

impl Answer {
    fn as_str(self) -> &'static str {
        match self {
            Answer::Unchanged => "unchanged",
            Answer::Changed => "changed",
            Answer::Accepted => "accepted",
            Answer::Refused => "refused",
            Answer::Unreadable => "unreadable",
            Answer::TurnedAway => "turned_away",
        }
    }
}

impl Metrics {
    /// All of them at 0, so that a rate is known from the first question on.
    pub fn new(registry: &mut Registry) -> Self {
        let durations = Family::new_with_constructor(duration as fn() -> Histogram);
        let metrics = Metrics { requests: Family::default(), durations };
        for question in Question::ALL {
            for answer in question.answers() {
                drop(metrics.requests.get_or_create(&labels(question, *answer)));
            }
            drop(metrics.durations.get_or_create(&[("question", question.as_str())]));
        }
        registry.register(
            "webhook_requests",
            "Questions of the API server about objects, by question and answer; validate with refused counts what strict namespaces refused, and turned_away questions that there was no memory for",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "webhook_request_duration",
            "Time from a received question to its answer",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        metrics
    }

    pub(crate) fn count(&self, question: Question, answer: Answer, took: Duration) {
        self.requests.get_or_create(&labels(question, answer)).inc();
        self.durations
            .get_or_create(&[("question", question.as_str())])
            .observe(took.as_secs_f64());
    }
}

/// 50 us to 0.8 s: the API server waits for a second.
fn duration() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 2.0, 15))
}

fn labels(question: Question, answer: Answer) -> Labels<2> {
    [("question", question.as_str()), ("answer", answer.as_str())]
}
