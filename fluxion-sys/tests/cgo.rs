//! The header and the shared library serve a Go program, which reaches them through cgo:
//! cgo/main.go.
//!
//! cgo sees no header but this one, takes names and widths of types from it, and reads errno behind
//! each call. The program writes one machine with the edges of its graph down, and both ways with
//! and without names: the answers are the same.

mod programs;

use std::path::Path;
use std::process::Command;

#[test]
fn a_go_program_uses_the_library_whichever_way_edges_are_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cgo");
    std::fs::create_dir_all(&folder).expect("it can be made");
    // The header lies beside the program: Go's build cache does not notice when one elsewhere
    // changes.
    for file in
        ["tests/cgo/go.mod", "tests/cgo/main.go", "include/reapi_cli.h"].map(|file| root.join(file))
    {
        std::fs::copy(&file, folder.join(file.file_name().expect("a file")))
            .expect("it can be copied");
    }
    programs::put(&programs::shared_library(), &folder);
    let run = Command::new("go")
        .args(["run", "."])
        .current_dir(&folder)
        .env("CGO_ENABLED", "1")
        .env("CGO_LDFLAGS", format!("-L{0} -lreapi_cli -Wl,-rpath,{0}", folder.display()))
        // The program needs no other module, so Go must not look for one.
        .env("GOPROXY", "off")
        .output()
        .expect("Go is there, as for the testbed");
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{printed}{}", String::from_utf8_lossy(&run.stderr));

    let answers = include_str!("cgo/answers.txt");
    let expected: String = ["down", "both ways, named", "both ways, without names"]
        .map(|edges| format!("== edges {edges}\n{answers}"))
        .concat();
    assert_eq!(printed, expected);
}
