//! The command line: flags become settings, and each subcommand starts the program of its name.

mod logs;
mod run;
mod simulate;
mod webhook;
mod what_if;

use std::io::Write;

use clap::{Parser, Subcommand};

/// A batch scheduler for Kubernetes: gangs, queues and a Fluxion resource graph.
#[derive(Debug, Parser)]
#[command(name = "fluxqueue", version = VERSION, about, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The version and the commit of this build.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FLUXQUEUE_COMMIT"), ")");

#[derive(Debug, Subcommand)]
enum Command {
    /// Schedules the pods of a cluster.
    Run(Box<run::RunArgs>),
    /// Runs a trace of jobs in virtual time, with the same core, and reports the outcome; or asks a
    /// cluster's Fluxqueue when a job would start.
    Simulate(Box<simulate::SimulateArgs>),
    /// Answers the API server's questions: gives pods to Fluxqueue, and refuses objects at once
    /// that the scheduler would refuse later.
    Webhook(Box<webhook::WebhookArgs>),
    /// Prints the custom resource definitions, for `kubectl apply -f -`.
    Crds,
}

// === impl Cli ===

impl Cli {
    /// Runs the subcommand until it ends.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Run(args) => args.run(),
            Command::Simulate(args) => args.run(),
            Command::Webhook(args) => args.run(),
            Command::Crds => Ok(std::io::stdout().write_all(fluxqueue_api::crd_yaml().as_bytes())?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn kube_schedulers_flags_are_understood() {
        let flags = [
            "--kubeconfig=/x",
            "--leader-elect=false",
            "--leader-elect-lease-duration=15s",
            "--leader-elect-renew-deadline=10s",
            "--leader-elect-retry-period=2s",
            "--leader-elect-resource-name=fluxqueue",
            "--leader-elect-resource-namespace=ns",
            "--config=/y",
        ];
        Cli::try_parse_from(["fluxqueue", "run"].into_iter().chain(flags)).unwrap();
        assert!(
            Cli::try_parse_from(["fluxqueue", "run", "--leader-elect-retry-period=never"]).is_err()
        );
        // A successor waits only for as long as the longest write may take.
        assert!(Cli::try_parse_from(["fluxqueue", "run", "--bind-timeout=10s"]).is_ok());
        assert!(Cli::try_parse_from(["fluxqueue", "run", "--bind-timeout=11s"]).is_err());
    }

    #[test]
    fn names_that_no_object_can_have_are_refused() {
        for arguments in [
            ["run", "--leader-elect-resource-name=A B"],
            ["run", "--leader-elect-resource-namespace=a.b"],
            ["webhook", "--scheduler-name=a b"],
            ["webhook", "--scheduler-name="],
            ["webhook", "--secret-name=a/b"],
            ["webhook", "--service-name=A"],
            ["webhook", "--configuration-name="],
            ["webhook", "--namespace=-a"],
        ] {
            let read = Cli::try_parse_from(["fluxqueue"].into_iter().chain(arguments));
            let error = read.err().unwrap_or_else(|| panic!("{arguments:?} is read"));
            let flag = arguments[1].split('=').next().unwrap();
            assert!(error.to_string().contains(flag), "{error}");
        }
    }
}
