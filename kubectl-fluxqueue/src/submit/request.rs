//! The request in the options: pods, and the resources of each.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};

use fluxqueue_api::syntax::is_label_name;
use fluxqueue_api::text;

use super::options::Options;
use crate::job_time;

/// Most pods of one job: Kubernetes runs no more of a Job at once.
const PODS_MAX: u32 = 100_000;

/// The longest beginning of a name: the API server adds five characters to it, and the index of a
/// pod and five more follow, all within 63.
const NAME_BYTES_MAX: usize = 40;

/// The pods of a job and their resources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Request {
    pub name: String,
    pub image: String,
    /// The pods that start together; for an array, the most tasks that run at the same time.
    pub pods: u32,
    /// The tasks of an array: they start one by one.
    pub array: Option<u32>,
    /// True if each pod has a node of its own among the pods of the job.
    pub is_spread: bool,
    /// The tasks of the job; for an array, those of each task of it.
    pub tasks: u32,
    pub cpus_per_task: u32,
    /// CPUs of a pod.
    pub cpus: u32,
    /// Memory of a pod, as a quantity.
    pub memory: Option<String>,
    /// GPUs of a pod.
    pub gpus: u32,
    pub gpu_resource: String,
    pub walltime_seconds: Option<u64>,
    pub is_exclusive: bool,
    pub queue: Option<String>,
    pub node_selector: BTreeMap<String, String>,
    pub directory: Option<String>,
    pub priority_class: Option<String>,
    pub env: Vec<(String, String)>,
    /// Claims, and where they are mounted.
    pub mounts: Vec<(String, String)>,
    pub scheduler_name: String,
}

impl Request {
    /// Reads options; an error names the option.
    pub(super) fn read(options: &Options, default_name: &str) -> anyhow::Result<Self> {
        let image = options.image.clone().filter(|image| !image.is_empty());
        let Some(image) = image else {
            bail!("--image: name the image of the container (or set FLUXQUEUE_IMAGE)");
        };
        let array = options.array.as_deref().map(array).transpose()?;
        let (pods, tasks) = pods_and_tasks(options)?;
        let tasks_per_pod = tasks.div_ceil(pods);
        let cpus_per_task = options.cpus_per_task.unwrap_or(1);
        let cpus = cpus_per_task
            .checked_mul(tasks_per_pod)
            .context("--cpus-per-task: a pod would have more than 2^32 CPUs")?;
        ensure!(
            array.is_none() || pods == 1,
            "--array: each task has one pod; tasks of several nodes or pods are not there yet"
        );
        let walltime = options.time.as_deref().map(|time| {
            job_time::parse(time)
                .map_err(|said| anyhow::anyhow!("--time: {} {said}", text::quoted(time)))
        });
        let pairs = |option: &'static str, sign: char, texts: &[String]| {
            let pair = |text: &String| {
                let (name, value) = text.split_once(sign)?;
                (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
            };
            texts
                .iter()
                .map(|it| {
                    pair(it).with_context(|| {
                        format!("{option}: {} is no NAME{sign}VALUE", text::quoted(it))
                    })
                })
                .collect::<anyhow::Result<Vec<_>>>()
        };
        Ok(Request {
            name: name(options.job_name.as_deref().unwrap_or(default_name)),
            image,
            pods: array.map_or(pods, |(_, at_once)| at_once),
            array: array.map(|(tasks, _)| tasks),
            is_spread: options.nodes.is_some() && pods > 1,
            tasks,
            cpus_per_task,
            cpus,
            memory: memory(options, cpus)?,
            gpus: gpus(options, pods, tasks_per_pod)?,
            gpu_resource: options.gpu_resource.clone(),
            walltime_seconds: walltime.transpose()?,
            is_exclusive: options.exclusive,
            queue: options.partition.clone().map(queue).transpose()?,
            node_selector: selector(options.constraint.as_deref())?,
            directory: options.chdir.clone(),
            priority_class: options.priority_class.clone(),
            env: pairs("--env", '=', &options.env)?,
            mounts: pairs("--mount", ':', &options.mount)?,
            scheduler_name: options.scheduler_name.clone(),
        })
    }
}

