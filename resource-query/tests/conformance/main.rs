//! What upstream answered, against what we answer, byte for byte.
//!
//! `random.json.gz` holds random graphs, jobspecs and command sequences of our own making, with the
//! answers that Fluxion's resource-query (0.54) gave. Cases of upstream's own test suite
//! (`cases.jsonl` and the files that it names) are run too where there are any: in the folder that
//! the environment variable `FLUXION_CONFORMANCE` names, or in `shared/conformance/upstream` beside
//! the checkout. Their inputs are not ours to keep here.
//!
//! Known differences stand in `differences.txt`, with their reasons. A case that is listed there
//! and passes is a failure as well, so the list stays true. `UPDATE_GOLDEN=1` writes the list
//! again, and keeps the reasons of what stays on it.

mod cases;
mod replay;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use cases::Corpus;

/// Q6 is among them, which nothing else pins.
#[test]
fn random_graphs_are_answered_as_upstream_does() {
    check("random", &Corpus::packed(include_bytes!("random.json.gz")));
}

#[test]
fn upstreams_own_tests_are_answered_as_upstream_does() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/conformance/upstream");
    let named = std::env::var_os("FLUXION_CONFORMANCE").map(PathBuf::from);
    match named.or_else(|| beside.exists().then_some(beside)) {
        Some(folder) => check("upstream", &Corpus::folder(&folder)),
        // Not by a macro: what those print is shown of failed tests alone.
        None => std::io::stderr().write_all(NOT_RUN).expect("there is a standard error"),
    }
}

const NOT_RUN: &[u8] =
    b"NOT RUN: FLUXION_CONFORMANCE names no folder with the cases of upstream's test suite.\n";

fn check(name: &str, corpus: &Corpus) {
    let failed = replay::all(corpus);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        rewrite(name, &failed);
        return;
    }
    let known = differences(name);
    let total = corpus.cases.len();
    let mut wrong = Vec::new();
    for (id, why) in &failed {
        if !known.contains_key(id) {
            wrong.push(format!("{id}: {why}"));
        }
    }
    for (id, reason) in &known {
        if !failed.contains_key(id) {
            wrong.push(format!("{id}: passes, but differences.txt says: {reason}"));
        }
    }
    println!("{name}: {} of {total} cases are answered as upstream does", total - failed.len());
    assert!(wrong.is_empty(), "{name}: {} unexpected:\n{}", wrong.len(), wrong.join("\n"));
}

fn list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/differences.txt")
}

/// Case and reason, of one corpus. A line is `corpus case reason`.
fn differences(name: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(list()).expect("differences.txt can be read");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let (corpus, case, reason) = (words.next()?, words.next()?, words.next()?);
            (corpus == name).then(|| (case.to_owned(), reason.to_owned()))
        })
        .collect()
}

fn rewrite(name: &str, failed: &BTreeMap<String, String>) {
    let known = differences(name);
    let text = std::fs::read_to_string(list()).expect("differences.txt can be read");
    let others = text.lines().filter(|line| !line.starts_with(&format!("{name} ")));
    let ours = failed.keys().map(|id| {
        let reason = known.get(id).map_or("not looked into yet", String::as_str);
        format!("{name} {id} {reason}")
    });
    let mut lines: Vec<String> = others.map(str::to_owned).chain(ours).collect();
    lines.push(String::new());
    std::fs::write(list(), lines.join("\n")).expect("differences.txt can be written");
}
