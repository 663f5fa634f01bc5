//! Compares our filters with kube-scheduler's own plugins, on random clusters and pods.
//!
//! - [`rng`]: the source of randomness
//! - [`cases`]: clusters, pods on nodes, and pods that wait
//! - [`storage`]: volumes and claims that pods mount
//! - [`kube_scheduler`]: the plugins, in the testbed's program
//! - [`ours`]: the same questions for [`fluxqueue_machine::cluster`]
//! - [`gangs`]: gangs and lone pods that the core has placed
//! - [`preferences`]: pods that prefer some nodes to others
//!
//! `FLUXQUEUE_ORACLE_CASES` is the number of waiting pods (100,000), and `FLUXQUEUE_ORACLE_SEED`
//! the first seed (1): a failure prints the seed to begin with. The test needs `make testbed`;
//! `KUBERNETES` names an older version of kube-scheduler.

#![allow(clippy::unwrap_used, reason = "a test may unwrap: its panic is the report")]
#![allow(
    clippy::disallowed_methods,
    reason = "the core knows no threads and no environment; its test runs a program"
)]

mod cases;
mod gangs;
mod kube_scheduler;
#[path = "../../../tests/kubernetes.rs"]
mod kubernetes;
mod names;
mod ours;
mod preferences;
mod rng;
#[path = "../../../tests/splitmix.rs"]
mod splitmix;
mod storage;
mod terms;

use std::collections::{BTreeMap, BTreeSet};

use cases::Case;
use fluxqueue_core::{CoreSettings, NodePolicy, QueuePolicy};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number"))
    })
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
    // A reason that no case meets would be a filter that is not tested.
    for reason in cases::reasons() {
        assert!(reasons.contains_key(reason) || asked < 1_000, "no node was closed for: {reason}");
    }
}

#[test]
fn the_condition_of_a_pod_that_waits_alone_begins_with_what_kube_scheduler_would_write() {
    let wanted = number("FLUXQUEUE_ORACLE_CASES", 100_000) / 200;
    let first = number("FLUXQUEUE_ORACLE_SEED", 1);
    let mut waits = 0;
    kube_scheduler::ask((first..first + wanted).map(Case::of_one), |case, answers| {
        let begun = gangs::begin_alone(settings(), case);
        if answers[0].passing.is_empty() {
            let said = begun.condition.unwrap_or_default();
            assert!(
                begun.node.is_none() && said.starts_with(&answers[0].text),
                "seed {}: {said:?}; kube-scheduler says {:?}\n{}\nof {}",
                case.seed,
                answers[0].text,
                case.questions[0].pod,
                case.line()
            );
            waits += 1;
        }
        true
    });
    println!("{waits} of {wanted} pods wait");
    assert!(waits * 10 > wanted, "too few wait to tell anything: {waits}");
}

#[test]
fn members_of_gangs_are_where_kube_schedulers_plugins_let_them_be() {
    let wanted = number("FLUXQUEUE_ORACLE_CASES", 100_000) / 100;
    let first = number("FLUXQUEUE_ORACLE_SEED", 1);
    let seeds = first..first + wanted;
    let mut nodes: Vec<String> = Vec::new();
    let (mut gangs, mut asking) = (0, 0);
    let placed: Vec<gangs::Placed> =
        seeds.filter_map(|seed| gangs::place(settings(), seed)).collect();
    let mut all = Vec::new();
    for placed in placed {
        gangs += 1;
        let spec = &placed.cases[0].questions[0].pod["spec"];
        let affinity = &spec["affinity"];
        asking += u64::from(
            affinity.get("podAffinity").or(affinity.get("podAntiAffinity")).is_some()
                || spec.get("topologySpreadConstraints").is_some(),
        );
        nodes.extend(placed.nodes);
        all.extend(placed.cases);
    }
    let members = nodes.len();
    let mut at = 0;
    kube_scheduler::ask(all.into_iter(), |case, answers| {
        let node = &nodes[at];
        let pod = &case.questions[0].pod;
        assert!(
            answers[0].passing.contains_key(node),
            "seed {}: {} is on {node}: {:?}\n{pod}\nin {}",
            case.seed,
            pod["metadata"]["name"],
            answers[0].rejected.get(node),
            case.line()
        );
        at += 1;
        at < members
    });
    println!(
        "{gangs} gangs of {members} members were placed, {asking} of them ask about other pods"
    );
    assert!(
        wanted < 100 || (gangs > wanted / 10 && asking > wanted / 50),
        "too few were placed to tell anything"
    );
}

#[test]
fn nodes_have_the_scores_that_kube_schedulers_plugins_give_them() {
    let wanted = number("FLUXQUEUE_ORACLE_CASES", 100_000) / 10;
    let first = number("FLUXQUEUE_ORACLE_SEED", 1);
    let (mut asked, mut said) = (0, BTreeMap::<&str, u64>::new());
    kube_scheduler::ask((first..).map(preferences::case), |case, answers| {
        let mut ours = ours::Ours::of(case);
        for (question, answer) in case.questions.iter().zip(answers) {
            if let Err(difference) = ours.compare_scores(question, answer) {
                panic!("seed {}: {difference}\n{}\nof {}", case.seed, question.pod, case.line());
            }
            asked += 1;
            for plugin in ours::PREFERENCES {
                let scores =
                    answer.passing.values().map(|theirs| ours::by_plugin(theirs.as_ref(), plugin));
                let differing: BTreeSet<i64> = scores.collect();
                *said.entry(plugin).or_default() += u64::from(differing.len() > 1);
            }
        }
        asked < wanted
    });
    println!("{asked} pods; by these plugins their nodes differed: {said:?}");
    for (plugin, differed) in said {
        assert!(differed > asked / 10 || asked < 1_000, "{plugin} said too little: {differed}");
    }
}

#[test]
fn lone_pods_are_among_the_best_tenth_of_nodes_by_kube_schedulers_score() {
    let wanted = number("FLUXQUEUE_ORACLE_CASES", 100_000) / 100;
    let first = number("FLUXQUEUE_ORACLE_SEED", 1);
    for (policy, counts) in [
        (NodePolicy::First, preferences::Counts::Everything),
        (NodePolicy::Spread, preferences::Counts::Everything),
        (NodePolicy::LoNode, preferences::Counts::Preferences),
    ] {
        let settings = CoreSettings { node_policy: policy, ..settings() };
        let (mut placed, mut chosen_well) = (0_u64, 0_u64);
        let cases = (first..first + wanted).map(preferences::case_of_one);
        kube_scheduler::ask(cases, |case, answers| {
            let node = gangs::place_alone(settings.clone(), case);
            assert_eq!(
                node.is_some(),
                !answers[0].passing.is_empty(),
                "seed {}: it has a place",
                case.seed
            );
            if let Some(node) = node {
                placed += 1;
                chosen_well +=
                    u64::from(preferences::is_of_the_best_tenth(&answers[0], &node, counts));
            }
            true
        });
        println!("{}: {chosen_well} of {placed} are among the best tenth", policy.as_str());
        assert!(placed * 10 > wanted * 8, "too few were placed to tell anything: {placed}");
        assert!(chosen_well * 100 >= placed * 95, "{}: {chosen_well} of {placed}", policy.as_str());
    }
}

fn settings() -> CoreSettings {
    CoreSettings {
        scheduler_names: vec![cases::SCHEDULER.into()],
        node_policy: NodePolicy::LoNode,
        ttl_after_finished_secs: 60,
        queue_policy: QueuePolicy::Easy,
        start_slack_secs: 0,
        end_slack_secs: 0,
        record_lone_pods: true,
        ..CoreSettings::default()
    }
}
