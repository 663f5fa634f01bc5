//! The process's own use of the machine, under the names that Prometheus' client libraries share.
//! It is reported on Linux only.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Linux counts CPU time for user space in hundredths of a second, whatever the kernel's own tick
/// is.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self` at each scrape.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    started_seconds: f64,
}

// === impl ProcessCollector ===

impl ProcessCollector {
    pub(super) fn new() -> Self {
        let now = jiff::Timestamp::now().as_duration();
        ProcessCollector { started_seconds: now.as_secs_f64() }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        if let Some(cpu) = cpu_seconds() {
            let counter = ConstCounter::new(cpu);
            let descriptor = encoder.encode_descriptor(
                "process_cpu_seconds",
                "CPU time used",
                None,
                counter.metric_type(),
            )?;
            counter.encode(descriptor)?;
        }
        let gauges = [
            ("process_resident_memory_bytes", "Resident memory", resident_bytes()),
            ("process_open_fds", "Open file descriptors", open_fds()),
            (
                "process_start_time_seconds",
                "Start of the process since the epoch",
                Some(self.started_seconds),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(
                    name,
                    help,
                    None,
                    gauge.metric_type(),
                )?)?;
            }
        }
        Ok(())
    }
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the command in parentheses and may contain blanks; utime and stime are
    // fields 14 and 15.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory stay below 2^53 bytes")]
fn resident_bytes() -> Option<f64> {
    // `statm` would count pages, and their size differs between machines.
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?;
    Some((kibibytes.parse::<u64>().ok()? * 1024) as f64)
}

#[expect(clippy::cast_precision_loss, reason = "there are few descriptors")]
fn open_fds() -> Option<f64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_resident_size_is_the_kernels_count_of_pages() {
        let page = std::process::Command::new("getconf").arg("PAGESIZE").output().unwrap().stdout;
        let page: f64 = String::from_utf8(page).unwrap().trim().parse().unwrap();
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: f64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
        let ratio = resident_bytes().unwrap() / (pages * page);
        // Other tests come and go in between.
        assert!((0.5..2.0).contains(&ratio), "{ratio}");
    }
}
