//! The objects by which the API server's admission changes pods. They are read for each what-if
//! request and not watched, since such requests are rare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use fluxqueue_api::syntax::is_object_name;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::Value;

use crate::submission::{self, Additions};

/// The most namespaces and RuntimeClasses that are read for one request.
const OBJECTS_MAX: usize = 32;

/// Reads these objects from the API server.
pub trait AdmissionSource: Debug + Send + Sync {
    /// Returns the LimitRanges of a namespace.
    fn limit_ranges<'a>(
        &'a self,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Vec<LimitRange>, String>>;
    /// Returns the RuntimeClass of this name, if there is one.
    fn runtime_class<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<RuntimeClass>, String>>;
}

/// The reason why it is unknown how admission changes a pod.
pub(super) enum AdditionsError {
    /// The request names too many objects, or a name that no object can have.
    Unreadable(String),
    /// The API server could not be asked.
    NoAnswer(String),
}

/// Reads the changes that admission would make to the pods of these objects.
pub(super) async fn additions(
    source: &dyn AdmissionSource,
    documents: &[Value],
) -> Result<Additions, AdditionsError> {
    let namespaces =
        documents.iter().filter_map(|document| document.pointer("/metadata/namespace")?.as_str());
    let namespaces: BTreeSet<&str> = namespaces.collect();
    let classes: BTreeSet<&str> =
        documents.iter().filter_map(submission::runtime_class_of).collect();
    if namespaces.len() + classes.len() > OBJECTS_MAX {
        let text =
            format!("the objects name more than {OBJECTS_MAX} namespaces and RuntimeClasses");
        return Err(AdditionsError::Unreadable(text));
    }
    if let Some(name) = namespaces.iter().chain(&classes).find(|name| !is_object_name(name)) {
        return Err(AdditionsError::Unreadable(format!(
            "{name:?} cannot be the name of a namespace or a RuntimeClass"
        )));
    }
    let mut additions =
        Additions { runtime_classes: Some(BTreeMap::new()), ..Additions::default() };
    for namespace in namespaces {
        let limit_ranges =
            source.limit_ranges(namespace).await.map_err(AdditionsError::NoAnswer)?;
        additions.limit_ranges.insert(namespace.to_owned(), limit_ranges);
    }
    for name in classes {
        let class = source.runtime_class(name).await.map_err(AdditionsError::NoAnswer)?;
        additions
            .runtime_classes
            .get_or_insert_default()
            .extend(class.map(|class| (name.to_owned(), class)));
    }
    Ok(additions)
}
