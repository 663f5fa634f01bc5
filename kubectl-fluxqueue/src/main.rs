//! The binary: hands arguments and standard streams to the library.

use std::process::ExitCode;

use kubectl_fluxqueue::{Console, run};

fn main() -> ExitCode {
    let code = run(std::env::args_os(), &mut Console::standard());
    ExitCode::from(code)
}
