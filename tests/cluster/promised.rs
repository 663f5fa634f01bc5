//! Promises to FluxJobs, as they were written: a watch that forgets nothing, and a table of
//! promised and observed starts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Child;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::harness::{Namespace, job, reserved, within};

/// Seconds since 1970, as in FluxJobs.
pub(crate) type Seconds = f64;

/// Most seconds between a promised start and the observed one: the last pod has to be seen to end,
/// and the first to be bound.
pub(crate) const SLACK: Seconds = 2.0;

/// A reservation as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Promise {
    pub(crate) start: Option<Seconds>,
    pub(crate) nodes: String,
}

/// The writes of a FluxJob.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) record: String,
    pub(crate) promises: Vec<Promise>,
    pub(crate) queued: Option<Seconds>,
    pub(crate) started: Option<Seconds>,
    pub(crate) state: String,
}

/// Watches the FluxJobs of a namespace.
pub(crate) struct Recorder {
    watch: Child,
    histories: Arc<Mutex<BTreeMap<String, History>>>,
}

impl Recorder {
    /// Starts to watch. Jobs that are submitted after this are seen from their first write on.
    pub(crate) fn start(ns: &Namespace<'_>) -> Self {
        let args = ["get", "fluxjobs", "-n", &ns.name, "--watch", "-o", "json"];
        let mut watch = ns.plane.kubectl_in_background(&args);
        let text = watch.stdout.take().expect("stdout is piped");
        let histories = Arc::new(Mutex::new(BTreeMap::<String, History>::new()));
        let shared = Arc::clone(&histories);
        std::thread::spawn(move || {
            for job in serde_json::Deserializer::from_reader(std::io::BufReader::new(text))
                .into_iter::<Value>()
            {
                // The watch may be killed in the middle of an object.
                let Ok(job) = job else { return };
                let name =
                    job["spec"]["workloadRef"]["name"].as_str().unwrap_or_default().to_owned();
                shared.lock().expect("nobody panicked").entry(name).or_default().note(&job);
            }
        });
        Recorder { watch, histories }
    }

    /// Returns all writes so far, by the name of the workload.
    pub(crate) fn histories(&self) -> BTreeMap<String, History> {
        self.histories.lock().expect("nobody panicked").clone()
    }

    /// Waits until one workload's history satisfies a condition, and returns it.
    pub(crate) fn until(
        &self,
        workload: &str,
        what: &str,
        is: impl Fn(&History) -> bool,
    ) -> History {
        within(crate::harness::PATIENCE, &format!("{workload} {what}"), || {
            self.histories().remove(workload).filter(|history| is(history))
        })
    }

    /// Waits until one workload has been promised a start, and returns its history and that start.
    pub(crate) fn promised(&self, workload: &str) -> (History, Seconds) {
        let history =
            self.until(workload, "is promised a start", |history| history.last_start().is_some());
        let start = history.last_start().expect("it has one");
        (history, start)
    }

    /// Waits until a workload has started, and returns the time.
    pub(crate) fn started(&self, workload: &str) -> Seconds {
        self.until(workload, "starts", |history| history.started.is_some()).started.expect("it has")
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.watch.kill();
        let _ = self.watch.wait();
    }
}

impl History {
    fn note(&mut self, job: &Value) {
        let status = &job["status"];
        let at = |value: &Value| value.as_str().map(seconds);
        job["metadata"]["name"].as_str().unwrap_or_default().clone_into(&mut self.record);
        status["state"].as_str().unwrap_or_default().clone_into(&mut self.state);
        self.queued = at(&status["queuedAt"]).or(self.queued);
        self.started = at(&status["startTime"]).or(self.started);
        if let Some(nodes) = reserved(status) {
            let promise = Promise { start: at(&status["reservation"]["start"]), nodes };
            if self.promises.last() != Some(&promise) {
                self.promises.push(promise);
            }
        }
    }

    /// Returns the start that was written last, if the last reservation has one.
    pub(crate) fn last_start(&self) -> Option<Seconds> {
        self.promises.last()?.start
    }

    /// Returns the earliest start that was ever written. Only an announced delay may move the start
    /// behind it.
    pub(crate) fn best(&self) -> Option<Seconds> {
        self.promises.iter().filter_map(|promise| promise.start).reduce(f64::min)
    }
}

