//! The expectation that a manifest states, in the annotation [`ANNOTATION`].
//!
//! | text | expectation |
//! |---|---|
//! | `Running: 2` | two of its pods run, also at the end |
//! | `Complete` | the Job is complete; the pod has succeeded |
//! | `Failed: REASON` | the Job or pod has failed, for this reason |
//! | `Unsatisfiable`, `Refused` | its FluxJob says so, and no pod is bound |
//! | `..., together` | all pods of it, or of its group, were scheduled within two seconds |
//! | `..., waits` | it was seen waiting, with a reason |
//! | `..., it or NAME waits` | it or NAME was seen waiting (the cluster decides which) |
//! | `..., by NAME` | the event Scheduled of its pods is reported by this scheduler, and no other |

/// The annotation, on each Job, Deployment, ReplicaSet, StatefulSet and lone pod.
pub(crate) const ANNOTATION: &str = "fluxqueue-demo/expect";

/// The expectation about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expectation {
    /// The text of the annotation.
    pub text: String,
    /// The end of the job, or the phase in which it stays: `Complete`, `Running: 2`.
    pub end: String,
    /// True if all its pods must be scheduled at once.
    pub together: bool,
    /// The job that must wait before it starts, if there is one.
    pub waits: Option<Waits>,
    /// The scheduler that must have scheduled its pods.
    pub by: Option<String>,
    /// The parts of the text that the demo cannot check.
    pub unknown: Vec<String>,
}

/// The job that must wait before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The job itself.
    It,
    /// The job itself, or this other one.
    ItOr(String),
}

impl Expectation {
    /// Reads the annotation.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parts = text.split(',').map(str::trim);
        let mut expectation = Expectation {
            text: text.to_owned(),
            end: parts.next().unwrap_or_default().to_owned(),
            together: false,
            waits: None,
            by: None,
            unknown: Vec::new(),
        };
        for part in parts {
            let other = part.strip_prefix("it or ").and_then(|rest| rest.strip_suffix(" waits"));
            match (part, part.strip_prefix("by "), other) {
                (_, Some(name), _) => expectation.by = Some(name.to_owned()),
                (.., Some(name)) => expectation.waits = Some(Waits::ItOr(name.to_owned())),
                ("together", ..) => expectation.together = true,
                ("waits", ..) => expectation.waits = Some(Waits::It),
                (unknown, ..) => expectation.unknown.push(unknown.to_owned()),
            }
        }
        expectation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_annotation_is_read() {
        let all = Expectation::parse("Failed: DeadlineExceeded, together, waits, by fluence");
        assert_eq!(all.end, "Failed: DeadlineExceeded");
        assert!(all.together);
        assert_eq!(all.waits, Some(Waits::It));
        assert_eq!(all.by.as_deref(), Some("fluence"));
        let plain = Expectation::parse("Running: 2");
        assert_eq!(
            (plain.end.as_str(), plain.together, plain.waits, plain.by),
            ("Running: 2", false, None, None)
        );
        let either = Expectation::parse("Complete, it or other-1 waits");
        assert_eq!(
            (either.waits, either.unknown),
            (Some(Waits::ItOr("other-1".to_owned())), Vec::new())
        );
    }

    #[test]
    fn parts_that_cannot_be_checked_are_unknown() {
        assert_eq!(Expectation::parse("Complete, tomorrow").unknown, ["tomorrow"]);
        assert_eq!(Expectation::parse("Complete, it or waits").unknown, ["it or waits"]);
    }
}
