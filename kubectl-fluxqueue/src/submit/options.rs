//! The options of `submit`, on the command line and in lines of a script.

use fluxqueue_api::syntax::{NAME_RULE, is_label_name};

/// The options that a script may have too.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// The image of the container
    #[arg(long, env = "FLUXQUEUE_IMAGE", value_name = "IMAGE")]
    pub image: Option<String>,
    /// How many nodes; the job has one pod on each
    #[arg(
        long,
        short = 'N',
        value_name = "NODES",
        value_parser = nodes,
        allow_negative_numbers = true
    )]
    pub nodes: Option<u32>,
    /// How many tasks; without --nodes the job has a pod for each
    #[arg(
        long,
        short = 'n',
        value_name = "TASKS",
        value_parser = number,
        allow_negative_numbers = true
    )]
    pub ntasks: Option<u32>,
    /// Tasks on each node
    #[arg(long, value_name = "TASKS", value_parser = number, allow_negative_numbers = true)]
    pub ntasks_per_node: Option<u32>,
    /// CPUs of each task
    #[arg(
        long,
        short = 'c',
        value_name = "CPUS",
        value_parser = number,
        allow_negative_numbers = true
    )]
    pub cpus_per_task: Option<u32>,
    /// Memory of each pod, in MiB or with a unit such as 4G
    #[arg(long, value_name = "SIZE")]
    pub mem: Option<String>,
    /// Memory for each CPU, in MiB or with a unit
    #[arg(long, value_name = "SIZE")]
    pub mem_per_cpu: Option<String>,
    /// GPUs of all pods together
    #[arg(
        long,
        short = 'G',
        value_name = "GPUS",
        value_parser = gpus,
        allow_negative_numbers = true
    )]
    pub gpus: Option<u32>,
    /// GPUs on each node
    #[arg(long, value_name = "GPUS", value_parser = gpus, allow_negative_numbers = true)]
    pub gpus_per_node: Option<u32>,
    /// GPUs of each task
    #[arg(long, value_name = "GPUS", value_parser = gpus, allow_negative_numbers = true)]
    pub gpus_per_task: Option<u32>,
    /// gpu:COUNT on each node
    #[arg(long, value_name = "GRES")]
    pub gres: Option<String>,
    /// The resource that a GPU is
    #[arg(long, value_name = "RESOURCE", default_value = "nvidia.com/gpu")]
    pub gpu_resource: String,
    /// How long the job may run: minutes, H:M:S, D-H:M:S, or with units such as 1h30m
    #[arg(long, short = 't', value_name = "TIME")]
    pub time: Option<String>,
    /// Runs tasks 0-LAST by themselves, at most COUNT at a time
    #[arg(long, short = 'a', value_name = "0-LAST[%COUNT]")]
    pub array: Option<String>,
    /// Nodes that no other job uses
    #[arg(long)]
    pub exclusive: bool,
    /// The beginning of the name of the Job [default: that of the script or command]
    #[arg(long, short = 'J', value_name = "NAME")]
    pub job_name: Option<String>,
    /// The queue [default: that of the namespace]
    #[arg(long, short = 'p', visible_alias = "queue", value_name = "QUEUE")]
    pub partition: Option<String>,
    /// Nodes with these labels: KEY=VALUE, several with &
    #[arg(long, short = 'C', value_name = "LABELS")]
    pub constraint: Option<String>,
    /// The directory in which the command runs
    #[arg(long, short = 'D', value_name = "PATH")]
    pub chdir: Option<String>,
    /// The PriorityClass
    #[arg(long, value_name = "CLASS")]
    pub priority_class: Option<String>,
    /// A variable of the environment, NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE", action = clap::ArgAction::Append)]
    pub env: Vec<String>,
    /// A PersistentVolumeClaim and where it is mounted, CLAIM:PATH; may be repeated
    #[arg(long, value_name = "CLAIM:PATH", action = clap::ArgAction::Append)]
    pub mount: Vec<String>,
    /// The scheduler that places the pods
    #[arg(
        long,
        value_name = "NAME",
        default_value = "fluxqueue",
        value_parser = scheduler_name
    )]
    pub scheduler_name: String,
}

/// Reads a number of at least 1.
fn number(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("expected a whole number from 1 to {}", u32::MAX)),
        Ok(number) => Ok(number),
    }
}

/// Reads a number of nodes.
fn nodes(text: &str) -> Result<u32, String> {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    match text.split_once('-') {
        Some((least, most)) if is_number(least) && is_number(most) => {
            Err("a range of nodes is not supported: give one number".to_owned())
        }
        _ => number(text),
    }
}

/// Reads a number of GPUs.
fn gpus(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        if text.contains(':') {
            "a kind of GPU is a --constraint here, such as -C gpu=a100".to_owned()
        } else {
            format!("expected a whole number from 0 to {}", u32::MAX)
        }
    })
}

/// Reads the name of a scheduler.
pub(crate) fn scheduler_name(text: &str) -> Result<String, String> {
    if is_label_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("is not the name of a scheduler: {NAME_RULE}"))
    }
}
