//! Leader election over a `coordination.k8s.io/v1` Lease, with the times and meanings of client-go.
//!
//! This adds two things. The Lease's `leaseTransitions` is the leader's epoch. And a candidate that
//! takes over from a leader that did not release the Lease starts only when that leader's last
//! write must have ended: the old leader sends nothing more when its renewals fail (see
//! [`super::fence`]), and the new one waits for longer than any write may take.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::error_chain::error_chain;
use super::fence::Fence;

/// The name and the times of a Lease.
#[derive(Debug, Clone)]
pub struct LeaseSettings {
    /// The `metadata.namespace` of the Lease.
    pub namespace: String,
    /// The `metadata.name` of the Lease.
    pub name: String,
    /// The `spec.holderIdentity` of this process, which is unique.
    pub identity: String,
    /// The time for which a renewal counts for other processes.
    pub lease_duration: Duration,
    /// The time after which a leader that could not renew gives up.
    pub renew_deadline: Duration,
    /// The time between two tries.
    pub retry_period: Duration,
    /// The longest time for which a predecessor's last write may be under way.
    pub write_timeout_max: Duration,
}

/// Settings that contradict each other.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LeaseSettingsError {
    /// Another process could take over while the leader still believes that it leads.
    #[error("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline")]
    DurationNotAboveDeadline,
    /// No time would be left for a second try.
    #[error("--leader-elect-renew-deadline must be longer than --leader-elect-retry-period")]
    DeadlineNotAboveRetry,
    /// Leases count in whole seconds.
    #[error(
        "--leader-elect-lease-duration must be at least 1 s, and --leader-elect-retry-period at \
         least 1 ms"
    )]
    TooShort,
}

/// Competes for one Lease.
#[derive(Debug)]
pub struct Candidate {
    api: Api<Lease>,
    settings: LeaseSettings,
    /// The last version of the Lease, and the time at which it was first seen here.
    observed: Option<(Lease, Instant)>,
    /// True if a predecessor was pushed aside, maybe by a write of ours that got no answer, or if
    /// its Lease vanished.
    unclean: bool,
}

/// The hold on the Lease, while this process leads.
#[derive(Debug)]
pub struct Leadership {
    candidate: Candidate,
    lease: Lease,
    /// The epoch: `spec.leaseTransitions`.
    pub epoch: i64,
    /// The fence, to be checked before anything is sent that a second leader must not send too.
    pub fence: Fence,
    /// The time to wait before the first decision.
    pub wait_first: Duration,
}

/// The reason why the Lease is not ours any more, or may not be.
#[derive(Debug, thiserror::Error)]
pub enum LeaseLost {
    /// Another process holds it.
    #[error("lease {name} is held by {holder}")]
    Taken {
        /// The Lease, `namespace/name`.
        name: String,
        /// Its holder.
        holder: String,
    },
    /// This process could not renew it in time.
    #[error("lease {name} could not be renewed for {} s: {last_error}", .deadline.as_secs())]
    Expired {
        /// The Lease, `namespace/name`.
        name: String,
        /// The renew deadline.
        deadline: Duration,
        /// The error of the last try.
        last_error: String,
    },
    /// This process gives it up, since it cannot do the work of a leader.
    #[error("lease {name} is given up: {why}")]
    GivenUp {
        /// The Lease, `namespace/name`.
        name: String,
        /// The work that this process cannot do.
        why: String,
    },
}

/// Returns the work that the process has not been able to do for at least this long, if that makes
/// it useless as the leader.
pub type Fitness<'a> = dyn Fn(Duration) -> Option<String> + Send + Sync + 'a;

/// The outcome of a try to take the Lease.
enum Attempt {
    Won { lease: Box<Lease>, sent: Instant, wait_first: Duration },
    HeldBy(String),
}

// === impl LeaseSettings ===

impl LeaseSettings {
    /// Refuses times with which two processes could lead at once.
    pub fn check(&self) -> Result<(), LeaseSettingsError> {
        if self.lease_duration <= self.renew_deadline {
            return Err(LeaseSettingsError::DurationNotAboveDeadline);
        }
        if self.renew_deadline <= self.retry_period {
            return Err(LeaseSettingsError::DeadlineNotAboveRetry);
        }
        if self.lease_duration < Duration::from_secs(1)
            || self.retry_period < Duration::from_millis(1)
        {
            return Err(LeaseSettingsError::TooShort);
        }
        Ok(())
    }
}

// === impl Candidate ===

