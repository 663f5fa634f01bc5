//! `queue --watch`: the jobs, and then each job that changes.
//!
//! The first look reports wrong arguments and missing permissions. A later one that fails is
//! tried again: a queue that is watched for days outlives a restart of the API server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use jiff::Timestamp;

use crate::args::{Connection, Format, QueueArgs, Shown};
use crate::cluster::Cluster;
use crate::console::{Console, Look, said};
use crate::exit::usage;
use crate::queue::{Seen, queue_table, say_cut, waiting_and_running, wanted_users};
use crate::record::Record;

/// The shortest pause between two lists of `--watch`.
const PAUSE_MIN: Duration = Duration::from_secs(2);

/// The pause as a multiple of the time that a list takes: a long queue, or a busy API server, is
/// read less often.
const PAUSE_FACTOR: u32 = 10;

/// The longest pause after a look that failed.
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Shows the jobs, and then each job with a changed row, until the reader goes.
pub(crate) async fn run(
    connection: &Connection,
    args: QueueArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    ensure!(
        matches!(args.shown.output, None | Some(Format::Wide)),
        usage(anyhow!("--watch: shows a table, and goes with no other --output than wide"))
    );
    let cluster = Cluster::connect(connection).await?;
    let wanted = wanted_users(&cluster, &args.shown).await?;
    let look = async || waiting_and_running(&cluster, &args, wanted.as_ref()).await;
    follow(look, &args.shown, console).await
}

/// Looks again and again, until the reader goes.
async fn follow(
    mut look: impl AsyncFnMut() -> anyhow::Result<Seen>,
    shown: &Shown,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let mut watched = Watched::new(shown);
    let (mut is_first, mut failures) = (true, 0);
    loop {
        let begun = Instant::now();
        match look().await {
            Ok(Seen { rows, is_cut, troubles }) => {
                let records = rows.into_iter().map(|row| row.record).collect();
                let text = watched.changes(records, shown, Timestamp::now(), &console.look);
                console.print(&text)?;
                console.flush()?;
                if is_first {
                    for trouble in &troubles {
                        console.note(trouble);
                    }
                    say_cut(is_cut, console);
                }
                (is_first, failures) = (false, 0);
            }
            Err(error) if is_first => return Err(error),
            Err(error) => {
                failures += 1;
                console.note(&format!("trying again: {}", said(&error)));
            }
        }
        tokio::time::sleep(pause(failures, begun.elapsed())).await;
    }
}

/// Returns the pause after a look that took this long, the last of this number of failures.
fn pause(failures: u32, took: Duration) -> Duration {
    match failures {
        0 => PAUSE_MIN.max(took * PAUSE_FACTOR),
        _ => FAILED_PAUSE_MAX.min(PAUSE_MIN * 2_u32.saturating_pow(failures)),
    }
}

/// The jobs of the last look.
struct Watched {
    /// The texts of the rows apart from the ages in them, by job.
    before: BTreeMap<String, String>,
    /// True until the headings were shown, if they are wanted.
    headings: bool,
    /// The widths of the columns so far.
    widths: Vec<usize>,
}

impl Watched {
    fn new(shown: &Shown) -> Self {
        Watched { before: BTreeMap::new(), headings: !shown.no_headers, widths: Vec::new() }
    }

    /// Returns the rows of jobs that have changed since the last look.
    fn changes(
        &mut self,
        records: Vec<Record>,
        shown: &Shown,
        now: Timestamp,
        look: &Look,
    ) -> String {
        let key = |record: &Record| format!("{}/{}", record.metadata.namespace, record.shown());
        let text = |record: &Record| {
            let status = &record.status;
            format!(
                "{} {} {:?} {} {:?} {:?} {:?}",
                record.state(),
                status.queue_name,
                record.reason(),
                record.size(),
                status.walltime_seconds,
                status.start_time,
                status.estimated_start.as_ref().and_then(|estimate| estimate.time),
            )
        };
        let seen: BTreeMap<String, String> =
            records.iter().map(|record| (key(record), text(record))).collect();
        let mut changed: Vec<Record> = records
            .into_iter()
            .filter(|record| self.before.get(&key(record)) != Some(&text(record)))
            .collect();
        let gone = self.before.keys().filter(|job| !seen.contains_key(*job));
        changed.extend(gone.map(|job| ended(job)));
        self.before = seen;
        let table = queue_table(&changed, shown, now, &look.zone).with_headings(self.headings);
        // A table without rows has no headings either.
        self.headings &= table.is_empty();
        table.render_below(&mut self.widths, look)
    }
}

