//! Certificates of the webhook: its own, which are rotated, and those of others.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::admission::{given, goes_to, labelled, plane};
use crate::harness::within;
use crate::webhook::{Files, Webhook, free_port, install_trusting, process, trusted};

#[test]
fn certificates_of_its_own_are_rotated_without_a_gap() {
    let plane = plane();
    let _webhook =
        Webhook::start(&plane, &["--certificate-lifetime=12s", "--authority-lifetime=40s"]);
    // Another replica uses the same ones.
    let _other =
        process(&plane, free_port(), &["--certificate-lifetime=12s", "--authority-lifetime=40s"]);
    let ns = labelled(&plane, "rotation", &["fluxqueue/admission=enabled"]);
    goes_to(&ns, "fluxqueue");
    let secret = |key: &str| {
        let path = format!("-o=jsonpath={{.data.{}}}", key.replace('.', "\\."));
        plane.kubectl(&["get", "secret", "fluxqueue-webhook", "-n", "fluxqueue-system", &path])
    };
    let (mut served, mut authorities) = (vec![secret("tls.crt")], vec![trusted(&plane)]);
    let end = Instant::now() + Duration::from_mins(1);
    while Instant::now() < end {
        assert_eq!(given(&ns), "fluxqueue", "after {} certificates", served.len());
        let (now, trusted) = (secret("tls.crt"), trusted(&plane));
        if served.last() != Some(&now) {
            served.push(now);
        }
        if !trusted.is_empty() && authorities.last() != Some(&trusted) {
            authorities.push(trusted);
        }
    }
    assert!(served.len() > 4, "{} certificates in a minute", served.len());
    assert!(authorities.len() > 2, "{} sets of authorities in a minute", authorities.len());
}

#[test]
fn the_trusted_authority_is_restored_after_a_change_by_others() {
    let plane = plane();
    let _webhook = Webhook::start(&plane, &[]);
    let ns = labelled(&plane, "put-back", &["fluxqueue/admission=enabled"]);
    goes_to(&ns, "fluxqueue");
    let nonsense = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .expect("a certificate")
        .cert
        .pem();
    let operation = json!([{
        "op": "replace", "path": "/webhooks/0/clientConfig/caBundle",
        "value": k8s_openapi::ByteString(nonsense.into_bytes()),
    }]);
    let patch = operation.to_string();
    plane.kubectl(&[
        "patch",
        "mutatingwebhookconfiguration",
        "fluxqueue",
        "--type=json",
        "-p",
        &patch,
    ]);
    // The process also looks once a minute by itself. A change within 20 s shows that its watch
    // works.
    within(Duration::from_secs(20), "the right authority to be back", || {
        (!trusted(&plane).is_empty()).then_some(())
    });
    goes_to(&ns, "fluxqueue");
    // A Secret that was emptied is filled again, and its content is trusted.
    let before = trusted(&plane);
    let empty = r#"[{"op": "remove", "path": "/data"}]"#;
    plane.kubectl(&[
        "patch",
        "secret",
        "fluxqueue-webhook",
        "-n",
        "fluxqueue-system",
        "--type=json",
        "-p",
        empty,
    ]);
    within(Duration::from_secs(20), "another authority", || {
        let now = trusted(&plane);
        (!now.is_empty() && now != before).then_some(())
    });
    goes_to(&ns, "fluxqueue");
    let log = std::fs::read_to_string(plane.dir.join("webhook.log")).expect("its log");
    assert!(!log.contains("WARN"), "{log}");
}

/// Makes a certificate for localhost by this authority. It is valid for this number of days from
/// now, or expired if the number is negative.
fn signed(
    authority: &rcgen::Issuer<'_, rcgen::KeyPair>,
    days: i64,
) -> (rcgen::Certificate, rcgen::KeyPair) {
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let now = time::OffsetDateTime::now_utc();
    params.not_before = now - time::Duration::days(10);
    params.not_after = now + time::Duration::days(days);
    let key = rcgen::KeyPair::generate().expect("a key");
    (params.signed_by(&key, authority).expect("a certificate"), key)
}

fn authority() -> (String, rcgen::Issuer<'static, rcgen::KeyPair>) {
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    let key = rcgen::KeyPair::generate().expect("a key");
    let pem = params.self_signed(&key).expect("a certificate").pem();
    (pem, rcgen::Issuer::new(params, key))
}

#[test]
fn certificates_of_others_are_read_again_and_wrong_ones_block_nothing() {
    let plane = plane();
    let ((trusted, right), (_, wrong)) = (authority(), authority());
    let (files, port) = (Files::in_dir(&plane), free_port());
    let put =
        |(certificate, key): (rcgen::Certificate, rcgen::KeyPair)| files.write(&certificate, &key);
    put(signed(&right, -1));
    install_trusting(&plane, port, &trusted);
    let flags = files.flags();
    let _webhook = process(&plane, port, &flags.each_ref().map(String::as_str));
    let ns = labelled(&plane, "files", &["fluxqueue/admission=enabled"]);
    let given_for = |what: &str, seconds: u64, scheduler: &str| {
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            assert_eq!(given(&ns), scheduler, "{what}");
        }
    };
    given_for("expired", 3, "default-scheduler");
    put(signed(&right, 10));
    goes_to(&ns, "fluxqueue");
    // Connections stay open, so the next certificate is checked when the API server makes a new
    // one.
    put(signed(&wrong, 10));
    std::thread::sleep(Duration::from_secs(6));
    plane.testbed(&["restart", "kube-apiserver"]);
    given_for("signed by a stranger", 3, "default-scheduler");
    put(signed(&right, 10));
    goes_to(&ns, "fluxqueue");
}
