//! `hold`, `release`, `move` and `walltime`: write wishes into the spec of a FluxJob.
//!
//! Every change is made against the version of the FluxJob that was read, so that two users at once
//! take no wish of each other away; after [`ATTEMPTS`] conflicts in a row the command fails with a
//! message.

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use fluxqueue_api::names::QUEUE_DEFAULT;
use fluxqueue_api::{Hold, Overrides, text};

use crate::api_path::{Resource, check_name};
use crate::args::{Connection, HoldArgs, MoveArgs, ReleaseArgs, WalltimeArgs, check_reason};
use crate::cluster::{Cluster, Selection};
use crate::console::{Console, said};
use crate::exit::{DONE, code_of, usage};
use crate::find::{Wanted, find_record};
use crate::logs::pods_of;
use crate::record::Record;
use crate::when_text::slurm;

/// How many times a change is tried while others change the FluxJob.
const ATTEMPTS: usize = 5;

/// Most queues that are named in the error about a missing queue.
const QUEUES_NAMED_MAX: usize = 20;

/// Holds jobs under the name of the user.
pub(crate) async fn hold(
    connection: &Connection,
    args: HoldArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    check_reason(&args.reason)?;
    let cluster = Cluster::connect(connection).await?;
    let own = cluster.own_name().await?;
    each(&args.jobs, console, async |job: &str, console: &mut Console<'_>| {
        let record =
            change(&cluster, job, |record| holds_with(&record.spec.overrides, &own, &args.reason))
                .await?;
        let begun = if record.is_under_way() { "; it has begun, and goes on" } else { "" };
        let holds = &record.spec.overrides.holds;
        let reason = holds.iter().find(|hold| hold.by == own).map(|hold| hold.reason.as_str());
        let reason = reason.filter(|reason| !reason.is_empty());
        let reason = reason.map_or(String::new(), |it| format!(": {}", text::message(it)));
        console.print(&format!("{} held by {}{reason}{begun}\n", record.shown(), text::name(&own)))
    })
    .await
}

/// Returns the holds with one of this user; `None` if that changes nothing. A hold without a reason
/// leaves that of an earlier one.
fn holds_with(wishes: &Overrides, own: &str, reason: &str) -> Option<Value> {
    let mine = Hold { by: own.to_owned(), reason: reason.to_owned() };
    let mut earlier = wishes.holds.iter().filter(|hold| hold.by == own);
    if earlier.any(|hold| reason.is_empty() || *hold == mine) {
        return None;
    }
    let mut holds: Vec<&Hold> = wishes.holds.iter().filter(|hold| hold.by != own).collect();
    holds.push(&mine);
    Some(json!({ "holds": holds }))
}

/// Lifts holds.
pub(crate) async fn release(
    connection: &Connection,
    args: ReleaseArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    let own = cluster.own_name().await?;
    each(&args.jobs, console, async |job: &str, console: &mut Console<'_>| {
        let lifted = |record: &Record| holds_without(&record.spec.overrides, &own, args.all_holds);
        let record = change(&cluster, job, lifted).await?;
        let left = &record.spec.overrides;
        if let Some(held) = left.held() {
            bail!(
                "{} is still {}: to lift the hold of another user needs --all-holds and verb \
                 release on fluxjobs/hold",
                record.shown(),
                text::message(&held)
            );
        }
        let queue = record.condition("Scheduled").filter(|it| it.reason == "Held");
        // Any other condition is about the hold that was just lifted, and not corrected yet.
        let stopped = queue.filter(|it| it.message.contains("queue"));
        let more = stopped.map_or(String::new(), |it| format!("; {}", text::message(&it.message)));
        console.print(&format!("{} released{more}\n", record.shown()))
    })
    .await
}

/// Returns the holds without that of this user and the switch for all; `None` if that changes
/// nothing.
fn holds_without(wishes: &Overrides, own: &str, all: bool) -> Option<Value> {
    let kept: Vec<&Hold> = wishes.holds.iter().filter(|hold| !all && hold.by != own).collect();
    if kept.len() == wishes.holds.len() && !wishes.hold {
        return None;
    }
    let holds = if kept.is_empty() { Value::Null } else { json!(kept) };
    Some(json!({ "hold": null, "holds": holds }))
}

/// Moves a job to another queue.
pub(crate) async fn move_to(
    connection: &Connection,
    args: MoveArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    if let Some(queue) = &args.queue {
        queue_exists(&cluster, ("--queue", queue), console).await?;
    }
    let wish = json!({ "queueName": args.queue });
    let record = change(&cluster, &args.job, |record| {
        (record.spec.overrides.queue_name != args.queue).then(|| wish.clone())
    })
    .await?;
    let to = match &args.queue {
        Some(queue) => format!("moved to queue {}", text::name(queue)),
        None => "goes back to the queue that it names".to_owned(),
    };
    let has_nodes = if record.is_under_way() {
        "; it has nodes, and stays in its queue until it has none"
    } else {
        ""
    };
    console.print(&format!("{} {to}{has_nodes}\n", record.shown()))?;
    Ok(DONE)
}

