//! The Go client of Fluxion builds with our header, and its own tests print with our library what
//! they print with upstream's.
//!
//! The client is not ours to keep. It comes from the folder that the environment variable
//! `FLUXION_GO_CLIENT` names (a checkout of flux-framework/fluxion-go), else through Go's module
//! proxy; where neither has it, the test says so and does nothing. Its tests are given
//! `"load_format": "jgf"`, which upstream's 0.54 wants as well. `go_client.txt` has what they print
//! with that, but for texts of errors, addresses and times: with either library two of them fail.

mod programs;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const MODULE: &str = "github.com/flux-framework/fluxion-go@a77ba46f0b7c";
const PACKAGES: [&str; 2] = ["./pkg/fluxcli", "./pkg/types"];
/// Lines of the output that report an answer, or how a test ended.
const LINES: [&str; 8] = [
    "jobid: ",
    "reserved: ",
    "allocated: ",
    "at: ",
    "error: ",
    "satisfied: ",
    "--- PASS: ",
    "--- FAIL: ",
];

#[test]
fn the_go_client_prints_what_it_prints_with_upstreams_library() {
    let Some(source) = source() else {
        // Not by a macro: what those print is shown of failed tests alone.
        std::io::stderr().write_all(NOT_RUN).expect("there is a standard error");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go_client");
    let _ = std::fs::remove_dir_all(&folder);
    let (client, library) = (folder.join("client"), folder.join("library"));
    copy(&source, &client);
    let test = client.join("pkg/fluxcli/reapi_cli_test.go");
    let text = std::fs::read_to_string(&test).expect("the client has tests");
    let with_format =
        text.replace(r#""{\"prune-filters\""#, r#""{\"load_format\": \"jgf\", \"prune-filters\""#);
    assert_ne!(text, with_format, "the client's tests have other options than they had");
    std::fs::write(&test, with_format).expect("it can be written");

    let bindings = library.join("resource/reapi/bindings/c");
    std::fs::create_dir_all(&bindings).expect("it can be made");
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/reapi_cli.h");
    let header = std::fs::read(header).expect("it is there");
    std::fs::write(bindings.join("reapi_cli.h"), &header).expect("it can be written");
    // Go's build cache knows the flags, but no header outside of a package.
    let mut digest = DefaultHasher::new();
    header.hash(&mut digest);
    programs::put(&programs::shared_library(), &library);
    let run = Command::new("go")
        // Vet refuses formats that the client has.
        .args(["test", "-vet=off", "-count=1", "-v"])
        .args(PACKAGES)
        .current_dir(&client)
        .env("GOFLAGS", "-mod=mod")
        .env("CGO_ENABLED", "1")
        .env("CGO_CFLAGS", format!("-I{} -DHEADER_DIGEST={:x}", library.display(), digest.finish()))
        .env("CGO_LDFLAGS", format!("-L{0} -lreapi_cli -Wl,-rpath,{0}", library.display()))
        .output()
        .expect("go was there a moment ago");
    let printed = String::from_utf8_lossy(&run.stdout);
    let told: Vec<&str> = printed.lines().filter_map(told).collect();
    assert_eq!(
        told.join("\n") + "\n",
        include_str!("go_client.txt"),
        "{printed}{}",
        String::from_utf8_lossy(&run.stderr)
    );
}

const NOT_RUN: &[u8] =
    b"NOT RUN: the Go client of Fluxion is not to be had. FLUXION_GO_CLIENT may name a checkout of it.\n";

/// A line that is compared, without the time that a test took.
fn told(line: &str) -> Option<&str> {
    let line = line.trim();
    let is_told = LINES.iter().any(|start| line.starts_with(start));
    is_told.then(|| line.split_once(" (").map_or(line, |(text, _)| text))
}

fn source() -> Option<PathBuf> {
    // Without Go there is nothing to be done with it.
    Command::new("go").arg("version").output().ok().filter(|output| output.status.success())?;
    if let Some(named) = std::env::var_os("FLUXION_GO_CLIENT") {
        return Some(named.into());
    }
    let fetched = Command::new("go")
        .args(["mod", "download", "-json", MODULE])
        .current_dir("/")
        .output()
        .ok()?;
    let answer: serde_json::Value = serde_json::from_slice(&fetched.stdout).ok()?;
    Some(answer["Dir"].as_str()?.into())
}

/// Copies a folder so that it can be written to; what Go fetches cannot.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("it can be made");
    for entry in std::fs::read_dir(from).expect("the client is there") {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::write(&target, std::fs::read(&path).expect("it can be read"))
                .expect("it can be written");
        }
    }
}
