//! `show` and `why`: everything known about a job, and the things in its way with advice.

use std::fmt::Write as _;

use anyhow::{anyhow, ensure};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use fluxqueue_api::text;

use crate::args::{Connection, Format, JobArgs};
use crate::cluster::Cluster;
use crate::console::{Console, Look, style_of_state};
use crate::events::{Event, events_of};
use crate::exit::{DONE, usage};
use crate::failed::print_failed_pods;
use crate::find::{Found, Pod, find};
use crate::output;
use crate::queue::record_of;
use crate::record::{Condition, Record};
use crate::when_text::{clock, clock_and_off, off, roughly, slurm};

/// Shows everything known about a job.
pub(crate) async fn show(
    connection: &Connection,
    args: JobArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    let now = Timestamp::now();
    let record = match find(&cluster, &args.job).await? {
        Found::Record(record, raw) => {
            if let Some(format @ (Format::Json | Format::Yaml | Format::Name)) = args.output {
                console.print(&output::objects(&[&raw], false, format)?)?;
                return Ok(DONE);
            }
            *record
        }
        Found::Pod(pod) => {
            ensure!(
                args.output.is_none(),
                "pod {} has no FluxJob: use kubectl get pod -o",
                text::name(&pod.metadata.name)
            );
            record_of(*pod)
        }
    };
    let events = events_of(&cluster, &record.metadata.uid).await;
    let text = all_of(&record, now, &console.look);
    console.print(&text)?;
    print_failed_pods(&cluster, &record, console).await?;
    match events {
        Ok(events) => console.print(&event_lines(&events, now, &console.look.zone))?,
        // A user may be allowed to see jobs and no Events.
        Err(error) => {
            console.note(&format!("Events are left out: {}", crate::console::said(&error)));
        }
    }
    Ok(DONE)
}

/// Returns everything about a job, in lines of a name and a value.
fn all_of(record: &Record, now: Timestamp, look: &Look) -> String {
    let (status, zone) = (&record.status, &look.zone);
    let at = |time: Option<Timestamp>| time.map(|time| clock_and_off(time, now, zone));
    let mut text = String::new();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = writeln!(text, "{:<14}{value}", format!("{name}:"));
        }
    };
    line("Job", Some(record.shown()));
    line("Namespace", Some(text::name(&record.metadata.namespace).into_owned()));
    if record.spec.workload_ref.name != record.metadata.name {
        line("FluxJob", Some(text::name(&record.metadata.name).into_owned()));
    }
    line("State", Some(look.paint(style_of_state(record.state()), &text::name(record.state()))));
    line("Queue", Some(text::name(&status.queue_name).into_owned()));
    line("Priority", status.priority.map(|priority| priority.to_string()));
    line("Place", status.position.map(|place| place.to_string()));
    line("Size", record.told_size());
    line("Nodes", Some(text::message(&status.display_nodes).into_owned()));
    line("Walltime", status.walltime_seconds.map(slurm));
    line("Submitted", at(record.metadata.creation_timestamp));
    line("Queued", at(status.queued_at));
    if status.start_time.is_none() {
        line("Start", estimate(record, now, zone));
    }
    line("Started", at(status.start_time));
    let planned_end = status.start_time.zip(status.walltime_seconds).and_then(|(start, limit)| {
        Timestamp::from_second(start.as_second().checked_add(limit)?).ok()
    });
    if record.is_under_way() {
        line("Planned end", at(planned_end));
    }
    line("Ended", at(status.completion_time));
    let estimates = status.start_estimates.as_ref();
    line(
        "Estimates",
        estimates.and_then(|it| {
            let later = |seconds: i64| match seconds {
                0 => "as it was".to_owned(),
                1.. => format!("{} later than", roughly(seconds)),
                _ => format!("{} earlier than", roughly(-seconds)),
            };
            let first =
                it.later_than_first_seconds.map(|by| format!("{} first estimated", later(by)));
            let promised =
                it.later_than_promised_seconds.map(|by| format!("{} promised", later(by)));
            let all: Vec<String> = first.into_iter().chain(promised).collect();
            (!all.is_empty()).then(|| format!("it started {}", all.join(", ")))
        }),
    );
    line("Wishes", wishes(record));
    text.push_str(&blockers(record, now, zone));
    text.push_str(&warnings(record));
    text
}

