//! The CustomResourceDefinition, generated from the Rust types.
//!
//! `manifests/crds/fluxjobs.yaml` is its output, checked in so that it can be applied and read without a build.

use kube::core::CustomResourceExt;

use crate::FluxJob;

const HEADER: &str = "\
# Generated from api/src/fluxjob.rs by `fluxqueue crds` (`make crds`). Do not edit.
";

/// Every CustomResourceDefinition of Fluxqueue, as YAML that `kubectl apply` takes.
pub fn crd_yaml() -> String {
    let yaml = serde_saphyr::to_string(&FluxJob::crd()).expect("the schema is a tree of strings, numbers and lists");
    format!("{HEADER}{yaml}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use std::path::Path;

    /// `UPDATE_GOLDEN=1 cargo test -p fluxqueue-api` writes the file anew; `make crds` does the same.
    #[test]
    fn checked_in_crd_is_what_the_types_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/crds/fluxjobs.yaml");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, crd_yaml()).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap();
        assert!(
            golden == crd_yaml(),
            "{} is not what the types say: run UPDATE_GOLDEN=1 cargo test -p fluxqueue-api",
            path.display()
        );
    }

    #[test]
    fn yaml_reads_back_as_the_same_definition() {
        let read: CustomResourceDefinition = serde_saphyr::from_str(&crd_yaml()).unwrap();
        assert_eq!(read, FluxJob::crd());
    }

    #[test]
    fn schema_keeps_what_the_api_server_acts_on() {
        let crd = serde_json::to_value(FluxJob::crd()).unwrap();
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["subresources"]["status"], serde_json::json!({}));
        let properties = &version["schema"]["openAPIV3Schema"]["properties"];

        let conditions = &properties["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], serde_json::json!(["type"]));
        let rules = conditions["items"]["x-kubernetes-validations"].as_array().unwrap();
        assert!(rules.iter().any(|rule| rule["rule"].as_str().unwrap().contains("'MutualWait'")), "{rules:?}");

        let states = properties["status"]["properties"]["state"]["enum"].as_array().unwrap();
        assert!(states.contains(&"Unsatisfiable".into()), "{states:?}");

        assert_eq!(properties["spec"]["required"], serde_json::json!(["workloadRef"]));
        let wishes = &properties["spec"]["properties"]["overrides"]["properties"];
        assert_eq!(wishes["walltimeSeconds"]["minimum"].as_f64(), Some(1.0), "0 is no walltime");
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
