//! DeviceClasses, as far as they stand behind extended resources (KEP-5004): a pod that asks for
//! `nvidia.com/gpu: 1` may be served from the devices of a class, without a claim in its spec.

use std::sync::Arc;

use fluxqueue_api::text::KEY_BYTES_MAX;
use k8s_openapi::api::resource::v1::DeviceClass as KubeDeviceClass;

use crate::ids::Uid;
use crate::metadata;
use crate::metadata::InvalidObject;
use crate::resources::ResourceName;

/// What stands in front of the name of a class in the extended resource that every class stands
/// behind.
const OF_EVERY_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// A DeviceClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceClass {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// `spec.extendedResourceName`.
    pub extended_resource: Option<ResourceName>,
}

impl DeviceClass {
    /// Reads a DeviceClass. A name that is longer than any key is none: no node and no pod has it.
    pub fn from_kubernetes(class: &KubeDeviceClass) -> Result<DeviceClass, InvalidObject> {
        let (name, uid) = metadata::name_and_uid("DeviceClass", &class.metadata)?;
        let spec = class.spec.as_ref();
        let extended_resource = spec
            .and_then(|spec| spec.extended_resource_name.as_deref())
            .filter(|name| !name.is_empty() && name.len() <= KEY_BYTES_MAX)
            .map(ResourceName::from);
        Ok(DeviceClass { name, uid, extended_resource })
    }

    /// True if requests for this resource may be served from the devices of the class.
    pub fn serves(&self, resource: &str) -> bool {
        self.extended_resource.as_ref().is_some_and(|name| **name == *resource)
            || resource.strip_prefix(OF_EVERY_CLASS) == Some(&*self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: &Value) -> DeviceClass {
        let class = json!({"metadata": {"name": "gpu", "uid": "u"}, "spec": spec});
        DeviceClass::from_kubernetes(&serde_json::from_value(class).unwrap()).unwrap()
    }

    #[test]
    fn a_class_stands_behind_the_resource_that_it_names_and_behind_its_own() {
        let class = read(&json!({"extendedResourceName": "nvidia.com/gpu"}));
        assert!(class.serves("nvidia.com/gpu"));
        assert!(class.serves("deviceclass.resource.kubernetes.io/gpu"));
        assert!(!class.serves("nvidia.com/gpus") && !class.serves("gpu"));
        assert!(!class.serves("deviceclass.resource.kubernetes.io/gpus"));
        for unnamed in [json!({}), json!({"extendedResourceName": ""})] {
            let class = read(&unnamed);
            assert!(!class.serves("nvidia.com/gpu") && !class.serves(""));
            assert!(class.serves("deviceclass.resource.kubernetes.io/gpu"));
        }
    }
}
