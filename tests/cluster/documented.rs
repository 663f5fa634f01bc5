//! The commands in the documents, run as they stand.
//!
//! Bash runs each block of the language `sh` in these pages, and each command (`$ ...`) of the
//! language `console`; its output must be the one that the page shows ([`is_output`] says how far).
//! A comment in the line before a block, which readers of the rendered page do not see, says
//! otherwise:
//!
//! - `<!-- not run: REASON -->`: not here. The structure test counts these, and their number may
//!   only fall.
//! - `<!-- run with WORD=VALUE ... -->`: with these words of the block replaced.
//! - `<!-- run after: COMMAND -->`: after a command that the reader does not need.
//! - `<!-- file: PATH -->`: the block is this file, of any language.
//!
//! With `UPDATE_GOLDEN=1`, an output that differs is written into the page instead.
//!
//! A page is run from its top to its end, in a folder with the manifests, on a control plane of its
//! own. Its kubectl, helm and bash are real; kubelets are simulated, and the leader is reached at
//! its own address, since it has no pod there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kubectl_fluxqueue::{Console, Look, run};

use crate::harness::{ControlPlane, Fluxqueue, Namespace, PATIENCE, job, root, testbed, until};
use crate::newer;

mod output;
mod pages;

use output::is_output;

/// The arguments of `kubectl-fluxqueue`, with [`BETWEEN`] between them.
const ARGUMENTS: &str = "DOCUMENTED_ARGUMENTS";
/// The arguments by which the leader is reached, in the same form.
const LEADER: &str = "DOCUMENTED_LEADER";
const BETWEEN: char = '\u{1f}';
/// Commands of `kubectl fluxqueue` that ask the leader.
const ASK_LEADER: [&str; 4] = ["nodes", "queues", "when", "support-bundle"];
/// Commands that show the state of things, and are repeated until that is the expected one.
const SHOW: [&str; 8] = [
    "kubectl fluxqueue queue",
    "kubectl fluxqueue nodes",
    "kubectl fluxqueue why",
    "kubectl fluxqueue when",
    "kubectl fluxqueue show",
    "kubectl fluxqueue history",
    "kubectl get",
    "kubectl wait",
];
/// Environment variable that has pages get the real output.
const UPDATE: &str = "UPDATE_GOLDEN";
/// Most seconds that one block may take.
const BLOCK_SECS_MAX: u32 = 150;

/// A block of a page.
#[derive(Debug, PartialEq, Eq)]
struct Block<'a> {
    /// The line of its fence, from 1.
    line: usize,
    language: &'a str,
    text: String,
    /// The comments before it.
    marks: Vec<&'a str>,
}

impl Block<'_> {
    /// Returns the rest of the comment that begins with this word.
    fn mark(&self, word: &str) -> Option<&str> {
        self.marks.iter().find_map(|mark| mark.strip_prefix(word)).map(str::trim)
    }

    fn is_run(&self) -> bool {
        matches!(self.language, "sh" | "console")
    }
}

/// Reads the fenced blocks of a page. Panics at a comment that is none of the four.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut marks = Vec::new();
    let mut open: Option<(Block<'_>, usize)> = None;
    for (at, line) in page.lines().enumerate() {
        let trimmed = line.trim();
        if let Some((block, indent)) = &mut open {
            if trimmed == "```" {
                blocks.push(open.take().expect("it is open").0);
            } else {
                let (before, rest) = line.split_at(line.len().min(*indent));
                assert!(before.trim().is_empty(), "line {}: less indented than its fence", at + 1);
                block.text.push_str(rest);
                block.text.push('\n');
            }
        } else if let Some(language) = trimmed.strip_prefix("```") {
            let indent = line.len() - line.trim_start().len();
            let marks = std::mem::take(&mut marks);
            open = Some((Block { line: at + 1, language, text: String::new(), marks }, indent));
        } else if let Some(comment) = trimmed.strip_prefix("<!--") {
            let mark = comment.strip_suffix("-->").expect("a comment in one line").trim();
            let known = ["not run: ", "run with ", "run after: ", "file: "];
            assert!(known.iter().any(|it| mark.starts_with(it)), "line {}: {mark}", at + 1);
            marks.push(mark);
        } else {
            assert!(marks.is_empty(), "line {at}: a comment without its block");
            let is_code = line.starts_with("    ") && !line.trim_start().starts_with(['-', '*']);
            assert!(!is_code, "line {}: a block of code without a fence", at + 1);
        }
    }
    assert!(open.is_none() && marks.is_empty(), "the last block is not closed");
    blocks
}

