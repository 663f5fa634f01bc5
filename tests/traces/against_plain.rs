//! Compares the core with the plain simulator on every trace.

use std::ops::Range;

use fluxion_sys::FunctionTable;
use fluxqueue::simulate::progress::Progress;
use fluxqueue::simulate::{self, machine};
use fluxqueue_core::{CoreSettings, QueuePolicy};

use crate::plain::{self, Policy};
use crate::random;

pub(crate) fn settings(policy: QueuePolicy, reservation_depth: usize) -> CoreSettings {
    simulate::settings(policy, Some(reservation_depth))
}

fn compare(policy: Policy, settings: &CoreSettings, seeds: Range<u64>) {
    compare_all(policy, settings, seeds.map(|seed| (seed, random::trace(seed))));
}

fn compare_large(policy: Policy, settings: &CoreSettings, seeds: Range<u64>) {
    compare_all(policy, settings, seeds.map(|seed| (seed, random::large_trace(seed))));
}

fn compare_all(
    policy: Policy,
    settings: &CoreSettings,
    traces: impl Iterator<Item = (u64, (Vec<plain::Job>, usize))>,
) {
    for (seed, (jobs, nodes)) in traces {
        let expected = plain::run(&jobs, nodes, policy);
        let jobs: Vec<machine::Job> = jobs
            .iter()
            .map(|job| machine::Job {
                number: job.number,
                submit: job.submit,
                nodes: u32::try_from(job.nodes).unwrap(),
                walltime: job.walltime,
                run: job.run,
            })
            .collect();
        let nodes = u32::try_from(nodes).unwrap();
        let ran =
            machine::run(&jobs, nodes, settings, FunctionTable::builtin(), &mut Progress::none())
                .unwrap();
        assert_eq!(ran.len(), expected.len(), "seed {seed}");
        for (is, (number, expected)) in ran.iter().zip(&expected) {
            assert_eq!(*is.job, *number.to_string());
            assert_eq!(
                (is.start, is.end),
                (expected.start, expected.end),
                "seed {seed}, {policy:?}: job {number}"
            );
            let on: Vec<usize> =
                is.nodes.iter().cloned().flatten().map(|node| node as usize).collect();
            assert!(
                on.iter().eq(&expected.nodes),
                "seed {seed}, {policy:?}: job {number}: {on:?}, {expected:?}"
            );
        }
    }
}

#[test]
fn fcfs() {
    compare(Policy::Fcfs, &settings(QueuePolicy::Fcfs, 1), 0..500);
}

#[test]
fn easy() {
    compare(Policy::Backfill(1), &settings(QueuePolicy::Easy, 64), 0..1_000);
}

#[test]
fn hybrid() {
    for depth in [1, 2, 3, 8] {
        compare(Policy::Backfill(depth), &settings(QueuePolicy::Hybrid, depth), 0..300);
    }
}

#[test]
fn conservative() {
    compare(Policy::Backfill(usize::MAX), &settings(QueuePolicy::Conservative, 64), 0..1_000);
}

#[test]
fn large_traces() {
    compare_large(Policy::Fcfs, &settings(QueuePolicy::Fcfs, 1), 0..3);
    compare_large(Policy::Backfill(1), &settings(QueuePolicy::Easy, 64), 0..8);
    compare_large(Policy::Backfill(4), &settings(QueuePolicy::Hybrid, 4), 0..3);
    compare_large(Policy::Backfill(usize::MAX), &settings(QueuePolicy::Conservative, 64), 0..2);
}
