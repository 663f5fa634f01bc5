//! Whether the API server keeps all that this process writes into FluxJobs, and all that people
//! write into FluxQueues: their CustomResourceDefinitions may be older.
//!
//! Asked before this process tries to lead. An older definition drops placements without a word, so
//! nothing is decided on one. It is asked for again until it will do: who upgrades needs to apply
//! it, and to restart nothing.

use std::time::Duration;

use fluxqueue_api::Definition;
use kube::Client;
use serde_json::Value;

use super::request::get;
use crate::serve::Health;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The pause until it is asked again.
const PAUSE: Duration = Duration::from_secs(2);

/// What was found.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// It has all that is needed.
    WillDo,
    /// It lacks these.
    Lacks(Vec<String>),
    /// This process may not see it.
    Unseen,
    /// Nobody can say.
    NoAnswer(String),
}

/// Returns once the definitions that are installed have all that this process needs, or may not be
/// looked at.
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
                    "this process may not read the CustomResourceDefinition (rbac.yaml), and takes it to be new enough"
                );
                break;
            }
            // Said once.
            _ if found == last => {}
            Found::Lacks(missing) => {
                health.set_definition_lacks(true);
                tracing::error!(
                    definition = definition.name(),
                    missing = %missing.join(", "),
                    "the CustomResourceDefinition is older than this process needs, which does not lead until it is applied (manifests/crds)"
                );
            }
            Found::NoAnswer(error) => {
                tracing::warn!(definition = definition.name(), %error, "asking for the CustomResourceDefinition");
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
