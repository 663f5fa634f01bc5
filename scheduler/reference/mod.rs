//! docs/reference.md: every flag, setting, label, metric, condition, reason and Event, made from
//! the code that has it; and docs/bounds.md ([`bounds`]).
//!
//! `UPDATE_GOLDEN=1 cargo test reference` (`make reference`) writes the pages; without it the test
//! fails if a page is old.

mod bounds;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use clap::CommandFactory;
use fluxqueue_api::{BlockedReason, ConditionType, DegradedReason, EventReason, FinishedReason};
use fluxqueue_core::report::{Attempts, Gauges, QueueLoad};
use fluxqueue_core::{NodePolicy, QueuePolicy};

use crate::cli::Cli;
use crate::serve::{ESTIMATE_ERROR_LABELS, Metrics, PREFIX, WAIT_LABELS, registry, render};
use source::Documented;

const NAMES: &str = include_str!("../../api/src/names.rs");
const CONDITIONS: &str = include_str!("../../api/src/conditions.rs");
const EVENTS: &str = include_str!("../../api/src/events.rs");
const BLOCKED_BY: &str = include_str!("../../api/src/blocked_by.rs");
const SETTINGS: &str = include_str!("../settings.rs");

const HEAD: &str = "<!-- Made from the code by `make reference`. Do not edit. -->
# Reference

All flags, settings, labels, conditions, reasons, Events and metrics. The fields of the objects are
in [fluxjob.md](fluxjob.md), [queues.md](queues.md) and `kubectl explain`.
";

#[test]
fn the_reference_matches_the_code() {
    let page = page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reference.md differs from the code: run `make reference`");
}

