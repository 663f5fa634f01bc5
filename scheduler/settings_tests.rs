use super::*;

#[test]
fn the_default_walltime_is_read_as_the_annotation_is() {
    for (text, seconds) in [("90s", 90), ("1.5h", 5400), ("2d", 172_800)] {
        assert_eq!(walltime_secs(text).unwrap(), seconds, "{text}");
    }
}

const HEAD: &str =
    "apiVersion: config.converged-computing.org/v1alpha1\nkind: FluxqueueConfiguration\n";

fn resolve(body: &str) -> Result<Settings, String> {
    let file = FluxqueueConfiguration::parse(&format!("{HEAD}{body}"))?;
    Settings::resolve(Some(file), Overrides::default()).map_err(|error| error.to_string())
}

#[test]
fn an_empty_file_means_the_defaults() {
    let settings = resolve("").unwrap();
    assert_eq!(settings, Settings::resolve(None, Overrides::default()).unwrap());
    assert_eq!(settings.core.scheduler_names, ["fluxqueue".into()]);
    assert_eq!(settings.core.default_walltime_secs, None);
    assert_eq!(settings.bind_concurrency, 64);
}

#[test]
fn every_field_is_read() {
    let settings = resolve(
        "schedulerNames: [a, b, a]\npolicy: hinode\nqueuePolicy: hybrid\nqueueDepth: 11\n\
         reservationDepth: 12\n\
         bypassSeconds: 13\ndefaultWalltime: 1h30m\n\
         ttlSecondsAfterFinished: 7\nslotKeepSeconds: 8\nslotKeepMaxSeconds: 16\n\
         suspendHoldSeconds: 15\ngroupGraceSeconds: 9\ngangStartTimeout: 10\n\
         volumeBindTimeout: 14\nbindConcurrency: 10\n\
         recordLonePods: true\nnamesAcrossNamespaces: true\n\
         topology: [{levels: [{name: row, nodeLabels: [example.com/row]}]}]\n",
    )
    .unwrap();
    let row = Level { name: "row".into(), node_labels: vec!["example.com/row".into()] };
    let core = CoreSettings {
        scheduler_names: vec!["a".into(), "b".into()],
        node_policy: NodePolicy::HiNode,
        default_walltime_secs: Some(5400),
        ttl_after_finished_secs: 7,
        slot_keep_secs: 8,
        slot_keep_max_secs: 16,
        suspend_hold_secs: 15,
        release_pause_secs: 60,
        group_grace_secs: 9,
        gang_start_timeout_secs: 10,
        volume_bind_timeout_secs: 14,
        record_lone_pods: true,
        names_across_namespaces: true,
        queue_policy: QueuePolicy::Hybrid,
        queue_depth: 11,
        reservation_depth: 12,
        bypass_secs: 13,
        questions_per_slice: 32,
        search_steps: 32_000_000,
        start_slack_secs: 2,
        end_slack_secs: 1,
        own_namespace: "fluxqueue-system".into(),
        topology: Arc::new(Topology::new(vec![vec![row]]).unwrap()),
    };
    assert_eq!(settings, Settings { core, bind_concurrency: 10 });
}

#[test]
fn the_documented_file_names_every_field_and_its_default() {
    let page = include_str!("../docs/settings.md");
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let file = FluxqueueConfiguration::parse(example).unwrap();
    // Naming the fields one by one keeps a new field from compiling until it is handled here.
    let FluxqueueConfiguration {
        api_version: _,
        kind: _,
        scheduler_names: Some(_),
        policy: Some(_),
        queue_policy: Some(_),
        queue_depth: Some(_),
        reservation_depth: Some(_),
        bypass_seconds: Some(_),
        default_walltime: Some(_),
        ttl_seconds_after_finished: Some(_),
        slot_keep_seconds: Some(_),
        slot_keep_max_seconds: Some(_),
        suspend_hold_seconds: Some(_),
        group_grace_seconds: Some(_),
        gang_start_timeout: Some(_),
        volume_bind_timeout: Some(_),
        bind_concurrency: Some(_),
        record_lone_pods: Some(_),
        names_across_namespaces: Some(_),
        topology: Some(_),
    } = file.clone()
    else {
        panic!("docs/settings.md leaves out a field: {file:?}")
    };
    let mut documented = Settings::resolve(Some(file), Overrides::default()).unwrap();
    assert_eq!(documented.core.default_walltime_secs.take(), Some(5400));
    assert_eq!(documented, Settings::resolve(None, Overrides::default()).unwrap());
}