/// A command of a `console` block, and the output that the page shows.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    command: String,
    output: Vec<String>,
}

fn commands(text: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            all.push(Shown { command: command.to_owned(), output: Vec::new() });
            continue;
        }
        let last = all.last_mut().expect("a console begins with a command");
        if last.command.ends_with('\\') && last.output.is_empty() {
            last.command.push('\n');
            last.command.push_str(line);
        } else {
            last.output.push(line.to_owned());
        }
    }
    all
}

/// A page while it is run.
struct Reader {
    page: &'static str,
    /// The folder in which commands run.
    dir: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    /// The namespace, which pages name without its number.
    namespace: String,
    /// The names in the page, and those that the API server has made.
    names: BTreeMap<String, String>,
}

impl Reader {
    /// Makes a folder with the manifests, and programs that reach this control plane.
    fn new(page: &'static str, ns: &Namespace<'_>) -> Self {
        let dir = ns.plane.dir.join("reader");
        let programs = ns.plane.dir.join("programs");
        for folder in [&dir, &programs] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        let traces = dir.join("tests/traces");
        std::fs::create_dir_all(dir.join("tests")).expect("a folder");
        let copy = Command::new("cp").arg("-r").arg(root().join("manifests")).arg(&dir).status();
        assert!(copy.expect("cp runs").success());
        program(
            &programs.join("kubectl"),
            &format!("exec '{}' kubectl \"$@\"", testbed().display()),
        );
        let this = std::env::current_exe().expect("this program");
        program(
            &programs.join("kubectl-fluxqueue"),
            &format!(
                "exec 3>&1\nIFS={BETWEEN}\nexport {ARGUMENTS}=\"$*\"\nexec '{}' --ignored --exact \
                 --nocapture documented::the_command >/dev/null",
                this.display()
            ),
        );
        symlink(root().join("tests/helm/bin/helm"), programs.join("helm")).expect("a link");
        program(
            &programs.join("fluxqueue"),
            &format!(
                "case \"$*\" in *--from-cluster*) IFS={BETWEEN}; set -- \"$@\" ${LEADER} \
                 --token \"$FLUXQUEUE_TOKEN\" ;; esac\nexec '{}' \"$@\"",
                env!("CARGO_BIN_EXE_fluxqueue")
            ),
        );
        symlink(root().join("tests/traces"), traces).expect("a link");
        let kubeconfig = ns.plane.dir.join("reader.kubeconfig");
        std::fs::copy(ns.plane.dir.join("admin.kubeconfig"), &kubeconfig).expect("it is copied");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [programs].into_iter().chain(std::env::split_paths(&path));
        let environment = vec![
            ("PATH", std::env::join_paths(path).expect("a path")),
            ("KUBECONFIG", kubeconfig.into()),
            ("HOME", dir.clone().into()),
            // Nothing is changed in an editor.
            ("KUBE_EDITOR", "true".into()),
        ];
        let namespace = ns.name.clone();
        let reader = Reader { page, dir, environment, namespace, names: BTreeMap::new() };
        let context = format!("kubectl config set-context --current --namespace={}", ns.name);
        let (ok, out, err) = reader.bash(&context);
        assert!(ok, "{out}{err}");
        reader
    }

    /// Lets commands reach this leader, as a ServiceAccount that may do everything.
    fn asks(&mut self, ns: &Namespace<'_>, port: u16) {
        ns.kubectl(&["create", "serviceaccount", "reader"]);
        let account = format!("--serviceaccount={}:reader", ns.name);
        let role = ["create", "clusterrolebinding", "reader", "--clusterrole=cluster-admin"];
        ns.plane.kubectl(&[&role[..], &[&account]].concat());
        let token = ns.kubectl(&["create", "token", "reader"]).trim().to_owned();
        let address = format!("--leader=https://127.0.0.1:{port}");
        let authority = format!("--leader-ca={}", ns.plane.certificate().display());
        self.environment.push(("FLUXQUEUE_TOKEN", token.into()));
        self.environment.push((LEADER, format!("{address}{BETWEEN}{authority}").into()));
    }

