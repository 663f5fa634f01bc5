//! `wait`: waits until a job has started, or has ended; the exit code gives the result.
//!
//! One object is read again after a pause that grows from half a second to five: a crowd of waiting
//! users costs the API server some requests a second, and no watches.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use fluxqueue_api::text;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::value::RawValue;

use crate::api_path::Resource;
use crate::args::{Connection, WaitArgs, WaitFor};
use crate::cluster::Cluster;
use crate::console::{Console, said};
use crate::exit::{DONE, JOB_FAILED, TIME_IS_UP};
use crate::find::{Found, Pod, Sought, find, seek};
use crate::queue::{record_of, start};
use crate::record::Record;

/// The first pause between two looks, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How many looks in a row may fail: an API server that is down for a minute ends no wait.
const FAILURES_MAX: u32 = 12;

/// How long a Job may exist without a FluxJob: a job that was just submitted is not seen at once.
const UNSEEN_MAX: Duration = Duration::from_secs(30);

/// The result of one look at a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The awaited event has come.
    Done,
    /// The job has failed.
    Failed,
    /// Neither has happened yet.
    NotYet,
}

/// Waits for a job.
pub(crate) async fn run(
    connection: &Connection,
    args: WaitArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    appear_and_end(&cluster, &args, false, console).await
}

/// Waits for a job that was created a moment ago.
pub(crate) async fn wait_for_new(
    cluster: &Cluster,
    args: &WaitArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    appear_and_end(cluster, args, true, console).await
}

/// Waits until a job has a FluxJob, for a bounded time, and then for the job. An error ends the
/// first wait, unless the job is known to exist.
async fn appear_and_end(
    cluster: &Cluster,
    args: &WaitArgs,
    exists: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let (from, limit) = (Instant::now(), args.timeout.map(Duration::from_secs));
    let found = loop {
        let why = match seek(cluster, &args.job).await {
            Ok(Sought::Found(found)) => break found,
            Ok(Sought::Unseen(job)) => anyhow!("{}", job.message()),
            Err(error) if exists => error,
            Err(error) => return Err(error),
        };
        if from.elapsed() >= UNSEEN_MAX {
            let question = "Fluxqueue has not seen the job yet: does it run?";
            return Err(if exists { why.context(question) } else { why });
        }
        if limit.is_some_and(|limit| from.elapsed() >= limit) {
            console.note(&format!("the time is up: {}", said(&why)));
            return Ok(TIME_IS_UP);
        }
        tokio::time::sleep(PAUSE_FIRST).await;
    };
    wait(cluster, found, args, console).await
}

/// Waits for a job that was found, and prints its state whenever that changes.
async fn wait(
    cluster: &Cluster,
    mut found: Found,
    args: &WaitArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let deadline = args.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut pause, mut told, mut failures) = (PAUSE_FIRST, String::new(), 0);
    loop {
        let record = match &found {
            Found::Record(record, _) => (**record).clone(),
            Found::Pod(pod) => record_of((**pod).clone()),
        };
        match verdict(&record, args.until) {
            Verdict::Done => {
                console.print(&format!(
                    "{} is {}\n",
                    record.shown(),
                    text::name(record.state())
                ))?;
                return Ok(DONE);
            }
            Verdict::Failed => {
                let said = record.condition("Finished").map_or("", |it| &it.message);
                let line = format!("{} is Failed: {}\n", record.shown(), text::message(said));
                console.print(&line)?;
                return Ok(JOB_FAILED);
            }
            Verdict::NotYet => {}
        }
        let line = waiting_line(&record, Timestamp::now(), &console.look.zone);
        if line != told {
            console.note(&line);
            told = line;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            console.note(&format!("the time is up: {told}"));
            return Ok(TIME_IS_UP);
        }
        tokio::time::sleep(left.map_or(pause, |left| pause.min(left))).await;
        pause = (pause * 3 / 2).min(PAUSE_MAX);
        match again(cluster, &record, &args.job).await {
            Ok(Some(seen)) => (found, failures) = (seen, 0),
            Ok(None) => bail!(
                "{} in namespace {} was deleted before it was seen to end",
                record.shown(),
                text::name(&record.metadata.namespace)
            ),
            Err(error) if failures < FAILURES_MAX => {
                failures += 1;
                console.note(&format!("trying again: {}", said(&error)));
                pause = PAUSE_MAX;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads a job again; `None` if it is gone.
async fn again(cluster: &Cluster, record: &Record, wanted: &str) -> anyhow::Result<Option<Found>> {
    let namespace = Some(record.metadata.namespace.as_str());
    let name = &record.metadata.name;
    if record.metadata.uid == record.spec.workload_ref.uid {
        // It is a lone pod; a FluxJob has another uid than its workload. The pod may get a FluxJob
        // yet.
        let pod: Option<Pod> = cluster.get(Resource::POD, namespace, name).await?;
        return Ok(pod.map(|pod| Found::Pod(Box::new(pod))));
    }
    let raw: Option<Box<RawValue>> = cluster.get(Resource::FLUX_JOB, namespace, name).await?;
    match raw {
        Some(raw) => Ok(Some(Found::Record(Box::new(Record::read(&raw)), raw))),
        // A person may have deleted the FluxJob; Fluxqueue writes it again. A job that is not found
        // then is gone.
        None => {
            tokio::time::sleep(PAUSE_MAX).await;
            Ok(find(cluster, wanted).await.ok())
        }
    }
}

fn verdict(record: &Record, until: WaitFor) -> Verdict {
    match record.state() {
        "Failed" => Verdict::Failed,
        "Completed" => Verdict::Done,
        "Running" if until == WaitFor::Started => Verdict::Done,
        _ => Verdict::NotYet,
    }
}

fn waiting_line(record: &Record, now: Timestamp, zone: &TimeZone) -> String {
    let reason = record.reason().filter(|_| !record.is_under_way());
    let reason = reason.map_or(String::new(), |reason| format!(", {}", text::name(reason)));
    let start = start(record, now, zone).filter(|_| !record.is_under_way());
    // Only the instant counts: its distance changes with every look.
    let start = start.as_deref().and_then(|start| start.split(',').next());
    let start = start.map_or(String::new(), |start| format!(", start {start}"));
    format!("{} is {}{reason}{start}", record.shown(), text::name(record.state()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use serde_json::json;

    #[test]
    fn a_failure_is_no_success_whatever_is_waited_for() {
        let of =
            |state: &str, until| verdict(&record(&json!({ "status": { "state": state } })), until);
        for until in [WaitFor::Started, WaitFor::Ended] {
            assert_eq!(of("Failed", until), Verdict::Failed);
            assert_eq!(of("Completed", until), Verdict::Done);
            assert_eq!(of("Refused", until), Verdict::NotYet);
        }
        assert_eq!(of("Running", WaitFor::Started), Verdict::Done);
        assert_eq!(of("Running", WaitFor::Ended), Verdict::NotYet);
    }

    #[test]
    fn the_line_changes_only_with_the_job() {
        let now = "2026-01-05T13:24:00Z".parse().unwrap();
        let job = record(&json!({
            "spec": { "workloadRef": { "kind": "Job", "name": "a", "uid": "u" } },
            "status": { "state": "Pending", "blockedBy": [{ "reason": "QueuedBehind",
                "message": "" }],
                "estimatedStart": { "time": "2026-01-05T14:05:00Z", "kind": "Projected" } },
        }));
        assert_eq!(
            waiting_line(&job, now, &TimeZone::UTC),
            "job/a is Pending, QueuedBehind, start ~14:05"
        );
    }
}
