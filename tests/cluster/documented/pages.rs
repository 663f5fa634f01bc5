//! The pages about simulations, admission, queues, FluxJobs, and the user guide.

use crate::harness::ControlPlane;

use super::{NODES, hour, read_on, read_with};

/// A queue without rules, for jobs that are moved.
const GPU: &str = "apiVersion: jobs.converged-computing.org/v1alpha1\nkind: FluxQueue\n\
                   metadata: {name: gpu}\nspec: {}\n";

/// Makes the job `large-job` of pods with 8 CPUs each, with an hour to run.
fn large(pods: u32) -> String {
    hour("large-job", pods, "infinity").replace("cpu: '12'", "cpu: '8'")
}

#[test]
fn a_load_and_one_job_are_simulated_as_the_page_says() {
    let jobs = [
        (hour("runs", 4, "infinity"), "runs", "Running"),
        (hour("solve", 6, "infinity"), "solve", "Pending"),
    ];
    read_with("docs/simulate.md", &jobs, 5);
}

#[test]
fn queues_are_made_as_the_page_says() {
    read_with("docs/queues.md", &[], 2);
}

/// The API server calls no webhook here: nothing answers at the address in its manifests.
#[test]
fn namespaces_are_labelled_as_the_page_on_admission_says() {
    read_with("docs/admission.md", &[], 3);
}

#[test]
fn a_fluxjob_is_found_changed_and_waited_for_as_the_page_says() {
    let jobs = [
        (hour("always", 1, "infinity"), "always", "Running"),
        (hour("runs", 4, "infinity"), "runs", "Running"),
        (hour("lammps", 3, "1"), "lammps", "Pending"),
    ];
    let files = [("large-job.yaml", hour("large-job", 6, "1"))];
    read_on(&ControlPlane::start(NODES, &[]), "docs/fluxjob.md", &jobs, &files, 4);
}

#[test]
fn the_commands_of_the_user_guide_do_what_they_say() {
    let files = [("large-job.yaml", large(12)), ("gpu.yaml", GPU.to_owned())];
    read_on(&ControlPlane::start(NODES, &[]), "docs/user-guide.md", &[], &files, 7);
}
