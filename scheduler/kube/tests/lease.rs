use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Script, Server};
use crate::kube::lease::{Candidate, Leadership, LeaseLost, LeaseSettings, LeaseSettingsError};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/fluxqueue";

fn settings(identity: &str) -> LeaseSettings {
    LeaseSettings {
        namespace: "ns".to_owned(),
        name: "fluxqueue".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(700),
        retry_period: Duration::from_millis(50),
        write_timeout_max: Duration::from_millis(300),
    }
}

async fn acquire(server: &Server, identity: &str) -> Leadership {
    Candidate::new(server.clients.write.clone(), settings(identity)).acquire().await
}

fn spec(server: &Server) -> Value {
    server.object(LEASE).unwrap()["spec"].clone()
}

#[tokio::test]
async fn the_first_leader_starts_at_once() {
    let server = Server::start().await;
    let leadership = acquire(&server, "a").await;
    assert_eq!((leadership.epoch, leadership.wait_first), (0, Duration::ZERO));
    assert!(leadership.fence.holds());
    assert_eq!(spec(&server)["holderIdentity"], "a");
    assert_eq!(spec(&server)["leaseDurationSeconds"], 1);
}

#[tokio::test]
async fn a_released_lease_is_taken_over_without_waiting() {
    let server = Server::start().await;
    acquire(&server, "a").await.release().await;
    assert_eq!(spec(&server)["holderIdentity"], "");
    let begun = Instant::now();
    let leadership = acquire(&server, "b").await;
    assert_eq!((leadership.epoch, leadership.wait_first), (1, Duration::ZERO));
    assert!(begun.elapsed() < Duration::from_millis(900));
}

#[tokio::test]
async fn a_dead_leader_is_outwaited() {
    let server = Server::start().await;
    drop(acquire(&server, "a").await);
    let begun = Instant::now();
    let leadership = acquire(&server, "b").await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    // Its last write may still be under way.
    assert_eq!((leadership.epoch, leadership.wait_first), (1, Duration::from_millis(300)));
}

#[tokio::test]
async fn a_takeover_with_a_lost_answer_waits_all_the_same() {
    let server = Server::start().await;
    drop(acquire(&server, "a").await);
    server.script("PUT", Script::DoAndRefuse(500, "InternalError"));
    let leadership = acquire(&server, "b").await;
    assert_eq!((leadership.epoch, leadership.wait_first), (1, Duration::from_millis(300)));
}

#[tokio::test]
async fn a_living_leader_keeps_others_out() {
    let server = Server::start().await;
    let mut leadership = acquire(&server, "a").await;
    let kept = tokio::spawn(async move { leadership.keep(&|_| None).await });
    let other = tokio::time::timeout(Duration::from_millis(1600), acquire(&server, "b")).await;
    assert!(other.is_err(), "b leads beside a");
    assert!(!kept.is_finished());
    kept.abort();
}

#[tokio::test]
async fn a_lease_in_other_hands_is_lost() {
    let server = Server::start().await;
    let mut leadership = acquire(&server, "a").await;
    let mut taken = server.object(LEASE).unwrap();
    taken["spec"]["holderIdentity"] = json!("b");
    server.put(LEASE, taken);
    let lost =
        tokio::time::timeout(Duration::from_secs(2), leadership.keep(&|_| None)).await.unwrap();
    assert!(
        !leadership.fence.holds(),
        "it knows, so it need not wait until the renewals are overdue"
    );
    assert!(matches!(lost, LeaseLost::Taken { holder, .. } if holder == "b"));
}

#[tokio::test]
async fn a_renewal_with_a_lost_answer_is_no_loss() {
    let server = Server::start().await;
    let mut leadership = acquire(&server, "a").await;
    server.script("PUT", Script::DoAndRefuse(500, "InternalError"));
    assert!(
        tokio::time::timeout(Duration::from_millis(1200), leadership.keep(&|_| None))
            .await
            .is_err()
    );
    assert!(leadership.fence.holds());
}

#[tokio::test]
async fn a_leader_that_cannot_renew_gives_up_in_time() {
    let server = Server::start().await;
    let mut leadership = acquire(&server, "a").await;
    let fence = leadership.fence.clone();
    for _ in 0..100 {
        server.script("PUT", Script::Stall(Duration::from_secs(20)));
    }
    let begun = Instant::now();
    let lost =
        tokio::time::timeout(Duration::from_secs(3), leadership.keep(&|_| None)).await.unwrap();
    assert!(matches!(lost, LeaseLost::Expired { .. }), "{lost}");
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    assert!(!fence.holds());
}

#[tokio::test]
async fn a_lease_deleted_under_its_holder_makes_the_next_wait() {
    let server = Server::start().await;
    let _holder = acquire(&server, "a").await;
    let next = tokio::spawn({
        let server = server.clone();
        async move { acquire(&server, "b").await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.remove(LEASE);
    let leadership = tokio::time::timeout(Duration::from_secs(2), next).await.unwrap().unwrap();
    assert_eq!((leadership.epoch, leadership.wait_first), (1, Duration::from_secs(1)));
}

#[test]
fn times_that_allow_two_leaders_are_refused() {
    let good = settings("a");
    assert_eq!(good.check(), Ok(()));
    let equal = LeaseSettings { lease_duration: good.renew_deadline, ..good.clone() };
    assert_eq!(equal.check(), Err(LeaseSettingsError::DurationNotAboveDeadline));
    let no_retry = LeaseSettings { retry_period: good.renew_deadline, ..good };
    assert_eq!(no_retry.check(), Err(LeaseSettingsError::DeadlineNotAboveRetry));
}

#[tokio::test]
async fn a_process_that_cannot_lead_gives_the_lease_up() {
    let server = Server::start().await;
    let mut leadership = acquire(&server, "a").await;
    let since = Instant::now();
    let unfit = |at_least: Duration| {
        let lasts = since.elapsed();
        (lasts >= at_least).then(|| format!("deaf for {} ms", lasts.as_millis()))
    };
    let lost = tokio::time::timeout(Duration::from_secs(3), leadership.keep(&unfit)).await.unwrap();
    assert!(lost.to_string().starts_with("lease ns/fluxqueue is given up: deaf for 1"), "{lost}");
    assert!(!leadership.fence.holds() && since.elapsed() >= Duration::from_secs(1));
    assert_eq!(spec(&server)["holderIdentity"], "a", "its last write may still be under way");
    leadership.release_after_writes().await;
    assert!(
        since.elapsed() >= Duration::from_millis(1300) && spec(&server)["holderIdentity"] == ""
    );
}
