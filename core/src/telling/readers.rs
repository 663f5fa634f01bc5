//! Names of jobs and pods in texts that are written into a namespace.
//!
//! People with access to one namespace need not learn which jobs there are in others: names reveal
//! the work behind them. The setting `namesAcrossNamespaces` declares that all namespaces belong to
//! people that may know.

use fluxqueue_workload::ObjectKey;

use crate::settings::CoreSettings;

const A_JOB: &str = "a job of another namespace";
const A_POD: &str = "a pod of another namespace";

/// The reader of a text that is written into a namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// The namespace of the reader. `None`: all names may appear.
    namespace: Option<&'a str>,
}

/// A job or pod that a text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// A job, by its FluxJob.
    Job(ObjectKey),
    /// A pod.
    Pod(ObjectKey),
}

impl CoreSettings {
    /// Returns the reader of texts in this namespace.
    pub(crate) fn reader<'a>(&self, namespace: &'a str) -> Reader<'a> {
        Reader { namespace: (!self.names_across_namespaces).then_some(namespace) }
    }
}

impl Reader<'_> {
    /// True if names of this namespace may appear.
    pub(crate) fn may_read(&self, namespace: &str) -> bool {
        self.namespace.is_none_or(|own| own == namespace)
    }

    /// Returns the name of a job for this reader.
    pub(crate) fn job(&self, key: &ObjectKey) -> String {
        if self.may_read(&key.namespace) { key.to_string() } else { A_JOB.to_owned() }
    }

    /// Returns the name of a pod for this reader, in a form that calls it a pod.
    pub(crate) fn pod(&self, key: &ObjectKey) -> String {
        if self.may_read(&key.namespace) { format!("pod {key}") } else { A_POD.to_owned() }
    }

    /// Returns the name of a job or pod for this reader.
    pub(crate) fn name(&self, named: &Named) -> String {
        let key = named.key();
        if self.may_read(&key.namespace) { key.to_string() } else { named.unnamed().to_owned() }
    }
}

impl Named {
    /// Returns its namespace and name.
    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Named::Job(key) | Named::Pod(key) => key,
        }
    }

    /// Returns the words for it where its name may not appear.
    pub(crate) fn unnamed(&self) -> &'static str {
        match self {
            Named::Job(_) => A_JOB,
            Named::Pod(_) => A_POD,
        }
    }
}
