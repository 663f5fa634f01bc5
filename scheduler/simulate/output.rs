//! The outcome of a simulation as text: a table for people, CSV and JSON for programs.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers for people, far below 2^53"
)]

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

use serde::Serialize;

use super::duration::duration;
use super::report::{Report, SLOWDOWN_BOUND, Spread};
use super::{Outcome, Ran, Skipped, counted};

/// The form in which an outcome is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The report, for people
    Table,
    /// One line per job: its number, start and end in seconds
    Csv,
    /// The report, and each job with its nodes
    Json,
    /// A Gantt chart
    Svg,
}

/// Writes an outcome in this form.
pub fn write(outcome: &Outcome, format: Format, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Table => write!(out, "{}", Table(outcome)),
        Format::Csv => csv(outcome, out),
        Format::Json => json(outcome, out),
        Format::Svg => super::gantt::write(outcome, out),
    }
}

fn csv(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "job,start,end")?;
    for job in &outcome.ran {
        writeln!(out, "{},{},{}", quoted(&job.job), job.start, job.end)?;
    }
    Ok(())
}

/// Quotes a name by the rules of RFC 4180: it may hold characters that separate fields.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The outcome as a JSON document.
#[derive(Serialize)]
struct Document<'a> {
    title: &'a str,
    policy: &'a str,
    nodes: u32,
    report: Report,
    jobs: Vec<Row<'a>>,
    skipped: Vec<NotRun<'a>>,
    remarks: &'a [String],
}

#[derive(Serialize)]
struct Row<'a> {
    job: &'a str,
    submit: u64,
    start: u64,
    end: u64,
    /// Numbers as an idset (RFC 22), names as a hostlist (RFC 29).
    nodes: String,
}

#[derive(Serialize)]
struct NotRun<'a> {
    job: &'a str,
    reason: &'a str,
}

fn json(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let jobs = outcome.ran.iter().map(|job| Row {
        job: &job.job,
        submit: job.submit,
        start: job.start,
        end: job.end,
        nodes: node_list(outcome, job),
    });
    let document = Document {
        title: &outcome.title,
        policy: &outcome.policy,
        nodes: outcome.nodes,
        report: Report::of(outcome),
        jobs: jobs.collect(),
        skipped: outcome
            .skipped
            .iter()
            .map(|job| NotRun { job: &job.job, reason: &job.reason })
            .collect(),
        remarks: &outcome.remarks,
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

fn node_list(outcome: &Outcome, job: &Ran) -> String {
    let numbers = job.nodes.iter().cloned().flatten();
    if outcome.node_names.is_empty() {
        return flux_lists::idset::encode(numbers);
    }
    let names = numbers.filter_map(|number| outcome.node_names.get(number as usize));
    let names: BTreeSet<&str> = names.map(|name| &**name).collect();
    flux_lists::hostlist::encode(names)
}

/// The report, for people.
struct Table<'a>(&'a Outcome);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.0;
        let report = Report::of(outcome);
        writeln!(
            f,
            "{}: {} on {}, {}",
            outcome.title,
            counted(report.jobs, "job"),
            counted(outcome.nodes as usize, "node"),
            outcome.policy
        )?;
        writeln!(f)?;
        writeln!(f, "{:<28}{:>14}{:>14}{:>14}{:>14}", "", "mean", "median", "95th", "most")?;
        spread(f, "wait", report.wait, |value| duration(value.round()))?;
        spread(
            f,
            &format!("bounded slowdown ({SLOWDOWN_BOUND} s)"),
            report.bounded_slowdown,
            |v| format!("{v:.2}"),
        )?;
        writeln!(f)?;
        writeln!(f, "{:<28}{:>14}", "utilisation", format!("{:.1} %", 100.0 * report.utilisation))?;
        let (makespan, bound) = (report.makespan as f64, report.makespan_lower_bound as f64);
        writeln!(f, "{:<28}{:>14}", "makespan", duration(makespan))?;
        let times = if bound > 0.0 { makespan / bound } else { 1.0 };
        writeln!(
            f,
            "{:<28}{:>14}   makespan is {times:.3} times that",
            "  its lower bound",
            duration(bound)
        )?;
        let queue = report.queue_length;
        writeln!(
            f,
            "{:<28}{:>14}{:>14} at most",
            "queue length",
            format!("{:.1}", queue.mean),
            queue.max
        )?;
        let left_out = left_out(outcome);
        if left_out.is_empty() { Ok(()) } else { write!(f, "\n{left_out}") }
    }
}