/// Returns the wishes of people for a job.
fn wishes(record: &Record) -> Option<String> {
    let wishes = &record.spec.overrides;
    let class = wishes.priority_class_name.as_ref().map(|class| format!("priority class {class}"));
    let queue = wishes.queue_name.as_ref().map(|queue| format!("queue {queue}"));
    let walltime = wishes.walltime_seconds.map(|seconds| format!("walltime {}", slurm(seconds)));
    let all: Vec<String> = [class, queue, walltime, wishes.held()].into_iter().flatten().collect();
    (!all.is_empty()).then(|| text::into_message(all.join("; ")))
}

/// Returns the expected start of a job, in words.
fn estimate(record: &Record, now: Timestamp, zone: &TimeZone) -> Option<String> {
    let status = &record.status;
    if let Some(estimate) = &status.estimated_start {
        let at = clock_and_off(estimate.time?, now, zone);
        let as_of = estimate.as_of.map_or(String::new(), |at| format!(", as of {}", off(at, now)));
        return Some(match estimate.kind.as_str() {
            "Reserved" => format!("{at}, promised: at that time at the latest"),
            _ => format!("{at}, if all goes on as it is now{as_of}"),
        });
    }
    if status.reservation.as_ref().is_some_and(|promise| promise.start.is_none()) {
        return Some("no known date; nodes are held for it".to_owned());
    }
    let waits = matches!(record.state(), "Pending");
    waits.then(|| "no known date".to_owned())
}

fn blockers(record: &Record, now: Timestamp, zone: &TimeZone) -> String {
    let mut lines = String::new();
    if record.is_under_way() || record.has_ended() {
        return lines;
    }
    for blocker in &record.status.blocked_by {
        let message = blocker.told(&record.metadata.namespace, now, zone);
        let _ = writeln!(lines, "  {}: {message}", text::name(&blocker.reason));
    }
    if lines.is_empty() { lines } else { format!("In its way:\n{lines}") }
}

