//! Attempts of a tenant against others, on a real control plane: `make attacks`.
//!
//! Each test is one attempt, with its variants. Its name says what does *not* happen.
//! docs/security.md lists the attempts, the defence against each, and its test. The tests take
//! long, so `make test` leaves them out; each fault that an attempt once found has a scenario or
//! unit test there as well.

/// The two tenants, and the rights that an administrator has given them.
mod tenants;

/// Connections, requests, bodies and tokens in large numbers.
mod floods;

/// Pods, Jobs, claims and FluxJobs that name owners of another namespace, or of none.
mod owners;

/// Jobs that wait without pods, in large numbers and beyond their quota.
mod stand_ins;

/// Writes that the API server refuses or does not answer.
mod refusals;

/// Long texts, odd quantities, many shapes.
mod texts;

/// Pods that stop slowly, restart, or are made again under their names.
mod members;

/// Limits of queues, and ways around them.
mod limits;

/// Holds, records and schedulers that belong to other users.
mod policies;
