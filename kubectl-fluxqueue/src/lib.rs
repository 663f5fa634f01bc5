//! `kubectl fluxqueue`: submits jobs, shows the queue, and says why a job waits.
//!
//! All but three commands use the API server alone, with the permissions of the user: `when -f`,
//! `nodes` and a part of `queues` ask the process that leads, through the API server's proxy
//! (`leader.rs`). Nothing here knows the core or the resource graph.
//!
//! Read it in this order: `args.rs` (the commands), `cluster.rs` (lists and writes, with their
//! bounds), `record.rs` (a FluxJob as the commands read it), `find.rs` (from the name of a workload
//! to its FluxJob), and then the command in question. The output of a command is made by functions
//! from values to texts; the functions that read and print are thin.
//!
//! **Invariant:** texts of objects reach the terminal through `fluxqueue_api::text` or
//! `console::plain_json` alone, so that no tenant writes control characters there.

mod anonymous;
mod api_path;
mod args;
mod bundle;
mod cancel;
mod cluster;
mod completion;
mod console;
mod events;
mod exit;
mod failed;
mod find;
mod job_time;
mod leader;
mod logs;
mod nodes;
mod output;
mod pause;
mod queue;
mod record;
mod show;
mod submit;
mod table;
mod users;
mod wait;
mod watch;
mod when;
mod when_text;
mod wish;

use std::ffi::OsString;

use clap::Parser;

use args::{Args, Command};
use exit::{DONE, WRONG_USAGE, code_of};

pub use console::{Console, Look};

/// Runs one command; returns the exit code. `args` begin with the name of the program.
pub fn run(args: impl IntoIterator<Item = OsString>, console: &mut Console<'_>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    // kubectl asks for candidates with arguments that are no valid command yet.
    if args.get(1).is_some_and(|word| word == completion::CANDIDATES) {
        return completion::candidates(&args[2..], console);
    }
    let parsed = match Args::try_parse_from(args) {
        Ok(parsed) => parsed,
        Err(error) => {
            let Some(said) = submit::option_of_slurm(&error) else { return console.usage(&error) };
            console.error(&anyhow::anyhow!(said));
            return WRONG_USAGE;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(dispatch(parsed, console)),
        Err(error) => Err(anyhow::Error::new(error).context("starting the runtime")),
    };
    let outcome = outcome.and_then(|code| console.flush().map(|()| code));
    match outcome {
        Ok(code) => code,
        Err(error) if console::is_broken_pipe(&error) => DONE,
        Err(error) => {
            console.error(&error);
            code_of(&error)
        }
    }
}

async fn dispatch(args: Args, console: &mut Console<'_>) -> anyhow::Result<u8> {
    let Args { mut connection, command } = args;
    if let Command::Submit(args) = &command
        && let Some(namespace) = &args.namespace
    {
        connection.namespace = Some(namespace.clone());
    }
    match command {
        Command::Queue(args) if args.watch => watch::run(&connection, args, console).await,
        Command::Queue(args) => queue::run(&connection, args, console).await,
        Command::History(args) => queue::history(&connection, args, console).await,
        Command::Show(args) => show::show(&connection, args, console).await,
        Command::Why(args) => show::why(&connection, args, console).await,
        Command::Wait(args) => wait::run(&connection, args, console).await,
        Command::Logs(args) => logs::run(&connection, args, console).await,
        Command::Submit(args) => submit::run(&connection, *args, console).await,
        Command::Hold(args) => wish::hold(&connection, args, console).await,
        Command::Release(args) => wish::release(&connection, args, console).await,
        Command::Move(args) => wish::move_to(&connection, args, console).await,
        Command::Walltime(args) => wish::walltime(&connection, args, console).await,
        Command::Cancel(args) => cancel::run(&connection, args, console).await,
        Command::When(args) => when::run(&connection, args, console).await,
        Command::Nodes(args) => nodes::nodes(&connection, args, console).await,
        Command::Queues(args) => nodes::queues(&connection, args, console).await,
        Command::Pause(args) => pause::pause(&connection, args, console).await,
        Command::Resume(args) => pause::resume(&connection, args, console).await,
        Command::SupportBundle(args) => bundle::run(&connection, args, console).await,
        Command::Completion(args) => completion::script(args, console),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster that does not answer.
    const KUBECONFIG: &str = "apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
";

    /// Runs a command without a cluster; returns its exit code and its messages.
    fn ran(words: &[&str]) -> (u8, String) {
        let file = format!("kubectl-fluxqueue-{}.kubeconfig", std::process::id());
        let file = std::env::temp_dir().join(file);
        std::fs::write(&file, KUBECONFIG).unwrap();
        let fixed = ["kubectl-fluxqueue".into(), "--kubeconfig".into(), file.into_os_string()];
        let words = fixed.into_iter().chain(words.iter().map(OsString::from));
        let mut err = Vec::new();
        let mut console = Console::new(std::io::empty(), std::io::sink(), &mut err, Look::plain());
        let code = run(words, &mut console);
        drop(console);
        (code, String::from_utf8(err).unwrap())
    }

    #[test]
    fn wrong_usage_has_an_exit_code_of_its_own() {
        let long = "x".repeat(257);
        for words in [
            &["queue", "--moon"][..],
            &["submit", "--image", "i"],
            &["submit", "--", "true"],
            &["submit", "--image", "i", "-t", "soon", "--", "true"],
            &["submit", "--image", "i", "-"],
            &["queue", "-w", "-o", "json"],
            &["queue", "--scheduler-name", "a b"],
            &["queue", "--namespace", "a b"],
            &["queue", "--as", "a\nb"],
            &["why", "a", "-o", "json"],
            &["why", "node/a"],
            &["wait", "a b"],
            &["when", "a", "-o", "json"],
            &["when", "-f", "a.yaml", "-o", "name"],
            &["when", "-f", "a.yaml", "--within", "20s"],
            &["hold", "a", "--reason", &long],
            &["move", "a", "--queue", "a b"],
            &["pause", "--reason", &long],
            &["resume", "--leader-namespace", "a b"],
            &["nodes", "--leader-namespace", "a b"],
            &["nodes", "--leader-lease", "a b"],
            &["nodes", "--leader", "http://127.0.0.1:1"],
            &["queues", "a b"],
            &["support-bundle", "--leader-namespace", "a b"],
        ] {
            let (code, said) = ran(words);
            assert_eq!(code, 2, "{words:?}: {said}");
        }
        let missing = ["submit", "--image", "i", "/nowhere/run.sh"];
        for words in [&missing[..], &["queue"], &["wait", "a"]] {
            let (code, said) = ran(words);
            assert_eq!(code, 1, "{words:?}: {said}");
        }
    }
}
