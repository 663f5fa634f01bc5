//! The `fluxqueue` binary.

use std::process::ExitCode;

use clap::Parser;
use fluxqueue::cli::Cli;

fn main() -> ExitCode {
    end_at_panic();
    // This comes before any connection: rustls would otherwise have to guess among the providers
    // that it was built with.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("error: another TLS provider is installed already");
        return ExitCode::FAILURE;
    }
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Lets a panic in any thread end the process: its successor reads all objects again, which is
/// safer than to go on with half a decision.
fn end_at_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
