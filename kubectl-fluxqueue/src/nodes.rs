//! `nodes` and `queues`: show how full the machine is, and until when.
//!
//! Nodes belong to no namespace, and most users may not list them. The command therefore asks the
//! process that leads (`/outlook`), which names no job. Queues are read from the API server; the
//! leader adds the load of the queue `default` if there is no FluxQueue of that name.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use flux_lists::hostlist;
use fluxqueue_api::names::QUEUE_DEFAULT;
use fluxqueue_api::text;

use crate::api_path::{Resource, check_name};
use crate::args::{Connection, Format, NodesArgs, QueuesArgs};
use crate::cluster::{Cluster, Selection};
use crate::console::{Console, said};
use crate::exit::{DONE, usage};
use crate::leader::{self, Leader};
use crate::output;
use crate::pause::note_pause;
use crate::record::{Condition, Meta};
use crate::table::{Cell, Table};
use crate::when_text::{clock_and_off, lenient, slurm};

/// Most queues that are listed.
const QUEUES_MAX: usize = 1_000;

/// The time within which the leader must answer.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

/// The number of characters in a bar.
const BAR: u64 = 20;

/// The answer of the leader.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Outlook {
    #[serde(deserialize_with = "lenient")]
    as_of: Option<Timestamp>,
    nodes: Vec<Node>,
    queues: Vec<Load>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Node {
    name: String,
    ready: bool,
    schedulable: bool,
    allocatable: BTreeMap<String, u64>,
    used: BTreeMap<String, u64>,
    /// True if a job has the node alone.
    alone: bool,
    #[serde(deserialize_with = "lenient")]
    promised_from: Option<Timestamp>,
    held: bool,
    #[serde(deserialize_with = "lenient")]
    last_end: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Load {
    name: String,
    waiting: Option<u64>,
    running: Option<u64>,
}

/// The shares of an amount of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Shares {
    total: u64,
    used: u64,
    promised: u64,
    held: u64,
}

/// Nodes that share one line.
#[derive(Debug, Default)]
struct Group {
    names: Vec<String>,
    shares: Shares,
    /// The first time from which one of them is promised.
    promised_from: Option<Timestamp>,
    /// The time at which the last pod on them ends.
    last_end: Option<Timestamp>,
}

impl Node {
    /// Returns the state in one word, as in sinfo.
    fn state(&self, resource: &str) -> &'static str {
        let shares = self.shares(resource);
        // Of whichever resource: a node of which pods use the CPUs is not idle with `-r memory`.
        let is_used = self.used.values().any(|amount| *amount > 0);
        match (self.ready, self.schedulable) {
            (false, _) => "down",
            (true, false) if is_used => "draining",
            (true, false) => "drained",
            _ if shares.used >= shares.total => "alloc",
            _ if self.held => "held",
            _ if self.promised_from.is_some() && !is_used => "promised",
            _ if is_used => "mix",
            _ => "idle",
        }
    }

    fn shares(&self, resource: &str) -> Shares {
        let of = |amounts: &BTreeMap<String, u64>| amounts.get(resource).copied().unwrap_or(0);
        let total = of(&self.allocatable);
        // A job that has a node alone leaves nothing of it to others.
        let used = if self.alone { total } else { of(&self.used) };
        let free = total.saturating_sub(used);
        let (held, promised) = match (self.held, self.promised_from) {
            (true, _) => (free, 0),
            (false, Some(_)) => (0, free),
            (false, None) => (0, 0),
        };
        Shares { total, used: used.min(total), promised, held }
    }
}

impl Shares {
    fn free(self) -> u64 {
        self.total - self.used - self.promised - self.held
    }

    /// Draws a bar: `#` is used, `+` promised, `=` held, and `.` free. Every share above zero takes
    /// at least one character.
    fn bar(self) -> String {
        if self.total == 0 {
            return String::new();
        }
        let parts = [(self.used, '#'), (self.promised, '+'), (self.held, '='), (self.free(), '.')];
        let width = |amount: u64| {
            let exact = u128::from(amount) * u128::from(BAR) / u128::from(self.total);
            u64::try_from(exact).unwrap_or(BAR).max(u64::from(amount > 0))
        };
        let mut widths = parts.map(|(amount, _)| width(amount));
        // The largest part makes up for rounding.
        let all: u64 = widths.iter().sum();
        if let Some(largest) = widths.iter_mut().max() {
            *largest = (*largest + BAR).saturating_sub(all);
        }
        parts
            .iter()
            .zip(widths)
            .map(|((_, sign), width)| sign.to_string().repeat(usize::try_from(width).unwrap_or(0)))
            .collect()
    }
}

