//! `queue` and `history`: show tables of the jobs that have not ended and of those that have.
//!
//! Bounds: [`JOBS_MAX`] FluxJobs and [`LONE_PODS_MAX`] lone pods are read; a line on standard error
//! says if there are more.

use std::collections::BTreeSet;

use anyhow::Context as _;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::value::RawValue;

use fluxqueue_api::{names, text};

use crate::api_path::Resource;
use crate::args::{Connection, Format, HistoryArgs, QueueArgs, Shown};
use crate::cluster::{Cluster, Selection};
use crate::console::{Console, said, style_of_state};
use crate::exit::DONE;
use crate::find::Pod;
use crate::output;
use crate::record::{Record, Workload};
use crate::table::{Cell, Table};
use crate::users::{self, Users};
use crate::when_text::{age, clock, clock_and_off, slurm};

/// Most FluxJobs that are read: with a few kilobytes each, some tens of megabytes.
const JOBS_MAX: usize = 20_000;

/// Most lone pods without a FluxJob that are read.
const LONE_PODS_MAX: usize = 2_000;

/// The field selectors of the two commands. If the API server does not know the field (Kubernetes
/// 1.30), the command makes the selection itself.
const NOT_ENDED: &str = "status.state!=Completed,status.state!=Failed";
const ENDED: &str = "status.state!=Incomplete,status.state!=Pending,status.state!=Held,\
    status.state!=Unsatisfiable,status.state!=Refused,status.state!=Starting,status.state!=Running";

/// A job in the table.
pub(crate) struct Row {
    /// Its FluxJob; for a lone pod without one, a record of the same form.
    pub record: Record,
    /// The FluxJob as it came, if there is one.
    pub raw: Option<Box<RawValue>>,
}

/// Shows jobs that wait and run.
pub(crate) async fn run(
    connection: &Connection,
    args: QueueArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    let wanted = wanted_users(&cluster, &args.shown).await?;
    let Seen { rows, is_cut, troubles } =
        waiting_and_running(&cluster, &args, wanted.as_ref()).await?;
    for trouble in &troubles {
        console.note(trouble);
    }
    let now = Timestamp::now();
    let zone = console.look.zone.clone();
    show(&cluster, rows, &args.shown, console, |rows, shown| queue_table(rows, shown, now, &zone))?;
    say_cut(is_cut, console);
    Ok(DONE)
}

/// Shows jobs that have ended.
pub(crate) async fn history(
    connection: &Connection,
    args: HistoryArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    let now = Timestamp::now();
    let since = args.since.and_then(|seconds| i64::try_from(seconds).ok());
    let wanted = wanted_users(&cluster, &args.shown).await?;
    let (mut rows, is_cut) = records(&cluster, &args.shown, ENDED).await?;
    rows.retain(|row| {
        let ended = row.record.status.completion_time;
        let is_recent = since.is_none_or(|since| {
            ended.is_some_and(|ended| now.as_second() - ended.as_second() <= since)
        });
        row.record.has_ended() && is_recent
    });
    for trouble in look_up_users(&cluster, &args.shown, wanted.as_ref(), &mut rows).await? {
        console.note(&trouble);
    }
    rows.sort_by_key(|row| row.record.status.completion_time);
    let zone = console.look.zone.clone();
    show(&cluster, rows, &args.shown, console, |rows, shown| {
        history_table(rows, shown, now, &zone)
    })?;
    say_cut(is_cut, console);
    Ok(DONE)
}

pub(crate) fn say_cut(is_cut: bool, console: &mut Console<'_>) {
    if is_cut {
        console.note(&format!(
            "Only the first {JOBS_MAX} FluxJobs and {LONE_PODS_MAX} lone pods are shown: \
             narrow it by -n or -l."
        ));
    }
}

/// The jobs of one look.
pub(crate) struct Seen {
    /// The jobs.
    pub rows: Vec<Row>,
    /// True if there are more than these.
    pub is_cut: bool,
    /// Lines about omitted jobs.
    pub troubles: Vec<String>,
}

