//! Fluxqueue against a real control plane: etcd, API server and controllers of Kubernetes, with
//! simulated nodes.
//!
//! The tests need the testbed's binary (`make testbed`); without it every test fails with that
//! message. Each test has a namespace of its own. Tests that break the control plane or need
//! special nodes have a control plane of their own.

mod harness;

/// Which Kubernetes the control planes are of.
#[path = "../kubernetes.rs"]
mod kubernetes;

/// Objects that tests wait for.
mod lists;

/// Promises to FluxJobs, as they were written.
mod promised;

/// Tests that are left out on older versions of Kubernetes.
mod newer;

/// Groups of Kubernetes' own, and devices by the name of a resource.
mod scheduling_groups;

/// Workloads that users submit: pods, Jobs, groups, services.
mod workloads;

/// Processes that die, objects that go away, and API servers that answer badly.
mod failures;

/// A leader that is stopped, replaced, and continued.
mod takeover;

/// Gangs that fit in one way only, and gangs that lose their nodes to another scheduler.
mod gangs;

/// Pods that want to be near to others, apart from them, or spread among them.
mod crowds;

/// Two Fluxqueues in one cluster.
mod neighbours;

/// Invalid input.
mod bad_input;

/// Queues.
mod queues;

/// Permissions of ordinary users.
mod permissions;

/// Pods that admission gives to Fluxqueue, and objects that it refuses.
mod admission;

/// Certificates of the webhook.
mod certificates;

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

/// What-if answers, compared with the jobs that are submitted afterwards.
mod what_if;

/// `kubectl fluxqueue`.
mod command;

/// Alerts and dashboards of the chart, and Prometheus.
mod monitoring;

/// The users of jobs.
mod users;

/// The examples, as they stand.
mod examples;

/// The recipes of the page for users of Slurm.
mod recipes;

/// The commands in the documents.
mod documented;

/// Promised starts, and actual starts.
mod time;

/// An upgrade from an older version, and the way back.
mod upgrade;

/// Jobs that ask for racks, zones and other levels of the machine.
mod topology;

/// Attempts of a tenant against others: `make attacks`.
#[path = "../attacks/mod.rs"]
mod attacks;
