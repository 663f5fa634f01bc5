//! Names and texts of users, replaced by numbers in an anonymous support bundle.
//!
//! Every text that is not known to be harmless is replaced by a number, the same one for the same
//! text, and free text is left out: only texts under keys that [`is_harmless_key`] allows stay, and
//! the version of Fluxqueue with the name of its image. Of its settings, the names of schedulers,
//! levels and labels are replaced.

use std::collections::HashMap;

use serde_json::Value;

/// The metric with the version of Fluxqueue in its labels.
const BUILD: &str = "fluxqueue_build_info";

/// The member of a ConfigMap that has the settings of Fluxqueue.
const SETTINGS: &str = "config.yaml";

/// Numbers instead of texts.
#[derive(Debug, Default)]
pub(crate) struct Pseudonyms(HashMap<String, usize>);

/// True if the text of this member is one of a closed set, a number or a time.
fn is_harmless_key(key: &str) -> bool {
    matches!(
        key,
        "kind"
            | "apiVersion"
            | "state"
            | "reason"
            | "type"
            | "status"
            | "phase"
            | "policy"
            | "queuePolicy"
            | "defaultWalltime"
            | "stopPolicy"
            | "effect"
            | "maxWalltimeAction"
            | "nodeIndexes"
            | "podIndexes"
            | "requested"
            | "available"
            | "used"
            | "limit"
            | "displaySize"
            | "resourceVersion"
            | "architecture"
            | "kernelVersion"
            | "kubeletVersion"
            | "operatingSystem"
            | "now"
            | "asOf"
            | "time"
            | "start"
            | "queuedAt"
            | "startTime"
            | "completionTime"
            | "creationTimestamp"
            | "lastTransitionTime"
            | "lastHeartbeatTime"
            | "renewTime"
            | "acquireTime"
            | "lastProbeTime"
            | "lastUpdateTime"
            | "restartPolicy"
            | "expectedStart"
            | "passedBySince"
            | "reservedFrom"
            | "promisedFrom"
            | "lastEnd"
            | "promised"
            | "level"
    )
}

/// True if the members of this one are named by users, and not by a schema.
fn has_names_of_users(key: &str) -> bool {
    matches!(
        key,
        "labels"
            | "annotations"
            | "nodeSelector"
            | "matchLabels"
            | "jobs"
            | "nodes"
            | "data"
            | "selector"
    )
}

/// True if a name is one of Kubernetes or of Fluxqueue, and so says nothing.
fn is_well_known(name: &str) -> bool {
    name.starts_with("fluxqueue/")
        || name.split('/').next().is_some_and(|prefix| prefix.ends_with("kubernetes.io"))
}

/// True if a text is an amount of a resource, such as `500m` or `16Gi`: it is as harmless as a
/// number.
fn is_amount(text: &str) -> bool {
    const UNITS: [&str; 16] =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse::<f64>().is_ok() && UNITS.contains(&unit)
}