pub(crate) async fn waiting_and_running(
    cluster: &Cluster,
    args: &QueueArgs,
    wanted: Option<&BTreeSet<String>>,
) -> anyhow::Result<Seen> {
    let (mut rows, mut is_cut) = records(cluster, &args.shown, NOT_ENDED).await?;
    let mut troubles = Vec::new();
    // Labels of FluxJobs and names of queues select no pods.
    if args.shown.selector.is_none() && args.shown.queue.is_none() {
        match lone_pods(cluster, args, &rows).await {
            Ok((pods, more)) => {
                rows.extend(pods);
                is_cut |= more;
            }
            // A user may be allowed to see FluxJobs and no pods.
            Err(error) => {
                troubles
                    .push(format!("Lone pods without a FluxJob are left out: {}", said(&error)));
            }
        }
    }
    rows.retain(|row| {
        let state = row.record.state();
        !row.record.has_ended() && (args.state.is_empty() || args.state.contains(&state))
    });
    troubles.extend(look_up_users(cluster, &args.shown, wanted, &mut rows).await?);
    rows.sort_by(|one, other| order(&one.record).cmp(&order(&other.record)));
    Ok(Seen { rows, is_cut, troubles })
}

/// Returns the users of the wanted jobs; `None`: all users.
pub(crate) async fn wanted_users(
    cluster: &Cluster,
    shown: &Shown,
) -> anyhow::Result<Option<BTreeSet<String>>> {
    if shown.user.is_empty() && !shown.me {
        return Ok(None);
    }
    users::check_policy(cluster).await.context(if shown.me { "--me" } else { "-u" })?;
    if shown.me {
        return Ok(Some(BTreeSet::from([cluster.own_name().await?])));
    }
    Ok(Some(shown.user.iter().cloned().collect()))
}

/// Looks up the users of jobs if they are to be shown, and keeps the jobs of the wanted ones.
/// Returns lines about jobs without a known user.
async fn look_up_users(
    cluster: &Cluster,
    shown: &Shown,
    wanted: Option<&BTreeSet<String>>,
    rows: &mut Vec<Row>,
) -> anyhow::Result<Vec<String>> {
    if wanted.is_none() {
        // A table without users is better than none.
        let is_shown = shown.output == Some(Format::Wide);
        if !is_shown || users::check_policy(cluster).await.is_err() {
            return Ok(Vec::new());
        }
    }
    let namespace = (!shown.all_namespaces).then_some(cluster.namespace.as_str());
    let users = match Users::of(cluster, namespace, rows.iter().map(|row| &row.record)).await {
        Err(error) if wanted.is_none() => {
            return Ok(vec![format!("Users are not known: {}", said(&error))]);
        }
        users => users?,
    };
    for row in rows.iter_mut() {
        row.record.user = users.of_record(&row.record).map(str::to_owned);
    }
    let mut lines = users.trouble();
    if let Some(wanted) = wanted {
        let unknown = rows.iter().filter(|row| row.record.user.is_none()).count();
        rows.retain(|row| row.record.user.as_ref().is_some_and(|user| wanted.contains(user)));
        if unknown > 0 {
            lines.push(format!(
                "Left out: {unknown} of the jobs, since their users are not known. They were \
                 submitted before Fluxqueue's webhook noted users, or while it did not answer."
            ));
        }
    }
    Ok(lines)
}

/// Returns the FluxJobs of a namespace or of all, in any order.
async fn records(
    cluster: &Cluster,
    shown: &Shown,
    fields: &str,
) -> anyhow::Result<(Vec<Row>, bool)> {
    let mut selection = Selection {
        namespace: (!shown.all_namespaces).then(|| cluster.namespace.clone()),
        labels: shown.selector.clone().unwrap_or_default(),
        fields: fields.to_owned(),
        ..Selection::default()
    };
    let listed = match cluster.list(Resource::FLUX_JOB, &selection, JOBS_MAX).await {
        Err(error) if format!("{error:#}").contains("field label not supported") => {
            selection.fields.clear();
            cluster.list(Resource::FLUX_JOB, &selection, JOBS_MAX).await?
        }
        listed => listed?,
    };
    let rows =
        listed.items.into_iter().map(|raw| Row { record: Record::read(&raw), raw: Some(raw) });
    let in_queue =
        |row: &Row| shown.queue.as_ref().is_none_or(|queue| *queue == row.record.status.queue_name);
    Ok((rows.filter(in_queue).collect(), listed.is_cut))
}

