//! `kubectl fluxqueue` on a control plane: the output, effects and refusals of each command.

use std::ffi::OsString;
use std::io::Write as _;
use std::time::Instant;

use kubectl_fluxqueue::{Console, Look, run};
use serde_json::Value;

use crate::harness::{ControlPlane, Namespace, each_job_has_a_group, job, node_of, pod, until};
use crate::promised::timed;
use crate::what_if::FOUR;

/// The outcome of a command.
struct Ran {
    code: u8,
    out: String,
    err: String,
}

/// Runs the command in this process, as the admin, in a namespace.
fn command(ns: &Namespace<'_>, args: &[&str]) -> Ran {
    command_with(ns, args, "", &Look::plain())
}

fn command_with(ns: &Namespace<'_>, args: &[&str], input: &str, look: &Look) -> Ran {
    let kubeconfig = ns.plane.dir.join("admin.kubeconfig");
    let fixed = ["kubectl-fluxqueue", "--namespace", &ns.name, "--kubeconfig"];
    let words = fixed.iter().map(OsString::from);
    let words = words.chain([kubeconfig.into_os_string()]).chain(args.iter().map(OsString::from));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(words, &mut Console::new(input.as_bytes(), &mut out, &mut err, look.clone()));
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran { code, out: text(out), err: text(err) }
}

/// Runs a command that is to succeed; returns its output.
pub(crate) fn done(ns: &Namespace<'_>, args: &[&str]) -> String {
    let ran = command(ns, args);
    assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
    ran.out
}

/// Runs a command that is to fail; returns its message.
pub(crate) fn failed(ns: &Namespace<'_>, args: &[&str]) -> String {
    let ran = command(ns, args);
    assert_eq!(ran.code, 1, "{args:?}: {}{}", ran.out, ran.err);
    ran.err
}

/// Runs a command with wrong arguments; returns its message.
fn misused(ns: &Namespace<'_>, args: &[&str]) -> String {
    let ran = command(ns, args);
    assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.out, ran.err);
    ran.err
}

/// The cells of the row of a job.
fn row<'a>(table: &'a str, job: &str) -> Vec<&'a str> {
    let cells = |line: &'a str| -> Vec<&str> {
        line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    };
    let mut rows = table.lines().map(cells);
    rows.find(|row| row.contains(&job)).unwrap_or_else(|| panic!("{job} in\n{table}"))
}

