//! Keeps the certificates in a Secret that all replicas share, and the authorities in the
//! configurations by which the API server asks.
//!
//! Every replica does the same, and whoever writes first wins: the others find their version
//! outdated, and read again. What a person or a tool changes there is put back.

use std::collections::BTreeMap;
use std::error::Error;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use fluxqueue_tls::{CertificateError, Serving, certified};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::authority::{Lifetimes, Material, facts, renewed};

/// Without news everything is looked at again after so long, or a twentieth of what certificates
/// live.
const LOOK_EVERY_MAX: Duration = Duration::from_mins(1);

/// After a failure, or a write that came too late.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// News that come together are looked at together.
const SETTLE_FOR: Duration = Duration::from_millis(100);

/// Names of what is kept, and for how long.
#[derive(Debug, Clone)]
pub struct KeeperSettings {
    /// Where the Secret and the Service are.
    pub namespace: String,
    /// The Secret, which has to be there.
    pub secret: String,
    /// The Service by which the API server reaches this process.
    pub service: String,
    /// Both configurations have this name.
    pub configuration: String,
    /// Of what is made.
    pub lifetimes: Lifetimes,
}

/// Why the certificates could not be looked after. It is tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeperError {
    /// The Secret is not there, and there is no permission to make one.
    #[error("Secret {0} is not there: apply manifests/webhook")]
    NoSecret(String),
    /// The API server did not do what it was asked.
    #[error("{doing}")]
    Api {
        /// What that was.
        doing: &'static str,
        /// Why not.
        #[source]
        source: kube::Error,
    },
    /// No certificate could be made.
    #[error("making a certificate")]
    Make(#[from] rcgen::Error),
    /// What is kept cannot be served.
    #[error("serving what is kept")]
    Serve(#[from] CertificateError),
}

/// Looks after the certificates for as long as it runs.
#[derive(Debug)]
pub struct Keeper {
    settings: KeeperSettings,
    secrets: Api<Secret>,
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    serving: Arc<Serving>,
    /// What is served now, to say what is new.
    served: Option<String>,
}

impl Keeper {
    /// Fills `serving`.
    pub fn new(client: Client, settings: KeeperSettings, serving: Arc<Serving>) -> Self {
        Keeper {
            secrets: Api::namespaced(client.clone(), &settings.namespace),
            mutating: Api::all(client.clone()),
            validating: Api::all(client),
            settings,
            serving,
            served: None,
        }
    }

    /// Looks at everything now, whenever something changes, and now and then.
    pub async fn keep(mut self) {
        let mut news = self.news();
        let lifetime = u64::try_from(self.settings.lifetimes.serving_secs).unwrap_or_default();
        let look_every = LOOK_EVERY_MAX.min(Duration::from_secs(lifetime) / 20);
        loop {
            let pause = match self.look(now()).await {
                Ok(()) => look_every,
                Err(error) => {
                    let causes =
                        iter::successors(error.source(), |cause: &&dyn Error| (*cause).source());
                    let causes = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
                    tracing::warn!(%error, causes, "certificates are looked at again");
                    RETRY_AFTER
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = news.next() => {
                    tokio::time::sleep(SETTLE_FOR).await;
                    while news.next().now_or_never().is_some() {}
                }
            }
        }
    }

    /// Makes what is due, has it trusted, and serves it.
    async fn look(&mut self, now: i64) -> Result<(), KeeperError> {
        let names = self.settings.names();
        let secret = self
            .secrets
            .get_opt(&self.settings.secret)
            .await
            .map_err(failed("reading the Secret"))?;
        let mut secret =
            secret.ok_or_else(|| KeeperError::NoSecret(self.settings.secret.clone()))?;
        let mut kept = Material::of(&secret);
        if let Some(next) = renewed(kept.as_ref(), &names, self.settings.lifetimes, now)? {
            secret.data.get_or_insert_default().extend(next.data());
            // The version that was read is in it, so nobody's work is overwritten.
            let written =
                self.secrets.replace(&self.settings.secret, &PostParams::default(), &secret).await;
            written.map_err(failed("writing the Secret"))?;
            tracing::info!(
                expires = facts(&next.certificate).map(|facts| facts.expires),
                "certificates are renewed"
            );
            kept = Some(next);
        }
        // There is something now: it was kept, or has been made.
        let Some(kept) = kept else { return Ok(()) };
        let name = &self.settings.configuration;
        trust(&self.mutating, name, &kept.authorities, |configuration| {
            configuration
                .webhooks
                .iter_mut()
                .flatten()
                .map(|webhook| &mut webhook.client_config)
                .collect()
        })
        .await?;
        trust(&self.validating, name, &kept.authorities, |configuration| {
            configuration
                .webhooks
                .iter_mut()
                .flatten()
                .map(|webhook| &mut webhook.client_config)
                .collect()
        })
        .await?;
        if self.served.as_ref() != Some(&kept.certificate) {
            self.serving.set(certified(kept.certificate.as_bytes(), kept.key.as_bytes())?);
            tracing::info!("a certificate of our own is served");
            self.served = Some(kept.certificate);
        }
        Ok(())
    }

    /// Something about one of the objects has changed, or may have.
    fn news(&self) -> impl Stream<Item = ()> + Send + Unpin + use<> {
        stream::select_all([
            changes(self.secrets.clone(), &self.settings.secret),
            changes(self.mutating.clone(), &self.settings.configuration),
            changes(self.validating.clone(), &self.settings.configuration),
        ])
    }
}

/// Puts the authorities into all webhooks of a configuration. One that is not there asks nobody.
async fn trust<K>(
    configurations: &Api<K>,
    name: &str,
    authorities: &str,
    of_webhooks: impl Fn(&mut K) -> Vec<&mut WebhookClientConfig>,
) -> Result<(), KeeperError>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let configuration =
        configurations.get_opt(name).await.map_err(failed("reading a webhook configuration"))?;
    let Some(mut configuration) = configuration else { return Ok(()) };
    let wanted = Some(ByteString(authorities.as_bytes().to_vec()));
    let mut changed = false;
    for webhook in of_webhooks(&mut configuration) {
        changed |= webhook.ca_bundle != wanted;
        webhook.ca_bundle.clone_from(&wanted);
    }
    if changed {
        let written = configurations.replace(name, &PostParams::default(), &configuration).await;
        written.map_err(failed("writing a webhook configuration"))?;
        tracing::info!(kind = short_name(&configuration), "the API server is told whom to trust");
    }
    Ok(())
}

fn short_name<K: Resource>(_: &K) -> &'static str {
    std::any::type_name::<K>().rsplit("::").next().unwrap_or_default()
}

