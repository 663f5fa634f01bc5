//! A client of `testbed oracle`, which runs kube-scheduler's plugins: a cluster goes in as one
//! line, and its answers come out as one line.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde::Deserialize;

use super::cases::Case;
use super::kubernetes;

/// Most clusters that are sent before the first of them has been answered.
const AHEAD: usize = 16;

/// kube-scheduler's answer to one question.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    /// Nodes that pass the filters, with their weighted scores by plugin if the question asks for
    /// them.
    pub passing: BTreeMap<String, Option<BTreeMap<String, i64>>>,
    /// Nodes that fail, with the messages of the first plugin that rejects them.
    pub rejected: BTreeMap<String, Vec<String>>,
    /// Message of the condition that kube-scheduler would write, "" if a node passes.
    pub text: String,
}

/// Sends one case after the other, until `heed` returns that it has enough answers.
pub(crate) fn ask(
    cases: impl Iterator<Item = Case> + Send + 'static,
    mut heed: impl FnMut(&Case, &[Answer]) -> bool,
) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut oracle = Command::new(kubernetes::testbed(&root))
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
            // A failed write means that the reader has stopped or the program has ended. The
            // reading end reports which.
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
    // Answers that are still under way are dropped.
    drop(answers);
    asking.join().unwrap();
    let _ = oracle.wait();
}
