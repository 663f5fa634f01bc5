//! The CustomResourceDefinitions, generated from the Rust types.
//!
//! The files in `manifests/chart/files/crds/` are its output, checked in so that they can be
//! applied and read without a build.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::core::CustomResourceExt;
use serde_json::Value;

use crate::{FluxJob, FluxQueue};

/// A CustomResourceDefinition of Fluxqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definition {
    /// The kind FluxJob.
    FluxJob,
    /// The kind FluxQueue.
    FluxQueue,
}

/// Returns every CustomResourceDefinition of Fluxqueue, as YAML that `kubectl apply` takes.
pub fn crd_yaml() -> String {
    Definition::ALL.map(Definition::yaml).join("---\n")
}

impl Definition {
    /// All definitions.
    pub const ALL: [Definition; 2] = [Definition::FluxJob, Definition::FluxQueue];

    /// Returns plural and group: the name of the object.
    pub fn name(self) -> &'static str {
        match self {
            Definition::FluxJob => "fluxjobs.jobs.converged-computing.org",
            Definition::FluxQueue => "fluxqueues.jobs.converged-computing.org",
        }
    }

    fn definition(self) -> CustomResourceDefinition {
        let mut definition = match self {
            Definition::FluxJob => FluxJob::crd(),
            Definition::FluxQueue => FluxQueue::crd(),
        };
        for version in &mut definition.spec.versions {
            if let Some(schema) =
                version.schema.as_mut().and_then(|it| it.open_api_v3_schema.as_mut())
            {
                forbid_null(schema);
            }
        }
        definition
    }

    /// Returns the definition as YAML, with a comment that names its source.
    fn yaml(self) -> String {
        let source = match self {
            Definition::FluxJob => "fluxjob",
            Definition::FluxQueue => "fluxqueue",
        };
        let yaml = serde_saphyr::to_string(&self.definition())
            .expect("the schema is a tree of strings, numbers and lists");
        format!(
            "# Generated from api/src/{source}.rs by `fluxqueue crds` (`make crds`). \
             Do not edit.\n{yaml}"
        )
    }

    /// Lists what this version writes or reads and the served CustomResourceDefinition lacks: paths
    /// of fields, and words of closed sets as `path=word`. Of nested fields it lists the outermost.
    /// The list is empty if the definition is sufficient.
    ///
    /// An API server silently drops fields that its definition does not know, and refuses words
    /// that it does not know: a process that finds an older definition than its own must not begin.
    pub fn missing_from(self, served: &Value) -> Vec<String> {
        let versions = served["spec"]["versions"].as_array().into_iter().flatten();
        let ours = serde_json::to_value(self.definition())
            .expect("the schema is a tree of strings, numbers and lists");
        let ours = &ours["spec"]["versions"][0];
        let Some(theirs) =
            versions.into_iter().find(|it| it["name"] == ours["name"] && it["served"] == true)
        else {
            return vec![format!("version {}", ours["name"].as_str().unwrap_or_default())];
        };
        let words = |version: &Value| {
            let mut words = BTreeSet::new();
            collect_words(&version["schema"]["openAPIV3Schema"], "", &mut words);
            words
        };
        let mut missing: Vec<String> = words(ours).difference(&words(theirs)).cloned().collect();
        if !theirs["subresources"]["status"].is_object() {
            missing.push("subresource status".to_owned());
        }
        let inside = |path: &str, outer: &str| {
            path.strip_prefix(outer).is_some_and(|rest| rest.starts_with(['.', '=']))
        };
        let outermost = |path: &String| !missing.iter().any(|outer| inside(path, outer));
        missing.iter().filter(|path| outermost(path)).cloned().collect()
    }
}

/// Takes `nullable` from all fields: null would be a second way to say that a field is absent.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for field in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        forbid_null(field);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(each)) => forbid_null(each),
        Some(JSONSchemaPropsOrArray::Schemas(all)) => {
            for each in all {
                forbid_null(each);
            }
        }
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(others)) = &mut schema.additional_properties {
        forbid_null(others);
    }
}

