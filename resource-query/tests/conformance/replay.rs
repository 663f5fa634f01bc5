//! Runs cases, and compares what comes out after masking what no two runs share.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cases::{Case, Corpus};

/// A case that takes longer hangs.
const TIME_MAX: Duration = Duration::from_mins(1);
/// Beginnings of lines that end in a time.
const TIMES: [&str; 5] = [
    "INFO: ELAPSE=",
    "INFO: Graph Load Time: ",
    "INFO: Min. Match Time: ",
    "INFO: Max. Match Time: ",
    "INFO: Avg. Match Time: ",
];
/// Beginnings of lines that end in steps of a walk: a property of an implementation, not of
/// its answer.
const COUNTS: [&str; 6] = [
    "INFO: PREORDER VISIT COUNT=",
    "INFO: POSTORDER VISIT COUNT=",
    "INFO: CANCEL PREORDER COUNT=",
    "INFO: CANCEL POSTORDER COUNT=",
    "INFO: PARTIAL CANCEL PREORDER COUNT=",
    "INFO: PARTIAL CANCEL POSTORDER COUNT=",
];

/// Runs all cases; those that are answered otherwise, with where they begin to differ.
pub(crate) fn all(corpus: &Corpus) -> BTreeMap<String, String> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(case) = corpus.cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = run(case, &corpus.folder) {
                        failed
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .insert(case.id.clone(), why);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn run(case: &Case, folder: &Path) -> Result<(), String> {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runs").join(&case.id);
    std::fs::create_dir_all(&scratch).map_err(|error| error.to_string())?;
    let [input, stdout, out] = ["in", "stdout", "out"].map(|name| scratch.join(name));
    let _ = std::fs::remove_file(&out);
    std::fs::write(&input, &case.stdin).map_err(|error| error.to_string())?;
    let file = |opened: std::io::Result<File>| opened.map_err(|error| error.to_string());
    let mut child = Command::new(env!("CARGO_BIN_EXE_resource-query"))
        .args(case.args.iter().map(|argument| argument.replace("{OUT}", &out.to_string_lossy())))
        .current_dir(folder)
        .stdin(file(File::open(&input))?)
        .stdout(file(File::create(&stdout))?)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if started.elapsed() > TIME_MAX {
            let _ = child.kill();
            let _ = child.wait();
            return Err("hangs".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let has_file = case.args.iter().any(|argument| argument.contains("{OUT}"));
    // A file that was not made is as good as an empty one.
    let answered = std::fs::read(if has_file { &out } else { &stdout }).unwrap_or_default();
    if let Some(difference) = difference(&masked(&case.expected), &masked(&answered)) {
        return Err(difference);
    }
    match status.code() {
        Some(code) if i64::from(code) == case.exit => Ok(()),
        code => Err(format!("ends with {code:?}, not with {}", case.exit)),
    }
}

fn masked(output: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(output).split('\n').map(mask).collect()
}

fn mask(line: &str) -> String {
    for start in TIMES.iter().chain(&COUNTS) {
        if line.starts_with(start) {
            return format!("{start}*");
        }
    }
    // A job of `list` or `info`: its last column is how long its match took.
    let is_job = ["INIT", "ALLOCATED", "RESERVED", "CANCELED", "ERROR"]
        .iter()
        .any(|state| line.contains(&format!(", {state}, ")));
    match line.rsplit_once(", ") {
        Some((start, _)) if is_job && line.starts_with("INFO: ") => format!("{start}, *"),
        _ => line.to_owned(),
    }
}

fn difference(expected: &[String], answered: &[String]) -> Option<String> {
    let at = (0..expected.len().max(answered.len()))
        .find(|at| expected.get(*at) != answered.get(*at))?;
    let shown = |lines: &[String]| {
        lines.get(at).map_or("the end".to_owned(), |line| line.chars().take(120).collect())
    };
    Some(format!("line {}:\n  - {}\n  + {}", at + 1, shown(expected), shown(answered)))
}