/// Returns the lone pods that were placed at once, and so have no FluxJob.
async fn lone_pods(
    cluster: &Cluster,
    args: &QueueArgs,
    rows: &[Row],
) -> anyhow::Result<(Vec<Row>, bool)> {
    let selection = Selection {
        namespace: (!args.shown.all_namespaces).then(|| cluster.namespace.clone()),
        labels: users::of_no_other(),
        fields: format!(
            "spec.schedulerName={},status.phase!=Succeeded,status.phase!=Failed",
            args.scheduler_name
        ),
        ..Selection::default()
    };
    let listed = cluster.list(Resource::POD, &selection, LONE_PODS_MAX).await?;
    let known: std::collections::BTreeSet<&str> =
        rows.iter().map(|row| row.record.spec.workload_ref.uid.as_str()).collect();
    let pods = listed.items.iter().filter_map(|raw| serde_json::from_str::<Pod>(raw.get()).ok());
    let groups = pod_groups(rows);
    let is_of_group = |pod: &Pod| {
        let group = pod.spec.scheduling_group.pod_group_name.as_str();
        groups.contains(&(pod.metadata.namespace.as_str(), group))
    };
    let lone = pods
        .filter(|pod| pod.metadata.controller().is_none())
        .filter(|pod| !known.contains(pod.metadata.uid.as_str()) && !is_of_group(pod));
    Ok((lone.map(|pod| Row { record: record_of(pod), raw: None }).collect(), listed.is_cut))
}

/// Returns the PodGroups that are jobs, by namespace and name: their pods are no lone ones.
fn pod_groups(rows: &[Row]) -> BTreeSet<(&str, &str)> {
    let are_groups =
        rows.iter().map(|row| &row.record).filter(|it| it.spec.workload_ref.kind == "PodGroup");
    are_groups
        .map(|it| (it.metadata.namespace.as_str(), it.spec.workload_ref.name.as_str()))
        .collect()
}

/// Makes the record that a lone pod would have if it had a FluxJob.
pub(crate) fn record_of(pod: Pod) -> Record {
    let mut record = Record::default();
    record.status.state = pod.state().to_owned();
    record.status.bound = i64::from(!pod.spec.node_name.is_empty());
    record.status.total = 1;
    record.status.display_nodes.clone_from(&pod.spec.node_name);
    record.status.start_time = pod
        .condition("PodScheduled")
        .filter(|scheduled| scheduled.status == "True")
        .and_then(|scheduled| scheduled.last_transition_time)
        .or(pod.status.start_time);
    record.status.walltime_seconds = pod.spec.active_deadline_seconds;
    record.status.queue_name =
        pod.metadata.annotations.get(names::CHARGED_QUEUE).cloned().unwrap_or_default();
    record.spec.workload_ref = Workload {
        kind: "Pod".to_owned(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
    };
    record.metadata = pod.metadata;
    record
}

/// Returns the sort key: jobs under way by their starts, then waiting jobs by queue and place, then
/// all others. Jobs that are equal in that go by age.
fn order(record: &Record) -> (u8, &str, i64, [Option<Timestamp>; 2], &str, &str) {
    let rank =
        if record.is_under_way() { 0 } else { 1 + u8::from(record.status.position.is_none()) };
    let queue = if rank == 0 { "" } else { &*record.status.queue_name };
    let created = record.metadata.creation_timestamp;
    // Jobs can start in one cycle, and so at the same time.
    let began = [record.status.start_time.or(created), created];
    let place = record.status.position.unwrap_or(i64::MAX);
    (rank, queue, place, began, &record.metadata.namespace, &record.spec.workload_ref.name)
}

/// Prints rows in the requested form.
fn show(
    cluster: &Cluster,
    rows: Vec<Row>,
    shown: &Shown,
    console: &mut Console<'_>,
    table: impl Fn(&[Record], &Shown) -> Table,
) -> anyhow::Result<()> {
    if let Some(format @ (Format::Json | Format::Yaml | Format::Name)) = shown.output {
        let raws: Vec<&RawValue> = rows.iter().filter_map(|row| row.raw.as_deref()).collect();
        if raws.len() < rows.len() {
            console.note(&format!(
                "Lone pods without a FluxJob are left out: {} (kubectl get pods shows them).",
                rows.len() - raws.len()
            ));
        }
        return console.print(&output::objects(&raws, true, format)?);
    }
    let records: Vec<Record> = rows.into_iter().map(|row| row.record).collect();
    let table = table(&records, shown).with_headings(!shown.no_headers);
    if table.is_empty() {
        let within = if shown.all_namespaces {
            String::new()
        } else {
            format!(" in namespace {}", text::name(&cluster.namespace))
        };
        console.note(&format!("No jobs found{within}."));
    }
    let text = table.render(&console.look);
    console.print(&text)
}

fn headings(shown: &Shown, usual: &[&'static str], wide: &[&'static str]) -> Vec<&'static str> {
    let namespace = shown.all_namespaces.then_some("NAMESPACE");
    let wide = if shown.output == Some(Format::Wide) { wide } else { &[] };
    namespace.into_iter().chain(usual.iter().copied()).chain(wide.iter().copied()).collect()
}