/// Collects the paths of all fields of a schema, and the words of its closed sets: enums, and the
/// words that rules compare with.
fn collect_words(schema: &Value, path: &str, words: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        words.insert(path.clone());
        collect_words(field, &path, words);
    }
    if schema["items"].is_object() {
        collect_words(&schema["items"], path, words);
    }
    let allowed = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    words.extend(allowed.map(|word| format!("{path}={word}")));
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let compared = rule["rule"].as_str().unwrap_or_default().split('\'').skip(1).step_by(2);
        words.extend(compared.map(|word| format!("{path}={word}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// `UPDATE_GOLDEN=1 cargo test -p fluxqueue-api` writes the files from the types; `make crds`
    /// does the same.
    #[test]
    fn checked_in_crds_match_the_types() {
        for definition in Definition::ALL {
            let file = definition.name().split('.').next().unwrap();
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!("../manifests/chart/files/crds/{file}.yaml"));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&path, definition.yaml()).unwrap();
            }
            let golden = std::fs::read_to_string(&path).unwrap();
            assert!(
                golden == definition.yaml(),
                "{} differs from the types: run UPDATE_GOLDEN=1 cargo test -p fluxqueue-api",
                path.display()
            );
        }
    }

    /// People see the columns in this order.
    #[test]
    fn the_columns_of_a_job_are_those_of_a_queue_of_jobs() {
        let columns = |wide: bool| -> Vec<String> {
            let versions = Definition::FluxJob.definition().spec.versions;
            let columns = versions[0].additional_printer_columns.iter().flatten();
            let of_kind = columns.filter(|column| (column.priority == Some(1)) == wide);
            of_kind.map(|column| column.name.clone()).collect()
        };
        let first = ["Queue", "State", "Reason", "Size", "Walltime", "Start", "Age"];
        assert_eq!(columns(false), first);
        assert_eq!(columns(true), ["Nodes", "Position", "Estimate", "Priority", "Message"]);
    }

    #[test]
    fn no_field_takes_null() {
        for definition in Definition::ALL {
            let text = definition.yaml();
            assert!(!text.contains("nullable") && !text.contains("- null"), "{definition:?}");
            let categories = definition.definition().spec.names.categories;
            assert_eq!(categories.as_deref(), Some(&["batch".to_owned()][..]));
        }
    }

    #[test]
    fn yaml_reads_back_as_the_same_definitions() {
        let read: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&crd_yaml()).unwrap();
        assert_eq!(read, [Definition::FluxJob.definition(), Definition::FluxQueue.definition()]);
        assert_eq!(
            read.iter().map(|it| it.metadata.name.as_deref().unwrap()).collect::<Vec<_>>(),
            Definition::ALL.map(Definition::name)
        );
    }

    #[test]
    fn schema_keeps_the_words_that_the_api_server_acts_on() {
        let crd = serde_json::to_value(FluxJob::crd()).unwrap();
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["subresources"]["status"], serde_json::json!({}));
        let properties = &version["schema"]["openAPIV3Schema"]["properties"];

        let conditions = &properties["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], serde_json::json!(["type"]));
        let rules = conditions["items"]["x-kubernetes-validations"].as_array().unwrap();
        assert!(
            rules.iter().any(|rule| rule["rule"].as_str().unwrap().contains("'MutualWait'")),
            "{rules:?}"
        );

        let states = properties["status"]["properties"]["state"]["enum"].as_array().unwrap();
        assert!(states.contains(&"Unsatisfiable".into()), "{states:?}");

        assert_eq!(properties["spec"]["required"], serde_json::json!(["workloadRef"]));
        let wishes = &properties["spec"]["properties"]["overrides"]["properties"];
        assert_eq!(wishes["walltimeSeconds"]["minimum"].as_f64(), Some(1.0), "0 is no walltime");
    }

    #[test]
    fn an_older_definition_is_known_by_its_missing_fields() {
        let crd = serde_json::to_value(FluxJob::crd()).unwrap();
        let lacking = |change: fn(&mut Value)| {
            let mut older = crd.clone();
            change(&mut older["spec"]["versions"][0]);
            Definition::FluxJob.missing_from(&older)
        };
        assert_eq!(lacking(|_| ()), [""; 0]);
        assert_eq!(Definition::FluxJob.missing_from(&serde_json::json!({})), ["version v1alpha1"]);
        assert_eq!(lacking(|version| version["served"] = false.into()), ["version v1alpha1"]);
        assert_eq!(
            lacking(|version| {
                let status =
                    &mut version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
                status.as_object_mut().unwrap().remove("workload");
                status["blockedBy"]["items"]["properties"]["reason"]["enum"]
                    .as_array_mut()
                    .unwrap()
                    .retain(|it| it != "Gated");
                let rules = &mut status["conditions"]["items"]["x-kubernetes-validations"];
                let rule = rules[1]["rule"].as_str().unwrap().replace(", 'MutualWait'", "");
                rules[1]["rule"] = rule.into();
                status["later"] = serde_json::json!({ "type": "string" });
            }),
            ["status.blockedBy.reason=Gated", "status.conditions=MutualWait", "status.workload"]
        );
        assert_eq!(
            lacking(|version| version["subresources"] = Value::Null),
            ["subresource status"]
        );
    }

    #[test]
    fn every_field_of_spec_is_either_fixed_or_a_persons() {
        let crd = serde_json::to_value(FluxJob::crd()).unwrap();
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let rules = spec["x-kubernetes-validations"].as_array().unwrap();
        for field in spec["properties"].as_object().unwrap().keys() {
            let fixed = rules.iter().any(|rule| rule["fieldPath"] == format!(".{field}"));
            assert_ne!(fixed, field == "overrides", "{field}");
        }
    }
}
