//! What the API server's admission goes by, read where somebody asks what if: not watched, since it
//! is asked for rarely.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::Value;

use crate::submission::{self, Additions};

/// So many namespaces and RuntimeClasses are read for one question at most.
const OBJECTS_MAX: usize = 32;

/// Reads from the API server what its admission goes by.
pub trait AdmissionSource: Debug + Send + Sync {
    /// The LimitRanges of a namespace.
    fn limit_ranges<'a>(
        &'a self,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Vec<LimitRange>, String>>;
    /// The RuntimeClass of this name, if there is one.
    fn runtime_class<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<RuntimeClass>, String>>;
}

/// Why it is not known what admission adds.
pub(super) enum Unknown {
    /// What is asked about names too much, or what is no name.
    Unreadable(String),
    /// The API server could not be asked.
    NoAnswer(String),
}

/// What admission would add to the pods of these objects.
pub(super) async fn additions(
    source: &dyn AdmissionSource,
    documents: &[Value],
) -> Result<Additions, Unknown> {
    let namespaces =
        documents.iter().filter_map(|document| document.pointer("/metadata/namespace")?.as_str());
    let namespaces: BTreeSet<&str> = namespaces.collect();
    let classes: BTreeSet<&str> =
        documents.iter().filter_map(submission::runtime_class_of).collect();
    if namespaces.len() + classes.len() > OBJECTS_MAX {
        let text =
            format!("more than {OBJECTS_MAX} namespaces and RuntimeClasses are not looked at");
        return Err(Unknown::Unreadable(text));
    }
    if let Some(name) = namespaces.iter().chain(&classes).find(|name| !is_name(name)) {
        return Err(Unknown::Unreadable(format!(
            "{name:?} is no name of a namespace or a RuntimeClass"
        )));
    }
    let mut additions =
        Additions { runtime_classes: Some(BTreeMap::new()), ..Additions::default() };
    for namespace in namespaces {
        let limit_ranges = source.limit_ranges(namespace).await.map_err(Unknown::NoAnswer)?;
        additions.limit_ranges.insert(namespace.to_owned(), limit_ranges);
    }
    for name in classes {
        let class = source.runtime_class(name).await.map_err(Unknown::NoAnswer)?;
        additions
            .runtime_classes
            .get_or_insert_default()
            .extend(class.map(|class| (name.to_owned(), class)));
    }
    Ok(additions)
}

/// It can stand in a path as it is.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
    };
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.iter().all(|byte| is_inner(*byte)) && is_edge(bytes.first()) && is_edge(bytes.last())
}
