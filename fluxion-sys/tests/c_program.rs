//! The header and the shared library serve C programs, compiled as C11 with all warnings: abi.c,
//! and as_upstream.c, which knows of nothing that upstream's headers do not have.

mod programs;

use std::process::Command;

#[test]
fn a_c_program_uses_the_library() {
    let run = programs::run("abi", &programs::shared_library());
    assert!(run.status.success(), "{:?}: {}", run.status, String::from_utf8_lossy(&run.stderr));
}

#[test]
fn a_program_that_was_written_for_upstream_compiles_and_runs() {
    let run = programs::run("as_upstream", &programs::shared_library());
    assert!(run.status.success(), "{:?}: {}", run.status, String::from_utf8_lossy(&run.stderr));
}

/// The library has a name of its own, and its own calls of exported symbols stay inside.
#[test]
fn the_library_is_told_apart_from_upstreams() {
    let dynamic = Command::new("readelf")
        .arg("-dW")
        .arg(programs::shared_library())
        .output()
        .expect("there is a readelf beside the C compiler");
    let dynamic = String::from_utf8_lossy(&dynamic.stdout);
    assert!(dynamic.contains("Library soname: [libfluxion_sys.so]"), "{dynamic}");
    let is_symbolic = |line: &str| line.contains("(FLAGS)") && line.contains("SYMBOLIC");
    assert!(dynamic.lines().any(is_symbolic), "{dynamic}");
}