/// Returns an error that names the queues, if there is none of this name. A user without permission
/// to read queues gets a note, and the queue is taken on trust: Fluxqueue refuses the job if it
/// does not exist.
pub(crate) async fn queue_exists(
    cluster: &Cluster,
    (option, queue): (&'static str, &str),
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    check_name(queue).context(option).map_err(usage)?;
    let found: anyhow::Result<Option<Value>> = cluster.get(Resource::FLUX_QUEUE, None, queue).await;
    match found {
        Err(error) => {
            console.note(&format!("Whether queue {queue} exists is not known: {}", said(&error)));
            return Ok(());
        }
        Ok(Some(_)) => return Ok(()),
        Ok(None) if queue == QUEUE_DEFAULT => return Ok(()),
        Ok(None) => {}
    }
    let listed =
        cluster.list(Resource::FLUX_QUEUE, &Selection::default(), QUEUES_NAMED_MAX).await?;
    let mut names: Vec<String> = listed
        .items
        .iter()
        .map(|raw| text::name(&Record::read(raw).metadata.name).into_owned())
        .collect();
    names.push(QUEUE_DEFAULT.to_owned());
    names.sort();
    names.dedup();
    bail!("{option}: there is no fluxqueue {queue}; there are {}", names.join(", "))
}

/// Changes how long a job may run.
pub(crate) async fn walltime(
    connection: &Connection,
    args: WalltimeArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    plan_for(&cluster, &args, console).await
}

/// Changes how long a job may run, and says if Kubernetes ends it before that time is over.
async fn plan_for(
    cluster: &Cluster,
    args: &WalltimeArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let seconds = args.time.map(i64::try_from).transpose().context("the time is too long")?;
    let wish = json!({ "walltimeSeconds": seconds });
    let record = change(cluster, &args.job, |record| {
        (record.spec.overrides.walltime_seconds != seconds).then(|| wish.clone())
    })
    .await?;
    let to = match seconds {
        Some(seconds) => format!("may run for {}", slurm(seconds)),
        None => "may run for the time that it states itself".to_owned(),
    };
    console
        .print(&format!("{} {to}; Fluxqueue plans with that, and ends no job\n", record.shown()))?;
    if let Some(seconds) = seconds
        && let Some(deadline) = deadline(cluster, &record).await.filter(|it| *it < seconds)
    {
        console.note(&format!(
            "Kubernetes ends {} after {}, before that time is over: activeDeadlineSeconds",
            record.shown(),
            slurm(deadline)
        ));
    }
    Ok(DONE)
}

/// Returns the time in seconds after which Kubernetes ends a job, if there is one that the user may
/// read.
async fn deadline(cluster: &Cluster, record: &Record) -> Option<i64> {
    let workload = &record.spec.workload_ref;
    if workload.kind != "Job" {
        let pods = pods_of(cluster, record).await.ok()?;
        return pods.iter().filter_map(|pod| pod.spec.active_deadline_seconds).min();
    }
    // Its pods may not be there yet.
    let namespace = Some(record.metadata.namespace.as_str());
    let job: Option<Value> = cluster.get(Resource::JOB, namespace, &workload.name).await.ok()?;
    let job = job?;
    let seconds = |path| job.pointer(path).and_then(Value::as_i64);
    // The time of a Job counts from its creation or release, whether its pods wait or run.
    let waited = record.status.start_time.is_none().then(|| {
        let since = job.pointer("/status/startTime")?.as_str()?.parse::<Timestamp>().ok()?;
        Some(Timestamp::now().duration_since(since).as_secs())
    });
    let of_job = seconds("/spec/activeDeadlineSeconds")
        .map(|deadline| (deadline - waited.flatten().unwrap_or(0)).max(0));
    let of_pods = seconds("/spec/template/spec/activeDeadlineSeconds");
    of_job.into_iter().chain(of_pods).min()
}

/// Applies an action to each of several jobs; a failure does not keep the other jobs from it.
/// Returns the largest exit code. If a name cannot be that of a job, nothing is done.
pub(crate) async fn each(
    jobs: &[String],
    console: &mut Console<'_>,
    mut act: impl AsyncFnMut(&str, &mut Console<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<u8> {
    for job in jobs {
        Wanted::parse(job)?;
    }
    let mut code = DONE;
    for job in jobs {
        if let Err(error) = act(job, console).await {
            console.error(&error);
            code = code.max(code_of(&error));
        }
    }
    Ok(code)
}

/// Changes the wishes of a job to those that `wish` returns; returns the FluxJob as it is then.
async fn change(
    cluster: &Cluster,
    job: &str,
    wish: impl Fn(&Record) -> Option<Value>,
) -> anyhow::Result<Record> {
    for _ in 0..ATTEMPTS {
        let record = find_record(cluster, job).await?;
        ensure!(
            !record.has_ended(),
            "{} in namespace {} has ended",
            record.shown(),
            text::name(&record.metadata.namespace)
        );
        let Some(overrides) = wish(&record) else { return Ok(record) };
        let meta = &record.metadata;
        let patch = json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
            "spec": { "overrides": overrides },
        });
        let written =
            cluster.merge(Resource::FLUX_JOB, Some(&meta.namespace), &meta.name, &patch).await?;
        if let Some(answer) = written {
            return Ok(Record::read(serde_json::from_str(&answer)?));
        }
    }
    bail!("job {}: it was changed by others {ATTEMPTS} times in a row", text::quoted(job))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::cluster_of;
    use crate::console::Look;

    fn wishes(value: Value) -> Overrides {
        serde_json::from_value(value).unwrap()
    }

    #[tokio::test]
    async fn one_wrong_name_among_several_jobs_is_wrong_usage() {
        let codes = async |jobs: &[&str]| {
            let jobs: Vec<String> = jobs.iter().map(|job| (*job).to_owned()).collect();
            let (input, sink) = (std::io::empty(), std::io::sink);
            let mut console = Console::new(input, sink(), sink(), Look::plain());
            let mut tried = 0;
            let ended = each(&jobs, &mut console, async |_, _| {
                tried += 1;
                bail!("there is no such job")
            })
            .await;
            (ended.unwrap_or_else(|error| code_of(&error)), tried)
        };
        assert_eq!(codes(&["a", "job/b"]).await, (1, 2));
        assert_eq!(codes(&["node/a", "b"]).await, (2, 0));
        assert_eq!(codes(&["a", "job/b c"]).await, (2, 0));
    }

    #[test]
    fn a_hold_without_a_reason_keeps_the_reason_that_is_there() {
        let before = wishes(json!({ "holds": [{ "by": "ann", "reason": "audit" }] }));
        assert_eq!(holds_with(&before, "ann", ""), None);
        assert_eq!(
            holds_with(&before, "ann", "inventory"),
            Some(json!({ "holds": [{ "by": "ann", "reason": "inventory" }] }))
        );
    }

    #[tokio::test]
    async fn a_walltime_beyond_the_deadline_of_a_job_is_said_to_be() {
        let record = json!({
            "metadata": { "name": "a-job-1", "namespace": "lab" },
            "spec": { "workloadRef": { "kind": "Job", "name": "a", "uid": "u" } },
        });
        let said = async |time: u64, spec: Value| {
            let records = "/apis/jobs.converged-computing.org/v1alpha1/namespaces/lab/fluxjobs";
            let cluster = cluster_of(&[
                (records, json!({ "items": [record] })),
                (&format!("{records}/a-job-1"), record.clone()),
                ("/apis/batch/v1/namespaces/lab/jobs/a", json!({ "spec": spec })),
            ]);
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut console = Console::new(std::io::empty(), &mut out, &mut err, Look::plain());
            let args = WalltimeArgs { job: "a".to_owned(), time: Some(time), reset: false };
            assert_eq!(plan_for(&cluster, &args, &mut console).await.unwrap(), DONE);
            drop(console);
            assert!(out.starts_with(b"job/a may run for "));
            String::from_utf8(err).unwrap()
        };
        let of_pods = json!({ "template": { "spec": { "activeDeadlineSeconds": 1800 } } });
        let warning = "Kubernetes ends job/a after 30:00, before that time is over: \
                       activeDeadlineSeconds\n";
        assert_eq!(said(2700, of_pods.clone()).await, warning);
        assert_eq!(said(1800, of_pods).await, "");
        assert_eq!(said(2700, json!({ "activeDeadlineSeconds": 1800 })).await, warning);
        assert_eq!(said(2700, json!({})).await, "");
    }

    #[test]
    fn a_hold_takes_no_other_hold_away() {
        let before =
            wishes(json!({ "holds": [{ "by": "ann", "reason": "audit" }, { "by": "bob" }] }));
        assert_eq!(
            holds_with(&before, "bob", "later"),
            Some(json!({ "holds": [{ "by": "ann", "reason": "audit" }, { "by": "bob",
                    "reason": "later" }] }))
        );
        assert_eq!(holds_with(&before, "bob", ""), None, "it is held already");
    }

    #[test]
    fn a_release_lifts_the_own_hold_and_the_switch_for_all() {
        let before = wishes(json!({ "hold": true, "holds": [{ "by": "ann" }, { "by": "bob" }] }));
        assert_eq!(
            holds_without(&before, "bob", false),
            Some(json!({ "hold": null, "holds": [{ "by": "ann" }] }))
        );
        assert_eq!(
            holds_without(&before, "bob", true),
            Some(json!({ "hold": null, "holds": null }))
        );
        let of_ann = wishes(json!({ "holds": [{ "by": "ann" }] }));
        assert_eq!(holds_without(&of_ann, "bob", false), None);
    }
}
