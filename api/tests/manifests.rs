//! Tests of the manifests, as far as they can be judged without a cluster: the examples state their
//! expectations in words that the demo understands, and the permissions are as narrow as they
//! claim.
#![expect(clippy::unwrap_used, reason = "a panic is a test's report, also of what its tests share")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fluxqueue_api::{WorkloadKind, names};
use serde_json::Value;

const BASE: &str = "chart/files/base";
const WEBHOOK: &str = "chart/files/webhook";
const POLICIES: &str = "chart/files/admission-policies";

/// Returns the folder of this name in `manifests/`.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests").join(name)
}

fn manifests(name: &str) -> Vec<(PathBuf, String)> {
    let folder = folder(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| (path.clone(), fs::read_to_string(&path).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

fn objects(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// Returns the pod's spec, whether it stands alone or in a template.
fn pod_spec(object: &Value) -> &Value {
    if object["kind"] == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] }
}

/// Accepts the same texts as demo/src/expect.rs.
fn is_expectation(text: &str) -> bool {
    let mut parts = text.split(", ");
    let outcome = parts.next().unwrap_or_default();
    let outcome = match outcome.split_once(": ") {
        None => ["Complete", "Unsatisfiable", "Refused"].contains(&outcome),
        Some(("Running", count)) => count.parse::<u32>().is_ok_and(|count| count > 0),
        Some(("Failed", reason)) => {
            !reason.is_empty() && reason.chars().all(|c| c.is_ascii_alphabetic())
        }
        Some(_) => false,
    };
    let may_wait = |fact: &str| {
        let other = fact.strip_prefix("it or ").and_then(|rest| rest.strip_suffix(" waits"));
        other.is_some_and(|other| !other.is_empty())
    };
    outcome
        && parts.all(|fact| {
            ["together", "waits"].contains(&fact) || fact.starts_with("by ") || may_wait(fact)
        })
}

/// The examples for a default installation, and those of other scheduler names.
fn examples() -> Vec<(PathBuf, String)> {
    [manifests("examples"), manifests("examples/aliases")].concat()
}

#[test]
fn every_example_states_its_expectation() {
    let mut names = Vec::new();
    for (path, text) in examples() {
        let path = path.display();
        assert!(
            text.starts_with("# ") && text.contains("\n# Must happen: "),
            "{path}: no comment says what must happen"
        );
        for object in objects(&text) {
            if pod_spec(&object).is_null() {
                continue;
            }
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let expected = object["metadata"]["annotations"]["fluxqueue-demo/expect"]
                .as_str()
                .unwrap_or_default();
            assert!(
                is_expectation(expected),
                "{path}: {name} expects {expected:?}, which the demo cannot check"
            );
            assert!(
                !names.contains(&name),
                "{path}: {name} is the name of two examples, and the demo goes by names"
            );
            names.push(name);
        }
    }
}

/// Returns the scheduler names in a file.
fn schedulers(text: &str) -> BTreeSet<String> {
    let all = objects(text);
    let specs = all.iter().map(pod_spec).filter(|spec| !spec.is_null());
    let name =
        |spec: &Value| spec["schedulerName"].as_str().unwrap_or("default-scheduler").to_owned();
    specs.map(name).collect()
}

#[test]
fn every_example_names_fluxqueue() {
    for (path, text) in manifests("examples") {
        let only = BTreeSet::from([names::SCHEDULER_NAME.to_owned()]);
        assert_eq!(schedulers(&text), only, "{}", path.display());
    }
}

#[test]
fn every_example_of_another_name_needs_a_setting_for_it() {
    let mut all = BTreeSet::new();
    for (path, text) in manifests("examples/aliases") {
        let mut of_others = schedulers(&text);
        of_others.remove("default-scheduler");
        let names: Vec<&String> = of_others.iter().collect();
        let [name] = names[..] else { panic!("{}: {of_others:?}", path.display()) };
        let first = format!("# Needs the setting schedulerNames with {name}.\n");
        assert!(text.starts_with(&first), "{}: {first}", path.display());
        all.extend(of_others);
    }
    let expected = names::SEED_SCHEDULER_NAMES.map(str::to_owned);
    assert_eq!(all, BTreeSet::from(expected), "each alias has an example");
}

/// The first line names the needs of a file beyond a default installation.
#[test]
fn every_example_says_what_it_needs() {
    for (path, text) in manifests("examples") {
        let needs_racks =
            text.contains("-level: rack") || text.contains("topology.kubernetes.io/rack");
        let is_needy = needs_racks
            || ["nvidia.com/gpu:", "fluxqueue/exclusive:", "kind: PodGroup", "schedulingPolicy:"]
                .iter()
                .any(|word| text.contains(word));
        assert_eq!(text.starts_with("# Needs "), is_needy, "{}", path.display());
    }
}

#[test]
fn permissions_have_reasons_and_no_wildcards() {
    for (folder, file) in [
        (BASE, "rbac.yaml"),
        (BASE, "roles.yaml"),
        (WEBHOOK, "rbac.yaml"),
        (WEBHOOK, "metrics.yaml"),
        (WEBHOOK, "suspend.yaml"),
    ] {
        let (_, text) =
            manifests(folder).into_iter().find(|(path, _)| path.ends_with(file)).unwrap();
        let mut rules = 0;
        for (at, line) in
            text.lines().enumerate().filter(|(_, line)| line.starts_with("  - apiGroups: ["))
        {
            let before = text.lines().nth(at - 1).unwrap();
            assert!(
                before.trim_start().starts_with("# "),
                "{file}:{}: no comment says what {line} is for",
                at + 1
            );
            rules += 1;
        }
        let parsed: Vec<Value> = objects(&text);
        let parsed = parsed.iter().filter_map(|object| object["rules"].as_array()).flatten();
        let parsed: Vec<&Value> = parsed.filter(|rule| rule["nonResourceURLs"].is_null()).collect();
        assert_eq!(parsed.len(), rules, "{file}");
        for rule in parsed {
            for list in ["apiGroups", "resources", "verbs"] {
                assert!(!rule[list].as_array().unwrap().contains(&"*".into()), "{rule}");
            }
            // The webhook keeps its certificates in one that is named.
            let is_secrets = rule["resources"].as_array().unwrap().contains(&"secrets".into());
            let is_one = folder == WEBHOOK
                && rule["resourceNames"] == serde_json::json!(["fluxqueue-webhook"]);
            assert!(!is_secrets || is_one, "{rule}");
        }
    }
}

/// Returns the rules of a role or a policy, or of each webhook of a configuration, with its name.
fn rules_of(object: &Value) -> Vec<(String, Vec<&Value>)> {
    let webhooks = object["webhooks"].as_array().into_iter().flatten();
    let of_webhooks = webhooks.map(|webhook| (&webhook["name"], &webhook["rules"]));
    [&object["rules"], &object["spec"]["matchConstraints"]["resourceRules"]]
        .map(|rules| (&object["metadata"]["name"], rules))
        .into_iter()
        .chain(of_webhooks)
        .filter_map(|(name, rules)| {
            Some((name.as_str()?.to_owned(), rules.as_array()?.iter().collect()))
        })
        .collect()
}

/// Returns the kinds of these groups that rules name, without subresources: `jobs.batch`.
fn resources(rules: &[&Value], groups: &[&str]) -> BTreeSet<String> {
    let texts = |rule: &Value, list: &str| -> Vec<String> {
        let texts = rule[list].as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut named = BTreeSet::new();
    for rule in rules {
        for group in texts(rule, "apiGroups").iter().filter(|it| groups.contains(&it.as_str())) {
            for resource in texts(rule, "resources") {
                let kind = resource.split('/').next().unwrap();
                named.insert(format!("{kind}.{group}"));
            }
        }
    }
    named
}

#[test]
fn every_list_of_objects_that_make_pods_has_all_kinds() {
    // CronJobs make Jobs, and DaemonSets make pods for one node each.
    const OTHERS: [&str; 2] = ["cronjobs.batch", "daemonsets.apps"];
    const FOR_JOBS_ALONE: [&str; 4] = [
        "fluxqueue-suspend",
        "fluxqueue-suspensions",
        "fluxqueue-own-jobs",
        "suspend.fluxqueue.converged-computing.org",
    ];
    let served = WorkloadKind::CONTROLLERS.map(|kind| kind.facts().served.unwrap());
    let groups = served.map(|served| served.group());
    let all = served.map(|served| format!("{}.{}", served.plural, served.group()));
    let (mut full, mut for_jobs) = (Vec::new(), BTreeSet::new());
    for (path, text) in [BASE, WEBHOOK, POLICIES].into_iter().flat_map(manifests) {
        let objects = objects(&text);
        for (name, rules) in objects.iter().flat_map(rules_of) {
            let mut named = resources(&rules, &groups);
            named.retain(|kind| !OTHERS.contains(&kind.as_str()));
            if FOR_JOBS_ALONE.contains(&name.as_str()) {
                assert_eq!(named, BTreeSet::from(["jobs.batch".to_owned()]), "{name}");
                for_jobs.insert(name);
            } else if !named.is_empty() {
                assert_eq!(named, BTreeSet::from(all.clone()), "{}: {name}", path.display());
                full.push(name);
            }
        }
    }
    assert_eq!(for_jobs.len(), FOR_JOBS_ALONE.len(), "{for_jobs:?}");
    assert_eq!(full.len(), 11, "{full:?}");
}

#[test]
fn every_manifest_is_installed() {
    for folder in [BASE, WEBHOOK] {
        let (kustomizations, others): (Vec<_>, Vec<_>) = manifests(folder)
            .into_iter()
            .partition(|(path, _)| path.ends_with("kustomization.yaml"));
        let kustomization = &objects(&kustomizations[0].1)[0];
        for (path, _) in others {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(
                kustomization["resources"].as_array().unwrap().contains(&name.into()),
                "{folder}/{name}"
            );
        }
    }
}

/// A copy of its folder alone, on any file system, is a complete chart.
#[test]
fn the_chart_is_whole_by_itself() {
    let mut folders = vec![folder("chart")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            assert!(!kind.is_symlink(), "{} is a link", entry.path().display());
            if kind.is_dir() {
                folders.push(entry.path());
            } else {
                files += 1;
            }
        }
    }
    assert!(files > 30, "{files} files");
}

#[test]
fn the_deployments_need_no_privilege() {
    for folder in [BASE, WEBHOOK] {
        let (_, text) = manifests(folder)
            .into_iter()
            .find(|(path, _)| path.ends_with("deployment.yaml"))
            .unwrap();
        let deployment = &objects(&text)[0];
        let pod = pod_spec(deployment);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let container = &pod["containers"][0]["securityContext"];
        assert_eq!(container["readOnlyRootFilesystem"], true);
        assert_eq!(container["allowPrivilegeEscalation"], false);
        assert_eq!(container["capabilities"]["drop"], serde_json::json!(["ALL"]));
    }
}

/// Reads the configurations by which the API server asks, as `kubectl` renders them.
#[test]
fn the_api_server_asks_only_where_it_is_asked_to_and_goes_on_without_an_answer() {
    let mut asked = 0;
    for (_, text) in manifests(WEBHOOK) {
        for object in objects(&text) {
            for webhook in object["webhooks"].as_array().into_iter().flatten() {
                assert_eq!(
                    (&webhook["failurePolicy"], &webhook["sideEffects"]),
                    (&"Ignore".into(), &"None".into())
                );
                assert!(webhook["timeoutSeconds"].as_u64().unwrap() <= 2, "{webhook}");
                assert!(
                    webhook["matchConditions"].as_array().is_some_and(|all| !all.is_empty()),
                    "{webhook}"
                );
                let selected = |selector: &str, key: &str, operator: &str, value: &str| {
                    webhook[selector]["matchExpressions"].as_array().into_iter().flatten().any(
                        |it| {
                            let has_value =
                                it["values"].as_array().unwrap().contains(&value.into());
                            it["key"] == key && it["operator"] == operator && has_value
                        },
                    )
                };
                for namespace in ["kube-system", "fluxqueue-system"] {
                    assert!(selected(
                        "namespaceSelector",
                        "kubernetes.io/metadata.name",
                        "NotIn",
                        namespace
                    ));
                }
                let opt_ins = [
                    ("namespaceSelector", names::ADMISSION),
                    ("objectSelector", names::ADMISSION),
                    ("namespaceSelector", names::ADMISSION_STRICT),
                    ("namespaceSelector", names::ADMISSION_SUSPEND),
                ];
                // An object that names Fluxqueue asks for it too.
                let names_us = |it: &Value| {
                    let expression = it["expression"].as_str().unwrap_or_default();
                    it["name"] == "goes-to-fluxqueue"
                        && expression.ends_with("spec.schedulerName).orValue('') in ['fluxqueue']")
                };
                assert!(
                    opt_ins.iter().any(|(by, label)| selected(by, label, "In", names::ENABLED))
                        || webhook["matchConditions"].as_array().unwrap().iter().any(names_us),
                    "{webhook}"
                );
                asked += 1;
            }
        }
    }
    assert_eq!(asked, 6);
}
