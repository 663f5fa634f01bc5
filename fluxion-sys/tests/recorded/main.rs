//! Sequences of calls to the C interface, and what upstream's library answered: return codes,
//! errno, all that is written, and whether there is an error text.
//!
//! The recordings (`capi.jsonl` and the files that it names) derive from upstream's test suite, so
//! they are not kept here. They are run where there are any: in the folder that the environment
//! variable `FLUXION_CONFORMANCE` names, or in `shared/conformance/upstream` beside the checkout.
#![allow(unsafe_code, reason = "calls the C functions")]

mod session;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use fluxion_sys::FunctionTable;
use serde_json::{Map, Value};
use session::Session;

/// The recordings that are answered otherwise on purpose, with the first call that is.
const ON_PURPOSE: [(&str, &str); 1] = [
    // The text of one context is shown by another; see docs/fluxion-compatibility.md.
    ("capi-119", "reapi_cli_get_err_msg"),
];

#[test]
fn calls_are_answered_as_upstream_does() {
    let Some(folder) = folder() else {
        // Not by a macro: what those print is shown of failed tests alone.
        std::io::stderr().write_all(NOT_RUN).expect("there is a standard error");
        return;
    };
    let table = FunctionTable::builtin();
    let recordings =
        std::fs::read_to_string(folder.join("capi.jsonl")).expect("capi.jsonl can be read");
    let (mut count, mut wrong) = (0, Vec::new());
    for line in recordings.lines().filter(|line| !line.is_empty()) {
        let recording: Value = serde_json::from_str(line).expect("a recording is JSON");
        count += 1;
        let difference = difference(&table, &recording, &folder);
        let is_meant = ON_PURPOSE.iter().find(|(id, _)| recording["id"] == *id);
        match (difference, is_meant) {
            (None, None) => {}
            (Some((function, _)), Some((_, meant))) if function == *meant => {}
            (Some((_, text)), _) => {
                wrong.push(format!("{} ({}): {text}", recording["id"], recording["title"]));
            }
            (None, Some((id, _))) => wrong.push(format!("{id} is answered as upstream does")),
        }
    }
    assert!(count > 0, "{} holds no recordings", folder.display());
    assert!(
        wrong.is_empty(),
        "{} of {count} are answered otherwise:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!(
        "{count} sequences were run, {} of them answered otherwise on purpose",
        ON_PURPOSE.len()
    );
}

const NOT_RUN: &[u8] =
    b"NOT RUN: FLUXION_CONFORMANCE names no folder with recorded calls of the C interface.\n";

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/conformance/upstream");
    let named = std::env::var_os("FLUXION_CONFORMANCE").map(PathBuf::from);
    named.or_else(|| beside.exists().then_some(beside))
}

/// The function of the first call that is answered otherwise than recorded, and both answers.
fn difference(table: &FunctionTable, recording: &Value, folder: &Path) -> Option<(String, String)> {
    let mut session = Session::new(table, folder, recording["auto_err"] != false);
    for (at, call) in recording["calls"].as_array().expect("calls").iter().enumerate() {
        let seen = session.perform(call);
        let wanted = call["expect"].as_object().expect("an expectation");
        if !is_same(wanted, &seen) {
            let (function, seen) = (call["fn"].as_str().expect("fn"), Value::Object(seen));
            let text = format!("call {at}, {function}: expected {}, got {seen}", call["expect"]);
            return Some((function.to_owned(), text));
        }
    }
    None
}

fn is_same(wanted: &Map<String, Value>, seen: &Map<String, Value>) -> bool {
    // Upstream failed without setting errno: any value will do.
    let any_errno =
        wanted.get("errno").is_some_and(|errno| errno == "0") && seen.contains_key("errno");
    // Of the text only whether there is one: ours has other words.
    let has_text =
        |answer: &Map<String, Value>| answer.get("err_msg").is_some_and(|text| text != "");
    wanted.get("rc") == seen.get("rc")
        && (any_errno || wanted.get("errno") == seen.get("errno"))
        && wanted.get("out") == seen.get("out")
        && has_text(wanted) == has_text(seen)
}
