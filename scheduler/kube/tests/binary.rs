//! Nodes, bookmarks and errors as protobuf, for the tests' API server.

use axum::body::Bytes;
use prost::Message;
use serde_json::Value;

use crate::kube::protobuf::messages::{
    self as wire, ObjectMeta, Quantity, RawExtension, Unknown, WatchEvent,
};

/// Makes a frame of a watch.
pub(super) fn frame(what: &str, object: &Value) -> Bytes {
    let raw =
        if what == "ERROR" { status(object).encode_to_vec() } else { node(object).encode_to_vec() };
    let mut enveloped = b"k8s\0".to_vec();
    enveloped.extend(Unknown { raw: raw.into() }.encode_to_vec());
    let event = WatchEvent {
        r#type: what.to_owned(),
        object: Some(RawExtension { raw: enveloped.into() }),
    };
    let event = event.encode_to_vec();
    let length = u32::try_from(event.len()).expect("a short frame");
    [&length.to_be_bytes(), &*event].concat().into()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn node(object: &Value) -> wire::Node {
    let pairs = |value: &Value| value.as_object().cloned().unwrap_or_default().into_iter();
    let metadata = &object["metadata"];
    wire::Node {
        metadata: Some(ObjectMeta {
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            resource_version: text(&metadata["resourceVersion"]),
            annotations: pairs(&metadata["annotations"])
                .map(|(key, value)| (key, text(&value)))
                .collect(),
            ..ObjectMeta::default()
        }),
        spec: Some(wire::NodeSpec::default()),
        status: Some(wire::NodeStatus {
            allocatable: pairs(&object["status"]["allocatable"])
                .map(|(name, amount)| (name, Quantity { string: text(&amount) }))
                .collect(),
            ..wire::NodeStatus::default()
        }),
    }
}

fn status(object: &Value) -> wire::Status {
    let code = object["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    wire::Status {
        message: text(&object["message"]),
        reason: text(&object["reason"]),
        code: code.unwrap_or_default(),
    }
}
