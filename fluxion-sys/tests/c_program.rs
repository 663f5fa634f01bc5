//! The header and the shared library serve a C program: abi.c, compiled as C11 with all warnings, and linked as a program is
//! that was written for Fluxion.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_c_program_uses_the_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::copy(shared_library(), directory.join("libreapi_cli.so")).expect("it can be copied");
    let program = directory.join("abi");
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let compiler = cc::Build::new().target(&host).host(&host).opt_level(1).cargo_metadata(false).get_compiler();
    let build = Command::new(compiler.path())
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g"])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join("tests/abi.c"))
        .arg("-L")
        .arg(directory)
        .arg("-lreapi_cli")
        .arg(format!("-Wl,-rpath,{}", directory.display()))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("there is a C compiler");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let run = Command::new(&program).output().expect("the program starts");
    assert!(run.status.success(), "{:?}: {}", run.status, String::from_utf8_lossy(&run.stderr));
}

/// The library that cargo built with this test: beside it, or one directory up.
fn shared_library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let candidates = test.ancestors().skip(1).take(2).map(|directory| directory.join("libfluxion_sys.so"));
    let found: Vec<PathBuf> = candidates.filter(|path| path.exists()).collect();
    found.first().unwrap_or_else(|| panic!("no libfluxion_sys.so near {}", test.display())).clone()
}
