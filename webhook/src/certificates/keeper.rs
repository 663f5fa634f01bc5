//! Keeps the certificates in a Secret that all replicas share, and the authorities in the webhook
//! configurations.
//!
//! Every replica does the same, and the first write wins: the others find their version outdated,
//! and read again. If a person or another program changes either, the change is undone.

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

/// The longest pause between two checks without news, unless a twentieth of a certificate's life is
/// shorter.
const LOOK_EVERY_MAX: Duration = Duration::from_mins(1);

/// The pause after a failure, or a write that came too late.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The time in which further news are collected before a check.
const SETTLE_FOR: Duration = Duration::from_millis(100);

/// The names of the objects, and the lifetimes of the certificates.
#[derive(Debug, Clone)]
pub struct KeeperSettings {
    /// The namespace of the Secret and the Service.
    pub namespace: String,
    /// The name of the Secret, which has to exist.
    pub secret: String,
    /// The name of the Service by which the API server reaches this process.
    pub service: String,
    /// The name of both webhook configurations.
    pub configuration: String,
    /// The lifetimes of new certificates.
    pub lifetimes: Lifetimes,
}

/// The reason why the certificates could not be kept. The keeper tries again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeperError {
    /// The Secret does not exist, and there is no permission to make one.
    #[error("Secret {0} does not exist: apply manifests/webhook")]
    NoSecret(String),
    /// A request to the API server failed.
    #[error("{doing}")]
    Api {
        /// The operation that failed.
        doing: &'static str,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// No certificate could be made.
    #[error("making a certificate")]
    Make(#[from] rcgen::Error),
    /// The kept certificate cannot be served.
    #[error("serving the kept certificate")]
    Serve(#[from] CertificateError),
}

/// Keeps the certificates for as long as it runs.
#[derive(Debug)]
pub struct Keeper {
    settings: KeeperSettings,
    secrets: Api<Secret>,
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    serving: Arc<Serving>,
    /// The certificate that is served now, to recognize a new one.
    served: Option<String>,
}

impl Keeper {
    /// Creates a keeper that fills `serving`.
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

    /// Checks everything now, after each change, and at intervals.
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
                    tracing::warn!(%error, causes, "checking the certificates; it is tried again");
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

    /// Makes the certificates that are due, has them trusted, and serves them.
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
            // The write names the version that was read, so it overwrites no other write.
            let written =
                self.secrets.replace(&self.settings.secret, &PostParams::default(), &secret).await;
            written.map_err(failed("writing the Secret"))?;
            tracing::info!(
                expires = facts(&next.certificate).map(|facts| facts.expires),
                "certificates are renewed"
            );
            kept = Some(next);
        }
        // By now there is a certificate: it was kept, or has been made.
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

    /// Yields an item when one of the objects has changed, or may have.
    fn news(&self) -> impl Stream<Item = ()> + Send + Unpin + use<> {
        stream::select_all([
            changes(self.secrets.clone(), &self.settings.secret),
            changes(self.mutating.clone(), &self.settings.configuration),
            changes(self.validating.clone(), &self.settings.configuration),
        ])
    }
}

/// Puts the authorities into all webhooks of a configuration, if it exists.
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
    // A configuration that comes later is news, and gets the authorities then.
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
        let kind = short_name(&configuration);
        tracing::info!(kind, "the API server has the authorities to trust");
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
    // A watch that breaks is started again, and may have missed a change meanwhile.
    events
        .inspect_err(|error| tracing::warn!(%error, "watching the objects with certificates"))
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
    /// Lists the names by which the API server calls this server; the last is for one that runs on
    /// the same machine.
    fn names(&self) -> Vec<String> {
        vec![format!("{}.{}.svc", self.service, self.namespace), "localhost".to_owned()]
    }
}

impl Material {
    /// Returns the content of a Secret; `None` if it lacks a part.
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