/// An instant as Kubernetes writes it.
pub(crate) fn seconds(text: &str) -> Seconds {
    let at: jiff::Timestamp = text.parse().expect("an instant");
    at.as_duration().as_secs_f64()
}

/// Returns the messages of ReservationDelayed Events, by the workload of their FluxJob.
pub(crate) fn delays(
    ns: &Namespace<'_>,
    histories: &BTreeMap<String, History>,
) -> BTreeMap<String, Vec<String>> {
    let mut delays = BTreeMap::<String, Vec<String>>::new();
    for event in ns.list("events.events.k8s.io") {
        let about = &event["regarding"];
        if event["reason"] != "ReservationDelayed" || about["kind"] != "FluxJob" {
            continue;
        }
        let workload = histories.iter().find(|(_, history)| about["name"] == history.record);
        let (workload, _) = workload.expect("the Event is about one of them");
        delays
            .entry(workload.clone())
            .or_default()
            .push(event["note"].as_str().unwrap_or_default().to_owned());
    }
    delays
}

/// Returns the promises that were broken, as text. A promise may be late if there is a delay Event
/// of that job.
pub(crate) fn broken(
    histories: &BTreeMap<String, History>,
    delays: &BTreeMap<String, Vec<String>>,
) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, history) in histories.iter().filter(|(name, _)| !delays.contains_key(*name)) {
        if history.promises.iter().any(|promise| promise.start.is_none()) {
            broken.push(format!("{name} was promised nodes without a date, and no Event says why"));
        }
        for pair in history.promises.windows(2) {
            if let (Some(before), Some(after)) = (pair[0].start, pair[1].start)
                && after > before + SLACK
            {
                broken.push(format!(
                    "{name} was promised a start {:.1} s later, and no Event says why",
                    after - before
                ));
            }
        }
        if let (Some(best), Some(started)) = (history.best(), history.started)
            && started > best + SLACK
        {
            broken.push(format!("{name} started {:.1} s later than promised", started - best));
        }
    }
    broken
}

/// Renders promised and observed starts side by side, in seconds since the first job was queued.
pub(crate) fn table(
    histories: &BTreeMap<String, History>,
    delays: &BTreeMap<String, Vec<String>>,
) -> String {
    let first = histories.values().filter_map(|history| history.queued).fold(f64::MAX, f64::min);
    let since = |at: Option<Seconds>| at.map_or("-".to_owned(), |at| format!("{:.1}", at - first));
    let mut rows: Vec<(&String, &History)> = histories.iter().collect();
    rows.sort_by(|(_, one), (_, other)| {
        one.started.partial_cmp(&other.started).expect("they are numbers")
    });
    let mut table = format!(
        "{:<12}{:>8}{:>8}{:>8}{:>8}{:>8}  delayed\n",
        "job", "written", "first", "best", "last", "start"
    );
    for (name, history) in rows {
        let start_of = |promise: Option<&Promise>| since(promise.and_then(|promise| promise.start));
        let _ = writeln!(
            table,
            "{name:<12}{:>8}{:>8}{:>8}{:>8}{:>8}  {}",
            history.promises.len(),
            start_of(history.promises.first()),
            since(history.best()),
            start_of(history.promises.last()),
            since(history.started),
            delays.get(name).map_or(String::new(), |notes| notes.join("; ")),
        );
    }
    table
}

/// Returns the largest number of jobs that waited at one instant.
pub(crate) fn waiting_at_once(histories: &BTreeMap<String, History>) -> usize {
    let waits = |history: &History, at| {
        history.queued.is_some_and(|from| from <= at) && history.started > Some(at)
    };
    let instants = histories.values().filter_map(|history| history.queued);
    instants
        .map(|at| histories.values().filter(|history| waits(history, at)).count())
        .max()
        .unwrap_or(0)
}

/// Makes a Job with a pod on each of `nodes` nodes, which takes all four cores. The pods get a
/// grace period of three seconds. A pod that ends by itself after its walltime is therefore not
/// late by the time that a busy machine takes to see it.
pub(crate) fn timed(name: &str, nodes: u32, walltime: u32, seconds: f64) -> String {
    job(name, nodes, "4", &seconds.to_string())
        .replace(
            "metadata: {name: ",
            &format!("metadata: {{annotations: {{fluxqueue/walltime: {walltime}s}}, name: "),
        )
        .replace(
            "restartPolicy: Never",
            "restartPolicy: Never\n      terminationGracePeriodSeconds: 3",
        )
}
