//! `queue --watch`: the jobs, and then each job that changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use jiff::Timestamp;

use crate::args::{Connection, Format, QueueArgs, Shown};
use crate::cluster::Cluster;
use crate::console::{Console, Look};
use crate::queue::{Seen, queue_table, say_cut, waiting_and_running, wanted_users};
use crate::record::Record;

/// The shortest pause between two lists of `--watch`.
const PAUSE_MIN: Duration = Duration::from_secs(2);

/// The pause as a multiple of the time that a list takes: a long queue, or a busy API server, is
/// read less often.
const PAUSE_FACTOR: u32 = 10;

/// Shows the jobs, and then each job with a changed row, until the reader goes.
pub(crate) async fn run(
    connection: &Connection,
    args: QueueArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    ensure!(
        matches!(args.shown.output, None | Some(Format::Wide)),
        "--watch: shows a table, and goes with no other --output than wide"
    );
    let cluster = Cluster::connect(connection).await?;
    let wanted = wanted_users(&cluster, &args.shown).await?;
    let mut watched = Watched { before: BTreeMap::new(), headings: !args.shown.no_headers };
    let mut is_first = true;
    loop {
        let begun = Instant::now();
        let Seen { rows, is_cut, troubles } =
            waiting_and_running(&cluster, &args, wanted.as_ref()).await?;
        let pause = PAUSE_MIN.max(begun.elapsed() * PAUSE_FACTOR);
        let records = rows.into_iter().map(|row| row.record).collect();
        let text = watched.changes(records, &args.shown, Timestamp::now(), &console.look);
        console.print(&text)?;
        console.flush()?;
        if is_first {
            for trouble in &troubles {
                console.note(trouble);
            }
            say_cut(is_cut, console);
        }
        is_first = false;
        tokio::time::sleep(pause).await;
    }
}

/// The jobs of the last look.
struct Watched {
    /// The texts of the rows apart from the ages in them, by job.
    before: BTreeMap<String, String>,
    /// True until the headings were shown, if they are wanted.
    headings: bool,
}

impl Watched {
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
        table.render(look)
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
    use crate::queue::tests::{NOW, cells, job};
    use serde_json::json;

    #[test]
    fn a_watch_shows_what_changes() {
        let now: Timestamp = NOW.parse().unwrap();
        let mut watched = Watched { before: BTreeMap::new(), headings: true };
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
        assert_eq!(
            cells(look(&[other]).trim()),
            ["job/a", "-", "Ended", "-", "0/0", "-", "-", "-"]
        );
    }
}
