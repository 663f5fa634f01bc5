//! Reads the objects by which the API server's admission completes pods.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::request::get;
use crate::serve::AdmissionSource;

/// The time that the API server has for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

const NOT_FOUND: u16 = 404;

/// Reads the objects from the API server.
pub(super) struct AdmissionObjects(pub Client);

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

impl AdmissionObjects {
    async fn read<T: DeserializeOwned>(&self, path: String) -> Result<Option<T>, String> {
        match get(&self.0, &path, ANSWER_WITHIN).await? {
            Ok(object) => Ok(Some(object)),
            Err(reply) if reply.code == NOT_FOUND => Ok(None),
            Err(reply) => Err(format!("GET {path}: {}", reply.explain())),
        }
    }
}

impl AdmissionSource for AdmissionObjects {
    fn limit_ranges<'a>(
        &'a self,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Vec<LimitRange>, String>> {
        async move {
            let list: Option<List<LimitRange>> =
                self.read(format!("/api/v1/namespaces/{namespace}/limitranges")).await?;
            Ok(list.map(|list| list.items).unwrap_or_default())
        }
        .boxed()
    }

    fn runtime_class<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<RuntimeClass>, String>> {
        self.read(format!("/apis/node.k8s.io/v1/runtimeclasses/{name}")).boxed()
    }
}

impl std::fmt::Debug for AdmissionObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdmissionObjects").finish_non_exhaustive()
    }
}
