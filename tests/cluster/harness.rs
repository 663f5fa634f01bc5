//! A control plane, a Fluxqueue process, and kubectl.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::kubernetes;
use crate::lists::Lists;

/// Longest time for anything that a test expects. Machines that run tests are slow and shared.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A control plane with nodes. It ends with this process.
pub(crate) struct ControlPlane {
    pub(crate) dir: PathBuf,
    up: Child,
    lists: Lists,
}

/// A running Fluxqueue. It is killed when the value is dropped, and when this process ends in any
/// way.
pub(crate) struct Fluxqueue {
    guard: Child,
    pid: String,
    log: PathBuf,
}

/// Script that runs a command, prints its process id, and kills it when standard input ends.
const GUARD: &str = r#"exec 3<&0; "$@" & pid=$!; echo $pid; { cat <&3 >&2; kill -9 $pid; } 2>/dev/null & wait $pid"#;

/// A namespace of a control plane, for one test.
pub(crate) struct Namespace<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) name: String,
}

/// Groups of nodes as the testbed's node file describes them.
pub(crate) const NODES: &str = "
groups:
- {namePrefix: small-, count: 4, cpu: '4', memory: 16Gi, pods: 110}
- {namePrefix: gpu-, count: 1, cpu: '8', memory: 64Gi, pods: 110, extended: {nvidia.com/gpu: 4}, labels: {accelerator: a100}}
- {namePrefix: closed-, count: 1, cpu: '8', memory: 64Gi, pods: 110, taints: [{key: dedicated, value: special, effect: NoSchedule}]}
";

/// True if Kubernetes makes a PodGroup for each Job, on every control plane of the tests.
pub(crate) fn each_job_has_a_group() -> bool {
    std::env::var_os("WORKLOAD_WITH_JOB").is_some()
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn testbed() -> PathBuf {
    kubernetes::testbed(root())
}

/// The control plane that most tests share, with one Fluxqueue.
pub(crate) fn shared() -> &'static ControlPlane {
    static SHARED: OnceLock<(ControlPlane, Mutex<Fluxqueue>)> = OnceLock::new();
    let (plane, _) = SHARED.get_or_init(|| {
        let plane = ControlPlane::start(NODES, &[]);
        let names = ["fluxqueue", "FluxionScheduler", "fluxnetes", "fluence"]
            .map(|name| format!("--scheduler-name={name}"));
        let fluxqueue = plane.fluxqueue(&names.each_ref().map(String::as_str));
        (plane, Mutex::new(fluxqueue))
    });
    plane
}

impl ControlPlane {
    /// Starts a control plane with these nodes, and installs Fluxqueue's CRD and RBAC.
    pub(crate) fn start(nodes: &str, flags: &[&str]) -> Self {
        let plane = Self::bare(nodes, flags);
        plane.install();
        plane
    }

