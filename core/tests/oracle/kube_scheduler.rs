//! The plugins of kube-scheduler, in `testbed oracle`: a cluster goes in as a line, its answers
//! come out as one.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde::Deserialize;

use super::cases::Case;

/// Clusters that are asked and not answered.
const AHEAD: usize = 16;

/// What kube-scheduler finds.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    /// Nodes that take the pod, with their weighted scores by plugin if these were asked for.
    pub passing: BTreeMap<String, Option<BTreeMap<String, i64>>>,
    /// The others, with what the plugin says that rejects it first.
    pub rejected: BTreeMap<String, Vec<String>>,
    /// What it would write into the pod's condition, "" if a node takes it.
    pub text: String,
}

/// Asks about one case after the other, until `heed` has heard enough.
pub(crate) fn ask(
    cases: impl Iterator<Item = Case> + Send + 'static,
    mut heed: impl FnMut(&Case, &[Answer]) -> bool,
) {
    let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/testbed/bin/testbed");
    assert!(program.exists(), "run `make testbed` first: {} is missing", program.display());
    let mut oracle = Command::new(program)
        .arg("oracle")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the testbed's program starts");
    let mut questions = BufWriter::new(oracle.stdin.take().unwrap());
    let mut answers = BufReader::new(oracle.stdout.take().unwrap());
    let (sent, asked) = mpsc::sync_channel(AHEAD);
    let asking = thread::spawn(move || {
        for case in cases {
            // Whoever listens has heard enough, or the program is gone: the other end tells.
            if writeln!(questions, "{}", case.line()).and_then(|()| questions.flush()).is_err()
                || sent.send(case).is_err()
            {
                return;
            }
        }
    });
    let mut line = String::new();
    for case in &asked {
        line.clear();
        answers.read_line(&mut line).unwrap();
        assert!(
            !line.is_empty(),
            "`testbed oracle` is gone: see above; if it has no such command, run `make testbed`"
        );
        let read: Vec<Answer> = serde_json::from_str(&line).unwrap();
        assert_eq!(read.len(), case.questions.len());
        if !heed(&case, &read) {
            break;
        }
    }
    drop(asked);
    // What is still being answered is read by nobody.
    drop(answers);
    asking.join().unwrap();
    let _ = oracle.wait();
}
