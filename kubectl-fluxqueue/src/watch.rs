//! `queue --watch`: the jobs, and then each job that changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::args::{Connection, QueueArgs};
use crate::cluster::Cluster;
use crate::console::Console;
use crate::queue::{Seen, queue_table, say_cut, waiting_and_running};
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
    let cluster = Cluster::connect(connection).await?;
    let mut before: BTreeMap<String, String> = BTreeMap::new();
    let mut is_first = true;
    loop {
        let begun = Instant::now();
        let Seen { rows, is_cut, trouble } = waiting_and_running(&cluster, &args).await?;
        let pause = PAUSE_MIN.max(begun.elapsed() * PAUSE_FACTOR);
        let (now, zone) = (Timestamp::now(), console.look.zone.clone());
        let key = |record: &Record| format!("{}/{}", record.metadata.namespace, record.shown());
        // A row is new if something other than the ages in it has changed.
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
            rows.iter().map(|row| (key(&row.record), text(&row.record))).collect();
        let mut changed: Vec<Record> = rows
            .into_iter()
            .map(|row| row.record)
            .filter(|record| before.get(&key(record)) != Some(&text(record)))
            .collect();
        let gone = before.keys().filter(|job| !seen.contains_key(*job));
        changed.extend(gone.map(|job| ended(job)));
        let table = queue_table(&changed, &args.shown, now, &zone);
        let text = table.with_headings(is_first && !args.shown.no_headers).render(&console.look);
        console.print(&text)?;
        console.flush()?;
        if is_first {
            if let Some(trouble) = trouble {
                console.note(&trouble);
            }
            say_cut(is_cut, console);
        }
        (before, is_first) = (seen, false);
        tokio::time::sleep(pause).await;
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