impl Candidate {
    /// Creates a candidate that has not asked for the Lease yet.
    pub fn new(client: Client, settings: LeaseSettings) -> Self {
        Candidate {
            api: Api::namespaced(client, &settings.namespace),
            settings,
            observed: None,
            unclean: false,
        }
    }

    /// Waits until the Lease is ours. Errors are logged, and the next try follows: a standby has
    /// nothing better to do.
    pub async fn acquire(mut self) -> Leadership {
        let mut last_holder = None;
        loop {
            match tokio::time::timeout(self.settings.renew_deadline, self.try_acquire()).await {
                Ok(Ok(Attempt::Won { lease, sent, wait_first })) => {
                    return self.lead(*lease, sent, wait_first);
                }
                Ok(Ok(Attempt::HeldBy(holder))) => {
                    if last_holder.as_ref() != Some(&holder) {
                        tracing::info!(lease = %self.full_name(), %holder, "standing by");
                        last_holder = Some(holder);
                    }
                }
                Ok(Err(error)) => {
                    let error = error_chain(&error);
                    tracing::warn!(lease = %self.full_name(), error, "trying to become the leader");
                }
                Err(_) => {
                    let lease = self.full_name();
                    tracing::warn!(%lease, "no answer while trying to become the leader");
                }
            }
            tokio::time::sleep(self.pause()).await;
        }
    }

    async fn try_acquire(&mut self) -> Result<Attempt, kube::Error> {
        let sent = Instant::now();
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else {
            return self.create().await;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if !holder.is_empty() && holder != self.settings.identity && !self.has_expired(&lease, sent)
        {
            return Ok(Attempt::HeldBy(holder));
        }
        // A holder that released the Lease has ended its writes first.
        self.unclean |= !holder.is_empty() && holder != self.settings.identity;
        let mut next = lease;
        next.spec = Some(self.claim(&spec, &holder));
        let sent = Instant::now();
        let lease =
            Box::new(self.api.replace(&self.settings.name, &PostParams::default(), &next).await?);
        // The holder has been silent for a lease duration already: longer than it may go on
        // sending.
        let wait_first =
            if self.unclean { self.settings.write_timeout_max } else { Duration::ZERO };
        Ok(Attempt::Won { lease, sent, wait_first })
    }

    async fn create(&mut self) -> Result<Attempt, kube::Error> {
        // A Lease that we saw and that is gone was deleted while its holder led, and the holder may
        // not have noticed yet.
        let before = self.observed.as_ref().and_then(|(lease, _)| lease.spec.clone());
        self.unclean |= before.is_some();
        let spec = before.unwrap_or_default();
        let holder = if self.unclean { "" } else { self.settings.identity.as_str() };
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.settings.name.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(self.claim(&spec, holder)),
        };
        let sent = Instant::now();
        let lease = Box::new(self.api.create(&PostParams::default(), &lease).await?);
        let silent = self.settings.renew_deadline + self.settings.write_timeout_max;
        Ok(Attempt::Won {
            lease,
            sent,
            wait_first: if self.unclean { silent } else { Duration::ZERO },
        })
    }

    /// True if the holder has not renewed for a whole lease duration of our clock: other clocks
    /// prove nothing.
    fn has_expired(&mut self, lease: &Lease, now: Instant) -> bool {
        match &self.observed {
            Some((seen, since)) if seen.spec == lease.spec => {
                now.duration_since(*since) >= self.settings.lease_duration
            }
            _ => {
                self.observed = Some((lease.clone(), now));
                false
            }
        }
    }

    /// Returns the spec with which the Lease becomes or stays ours. Other fields are kept.
    fn claim(&self, spec: &LeaseSpec, holder: &str) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let same = *holder == self.settings.identity;
        let transitions = spec.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: Some(
                i32::try_from(self.settings.lease_duration.as_secs()).unwrap_or(i32::MAX),
            ),
            acquire_time: if same {
                spec.acquire_time.clone().or(Some(now.clone()))
            } else {
                Some(now.clone())
            },
            renew_time: Some(now),
            lease_transitions: Some(if same { transitions } else { transitions.saturating_add(1) }),
            ..spec.clone()
        }
    }

    fn lead(self, lease: Lease, sent: Instant, wait_first: Duration) -> Leadership {
        let epoch = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let fence = Fence::with_term(self.settings.renew_deadline);
        fence.renewed(sent);
        let (name, wait_secs) = (self.full_name(), wait_first.as_secs());
        tracing::info!(lease = %name, epoch, wait_secs, "this process leads");
        Leadership { candidate: self, lease, epoch: i64::from(epoch), fence, wait_first }
    }

    /// Returns the retry period, and up to a fifth more, so that candidates that started together
    /// drift apart.
    fn pause(&self) -> Duration {
        let nanos = Timestamp::now().subsec_nanosecond().unsigned_abs();
        self.settings.retry_period + self.settings.retry_period * (nanos % 1000) / 5000
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }
}