/// Shows nodes.
pub(crate) async fn nodes(
    connection: &Connection,
    args: NodesArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    let leader = Leader::find(&cluster, &args.leading).await?;
    let answer = leader.ask("/outlook", &json!({}), WITHIN).await?;
    match args.output {
        Some(Format::Json) => console.print(&output::json(&answer)?)?,
        Some(Format::Yaml) => console.print(&output::yaml(&answer)?)?,
        Some(Format::Name) => {
            let outlook: Outlook = serde_json::from_value(answer)?;
            for node in &outlook.nodes {
                console.print(&format!("node/{}\n", text::name(&node.name)))?;
            }
        }
        None | Some(Format::Wide) => {
            let outlook = serde_json::from_value(answer).context("reading the leader's answer")?;
            let is_wide = args.output.is_some();
            let table = node_table(&outlook, &args.resource, is_wide, &console.look.zone);
            if table.is_empty() {
                bail!("--resource: no node has {}", text::quoted(&args.resource));
            }
            let text = table.render(&console.look);
            console.print(&text)?;
            console.print("# used  + promised  = held  . free\n")?;
        }
    }
    Ok(DONE)
}

/// Returns a table of groups of nodes that are alike, or of each node in a line of its own.
fn node_table(outlook: &Outlook, resource: &str, is_wide: bool, zone: &TimeZone) -> Table {
    let now = outlook.as_of.unwrap_or_else(Timestamp::now);
    let mut groups: BTreeMap<(u64, &str, usize), Group> = BTreeMap::new();
    for (at, node) in outlook.nodes.iter().enumerate() {
        let shares = node.shares(resource);
        if shares.total == 0 {
            continue;
        }
        let key = (shares.total, node.state(resource), if is_wide { at } else { 0 });
        let group = groups.entry(key).or_default();
        group.names.push(node.name.clone());
        let sum = &mut group.shares;
        sum.total = sum.total.saturating_add(shares.total);
        sum.used = sum.used.saturating_add(shares.used);
        sum.promised = sum.promised.saturating_add(shares.promised);
        sum.held = sum.held.saturating_add(shares.held);
        group.promised_from = first(group.promised_from, node.promised_from);
        group.last_end = group.last_end.max(node.last_end);
    }
    let mut table = Table::new(&[
        "NODES", "STATE", "BAR", "TOTAL", "USED", "PROMISED", "HELD", "FREE", "UNTIL", "NAMES",
    ]);
    for ((_, state, _), group) in groups {
        let amount = |amount: u64| Cell::new(amount_of(resource, amount));
        // Promised nodes are free until the first promise; others, until the last end, are not.
        let until = group.promised_from.or(group.last_end.filter(|_| group.shares.free() == 0));
        // A text that cannot be the name of a node is no host name either.
        let (names, odd): (Vec<&str>, Vec<&str>) =
            group.names.iter().map(String::as_str).partition(|name| check_name(name).is_ok());
        let names = [hostlist::encode_set(names), odd.join(",")];
        let names: Vec<&str> =
            names.iter().map(String::as_str).filter(|names| !names.is_empty()).collect();
        let names = names.join(",");
        table.push(vec![
            Cell::new(group.names.len().to_string()),
            Cell::new(state),
            Cell::new(group.shares.bar()),
            amount(group.shares.total),
            amount(group.shares.used),
            amount(group.shares.promised),
            amount(group.shares.held),
            amount(group.shares.free()),
            until.map(|at| clock_and_off(at, now, zone)).into(),
            Cell::new(names),
        ]);
    }
    table
}

