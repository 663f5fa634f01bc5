//! The `fluxqueue` binary.

use std::process::ExitCode;

use clap::Parser;
use fluxqueue::cli::Cli;

fn main() -> ExitCode {
    // Before anything opens a connection: rustls would otherwise have to guess among the providers it was built with.
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