impl Pseudonyms {
    /// Replaces texts under this key.
    pub(crate) fn replace(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::String(text) => {
                if matches!(key, "message" | "note" | "displayNodes") {
                    "(left out)".clone_into(text);
                } else if matches!(key, "image" | "imageID") {
                    *text = self.image(text);
                } else if !is_harmless_key(key) && !is_amount(text) {
                    *text = self.of(text);
                }
            }
            Value::Array(items) => {
                // Objects in a list have the names of a schema.
                let key = if has_names_of_users(key) { "" } else { key };
                for item in items {
                    self.replace(item, key);
                }
            }
            Value::Object(members) => {
                let is_users = has_names_of_users(key);
                let old = std::mem::take(members);
                for (name, mut member) in old {
                    if key == "data" && name == SETTINGS {
                        members.insert(name, self.settings(&member));
                        continue;
                    }
                    let is_hidden = is_users && !is_well_known(&name);
                    // Labels are texts of users, and so is the reason of a hold.
                    let is_free = is_users || key == "holds";
                    self.replace(&mut member, if is_free { "" } else { &name });
                    members.insert(if is_hidden { self.of(&name) } else { name }, member);
                }
            }
            _ => {}
        }
    }

    /// Returns an image without its registry and folders, which have the names of their owners; of
    /// another program than Fluxqueue, its tag or digest alone.
    fn image(&mut self, image: &str) -> String {
        let last = image.rsplit('/').next().unwrap_or_default();
        let end = last.find(['@', ':']).unwrap_or(last.len());
        let (name, version) = last.split_at(end);
        if name == "fluxqueue" { last.to_owned() } else { self.of(name) + version }
    }

    /// Returns settings without the names in them and without comments; nothing of a text that is
    /// not readable.
    fn settings(&mut self, written: &Value) -> Value {
        let read = written.as_str().map(serde_saphyr::from_str::<Value>);
        let Some(Ok(mut settings)) = read else { return "(left out)".into() };
        self.replace(&mut settings, "");
        settings
    }

    fn of(&mut self, text: &str) -> String {
        let next = self.0.len() + 1;
        format!("x{}", self.0.entry(text.to_owned()).or_insert(next))
    }
}

/// Returns metrics without the values of labels, which name queues and namespaces. The labels of
/// [`BUILD`] name a version and stay.
pub(crate) fn without_labels(metrics: &str) -> String {
    let mut text = String::new();
    for line in metrics.lines() {
        let line = match (line.split_once('{'), line.rsplit_once('}')) {
            (Some((name, _)), Some((_, value))) if !line.starts_with('#') && name != BUILD => {
                format!("{name}{{…}}{value}")
            }
            _ => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_anonymous_bundle_says_what_runs_and_with_which_settings() {
        let mut value = json!([
            { "metadata": { "name": "moon" }, "data": { "secret.json": "audit",
                "config.yaml": "policy: binpack # for moon\nqueueDepth: 7\nschedulerNames: [moon]\n\
                    topology: [{levels: [{name: moon, nodeLabels: [moon.example/row]}]}]\n" } },
            { "data": { "config.yaml": "moon: [" } },
            { "spec": { "containers": [{ "name": "moon",
                "image": "registry.moon.example:5000/secret/fluxqueue:v1.2" },
                { "image": "moon-agent:v3" }] },
              "status": { "containerStatuses": [{
                "imageID": "registry.moon.example:5000/secret/fluxqueue@sha256:0a" }] } },
        ]);
        Pseudonyms::default().replace(&mut value, "");
        let text = value.to_string();
        for hidden in ["moon", "secret", "audit"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        let settings = &value[0]["data"]["config.yaml"];
        assert_eq!((&settings["policy"], &settings["queueDepth"]), (&json!("binpack"), &json!(7)));
        assert_eq!(value[1]["data"]["config.yaml"], "(left out)");
        assert_eq!(value[2]["spec"]["containers"][0]["image"], "fluxqueue:v1.2");
        let other = value[2]["spec"]["containers"][1]["image"].as_str().unwrap();
        assert!(other.starts_with('x') && other.ends_with(":v3"), "{other}");
        let id = &value[2]["status"]["containerStatuses"][0]["imageID"];
        assert_eq!(id, "fluxqueue@sha256:0a");
    }

    #[test]
    fn amounts_are_harmless_and_names_with_digits_are_not() {
        for text in ["4", "500m", "16Gi", "1.5"] {
            assert!(is_amount(text), "{text}");
        }
        for text in ["3d-solver", "10.1.2.3", "1node", "m", "", "2 Gi"] {
            assert!(!is_amount(text), "{text}");
        }
    }

    #[test]
    fn labels_of_metrics_name_nothing() {
        let text = without_labels("# HELP a b\na{queue=\"moon\",x=\"}\"} 3\nb 4\n");
        assert_eq!(text, "# HELP a b\na{…} 3\nb 4\n");
        let build = "fluxqueue_build_info{version=\"1.2.3\",git_commit=\"abc\"} 1\n";
        assert_eq!(without_labels(build), build);
    }
}
