//! The watched kinds, and the values that their objects become: the one place where Kubernetes and
//! the core meet.
//!
//! Conversion itself is pure and lives with the types it makes (`workload/`, `cluster/`).

use fluxqueue_api::{FluxJob, FluxJobStatus, placement, text};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::resource::v1 as resource_v1;
use k8s_openapi::api::scheduling::v1 as scheduling_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;

use super::lean::{Lean, Loose, LooseFluxJob, LooseFluxQueue};
use super::protobuf::{self, Decode};
use super::seen::Known;
use fluxqueue_machine::cluster::Node;
use fluxqueue_planner::queues::{Namespace, QueueObject};
use fluxqueue_workload::device_class::DeviceClass;
use fluxqueue_workload::{Controller, Pod, PriorityClass, Quota, ShapeInterner, metadata};

/// A watched kind, and the conversion of its objects into values of the core.
pub trait Watched:
    kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static
{
    /// The value that the core gets for an object.
    type Value: Known;
    /// The state that one conversion leaves for the next.
    type Memory: Default + Send;

    /// The kind, as a metric's label.
    const KIND: &'static str;
    /// Reads an object that is encoded as protobuf, if there is such a reader.
    const DECODE: Option<Decode<Self>> = None;

    /// Converts one object. The error names the fault.
    fn convert(self, memory: &mut Self::Memory) -> Result<Self::Value, String>;
}

impl Watched for Lean<core_v1::Node> {
    type Value = Node;
    type Memory = ();
    const KIND: &'static str = "Node";
    const DECODE: Option<Decode<Self>> = Some(protobuf::node);

    fn convert(self, (): &mut ()) -> Result<Node, String> {
        let (node, unread) = Node::from_kubernetes(&self.0).map_err(|error| error.to_string())?;
        for amount in unread {
            tracing::warn!(
                error = %amount,
                "a node's resource cannot be read and is taken as absent"
            );
        }
        Ok(node)
    }
}

impl Watched for Lean<core_v1::Pod> {
    type Value = Pod;
    type Memory = ShapeInterner;
    const KIND: &'static str = "Pod";
    const DECODE: Option<Decode<Self>> = Some(protobuf::pod);

    fn convert(self, shapes: &mut ShapeInterner) -> Result<Pod, String> {
        Pod::from_kubernetes(&self.0, shapes).map_err(|error| error.to_string())
    }
}

/// The kinds that make pods.
macro_rules! controllers {
    ($($kind:ident $name:literal $convert:ident)*) => {
        $(impl Watched for Lean<$kind> {
            type Value = Controller;
            type Memory = ();
            const KIND: &'static str = $name;

            fn convert(self, (): &mut ()) -> Result<Controller, String> {
                Controller::$convert(&self.0).map_err(|error| error.to_string())
            }
        })*
    };
}

impl Watched for Lean<Job> {
    type Value = Controller;
    /// Jobs that wait without pods describe these pods in their templates.
    type Memory = ShapeInterner;
    const KIND: &'static str = "Job";

    fn convert(self, shapes: &mut ShapeInterner) -> Result<Controller, String> {
        Controller::from_job(&self.0, shapes).map_err(|error| error.to_string())
    }
}

controllers! {
    ReplicaSet "ReplicaSet" from_replica_set
    Deployment "Deployment" from_deployment
    StatefulSet "StatefulSet" from_stateful_set
}

impl Watched for Lean<core_v1::ResourceQuota> {
    type Value = Quota;
    type Memory = ();
    const KIND: &'static str = "ResourceQuota";

    fn convert(self, (): &mut ()) -> Result<Quota, String> {
        Quota::from_kubernetes(&self.0).map_err(|error| error.to_string())
    }
}

impl Watched for scheduling_v1::PriorityClass {
    type Value = PriorityClass;
    type Memory = ();
    const KIND: &'static str = "PriorityClass";

    fn convert(self, (): &mut ()) -> Result<PriorityClass, String> {
        let (name, uid) = metadata::name_and_uid(Self::KIND, &self.metadata)
            .map_err(|error| error.to_string())?;
        Ok(PriorityClass {
            name,
            uid,
            value: self.value.unwrap_or_default(),
            is_default: self.global_default == Some(true),
        })
    }
}

impl Watched for resource_v1::DeviceClass {
    type Value = DeviceClass;
    type Memory = ();
    const KIND: &'static str = "DeviceClass";

    fn convert(self, (): &mut ()) -> Result<DeviceClass, String> {
        DeviceClass::from_kubernetes(&self).map_err(|error| error.to_string())
    }
}

impl Watched for LooseFluxJob {
    type Value = FluxJob;
    type Memory = ();
    const KIND: &'static str = "FluxJob";

    fn convert(self, (): &mut ()) -> Result<FluxJob, String> {
        let (mut metadata, spec, mut status): (_, _, Option<FluxJobStatus>) = read(self)?;
        if let Some(Err(error)) = status.as_mut().map(placement::spell_out) {
            // The nodes stay without names: the core says that it cannot read the FluxJob, and
            // plans its waiting pods afresh.
            tracing::warn!(%error, "the nodes of a FluxJob cannot be read");
        }
        // The core reads no annotations, and other programs write up to 256 KiB of them.
        metadata.annotations = None;
        Ok(FluxJob { metadata, spec, status })
    }
}

impl Watched for LooseFluxQueue {
    type Value = QueueObject;
    type Memory = ();
    const KIND: &'static str = "FluxQueue";

    fn convert(self, (): &mut ()) -> Result<QueueObject, String> {
        // A FluxQueue with an unreadable spec still exists, and its status reports the fault. An
        // unreadable status is corrected by the next write.
        let spec = serde_json::from_value(self.spec).map_err(|error| unreadable("spec", &error));
        let status = serde_json::from_value(self.status).unwrap_or_default();
        QueueObject::from_parts(&self.metadata, spec, status)
    }
}

impl Watched for Lean<core_v1::Namespace> {
    type Value = Namespace;
    type Memory = ();
    const KIND: &'static str = "Namespace";

    fn convert(self, (): &mut ()) -> Result<Namespace, String> {
        Namespace::from_kubernetes(&self.0)
    }
}

/// Reads the parts of an object of ours.
fn read<K, S: DeserializeOwned, T: DeserializeOwned>(
    object: Loose<K>,
) -> Result<(ObjectMeta, S, Option<T>), String> {
    let spec = serde_json::from_value(object.spec).map_err(|error| unreadable("spec", &error))?;
    let status = match object.status {
        serde_json::Value::Null => None,
        status => {
            Some(serde_json::from_value(status).map_err(|error| unreadable("status", &error))?)
        }
    };
    Ok((object.metadata, spec, status))
}

/// Describes the fault in a part of an object. The error may quote values of it.
fn unreadable(part: &str, error: &serde_json::Error) -> String {
    text::into_message(format!("{part}: {error}"))
}