    /// Runs bash. Returns true if it succeeded, and its output on stdout and stderr.
    fn bash(&self, script: &str) -> (bool, String, String) {
        let mut bash = Command::new("timeout");
        bash.arg(BLOCK_SECS_MAX.to_string()).args(["bash", "-euo", "pipefail", "-c", script]);
        bash.current_dir(&self.dir).envs(self.environment.iter().cloned()).stdin(Stdio::null());
        let out = bash.output().expect("bash runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (out.status.success(), text(out.stdout), text(out.stderr))
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("it is written");
    }

    /// Runs all blocks of the page; returns the number of those that were run.
    fn read(&mut self) -> usize {
        let path = root().join(self.page);
        let page = std::fs::read_to_string(&path).expect("the page");
        let mut updated = page.clone();
        let mut ran = 0;
        for block in blocks(&page) {
            let at = format!("{}:{}", self.page, block.line);
            let begins = |word: &str| block.text.lines().any(|line| line.starts_with(word));
            assert!(block.is_run() || !(begins("$ ") || begins("kubectl ")), "{at}: is it sh?");
            if let Some(path) = block.mark("file: ") {
                self.file(path, &block.text);
                continue;
            }
            if !block.is_run() || block.mark("not run: ").is_some() {
                continue;
            }
            let mut text = block.text.clone();
            for pair in block.mark("run with ").unwrap_or_default().split_whitespace() {
                let (word, value) = pair.split_once('=').expect("WORD=VALUE");
                assert!(text.contains(word), "{at}: {word}");
                text = text.replace(word, value);
            }
            if let Some(command) = block.mark("run after: ") {
                let (ok, out, err) = self.bash(command);
                assert!(ok, "{at}: {command}\n{out}{err}");
            }
            match block.language {
                "sh" => self.run(&at, &text),
                _ => {
                    let mut session = String::new();
                    for shown in commands(&text) {
                        let output = self.show(&at, &shown);
                        let lines = [format!("$ {}", shown.command)].into_iter().chain(output);
                        lines.for_each(|line| session += &(line + "\n"));
                    }
                    updated = updated.replacen(&text, &session, 1);
                }
            }
            ran += 1;
        }
        if updated != page {
            std::fs::write(path, updated).expect("the page is written");
        }
        ran
    }

    fn run(&self, at: &str, text: &str) {
        let (ok, out, err) = self.bash(text);
        assert!(ok, "{at}: the block fails:\n{text}\n{out}{err}");
    }

    /// Runs a command of a console, and compares its output. Returns the output for the page.
    fn show(&mut self, at: &str, shown: &Shown) -> Vec<String> {
        let mut command = shown.command.clone();
        for (name, made) in &self.names {
            command = command.replace(name, made);
        }
        let mut last = String::new();
        let mut names = self.names.clone();
        let mut is_shown = || {
            // A terminal shows both outputs as they come.
            let (ok, text, _) = self.bash(&format!("exec 2>&1\n{command}"));
            let plain = self.namespace.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit());
            let text = text.replace(&self.namespace, plain);
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            let is_it = ok && is_output(&shown.output, &lines, &mut names);
            last = text;
            is_it
        };
        let is_repeated = SHOW.iter().any(|it| shown.command.starts_with(it));
        let is_updated = std::env::var_os(UPDATE).is_some();
        let end = Instant::now() + if is_updated { PATIENCE / 12 } else { PATIENCE };
        while !is_shown() {
            let is_late = !is_repeated || Instant::now() >= end;
            if is_late && is_updated {
                let names = self.names.iter();
                let text = names.fold(last, |text, (name, made)| text.replace(made, name));
                return text.lines().map(|line| line.trim_end().to_owned()).collect();
            }
            assert!(
                !is_late,
                "{at}: {command}\nthe page shows:\n{}\nand not:\n{last}\nthe first line that \
                 differs: {}",
                shown.output.join("\n"),
                first_difference(&shown.output, &last),
            );
            std::thread::sleep(Duration::from_millis(500));
        }
        self.names = names;
        if !is_repeated {
            // Jobs that are submitted within one second have no order but that of their names.
            std::thread::sleep(Duration::from_secs(1));
        }
        shown.output.clone()
    }
}