/// The chart's schema has each setting, and the words that are its possible values.
#[test]
fn the_chart_takes_the_settings_that_there_are() {
    let schema = include_str!("../../manifests/chart/values.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let settings = &schema["properties"]["settings"]["properties"];
    let in_chart: BTreeSet<&str> =
        settings.as_object().unwrap().keys().map(String::as_str).collect();
    let fields = source::members(SETTINGS, "FluxqueueConfiguration");
    let fields: BTreeSet<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    let of_the_file = BTreeSet::from(["apiVersion", "kind"]);
    assert_eq!(in_chart, fields.difference(&of_the_file).copied().collect());
    assert_eq!(
        settings["policy"]["enum"],
        serde_json::json!(NodePolicy::ALL.map(NodePolicy::as_str))
    );
    assert_eq!(
        settings["queuePolicy"]["enum"],
        serde_json::json!(QueuePolicy::ALL.map(QueuePolicy::as_str))
    );
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    flags(&mut page);
    settings(&mut page);
    labels(&mut page);
    conditions(&mut page);
    events(&mut page);
    metrics(&mut page);
    page
}

fn section(
    page: &mut String,
    title: &str,
    lead: &str,
    columns: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) {
    let _ = write!(page, "\n## {title}\n\n");
    if !lead.is_empty() {
        let _ = write!(page, "{lead}\n\n");
    }
    table(page, columns, rows);
}

fn table(page: &mut String, columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let _ = writeln!(page, "| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn flags(page: &mut String) {
    for command in Cli::command().get_subcommands() {
        let mut rows = Vec::new();
        let shown = command.get_arguments().filter(|flag| !flag.is_hide_set());
        for (flag, long) in shown.filter_map(|flag| Some((flag, flag.get_long()?))) {
            let variable = flag.get_env().map(|name| code(&format!("${}", name.to_string_lossy())));
            let defaults =
                flag.get_default_values().iter().map(|value| code(&value.to_string_lossy()));
            let defaults: Vec<String> = variable.into_iter().chain(defaults).collect();
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            rows.push(vec![code(&format!("--{long}")), defaults.join(", else "), one_line(&help)]);
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let title = format!("Flags of `fluxqueue {}`", command.get_name());
        if rows.is_empty() {
            let _ = write!(page, "\n## {title}\n\n{about}. It has no flags.\n");
        } else {
            section(page, &title, &about, &["flag", "default", ""], rows);
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn settings(page: &mut String) {
    let fields = source::members(SETTINGS, "FluxqueueConfiguration");
    let public = |line: &&str| line.starts_with("    pub ") && line.ends_with(',');
    let body = SETTINGS
        .split_once("pub struct FluxqueueConfiguration {")
        .unwrap()
        .1
        .split_once("\n}")
        .unwrap()
        .0;
    assert_eq!(fields.len(), body.lines().filter(public).count(), "a setting has no doc comment");
    let lead = "The fields of the file that `--config` names ([settings.md](settings.md)).";
    section(page, "Settings", lead, &["field", ""], fields.into_iter().map(named));
}

fn named(it: Documented) -> Vec<String> {
    vec![code(&it.name), it.doc]
}

fn labels(page: &mut String) {
    let all = source::constants(NAMES);
    // Where a doc comment names another constant, people want to read its value.
    let said = |doc: String| {
        all.iter().fold(doc, |doc, it| doc.replace(&code(&it.name), &code(&it.value)))
    };
    let ours: Vec<Documented> =
        all.iter().filter(|it| it.value.starts_with("fluxqueue/")).cloned().collect();
    let in_source = NAMES
        .lines()
        .filter(|line| line.starts_with("pub const ") && line.contains("= \"fluxqueue/"));
    assert_eq!(ours.len(), in_source.count(), "a label has no doc comment");
    let lead = "[fluxjob.md](fluxjob.md#to-find-it-from-its-workload-and-back) has the aliases of \
                the systems that Fluxqueue continues.";
    let rows = ours.into_iter().map(|it| vec![code(&it.value), said(it.doc)]);
    section(page, "Labels and annotations", lead, &["name", ""], rows);
}

fn conditions(page: &mut String) {
    let types = all_of(CONDITIONS, "ConditionType", ConditionType::ALL.map(ConditionType::as_str));
    section(page, "Conditions of a FluxJob", "", &["type", ""], types.into_iter().map(named));
    let scheduled = source::members(CONDITIONS, "ScheduledReason");
    assert!(!scheduled.is_empty());
    let blocked =
        all_of(BLOCKED_BY, "BlockedReason", BlockedReason::ALL.map(BlockedReason::as_str));
    let degraded =
        all_of(CONDITIONS, "DegradedReason", DegradedReason::ALL.map(DegradedReason::as_str));
    let finished =
        all_of(CONDITIONS, "FinishedReason", FinishedReason::ALL.map(FinishedReason::as_str));
    let of = |type_: &str, reasons: Vec<Documented>| {
        let type_ = code(type_);
        reasons
            .into_iter()
            .map(move |it| vec![type_.clone(), code(&it.name), it.doc])
            .collect::<Vec<_>>()
    };
    let rows = [
        of("Scheduled", scheduled),
        of(
            "Scheduled",
            blocked.into_iter().map(|it| Documented { doc: falsely(&it.doc), ..it }).collect(),
        ),
        of("Degraded", degraded),
        of("Finished", finished),
    ];
    let lead = "The reason of a warning is its type.";
    section(page, "Reasons of conditions", lead, &["condition", "reason", ""], rows.concat());
}

/// Returns the text about a condition that is False for a reason.
fn falsely(doc: &str) -> String {
    let mut letters = doc.chars();
    let first = letters.next().map(|c| c.to_ascii_lowercase());
    format!("False: {}{}", first.into_iter().collect::<String>(), letters.as_str())
}

/// Returns the variants of an enum; fails if one has no doc comment.
fn all_of<const N: usize>(source: &str, of: &str, names: [&str; N]) -> Vec<Documented> {
    let mut members = source::members(source, of);
    // This one is for reasons of other versions, and is never written.
    members.retain(|it| it.name != "Unknown");
    let found: Vec<&str> = members.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(found, names, "{of}");
    members
}

fn events(page: &mut String) {
    let own = all_of(EVENTS, "EventReason", EventReason::ALL.map(EventReason::as_str));
    let lead = "In addition, each new reason of the conditions Scheduled, Degraded and Finished \
                is an Event on the FluxJob, except `Starting`, `Queued`, `NeverScheduled` and \
                `Whole`. The Events for `Incomplete`, `Gated`, `Held` and `QueuedBehind`, which \
                pods have no condition for, are also on up to 16 waiting pods of the job. Each \
                new warning is an Event on the first pod of the job.";
    section(page, "Events", lead, &["reason", ""], own.into_iter().map(named));
}

// --- metrics ---

/// The parts of a metric in a scrape.
#[derive(Default)]
struct Metric {
    kind: String,
    help: String,
    labels: Vec<String>,
}

fn metrics(page: &mut String) {
    let rows = |metrics: BTreeMap<String, Metric>| {
        metrics.into_iter().map(|(name, metric)| {
            let labels =
                metric.labels.iter().map(|label| code(label)).collect::<Vec<_>>().join(", ");
            vec![code(&name), metric.kind, labels, metric.help]
        })
    };
    let lead = "Named as in a scrape of a leader: counters end in `_total`, and a histogram has \
                `_bucket`, `_sum` and `_count`. On Linux both processes also have the metrics that \
                all programs share: `process_cpu_seconds_total`, `process_resident_memory_bytes`, \
                `process_open_fds` and `process_start_time_seconds`.";
    let columns = ["name", "type", "labels", ""];
    let mut of_scheduler = read(&scheduler());
    // No job has started in this scrape, so these two are empty.
    for (name, labels) in [
        ("fluxqueue_job_wait_duration_seconds", &WAIT_LABELS[..]),
        ("fluxqueue_job_start_estimate_error_seconds", &ESTIMATE_ERROR_LABELS[..]),
    ] {
        let metric = of_scheduler.get_mut(name).unwrap();
        assert_eq!(metric.labels, Vec::<String>::new(), "{name}");
        metric.labels = labels.iter().map(|label| (*label).to_owned()).collect();
    }
    section(page, "Metrics", lead, &columns, rows(of_scheduler));
    let lead = "Served at `--metrics-bind-address`.";
    section(page, "Metrics of `fluxqueue webhook`", lead, &columns, rows(read(&webhook())));
}

/// Returns a scrape of the webhook.
fn webhook() -> String {
    let mut registry = registry("", "");
    let _metrics = fluxqueue_webhook::Metrics::new(registry.sub_registry_with_prefix(PREFIX));
    render(&registry).unwrap()
}

/// Returns a scrape of a leader.
fn scheduler() -> String {
    let metrics = Metrics::new("", "");
    metrics.count_binding("bound", Duration::ZERO);
    metrics.count_write("create", "written");
    for of_kind in [&metrics.watch_errors, &metrics.invalid_objects, &metrics.changes] {
        of_kind.get_or_create(&[("kind", "Pod")]).inc();
    }
    let attempts = Attempts { profile: "".into(), scheduled: 0, unschedulable: 0, error: 0 };
    let queue = QueueLoad {
        used: [("cpu", 1)].into_iter().collect(),
        limits: vec![("cpu".into(), 1)],
        waiting_max: Some(1),
        ..QueueLoad::default()
    };
    let mut core =
        Gauges { attempts: vec![attempts], jobs: vec![("Pending", 1)], ..Gauges::default() };
    core.waits.now = vec![queue];
    metrics.render(Some(core), vec![("bind", 0)]).unwrap()
}

fn read(text: &str) -> BTreeMap<String, Metric> {
    let mut all: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                all.entry(name.to_owned()).or_default().help = help.to_owned();
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                all.entry(name.to_owned()).or_default().kind = kind.to_owned();
            }
            _ if line.starts_with('#') => {}
            _ => note_sample(&mut all, line),
        }
    }
    all.into_iter().filter(|(name, _)| name.starts_with("fluxqueue_")).map(with_suffix).collect()
}

/// Adds the labels of a sample to the metric that its name begins with.
fn note_sample(all: &mut BTreeMap<String, Metric>, line: &str) {
    let (name, rest) =
        line.split_once('{').unwrap_or((line.split(' ').next().unwrap_or_default(), ""));
    let of = all.iter_mut().filter(|(metric, _)| name.starts_with(metric.as_str()));
    if let Some((_, metric)) = of.max_by_key(|(metric, _)| metric.len()) {
        for pair in rest.split("\",").filter_map(|pair| pair.split_once("=\"")) {
            let label = pair.0.to_owned();
            if label != "le" && !metric.labels.contains(&label) {
                metric.labels.push(label);
            }
        }
    }
}

fn with_suffix((name, metric): (String, Metric)) -> (String, Metric) {
    let suffix = match metric.kind.as_str() {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    (format!("{name}{suffix}"), metric)
}