fn changes<K>(objects: Api<K>, name: &str) -> BoxStream<'static, ()>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let events = watcher::watcher(objects, config).default_backoff();
    // A watch that breaks is taken up again, and may have missed something meanwhile.
    events
        .inspect_err(|error| tracing::warn!(%error, "watching what certificates are kept in"))
        .map(drop)
        .boxed()
}

fn failed(doing: &'static str) -> impl Fn(kube::Error) -> KeeperError {
    move |source| KeeperError::Api { doing, source }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl KeeperSettings {
    /// As the API server calls this server; the last is for one that runs on the same machine.
    fn names(&self) -> Vec<String> {
        vec![format!("{}.{}.svc", self.service, self.namespace), "localhost".to_owned()]
    }
}

impl Material {
    /// What a Secret has; `None` if it lacks a part.
    fn of(secret: &Secret) -> Option<Self> {
        let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
        Some(Material {
            authorities: text("ca.crt")?,
            authority_key: text("ca.key")?,
            certificate: text("tls.crt")?,
            key: text("tls.key")?,
        })
    }

    fn data(&self) -> BTreeMap<String, ByteString> {
        let parts = [
            ("ca.crt", &self.authorities),
            ("ca.key", &self.authority_key),
            ("tls.crt", &self.certificate),
            ("tls.key", &self.key),
        ];
        parts.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec()))).into()
    }
}
