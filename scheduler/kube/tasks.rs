//! The tasks of the process, each with a name and each watched: none of them is meant to end by
//! itself.

use std::future::Future;

use tokio::task::{Id, JoinSet};

/// A set of named tasks. Dropping it ends them.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<String>,
    names: std::collections::HashMap<Id, &'static str>,
}

/// A task has ended although it was meant to go on.
#[derive(Debug, thiserror::Error)]
#[error("task {name} ended unexpectedly: {why}")]
pub struct TaskEnded {
    name: &'static str,
    why: String,
}

// === impl Tasks ===

impl Tasks {
    /// Starts a task that goes on until it is aborted.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_telling(name, async {
            task.await;
            "it returned".to_owned()
        });
    }

    /// Starts a task that returns the reason, should it ever end.
    pub fn spawn_telling(
        &mut self,
        name: &'static str,
        task: impl Future<Output = String> + Send + 'static,
    ) {
        let handle = self.set.spawn(task);
        self.names.insert(handle.id(), name);
    }

    /// Resolves when the first task ends.
    pub async fn ended(&mut self) -> TaskEnded {
        match self.set.join_next_with_id().await {
            Some(Ok((id, why))) => TaskEnded { name: self.name(id), why },
            Some(Err(error)) => TaskEnded { name: self.name(error.id()), why: error.to_string() },
            // Without tasks, none ends.
            None => std::future::pending().await,
        }
    }

    fn name(&self, id: Id) -> &'static str {
        self.names.get(&id).copied().unwrap_or("without a name")
    }
}

#[cfg(test)]
mod tests {
    use super::Tasks;

    #[tokio::test]
    async fn an_end_names_the_task() {
        let mut tasks = Tasks::default();
        tasks.spawn("steady", std::future::pending());
        tasks.spawn("brittle", async { panic!("broken") });
        let ended = tasks.ended().await.to_string();
        assert!(ended.contains("task brittle ended unexpectedly"), "{ended}");
        assert!(ended.contains("broken"), "{ended}");
    }
}
