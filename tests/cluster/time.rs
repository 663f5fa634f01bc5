//! Promised starts on a real control plane: kept when walltimes are true, and broken only for a
//! cause that an Event names.

use std::fmt::Write as _;
use std::time::Duration;

use crate::harness::{ControlPlane, Namespace, until, within};
use crate::promised::{Recorder, SLACK, broken, delays, table, timed, waiting_at_once};

const EIGHT: &str = "groups:\n- {namePrefix: n-, count: 8, cpu: '4', memory: 16Gi, pods: 110}\n";
const FOUR: &str = "groups:\n- {namePrefix: n-, count: 4, cpu: '4', memory: 16Gi, pods: 110}\n";

/// Returns forty jobs: nodes, and walltime in seconds. Most are small, as in any queue, and some
/// need every node.
fn forty() -> Vec<(String, u32, u32)> {
    let sizes = [1, 3, 1, 8, 2, 1, 1, 5, 1, 2];
    let walltimes = [2, 4, 3];
    let one =
        |number: usize| (format!("job-{number:02}"), sizes[number % 10], walltimes[number % 3]);
    (0..40).map(one).collect()
}

fn completed(recorder: &Recorder, count: usize) {
    within(Duration::from_mins(3), "all jobs to complete", || {
        let histories = recorder.histories();
        let is_done = histories.len() == count
            && histories.values().all(|history| history.state == "Completed");
        is_done.then_some(())
    });
}

/// Returns how many of them have ended.
fn ended(recorder: &Recorder) -> usize {
    recorder.histories().values().filter(|history| history.state == "Completed").count()
}

/// Runs forty jobs with true walltimes. At least `promised_at_least` have to be promised a start.
/// If `killed_after` is given, the process is killed once this number of jobs have ended, and
/// another one takes over at once.
fn forty_jobs(policy: &str, promised_at_least: usize, killed_after: Option<usize>) {
    let plane = ControlPlane::start(EIGHT, &[]);
    let flag = format!("--queue-policy={policy}");
    let mut fluxqueue = plane.fluxqueue(&[&flag]);
    let ns = plane.namespace("forty");
    let recorder = Recorder::start(&ns);
    ns.apply(&timed("job-first", 8, 6, 6.0));
    recorder.started("job-first");
    let jobs = forty();
    let text = jobs.iter().fold(String::new(), |mut text, (name, nodes, walltime)| {
        let _ = write!(text, "{}", timed(name, *nodes, *walltime, f64::from(*walltime)));
        text
    });
    ns.apply(&text);
    if let Some(count) = killed_after {
        within(Duration::from_mins(2), "some jobs to complete", || {
            (ended(&recorder) >= count).then_some(())
        });
        fluxqueue.kill();
        fluxqueue = plane.fluxqueue(&[&flag]);
    }
    completed(&recorder, jobs.len() + 1);
    drop(fluxqueue);
    let histories = recorder.histories();
    let delays = delays(&ns, &histories);
    println!("{policy}\n{}", table(&histories, &delays));
    assert!(waiting_at_once(&histories) >= 25, "{} waited at once", waiting_at_once(&histories));
    let promised = histories.values().filter(|history| !history.promises.is_empty()).count();
    assert!(promised >= promised_at_least, "{promised} were promised a start");
    assert_eq!(broken(&histories, &delays), Vec::<String>::new());
    // All walltimes are true and no node goes away, so only pods that a busy machine started or saw
    // to end late can delay a job.
    assert!(delays.len() <= 4, "{} of 40 were delayed though all walltimes are true", delays.len());
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0", "a kubelet refused a pod");
}

#[test]
fn forty_jobs_start_as_promised_with_easy() {
    forty_jobs("easy", 4, None);
}

#[test]
fn forty_jobs_start_as_promised_with_conservative() {
    forty_jobs("conservative", 25, None);
}

/// While the process is away, pods end and starts come due: pods have three seconds for their end
/// that they do not use.
#[test]
fn forty_jobs_start_as_promised_though_the_process_is_killed_in_their_midst() {
    forty_jobs("conservative", 25, Some(10));
}

#[test]
fn promises_on_record_stand_over_kill_9() {
    let plane = ControlPlane::start(EIGHT, &[]);
    let mut fluxqueue = plane.fluxqueue(&["--queue-policy=conservative"]);
    let ns = plane.namespace("kill");
    let recorder = Recorder::start(&ns);
    // Nothing ends while the process is away.
    ns.apply(&timed("job-first", 8, 15, 15.0));
    recorder.started("job-first");
    let jobs = &forty()[..16];
    ns.apply(
        &jobs
            .iter()
            .map(|(name, nodes, time)| timed(name, *nodes, *time, f64::from(*time)))
            .collect::<String>(),
    );
    until("sixteen promises", || {
        let promised = |history: &crate::promised::History| history.last_start().is_some();
        (recorder.histories().values().filter(|history| promised(history)).count() == jobs.len())
            .then_some(())
    });
    let before = recorder.histories();
    fluxqueue.kill();
    let _fluxqueue = plane.fluxqueue(&["--queue-policy=conservative"]);
    completed(&recorder, jobs.len() + 1);
    let histories = recorder.histories();
    let delays = delays(&ns, &histories);
    println!("{}", table(&histories, &delays));
    assert!(
        before.values().all(
            |history| history.started.is_none() || history.record == before["job-first"].record
        )
    );
    assert_eq!(broken(&histories, &delays), Vec::<String>::new());
    assert!(delays.is_empty(), "{delays:?}");
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0", "a kubelet refused a pod");
}

