//! Fluxqueue on a shared library with Fluxion's interface: the project's own, with its extensions
//! and with them hidden, and upstream's, if the environment variable `FLUXION_LIBRARY` names one.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::harness::{ControlPlane, job, node_of, pod};

/// Returns the library that cargo has built for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("it has a path");
    let path = test.with_file_name("libfluxion_sys.so");
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// Makes a copy with hidden extensions: the linker's hash of a changed name does not match. The
/// copy is written only once, because a process dies if a file that it has mapped is overwritten.
fn plain_library() -> &'static Path {
    static COPY: LazyLock<PathBuf> = LazyLock::new(copy_without_extensions);
    &COPY
}

fn copy_without_extensions() -> PathBuf {
    let mut bytes = std::fs::read(library()).expect("it can be read");
    let (name, other) = (b"fluxion_ext_", b"fluxion_EXT_");
    let mut at = 0;
    while at + name.len() <= bytes.len() {
        if bytes[at..].starts_with(name) {
            bytes[at..at + name.len()].copy_from_slice(other);
        }
        at += 1;
    }
    let copy =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("plain-{}.so", std::process::id()));
    std::fs::write(&copy, bytes).expect("it can be written");
    copy
}

/// Message if there is no such library. It is written directly, because output of the print macros
/// appears for failed tests only.
const NOT_RUN: &[u8] = b"NOT RUN: FLUXION_LIBRARY names no libreapi_cli.so of upstream's.\n";

#[test]
fn a_library_without_extensions_places_whole_cores_and_refuses_the_rest() {
    places_whole_cores(plain_library());
    refuses_other_policies(plain_library());
}

#[test]
fn upstreams_library_places_whole_cores_and_refuses_the_rest() {
    let Some(library) = std::env::var_os("FLUXION_LIBRARY") else {
        std::io::stderr().write_all(NOT_RUN).expect("there is a standard error");
        return;
    };
    places_whole_cores(Path::new(&library));
    refuses_other_policies(Path::new(&library));
}

fn places_whole_cores(library: &Path) {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let flag = format!("--fluxion-library={}", library.display());
    let mut fluxqueue = plane.fluxqueue(&[&flag, "--queue-policy=fcfs"]);
    let ns = plane.namespace("library");
    // A daemon of 200m takes a core of its node, so seven cores are left.
    let daemon = pod("daemon", "200m", "infinity", "");
    ns.apply(
        &daemon
            .replace("schedulerName: fluxqueue", "schedulerName: somebody-else\n  nodeName: n-0"),
    );
    ns.running(1);
    // Five pods would fit by their amounts, but each takes two whole cores.
    ns.apply(&job("gang", 5, "1500m", "infinity"));
    let record = ns.state("gang", "Unsatisfiable");
    let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or("").to_owned();
    assert!(message.contains("ask for 10 cpu, 8 in all"), "{message}");
    ns.kubectl(&["delete", "job", "gang"]);
    ns.apply(&job("gang", 3, "1500m", "infinity"));
    let on_n0 = ns.running(4).iter().filter(|pod| node_of(pod) == "n-0").count();
    assert_eq!(on_n0, 2, "the daemon and one of the gang");
    ns.apply(&pod("last", "1", "2", ""));
    ns.apply(&pod("waits", "1", "infinity", ""));
    ns.apply(&pod("odd", "1", "1", "").replace("cpu: '1'", "cpu: '1', ephemeral-storage: 1Gi"));
    let record = ns.state("odd", "Refused");
    let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or("").to_owned();
    assert!(
        message.contains("requests[ephemeral-storage]: the Fluxion library in use"),
        "{message}"
    );
    ns.succeeded(1);
    ns.running(5);
    // The new process finds every placement again, and gives nothing twice.
    fluxqueue.kill();
    let _fluxqueue = plane.fluxqueue(&[&flag, "--queue-policy=fcfs"]);
    ns.apply(&pod("after", "3", "infinity", ""));
    ns.state("after", "Pending");
    ns.kubectl(&["delete", "job", "gang"]);
    ns.pods(1, "of the name after, running", |pod| {
        pod["metadata"]["name"] == "after" && pod["status"]["phase"] == "Running"
    });
}

#[test]
fn a_library_with_extensions_is_as_good_as_the_built_in_one() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 1, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&[&format!("--fluxion-library={}", library().display())]);
    let ns = plane.namespace("extended");
    ns.apply(&job("gang", 8, "500m", "infinity"));
    ns.running(8);
}

/// The process refuses to start, with the reason: such a library supports neither queue policies
/// that need reservations nor some orders of nodes.
fn refuses_other_policies(library: &Path) {
    let flag = format!("--fluxion-library={}", library.display());
    for (more, expected) in [
        (&[][..], "queuePolicy easy: this Fluxion library keeps no"),
        (&["--queue-policy=hybrid"], "queuePolicy hybrid: this Fluxion library keeps no"),
        (
            &["--queue-policy=conservative"],
            "queuePolicy conservative: this Fluxion library keeps no",
        ),
        (
            &["--queue-policy=fcfs", "--policy=binpack"],
            "policy binpack: this Fluxion library does not know it",
        ),
    ] {
        let out =
            Command::new(env!("CARGO_BIN_EXE_fluxqueue")).args(["run", &flag]).args(more).output();
        let out = out.expect("it runs");
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && message.contains(expected), "{more:?}: {message}");
    }
}

#[test]
fn a_library_that_cannot_be_used_is_said_at_the_start() {
    for (path, expected) in
        [("/nowhere/libreapi_cli.so", "opening /nowhere/libreapi_cli.so"), ("libc.so.6", "lacks")]
    {
        let flag = format!("--fluxion-library={path}");
        let out = Command::new(env!("CARGO_BIN_EXE_fluxqueue"))
            .args(["run", &flag])
            .output()
            .expect("it runs");
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && message.contains(expected), "{path}: {message}");
        assert!(message.contains("--fluxion-library"), "{message}");
    }
}
