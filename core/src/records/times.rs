//! Times in the form that records have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use fluxqueue_workload::Time;

pub(crate) fn micro_time(at: Time) -> MicroTime {
    MicroTime(at.timestamp())
}

/// Returns the instant of a MicroTime.
pub(crate) fn time_of(at: &MicroTime) -> Time {
    Time(at.0.as_microsecond())
}