/// Returns the first line of a page that is another one in the output, with that.
fn first_difference(shown: &[String], last: &str) -> String {
    let real = last.lines().map(Some).chain(std::iter::repeat(None));
    let differs = |(shown, real): &(&String, Option<&str>)| {
        !real.is_some_and(|real| is_output(&[(*shown).clone()], &[real], &mut BTreeMap::new()))
    };
    let first = shown.iter().zip(real).find(differs);
    first.map_or_else(
        || "one that is too many".to_owned(),
        |(shown, real)| format!("`{shown}`, and not `{}`", real.unwrap_or("nothing")),
    )
}

/// Writes a script of sh that can be run.
fn program(path: &Path, text: &str) {
    let mut file = File::create(path).expect("a file");
    writeln!(file, "#!/bin/sh\n{text}").expect("it is written");
    file.set_permissions(std::fs::Permissions::from_mode(0o755)).expect("it is its owner's");
}

/// Not a test: the program `kubectl-fluxqueue` of the blocks, as it is compiled into this binary.
#[test]
#[ignore = "a program that other tests run"]
fn the_command() {
    let Some(words) = std::env::var_os(ARGUMENTS) else { return };
    let split = |words: OsString| -> Vec<OsString> {
        let text = words.into_string().expect("text");
        text.split(BETWEEN).filter(|word| !word.is_empty()).map(OsString::from).collect()
    };
    let mut words = split(words);
    if words.first().and_then(|word| word.to_str()).is_some_and(|it| ASK_LEADER.contains(&it))
        && let Some(leader) = std::env::var_os(LEADER)
    {
        words.splice(1..1, split(leader));
    }
    words.insert(0, "kubectl-fluxqueue".into());
    // Standard output has the lines of the framework of tests, which are none of the command.
    let out = File::options().write(true).open("/proc/self/fd/3").expect("the output");
    let mut console = Console::new(std::io::stdin(), out, std::io::stderr(), Look::plain());
    let code = run(words, &mut console);
    std::process::exit(code.into());
}

/// The nodes of all pages but that for operators.
const NODES: &str = "groups:\n- {namePrefix: n-, count: 6, cpu: '16', memory: 64Gi, pods: 110}\n";

/// Scripts that the pages submit and do not show.
const SCRIPTS: [(&str, &str); 2] = [
    ("train.sh", "#!/bin/sh\n#FLUXQUEUE --image=busybox\nsleep infinity\n"),
    ("plot.sh", "#!/bin/sh\n#FLUXQUEUE --image=busybox\nsleep infinity\n"),
];

/// A job of pods that take most of a node each, with an hour to run.
fn hour(name: &str, pods: u32, seconds: &str) -> String {
    let walltime = "metadata: {annotations: {fluxqueue/walltime: 1h}, name: ";
    job(name, pods, "12", seconds).replace("metadata: {name: ", walltime)
}

/// Runs the blocks of a page for users, in a namespace with these jobs, each in its state.
fn read_with(page: &'static str, jobs: &[(String, &str, &str)], blocks: usize) {
    read_on(&ControlPlane::start(NODES, &[]), page, jobs, &[], blocks);
}

