//! The commands and their arguments.

use std::path::PathBuf;

use anyhow::{anyhow, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use crate::exit::usage;
use crate::submit::options::{Options, scheduler_name};

/// The longest reason of a hold or a pause, in characters: the API server takes no more of a hold,
/// and a message quotes it.
const REASON_CHARS_MAX: usize = 256;

/// Submits jobs to Fluxqueue, shows its queue, and says why a job waits
#[derive(Debug, Parser)]
#[command(name = "kubectl-fluxqueue", bin_name = "kubectl fluxqueue", version)]
pub(crate) struct Args {
    #[command(flatten)]
    pub connection: Connection,
    #[command(subcommand)]
    pub command: Command,
}

/// How the API server is reached.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Connection {
    /// The namespace [default: the context's]
    #[arg(long, short, global = true, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The kubeconfig to use. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The user to act as, if you may impersonate that user
    #[arg(long = "as", global = true, value_name = "USER")]
    pub as_user: Option<String>,
    /// A group of that user; may be repeated
    #[arg(long, global = true, value_name = "GROUP", requires = "as_user")]
    pub as_group: Vec<String>,
}

/// How the process that leads is reached.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Leader")]
pub(crate) struct Leading {
    /// The token by which the leader knows you [default: the kubeconfig's]
    #[arg(long, value_name = "TOKEN", hide_env_values = true, env = "FLUXQUEUE_TOKEN")]
    pub token: Option<String>,
    /// The namespace of Fluxqueue and of its Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "fluxqueue-system")]
    pub leader_namespace: String,
    /// The name of the Lease
    #[arg(long, value_name = "NAME", default_value = "fluxqueue")]
    pub leader_lease: String,
    /// The port of the leader's --metrics-bind-address
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub leader_port: u16,
    /// Asks this address, such as https://127.0.0.1:10259 of a kubectl port-forward, instead of the
    /// leader that the API server knows
    #[arg(long, value_name = "URL")]
    pub leader: Option<http::Uri>,
    /// The certificate authority that signed the certificate of that address, as PEM
    #[arg(long, value_name = "FILE", requires = "leader")]
    pub leader_ca: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Submits a script or a command as a Job, as sbatch does
    Submit(Box<SubmitArgs>),
    /// Shows jobs that wait and run, as squeue does
    Queue(QueueArgs),
    /// Shows all that is known of a job
    Show(JobArgs),
    /// Says why a job or pod waits, and what can be done about it
    Why(JobArgs),
    /// Waits until a job has started or ended; exit code 3: it failed, 4: the time is up
    Wait(WaitArgs),
    /// Shows the output of the pods of a job
    Logs(LogsArgs),
    /// Holds waiting jobs under your name
    Hold(HoldArgs),
    /// Lifts holds of jobs
    Release(ReleaseArgs),
    /// Moves a job to another queue
    Move(MoveArgs),
    /// Changes how long a job may run
    Walltime(WalltimeArgs),
    /// Deletes what makes the pods of jobs, as scancel does
    Cancel(CancelArgs),
    /// Shows jobs that have ended, as long as their FluxJobs are kept
    History(HistoryArgs),
    /// Says when a job starts, or would start if it was submitted now
    When(WhenArgs),
    /// Shows how much of the nodes is used, promised, held and free, as sinfo does
    Nodes(NodesArgs),
    /// Shows queues, their limits and how full they are
    Queues(QueuesArgs),
    /// Pauses Fluxqueue: no job starts, and jobs that have begun go on
    Pause(PauseArgs),
    /// Lets jobs start again
    Resume(ResumeArgs),
    /// Collects the state of Fluxqueue in one file for a report of a fault, without Secrets
    SupportBundle(BundleArgs),
    /// Prints a completion script
    Completion(CompletionArgs),
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// More columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names alone
    Name,
}

