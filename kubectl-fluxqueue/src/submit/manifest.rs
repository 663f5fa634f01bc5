//! The Job that is made of a request.

use serde_json::{Map, Value, json};

use fluxqueue_api::names;

use super::request::Request;
use super::script::Runs;

/// The name of the container.
const CONTAINER: &str = "main";

/// Makes the Job.
///
/// Pods that fail are not made again, as in Slurm, unless their node was drained. The time limit
/// goes to Fluxqueue for the plan, and to the kubelet, which ends pods by it. Tasks of an array
/// start one by one, by the group labels with size 1; all other pods start together.
pub(super) fn job(request: &Request, runs: &Runs) -> Value {
    let mut annotations = Map::new();
    if let Some(seconds) = request.walltime_seconds {
        annotations.insert(names::WALLTIME.to_owned(), format!("{seconds}s").into());
    }
    if request.is_exclusive {
        annotations.insert(names::EXCLUSIVE.to_owned(), "true".into());
    }
    if request.is_spread {
        annotations.insert(names::SPREAD_LEVEL.to_owned(), "host".into());
        annotations.insert(names::MAX_PER_PART.to_owned(), "1".into());
    }
    let mut labels = Map::new();
    if let Some(queue) = &request.queue {
        labels.insert(names::QUEUE_NAME.to_owned(), queue.as_str().into());
    }
    let completions = request.array.unwrap_or(request.pods);
    let mut metadata = json!({ "generateName": format!("{}-", request.name) });
    if request.array.is_some() {
        // No other job of the namespace may be of the same group.
        let name = format!("{}-{}", request.name, suffix());
        labels.insert(names::POD_GROUP.to_owned(), name.as_str().into());
        metadata = json!({ "name": name });
        labels.insert(names::GROUP_SIZE.to_owned(), "1".into());
    }
    let mut template_meta = Map::new();
    if !labels.is_empty() {
        template_meta.insert("labels".to_owned(), labels.into());
    }
    let mut spec = json!({
        "parallelism": request.pods,
        "completions": completions,
        "completionMode": "Indexed",
        "podFailurePolicy": { "rules": [{
            "action": "Ignore",
            "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }],
        }]},
        "template": { "metadata": template_meta, "spec": pod(request, runs) },
    });
    if request.array.is_some() {
        // A task that fails ends no other.
        spec["backoffLimitPerIndex"] = 0.into();
    } else {
        spec["backoffLimit"] = 0.into();
    }
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec })
}

/// Returns five random characters like those that the API server adds to names: letters and digits
/// that make no words.
fn suffix() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    const ALPHABET: &[u8; 32] = b"bcdfghjklmnpqrstvwxz2456789bcdfg";
    let mut number = RandomState::new().hash_one(0);
    let mut digit = || {
        let at = usize::from(number.to_le_bytes()[0] & 31);
        number >>= 5;
        char::from(ALPHABET[at])
    };
    (0..5).map(|_| digit()).collect()
}

fn pod(request: &Request, runs: &Runs) -> Value {
    let mut pod = json!({
        "schedulerName": request.scheduler_name,
        "restartPolicy": "Never",
        "containers": [container(request, runs)],
    });
    if let Some(seconds) = request.walltime_seconds {
        pod["activeDeadlineSeconds"] = seconds.into();
    }
    if !request.node_selector.is_empty() {
        pod["nodeSelector"] = json!(request.node_selector);
    }
    if let Some(class) = &request.priority_class {
        pod["priorityClassName"] = class.as_str().into();
    }
    if !request.mounts.is_empty() {
        let volumes = request.mounts.iter().enumerate().map(|(at, (claim, _))| {
            json!({ "name": format!("claim-{at}"), "persistentVolumeClaim": {
                "claimName": claim } })
        });
        pod["volumes"] = volumes.collect();
    }
    pod
}

fn container(request: &Request, runs: &Runs) -> Value {
    let (command, args) = match runs {
        Runs::Script(script, args) => {
            let mut command = script.interpreter.clone();
            command.push(script.text.clone());
            if script.is_named {
                command.push(request.name.clone());
            }
            (command, args.clone())
        }
        Runs::Command(command) => (command.clone(), Vec::new()),
    };
    let literal = |words: Vec<String>| -> Vec<String> {
        // Kubernetes replaces $(NAME) in commands, and writes $ for $$.
        words.into_iter().map(|word| word.replace('$', "$$")).collect()
    };
    let mut requests = json!({ "cpu": request.cpus.to_string() });
    let mut limits = Map::new();
    if let Some(memory) = &request.memory {
        requests["memory"] = memory.as_str().into();
        limits.insert("memory".to_owned(), memory.as_str().into());
    }
    if request.gpus > 0 {
        let gpus = Value::from(request.gpus.to_string());
        requests[&request.gpu_resource] = gpus.clone();
        limits.insert(request.gpu_resource.clone(), gpus);
    }
    let mut resources = json!({ "requests": requests });
    if !limits.is_empty() {
        resources["limits"] = limits.into();
    }
    // A task of an array is a job of its own to its program, as in Slurm.
    let pods = if request.array.is_some() { 1 } else { request.pods };
    let sizes = [
        ("FLUXQUEUE_PODS", pods),
        ("FLUXQUEUE_NTASKS", request.tasks),
        ("FLUXQUEUE_CPUS_PER_TASK", request.cpus_per_task),
    ];
    let env: Vec<Value> = sizes
        .into_iter()
        .chain(request.array.map(|tasks| ("FLUXQUEUE_ARRAY_TASK_COUNT", tasks)))
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .chain(request.env.iter().map(|(name, value)| (name.clone(), value.replace('$', "$$"))))
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    let mut container = json!({
        "name": CONTAINER,
        "image": request.image,
        "command": literal(command),
        "env": env,
        "resources": resources,
    });
    if !args.is_empty() {
        container["args"] = json!(literal(args));
    }
    if let Some(directory) = &request.directory {
        container["workingDir"] = directory.as_str().into();
    }
    if !request.mounts.is_empty() {
        let mounts = request
            .mounts
            .iter()
            .enumerate()
            .map(|(at, (_, path))| json!({ "name": format!("claim-{at}"), "mountPath": path }));
        container["volumeMounts"] = mounts.collect();
    }
    container
}