// === impl Leadership ===

impl Leadership {
    /// Renews the Lease until that fails for good, or this process has been unfit for longer than
    /// the Lease lasts. Then the fence falls at once.
    pub async fn keep(&mut self, unfit: &Fitness<'_>) -> LeaseLost {
        let lost = self.renew_until_lost(unfit).await;
        self.fence.fall();
        lost
    }

    async fn renew_until_lost(&mut self, unfit: &Fitness<'_>) -> LeaseLost {
        let mut confirmed = Instant::now();
        let mut last_error = "no answer".to_owned();
        loop {
            tokio::time::sleep(self.candidate.settings.retry_period).await;
            if let Some(why) = unfit(self.candidate.settings.lease_duration) {
                return LeaseLost::GivenUp { name: self.candidate.full_name(), why };
            }
            let rest = self.candidate.settings.renew_deadline.saturating_sub(confirmed.elapsed());
            let sent = Instant::now();
            match tokio::time::timeout(rest, self.renew()).await {
                Ok(Ok(None)) => {
                    confirmed = sent;
                    self.fence.renewed(sent);
                    continue;
                }
                Ok(Ok(Some(holder))) => {
                    return LeaseLost::Taken { name: self.candidate.full_name(), holder };
                }
                Ok(Err(error)) => last_error = error_chain(&error),
                Err(_) => {}
            }
            if confirmed.elapsed() >= self.candidate.settings.renew_deadline {
                let deadline = self.candidate.settings.renew_deadline;
                return LeaseLost::Expired {
                    name: self.candidate.full_name(),
                    deadline,
                    last_error,
                };
            }
            let lease = self.candidate.full_name();
            tracing::warn!(%lease, error = %last_error, "renewing the lease");
        }
    }

    /// Renews the Lease once; `Some(holder)` if another process has it.
    async fn renew(&mut self) -> Result<Option<String>, kube::Error> {
        match self.replace().await {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
            other => return other.map(|()| None),
        }
        // The Lease was written. That may have been an earlier renewal of ours that got no answer,
        // or a person.
        let Some(lease) = self.candidate.api.get_opt(&self.candidate.settings.name).await? else {
            return Ok(Some("no process: it was deleted".to_owned()));
        };
        let holder =
            lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        if holder != self.candidate.settings.identity {
            return Ok(Some(holder));
        }
        self.lease = lease;
        self.replace().await.map(|()| None)
    }

    async fn replace(&mut self) -> Result<(), kube::Error> {
        let identity = self.candidate.settings.identity.clone();
        let spec = self.lease.spec.clone().unwrap_or_default();
        let next =
            Lease { spec: Some(self.candidate.claim(&spec, &identity)), ..self.lease.clone() };
        let name = &self.candidate.settings.name;
        self.lease = self.candidate.api.replace(name, &PostParams::default(), &next).await?;
        Ok(())
    }

    /// Waits until the last write must have ended, then gives the Lease back: for a process that
    /// sends nothing any more.
    pub async fn release_after_writes(self) {
        tokio::time::sleep(self.candidate.settings.write_timeout_max).await;
        self.release().await;
    }

    /// Gives the Lease back, so that a successor need not wait. Call this only when nothing is in
    /// flight any more.
    pub async fn release(mut self) {
        // A Lease without a spec has no holder.
        let Some(spec) = &mut self.lease.spec else { return };
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        let name = &self.candidate.settings.name;
        let params = PostParams::default();
        let written = self.candidate.api.replace(name, &params, &self.lease);
        match tokio::time::timeout(self.candidate.settings.retry_period, written).await {
            Ok(Ok(_)) => tracing::info!(lease = %self.candidate.full_name(), "lease released"),
            Ok(Err(error)) => {
                let lease = self.candidate.full_name();
                tracing::warn!(%lease, error = error_chain(&error), "releasing the lease");
            }
            Err(_) => {
                let lease = self.candidate.full_name();
                tracing::warn!(%lease, "no answer while releasing the lease");
            }
        }
    }
}
