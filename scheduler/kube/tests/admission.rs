use super::server::{Script, Server};
use crate::kube::admission::AdmissionObjects;
use crate::serve::AdmissionSource;
use serde_json::json;

const LIMIT_RANGES: &str = "/api/v1/namespaces/lab/limitranges";
const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

#[tokio::test]
async fn limit_ranges_and_runtime_classes_are_read_if_they_exist() {
    let server = Server::start().await;
    let objects = AdmissionObjects(server.clients.write.clone());
    let limits = json!({"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]});
    server.put(
        &format!("{LIMIT_RANGES}/l"),
        json!({"metadata": {"name": "l", "namespace": "lab"}, "spec": limits}),
    );
    server.put(
        &format!("{CLASSES}/sandbox"),
        json!({"metadata": {"name": "sandbox"}, "handler": "h"}),
    );
    let limit_ranges = objects.limit_ranges("lab").await.unwrap();
    assert_eq!(limit_ranges.len(), 1);
    let defaults =
        limit_ranges[0].spec.as_ref().unwrap().limits[0].default_request.as_ref().unwrap();
    assert_eq!(defaults["cpu"].0, "3");
    assert_eq!(objects.limit_ranges("office").await.unwrap(), []);
    assert!(
        objects.runtime_class("sandbox").await.unwrap().is_some_and(|class| class.handler == "h")
    );
    assert!(objects.runtime_class("lost").await.unwrap().is_none());
}

#[tokio::test]
async fn that_it_may_not_be_read_is_said() {
    let server = Server::start().await;
    let objects = AdmissionObjects(server.clients.write.clone());
    server.script(LIMIT_RANGES, Script::Refuse(403, "Forbidden"));
    let error = objects.limit_ranges("lab").await.unwrap_err();
    assert!(error.contains(LIMIT_RANGES) && error.contains("403"), "{error}");
}
