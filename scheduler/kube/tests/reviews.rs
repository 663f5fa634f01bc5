use super::server::{Script, Server};
use crate::kube::reviews::Reviews;
use crate::serve::{Deed, Gatekeeper, Verdict};

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

#[tokio::test]
async fn who_may_look_is_what_the_api_server_says_and_is_asked_once() {
    let server = Server::start().await;
    let reviews = Reviews::new(server.clients.write.clone());
    for _ in 0..3 {
        assert_eq!(reviews.judge("token-of-prometheus", &Deed::Get("/metrics")).await, Verdict::Allowed);
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
async fn who_may_ask_about_an_object_is_who_may_create_it_there() {
    let server = Server::start().await;
    let reviews = Reviews::new(server.clients.write.clone());
    let (namespace, name) = ("lab".to_owned(), "train".to_owned());
    let deed = Deed::Create { group: "batch", resource: "jobs", namespace, name };
    let verdict = reviews.judge("token-of-prometheus", &deed).await;
    assert_eq!(verdict, Verdict::Forbidden("prometheus".to_owned()));
    let asked = server.seen(ACCESS).pop().unwrap().body;
    let expected = serde_json::json!({ "group": "batch", "resource": "jobs", "namespace": "lab", "name": "train", "verb": "create" });
    assert_eq!(
        (&asked["spec"]["resourceAttributes"], &asked["spec"]["nonResourceAttributes"]),
        (&expected, &serde_json::Value::Null)
    );
}

#[tokio::test]
async fn nobody_is_let_in_because_nobody_could_be_asked() {
    let server = Server::start().await;
    let reviews = Reviews::new(server.clients.write.clone());
    server.script(TOKENS, Script::Refuse(403, "Forbidden"));
    let verdict = reviews.judge("token-of-prometheus", &Deed::Get("/metrics")).await;
    assert!(matches!(&verdict, Verdict::NoAnswer(why) if why.contains("as scripted")), "{verdict:?}");
    server.script(ACCESS, Script::Refuse(500, "InternalError"));
    assert!(matches!(reviews.judge("token-of-prometheus", &Deed::Get("/metrics")).await, Verdict::NoAnswer(_)));
    // That is not remembered.
    assert_eq!(reviews.judge("token-of-prometheus", &Deed::Get("/metrics")).await, Verdict::Allowed);
}