#[test]
fn a_job_that_ends_early_or_is_deleted_lets_the_next_start_at_once() {
    let plane = ControlPlane::start(FOUR, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("early");
    let recorder = Recorder::start(&ns);
    ns.apply(&timed("early", 4, 60, 5.0));
    let early = recorder.started("early");
    // The time consists of the walltime, the three seconds that the pods have for their end, and
    // the time to start one and to see it end.
    ns.apply(&timed("deleted", 3, 120, 100.0));
    let (_, start) = recorder.promised("deleted");
    assert!(
        (62.0..=67.0).contains(&(start - early)),
        "promised {:.1} s after the first started",
        start - early
    );
    let deleted = recorder.started("deleted");
    assert!(
        deleted - early <= 5.0 + 2.0 * SLACK,
        "started {:.1} s after one that ran for 5 s",
        deleted - early
    );
    ns.apply(&timed("last", 4, 2, 2.0));
    let (_, start) = recorder.promised("last");
    assert!(
        (122.0..=127.0).contains(&(start - deleted)),
        "promised {:.1} s after the second started",
        start - deleted
    );
    ns.kubectl(&["delete", "job", "deleted", "--wait=false"]);
    let last = recorder.started("last");
    assert!(
        last < deleted + 30.0,
        "started {:.1} s after one that was deleted at once",
        last - deleted
    );
    assert_eq!(delays(&ns, &recorder.histories()).len(), 0);
}

/// Waits for the one delay Event of a job, and returns its message.
fn delayed(ns: &Namespace<'_>, recorder: &Recorder, workload: &str) -> String {
    let mut notes = until(&format!("an Event that {workload} is delayed"), || {
        delays(ns, &recorder.histories()).remove(workload)
    });
    assert_eq!(notes.len(), 1, "{notes:?}");
    notes.remove(0)
}

#[test]
fn a_job_that_outlives_its_walltime_is_named_and_its_nodes_stay_promised() {
    let plane = ControlPlane::start(FOUR, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("overrun");
    let recorder = Recorder::start(&ns);
    ns.apply(&timed("overruns", 2, 4, 18.0));
    recorder.started("overruns");
    ns.apply(&timed("large", 4, 3, 3.0));
    let (_, promised) = recorder.promised("large");
    let note = delayed(&ns, &recorder, "large");
    assert!(note.starts_with("walltime: "), "{note}");
    let culprit = &recorder.histories()["overruns"].record;
    assert!(note.contains(&format!("{}/{culprit}", ns.name)), "{note} does not name {culprit}");
    // Two nodes are free, and stay so: it is not known that this job would end in time.
    ns.apply(&timed("small", 1, 60, 1.0));
    let undated = recorder.until("large", "has no date", |history| history.last_start().is_none());
    assert_eq!(undated.promises.last().map(|promise| &*promise.nodes), Some("n-[0-3]"));
    let (large, small) = (recorder.started("large"), recorder.started("small"));
    assert!(large > promised + 5.0, "it could not start before the other one ended");
    assert!(small > large, "one that came later went ahead of it onto its nodes");
    println!("{}\n{note}", table(&recorder.histories(), &delays(&ns, &recorder.histories())));
}

#[test]
fn a_node_that_leaves_delays_for_capacity() {
    let plane = ControlPlane::start(FOUR, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("capacity");
    let recorder = Recorder::start(&ns);
    ns.apply(&timed("long", 1, 25, 25.0));
    recorder.started("long");
    ns.apply(&timed("short", 3, 12, 12.0));
    recorder.started("short");
    ns.apply(&timed("large", 3, 3, 3.0));
    let (history, promised) = recorder.promised("large");
    let nodes = history.promises.last().expect("it is promised").nodes.clone();
    let leaves = flux_lists::hostlist::decode(&nodes).expect("a hostlist").remove(0);
    plane.kubectl(&["delete", "node", &leaves]);
    let note = delayed(&ns, &recorder, "large");
    assert!(note.starts_with("capacity: "), "{note}");
    let again = recorder.until("large", "is promised another start", |history| {
        history.last_start() > Some(promised + SLACK)
    });
    let (start, started) = (again.last_start().expect("it has one"), recorder.started("large"));
    println!("{}\n{note}", table(&recorder.histories(), &delays(&ns, &recorder.histories())));
    assert!(started <= start + SLACK, "started {:.1} s after the second promise", started - start);
}