fn spread(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    of: Spread,
    text: impl Fn(f64) -> String,
) -> fmt::Result {
    let (mean, median, p95, max) = (text(of.mean), text(of.median), text(of.p95), text(of.max));
    writeln!(f, "{name:<28}{mean:>14}{median:>14}{p95:>14}{max:>14}")
}

/// Lists the jobs that did not run, by reason, and the remarks; each is a line.
pub fn left_out(outcome: &Outcome) -> String {
    let mut reasons: Vec<(&str, Vec<&Skipped>)> = Vec::new();
    for job in &outcome.skipped {
        match reasons.iter_mut().find(|(reason, _)| *reason == job.reason) {
            Some((_, jobs)) => jobs.push(job),
            None => reasons.push((&job.reason, vec![job])),
        }
    }
    let mut text = String::new();
    for (reason, jobs) in reasons {
        let names: Vec<&str> = jobs.iter().map(|job| &*job.job).collect();
        let noun = if jobs.len() == 1 { "job is" } else { "jobs are" };
        let _ = writeln!(text, "{} {noun} skipped: {reason}: {}", jobs.len(), names.join(", "));
    }
    for remark in &outcome.remarks {
        let _ = writeln!(text, "{remark}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let ran = |job: &str, submit, start, end, nodes: std::ops::RangeInclusive<u32>| Ran {
            job: job.into(),
            submit,
            start,
            end,
            node_seconds: ((end - start) * u64::from(nodes.end() - nodes.start() + 1)) as f64,
            nodes: vec![nodes],
        };
        Outcome {
            title: "a.swf".to_owned(),
            policy: "easy".to_owned(),
            nodes: 4,
            node_names: Vec::new(),
            ran: vec![ran("1", 0, 0, 3_600, 0..=1), ran("2", 5, 3_600, 100_000, 0..=3)],
            skipped: ["7", "9"]
                .map(|job| Skipped {
                    job: job.into(),
                    reason: "it is larger than 4 nodes".to_owned(),
                })
                .into(),
            remarks: vec!["a remark".to_owned()],
        }
    }

    fn text(format: Format) -> String {
        let mut out = Vec::new();
        write(&outcome(), format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_has_a_line_per_job() {
        assert_eq!(text(Format::Csv), "job,start,end\n1,0,3600\n2,3600,100000\n");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn json_has_the_report_and_all_jobs() {
        let json: serde_json::Value = serde_json::from_str(&text(Format::Json)).unwrap();
        assert_eq!(json["report"]["makespan"], 100_000);
        assert_eq!(json["jobs"][1]["nodes"], "0-3");
        assert_eq!(
            json["skipped"][0],
            serde_json::json!({"job": "7", "reason": "it is larger than 4 nodes"})
        );
    }

    #[test]
    fn the_table_is_aligned_and_lists_what_was_left_out() {
        let expected = "\
a.swf: 2 jobs on 4 nodes, easy

                                      mean        median          95th          most
wait                                 29:58           0 s         59:55         59:55
bounded slowdown (10 s)               1.02          1.00          1.04          1.04

utilisation                         98.2 %
makespan                       1d 03:46:40
  its lower bound              1d 03:16:40   makespan is 1.018 times that
queue length                           0.0             1 at most

2 jobs are skipped: it is larger than 4 nodes: 7, 9
a remark
";
        assert_eq!(text(Format::Table), expected);
    }
}