#[cfg(test)]
mod tests {
    use super::super::tests::submitted;
    use serde_json::{Value, json};

    fn job(line: &[&str], script: &str) -> Value {
        submitted(line, script).unwrap().0
    }

    #[test]
    fn a_command_is_a_job_of_one_pod() {
        let job = job(&["--image", "busybox", "--", "sh", "-c", "echo $$ $(date)"], "");
        let expected = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "generateName": "sh-" },
            "spec": {
                "parallelism": 1, "completions": 1, "completionMode": "Indexed", "backoffLimit": 0,
                "podFailurePolicy": { "rules": [{ "action": "Ignore",
                    "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] }] },
                "template": { "metadata": {}, "spec": {
                    "schedulerName": "fluxqueue", "restartPolicy": "Never",
                    "containers": [{
                        "name": "main", "image": "busybox",
                        "command": ["sh", "-c", "echo $$$$ $$(date)"],
                        "env": [{ "name": "FLUXQUEUE_PODS", "value": "1" },
                            { "name": "FLUXQUEUE_NTASKS", "value": "1" },
                            { "name": "FLUXQUEUE_CPUS_PER_TASK", "value": "1" }],
                        "resources": { "requests": { "cpu": "1" } },
                    }],
                }},
            },
        });
        assert_eq!(job, expected);
    }

    #[test]
    fn nodes_keep_apart_and_have_a_time_limit_that_ends_them() {
        let line = [
            "-N",
            "4",
            "-n",
            "8",
            "-c",
            "2",
            "-t",
            "1:00:00",
            "--gpus",
            "8",
            "--exclusive",
            "-p",
            "gpu",
            "--image",
            "i",
            "--mem",
            "8G",
            "-C",
            "gpu=a100",
            "--mount",
            "data:/data",
            "--env",
            "A=$b",
            "--",
            "x",
        ];
        let job = job(&line, "");
        assert_eq!(
            job["metadata"]["annotations"],
            json!({ "fluxqueue/walltime": "3600s", "fluxqueue/exclusive": "true",
                "fluxqueue/spread-level": "host", "fluxqueue/max-per-part": "1" })
        );
        let template = &job["spec"]["template"];
        assert_eq!(template["metadata"]["labels"], json!({ "fluxqueue/queue-name": "gpu" }));
        let pod = &template["spec"];
        assert_eq!(
            (&pod["activeDeadlineSeconds"], &pod["nodeSelector"]),
            (&json!(3600), &json!({ "gpu": "a100" }))
        );
        let container = &pod["containers"][0];
        assert_eq!(
            container["resources"],
            json!({ "requests": { "cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2" },
                "limits": { "memory": "8Gi", "nvidia.com/gpu": "2" } })
        );
        assert_eq!(container["volumeMounts"], json!([{ "name": "claim-0", "mountPath": "/data" }]));
        assert_eq!(container["env"][3], json!({ "name": "A", "value": "$$b" }));
    }

    #[test]
    fn tasks_of_an_array_start_one_by_one() {
        let job = job(&["--array", "0-99%10", "--image", "i", "--", "x"], "");
        let spec = &job["spec"];
        assert_eq!((&spec["completions"], &spec["parallelism"]), (&json!(100), &json!(10)));
        assert_eq!(
            (&spec["backoffLimitPerIndex"], &spec["backoffLimit"]),
            (&json!(0), &Value::Null)
        );
        let name = job["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("x-") && name.len() == 7, "{name}");
        assert_eq!(
            spec["template"]["metadata"]["labels"],
            json!({ "fluxqueue/pod-group": name, "fluxqueue/group-size": "1" })
        );
    }

    #[test]
    fn a_task_of_an_array_knows_its_own_size_and_that_of_the_array() {
        let line = ["-a", "0-99%10", "--ntasks-per-node", "4", "--image", "i", "--", "x"];
        let container = &job(&line, "")["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["resources"]["requests"]["cpu"], "4");
        assert_eq!(
            container["env"],
            json!([{ "name": "FLUXQUEUE_PODS", "value": "1" },
                { "name": "FLUXQUEUE_NTASKS", "value": "4" },
                { "name": "FLUXQUEUE_CPUS_PER_TASK", "value": "1" },
                { "name": "FLUXQUEUE_ARRAY_TASK_COUNT", "value": "100" }])
        );
    }

    #[test]
    fn a_script_goes_along_in_the_command() {
        let script = "#!/bin/bash\nfor i in 1 2; do echo $i; done\n";
        let job = job(&["-", "--image", "i", "--", "a", "b"], script);
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            container["command"],
            json!(["/bin/bash", "-c", script.replace('$', "$$"), "stdin"])
        );
        assert_eq!(container["args"], json!(["a", "b"]));
    }
}
