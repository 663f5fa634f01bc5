//! Our filters against kube-scheduler's own plugins, on clusters and pods that seeds make.
//!
//! - [`rng`]: where chance comes from
//! - [`cases`]: clusters, pods that are there, pods that ask
//! - [`kube_scheduler`]: the plugins, in the testbed's program
//! - [`ours`]: the same questions to [`fluxqueue_core::cluster`]
//!
//! `FLUXQUEUE_ORACLE_CASES` says how many pods ask (100,000), `FLUXQUEUE_ORACLE_SEED` with which seed to begin (1): a failure
//! names the one to begin with. Needs `make testbed`.

#![allow(clippy::unwrap_used, reason = "a test may unwrap: its panic is the report")]
#![allow(clippy::disallowed_methods, reason = "the core knows no threads and no environment; its test runs a program")]

mod cases;
mod kube_scheduler;
mod ours;
mod rng;

use std::collections::BTreeMap;

use cases::Case;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

#[test]
fn nodes_take_the_pods_that_kube_schedulers_plugins_let_through_and_say_the_same_otherwise() {
    let wanted = number("FLUXQUEUE_ORACLE_CASES", 100_000);
    let first = number("FLUXQUEUE_ORACLE_SEED", 1);
    let (mut asked, mut passed, mut reasons) = (0, 0, BTreeMap::<String, u64>::new());
    kube_scheduler::ask((first..).map(Case::of), |case, answers| {
        let mut ours = ours::Ours::of(case);
        for (question, answer) in case.questions.iter().zip(answers) {
            if let Err(difference) = ours.compare(question, answer) {
                panic!("seed {}: {difference}\n{}\nof {}", case.seed, question.pod, case.line());
            }
            asked += 1;
            passed += u64::from(!answer.passing.is_empty());
            for reason in answer.rejected.values().flatten() {
                *reasons.entry(reason.clone()).or_default() += 1;
            }
        }
        asked < wanted
    });
    println!("{asked} pods, {passed} fit somewhere; what kept them off nodes: {reasons:#?}");
    // What is never said is not tested.
    for reason in cases::REASONS {
        assert!(reasons.contains_key(*reason) || asked < 1_000, "no node was closed for: {reason}");
    }
}
