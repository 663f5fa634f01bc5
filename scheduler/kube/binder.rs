//! Binds pods: a pool of workers that POST Bindings.
//!
//! This is the hot path of the process. A Binding is one small request, and its answer is read only
//! if it is not 201. The core decides which pods to bind, and acts on the outcomes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::fenced::FencedClient;
use super::request::{Content, Reply};
use super::work_queue::WorkQueue;
use crate::serve::Metrics;
use fluxqueue_core::{ActionId, BindOutcome, Outcome};
use fluxqueue_workload::{NodeName, ObjectRef};

/// One Binding to write.
#[derive(Debug)]
pub struct BindRequest {
    /// The number that goes back with the outcome.
    pub id: ActionId,
    /// The pod.
    pub pod: ObjectRef,
    /// The node for the pod.
    pub node: NodeName,
    /// The queue that the pod is charged to.
    pub queue: Arc<str>,
    /// The time of the decision.
    pub decided: Instant,
}

/// The state that the workers share.
pub struct Binder {
    /// The Bindings that wait.
    pub queue: Arc<WorkQueue<BindRequest>>,
    /// The channel for outcomes.
    pub outcomes: mpsc::Sender<(ActionId, Outcome)>,
    /// The client, which writes while this process leads.
    pub client: FencedClient,
    /// The total time of one Binding, repeated attempts and the read after a conflict included.
    pub timeout: Duration,
    /// The counters of results.
    pub metrics: Arc<Metrics>,
}

/// The body of a Binding. Names and uids are borrowed: nothing is copied but into the request
/// itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: BindingMetadata<'a>,
    target: Target<'a>,
}

#[derive(Serialize)]
struct BindingMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    annotations: BindingAnnotations<'a>,
}

/// The API server copies these to the pod.
#[derive(Serialize)]
struct BindingAnnotations<'a> {
    #[serde(rename = "fluxqueue/charged-queue")]
    charged_queue: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Target<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
}

/// The fields of a pod from which a conflict is explained.
#[derive(Deserialize)]
struct PodNow {
    metadata: PodNowMetadata,
    #[serde(default)]
    spec: PodNowSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodNowMetadata {
    uid: String,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PodNowSpec {
    node_name: Option<String>,
    #[serde(default)]
    scheduling_gates: Vec<serde::de::IgnoredAny>,
}

// === impl Binder ===

impl Binder {
    /// Works until the queue is closed, or no task takes outcomes any more.
    pub async fn work(self: Arc<Self>) {
        while let Some(request) = self.queue.pop().await {
            let begun = Instant::now();
            let outcome = self.bind(&request.pod, &request.node, &request.queue).await;
            self.metrics.count_binding(outcome.result(), begun.elapsed());
            self.metrics.attempt_duration.observe(request.decided.elapsed().as_secs_f64());
            if self.outcomes.send((request.id, Outcome::Bind(outcome))).await.is_err() {
                return;
            }
        }
    }

    /// Writes one Binding within the timeout, and returns how that ended.
    pub async fn bind(&self, pod: &ObjectRef, node: &NodeName, queue: &str) -> BindOutcome {
        let begun = Instant::now();
        let path =
            format!("/api/v1/namespaces/{}/pods/{}/binding", pod.key.namespace, pod.key.name);
        let body = match serde_json::to_vec(&Binding::new(pod, node, queue)) {
            Ok(body) => body,
            Err(error) => return BindOutcome::Failed(error.to_string()),
        };
        match self.client.write(Method::POST, &path, Content::Json, &body, self.timeout).await {
            Ok(reply) if reply.succeeded() => BindOutcome::Bound,
            Ok(reply) => {
                let rest = self.timeout.saturating_sub(begun.elapsed());
                self.judge(&reply, pod, node, rest).await
            }
            Err(error) => BindOutcome::Failed(error.to_string()),
        }
    }

    async fn judge(
        &self,
        reply: &Reply,
        pod: &ObjectRef,
        node: &NodeName,
        within: Duration,
    ) -> BindOutcome {
        match reply.code {
            404 => BindOutcome::Gone,
            409 => self
                .look(pod, node, within)
                .await
                .unwrap_or_else(|| BindOutcome::Failed(reply.explain())),
            _ if reply.refusal().is_some() => BindOutcome::Refused(reply.explain()),
            _ => BindOutcome::Failed(reply.explain()),
        }
    }

    /// Reads the pod to find the cause of a conflict; `None` if the pod does not show it.
    async fn look(
        &self,
        pod: &ObjectRef,
        node: &NodeName,
        within: Duration,
    ) -> Option<BindOutcome> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.key.namespace, pod.key.name);
        match self.client.get::<PodNow>(&path, within).await {
            Ok(Ok(now)) => now.outcome(pod, node),
            Ok(Err(reply)) => (reply.code == 404).then_some(BindOutcome::Gone),
            Err(_) => None,
        }
    }
}

// === impl Binding ===

impl<'a> Binding<'a> {
    fn new(pod: &'a ObjectRef, node: &'a str, queue: &'a str) -> Self {
        let annotations = BindingAnnotations { charged_queue: queue };
        Binding {
            api_version: "v1",
            kind: "Binding",
            // The uid is a precondition: a successor of the same name is never bound by mistake.
            metadata: BindingMetadata {
                name: &pod.key.name,
                namespace: &pod.key.namespace,
                uid: &pod.uid,
                annotations,
            },
            target: Target { api_version: "v1", kind: "Node", name: node },
        }
    }
}

// === impl PodNow ===

impl PodNow {
    fn outcome(self, meant: &ObjectRef, node: &NodeName) -> Option<BindOutcome> {
        if *self.metadata.uid != *meant.uid {
            return Some(BindOutcome::Gone);
        }
        match self.spec.node_name.filter(|name| !name.is_empty()) {
            Some(actual) if *actual == **node => Some(BindOutcome::Bound),
            Some(actual) => Some(BindOutcome::BoundElsewhere(actual.into())),
            None if self.metadata.deletion_timestamp.is_some() => Some(BindOutcome::Deleting),
            None if !self.spec.scheduling_gates.is_empty() => Some(BindOutcome::Gated),
            None => None,
        }
    }
}