/// Which jobs are shown, and how.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Shown {
    /// All namespaces
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// FluxJobs with these labels, such as fluxqueue/workload-kind=job
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Jobs in this queue
    #[arg(
        long,
        short = 'q',
        visible_short_alias = 'p',
        visible_alias = "partition",
        value_name = "QUEUE"
    )]
    pub queue: Option<String>,
    /// Jobs of this user, as the API server names users; several with commas between them
    #[arg(long, short = 'u', value_name = "USER", value_delimiter = ',', conflicts_with = "me")]
    pub user: Vec<String>,
    /// Jobs of your own
    #[arg(long)]
    pub me: bool,
    /// The form of the output
    #[arg(long, short, value_name = "FORMAT", value_enum)]
    pub output: Option<Format>,
    /// Leaves the headings out
    #[arg(long)]
    pub no_headers: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct SubmitArgs {
    // This replaces the global argument, which has a short form that is the one of --ntasks here.
    /// The namespace [default: the context's]
    #[arg(
        id = "namespace",
        long = "namespace",
        value_name = "NAMESPACE",
        help_heading = "Cluster"
    )]
    pub namespace: Option<String>,
    /// The script; - is stdin. Its #SBATCH and #FLUXQUEUE lines are options
    #[arg(value_name = "SCRIPT")]
    pub script: Option<String>,
    /// The command, or the arguments of the script
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// A line for sh, instead of a script
    #[arg(long, value_name = "LINE", conflicts_with_all = ["script", "command"])]
    pub wrap: Option<String>,
    #[command(flatten)]
    pub options: Options,
    /// Creates nothing, and shows the Job with -o
    #[arg(long)]
    pub dry_run: bool,
    /// The form in which the Job is shown
    #[arg(long, short, value_name = "FORMAT", value_enum)]
    pub output: Option<Format>,
    /// Waits until the job has ended; exit code 3: it failed
    #[arg(long, short = 'W')]
    pub wait: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    pub shown: Shown,
    /// Jobs in this state, such as Pending; several with commas between them
    #[arg(long, short = 't', value_name = "STATE", value_delimiter = ',', value_parser = state)]
    pub state: Vec<&'static str>,
    /// Shows the jobs, and then each job that changes
    #[arg(long, short)]
    pub watch: bool,
    /// Also lone pods that have no FluxJob, of this scheduler name
    #[arg(
        long,
        value_name = "NAME",
        default_value = "fluxqueue",
        value_parser = scheduler_name
    )]
    pub scheduler_name: String,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub shown: Shown,
    /// Jobs that have ended within this time, such as 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = units)]
    pub since: Option<u64>,
}

/// Reads a state of a job that has not ended, or Slurm's code for one.
fn state(text: &str) -> Result<&'static str, String> {
    const STATES: [&str; 7] =
        ["Incomplete", "Pending", "Held", "Unsatisfiable", "Refused", "Starting", "Running"];
    let is = |name: &&str| text.eq_ignore_ascii_case(name);
    if let Some(found) = STATES.into_iter().find(is) {
        return Ok(found);
    }
    match text.to_ascii_uppercase().as_str() {
        "PD" => Ok("Pending"),
        "CF" => Ok("Starting"),
        "R" => Ok("Running"),
        "COMPLETED" | "CD" | "FAILED" | "F" => {
            Err("such jobs have ended: `kubectl fluxqueue history` shows them".to_owned())
        }
        _ => Err(format!("the states are {}", STATES.join(", "))),
    }
}

