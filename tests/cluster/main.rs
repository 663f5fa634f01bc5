//! Fluxqueue against a real control plane: etcd, API server and controllers of Kubernetes, with
//! simulated nodes.
//!
//! Needs the testbed's binary (`make testbed`); without it every test says so and fails. Each test
//! has a namespace of its own; those that break the control plane or need special nodes have a
//! control plane of their own.

mod harness;

/// Objects that tests wait for.
mod lists;

/// What FluxJobs were promised, as it was written.
mod promised;

/// What users submit: pods, Jobs, groups, services.
mod workloads;

/// What happens when something dies, goes away or answers badly.
mod failures;

/// A leader that is stopped, replaced, and goes on.
mod takeover;

/// Gangs that fit in one way only, and gangs whose nodes somebody else takes.
mod gangs;

/// Pods that want to be near to others, apart from them, or spread among them.
mod crowds;

/// Two Fluxqueues in one cluster.
mod neighbours;

/// Input that is wrong.
mod bad_input;

/// Queues.
mod queues;

/// What ordinary users may do.
mod permissions;

/// Who is given to Fluxqueue when it is created, and who is refused.
mod admission;

/// Jobs that wait without pods.
mod suspend;

/// A webhook process and its manifests.
mod webhook;

/// The Helm chart.
mod chart;

/// The effects of the values of the chart.
mod chart_values;

/// Values of the chart that make no sense, or are meant to break its objects.
mod chart_hostile;

/// Clients that keep servers busy.
mod flood;

/// Other Fluxion libraries than the built-in one.
mod library;

/// Constraints, other schedulers, counting.
mod sharing;

/// Full nodes that two schedulers share.
mod shared_machine;

/// The API server's answers in both encodings.
mod encodings;

/// Pods that mount volumes.
mod volumes;

/// What would come of a job, told before it is submitted.
mod what_if;

/// Promised starts, and when jobs start.
mod time;

/// Jobs that ask for racks, zones and other levels of the machine.
mod topology;

/// What a tenant tries against others: `make attacks`.
#[path = "../attacks/mod.rs"]
mod attacks;