/// Returns the cells with which each row begins: which job it is, and its state.
fn first_cells(record: &Record, shown: &Shown) -> Vec<Cell> {
    let namespace = shown.all_namespaces.then(|| Cell::new(&record.metadata.namespace));
    let state = Cell::styled(record.state(), style_of_state(record.state()));
    let job = [Cell::new(record.shown()), Cell::new(&record.status.queue_name), state];
    namespace.into_iter().chain(job).collect()
}

/// Returns the table of jobs that have not ended.
pub(crate) fn queue_table(
    records: &[Record],
    shown: &Shown,
    now: Timestamp,
    zone: &TimeZone,
) -> Table {
    let usual = ["JOB", "QUEUE", "STATE", "REASON", "SIZE", "WALLTIME", "START", "AGE"];
    let wide = ["USER", "PLACE", "PRIORITY", "NODES", "MESSAGE"];
    let mut table = Table::new(&headings(shown, &usual, &wide));
    for record in records {
        let status = &record.status;
        let mut row = first_cells(record, shown);
        row.extend([
            record.reason().into(),
            Cell::new(record.size()),
            status.walltime_seconds.map(slurm).into(),
            start(record, now, zone).into(),
            record.metadata.creation_timestamp.map(|made| age(made, now)).into(),
        ]);
        if shown.output == Some(Format::Wide) {
            row.extend([
                record.user.clone().into(),
                status.position.map(|place| place.to_string()).into(),
                status.priority.map(|priority| priority.to_string()).into(),
                Cell::new(&status.display_nodes),
                status
                    .blocked_by
                    .first()
                    .map(|blocker| blocker.told(&record.metadata.namespace, now, zone))
                    .into(),
            ]);
        }
        table.push(row);
    }
    table
}

/// Returns the start of a job, real or expected: with `~` if it is a forecast and no promise.
pub(crate) fn start(record: &Record, now: Timestamp, zone: &TimeZone) -> Option<String> {
    if let Some(started) = record.status.start_time.filter(|_| record.is_under_way()) {
        return Some(clock_and_off(started, now, zone));
    }
    let estimate = record.status.estimated_start.as_ref()?;
    let mark = if estimate.kind == "Reserved" { "" } else { "~" };
    Some(format!("{mark}{}", clock_and_off(estimate.time?, now, zone)))
}

