//! How jobs and pods are called in what is written into a namespace.
//!
//! Who may read a namespace need not be told which jobs there are in others: their names say what
//! somebody works on. A setting (`namesAcrossNamespaces`) says that all namespaces belong to people
//! who may know.

use fluxqueue_workload::ObjectKey;

use crate::CoreSettings;

const A_JOB: &str = "a job of another namespace";
const A_POD: &str = "a pod of another namespace";

/// Whoever reads what is written into a namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// `None`: all names may be told.
    namespace: Option<&'a str>,
}

/// Something that a text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// A job, by its FluxJob.
    Job(ObjectKey),
    /// A pod.
    Pod(ObjectKey),
}

impl CoreSettings {
    /// Whoever reads what is written into this namespace.
    pub(crate) fn reader<'a>(&self, namespace: &'a str) -> Reader<'a> {
        Reader { namespace: (!self.names_across_namespaces).then_some(namespace) }
    }
}

impl Reader<'_> {
    /// True if names of this namespace may be told.
    pub(crate) fn may_read(&self, namespace: &str) -> bool {
        self.namespace.is_none_or(|own| own == namespace)
    }

    /// What a job is called.
    pub(crate) fn job(&self, key: &ObjectKey) -> String {
        if self.may_read(&key.namespace) { key.to_string() } else { A_JOB.to_owned() }
    }

    /// What a pod is called where a sentence names it as one.
    pub(crate) fn pod(&self, key: &ObjectKey) -> String {
        if self.may_read(&key.namespace) { format!("pod {key}") } else { A_POD.to_owned() }
    }

    /// What a job or pod is called.
    pub(crate) fn name(&self, named: &Named) -> String {
        let key = named.key();
        if self.may_read(&key.namespace) { key.to_string() } else { named.unnamed().to_owned() }
    }
}

impl Named {
    /// Its namespace and name.
    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Named::Job(key) | Named::Pod(key) => key,
        }
    }

    /// What it is called where its name may not be told.
    pub(crate) fn unnamed(&self) -> &'static str {
        match self {
            Named::Job(_) => A_JOB,
            Named::Pod(_) => A_POD,
        }
    }
}
