//! Situations worked out by hand, with the starts that the plain simulator has to find.

use crate::plain::{Job, Policy, Ran, run};
use crate::random;

const EASY: Policy = Policy::Backfill(1);
const CONSERVATIVE: Policy = Policy::Backfill(usize::MAX);

/// Makes jobs from rows of submit time, nodes, walltime and run time. They are numbered from 1.
fn jobs(rows: &[(u64, usize, u64, u64)]) -> Vec<Job> {
    let job = |(number, (submit, nodes, walltime, run)): (u64, &(u64, usize, u64, u64))| Job {
        number,
        submit: *submit,
        nodes: *nodes,
        walltime: *walltime,
        run: *run,
    };
    (1..).zip(rows).map(job).collect()
}

/// Returns the start of each job, in the order of the rows.
fn starts(rows: &[(u64, usize, u64, u64)], nodes: usize, policy: Policy) -> Vec<u64> {
    run(&jobs(rows), nodes, policy).into_values().map(|ran: Ran| ran.start).collect()
}

/// The sweep keeps its promises. The reservation has two nodes, one planned to be free at 10 and
/// one at 4. The first becomes free at 3 instead, the other at 4 as planned.
#[test]
fn a_reservation_moves_only_to_earlier_times() {
    let rows = [(0, 1, 10, 3), (0, 1, 4, 4), (0, 2, 5, 5), (0, 1, 6, 6)];
    let ran = run(&jobs(&rows), 2, CONSERVATIVE);
    assert_eq!(
        ran[&3].promised,
        [10, 10, 9],
        "it moves to 9 with the sweep after the one in which the other began"
    );
    assert_eq!(ran[&4].promised, [4]);
    assert_eq!((ran[&3].start, ran[&4].start), (9, 3));
    assert_eq!(starts(&rows, 2, Policy::Backfill(2)), [0, 0, 9, 3]);
    // With one reservation the small job has no promise, and has to stay out of the large one's
    // way.
    assert_eq!(starts(&rows, 2, EASY), [0, 0, 4, 9]);
    assert_eq!(starts(&rows, 2, Policy::Fcfs), [0, 0, 4, 9]);
}

#[test]
fn jobs_start_in_order_of_submit_time_and_number() {
    let both = [(5, 2, 10, 10), (0, 2, 10, 10), (0, 2, 10, 10)];
    for policy in [Policy::Fcfs, EASY, CONSERVATIVE] {
        assert_eq!(starts(&both, 2, policy), [20, 0, 10]);
    }
}

#[test]
fn no_job_overtakes_with_fcfs() {
    // The third would fit beside the first, and end before it.
    assert_eq!(starts(&[(0, 1, 10, 10), (1, 2, 5, 5), (2, 1, 3, 3)], 2, Policy::Fcfs), [0, 10, 15]);
}

#[test]
fn a_job_that_ends_in_time_starts_before_a_reservation() {
    let rows = |walltime| [(0, 1, 10, 10), (1, 2, 5, 5), (2, 1, walltime, 3)];
    // The interval from 2 to 10 is half-open: the job may end when the reservation begins.
    assert_eq!(starts(&rows(8), 2, EASY), [0, 10, 2]);
    assert_eq!(starts(&rows(9), 2, EASY), [0, 10, 15]);
}

#[test]
fn a_node_that_the_reservation_does_not_need_may_be_taken_for_long() {
    // Nodes 0 and 1 are busy until 10, and 2 and 3 are free. The reservation of three nodes takes 0
    // to 2, so node 3 is left for jobs of one node.
    let rows = [(0, 2, 10, 10), (1, 3, 5, 5), (2, 1, 100, 100), (3, 1, 100, 100)];
    assert_eq!(starts(&rows, 4, EASY), [0, 10, 2, 15]);
}

#[test]
fn a_reservation_is_for_the_lowest_numbered_nodes_though_others_would_delay_no_job() {
    // Nodes 0 and 1 are free from 2 on, 2 and 3 from 10. The large job is to have 0 to 2 then. The
    // small one outlasts that instant, and waits for node 3, though the large one could use 1 to 3
    // instead.
    let rows = |walltime| [(0, 2, 2, 2), (0, 2, 10, 10), (1, 3, 5, 5), (2, 1, walltime, walltime)];
    assert_eq!(starts(&rows(100), 4, EASY), [0, 0, 10, 10]);
    assert_eq!(starts(&rows(8), 4, EASY), [0, 0, 10, 2]);
}

#[test]
fn early_ends_are_used_at_once_and_overlong_runs_are_cut() {
    assert_eq!(starts(&[(0, 1, 100, 7), (0, 1, 5, 5)], 1, EASY), [0, 7]);
    let cut = run(&jobs(&[(0, 1, 10, 60), (0, 1, 5, 5)]), 1, CONSERVATIVE);
    assert_eq!((cut[&1].end, cut[&2].start), (10, 10));
}