/// Returns the name of a queue if it can be one: it becomes the value of a label.
fn queue(name: String) -> anyhow::Result<String> {
    ensure!(
        is_label_name(&name),
        "--partition: {} is not the name of a queue",
        text::quoted(&name)
    );
    Ok(name)
}

/// Returns the number of pods, and the number of all tasks.
fn pods_and_tasks(options: &Options) -> anyhow::Result<(u32, u32)> {
    let Options { nodes, ntasks, ntasks_per_node: per_node, .. } = *options;
    let (pods, tasks) = match (nodes, ntasks, per_node) {
        (None, None, None) => (1, 1),
        (None, None, Some(per_node)) => (1, per_node),
        (None, Some(tasks), None) => (tasks, tasks),
        (None, Some(tasks), Some(per_node)) => (tasks.div_ceil(per_node), tasks),
        (Some(nodes), None, per_node) => {
            let tasks = nodes.checked_mul(per_node.unwrap_or(1));
            (nodes, tasks.context("--ntasks-per-node: there would be more than 2^32 tasks")?)
        }
        (Some(nodes), Some(tasks), per_node) => {
            ensure!(tasks >= nodes, "--ntasks: {tasks} tasks cannot use {nodes} nodes");
            if let Some(per_node) = per_node {
                ensure!(
                    u64::from(tasks) <= u64::from(nodes) * u64::from(per_node),
                    "--ntasks: {nodes} nodes of {per_node} tasks have no room for {tasks}"
                );
            }
            (nodes, tasks)
        }
    };
    let option = if nodes.is_some() { "--nodes" } else { "--ntasks" };
    ensure!(
        pods <= PODS_MAX,
        "{option}: a job has {PODS_MAX} pods at most, and {pods} are too many"
    );
    Ok((pods, tasks))
}

/// Returns the number of tasks of an array, and the number of those that may run at the same time.
fn array(text: &str) -> anyhow::Result<(u32, u32)> {
    let malformed = || {
        format!(
            "--array: {} is not 0-LAST or 0-LAST%COUNT: an Indexed Job counts from 0, without \
             steps and gaps. Say --array=0-9 for ten tasks; each finds its number in \
             JOB_COMPLETION_INDEX",
            text::quoted(text)
        )
    };
    let (range, at_once) = match text.split_once('%') {
        Some((range, count)) => (range, Some(count.parse::<u32>().ok().with_context(malformed)?)),
        None => (text, None),
    };
    let last = range.strip_prefix("0-").unwrap_or(if range == "0" { "0" } else { "" });
    let last: u32 = last.parse().ok().with_context(malformed)?;
    ensure!(last < PODS_MAX, "--array: an array has {PODS_MAX} tasks at most");
    let at_once = at_once.unwrap_or(last + 1);
    ensure!(at_once > 0, "--array: the number behind % is 0, so no task would run");
    Ok((last + 1, at_once.min(last + 1)))
}

/// Returns the memory of a pod.
fn memory(options: &Options, cpus: u32) -> anyhow::Result<Option<String>> {
    match (&options.mem, &options.mem_per_cpu) {
        (Some(_), Some(_)) => bail!("--mem and --mem-per-cpu exclude each other"),
        (Some(size), None) => {
            let (number, unit) = mebibytes("--mem", size)?;
            Ok((number > 0).then(|| format!("{number}{unit}")))
        }
        (None, Some(size)) => {
            let (number, unit) = mebibytes("--mem-per-cpu", size)?;
            ensure!(
                number > 0,
                "--mem-per-cpu: 0 is no amount: leave the option out, or say --exclusive for whole \
                 nodes"
            );
            let all = number.checked_mul(u64::from(cpus)).context("--mem-per-cpu: is too much")?;
            Ok(Some(format!("{all}{unit}")))
        }
        (None, None) => Ok(None),
    }
}

/// Reads a size as Slurm or Kubernetes writes it, with powers of 1024.
fn mebibytes(option: &str, size: &str) -> anyhow::Result<(u64, &'static str)> {
    let digits = size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len());
    let (number, unit) = size.split_at(digits);
    let unit = match unit.to_ascii_lowercase().trim_end_matches(['b', 'i']) {
        "" | "m" => "Mi",
        "k" => "Ki",
        "g" => "Gi",
        "t" => "Ti",
        _ => bail!(
            "{option}: {} is no size: expected for example 4000 (MiB), 4G or 512Mi",
            text::quoted(size)
        ),
    };
    let number = number.parse().ok();
    let number = number.with_context(|| format!("{option}: {} is no size", text::quoted(size)))?;
    Ok((number, unit))
}