fn first(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// Returns an amount for people: cores, GiB, or a number.
fn amount_of(resource: &str, amount: u64) -> String {
    // Two decimals, so that a small pod shows, and used and free add up.
    let decimal = |unit: u64| {
        let hundredths = u128::from(amount) * 100 / u128::from(unit);
        let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match resource {
        "cpu" => decimal(1_000),
        "memory" | "ephemeral-storage" => format!("{}Gi", decimal(1 << 30)),
        _ => amount.to_string(),
    }
}

/// The parts of a FluxQueue that are shown.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Queue {
    metadata: Meta,
    spec: QueueSpec,
    status: QueueStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QueueSpec {
    policy: Option<String>,
    priority: i64,
    stop_policy: Option<String>,
    max_walltime_seconds: Option<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QueueStatus {
    conditions: Vec<Condition>,
    waiting: u64,
    running: u64,
    display_usage: Option<String>,
    display_limits: Option<String>,
}

/// Shows queues.
pub(crate) async fn queues(
    connection: &Connection,
    args: QueuesArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    leader::check(&args.leading)?;
    let cluster = Cluster::connect(connection).await?;
    let raws = match &args.queue {
        Some(name) => {
            check_name(name).map_err(usage)?;
            let raw: Option<Box<RawValue>> = cluster.get(Resource::FLUX_QUEUE, None, name).await?;
            let shows_object =
                matches!(args.output, Some(Format::Json | Format::Yaml | Format::Name));
            if raw.is_none() && (name != QUEUE_DEFAULT || shows_object) {
                bail!("fluxqueue {} does not exist", text::name(name));
            }
            raw.into_iter().collect()
        }
        None => {
            let listed =
                cluster.list(Resource::FLUX_QUEUE, &Selection::default(), QUEUES_MAX).await?;
            if listed.is_cut {
                console.note(&format!("Only the first {QUEUES_MAX} queues are shown."));
            }
            listed.items
        }
    };
    if let Some(format @ (Format::Json | Format::Yaml | Format::Name)) = args.output {
        let raws: Vec<&RawValue> = raws.iter().map(|raw| &**raw).collect();
        console.print(&output::objects(&raws, args.queue.is_none(), format)?)?;
        return Ok(DONE);
    }
    let mut queues: Vec<Queue> =
        raws.iter().filter_map(|raw| serde_json::from_str(raw.get()).ok()).collect();
    let mut load_of_default = None;
    let is_asked_for = args.queue.as_ref().is_none_or(|queue| queue == QUEUE_DEFAULT);
    if is_asked_for && queues.iter().all(|it| it.metadata.name != QUEUE_DEFAULT) {
        load_of_default = Some(match load_of(&cluster, &args, QUEUE_DEFAULT).await {
            Ok(load) => load,
            Err(error) => {
                console.note(&format!(
                    "How much waits in queue {QUEUE_DEFAULT} is left out: {}",
                    said(&error)
                ));
                Load::default()
            }
        });
    }
    queues.sort_by(|one, other| {
        (-one.spec.priority, &one.metadata.name).cmp(&(-other.spec.priority, &other.metadata.name))
    });
    let text = queue_table(&queues, load_of_default.as_ref()).render(&console.look);
    console.print(&text)?;
    note_pause(&cluster, &args.leading.leader_namespace, console).await;
    Ok(DONE)
}

/// Returns the load of a queue, as the leader knows it.
async fn load_of(cluster: &Cluster, args: &QueuesArgs, queue: &str) -> anyhow::Result<Load> {
    let leader = Leader::find(cluster, &args.leading).await?;
    let answer: Value = leader.ask("/outlook", &json!({}), WITHIN).await?;
    let outlook: Outlook = serde_json::from_value(answer).context("reading the leader's answer")?;
    let load = outlook.queues.into_iter().find(|load| load.name == queue);
    load.with_context(|| format!("the leader says nothing of queue {queue}"))
}

/// The queues; the queue `default` without an object has a row too, with its load if it is known.
fn queue_table(queues: &[Queue], load_of_default: Option<&Load>) -> Table {
    let mut table = Table::new(&[
        "QUEUE", "PRIORITY", "POLICY", "STATE", "WAITING", "RUNNING", "WALLTIME", "USED", "LIMITS",
    ]);
    for queue in queues {
        let is_refused = queue
            .status
            .conditions
            .iter()
            .any(|condition| condition.r#type == "Accepted" && condition.status == "False");
        let state = match queue.spec.stop_policy.as_deref() {
            _ if is_refused => "invalid",
            Some("Hold") => "stopped",
            _ => "up",
        };
        table.push(vec![
            Cell::new(&queue.metadata.name),
            Cell::new(queue.spec.priority.to_string()),
            queue.spec.policy.as_ref().into(),
            Cell::new(state),
            Cell::new(queue.status.waiting.to_string()),
            Cell::new(queue.status.running.to_string()),
            queue.spec.max_walltime_seconds.map(slurm).into(),
            queue.status.display_usage.as_ref().into(),
            queue.status.display_limits.as_ref().into(),
        ]);
    }
    if let Some(load) = load_of_default {
        let mut row =
            vec![Cell::new(QUEUE_DEFAULT), Cell::new("0"), Cell::new("-"), Cell::new("up")];
        row.push(load.waiting.map(|jobs| jobs.to_string()).into());
        row.push(load.running.map(|jobs| jobs.to_string()).into());
        row.extend([Cell::new("-"), Cell::new("-"), Cell::new("-")]);
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Look;

    fn outlook() -> Outlook {
        let node = |name: &str, used: u64, more: &Value| {
            let mut node = json!({ "name": name, "ready": true, "schedulable": true,
                "allocatable": { "cpu": 4000, "memory": 16_u64 << 30 }, "used": { "cpu": used } });
            node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            node
        };
        serde_json::from_value(json!({
            "asOf": "2026-01-05T13:24:00Z",
            "nodes": [
                node("n-0", 4000, &json!({ "lastEnd": "2026-01-05T14:05:00Z" })),
                node("n-1", 4000, &json!({})),
                node("n-2", 1000, &json!({ "promisedFrom": "2026-01-05T13:54:00Z" })),
                node("n-3", 0, &json!({ "held": true })),
                node("n-4", 0, &json!({ "schedulable": false })),
                node("bad\u{1b}[2J", 0, &json!({ "ready": false })),
            ],
        }))
        .unwrap()
    }

    #[test]
    fn nodes_that_are_alike_share_a_line() {
        let text = node_table(&outlook(), "cpu", false, &TimeZone::UTC).render(&Look::plain());
        let row = |state: &str| {
            let line =
                text.lines().find(|line| line.contains(state)).unwrap_or_else(|| panic!("{text}"));
            line.split("   ").map(str::trim).filter(|it| !it.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(
            row("alloc"),
            [
                "2",
                "alloc",
                "####################",
                "8",
                "8",
                "0",
                "0",
                "0",
                "14:05, in 41 min",
                "n-[0-1]"
            ]
        );
        assert_eq!(
            row("mix"),
            [
                "1",
                "mix",
                "#####+++++++++++++++",
                "4",
                "1",
                "3",
                "0",
                "0",
                "13:54, in 30 min",
                "n-2"
            ]
        );
        assert_eq!(row("held")[2], "====================");
        let memory = node_table(&outlook(), "memory", false, &TimeZone::UTC);
        let memory = memory.render(&Look::plain());
        assert!(!memory.contains("idle"), "pods use the CPUs of the nodes:\n{memory}");
        assert_eq!(row("drained")[7], "4");
        assert!(text.is_ascii() && !text.contains('\u{1b}'), "{text:?}");
        let wide = node_table(&outlook(), "memory", true, &TimeZone::UTC).render(&Look::plain());
        assert_eq!(wide.lines().count(), 7);
        assert!(wide.contains("16Gi"), "{wide}");
        assert!(node_table(&outlook(), "nvidia.com/gpu", false, &TimeZone::UTC).is_empty());
    }

    #[test]
    fn a_node_that_a_job_has_alone_has_nothing_free() {
        let node = json!({ "name": "n-0", "ready": true, "schedulable": true, "alone": true,
            "allocatable": { "cpu": 4000 }, "used": { "cpu": 1000 } });
        let outlook: Outlook = serde_json::from_value(json!({ "nodes": [node] })).unwrap();
        let (node, shares) = (&outlook.nodes[0], outlook.nodes[0].shares("cpu"));
        assert_eq!((node.state("cpu"), shares.used, shares.free()), ("alloc", 4000, 0));
    }

    #[test]
    fn a_bar_is_always_as_long_and_shows_the_smallest_part() {
        for shares in [
            Shares { total: 1000, used: 1, promised: 1, held: 1 },
            Shares { total: 3, used: 1, promised: 1, held: 1 },
            Shares { total: 7, used: 7, promised: 0, held: 0 },
            Shares { total: u64::MAX, used: u64::MAX / 2, promised: 1, held: 0 },
        ] {
            let bar = shares.bar();
            assert_eq!(bar.len(), 20, "{shares:?}: {bar}");
            assert!(shares.promised == 0 || bar.contains('+'), "{bar}");
        }
    }

    #[test]
    fn amounts_are_in_the_units_of_people() {
        assert_eq!(amount_of("cpu", 1500), "1.5");
        assert_eq!(amount_of("cpu", 250), "0.25");
        assert_eq!(amount_of("cpu", 20_000), "20");
        assert_eq!(amount_of("memory", 16 << 30), "16Gi");
        assert_eq!(amount_of("memory", 100 << 20), "0.09Gi");
        assert_eq!(amount_of("nvidia.com/gpu", 4), "4");
    }

    #[test]
    fn queues_stand_in_their_order_and_default_is_one_of_them() {
        let queue = |name: &str, more: Value| {
            serde_json::from_value::<Queue>(json!({ "metadata": { "name": name }, "spec": more,
                "status": { "waiting": 3, "running": 1, "displayUsage": "2/8 cpu" } }))
            .unwrap()
        };
        let queues = [
            queue("gpu", json!({ "priority": 5, "policy": "easy", "maxWalltimeSeconds": 3600 })),
            queue("stopped", json!({ "stopPolicy": "Hold" })),
        ];
        let load = Load { name: "default".to_owned(), waiting: Some(7), running: Some(2) };
        let text = queue_table(&queues, Some(&load)).render(&Look::plain());
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("   ").map(str::trim).filter(|it| !it.is_empty()).collect())
            .collect();
        assert_eq!(rows[1], ["gpu", "5", "easy", "up", "3", "1", "1:00:00", "2/8 cpu", "-"]);
        assert_eq!(rows[2][3], "stopped");
        assert_eq!(rows[3], ["default", "0", "-", "up", "7", "2", "-", "-", "-"]);
        let unknown = queue_table(&[], Some(&Load::default())).render(&Look::plain());
        assert!(unknown.contains("default   0          -        up      -"), "{unknown}");
    }
}
