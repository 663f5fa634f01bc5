//! No panic leaves the library, as it is shipped: a shared one, in the release profile.
//!
//! A panic is provoked inside every function in turn. The hook for that is compiled in with
//! `--cfg fluxion_defects` alone, and the library that has it lies in a directory of its own.
//! `make panics` runs this; it takes about a minute to build.

mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
#[ignore = "builds the library in the release profile"]
fn no_panic_leaves_the_shared_library() {
    // A panic that leaves a function ends the program by a signal.
    let run = programs::run("panics", &library());
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{:?}: {said}", run.status);
    assert_eq!(
        String::from_utf8_lossy(&run.stdout).trim(),
        format!("{} functions", FUNCTIONS.len())
    );
    for function in FUNCTIONS {
        assert!(
            said.contains(&format!("{function}: a defect, as wanted")),
            "nothing has panicked in {function}"
        );
    }
}

/// This library has defects on request; the shipped one has not.
#[test]
fn what_is_shipped_has_no_hook() {
    assert!(!mentions_hook(&programs::shared_library()));
}

/// Functions that look into a context, and so could meet a defect.
const FUNCTIONS: [&str; 32] = [
    "reapi_cli_initialize",
    "reapi_cli_clone",
    "reapi_cli_match",
    "reapi_cli_match_with_jobid",
    "reapi_cli_match_satisfy",
    "reapi_cli_update_allocate",
    "reapi_cli_cancel",
    "reapi_cli_partial_cancel",
    "reapi_cli_info",
    "reapi_cli_find",
    "reapi_cli_stat",
    "reapi_cli_add_subgraph",
    "reapi_cli_remove_subgraph",
    "reapi_cli_set_status",
    "reapi_cli_get_status",
    "reapi_cli_set_rank_status",
    "reapi_cli_get_rank_status",
    "reapi_cli_destroy",
    "fluxion_ext_set_time",
    "fluxion_ext_move",
    "fluxion_ext_begin_trial",
    "fluxion_ext_end_trial",
    "fluxion_ext_charge",
    "fluxion_ext_release",
    "fluxion_ext_resize",
    "fluxion_ext_remove_rank",
    "fluxion_ext_set_part",
    "fluxion_ext_parts",
    "fluxion_ext_eligible",
    "fluxion_ext_explain",
    "fluxion_ext_effort",
    "fluxion_ext_usage",
];

/// Builds the library with the hook.
fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("defects");
    let build = Command::new(env!("CARGO"))
        .args([
            "rustc",
            "--locked",
            "--release",
            "-p",
            "fluxion-sys",
            "--lib",
            "--crate-type",
            "cdylib",
            "--target-dir",
        ])
        .arg(&target)
        .args(["--", "--cfg", "fluxion_defects"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let library = target.join("release/libfluxion_sys.so");
    assert!(mentions_hook(&library));
    library
}

fn mentions_hook(library: &Path) -> bool {
    let bytes = std::fs::read(library).expect("the library can be read");
    bytes.windows(HOOK.len()).any(|window| window == HOOK)
}

const HOOK: &[u8] = b"FLUXION_DEFECT_IN";