    /// Starts a control plane with these nodes, and without anything of Fluxqueue.
    pub(crate) fn bare(nodes: &str, flags: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fluxqueue-cluster-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(&name);
        let file = std::env::temp_dir().join(format!("{name}.yaml"));
        let errors = std::env::temp_dir().join(format!("{name}.err"));
        std::fs::write(&file, nodes).expect("the node file");
        // Everything is as it was where each Job has a PodGroup of Kubernetes' own.
        let workloads = each_job_has_a_group().then_some("--workload-with-job");
        let mut up = Command::new(testbed())
            .args(["up", "--dir"])
            .arg(&dir)
            .arg("--nodes")
            .arg(&file)
            .args(workloads)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&errors).expect("a log file"))
            .spawn()
            .expect("the testbed starts");
        let mut lines = BufReader::new(up.stdout.take().expect("stdout is piped")).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.starts_with("ready")));
        assert!(ready, "the control plane did not come up: see {}", errors.display());
        // The rest of the output is read, so that it does not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        ControlPlane { dir, up, lists: Lists::default() }
    }

    /// Installs Fluxqueue's definitions, permissions and policies, or upgrades to them.
    pub(crate) fn install(&self) {
        let base = [
            "namespace",
            "rbac",
            "roles",
            "queue-readers",
            "admission-policy",
            "records-policy",
            "own-writes-policy",
            "required-policy",
        ]
        .map(|name| format!("base/{name}.yaml"));
        let definitions = ["fluxjobs", "fluxqueues"];
        let files = definitions.map(|name| format!("crds/{name}.yaml")).into_iter().chain(base);
        let manifests = root().join("manifests/chart/files");
        let files: Vec<String> =
            files.map(|file| manifests.join(file).display().to_string()).collect();
        let apply = ["apply", "--server-side"]
            .into_iter()
            .chain(files.iter().flat_map(|file| ["-f", file]));
        self.kubectl(&apply.collect::<Vec<_>>());
        let definitions =
            definitions.map(|name| format!("crd/{name}.jobs.converged-computing.org"));
        self.kubectl(&["wait", "--for=condition=Established", &definitions[0], &definitions[1]]);
    }

    /// Starts Fluxqueue under its own service account.
    pub(crate) fn fluxqueue(&self, flags: &[&str]) -> Fluxqueue {
        let kubeconfig = self.account("fluxqueue");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fluxqueue"));
        command
            .args(["run", "--metrics-bind-address=127.0.0.1:0", "--kubeconfig"])
            .arg(&kubeconfig);
        if !flags.iter().any(|flag| flag.starts_with("--leader-elect=")) {
            command.arg("--leader-elect=false");
        }
        command.args(flags);
        Fluxqueue::guarded(command, &self.dir.join("fluxqueue.log"))
    }

    /// Starts Fluxqueue with TLS. Returns its certificate and its port as well.
    pub(crate) fn secured_fluxqueue(&self, flags: &[&str]) -> (Fluxqueue, rcgen::Certificate, u16) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let (certificate, key) = (self.certificate(), self.dir.join("fluxqueue.key"));
        std::fs::write(&certificate, made.cert.pem()).expect("it is written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("it is written");
        let files = [
            format!("--tls-cert-file={}", certificate.display()),
            format!("--tls-private-key-file={}", key.display()),
        ];
        let fluxqueue = self.fluxqueue(&[&files.each_ref().map(String::as_str), flags].concat());
        (fluxqueue, made.cert, self.served_port())
    }

    /// Returns the port at which the first Fluxqueue of this control plane serves metrics.
    pub(crate) fn served_port(&self) -> u16 {
        until("its port", || {
            let log = std::fs::read_to_string(self.dir.join("fluxqueue.log")).ok()?;
            let (_, rest) = log.split_once("serving=127.0.0.1:")?;
            rest.split_whitespace().next()?.parse::<u16>().ok()
        })
    }

    /// Returns the path of the certificate of a Fluxqueue with TLS, as PEM.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.dir.join("fluxqueue.crt")
    }

    /// Makes a kubeconfig with the rights of one of our service accounts.
    pub(crate) fn account(&self, name: &str) -> PathBuf {
        let kubeconfig = self.dir.join(format!("{name}.kubeconfig"));
        let output = kubeconfig.display().to_string();
        let account =
            ["--namespace", "fluxqueue-system", "--serviceaccount", name, "--output", &output];
        self.testbed(&[&["kubeconfig"], &account[..]].concat());
        kubeconfig
    }

    /// Starts kubectl as the admin, with its standard output piped to the caller.
    pub(crate) fn kubectl_in_background(&self, args: &[&str]) -> Child {
        let mut command = Command::new(testbed());
        command
            .arg("kubectl")
            .arg("--kubeconfig")
            .arg(self.dir.join("admin.kubeconfig"))
            .args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("kubectl starts")
    }

    /// Runs kubectl as the admin, and returns its output. Panics if it fails.
    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        let (ok, out, err) = self.try_kubectl(args, "");
        assert!(ok, "kubectl {args:?}: {err}");
        out
    }

    /// Runs kubectl. Returns true if it succeeded, and its output on stdout and stderr.
    pub(crate) fn try_kubectl(&self, args: &[&str], stdin: &str) -> (bool, String, String) {
        let mut child = Command::new(testbed())
            .arg("kubectl")
            .arg("--kubeconfig")
            .arg(self.dir.join("admin.kubeconfig"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child
            .stdin
            .take()
            .expect("stdin is piped")
            .write_all(stdin.as_bytes())
            .expect("kubectl reads");
        let out = child.wait_with_output().expect("kubectl ends");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (out.status.success(), text(out.stdout), text(out.stderr))
    }

    /// Runs a command of the testbed itself.
    pub(crate) fn testbed(&self, args: &[&str]) -> String {
        let mut command = Command::new(testbed());
        let out = command
            .arg(args[0])
            .arg("--dir")
            .arg(&self.dir)
            .args(&args[1..])
            .output()
            .expect("the testbed runs");
        assert!(out.status.success(), "testbed {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Makes a new namespace.
    pub(crate) fn namespace(&self, prefix: &str) -> Namespace<'_> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{prefix}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.kubectl(&["create", "namespace", &name]);
        // Pods are refused until the namespace has its service account.
        until("the default service account", || {
            self.try_kubectl(&["get", "serviceaccount", "default", "-n", &name], "").0.then_some(())
        });
        Namespace { plane: self, name }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Closing stdin and SIGTERM both end the control plane. The test waits for the end, so that
        // the next test has the machine.
        let _ = Command::new("kill").arg(self.up.id().to_string()).status();
        let _ = self.up.wait();
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

impl Fluxqueue {
    /// Starts a command of the binary that ends with this process. Its output is appended to a
    /// file.
    pub(crate) fn guarded(command: Command, log: &Path) -> Self {
        let said =
            std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(command.get_program()).args(command.get_args());
        let mut guard = guard
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .expect("sh starts");
        let mut line = String::new();
        BufReader::new(guard.stdout.take().expect("stdout is piped"))
            .read_line(&mut line)
            .expect("sh prints");
        Fluxqueue { pid: line.trim().to_owned(), guard, log: log.to_owned() }
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.signal("-KILL");
        self.guard.wait().expect("it is gone");
    }

    /// Sends SIGTERM, and returns the exit status.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        self.signal("-TERM");
        // `wait` would close standard input first, and the guard would answer with SIGKILL.
        let stdin = self.guard.stdin.take();
        let status = self.guard.wait().expect("it ends");
        drop(stdin);
        status.code()
    }

    /// Returns the exit status once the process has ended by itself.
    pub(crate) fn exit_status(&mut self) -> Option<i32> {
        let status = until("Fluxqueue to end", || self.guard.try_wait().expect("it can be asked"));
        status.code()
    }

    /// Sends a signal, `-STOP` for example.
    pub(crate) fn signal(&self, signal: &str) {
        Command::new("kill").args([signal, &self.pid]).status().expect("kill runs");
    }

    /// Returns the resident memory of the process in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("it runs");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("the kernel counts it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Prints details for the reader of a failed test: the exit status of the process, if it had
    /// ended, and its last output.
    fn report(&mut self) {
        if let Ok(Some(status)) = self.guard.try_wait() {
            eprintln!(
                "this Fluxqueue had ended: {status} (128 and more: by the signal that is left)"
            );
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        eprintln!("the last lines of {}:", self.log.display());
        lines.iter().skip(lines.len().saturating_sub(20)).for_each(|line| eprintln!("  {line}"));
    }
}

impl Drop for Fluxqueue {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report();
        }
        // The guard ends the process when standard input is closed, as it is when the child is
        // dropped.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Makes a patch of a FluxJob's overrides.
pub(crate) fn overrides(wishes: &str) -> String {
    format!(r#"{{"spec": {{"overrides": {{{wishes}}}}}}}"#)
}

impl Namespace<'_> {
    /// Runs kubectl in this namespace.
    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        let mut all = args.to_vec();
        all.extend(["-n", &self.name]);
        self.plane.kubectl(&all)
    }

    /// Applies a manifest.
    pub(crate) fn apply(&self, manifest: &str) {
        let (ok, _, err) =
            self.plane.try_kubectl(&["create", "-n", &self.name, "-f", "-"], manifest);
        assert!(ok, "kubectl create: {err}\n{manifest}");
    }

    /// Returns the objects of a kind, as JSON, in order of names.
    pub(crate) fn list(&self, kind: &str) -> Vec<Value> {
        let kubeconfig = self.plane.dir.join("admin.kubeconfig");
        self.plane.lists.of(&kubeconfig, &self.name, kind).unwrap_or_else(|| {
            let text = self.kubectl(&["get", kind, "-o", "json"]);
            let list: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
            list["items"].as_array().expect("a list").clone()
        })
    }

    /// Waits until `count` pods satisfy a condition, and returns them. No pod may fail it.
    pub(crate) fn pods(&self, count: usize, what: &str, is: impl Fn(&Value) -> bool) -> Vec<Value> {
        let description = format!("{count} pods {what} in {}", self.name);
        until(&description, || {
            let pods: Vec<Value> = self.list("pods").into_iter().filter(|pod| is(pod)).collect();
            (pods.len() == count).then_some(pods)
        })
    }

    /// Waits until `count` pods run.
    pub(crate) fn running(&self, count: usize) -> Vec<Value> {
        self.pods(count, "running", |pod| pod["status"]["phase"] == "Running")
    }

    /// Waits until `count` pods have succeeded.
    pub(crate) fn succeeded(&self, count: usize) -> Vec<Value> {
        self.pods(count, "succeeded", |pod| pod["status"]["phase"] == "Succeeded")
    }

    /// Waits until the one FluxJob of this workload satisfies a condition, and returns it.
    pub(crate) fn flux_job(
        &self,
        workload: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        until(&format!("FluxJob of {workload} {what}"), || {
            let jobs = self.list("fluxjobs");
            let mut of_it =
                jobs.into_iter().filter(|job| job["spec"]["workloadRef"]["name"] == workload);
            of_it.next().filter(|job| is(job))
        })
    }

    /// Waits until the FluxJob of this workload is in this state.
    pub(crate) fn state(&self, workload: &str, state: &str) -> Value {
        self.flux_job(workload, &format!("is {state}"), |job| job["status"]["state"] == state)
    }

    /// Sets overrides of a FluxJob as the admin. They are given as the fields in JSON.
    pub(crate) fn wish(&self, flux_job: &str, wishes: &str) {
        self.kubectl(&["patch", "fluxjob", flux_job, "--type=merge", "-p", &overrides(wishes)]);
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        // Running pods must not stand in the way of the next test. A failed test leaves them for
        // inspection.
        if !std::thread::panicking() {
            let _ =
                self.plane.try_kubectl(&["delete", "namespace", &self.name, "--wait=false"], "");
            let _ = self.plane.try_kubectl(
                &[
                    "delete",
                    "jobs,deployments,statefulsets,replicasets,pods",
                    "--all",
                    "--grace-period=0",
                    "--force",
                    "-n",
                    &self.name,
                ],
                "",
            );
        }
    }
}

/// Waits until there is an answer. Panics after [`PATIENCE`].
pub(crate) fn until<T>(what: &str, answer: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, answer)
}

/// Waits this long for an answer. Panics if there is none.
pub(crate) fn within<T>(
    patience: Duration,
    what: &str,
    mut answer: impl FnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = answer() {
            return found;
        }
        assert!(Instant::now() < end, "waited {patience:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(150));
    }
}

/// Returns the number of pods that the placement has on each node.
pub(crate) fn planned(record: &Value) -> BTreeMap<String, usize> {
    let status = spelt_out(&record["status"]);
    let mut nodes = BTreeMap::new();
    for (_, _, node) in fluxqueue_api::placement::expand(&status.placement).expect("it can be read")
    {
        *nodes.entry(node.to_string()).or_default() += 1;
    }
    nodes
}

/// Returns the nodes of the reservation in this status, as a hostlist.
pub(crate) fn reserved(status: &Value) -> Option<String> {
    Some(spelt_out(status).reservation?.nodes)
}

/// Returns a status with its lists of nodes spelt out.
fn spelt_out(status: &Value) -> fluxqueue_api::FluxJobStatus {
    let status: Option<_> = serde_json::from_value(status.clone()).expect("a status");
    let mut status: fluxqueue_api::FluxJobStatus = status.unwrap_or_default();
    fluxqueue_api::placement::spell_out(&mut status).expect("it can be read");
    status
}

/// Returns the node of a pod.
pub(crate) fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or("")
}

/// Makes a pod that sleeps. `seconds` may be `infinity`.
pub(crate) fn pod(name: &str, cpu: &str, seconds: &str, more: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {name}
{more}
spec:
  schedulerName: fluxqueue
  restartPolicy: Never
  containers:
  - {{name: main, image: busybox, command: [sleep, '{seconds}'], resources: {{requests: {{cpu: '{cpu}'}}}}}}
---"
    )
}

/// Makes a Job of pods that sleep.
pub(crate) fn job(name: &str, pods: u32, cpu: &str, seconds: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  parallelism: {pods}
  completions: {pods}
  completionMode: Indexed
  template:
    spec:
      schedulerName: fluxqueue
      restartPolicy: Never
      containers:
      - {{name: main, image: busybox, command: [sleep, '{seconds}'], resources: {{requests: {{cpu: '{cpu}'}}}}}}
---"
    )
}
