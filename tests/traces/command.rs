//! The command, run as users run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::plain::{Job, Policy, run};
use crate::random;

pub(crate) fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fluxqueue")).arg("simulate").args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A file that is removed when the value is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str, text: impl AsRef<[u8]>) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("fluxqueue-{}-{number}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a line of a trace, with the size in the field of requests or in that of allocations, and
/// with a walltime or without one.
fn line(job: &Job) -> String {
    let Job { number, submit, nodes, walltime, run } = job;
    let (allocated, requested) =
        if number % 2 == 0 { (-1, i64::try_from(*nodes).unwrap()) } else { (3, -1) };
    let allocated = if requested == -1 { i64::try_from(*nodes).unwrap() } else { allocated };
    let walltime = if walltime == run { "-1".to_owned() } else { walltime.to_string() };
    format!(
        "{number} {submit} -1 {run} {allocated} -1 -1 {requested} {walltime} -1 1 -1 -1 -1 -1 -1 -1 -1\n"
    )
}

#[test]
fn csv_is_what_the_plain_simulator_says() {
    let cases: [(&[&str], Policy); 4] = [
        (&["--policy", "fcfs"], Policy::Fcfs),
        (&[], Policy::Backfill(1)),
        (&["--policy", "hybrid", "--reservation-depth", "3"], Policy::Backfill(3)),
        (&["--policy", "conservative"], Policy::Backfill(usize::MAX)),
    ];
    for (seed, (options, policy)) in (2_000..).zip(cases) {
        let (jobs, nodes) = random::trace(seed);
        let trace: String = jobs.iter().map(line).collect();
        let file = Scratch::new(&format!("{seed}.swf"), &trace);
        let nodes_option = nodes.to_string();
        let always = ["--trace", file.path(), "--nodes", &nodes_option, "--output", "csv"];
        let said = simulate(&[&always, options].concat());
        let ran = run(&jobs, nodes, policy);
        let lines = ran.iter().map(|(number, ran)| format!("{number},{},{}\n", ran.start, ran.end));
        let expected: String = std::iter::once("job,start,end\n".to_owned()).chain(lines).collect();
        assert_eq!(
            (text(&said.stdout), text(&said.stderr)),
            (expected, String::new()),
            "{options:?}"
        );
    }
}

#[test]
fn what_cannot_run_is_skipped_and_listed() {
    let trace = "1 0 -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n\
                 2 0 -1 0 2 -1 -1 2 20 -1 5 1 1 1 1 1 -1 -1\n\
                 3 0 -1 10 2 -1 -1 5 20 -1 1 1 1 1 1 1 -1 -1\n\
                 4 0 -1 10 -1 -1 -1 0 20 -1 1 1 1 1 1 1 -1 -1\n\
                 5 0 -1 -1 2 -1 -1 2 20 -1 5 1 1 1 1 1 -1 -1\n\
                 1 0 -1 10 2 -1 -1 2 20 -1 2 1 1 1 1 1 -1 -1\n\
                 6 -1 -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n";
    let file = Scratch::new("skipped.swf", trace);
    let said = simulate(&["--trace", file.path(), "--nodes", "4", "--output", "csv"]);
    assert_eq!(text(&said.stdout), "job,start,end\n1,0,10\n");
    let listed = "\
2 jobs are skipped: its run time is not more than 0: 2, 5
1 job is skipped: it is larger than 4 nodes: 3
1 job is skipped: its size is not more than 0: 4
1 job is skipped: its submit time is less than 0: 6
1 line is left out: it describes a part of a job (status 2 to 4) that has a line for the whole
";
    assert_eq!(text(&said.stderr), listed);
    let said = simulate(&["--trace", file.path(), "--nodes", "4"]);
    assert!(
        text(&said.stdout).ends_with(listed) && said.stderr.is_empty(),
        "{}",
        text(&said.stdout)
    );
}

/// Runs a trace with the oddities of archives: a name in Latin-1, parts without a whole, decimals,
/// fields of a site's own, a repeated number.
#[test]
fn what_archives_hold_is_run() {
    let trace = b"; Installation: Universit\xe9 de X; MaxProcs: 4\n\
                  7 5 -1 10 4 -1 -1 4 20 -1 1 1 1 1 1 1 -1 -1\n\
                  7 0 -1 10.5 4 -1 -1 4 20.0 -1 1 1 1 1 1 1 -1 -1\n\
                  7 5 -1 3 4 -1 -1 4 20 -1 1 1 1 1 1 1 -1 -1 17\n\
                  3 5 -1 10 4 -1 -1 4 20 -1 2 1 1 1 1 1 -1 -1\n";
    let file = Scratch::new("archive.swf", trace);
    let said = simulate(&["--trace", file.path(), "--nodes", "4", "--output", "csv"]);
    let expected = "job,start,end\n3,11,21\n7,21,31\n7,0,11\n7,31,34\n";
    assert_eq!((text(&said.stdout), text(&said.stderr)), (expected.to_owned(), String::new()));
}

#[test]
fn an_error_is_printed_and_nothing_else() {
    let bad =
        Scratch::new("bad.swf", "; MaxProcs: 4\n1 0 -1 soon 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n");
    let bare = Scratch::new("bare.swf", "1 0 -1 1 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n");
    let cases: [(&[&str], &str); 4] = [
        (&["--trace", bad.path()], ":2: field 4 (run time): \"soon\" is not a number"),
        (&["--trace", bare.path()], "--nodes is needed"),
        (
            &["--trace", bare.path(), "--nodes", "4", "--policy", "sjf"],
            "is not known; the policies are fcfs, easy, hybrid, conservative",
        ),
        (
            &["--trace", "/does/not/exist.swf", "--nodes", "4"],
            "/does/not/exist.swf: cannot be read",
        ),
    ];
    for (arguments, expected) in cases {
        let said = simulate(arguments);
        assert!(!said.status.success() && said.stdout.is_empty());
        assert!(text(&said.stderr).contains(expected), "{}", text(&said.stderr));
    }
}

/// Runs the commands of the pages, and compares the output with that on the page.
#[test]
fn the_pages_tell_the_truth() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in ["docs/simulate.md", "docs/internals/backfill.md"] {
        let text_of_page = std::fs::read_to_string(root.join(page)).unwrap();
        let mut blocks = text_of_page.split("```");
        let mut checked = 0;
        while let Some(block) = blocks.nth(1) {
            let Some(shown) = block.strip_prefix("console\n$ fluxqueue simulate ") else {
                continue;
            };
            let (command, expected) = shown.split_once('\n').unwrap();
            if command.contains("--from-cluster") {
                // The cluster tests run it (tests/cluster/documented.rs).
                continue;
            }
            let said = simulate_from_root(command);
            // A terminal shows both.
            let shown = format!("{}{}", text(&said.stderr), text(&said.stdout));
            assert_eq!(shown, expected, "{command}");
            checked += 1;
        }
        assert!(checked > 0, "{page}");
    }
}

/// Compares the charts of docs/internals/backfill.md with those that the program draws.
/// `UPDATE_GOLDEN=1` writes them.
#[test]
fn the_charts_of_three_policies_are_the_programs() {
    for policy in ["fcfs", "easy", "conservative"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("docs/internals/backfill-{policy}.svg"));
        let trace = "--trace docs/internals/backfill.swf --output svg --policy";
        let drawn = text(&simulate_from_root(&format!("{trace} {policy}")).stdout);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, drawn).unwrap();
            continue;
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(drawn == stored, "{}: UPDATE_GOLDEN=1 writes it", path.display());
    }
}

fn simulate_from_root(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fluxqueue"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("simulate")
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}