/// Returns the GPUs of a pod.
fn gpus(options: &Options, pods: u32, tasks_per_pod: u32) -> anyhow::Result<u32> {
    let gres = options.gres.as_deref().map(|gres| {
        let count = gres.strip_prefix("gpu:").and_then(|count| count.parse::<u32>().ok());
        let count = if gres == "gpu" { Some(1) } else { count };
        count.with_context(|| {
            let quoted = text::quoted(gres);
            format!("--gres: {quoted} is not gpu:COUNT; a kind of GPU is a --constraint here")
        })
    });
    let of_all = options.gpus.map(|gpus| {
        ensure!(
            gpus.is_multiple_of(pods),
            "--gpus: {gpus} GPUs cannot be divided among {pods} pods alike; use --gpus-per-node"
        );
        Ok(gpus / pods)
    });
    let of_tasks = options
        .gpus_per_task
        .map(|gpus| gpus.checked_mul(tasks_per_pod).context("--gpus-per-task: is too much"));
    let per_node = options.gpus_per_node.map(Ok);
    let said: Vec<u32> =
        [gres, of_all, of_tasks, per_node].into_iter().flatten().collect::<Result<_, _>>()?;
    ensure!(
        said.len() <= 1,
        "--gpus, --gpus-per-node, --gpus-per-task and --gres exclude each other"
    );
    Ok(said.first().copied().unwrap_or(0))
}

/// Reads labels of nodes.
fn selector(constraint: Option<&str>) -> anyhow::Result<BTreeMap<String, String>> {
    let Some(constraint) = constraint else { return Ok(BTreeMap::new()) };
    let labels = constraint.split(['&', ',']).map(|label| {
        let pair = label.trim().split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) = pair.with_context(|| {
            let quoted = text::quoted(label);
            format!("--constraint: {quoted} is not KEY=VALUE: features are labels of nodes here")
        })?;
        ensure!(
            !value.contains(['|', '[', '*']) && !key.contains(['|', '[', '*']),
            "--constraint: {} has more than labels and &: a manifest can say that by affinity",
            text::quoted(constraint)
        );
        Ok((key.to_owned(), value.to_owned()))
    });
    labels.collect()
}