/// Returns the conditions that report trouble.
fn warnings(record: &Record) -> String {
    let is_usual = |condition: &&Condition| {
        matches!(condition.r#type.as_str(), "Scheduled" | "Finished") || condition.status != "True"
    };
    let all = record.status.conditions.iter().filter(|condition| !is_usual(condition));
    let mut lines = String::new();
    for condition in all {
        let (of, said) = (text::name(&condition.r#type), text::message(&condition.message));
        let _ = writeln!(lines, "  {of}: {said}");
    }
    if lines.is_empty() { lines } else { format!("Warnings:\n{lines}") }
}

fn event_lines(events: &[Event], now: Timestamp, zone: &TimeZone) -> String {
    let mut lines = String::new();
    for event in events {
        let at = event.time().map_or("-".to_owned(), |at| clock(at, now, zone));
        let (reason, said) = (text::name(&event.reason), text::message(&event.message));
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        let _ = writeln!(lines, "  {at}  {reason}{said}");
    }
    if lines.is_empty() { lines } else { format!("Events:\n{lines}") }
}

/// Returns the start of a job, in one line.
pub(crate) fn when_line(record: &Record, now: Timestamp, zone: &TimeZone) -> String {
    let (job, status) = (record.shown(), &record.status);
    if record.has_ended() || record.is_under_way() {
        let at = status.start_time.map_or("at a time that is not on record".to_owned(), |at| {
            clock_and_off(at, now, zone)
        });
        return format!("{job} has started: {at}\n");
    }
    let start = estimate(record, now, zone).unwrap_or_else(|| "no known date".to_owned());
    let state = text::name(record.state());
    let reason =
        record.reason().map_or(String::new(), |reason| format!(", {}", text::name(reason)));
    format!("{job} starts: {start} ({state}{reason})\n")
}

/// Explains why a job or a pod waits.
pub(crate) async fn why(
    connection: &Connection,
    args: JobArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    ensure!(
        matches!(args.output, None | Some(Format::Wide)),
        usage(anyhow!("--output: why is for people; `show -o json` has the same as data"))
    );
    let cluster = Cluster::connect(connection).await?;
    let now = Timestamp::now();
    match find(&cluster, &args.job).await? {
        Found::Record(record, _) => {
            let text = why_job(&record, now, &console.look.zone);
            console.print(&text)?;
            print_failed_pods(&cluster, &record, console).await?;
        }
        Found::Pod(pod) => {
            let text = why_pod(&pod, now, &console.look.zone);
            console.print(&text)?;
        }
    }
    Ok(DONE)
}

/// Explains why a job waits, in some lines.
fn why_job(record: &Record, now: Timestamp, zone: &TimeZone) -> String {
    let job = record.shown();
    let status = &record.status;
    let mut text = String::new();
    if record.has_ended() {
        let finished = record.condition("Finished");
        let said = finished.map_or(String::new(), |it| text::message(&it.message).into_owned());
        let at = status.completion_time.map_or(String::new(), |at| off(at, now));
        let said = if said.is_empty() { said } else { format!(", {said}") };
        let _ = writeln!(text, "{job} has ended {at}: {}{said}", text::name(record.state()));
        return text;
    }
    if record.is_under_way() {
        let since = status
            .start_time
            .map_or(String::new(), |at| format!(" since {}", clock(at, now, zone)));
        let verb = if record.state() == "Starting" { "starts" } else { "runs" };
        let _ = writeln!(text, "{job} {verb}{since}: {}.", record.told_bound());
        if let Some(degraded) = record.condition("Degraded").filter(|it| it.status == "True") {
            let _ = writeln!(
                text,
                "  {}: {}",
                text::name(&degraded.reason),
                text::message(&degraded.message)
            );
        }
        return text;
    }
    let place = match (status.position, status.queue_name.as_str()) {
        (Some(place), queue) => format!(", place {place} in queue {}", text::name(queue)),
        (None, "") => String::new(),
        (None, queue) => format!(", queue {}", text::name(queue)),
    };
    let _ = writeln!(text, "{job} is {}{place}.", text::name(record.state()));
    if let Some(start) = estimate(record, now, zone) {
        let _ = writeln!(text, "Start: {start}.");
    }
    if status.blocked_by.is_empty() {
        text.push_str("Nothing is known to be in its way: Fluxqueue has not tried it yet.\n");
    }
    let mut advised = Vec::new();
    for blocker in &status.blocked_by {
        let _ = writeln!(
            text,
            "\n{}\n  {}",
            text::name(&blocker.reason),
            blocker.told(&record.metadata.namespace, now, zone)
        );
        let is_hopeless = status.estimated_start.is_none() && blocker.is_beyond_limit();
        let advice = if is_hopeless { Some(BEYOND_LIMIT) } else { advice(&blocker.reason) };
        if let Some(advice) = advice.filter(|advice| !advised.contains(advice)) {
            let _ = writeln!(text, "  What you can do: {advice}");
            advised.push(advice);
        }
    }
    text.push_str(&warnings(record));
    text
}

/// Explains why a lone pod without a FluxJob waits.
fn why_pod(pod: &Pod, now: Timestamp, zone: &TimeZone) -> String {
    let name = format!("pod/{}", text::name(&pod.metadata.name));
    if pod.has_ended() {
        let said = text::message(&pod.status.message);
        return format!(
            "{name} has ended: {} {} {said}\n",
            pod.state(),
            text::name(&pod.status.reason)
        );
    }
    if !pod.spec.node_name.is_empty() {
        let since = pod.condition("PodScheduled").and_then(|it| it.last_transition_time);
        let since = since.map_or(String::new(), |at| format!(" since {}", clock(at, now, zone)));
        let node = text::name(&pod.spec.node_name);
        return format!(
            "{name} has node {node}{since}: its kubelet runs it (kubectl describe pod).\n"
        );
    }
    let scheduler = text::name(&pod.spec.scheduler_name);
    match pod.condition("PodScheduled") {
        Some(said) => format!(
            "{name} waits for scheduler {scheduler}.\n\n{}\n  {}\n",
            text::name(&said.reason),
            text::message(&said.message)
        ),
        None => format!(
            "{name} waits, and scheduler {scheduler} has said nothing of it: is it that of \
             Fluxqueue, and does Fluxqueue run?\n"
        ),
    }
}

/// The advice for a job that asks for more than a limit of its queue.
const BEYOND_LIMIT: &str = "ask for less, or use another queue (`kubectl fluxqueue move --queue`): \
    the job is beyond the limit by itself, and no end of another makes room for it.";

/// Returns advice for the user about a reason.
fn advice(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "InsufficientResources" => {
            "ask for fewer pods, CPUs or GPUs, or say a shorter walltime (`kubectl fluxqueue \
             walltime`): a job that ends before the next promised start fits into the gap."
        }
        "QueuedBehind" => {
            "say a shorter walltime, so that it fits before the job ahead; or use a queue that \
             goes first, if there is one for you (`kubectl get fluxqueues`)."
        }
        "UnknownEnd" => "ask the owners of these jobs for a walltime: then this one gets a date.",
        "QueueLimit" => {
            "wait for jobs that count towards the limit to end, ask for less, or use another queue \
             (`kubectl fluxqueue move --queue`)."
        }
        "QueueFull" => "wait: it gets a place when there is room. Or use another queue.",
        "Held" => {
            "`kubectl fluxqueue release` lifts your own hold. If the queue is stopped, its \
             administrator starts it."
        }
        "Paused" => "wait until an administrator resumes Fluxqueue (`kubectl fluxqueue resume`).",
        "QueueNotUsable" | "QueueInvalid" => {
            "name another queue (`kubectl fluxqueue move --queue`); `kubectl get fluxqueues` lists \
             them."
        }
        "WalltimeTooLong" => {
            "say a shorter walltime (`kubectl fluxqueue walltime`), or use another queue."
        }
        "Incomplete" => {
            "check that all pods of the job can be created: quotas, and the size that the label \
             fluxqueue/group-size says."
        }
        "Gated" => {
            "remove the scheduling gate that the message names, or wait for what removes it."
        }
        "VolumesNotReady" | "VolumeBindingFailed" => {
            "look at the claim that the message names (kubectl describe pvc)."
        }
        "NoMatchingNodes" => {
            "check node selectors, tolerations and terms about other pods. A cordoned node takes \
             no pods until an administrator uncordons it."
        }
        "NoRoomInLevel" => {
            "ask for fewer pods in one part of the level, or for a wider level. Where the part is \
             large enough, ends there make room."
        }
        "Unsatisfiable" => {
            "ask for less or for other nodes: not even the idle machine could run it as it is."
        }
        "UnsupportedConstraint" | "InvalidRequest" => {
            "correct the field that the message names, and submit again."
        }
        "QuotaExceeded" => "wait until pods of the namespace end, or ask for a larger quota.",
        "BindFailed" => {
            "read the message: a quota, a policy or a webhook refuses the start. The next attempt \
             comes within 5 minutes."
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use fluxqueue_api::BlockedReason;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-01-05T13:24:00Z".parse().unwrap()
    }

    fn job(status: &Value, overrides: &Value) -> Record {
        record(&json!({
            "metadata": { "name": "solve-job-1", "namespace": "lab", "uid": "u",
                "creationTimestamp": "2026-01-05T13:00:00Z" },
            "spec": { "workloadRef": { "kind": "Job", "name": "solve", "uid": "w" },
                "overrides": overrides },
            "status": status,
        }))
    }

    fn waits() -> Record {
        job(
            &json!({
                "state": "Pending", "queueName": "default", "position": 2, "total": 64,
                "walltimeSeconds": 7200,
                "queuedAt": "2026-01-05T13:00:00Z",
                "estimatedStart": { "time": "2026-01-05T14:05:00Z", "kind": "Reserved",
                    "asOf": "2026-01-05T13:20:00Z" },
                "blockedBy": [
                    { "reason": "InsufficientResources", "message": "2 GPUs are short\u{1b}[2J" },
                    { "reason": "QueuedBehind", "behind": "lab/big",
                      "message": "nodes are kept for lab/big from 2026-01-05T13:30:00Z on",
                      "reservedFrom": "2026-01-05T13:30:00.400000Z" },
                ],
                "conditions": [
                    { "type": "Scheduled", "status": "False", "reason": "InsufficientResources",
                        "message": "m" },
                    { "type": "SizeClamped", "status": "True", "reason": "SizeClamped",
                        "message": "8 of 9" },
                ],
            }),
            &json!({ "walltimeSeconds": 7200, "holds": [{ "by": "ann", "reason": "audit" }] }),
        )
    }

    #[test]
    fn show_has_everything_in_lines() {
        let text = all_of(&waits(), now(), &Look::plain());
        let expected = r"Job:          job/solve
Namespace:    lab
FluxJob:      solve-job-1
State:        Pending
Queue:        default
Place:        2
Size:         0 of its 64 pods have nodes
Walltime:     2:00:00
Submitted:    13:00, 24 min ago
Queued:       13:00, 24 min ago
Start:        14:05, in 41 min, promised: at that time at the latest
Wishes:       walltime 2:00:00; held by ann: audit
In its way:
  InsufficientResources: 2 GPUs are short\u{1b}[2J
  QueuedBehind: nodes are kept for lab/big from 13:30 (in 6 min) on
Warnings:
  SizeClamped: 8 of 9
";
        assert_eq!(text, expected);
    }

    #[test]
    fn why_says_what_is_in_the_way_and_what_can_be_done() {
        let text = why_job(&waits(), now(), &TimeZone::UTC);
        assert!(
            text.starts_with(
                "job/solve is Pending, place 2 in queue default.\nStart: 14:05, in 41 min, promised"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "\nInsufficientResources\n  2 GPUs are short\\u{1b}[2J\n  What you can do: "
            ),
            "{text}"
        );
        let kept = "\nQueuedBehind\n  nodes are kept for lab/big from 13:30 (in 6 min) on\n  What";
        assert!(text.contains(kept), "{text}");
    }

    #[test]
    fn a_job_that_has_ended_has_no_empty_places() {
        let ended = job(
            &json!({ "state": "Completed", "total": 2, "bound": 0,
                "completionTime": "2026-01-05T13:20:00Z",
                "conditions": [{ "type": "Finished", "status": "True", "reason": "Succeeded",
                    "message": "" }] }),
            &json!({}),
        );
        let why = why_job(&ended, now(), &TimeZone::UTC);
        assert_eq!(why, "job/solve has ended 4 min ago: Completed\n");
        let all = all_of(&ended, now(), &Look::plain());
        assert!(all.contains("Size:         2 pods\n"), "{all}");
        let event: Event =
            serde_json::from_value(json!({ "reason": "Succeeded" })).expect("an Event");
        assert_eq!(event_lines(&[event], now(), &TimeZone::UTC), "Events:\n  -  Succeeded\n");
    }

    #[test]
    fn when_is_one_line() {
        assert_eq!(
            when_line(&waits(), now(), &TimeZone::UTC),
            "job/solve starts: 14:05, in 41 min, promised: at that time at the latest (Pending, \
             InsufficientResources)\n"
        );
        let runs =
            job(&json!({ "state": "Running", "startTime": "2026-01-05T13:12:00Z" }), &json!({}));
        assert_eq!(
            when_line(&runs, now(), &TimeZone::UTC),
            "job/solve has started: 13:12, 12 min ago\n"
        );
    }

    #[test]
    fn a_job_without_a_date_says_so() {
        let held = job(&json!({ "state": "Pending", "reservation": {} }), &json!({}));
        assert!(
            why_job(&held, now(), &TimeZone::UTC).contains("no known date; nodes are held for it")
        );
        let runs = job(
            &json!({ "state": "Running", "bound": 3, "total": 4,
                "startTime": "2026-01-05T13:12:00Z",
                "conditions": [{ "type": "Degraded", "status": "True", "reason": "MemberLost",
                    "message": "lost p" }] }),
            &json!({}),
        );
        let text = why_job(&runs, now(), &TimeZone::UTC);
        assert_eq!(
            text,
            "job/solve runs since 13:12: 3 of its 4 pods have nodes.\n  MemberLost: lost p\n"
        );
    }

    #[test]
    fn a_job_of_one_pod_has_no_plural() {
        let text = |bound: i64, total: i64| {
            let status = json!({ "state": "Running", "bound": bound, "total": total,
                "startTime": "2026-01-05T13:12:00Z" });
            why_job(&job(&status, &json!({})), now(), &TimeZone::UTC)
        };
        assert_eq!(text(1, 1), "job/solve runs since 13:12: its pod has a node.\n");
        assert_eq!(text(0, 1), "job/solve runs since 13:12: its pod has no node.\n");
        assert_eq!(text(1, 4), "job/solve runs since 13:12: 1 of its 4 pods has a node.\n");
    }

    #[test]
    fn no_end_of_others_helps_against_a_limit_that_the_job_exceeds_by_itself() {
        let why = |requested: Option<&str>, limit: &str| {
            let limit = json!({ "reason": "QueueLimit", "message": "m", "requested": requested,
                "used": "0", "limit": limit });
            let status = json!({ "state": "Pending", "blockedBy": [limit] });
            why_job(&job(&status, &json!({})), now(), &TimeZone::UTC)
        };
        for (requested, limit) in [(Some("12"), "8"), (Some("1500m"), "1"), (None, "0")] {
            let text = why(requested, limit);
            assert!(text.contains("What you can do: ask for less"), "{text}");
        }
        for (requested, limit) in [(Some("8"), "8"), (Some("900Mi"), "1Gi"), (None, "2")] {
            let text = why(requested, limit);
            assert!(text.contains("What you can do: wait for jobs"), "{text}");
        }
    }

    /// A new reason needs advice, or a place among those that pass by themselves.
    #[test]
    fn every_reason_has_advice_or_passes_by_itself() {
        let passing = [BlockedReason::ReleasePaused, BlockedReason::PlacementWithdrawn];
        for reason in BlockedReason::ALL {
            assert_eq!(advice(reason.as_str()).is_none(), passing.contains(&reason), "{reason}");
        }
    }

    #[test]
    fn a_pod_that_no_scheduler_has_seen_says_so() {
        let pod = |value: Value| serde_json::from_value::<Pod>(value).unwrap();
        let silent = pod(
            json!({ "metadata": { "name": "a" }, "spec": { "schedulerName": "other" }, "status": {
                "phase": "Pending" } }),
        );
        assert!(
            why_pod(&silent, now(), &TimeZone::UTC).contains("scheduler other has said nothing")
        );
        let said = pod(json!({ "metadata": { "name": "a" }, "status": { "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/4 nodes" }] } }));
        assert!(why_pod(&said, now(), &TimeZone::UTC).contains("Unschedulable\n  0/4 nodes"));
    }
}
