//! `when`: tells when a job starts, or would start if it was submitted now.
//!
//! The FluxJob of a submitted job has its start. For a manifest, the process that leads runs its
//! plan forward (`/what-if`); nothing is submitted.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Value, json};

use fluxqueue_api::{manifest, text};

use crate::args::{Connection, Format, WhenArgs};
use crate::cluster::Cluster;
use crate::console::Console;
use crate::exit::{DONE, usage};
use crate::find::{Found, find};
use crate::leader::Leader;
use crate::output;
use crate::record::{Blocker, called};
use crate::show::when_line;
use crate::table::{Cell, Table};
use crate::when_text::{clock, clock_and_off, lenient, roughly};

/// The largest manifest in bytes: the leader reads no more.
const MANIFEST_BYTES_MAX: u64 = 3 << 20;

/// The longest time for an answer, in seconds.
const WITHIN_SECS_MAX: u64 = 10;

/// The answer of the leader.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    #[serde(deserialize_with = "lenient")]
    as_of: Option<Timestamp>,
    submitted: Vec<Submitted>,
    delayed: Vec<Delayed>,
    delayed_count: usize,
    #[serde(deserialize_with = "lenient")]
    looked_until: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Submitted {
    kind: String,
    namespace: String,
    name: String,
    queue: String,
    position: Option<u64>,
    outcome: String,
    #[serde(deserialize_with = "lenient")]
    start: Option<Timestamp>,
    #[serde(deserialize_with = "lenient")]
    all_start: Option<Timestamp>,
    #[serde(deserialize_with = "lenient")]
    not_by: Option<Timestamp>,
    state: Option<String>,
    blocked_by: Vec<Blocker>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Delayed {
    namespace: String,
    flux_job: String,
    #[serde(deserialize_with = "lenient")]
    from: Option<Timestamp>,
    #[serde(deserialize_with = "lenient")]
    to: Option<Timestamp>,
    #[serde(deserialize_with = "lenient")]
    not_by: Option<Timestamp>,
    seconds: Option<i64>,
    promised: bool,
}

/// Prints when a job starts.
pub(crate) async fn run(
    connection: &Connection,
    args: WhenArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    if let Some(job) = &args.job {
        ensure!(
            args.output.is_none(),
            usage(anyhow!("--output: `show {} -o json` has the estimate", text::name(job)))
        );
        let now = Timestamp::now();
        let line = match find(&cluster, job).await? {
            Found::Record(record, _) => when_line(&record, now, &console.look.zone),
            Found::Pod(pod) => when_line(&crate::queue::record_of(*pod), now, &console.look.zone),
        };
        console.print(&line)?;
        return Ok(DONE);
    }
    ensure!(
        (1..=WITHIN_SECS_MAX).contains(&args.within),
        usage(anyhow!("--within: 1 s to {WITHIN_SECS_MAX} s"))
    );
    ensure!(args.output != Some(Format::Name), usage(anyhow!("--output: there are json and yaml")));
    let file = args.filename.as_deref().unwrap_or("-");
    let read = read(file, console)?;
    let mut objects = objects_of(&read).with_context(|| text::message(file).into_owned())?;
    for object in &mut objects {
        set_namespace(object, &cluster.namespace)?;
    }
    let within = Duration::from_secs(args.within);
    let leader = Leader::find(&cluster, &args.leading).await?;
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let path = format!("/what-if?within={}", within.as_millis());
    let answer = leader.ask(&path, &list, within).await?;
    let text = match args.output {
        Some(Format::Json) => output::json(&answer)?,
        Some(Format::Yaml) => output::yaml(&answer)?,
        None | Some(Format::Wide | Format::Name) => {
            let answer = serde_json::from_value(answer).context("reading the leader's answer")?;
            told(&answer, console)
        }
    };
    console.print(&text)?;
    Ok(DONE)
}

fn read(file: &str, console: &mut Console<'_>) -> anyhow::Result<String> {
    if file == "-" {
        return console.read_input(MANIFEST_BYTES_MAX).context("reading stdin");
    }
    let reading = || format!("reading {}", text::message(file));
    let size = std::fs::metadata(file).with_context(reading)?.len();
    ensure!(
        size <= MANIFEST_BYTES_MAX,
        "{file}: more than {MANIFEST_BYTES_MAX} bytes are not read"
    );
    std::fs::read_to_string(file).with_context(reading)
}

/// Returns the objects in a text; fails if there is none.
fn objects_of(text: &str) -> anyhow::Result<Vec<Value>> {
    let objects = manifest::documents(text).map_err(anyhow::Error::msg)?;
    ensure!(!objects.is_empty(), "there is no object in it");
    Ok(objects)
}

/// Puts an object that names no namespace into this one.
fn set_namespace(object: &mut Value, namespace: &str) -> anyhow::Result<()> {
    let Some(members) = object.as_object_mut() else { bail!("a document is no object") };
    let metadata = members.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { bail!("metadata is no object") };
    let own = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if own.is_empty() {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    Ok(())
}

/// Returns the answer in words.
fn told(answer: &Answer, console: &Console<'_>) -> String {
    let now = answer.as_of.unwrap_or_else(Timestamp::now);
    let zone = &console.look.zone;
    let mut lines = String::new();
    for job in &answer.submitted {
        let kind = job.kind.to_ascii_lowercase();
        let outcome = outcome(job, now, zone);
        let _ = writeln!(lines, "{}/{} {outcome}.", text::name(&kind), text::name(&job.name));
        for blocker in &job.blocked_by {
            let said = blocker.told(&job.namespace, now, zone);
            let _ = writeln!(lines, "  {}: {said}", text::name(&blocker.reason));
        }
    }
    if answer.delayed_count == 0 {
        lines.push_str("It would delay no other job.\n");
    } else {
        let jobs = if answer.delayed_count == 1 { "job" } else { "jobs" };
        let _ = writeln!(lines, "It would delay {} {jobs}:", answer.delayed_count);
        let mut table = Table::new(&["NAMESPACE", "JOB", "FROM", "TO", "BY"]);
        for job in &answer.delayed {
            let to = match (job.to, job.not_by) {
                (Some(to), _) => clock(to, now, zone),
                (None, Some(not_by)) => format!("after {}", clock(not_by, now, zone)),
                (None, None) => "no known date".to_owned(),
            };
            let by = job.seconds.map_or("-".to_owned(), roughly);
            table.push(vec![
                Cell::new(&job.namespace),
                Cell::new(called(&format!("{}/{}", job.namespace, job.flux_job), &job.namespace)),
                job.from.map(|from| clock(from, now, zone)).into(),
                Cell::new(to),
                Cell::new(if job.promised { format!("{by}, promised") } else { by }),
            ]);
        }
        lines.push_str(&table.render(&console.look));
        let hidden = answer.delayed_count.saturating_sub(answer.delayed.len());
        if hidden > 0 {
            let _ = writeln!(lines, "and {hidden} more, which you may not list");
        }
    }
    if let Some(until) = answer.looked_until {
        let until = clock(until, now, zone);
        let _ = writeln!(
            lines,
            "Later starts than {until} were not searched for; a longer --within looks further."
        );
    }
    lines
}

fn outcome(job: &Submitted, now: Timestamp, zone: &TimeZone) -> String {
    let queue = text::name(&job.queue);
    let place =
        job.position.map_or(String::new(), |place| format!(", place {place} in queue {queue}"));
    let all = job.all_start.filter(|all| Some(*all) != job.start);
    let all = all.map_or(String::new(), |all| format!(", all of it at {}", clock(all, now, zone)));
    match (job.outcome.as_str(), job.start, job.not_by) {
        ("Starts", Some(start), _) if start <= now => {
            format!("would start at once in queue {queue}{all}")
        }
        ("Starts", Some(start), _) => {
            format!("would start at {}{all}{place}", clock_and_off(start, now, zone))
        }
        // The search for a start came to no later instant than now.
        ("NotFound", _, Some(not_by)) if not_by <= now => {
            format!("would wait, and its start was not found in that time{place}")
        }
        ("NotFound", _, Some(not_by)) => {
            format!("would not start before {}{place}", clock_and_off(not_by, now, zone))
        }
        ("KeptOut", ..) => {
            let state = job.state.as_deref().unwrap_or("kept out");
            format!("would be {}", text::name(state))
        }
        _ => format!("would wait, and no date of its start is known{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Look;

    fn text_of(answer: &Value) -> String {
        let answer: Answer = serde_json::from_value(answer.clone()).unwrap();
        let console =
            Console::new(std::io::empty(), std::io::sink(), std::io::sink(), Look::plain());
        told(&answer, &console)
    }

    #[test]
    fn the_answer_says_when_and_whom_it_would_delay() {
        let text = text_of(&json!({
            "asOf": "2026-01-05T13:24:00Z",
            "submitted": [{ "kind": "Job", "namespace": "lab", "name": "train",
                "queue": "default", "priority": 0,
                "position": 3, "outcome": "Starts", "start": "2026-01-05T14:05:00Z",
                "allStart": "2026-01-05T14:05:00Z",
                "blockedBy": [{ "reason": "QueuedBehind", "message": "waits behind\u{1b}[2J" }] }],
            "delayed": [{ "namespace": "lab", "fluxJob": "solve-job-fj41v",
                "from": "2026-01-05T14:05:00Z",
                "to": "2026-01-05T14:25:00Z", "seconds": 1200, "promised": true }],
            "delayedCount": 3,
        }));
        assert_eq!(
            text,
            r"job/train would start at 14:05, in 41 min, place 3 in queue default.
  QueuedBehind: waits behind\u{1b}[2J
It would delay 3 jobs:
NAMESPACE   JOB         FROM    TO      BY
lab         job/solve   14:05   14:25   20 min, promised
and 2 more, which you may not list
"
        );
    }

    #[test]
    fn what_would_not_start_says_so() {
        let of = |job: Value| {
            text_of(&json!({ "asOf": "2026-01-05T13:24:00Z", "submitted": [job], "delayedCount": 0,
                "lookedUntil": "2026-01-05T15:00:00Z" }))
        };
        let text =
            of(json!({ "kind": "Job", "name": "a", "outcome": "KeptOut", "state": "Refused" }));
        assert!(
            text.starts_with("job/a would be Refused.\nIt would delay no other job.\n"),
            "{text}"
        );
        let text = of(json!({ "kind": "Job", "name": "a", "outcome": "NotFound",
                "notBy": "2026-01-05T15:00:00Z" }));
        assert!(text.contains("would not start before 15:00, in 1 h 36 min"), "{text}");
        assert!(text.contains("a longer --within looks further"), "{text}");
        let text = of(json!({ "outcome": "NotFound", "notBy": "2026-01-05T13:24:00Z" }));
        assert!(text.contains("would wait, and its start was not found in that time"), "{text}");
        assert!(
            of(json!({ "outcome": "Starts", "start": "2026-01-05T13:24:00Z" })).contains("at once")
        );
        assert!(of(json!({ "outcome": "NoDate" })).contains("would wait, and no date"));
    }

    #[test]
    fn manifests_are_read_as_kubectl_reads_them() {
        let two = "kind: Job\nmetadata: {name: a, namespace: b}\n---\nkind: Pod\n";
        let mut objects = objects_of(two).unwrap();
        for object in &mut objects {
            set_namespace(object, "lab").unwrap();
        }
        assert_eq!(objects[0]["metadata"]["namespace"], "b");
        assert_eq!(objects[1]["metadata"]["namespace"], "lab");
        assert_eq!(objects_of(r#"{"items": [{}, {}]}"#).unwrap().len(), 2);
        assert!(objects_of("").is_err() && objects_of("a: [").is_err());
        assert!(set_namespace(&mut json!({ "metadata": [] }), "lab").is_err());
    }
}