/// Turns a text into the beginning of the name of a Job.
fn name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' => name.push(c),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.truncate(NAME_BYTES_MAX);
    let name = name.trim_end_matches('-');
    if name.is_empty() { "job".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            image: Some("i".to_owned()),
            gpu_resource: "nvidia.com/gpu".to_owned(),
            ..Options::default()
        }
    }

    fn read(change: impl FnOnce(&mut Options)) -> anyhow::Result<Request> {
        let mut options = options();
        change(&mut options);
        Request::read(&options, "run")
    }

    #[test]
    fn tasks_are_pods_and_nodes_are_pods_that_keep_apart() {
        let sizes = |nodes, ntasks, per_node| {
            let request = read(|it| {
                (it.nodes, it.ntasks, it.ntasks_per_node) = (nodes, ntasks, per_node);
                it.cpus_per_task = Some(2);
            });
            request
                .map(|it| (it.pods, it.tasks, it.cpus, it.is_spread))
                .map_err(|it| it.to_string())
        };
        assert_eq!(sizes(None, None, None), Ok((1, 1, 2, false)));
        assert_eq!(sizes(None, Some(16), None), Ok((16, 16, 2, false)));
        assert_eq!(sizes(Some(4), None, None), Ok((4, 4, 2, true)));
        assert_eq!(sizes(Some(4), Some(16), None), Ok((4, 16, 8, true)));
        assert_eq!(sizes(Some(4), None, Some(3)), Ok((4, 12, 6, true)));
        assert_eq!(sizes(None, Some(10), Some(4)), Ok((3, 10, 8, false)));
        assert!(sizes(Some(4), Some(2), None).unwrap_err().starts_with("--ntasks"));
        assert!(sizes(Some(2), Some(9), Some(4)).unwrap_err().starts_with("--ntasks"));
        assert!(sizes(Some(100_001), None, None).unwrap_err().contains("100000 pods at most"));
    }

    #[test]
    fn arrays_count_from_zero() {
        assert_eq!(array("0-9").unwrap(), (10, 10));
        assert_eq!(array("0-9%4").unwrap(), (10, 4));
        assert_eq!(array("0-1%4").unwrap(), (2, 2));
        assert_eq!(array("0").unwrap(), (1, 1));
        for text in ["1-10", "0-9:2", "0,3", "", "9", "0-", "0-9%", "0-9%0", "0-100000"] {
            assert!(array(text).unwrap_err().to_string().starts_with("--array"), "{text}");
        }
        assert!(read(|it| (it.array, it.nodes) = (Some("0-9".to_owned()), Some(2))).is_err());
    }

    #[test]
    fn memory_is_in_powers_of_1024() {
        let mem = |size: &str| read(|it| it.mem = Some(size.to_owned())).map(|it| it.memory);
        for (size, quantity) in
            [("4000", "4000Mi"), ("4G", "4Gi"), ("512Mi", "512Mi"), ("1TB", "1Ti")]
        {
            assert_eq!(mem(size).unwrap().as_deref(), Some(quantity));
        }
        assert_eq!(mem("0").unwrap(), None, "all that there is, as in Slurm");
        assert!(mem("4X").is_err() && mem("G").is_err());
        let per_cpu =
            read(|it| (it.mem_per_cpu, it.cpus_per_task) = (Some("2G".to_owned()), Some(8)));
        assert_eq!(per_cpu.unwrap().memory.as_deref(), Some("16Gi"));
        let none = read(|it| it.mem_per_cpu = Some("0".to_owned())).unwrap_err().to_string();
        assert!(none.starts_with("--mem-per-cpu: 0 is no amount"), "{none}");
    }

    #[test]
    fn gpus_are_those_of_a_pod() {
        let gpus = |change: fn(&mut Options)| {
            read(|it| {
                (it.nodes, it.ntasks) = (Some(2), Some(4));
                change(it);
            })
            .map(|it| it.gpus)
        };
        assert_eq!(gpus(|it| it.gpus = Some(8)).unwrap(), 4);
        assert_eq!(gpus(|it| it.gpus_per_node = Some(3)).unwrap(), 3);
        assert_eq!(gpus(|it| it.gpus_per_task = Some(1)).unwrap(), 2);
        assert_eq!(gpus(|it| it.gres = Some("gpu:2".to_owned())).unwrap(), 2);
        assert!(gpus(|it| it.gpus = Some(3)).is_err());
        assert!(gpus(|it| it.gres = Some("gpu:a100:2".to_owned())).is_err());
        assert!(gpus(|it| (it.gpus, it.gpus_per_node) = (Some(2), Some(2))).is_err());
    }

    #[test]
    fn labels_of_nodes_and_names() {
        let selector = selector(Some("gpu=a100&zone=b")).unwrap();
        assert_eq!((selector.len(), &*selector["gpu"]), (2, "a100"));
        for text in ["haswell", "a=b|c=d", "=b"] {
            assert!(super::selector(Some(text)).is_err(), "{text}");
        }
        assert_eq!(name("My Solver.v2"), "my-solver-v2");
        assert_eq!(name("größe"), "gr-e");
        assert_eq!(name("--"), "job");
        assert_eq!(name(&"x".repeat(99)).len(), 40);
    }

    #[test]
    fn an_error_names_the_option() {
        let error = |change: fn(&mut Options)| read(change).unwrap_err().to_string();
        assert!(error(|it| it.image = None).starts_with("--image"));
        assert!(error(|it| it.time = Some("soon".to_owned())).starts_with("--time: \"soon\""));
        assert!(error(|it| it.env = vec!["A".to_owned()]).starts_with("--env: \"A\""));
        assert!(error(|it| it.mount = vec![":/a".to_owned()]).starts_with("--mount"));
        assert!(error(|it| it.partition = Some("a b".to_owned())).starts_with("--partition"));
    }
}
