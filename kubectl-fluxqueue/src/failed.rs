//! The pods of a job that failed, and why each of them failed, as far as they are still there.

use std::fmt::Write as _;

use fluxqueue_api::text;

use crate::cluster::Cluster;
use crate::console::{Console, said};
use crate::find::{ContainerStatus, Pod};
use crate::logs::pods_of;
use crate::record::Record;

/// Most failed pods that are shown: those of one cause are alike.
const PODS_MAX: usize = 5;

/// Prints the failed pods of a job that failed. A user may be allowed to see jobs and no pods, so
/// an error is a note.
pub(crate) async fn print_failed_pods(
    cluster: &Cluster,
    record: &Record,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    if record.state() != "Failed" {
        return Ok(());
    }
    match pods_of(cluster, record).await {
        Ok(pods) => console.print(&lines(&pods)),
        Err(error) => {
            console.note(&format!("Failed pods are left out: {}", said(&error)));
            Ok(())
        }
    }
}

fn lines(pods: &[Pod]) -> String {
    let failed: Vec<&Pod> = pods.iter().filter(|pod| pod.status.phase == "Failed").collect();
    if failed.is_empty() {
        return String::new();
    }
    let mut lines = "Failed pods:\n".to_owned();
    for pod in failed.iter().take(PODS_MAX) {
        let _ = writeln!(lines, "  {}: {}", text::name(&pod.metadata.name), cause(pod));
    }
    if failed.len() > PODS_MAX {
        let _ = writeln!(lines, "  and {} more", failed.len() - PODS_MAX);
    }
    lines
}

/// Returns why a pod failed: the reason that the kubelet or a controller gave for the whole pod, or
/// the exit code of the first container that failed.
fn cause(pod: &Pod) -> String {
    let status = &pod.status;
    if !status.reason.is_empty() {
        return with_message(&status.reason, &status.message);
    }
    let containers: Vec<&ContainerStatus> =
        status.init_container_statuses.iter().chain(&status.container_statuses).collect();
    let ended = containers.iter().find_map(|container| {
        let ended = container.state.terminated.as_ref()?;
        (ended.exit_code != 0).then_some((container, ended))
    });
    let Some((container, ended)) = ended else { return "no cause is on record".to_owned() };
    let code = format!("exit code {} ({})", ended.exit_code, text::name(&ended.reason));
    let code = with_message(&code, &ended.message);
    if containers.len() == 1 {
        code
    } else {
        format!("container {}: {code}", text::name(&container.name))
    }
}

fn with_message(said: &str, message: &str) -> String {
    if message.trim().is_empty() {
        text::name(said).into_owned()
    } else {
        format!("{}: {}", text::name(said), text::message(message.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, status: &Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": name }, "status": status })).unwrap()
    }

    fn exited(name: &str, code: i64, reason: &str) -> Value {
        json!({ "name": name,
            "state": { "terminated": { "exitCode": code, "reason": reason } } })
    }

    #[test]
    fn a_failed_pod_says_its_exit_code_or_the_reason_of_its_end() {
        let pods = [
            pod(
                "a",
                &json!({ "phase": "Failed", "containerStatuses": [exited("main", 3, "Error")] }),
            ),
            pod(
                "b",
                &json!({ "phase": "Failed", "containerStatuses":
                    [exited("side", 0, "Completed"), exited("main", 137, "OOMKilled")] }),
            ),
            pod(
                "c",
                &json!({ "phase": "Failed", "reason": "Evicted",
                    "message": "low on memory\u{1b}" }),
            ),
            pod("d", &json!({ "phase": "Failed" })),
            pod("e", &json!({ "phase": "Succeeded" })),
        ];
        assert_eq!(
            lines(&pods),
            "Failed pods:\n  a: exit code 3 (Error)\n  b: container main: exit code 137 \
             (OOMKilled)\n  c: Evicted: low on memory\\u{1b}\n  d: no cause is on record\n"
        );
        assert_eq!(lines(&pods[4..]), "");
    }

    #[test]
    fn many_failed_pods_are_counted() {
        let status = json!({ "phase": "Failed", "reason": "Evicted" });
        let pods: Vec<Pod> = (0..7).map(|at| pod(&format!("p{at}"), &status)).collect();
        let lines = lines(&pods);
        assert!(lines.ends_with("  p4: Evicted\n  and 2 more\n"), "{lines}");
    }
}