/// Reads a time with units, or a number of seconds; Slurm's minutes are for time limits alone.
fn units(text: &str) -> Result<u64, String> {
    match fluxqueue_workload::walltime::parse(text) {
        Ok(fluxqueue_workload::Lifetime::Seconds(seconds)) => Ok(seconds),
        _ => Err("expected a time of more than 0, such as 30, 90s or 1h30m".to_owned()),
    }
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct JobArgs {
    /// The job: NAME, or KIND/NAME such as job/solve, pod/solve-x7k2d or group/train
    pub job: String,
    /// The form of the output
    #[arg(long, short, value_name = "FORMAT", value_enum)]
    pub output: Option<Format>,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WaitArgs {
    /// The job: NAME, or KIND/NAME
    pub job: String,
    /// The event to wait for
    #[arg(long = "for", value_enum, default_value_t = WaitFor::Ended)]
    pub until: WaitFor,
    /// How long, such as 90s or 1h; a number is seconds [default: for ever]
    #[arg(long, value_name = "DURATION", value_parser = units)]
    pub timeout: Option<u64>,
}

/// The event that `wait` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitFor {
    /// All pods that start together have their nodes
    Started,
    /// It has ended
    Ended,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LogsArgs {
    /// The job: NAME, or KIND/NAME
    pub job: String,
    /// Follows the output
    #[arg(long, short)]
    pub follow: bool,
    /// The container [default: the first]
    #[arg(long, short, value_name = "CONTAINER")]
    pub container: Option<String>,
    /// The pod with this completion index alone
    #[arg(long, value_name = "INDEX")]
    pub index: Option<u32>,
    /// The last lines of each pod; -1: all [default: all of one pod, 10 of several]
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    pub tail: Option<i64>,
    /// Of the container that ran before the one that runs
    #[arg(long, short)]
    pub previous: bool,
    /// Leaves control characters as they are, also on a terminal
    #[arg(long)]
    pub raw: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HoldArgs {
    /// The jobs: NAME, or KIND/NAME
    #[arg(required = true)]
    pub jobs: Vec<String>,
    /// Why, for others to read
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// The jobs: NAME, or KIND/NAME
    #[arg(required = true)]
    pub jobs: Vec<String>,
    /// Also lifts the holds of others, which needs verb release on fluxjobs/hold
    #[arg(long)]
    pub all_holds: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct MoveArgs {
    /// The job: NAME, or KIND/NAME
    pub job: String,
    /// The queue
    #[arg(long, short = 'q', value_name = "QUEUE", required_unless_present = "reset")]
    pub queue: Option<String>,
    /// Takes the wish back: the queue that the workload names counts again
    #[arg(long, conflicts_with = "queue")]
    pub reset: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct WalltimeArgs {
    /// The job: NAME, or KIND/NAME
    pub job: String,
    /// The time: minutes or H:M:S as in Slurm, or with units such as 1h30m
    #[arg(value_parser = crate::job_time::parse, required_unless_present = "reset")]
    pub time: Option<u64>,
    /// Takes the wish back: the walltime that the workload says counts again
    #[arg(long, conflicts_with = "time")]
    pub reset: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct CancelArgs {
    /// The jobs: NAME, or KIND/NAME
    #[arg(required = true)]
    pub jobs: Vec<String>,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct WhenArgs {
    /// The job that was submitted: NAME, or KIND/NAME
    #[arg(required_unless_present = "filename")]
    pub job: Option<String>,
    /// Manifests of what may be submitted: Jobs, Pods, Deployments, ReplicaSets, StatefulSets; - is
    /// stdin
    #[arg(long, short, value_name = "FILE", conflicts_with = "job")]
    pub filename: Option<String>,
    /// How long the answer may take; 10s at most. A longer time looks further ahead
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = units)]
    pub within: u64,
    /// The form of the output
    #[arg(long, short, value_name = "FORMAT", value_enum)]
    pub output: Option<Format>,
    #[command(flatten)]
    pub leading: Leading,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct NodesArgs {
    /// The form of the output; wide has a line for each node
    #[arg(long, short, value_name = "FORMAT", value_enum)]
    pub output: Option<Format>,
    /// The resource of the bars, such as memory or nvidia.com/gpu
    #[arg(long, short, value_name = "RESOURCE", default_value = "cpu")]
    pub resource: String,
    #[command(flatten)]
    pub leading: Leading,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct QueuesArgs {
    /// The queue [default: all]
    pub queue: Option<String>,
    /// The form of the output
    #[arg(long, short, value_name = "FORMAT", value_enum)]
    pub output: Option<Format>,
    #[command(flatten)]
    pub leading: Leading,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PauseArgs {
    /// Why, for others to read
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// The namespace of Fluxqueue and of its Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "fluxqueue-system")]
    pub leader_namespace: String,
    /// The name of the Lease
    #[arg(long, value_name = "NAME", default_value = "fluxqueue")]
    pub leader_lease: String,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The namespace of Fluxqueue
    #[arg(long, value_name = "NAMESPACE", default_value = "fluxqueue-system")]
    pub leader_namespace: String,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct BundleArgs {
    /// The file that is written [default: fluxqueue-support-DATE.tar.gz]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Writes other names instead of those of namespaces, jobs, pods, nodes and users
    #[arg(long)]
    pub anonymous: bool,
    #[command(flatten)]
    pub leading: Leading,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CompletionArgs {
    /// For which shell; `kubectl` prints the program by which kubectl completes this command
    #[arg(value_enum)]
    pub shell: Shell,
}

/// A program that completes command lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
    /// kubectl's own completion
    Kubectl,
}

/// Returns an error if the reason of a hold or a pause is too long.
pub(crate) fn check_reason(reason: &str) -> anyhow::Result<()> {
    ensure!(
        reason.chars().count() <= REASON_CHARS_MAX,
        usage(anyhow!("--reason: has more than {REASON_CHARS_MAX} characters"))
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_jobs_that_have_not_ended() {
        assert_eq!(
            (state("pending"), state("PD"), state("R")),
            (Ok("Pending"), Ok("Pending"), Ok("Running"))
        );
        for ended in ["Completed", "failed", "CD"] {
            assert!(state(ended).unwrap_err().contains("history"), "{ended}");
        }
        assert!(state("Runing").unwrap_err().contains("Pending, Held"));
    }
}
