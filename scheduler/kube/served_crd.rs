//! Checks that the API server keeps all that this process writes into FluxJobs, and all that people
//! write into FluxQueues: their CustomResourceDefinitions may be older.
//!
//! The check comes before this process tries to lead. An older definition silently drops
//! placements, so nothing is decided on one. The check is repeated until the definition is
//! sufficient: after an upgrade it is enough to apply it, and nothing needs a restart.

use std::time::Duration;

use fluxqueue_api::Definition;
use kube::Client;
use serde_json::Value;

use super::request::get;
use crate::serve::Health;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The time that one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The pause between two checks.
const PAUSE: Duration = Duration::from_secs(2);

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// The definition has all that is needed.
    WillDo,
    /// The definition lacks these parts.
    Lacks(Vec<String>),
    /// This process may not read the definition.
    Unseen,
    /// No usable answer came.
    NoAnswer(String),
}

/// Returns once the installed definitions have all that this process needs, or may not be read.
pub(super) async fn wait_until_they_will_do(client: &Client, health: &Health) {
    for definition in Definition::ALL {
        wait_for(definition, client, health).await;
    }
}

async fn wait_for(definition: Definition, client: &Client, health: &Health) {
    let mut last = Found::WillDo;
    loop {
        let found = look(definition, client).await;
        match &found {
            Found::WillDo => break,
            Found::Unseen => {
                tracing::warn!(
                    definition = definition.name(),
                    "this process may not read the CustomResourceDefinition (rbac.yaml), and \
                     takes it to be new enough"
                );
                break;
            }
            // This was logged already.
            _ if found == last => {}
            Found::Lacks(missing) => {
                health.set_definition_lacks(true);
                tracing::error!(
                    definition = definition.name(),
                    missing = %missing.join(", "),
                    "the CustomResourceDefinition is older than this process needs, so the process \
                     does not lead until a new one is applied (manifests/crds)"
                );
            }
            Found::NoAnswer(error) => {
                let definition = definition.name();
                tracing::warn!(definition, %error, "asking for the CustomResourceDefinition");
            }
        }
        last = found;
        tokio::time::sleep(PAUSE).await;
    }
    health.set_definition_lacks(false);
}

async fn look(definition: Definition, client: &Client) -> Found {
    let path = format!("{DEFINITIONS}/{}", definition.name());
    match get::<Value>(client, &path, ANSWER_WITHIN).await {
        Ok(Ok(served)) => {
            let missing = definition.missing_from(&served);
            if missing.is_empty() { Found::WillDo } else { Found::Lacks(missing) }
        }
        Ok(Err(reply)) if reply.code == 404 => Found::Lacks(vec!["all of it".to_owned()]),
        Ok(Err(reply)) if reply.code == 403 => Found::Unseen,
        Ok(Err(reply)) => Found::NoAnswer(reply.explain()),
        Err(error) => Found::NoAnswer(error),
    }
}
