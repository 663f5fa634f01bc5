//! The wishes of users for a job, in its FluxJob, and the meaning of a wish for another priority:
//! the value of a PriorityClass.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::jobs::device_classes::DeviceClasses;
use fluxqueue_workload::PriorityClass;

/// The classes of the cluster that matter to pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Classes {
    pub priorities: PriorityClasses,
    pub devices: DeviceClasses,
}

/// The known PriorityClasses.
#[derive(Debug, Clone, Default)]
pub(crate) struct PriorityClasses(pub(crate) BTreeMap<Arc<str>, Known>);

/// The facts of a PriorityClass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    value: i32,
    /// True if pods that name no class get this one.
    is_default: bool,
}

impl PriorityClasses {
    /// Returns the value of a class, if there is one of the name.
    pub(crate) fn value(&self, name: &str) -> Option<i32> {
        self.0.get(name).map(|known| known.value)
    }

    /// Returns the priority that the API server gives pods that name this class, or none. Of
    /// several defaults the least counts.
    pub(crate) fn of_pods(&self, class: Option<&str>) -> i32 {
        let default =
            || self.0.values().filter(|known| known.is_default).map(|known| known.value).min();
        class.map_or_else(default, |class| self.value(class)).unwrap_or(0)
    }

    /// Adds or updates a class. False if that is known already.
    pub(crate) fn put(&mut self, class: &PriorityClass) -> bool {
        let known = Known { value: class.value, is_default: class.is_default };
        self.0.insert(Arc::clone(&class.name), known) != Some(known)
    }
}
