//! The header and the shared library serve a C program: abi.c, compiled as C11 with all warnings.

mod programs;

#[test]
fn a_c_program_uses_the_library() {
    let run = programs::run("abi", &programs::shared_library());
    assert!(run.status.success(), "{:?}: {}", run.status, String::from_utf8_lossy(&run.stderr));
}
