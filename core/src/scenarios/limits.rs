//! Promised starts within limits, against a planner that looks at every second.

use proptest::prelude::*;
use serde_json::json;

use super::queues::{backfilling, queue, start_of, timed};
use super::*;

/// Cores of the one node.
const CORES: u64 = 8;

/// The demand of a job, and its namespace.
#[derive(Debug, Clone)]
struct Ask {
    is_limited: bool,
    namespace: &'static str,
    cores: u64,
    seconds: i64,
    /// The seconds by which it ends before its walltime is over.
    early: i64,
}

/// How much the jobs of the queue may have.
#[derive(Debug, Clone)]
struct Most {
    cores: u64,
    jobs: usize,
    cores_per_namespace: u64,
}

/// A job that has its time: from which second, to which.
#[derive(Debug, Clone)]
struct Planned {
    ask: Ask,
    from: i64,
    to: i64,
}

fn asks() -> impl Strategy<Value = Ask> {
    (any::<bool>(), prop::sample::select(vec!["a", "b"]), 1..=CORES, 1i64..20, 0i64..4).prop_map(
        |(is_limited, namespace, cores, seconds, early)| Ask {
            is_limited,
            namespace,
            cores,
            seconds,
            early,
        },
    )
}

fn mosts() -> impl Strategy<Value = Most> {
    (2..=CORES, 1usize..5, 2..=CORES).prop_map(|(cores, jobs, cores_per_namespace)| Most {
        cores,
        jobs,
        cores_per_namespace,
    })
}

/// At this second nothing has too much.
fn is_within(planned: &[Planned], most: &Most, at: i64) -> bool {
    let there = || planned.iter().filter(|job| job.from <= at && at < job.to).map(|job| &job.ask);
    let cores = |jobs: &mut dyn Iterator<Item = &Ask>| jobs.map(|ask| ask.cores).sum::<u64>();
    let limited = || there().filter(|ask| ask.is_limited);
    cores(&mut there()) <= CORES
        && cores(&mut limited()) <= most.cores
        && limited().count() <= most.jobs
        && ["a", "b"].iter().all(|of| {
            cores(&mut limited().filter(|ask| ask.namespace == *of)) <= most.cores_per_namespace
        })
}

/// The first second at which a job fits beside all that is planned, in its queue and on the
/// machine.
fn naive(planned: &[Planned], most: &Most, ask: &Ask, now: i64) -> Option<i64> {
    let horizon = planned.iter().map(|job| job.to).max().unwrap_or(now).max(now);
    (now..=horizon).find(|from| {
        let mut with = planned.to_vec();
        with.push(Planned { ask: ask.clone(), from: *from, to: from + ask.seconds });
        (*from..from + ask.seconds).all(|at| is_within(&with, most, at))
    })
}

fn name_of(number: usize) -> String {
    format!("p{number}")
}

/// When a job starts: it has, or is promised to.
fn start(world: &World, number: usize, now: i64) -> Option<i64> {
    if world.node_of(&name_of(number)).is_some() {
        Some(now)
    } else {
        start_of(world, &name_of(number))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Each is promised the second that the naive planner finds, as it comes; and when all goes on,
    /// some ending early, no limit is exceeded at any second, and no job starts later than
    /// promised.
    #[test]
    fn promises_within_limits_are_those_of_a_naive_planner_and_are_kept(
        asks in prop::collection::vec(asks(), 1..9),
        most in mosts(),
    ) {
        let mut world = backfilling(&[("a", CORES)]);
        let limits = json!({
            "runningJobs": most.jobs, "resources": {"cpu": most.cores},
            "perNamespace": {"resources": {"cpu": most.cores_per_namespace}},
        });
        for name in ["default", "gpu"] {
            let limits = if name == "gpu" { limits.clone() } else { json!({}) };
            queue(&mut world, name, &json!({"policy": "conservative", "limits": limits}));
        }
        let mut planned: Vec<Planned> = Vec::new();
        let mut promised: BTreeMap<usize, i64> = BTreeMap::new();
        for (number, ask) in asks.iter().enumerate() {
            let seconds = u64::try_from(ask.seconds).expect("a few");
            let mut pod = timed(&name_of(number), ask.cores, if ask.is_limited { "gpu" } else { "default" }, seconds);
            pod.id.key = ObjectKey::new(ask.namespace, &*name_of(number));
            world.submit(pod);
            world.settle();
            let now = world.now.seconds();
            let expected = naive(&planned, &most, ask, now);
            prop_assert_eq!(start(&world, number, now), expected, "{}: {:?} beside {:?}", number, ask, planned);
            let Some(from) = expected else { continue };
            planned.push(Planned { ask: ask.clone(), from, to: from + ask.seconds });
            promised.insert(number, from);
        }
        let mut running: BTreeMap<usize, i64> = BTreeMap::new();
        while !promised.is_empty() {
            let now = world.now.seconds();
            prop_assert!(now < 2_000 + 20 * 9, "{promised:?} never end");
            let ended: Vec<usize> = running
                .iter()
                .filter(|(number, from)| now >= **from + (asks[**number].seconds - asks[**number].early).max(1))
                .map(|(number, _)| *number)
                .collect();
            for number in ended {
                world.change(&name_of(number), |pod| pod.phase = Phase::Succeeded);
                running.remove(&number);
                promised.remove(&number);
            }
            world.settle();
            for (number, at) in &promised {
                let is_on = world.node_of(&name_of(*number)).is_some();
                if is_on && !running.contains_key(number) {
                    running.insert(*number, now);
                }
                prop_assert!(is_on || now <= *at, "{} was promised {}, and it is {}", number, at, now);
            }
            let there: Vec<Planned> = running
                .keys()
                .map(|number| Planned { ask: asks[*number].clone(), from: now, to: now + 1 })
                .collect();
            prop_assert!(is_within(&there, &most, now), "at {now}: {there:?}");
            world.now = Time::from_seconds(now + 1);
        }
    }
}