#[test]
fn flags_override_the_file() {
    let file =
        FluxqueueConfiguration::parse(&format!("{HEAD}schedulerNames: [a]\npolicy: hinode\n"))
            .unwrap();
    let flags = Overrides {
        scheduler_names: vec!["b".to_owned()],
        policy: Some("lonode".to_owned()),
        queue_policy: None,
        bind_concurrency: Some(3),
    };
    let settings = Settings::resolve(Some(file), flags).unwrap();
    assert_eq!(settings.core.scheduler_names, ["b".into()]);
    assert_eq!(settings.core.node_policy, NodePolicy::LoNode);
    assert_eq!(settings.bind_concurrency, 3);
}

#[test]
fn every_policy_can_be_set() {
    for policy in NodePolicy::ALL {
        assert_eq!(
            resolve(&format!("policy: {}\n", policy.as_str())).unwrap().core.node_policy,
            policy
        );
    }
}

#[test]
fn errors_name_the_field() {
    for (body, expected) in [
        (
            "policy: nonsense\n",
            "policy: \"nonsense\" is not one of first, lonode, hinode, binpack, spread",
        ),
        (
            "queuePolicy: lifo\n",
            "queuePolicy: \"lifo\" is not one of fcfs, easy, hybrid, conservative",
        ),
        ("queueDepth: 0\n", "queueDepth: 0 is less than 1"),
        ("reservationDepth: 0\n", "reservationDepth: 0 is less than 1"),
        ("defaultWalltime: soon\n", "defaultWalltime: \"soon\" is not a duration"),
        ("defaultWalltime: unlimited\n", "defaultWalltime: \"unlimited\" cannot be a default"),
        ("defaultWalltime: '-5m'\n", "defaultWalltime: \"-5m\" is negative"),
        ("defaultWalltime: '0'\n", "defaultWalltime: \"0\" is not more than 0"),
        ("bindConcurrency: 0\n", "bindConcurrency: 0 is not between 1 and 128"),
        ("schedulerNames: []\n", "schedulerNames: at least one name is needed"),
        ("schedulerNames: ['']\n", "schedulerNames: \"\" is not a scheduler's name: at most 63"),
        (
            "schedulerNames: [default-scheduler]\n",
            "schedulerNames: default-scheduler is kube-scheduler's",
        ),
        (
            "schedulerNames: [a b]\n",
            "schedulerNames: \"a b\" is not a scheduler's name: at most 63",
        ),
        ("topology: [{levels: []}]\n", "topology: tree 1 has no levels"),
        (
            "topology: [{levels: [{name: rack, nodeLabels: [a b]}]}]\n",
            "topology: level \"rack\": \"a b\" is not the key of a label",
        ),
        (
            "topology: [{levels: [{name: rack, nodeLabels: []}]}]\n",
            "topology: level \"rack\" has no node label",
        ),
        ("slotKeepSecs: 3\n", "slotKeepSecs"),
        ("slotKeepSeconds: -3\n", "slotKeepSeconds"),
        ("policy: first\npolicy: first\n", "policy"),
    ] {
        let error = resolve(body).unwrap_err();
        assert!(error.contains(expected), "{body:?} gives {error:?}");
    }
}

#[test]
fn other_versions_are_refused() {
    let error = FluxqueueConfiguration::parse("apiVersion: v2\nkind: FluxqueueConfiguration\n")
        .unwrap_err();
    assert!(error.starts_with("apiVersion: \"v2\" is not known"), "{error}");
    let error = FluxqueueConfiguration::parse(&format!("apiVersion: {API_VERSION}\nkind: Other\n"))
        .unwrap_err();
    assert!(error.starts_with("kind: \"Other\""), "{error}");
}

#[test]
fn durations_are_written_as_in_go() {
    for (text, millis) in
        [("15s", 15_000), ("1h30m", 5_400_000), ("100ms", 100), ("90", 90_000), ("1.5h", 5_400_000)]
    {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
    }
    assert!(parse_duration("").is_err());
    assert!(parse_duration("1x").is_err());
}
