//! The recipes of docs/slurm.md, submitted as they stand.

use std::collections::BTreeSet;

use crate::harness::{ControlPlane, NODES, Namespace, node_of, root};

fn recipe(name: &str) -> String {
    let path = root().join("manifests/recipes").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Submits a recipe that ends, and waits until all its pods have succeeded.
fn completes(plane: &ControlPlane, name: &str, pods: usize) -> BTreeSet<String> {
    let ns = plane.namespace("recipe");
    ns.apply(&recipe(&format!("{name}.yaml")));
    nodes_of(&ns, name, pods)
}

fn nodes_of(ns: &Namespace<'_>, name: &str, pods: usize) -> BTreeSet<String> {
    let succeeded = ns.succeeded(pods);
    ns.state(name, "Completed");
    succeeded.iter().map(|pod| node_of(pod).to_owned()).collect()
}

#[test]
fn every_recipe_does_what_it_says() {
    let plane = ControlPlane::start(NODES, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    assert_eq!(completes(&plane, "mpi", 4).len(), 4, "one pod on each node");
    completes(&plane, "array", 12);
    assert_eq!(completes(&plane, "gpu", 2), BTreeSet::from(["gpu-0".to_owned()]));
    assert_eq!(completes(&plane, "whole-nodes", 2).len(), 2);
    let ns = plane.namespace("recipe");
    for name in ["service.yaml", "notebook.yaml"] {
        ns.apply(&recipe(name));
    }
    ns.running(3);
    let ns = plane.namespace("recipe");
    ns.apply(&recipe("nightly.yaml"));
    ns.kubectl(&["create", "job", "tonight", "--from=cronjob/nightly"]);
    let record = ns.state("tonight", "Completed");
    assert_eq!(record["status"]["walltimeSeconds"], 1800, "{record}");
}

/// All recipes are named in the page, and each needs no more than its first line says.
#[test]
fn every_recipe_is_in_the_page_for_users_of_slurm() {
    let page = std::fs::read_to_string(root().join("docs/slurm.md")).expect("the page");
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("manifests/recipes")).expect("a folder") {
        let name = entry.expect("a file").file_name().to_string_lossy().into_owned();
        assert!(page.contains(&format!("(../manifests/recipes/{name})")), "{name}");
        let text = recipe(&name);
        assert!(text.starts_with("# ") && text.contains("schedulerName: fluxqueue\n"), "{name}");
        let is_needy = ["nvidia.com/gpu", "fluxqueue/exclusive"].iter().any(|it| text.contains(it));
        assert_eq!(text.starts_with("# Needs "), is_needy, "{name}");
        count += 1;
    }
    assert_eq!(count, 7);
}