#[test]
fn completions_come_before_arrivals_and_both_before_the_sweep() {
    // At 10 one job ends, and a large and a small job arrive. The large one is first, and has room.
    let rows = [(0, 2, 10, 10), (10, 2, 5, 5), (10, 1, 5, 5)];
    for policy in [Policy::Fcfs, EASY, CONSERVATIVE] {
        assert_eq!(starts(&rows, 2, policy), [0, 10, 15]);
    }
}

#[test]
fn the_number_of_reservations_decides_which_jobs_are_safe() {
    // Four nodes. Job 1 has 0 to 2 until 2. Job 2 is to have 0 and 1 from 2 to 10, and job 3 after
    // it 0 to 2. All but job 1 wait.
    let rows = [(0, 3, 2, 2), (0, 2, 8, 8), (0, 3, 4, 4), (0, 2, 3, 3), (0, 1, 6, 6), (0, 1, 5, 5)];
    // Job 5 takes node 3 at once and job 6 node 2 at 2, so job 4 has both only when job 6 ends.
    assert_eq!(starts(&rows, 4, EASY), [0, 2, 10, 7, 0, 2]);
    // Job 4 is the second that is blocked from 2 on, and holds 2 and 3 from when job 5 ends. Job 6
    // would run into that.
    assert_eq!(starts(&rows, 4, Policy::Backfill(2)), [0, 2, 10, 6, 0, 9]);
    // Job 4 holds 2 and 3 from 2 to 5 at once, so job 5 cannot have node 3 before. Both of the last
    // go behind it.
    assert_eq!(starts(&rows, 4, CONSERVATIVE), [0, 2, 10, 2, 5, 5]);
}

#[test]
fn a_gap_before_a_reservation_is_found_behind_and_ahead() {
    // Node 0 is taken until 10, node 1 until 2. Job 3 holds both from 10 on; job 4 fits into node 1
    // from 2 to 10, and holds that; job 5, just as long, has to go behind job 3.
    let rows = [(0, 1, 10, 10), (0, 1, 2, 2), (0, 2, 5, 5), (0, 1, 8, 8), (0, 1, 8, 8)];
    let ran = run(&jobs(&rows), 2, CONSERVATIVE);
    assert_eq!(ran[&4].promised, [2]);
    assert_eq!(ran[&5].promised[0], 15);
    assert_eq!(ran.values().map(|ran| ran.start).collect::<Vec<_>>(), [0, 0, 10, 2, 15]);
}

#[test]
fn one_reservation_of_hybrid_is_easy_and_very_many_are_conservative() {
    for seed in 0..200 {
        let (jobs, nodes) = random::trace(seed);
        let many = Policy::Backfill(jobs.len());
        assert_eq!(run(&jobs, nodes, many), run(&jobs, nodes, CONSERVATIVE), "seed {seed}");
    }
}

/// The starts in random traces cannot be worked out by hand, but they must not contradict each
/// other.
#[test]
fn nodes_are_never_shared_and_promises_are_kept() {
    let mut promises = 0;
    for seed in 0..400 {
        let (jobs, nodes) = random::trace(seed);
        for policy in [Policy::Fcfs, EASY, Policy::Backfill(3), CONSERVATIVE] {
            let ran = run(&jobs, nodes, policy);
            assert_eq!(ran.len(), jobs.len());
            for job in &jobs {
                let is = &ran[&job.number];
                assert!(
                    is.start >= job.submit && is.nodes.len() == job.nodes,
                    "seed {seed}: {job:?}"
                );
                assert!(is.nodes.iter().all(|node| *node < nodes));
                // Each promise is no later than the one before, and the start is no later than the
                // last promise. This holds for EASY as well.
                let mut kept = is.promised.clone();
                kept.push(is.start);
                assert!(
                    kept.is_sorted_by(|a, b| a >= b),
                    "seed {seed}, {policy:?}: {job:?}: {kept:?}"
                );
                promises += is.promised.len();
            }
            let all: Vec<&Ran> = ran.values().collect();
            for (at, one) in all.iter().enumerate() {
                for other in &all[at + 1..] {
                    let meet = one.start < other.end && other.start < one.end;
                    assert!(
                        !meet || one.nodes.is_disjoint(&other.nodes),
                        "seed {seed}, {policy:?}"
                    );
                }
            }
        }
    }
    assert!(promises > 10_000, "{promises}");
}

/// If every walltime equals the run time, conservative backfill starts each job no later than first
/// promised. No job ends early, so no reservation has a reason to move.
#[test]
fn true_walltimes_make_first_promises_come_true() {
    for seed in 0..200 {
        let (mut jobs, nodes) = random::trace(seed);
        for job in &mut jobs {
            job.walltime = job.run;
        }
        for (number, is) in run(&jobs, nodes, CONSERVATIVE) {
            let first = is.promised.first().copied().unwrap_or(is.start);
            assert_eq!(is.start, first, "seed {seed}: job {number}");
        }
    }
}
