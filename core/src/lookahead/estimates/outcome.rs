//! Statements about the start of a job while it waited, and how true they were.

use fluxqueue_api::{EstimatedStart, FluxJobStatus, Reservation, StartEstimates};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::records::times::time_of;
use fluxqueue_workload::Time;

/// Returns the statements for the record, given those in it, the present estimate and promise, and
/// the real start.
pub(crate) fn on_record(
    written: Option<&FluxJobStatus>,
    told: Option<&EstimatedStart>,
    promised: Option<&Reservation>,
    started: Option<Time>,
) -> Option<StartEstimates> {
    let mut said = written.and_then(|status| status.start_estimates.clone()).unwrap_or_default();
    match started {
        None => {
            said.first = said.first.or(told.cloned());
            said.promised = promised.and_then(|kept| kept.start.clone()).or(said.promised);
        }
        Some(started) => {
            let later = |than: &MicroTime| started.seconds() - time_of(than).seconds();
            said.later_than_first_seconds = said.first.as_ref().map(|first| later(&first.time));
            said.later_than_promised_seconds = said.promised.as_ref().map(later);
        }
    }
    (said != StartEstimates::default()).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::times::micro_time;
    use fluxqueue_api::EstimateKind;

    fn at(seconds: i64) -> MicroTime {
        micro_time(Time::from_seconds(seconds))
    }

    fn told(kind: EstimateKind, seconds: i64) -> EstimatedStart {
        EstimatedStart { time: at(seconds), kind, as_of: at(0) }
    }

    fn written(said: Option<StartEstimates>) -> FluxJobStatus {
        FluxJobStatus { start_estimates: said, ..FluxJobStatus::default() }
    }

    #[test]
    fn the_first_estimate_and_the_last_promise_stay_until_it_starts() {
        let kept = |seconds| Reservation {
            start: Some(at(seconds)),
            nodes: "a".to_owned(),
            ..Reservation::default()
        };
        let first = on_record(None, Some(&told(EstimateKind::Projected, 100)), None, None);
        let promised = on_record(
            Some(&written(first)),
            Some(&told(EstimateKind::Reserved, 90)),
            Some(&kept(90)),
            None,
        );
        let better = on_record(
            Some(&written(promised)),
            Some(&told(EstimateKind::Reserved, 80)),
            Some(&kept(80)),
            None,
        );
        let broken = on_record(Some(&written(better)), None, None, None);
        let started = on_record(Some(&written(broken)), None, None, Some(Time::from_seconds(85)));
        let expected = StartEstimates {
            first: Some(told(EstimateKind::Projected, 100)),
            promised: Some(at(80)),
            later_than_first_seconds: Some(-15),
            later_than_promised_seconds: Some(5),
        };
        assert_eq!(started, Some(expected));
        let later =
            on_record(Some(&written(started.clone())), None, None, Some(Time::from_seconds(85)));
        assert_eq!(later, started, "what has started does not change");
    }

    #[test]
    fn of_what_starts_at_once_there_is_nothing_to_say() {
        assert_eq!(on_record(None, None, None, None), None);
        assert_eq!(on_record(None, None, None, Some(Time::from_seconds(5))), None);
    }
}
