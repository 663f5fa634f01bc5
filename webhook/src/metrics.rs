//! Counters of questions by answer, and the times of the answers.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The questions of the API server, one for each path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// The scheduler of an object.
    Mutate,
    /// The same, where pods get the gate.
    MutateGated,
    /// The user of an object.
    User,
    /// The suspension of a Job.
    Suspend,
    /// The refusal of an object.
    Validate,
}

/// The answers to questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The object stays as it is.
    Unchanged,
    /// The object is valid.
    Changed,
    /// Nothing is wrong with the object.
    Accepted,
    /// The object is refused.
    Refused,
    /// The question could not be read.
    Unreadable,
    /// The question found no memory.
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
    const ALL: [Question; 5] = [
        Question::Mutate,
        Question::MutateGated,
        Question::User,
        Question::Suspend,
        Question::Validate,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Question::Mutate => "mutate",
            Question::MutateGated => "mutate_gated",
            Question::User => "user",
            Question::Suspend => "suspend",
            Question::Validate => "validate",
        }
    }

    /// Lists the possible answers to it.
    fn answers(self) -> &'static [Answer] {
        match self {
            Question::Mutate | Question::MutateGated | Question::User | Question::Suspend => {
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
    /// Registers all counters at 0, so that a rate is known from the first question on.
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
            "Questions of the API server about objects, by question and answer; validate with \
             refused counts the objects that strict namespaces refused, and turned_away the \
             questions that there was no memory for",
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
