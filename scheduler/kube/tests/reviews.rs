use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Script, Server};
use crate::kube::reviews::Reviews;
use crate::serve::{Deed, Gatekeeper, Verdict};

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

#[tokio::test]
async fn permissions_are_the_api_servers_and_are_asked_once() {
    let server = Server::start().await;
    let reviews = Reviews::new(server.clients.write.clone());
    for _ in 0..3 {
        assert_eq!(
            reviews.judge("token-of-prometheus", &Deed::Get("/metrics")).await,
            Verdict::Allowed
        );
    }
    assert_eq!(server.seen(TOKENS).len(), 1);
    let asked = server.seen(ACCESS).pop().unwrap().body;
    assert_eq!(asked["spec"]["nonResourceAttributes"]["path"], "/metrics");
    assert_eq!(asked["spec"]["groups"][0], "system:authenticated");
    // Another path is another question.
    let verdict = reviews.judge("token-of-prometheus", &Deed::Get("/debug/state")).await;
    assert_eq!(verdict, Verdict::Forbidden("prometheus".to_owned()));
    assert_eq!(reviews.judge("nonsense", &Deed::Get("/metrics")).await, Verdict::Unknown);
}

#[tokio::test]
async fn a_what_if_question_needs_permission_to_create_the_object() {
    let server = Server::start().await;
    let reviews = Reviews::new(server.clients.write.clone());
    let job = Deed::Create { group: "batch", resource: "jobs", namespace: "lab".to_owned() };
    let fluxjobs = |namespace: &str| {
        json!({
            "group": "jobs.converged-computing.org", "resource": "fluxjobs", "namespace": namespace,
            "verb": "list",
        })
    };
    let cases = [
        (Deed::Post("/what-if"), json!({ "path": "/what-if", "verb": "create" }), Value::Null),
        (
            job,
            Value::Null,
            json!({ "group": "batch", "resource": "jobs", "namespace": "lab", "verb": "create" }),
        ),
        (Deed::ListFluxJobs(Some("lab".to_owned())), Value::Null, fluxjobs("lab")),
        (Deed::ListFluxJobs(None), Value::Null, fluxjobs("")),
    ];
    for (deed, of_path, of_resource) in cases {
        let verdict = reviews.judge("token-of-prometheus", &deed).await;
        assert_eq!(verdict, Verdict::Forbidden("prometheus".to_owned()));
        let asked = server.seen(ACCESS).pop().unwrap().body;
        assert_eq!(
            (&asked["spec"]["nonResourceAttributes"], &asked["spec"]["resourceAttributes"]),
            (&of_path, &of_resource)
        );
    }
}

/// Made-up tokens cost the API server ten questions a second, and a token that was allowed
/// something costs none.
#[tokio::test]
async fn a_flood_of_unknown_tokens_leaves_known_ones_alone() {
    let server = Server::start().await;
    let reviews = Reviews::new(server.clients.write.clone());
    let metrics = Deed::Get("/metrics");
    let known = "token-of-prometheus";
    assert_eq!(reviews.judge(known, &metrics).await, Verdict::Allowed);
    let flood = async || {
        let (begun, mut verdicts) = (Instant::now(), Vec::new());
        for number in 0..2_000 {
            verdicts.push(reviews.judge(&format!("{number}-{begun:?}"), &metrics).await);
            assert_eq!(reviews.judge(known, &metrics).await, Verdict::Allowed);
        }
        let unknown = verdicts.iter().filter(|verdict| **verdict == Verdict::Unknown).count();
        let too_many = verdicts.iter().filter(|verdict| **verdict == Verdict::TooMany).count();
        assert_eq!(unknown + too_many, verdicts.len());
        (unknown, begun.elapsed().as_secs())
    };
    let (asked, seconds) = flood().await;
    assert!(
        (9..=10 + 10 * usize::try_from(seconds).unwrap()).contains(&asked),
        "{asked} in {seconds} s"
    );
    // The answers about the known one count no more; it is reviewed although the budget for others
    // is spent.
    reviews.forget();
    assert_eq!(reviews.judge(known, &metrics).await, Verdict::Allowed);
    assert_eq!(
        reviews.judge(known, &Deed::Get("/debug/state")).await,
        Verdict::Forbidden("prometheus".to_owned())
    );
    let of_known =
        server.seen(TOKENS).into_iter().filter(|seen| seen.body["spec"]["token"] == known).count();
    assert_eq!(of_known, 2);
}

#[tokio::test]
async fn few_questions_are_under_way_at_once() {
    let server = Server::start().await;
    let reviews = Reviews::new(server.clients.write.clone());
    for _ in 0..8 {
        server.script(TOKENS, Script::Stall(Duration::from_millis(300)));
    }
    let tokens: Vec<String> = (0..8).map(|number| format!("unknown-{number}")).collect();
    let metrics = Deed::Get("/metrics");
    let verdicts =
        futures::future::join_all(tokens.iter().map(|token| reviews.judge(token, &metrics))).await;
    let too_many = verdicts.iter().filter(|verdict| **verdict == Verdict::TooMany).count();
    assert_eq!((too_many, server.seen(TOKENS).len()), (4, 4));
}

#[tokio::test]
async fn a_token_that_is_known_no_more_is_a_strangers() {
    let server = Server::start().await;
    let reviews = Reviews::new(server.clients.write.clone());
    let metrics = Deed::Get("/metrics");
    assert_eq!(reviews.judge("token-of-prometheus", &metrics).await, Verdict::Allowed);
    reviews.forget();
    server.script(TOKENS, Script::Refuse(500, "InternalError"));
    assert!(matches!(reviews.judge("token-of-prometheus", &metrics).await, Verdict::NoAnswer(_)));
    let long = "x".repeat(20_000);
    assert_eq!(reviews.judge(&long, &metrics).await, Verdict::Unknown);
    assert!(server.seen(TOKENS).iter().all(|seen| seen.body["spec"]["token"] != long.as_str()));
}

#[tokio::test]
async fn no_client_is_let_in_while_the_api_server_does_not_answer() {
    let server = Server::start().await;
    let reviews = Reviews::new(server.clients.write.clone());
    server.script(TOKENS, Script::Refuse(403, "Forbidden"));
    let verdict = reviews.judge("token-of-prometheus", &Deed::Get("/metrics")).await;
    assert!(
        matches!(&verdict, Verdict::NoAnswer(why) if why.contains("as scripted")),
        "{verdict:?}"
    );
    server.script(ACCESS, Script::Refuse(500, "InternalError"));
    assert!(matches!(
        reviews.judge("token-of-prometheus", &Deed::Get("/metrics")).await,
        Verdict::NoAnswer(_)
    ));
    // This is not remembered.
    assert_eq!(
        reviews.judge("token-of-prometheus", &Deed::Get("/metrics")).await,
        Verdict::Allowed
    );
}