/// Returns the table of jobs that have ended.
fn history_table(records: &[Record], shown: &Shown, now: Timestamp, zone: &TimeZone) -> Table {
    let usual = ["JOB", "QUEUE", "STATE", "SIZE", "WAITED", "ELAPSED", "WALLTIME", "START", "END"];
    let mut table = Table::new(&headings(shown, &usual, &["USER", "NODES", "LATER"]));
    for record in records {
        let status = &record.status;
        let between = |from: Option<Timestamp>, to: Option<Timestamp>| {
            Some(slurm(to?.as_second() - from?.as_second()))
        };
        let mut row = first_cells(record, shown);
        row.extend([
            Cell::new(record.pods().to_string()),
            between(status.queued_at, status.start_time).into(),
            between(status.start_time, status.completion_time).into(),
            status.walltime_seconds.map(slurm).into(),
            status.start_time.map(|at| clock(at, now, zone)).into(),
            status.completion_time.map(|at| clock(at, now, zone)).into(),
        ]);
        if shown.output == Some(Format::Wide) {
            let estimates = status.start_estimates.as_ref();
            let later = estimates.and_then(|it| it.later_than_promised_seconds);
            row.extend([
                record.user.clone().into(),
                Cell::new(&status.display_nodes),
                later.map(|seconds| format!("{seconds} s")).into(),
            ]);
        }
        table.push(row);
    }
    table
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::console::Look;
    use crate::record::tests::record;
    use serde_json::{Value, json};

    pub(crate) const NOW: &str = "2026-01-05T13:24:00Z";

    pub(crate) fn job(name: &str, status: &Value) -> Record {
        record(&json!({
            "metadata": { "name": "x", "namespace": "lab",
                "creationTimestamp": "2026-01-05T13:00:00Z" },
            "spec": { "workloadRef": { "kind": "Job", "name": name, "uid": name } },
            "status": status,
        }))
    }

    fn rendered(records: &[Record], shown: &Shown) -> String {
        queue_table(records, shown, NOW.parse().unwrap(), &TimeZone::UTC).render(&Look::plain())
    }

    pub(crate) fn cells(line: &str) -> Vec<&str> {
        line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    }

    #[test]
    fn the_queue_is_a_table_of_workloads() {
        let jobs = [
            job(
                "runs",
                &json!({ "state": "Running", "queueName": "default", "bound": 16, "total": 16,
                "walltimeSeconds": 3600, "startTime": "2026-01-05T13:12:00Z" }),
            ),
            job(
                "waits",
                &json!({ "state": "Pending", "queueName": "default", "total": 64,
                "walltimeSeconds": 7200, "position": 1,
                "estimatedStart": { "time": "2026-01-05T14:05:00Z", "kind": "Reserved" },
                "blockedBy": [{ "reason": "InsufficientResources", "message": "2 are short" }] }),
            ),
            job(
                "later\u{1b}[2J",
                &json!({ "state": "Pending", "total": 1,
                "estimatedStart": { "time": "2026-01-06T14:05:00Z", "kind": "Projected" } }),
            ),
        ];
        let text = rendered(&jobs, &Shown::default());
        let lines: Vec<Vec<&str>> = text.lines().map(cells).collect();
        let expected = [
            ["JOB", "QUEUE", "STATE", "REASON", "SIZE", "WALLTIME", "START", "AGE"],
            ["job/runs", "default", "Running", "-", "16/16", "1:00:00", "13:12, 12 min ago", "24m"],
            [
                "job/waits",
                "default",
                "Pending",
                "InsufficientResources",
                "0/64",
                "2:00:00",
                "14:05, in 41 min",
                "24m",
            ],
            [r"job/later\u{1b}[2J", "-", "Pending", "-", "0/1", "-", "~Tue 14:05, in 1 d", "24m"],
        ];
        assert_eq!(lines, expected);
        let wide = Shown { output: Some(Format::Wide), all_namespaces: true, ..Shown::default() };
        let text = rendered(&jobs, &wide);
        assert!(text.starts_with("NAMESPACE   JOB ") && text.contains("2 are short"), "{text}");
    }

    #[test]
    fn jobs_stand_in_the_order_in_which_they_start() {
        let mut younger =
            job("also", &json!({ "state": "Running", "startTime": "2026-01-05T13:00:00Z" }));
        younger.metadata.creation_timestamp = NOW.parse().ok();
        let mut jobs = [
            younger,
            job("third", &json!({ "state": "Pending", "queueName": "a", "position": 2 })),
            job("held", &json!({ "state": "Held", "queueName": "a" })),
            job("first", &json!({ "state": "Running", "startTime": "2026-01-05T13:00:00Z" })),
            job("second", &json!({ "state": "Pending", "queueName": "a", "position": 1 })),
        ];
        jobs.sort_by(|one, other| order(one).cmp(&order(other)));
        let names: Vec<&str> = jobs.iter().map(|it| &*it.spec.workload_ref.name).collect();
        assert_eq!(names, ["first", "also", "second", "third", "held"]);
    }

    #[test]
    fn the_history_says_how_long_jobs_waited_and_ran() {
        let jobs = [job(
            "ran",
            &json!({ "state": "Failed", "queueName": "gpu", "total": 4,
            "queuedAt": "2026-01-05T12:00:00Z", "startTime": "2026-01-05T12:10:00Z",
            "completionTime": "2026-01-05T13:10:05Z", "displayNodes": "n-[0-3]",
            "startEstimates": { "laterThanPromisedSeconds": -20 } }),
        )];
        let wide = Shown { output: Some(Format::Wide), ..Shown::default() };
        let now = NOW.parse().unwrap();
        let text = history_table(&jobs, &wide, now, &TimeZone::UTC).render(&Look::plain());
        assert_eq!(
            cells(text.lines().nth(1).unwrap()),
            [
                "job/ran", "gpu", "Failed", "4", "10:00", "1:00:05", "-", "12:10", "13:10", "-",
                "n-[0-3]", "-20 s"
            ]
        );
    }

    #[test]
    fn a_lone_pod_is_a_job_of_its_own() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "a", "namespace": "lab", "uid": "u" },
            "spec": { "nodeName": "n1" },
            "status": { "phase": "Running", "startTime": "2026-01-05T13:12:00Z" },
        }))
        .unwrap();
        let record = record_of(pod);
        assert_eq!(
            (record.shown(), record.state(), record.size()),
            ("pod/a".to_owned(), "Running", "1/1".to_owned())
        );
    }
}