#[test]
fn jobs_are_listed_explained_held_moved_and_cancelled() {
    let plane = ControlPlane::start(FOUR, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("command");
    ns.apply(&job("runs", 4, "3", "infinity"));
    ns.apply(&pod("lone", "1", "infinity", ""));
    ns.state("runs", "Running");
    ns.apply(&job("waits", 4, "3", "0.2"));
    ns.flux_job("waits", "waits for room", |record| {
        record["status"]["blockedBy"][0]["reason"] == "InsufficientResources"
    });
    listed(&ns);
    explained(&ns);
    waited_for(&ns);
    wished(&ns);
    cancelled(&ns);
}

fn listed(ns: &Namespace<'_>) {
    let table = until("all three jobs", || {
        let table = done(ns, &["queue"]);
        (table.contains("job/waits") && table.contains("pod/lone")).then_some(table)
    });
    assert_eq!(row(&table, "job/runs")[1..5], ["default", "Running", "-", "4/4"], "{table}");
    let waits = row(&table, "job/waits");
    assert_eq!(waits[1..5], ["default", "Pending", "InsufficientResources", "0/4"], "{table}");
    assert_eq!(row(&table, "pod/lone")[2], "Running", "it has no FluxJob:\n{table}");
    // Jobs under way come first.
    assert!(table.find("job/runs") < table.find("job/waits"), "{table}");

    let only = done(ns, &["queue", "-t", "pending", "--no-headers"]);
    assert_eq!(only.lines().count(), 1, "{only}");
    assert_eq!(only, done(ns, &["queue", "-t", "PD,Held", "--no-headers"]));
    assert!(command(ns, &["queue", "-t", "Completed"]).err.contains("fluxqueue history"));
    let all = done(ns, &["queue", "-A", "-o", "wide"]);
    assert!(all.split_whitespace().take(2).eq(["NAMESPACE", "JOB"]), "{all}");
    assert_eq!(row(&all, "job/waits")[0], ns.name);
    let ran = command(ns, &["queue", "-o", "json"]);
    assert!(ran.err.contains("left out: 1"), "{}", ran.err);
    let json: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(json["items"].as_array().map(Vec::len), Some(2), "FluxJobs alone are objects");
    let names = done(ns, &["queue", "-o", "name", "-l", "fluxqueue/workload-name=waits"]);
    assert!(names.starts_with("fluxjob.jobs.converged-computing.org/waits-job-"), "{names}");
    assert!(done(ns, &["when", names.trim()]).starts_with("job/waits "), "{names}");
    assert_eq!(done(ns, &["queue", "-q", "elsewhere"]), "");
    assert!(command(ns, &["queue", "-q", "elsewhere"]).err.contains("No jobs found in namespace"));
    assert!(failed(ns, &["queue", "-l", "a b c"]).contains("listing fluxjobs in namespace"));
}

fn explained(ns: &Namespace<'_>) {
    let text = done(ns, &["show", "waits"]);
    for line in [
        "Job:          job/waits\n",
        "State:        Pending\n",
        "Size:         0 of its 4 pods have nodes\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let yaml = done(ns, &["show", "job/waits", "-o", "yaml"]);
    assert!(yaml.contains("kind: FluxJob") && yaml.contains("name: waits"), "{yaml}");
    let why = done(ns, &["why", "waits"]);
    assert!(why.starts_with("job/waits is Pending, place 1 in queue default.\n"), "{why}");
    assert!(why.contains("InsufficientResources\n  0/4 nodes are available"), "{why}");
    assert!(why.contains("What you can do: ask for fewer pods"), "{why}");
    assert!(why.contains("No end is known for job/runs"), "a name that users know: {why}");
    // A pod is as good as its job.
    let member = ns.list("pods").into_iter().find(|pod| {
        pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("waits-"))
    });
    let member = member.expect("a pod")["metadata"]["name"].as_str().expect("a name").to_owned();
    assert!(done(ns, &["why", &member]).starts_with("job/waits is Pending"));
    assert!(done(ns, &["why", "pod/lone"]).starts_with("pod/lone has node n-"));
    assert!(done(ns, &["when", "waits"]).starts_with("job/waits starts: no known date"));
    let missing = failed(ns, &["show", "nothing"]);
    assert!(missing.contains("nothing in namespace") && missing.contains("no pod"), "{missing}");
    assert!(
        misused(ns, &["show", "../../nodes"]).contains("the kind is one of"),
        "a path is no name"
    );
    // The kubelets of the testbed serve no logs: the pod is found, and named.
    let log = failed(ns, &["logs", "runs", "--index", "2"]);
    assert!(log.contains("reading the log of pod runs-2-"), "{log}");
    assert!(failed(ns, &["logs", "waits"]).contains("none of its pods has a node yet (4 wait)"));
}

fn waited_for(ns: &Namespace<'_>) {
    assert!(done(ns, &["wait", "runs", "--for", "started"]).contains("job/runs is Running"));
    let ran = command(ns, &["wait", "waits", "--timeout", "1s"]);
    assert_eq!(ran.code, 4, "the time is up: {}{}", ran.out, ran.err);
    assert!(ran.err.contains("job/waits is Pending, InsufficientResources"), "{}", ran.err);
}

fn wished(ns: &Namespace<'_>) {
    let edit = ["create", "rolebinding", "bob", "--clusterrole=edit", "--user=bob"];
    ns.kubectl(&edit);
    until("bob's role to count", || {
        (command(ns, &["hold", "waits", "--reason", "\u{1b}[2J audit", "--as", "bob"]).code == 0)
            .then_some(())
    });
    ns.state("waits", "Held");
    assert!(done(ns, &["show", "waits"]).contains(r"held by bob: \u{1b}[2J audit"));
    assert!(done(ns, &["hold", "waits"]).starts_with("job/waits held by "));
    // Each lifts the own hold, and that of another user only on request.
    let left = failed(ns, &["release", "waits"]);
    assert!(left.contains("job/waits is still held by bob"), "{left}");
    done(ns, &["hold", "waits"]);
    until("the policy to count", || {
        let ran = command(ns, &["release", "waits", "--all-holds", "--as", "bob"]);
        ran.err.contains("needs verb release on fluxjobs/hold").then_some(())
    });
    assert!(done(ns, &["release", "waits", "--all-holds"]).starts_with("job/waits released"));
    ns.state("waits", "Pending");

    let said = done(ns, &["walltime", "waits", "30"]);
    assert!(said.starts_with("job/waits may run for 30:00"), "minutes, as in Slurm: {said}");
    ns.flux_job("waits", "has the walltime", |job| job["status"]["walltimeSeconds"] == 1800);
    done(ns, &["walltime", "waits", "--reset"]);
    ns.flux_job("waits", "has none", |job| job["spec"]["overrides"]["walltimeSeconds"].is_null());

    let nowhere = failed(ns, &["move", "waits", "--queue", "nowhere"]);
    assert!(nowhere.contains("there is no fluxqueue nowhere; there are default"), "{nowhere}");
    let queue = "apiVersion: jobs.converged-computing.org/v1alpha1\nkind: FluxQueue\n\
                 metadata: {name: gpu}\nspec: {priority: 5}\n";
    assert!(ns.plane.try_kubectl(&["create", "-f", "-"], queue).0);
    assert!(done(ns, &["move", "waits", "-q", "gpu"]).contains("moved to queue gpu"));
    ns.flux_job("waits", "is in gpu", |job| job["status"]["queueName"] == "gpu");
    let queues = done(ns, &["queues", "gpu"]);
    assert_eq!(row(&queues, "gpu")[1..4], ["5", "-", "up"], "{queues}");
}

fn cancelled(ns: &Namespace<'_>) {
    let asks = failed(ns, &["cancel", "runs"]);
    assert!(
        asks.contains("no terminal to ask on") && asks.contains("job/runs in namespace"),
        "{asks}"
    );
    let look = Look { can_ask: true, ..Look::plain() };
    let ran = command_with(ns, &["cancel", "runs"], "n\n", &look);
    assert_eq!((ran.code, ns.list("jobs").len()), (1, 2), "{}", ran.err);
    assert!(
        ran.err.contains("Running, 4 of its 4 pods have nodes")
            && ran.err.contains("Delete? [y/N]")
    );
    let ran = command_with(ns, &["cancel", "runs", "lone"], "y\n", &look);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "job/runs deleted\npod/lone deleted\n"),
        "{}",
        ran.err
    );

    // The job that waited for its nodes starts, and is on record once it has ended.
    let ran = command(ns, &["wait", "waits"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "job/waits is Completed\n"), "{}", ran.err);
    assert_eq!(row(&done(ns, &["history"]), "job/waits")[1..3], ["gpu", "Completed"]);
    assert_eq!(done(ns, &["history", "--since", "1h", "-q", "elsewhere"]), "");
    assert!(failed(ns, &["cancel", "waits", "--yes"]).contains("job/waits has ended"));
    assert!(failed(ns, &["hold", "waits"]).contains("job/waits in namespace"));

    ns.kubectl(&["create", "deployment", "web", "--image=pause", "--replicas=1"]);
    let patch = r#"{"spec": {"template": {"spec": {"schedulerName": "fluxqueue"}}}}"#;
    ns.kubectl(&["patch", "deployment", "web", "-p", patch]);
    ns.state("web", "Running");
    let service = failed(ns, &["cancel", "web", "--yes"]);
    assert!(service.contains("kubectl scale deployment web --replicas=0"), "{service}");
}