/// Makes the row of a job that is no longer among those that wait and run.
fn ended(key: &str) -> Record {
    let mut record = Record::default();
    let mut parts = key.splitn(3, '/').map(str::to_owned);
    record.metadata.namespace = parts.next().unwrap_or_default();
    record.spec.workload_ref.kind = parts.next().unwrap_or_default();
    record.spec.workload_ref.name = parts.next().unwrap_or_default();
    record.status.state = String::from("Ended");
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Row;
    use crate::queue::tests::{NOW, cells, job};
    use serde_json::json;

    #[test]
    fn a_watch_shows_what_changes() {
        let now: Timestamp = NOW.parse().unwrap();
        let mut watched = Watched::new(&Shown::default());
        let mut look = |jobs: &[Record]| {
            watched.changes(jobs.to_vec(), &Shown::default(), now, &Look::plain())
        };
        let waits = job("a", &json!({ "state": "Pending" }));
        let runs = job("a", &json!({ "state": "Running" }));
        let other = job("b", &json!({ "state": "Running" }));
        assert_eq!(look(&[]), "", "no headings yet");
        assert!(look(std::slice::from_ref(&waits)).starts_with("JOB "));
        assert_eq!(look(&[waits]), "");
        let text = look(&[runs, other.clone()]);
        assert!(text.starts_with("job/a ") && text.lines().count() == 2, "{text}");
        assert_eq!(cells(look(&[other]).trim()), ["job/a", "-", "Ended", "-", "-", "-", "-", "-"]);
    }

    #[test]
    fn rows_of_later_looks_stand_in_the_columns_of_the_first() {
        let now: Timestamp = NOW.parse().unwrap();
        let mut watched = Watched::new(&Shown::default());
        let mut look = |jobs: &[Record]| {
            watched.changes(jobs.to_vec(), &Shown::default(), now, &Look::plain())
        };
        let long = job("a-long-name", &json!({ "state": "Unsatisfiable" }));
        let first = look(&[long.clone(), job("a", &json!({ "state": "Pending" }))]);
        let column = first.find("STATE").unwrap();
        let later = look(&[long, job("a", &json!({ "state": "Running" }))]);
        assert_eq!(later.find("Running"), Some(column), "{first}{later}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_outlives_looks_that_fail_but_not_a_first_one() {
        let seen = |state: &str| Seen {
            rows: vec![Row { record: job("a", &json!({ "state": state })), raw: None }],
            is_cut: false,
            troubles: Vec::new(),
        };
        let fails = || Err(anyhow::anyhow!("connection refused"));
        let watch = async |looks: &mut dyn Iterator<Item = anyhow::Result<Seen>>| {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut console = Console::new(std::io::empty(), &mut out, &mut err, Look::plain());
            let look = async || match looks.next() {
                Some(look) => look,
                None => std::future::pending().await,
            };
            let shown = Shown { no_headers: true, ..Shown::default() };
            let followed = follow(look, &shown, &mut console);
            let ended = tokio::time::timeout(Duration::from_mins(1), followed).await;
            drop(console);
            let text = |bytes| String::from_utf8(bytes).unwrap();
            (ended.is_ok_and(|ended| ended.is_err()), text(out), text(err))
        };
        let looks = [Ok(seen("Pending")), fails(), fails(), fails(), Ok(seen("Running"))];
        let (has_failed, out, err) = watch(&mut looks.into_iter()).await;
        assert!(!has_failed);
        let states: Vec<&str> = out.lines().map(|line| cells(line)[2]).collect();
        assert_eq!(states, ["Pending", "Running"]);
        assert_eq!(err, "trying again: connection refused\n".repeat(3));
        let (has_failed, out, err) = watch(&mut [fails()].into_iter()).await;
        assert!(has_failed && out.is_empty() && err.is_empty(), "{out} {err}");
    }

    #[test]
    fn pauses_grow_to_a_bound_while_looks_fail() {
        let pauses: Vec<u64> =
            (0..6).map(|failures| pause(failures, Duration::ZERO).as_secs()).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 30, 30]);
        assert_eq!(pause(0, Duration::from_secs(3)).as_secs(), 30);
        assert_eq!(pause(u32::MAX, Duration::from_secs(30)).as_secs(), 30);
    }
}
