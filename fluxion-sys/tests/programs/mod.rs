//! C programs that are linked with the shared library as one is that was written for Fluxion: by
//! `-lreapi_cli`.
#![allow(dead_code, reason = "shared by tests that need different parts")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Compiles `tests/{name}.c`, links it with the library, and runs it.
pub(crate) fn run(name: &str, library: &Path) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs").join(name);
    std::fs::create_dir_all(&directory).expect("it can be made");
    put(library, &directory);
    let program = directory.join("program");
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let compiler = cc::Build::new()
        .target(&host)
        .host(&host)
        .opt_level(1)
        .cargo_metadata(false)
        .get_compiler();
    let build = Command::new(compiler.path())
        .args([
            "-std=c11",
            "-D_POSIX_C_SOURCE=200809L",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-g",
        ])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join("tests").join(name).with_extension("c"))
        .arg("-L")
        .arg(&directory)
        .arg("-lreapi_cli")
        .arg(format!("-Wl,-rpath,{}", directory.display()))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("there is a C compiler");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    // Cargo names its own directories there, and the loader would take another build of the library
    // from them before it looks beside the program.
    Command::new(&program).env_remove("LD_LIBRARY_PATH").output().expect("the program starts")
}

/// Puts the library where a program finds it that was linked by `-lreapi_cli`, or that was linked
/// with upstream's: under its own name, with a link of the other.
pub(crate) fn put(library: &Path, directory: &Path) {
    std::fs::copy(library, directory.join("libfluxion_sys.so")).expect("it can be copied");
    let link = directory.join("libreapi_cli.so");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink("libfluxion_sys.so", link).expect("it can be linked");
}

/// The library that cargo built with this test: beside it, or one directory up.
pub(crate) fn shared_library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let candidates =
        test.ancestors().skip(1).take(2).map(|directory| directory.join("libfluxion_sys.so"));
    let found: Vec<PathBuf> = candidates.filter(|path| path.exists()).collect();
    found.first().unwrap_or_else(|| panic!("no libfluxion_sys.so near {}", test.display())).clone()
}
