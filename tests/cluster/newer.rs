//! Tests that name something that older versions of Kubernetes do not have.

use crate::kubernetes;

/// The tests, each with the first version that it runs on. `tests/testbed/README.md` lists them,
/// too.
const NEWER: [(&str, &str); 11] = [
    ("admission::policies_and_the_webhook_refuse_the_same", "1.36"),
    ("admission::policies_do_without_a_server_what_the_webhook_does", "1.36"),
    ("documented::an_operator_installs_upgrades_pauses_and_removes_as_the_page_says", "1.36"),
    ("limits::a_group_does_not_change_the_walltime_of_a_pod_that_runs", "1.37"),
    ("scheduling_groups::a_job_with_a_group_of_kubernetes_is_the_gang_that_it_is_without", "1.36"),
    ("scheduling_groups::a_gang_of_a_pod_group_waits_for_as_many_pods_as_the_group_says", "1.37"),
    ("scheduling_groups::a_group_stays_in_one_part_of_a_level_as_kube_scheduler_keeps_it", "1.37"),
    ("scheduling_groups::pods_of_a_basic_group_or_job_start_one_by_one", "1.37"),
    ("scheduling_groups::a_gang_of_a_job_waits_for_all_that_it_asks_for", "1.37"),
    ("scheduling_groups::a_resource_of_a_device_class_is_refused_until_a_node_has_it", "1.36"),
    ("users::the_job_of_a_pod_group_is_that_of_the_user_of_its_pods", "1.37"),
];

/// True if this test, which is one of the list, cannot run on the version of the control plane.
pub(crate) fn is_left_out(test: &str) -> bool {
    let (_, first) = NEWER.iter().find(|(known, _)| *known == test).expect("it is in the list");
    let is_older = !kubernetes::is_at_least(first);
    if is_older {
        println!(
            "left out: {test} needs Kubernetes {first}, and this is {}",
            kubernetes::version()
        );
    }
    is_older
}

#[test]
fn the_readme_of_the_testbed_lists_them() {
    let readme = include_str!("../testbed/README.md");
    for (test, first) in NEWER {
        let row = format!("| `{test}` | {first} |");
        assert!(readme.contains(&row), "no row {row}");
    }
}