/// Does the same on this control plane, in a folder that has these files too.
fn read_on(
    plane: &ControlPlane,
    page: &'static str,
    jobs: &[(String, &str, &str)],
    files: &[(&str, String)],
    blocks: usize,
) {
    let (_fluxqueue, _, port) = plane.secured_fluxqueue(&[]);
    // Jobs that are there before it takes them up start together, and pods by themselves first.
    until("its first lists", || {
        let log = std::fs::read_to_string(plane.dir.join("fluxqueue.log")).ok()?;
        log.contains("the first lists have been received").then_some(())
    });
    let ns = plane.namespace("lab");
    for (job, name, state) in jobs {
        ns.apply(job);
        ns.state(name, state);
    }
    let mut reader = Reader::new(page, &ns);
    reader.asks(&ns, port);
    for (path, text) in SCRIPTS {
        reader.file(path, text);
    }
    let two = hour("two", 2, "1");
    reader.file("job.yaml", &two);
    for (path, text) in files {
        reader.file(path, text);
    }
    assert_eq!(reader.read(), blocks, "the number of blocks that are run");
}

#[test]
fn the_session_of_the_readme_is_as_it_says() {
    read_with("README.md", &[], 2);
}

#[test]
fn the_commands_for_users_of_slurm_do_what_they_say() {
    let jobs = [
        (hour("runs", 3, "infinity"), "runs", "Running"),
        (hour("first", 1, "1"), "first", "Completed"),
        // It needs all nodes, so only one set of nodes can be promised to it.
        (hour("later", 6, "1"), "later", "Pending"),
    ];
    read_with("docs/slurm.md", &jobs, 10);
}

#[test]
fn nodes_are_divided_as_the_page_on_sharing_them_says() {
    read_with("docs/sharing-nodes.md", &[], 1);
}

#[test]
fn the_commands_in_the_page_on_the_command_do_what_they_say() {
    read_with("docs/command.md", &[(hour("train", 4, "infinity"), "train", "Running")], 3);
}

/// Gives Fluxqueue's own pods a program that lasts: their image is not there.
const LASTING: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: lasting}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: fluxqueue-system}}
    resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  matchConditions: [{name: lasts, expression: object.spec.restartPolicy == 'Always'}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{metadata: Object.metadata{annotations: {'testbed/run-seconds': '100000'}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: lasting}
spec: {policyName: lasting}
";

/// The page begins on a cluster without anything of Fluxqueue, and installs it. The process is one
/// of the administrator, since its ServiceAccount comes and goes meanwhile.
#[test]
fn an_operator_installs_upgrades_pauses_and_removes_as_the_page_says() {
    if newer::is_left_out(
        "documented::an_operator_installs_upgrades_pauses_and_removes_as_the_page_says",
    ) {
        return;
    }
    let plane = ControlPlane::bare(NODES, &["--kube-scheduler"]);
    let (ok, _, err) = plane.try_kubectl(&["create", "-f", "-"], LASTING);
    assert!(ok, "{err}");
    let mut process = Command::new(env!("CARGO_BIN_EXE_fluxqueue"));
    process.args(["run", "--metrics-bind-address=127.0.0.1:0", "--leader-elect=false"]);
    process.arg("--kubeconfig").arg(plane.dir.join("admin.kubeconfig"));
    let _fluxqueue = Fluxqueue::guarded(process, &plane.dir.join("fluxqueue.log"));
    let ns = plane.namespace("ops");
    assert_eq!(Reader::new("docs/operations.md", &ns).read(), 14, "blocks that are run");
}

#[test]
fn a_page_is_read_as_it_is_written() {
    let page = "# A\n\n<!-- run with A=b -->\n<!-- run after: true -->\n```sh\nx \\\n  A\n```\n\
                1. b\n\n   ```console\n   $ one \\\n     two\n   three\n   ```\n";
    let found = blocks(page);
    assert_eq!(found[0].mark("run with "), Some("A=b"));
    assert_eq!(found[0].mark("run after: "), Some("true"));
    assert_eq!((found[0].line, &*found[0].text), (5, "x \\\n  A\n"));
    let shown = Shown { command: "one \\\n  two".to_owned(), output: vec!["three".to_owned()] };
    assert_eq!(commands(&found[1].text), [shown]);
    for bad in
        ["<!-- not run -->\n```sh\n```\n", "<!-- not run: x -->\ntext\n", "```sh\n", "a\n\n    b\n"]
    {
        assert!(std::panic::catch_unwind(|| blocks(bad).len()).is_err(), "{bad}");
    }
}