#[test]
fn nothing_starts_while_fluxqueue_is_paused_also_under_the_next_leader() {
    let plane = ControlPlane::start(FOUR, &[]);
    let mut fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("paused");
    ns.apply(&job("before", 2, "1", "infinity"));
    ns.state("before", "Running");
    let said = done(&ns, &["pause", "--reason", "new switch"]);
    assert!(said.starts_with("Fluxqueue is paused by "), "{said}");
    assert!(failed(&ns, &["pause"]).contains("no change: Fluxqueue is paused by "));
    ns.apply(&job("after", 2, "1", "0.2"));
    let is_paused = |record: &Value| record["status"]["blockedBy"][0]["reason"] == "Paused";
    let record = ns.flux_job("after", "says Paused", is_paused);
    assert_eq!(record["status"]["state"], "Held", "{record}");
    let why = done(&ns, &["why", "after"]);
    assert!(
        why.contains("Paused\n  Fluxqueue is paused by ") && why.contains("new switch"),
        "{why}"
    );
    fluxqueue.kill();
    let _next = plane.fluxqueue(&[]);
    ns.apply(&job("later", 1, "1", "0.2"));
    ns.flux_job("later", "says Paused", is_paused);
    assert_eq!(ns.running(2).len(), 2, "what has begun goes on");
    assert!(done(&ns, &["resume"]).starts_with("Fluxqueue goes on. It was paused by "));
    assert_eq!(done(&ns, &["resume"]), "Fluxqueue is not paused\n");
    ns.state("after", "Completed");
    ns.state("later", "Completed");
}

#[test]
fn scripts_arrays_and_commands_are_submitted() {
    let plane = ControlPlane::start(FOUR, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("submit");
    let script = plane.dir.join("solve.sh");
    let text = "#!/bin/sh\n#SBATCH -N 2 --time=10 --output=out.txt\n\
                #FLUXQUEUE --image=busybox\nsleep 0.5\n";
    std::fs::write(&script, text).expect("it is written");
    let script = script.display().to_string();

    // kubectl could create the Job that is shown, and nothing is created.
    let yaml = done(&ns, &["submit", &script, "--dry-run", "-o", "yaml"]);
    assert!(yaml.contains("generateName: solve-"), "{yaml}");
    let (ok, _, err) =
        plane.try_kubectl(&["create", "-n", &ns.name, "--dry-run=server", "-f", "-"], &yaml);
    assert!(ok && ns.list("jobs").is_empty(), "{err}");

    let ran = command(&ns, &["submit", &script, "--wait"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("Submitted job solve-"), "{}", ran.out);
    assert!(ran.err.contains("solve.sh:2: --output is left out"), "{}", ran.err);
    let pods = ns.succeeded(2);
    assert_ne!(node_of(&pods[0]), node_of(&pods[1]), "two nodes");
    let record = ns.list("fluxjobs").remove(0);
    assert_eq!(record["status"]["walltimeSeconds"], 600, "{record}");

    // Tasks of an array start by themselves, and one that fails ends no other.
    let array =
        ["submit", "-a", "0-5%2", "-c", "4", "--image", "busybox", "--wait", "--", "sleep", "0.3"];
    let ran = command(&ns, &array);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    ns.succeeded(8);

    let failing = ["submit", "--wrap", "exit 3", "--image", "busybox", "--wait", "-J", "fails"];
    let ran = command(&ns, &failing);
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    let name =
        done(&ns, &["submit", "-n", "3", "--image", "busybox", "-o", "name", "--", "sleep", "0.1"]);
    assert!(name.starts_with("job.batch/sleep-"), "{name}");
    // Fluxqueue need not have seen the job yet, and tasks of an array are found by their Job.
    let array = ["submit", "-a", "0-1", "--image", "busybox", "-o", "name", "--", "sleep", "0.1"];
    for name in [name, done(&ns, &array)] {
        let ran = command(&ns, &["wait", name.trim()]);
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.out, ran.err);
    }
    unseen(&ns);

    let refused = misused(&ns, &["submit", "--image", "busybox", "-p", "no queue", "--", "true"]);
    let text = r#"--partition: "no queue" is not the name of a queue"#;
    assert!(refused.contains(text), "{refused}");
    let refused = failed(&ns, &["submit", "--image", "busybox", "-p", "nosuch", "--", "true"]);
    assert!(refused.contains("--partition") && refused.contains("nosuch"), "{refused}");
    assert!(misused(&ns, &["submit", "--", "true"]).contains("--image"));
}

/// A Job without pods is explained, and can be deleted beside one that is gone.
fn unseen(ns: &Namespace<'_>) {
    if each_job_has_a_group() {
        println!("left out: Kubernetes reports no Event for a PodGroup that cannot be created");
        return;
    }
    let class = ["submit", "--priority-class", "nosuch", "--image", "i", "-o", "name", "--", "a"];
    let name = done(ns, &class);
    let name = name.trim();
    let why = until("the reason", || {
        let why = failed(ns, &["why", name]);
        why.contains("its pods cannot be created").then_some(why)
    });
    assert!(why.contains("no PriorityClass with name nosuch"), "{why}");
    let ran = command(ns, &["wait", name, "--timeout", "1s"]);
    assert_eq!((ran.code, ran.err.contains("the time is up")), (4, true), "{}", ran.err);
    let ran = command(ns, &["cancel", "--yes", "job/gone", name]);
    let deleted = format!("{} deleted\n", name.replace("job.batch", "job"));
    assert_eq!((ran.code, ran.out), (1, deleted), "{}", ran.err);
    assert!(ran.err.contains("job/gone in namespace"), "{}", ran.err);
}

#[test]
fn the_leader_is_asked_when_a_job_would_start_and_how_full_the_machine_is() {
    let plane = ControlPlane::start(FOUR, &[]);
    let (_fluxqueue, _, port) = plane.secured_fluxqueue(&[]);
    let ns = plane.namespace("asked");
    ns.kubectl(&["create", "serviceaccount", "alice"]);
    let token = ns.kubectl(&["create", "token", "alice"]).trim().to_owned();
    let leader = format!("--leader=https://127.0.0.1:{port}");
    let authority = format!("--leader-ca={}", plane.certificate().display());
    let with = |args: &[&str]| -> Ran {
        command(&ns, &[args, &[leader.as_str(), authority.as_str(), "--token", &token]].concat())
    };
    // Where no process has a Lease, and without the role, the message names the missing object.
    let no_lease = failed(&ns, &["nodes"]);
    assert!(no_lease.contains("lease fluxqueue-system/fluxqueue does not exist"), "{no_lease}");
    let ran = with(&["nodes"]);
    assert!(ran.code == 1 && ran.err.contains("ClusterRole fluxqueue-what-if"), "{}", ran.err);
    let who = format!("--serviceaccount={}:alice", ns.name);
    plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "alice",
        "--clusterrole=fluxqueue-what-if",
        &who,
    ]);
    ns.kubectl(&["create", "rolebinding", "alice", "--clusterrole=edit", &who]);
    until("the role to count", || (with(&["nodes"]).code == 0).then_some(()));

    ns.apply(&timed("runs", 4, 300, 300.0));
    ns.state("runs", "Running");
    ns.apply(&timed("waits", 3, 300, 300.0));
    ns.flux_job("waits", "has a promise", |job| job["status"]["reservation"]["start"].is_string());
    let line = done(&ns, &["when", "waits"]);
    assert!(line.contains("promised: at that time at the latest"), "{line}");
    assert!(row(&done(&ns, &["queue"]), "job/waits")[6].contains(", in "), "a start with a date");

    let full = until("promises to be seen", || {
        let ran = with(&["nodes"]);
        (ran.code == 0 && ran.out.contains("alloc")).then_some(ran.out)
    });
    let nodes = row(&full, "alloc");
    assert_eq!(
        nodes[2..9],
        ["####################", "16", "16", "0", "0", "0", nodes[8]],
        "{full}"
    );
    assert!(nodes[8].contains(", in ") && nodes[9] == "n-[0-3]", "{full}");
    let json: Value = serde_json::from_str(&with(&["nodes", "-o", "json"]).out).expect("JSON");
    let promised = json["nodes"].as_array().expect("a list").iter();
    let promised = promised.filter(|node| node["promisedFrom"].is_string()).count();
    assert_eq!(promised, 3, "{json}");
    assert_eq!(with(&["nodes", "-o", "name"]).out, "node/n-0\nnode/n-1\nnode/n-2\nnode/n-3\n");
    assert!(with(&["nodes", "--resource", "moon"]).err.contains(r#"no node has "moon""#));

    let queues = with(&["queues"]);
    assert_eq!(row(&queues.out, "default")[3..6], ["up", "1", "1"], "{}{}", queues.out, queues.err);
    let without = command(&ns, &["queues"]);
    assert_eq!(row(&without.out, "default")[4..6], ["-", "-"], "{}", without.out);
    assert!(without.err.contains("How much waits in queue default is left out"), "{}", without.err);

    let manifest = plane.dir.join("next.yaml");
    std::fs::File::create(&manifest)
        .and_then(|mut file| file.write_all(timed("next", 4, 5, 5.0).as_bytes()))
        .expect("written");
    let next = with(&["when", "-f", &manifest.display().to_string()]);
    assert!(next.out.starts_with("job/next would start at "), "{}{}", next.out, next.err);
    assert!(next.out.contains("It would delay no other job."), "{}", next.out);
    let wrong = with(&["when", "-f", "/dev/null"]);
    assert!(wrong.err.contains("/dev/null: there is no object in it"), "{}", wrong.err);
    bundled(&ns, &with);
}

fn bundled(ns: &Namespace<'_>, with: &dyn Fn(&[&str]) -> Ran) {
    let stranger = ["create", "configmap", "stranger", "--from-literal=key=of-a-stranger"];
    ns.plane.kubectl(&[&["-n", "fluxqueue-system"], &stranger[..]].concat());
    for (name, more, is_named) in [("bundle", None, true), ("hidden", Some("--anonymous"), false)] {
        let file = ns.plane.dir.join(format!("{name}.tar.gz"));
        let path = file.display().to_string();
        let args: Vec<&str> = ["support-bundle", "--file", &path].into_iter().chain(more).collect();
        let ran = with(&args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        for part in ["fluxjobs.json\n", "nodes.json\n", "leader/outlook.json\n"] {
            assert!(ran.out.contains(part), "{}", ran.out);
        }
        let bytes = std::fs::read(&file).expect("a file");
        assert!(bytes.len() < 20 << 20);
        let mut text = String::new();
        let tar =
            std::process::Command::new("tar").args(["-xzOf", &path]).output().expect("tar runs");
        text.push_str(&String::from_utf8_lossy(&tar.stdout));
        assert!(text.contains("FluxJob"), "it has objects");
        assert_eq!(text.contains("\"waits\""), is_named, "{path}");
        assert!(!text.contains("of-a-stranger"), "it has objects of others in the namespace");
        assert!(!text.contains("managedFields") && !text.contains("eyJ"), "no managers, no tokens");
        let again = with(&args);
        assert!(again.code == 1 && again.err.contains("exists already"), "{}", again.err);
    }
}

/// No text of a tenant reaches the terminal as it is, and no command reads all at once.
#[test]
fn lists_of_thousands_come_in_pages_and_hostile_texts_escaped() {
    const JOBS: usize = 1_200;
    let plane = ControlPlane::start(FOUR, &[]);
    let ns = plane.namespace("many");
    let mut manifest = String::new();
    for at in 0..JOBS {
        use std::fmt::Write as _;
        let _ = writeln!(
            manifest,
            "---\napiVersion: jobs.converged-computing.org/v1alpha1\nkind: FluxJob\n\
             metadata: {{name: j{at}-job-0, labels: {{fluxqueue/workload-name: j{at}}}}}\n\
             spec: {{workloadRef: {{kind: Job, name: j{at}, uid: u{at}}}}}"
        );
    }
    ns.apply(&manifest);
    let hostile = r#"{"status": {"bound": 0, "total": 1, "state": "Pending",
        "queueName": "\u001b[31mq\u009b2J",
        "displayNodes": "n\u202e",
        "blockedBy": [{"reason": "Held", "message": "a\u001b]0;title\u0007b\r\nforged line"}]}}"#;
    ns.kubectl(&[
        "patch",
        "fluxjob",
        "j7-job-0",
        "--subresource=status",
        "--type=merge",
        "-p",
        hostile,
    ]);

    let begun = Instant::now();
    let table = done(&ns, &["queue", "-o", "wide"]);
    let took = begun.elapsed();
    assert_eq!(table.lines().count(), JOBS + 1);
    assert!(took.as_secs() < 10, "{took:?}");
    assert!(row(&table, "job/j7").contains(&r"\u{1b}[31mq\u{9b}2J"), "{table}");
    let one = [
        done(&ns, &["show", "j7"]),
        done(&ns, &["why", "j7"]),
        done(&ns, &["when", "j7"]),
        done(&ns, &["show", "j7", "-o", "json"]),
        done(&ns, &["show", "j7", "-o", "yaml"]),
        table,
    ];
    for text in one {
        let is_plain =
            |c: char| c == '\n' || !(c.is_control() || matches!(c, '\u{202a}'..='\u{202e}'));
        assert!(text.chars().all(is_plain) && !text.contains("\nforged"), "{text:?}");
    }
    let json: Value =
        serde_json::from_str(&done(&ns, &["show", "j7", "-o", "json"])).expect("JSON");
    assert_eq!(json["status"]["queueName"], "\u{1b}[31mq\u{9b}2J", "nothing is lost");
}
