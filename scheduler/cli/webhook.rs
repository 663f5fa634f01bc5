//! `fluxqueue webhook`: answers the API server's questions before objects are stored. A process of
//! its own, beside the scheduler: it keeps nothing, so any number of replicas may run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use clap::Args;
use fluxqueue_api::{names, syntax};
use fluxqueue_tls::{Connections, Serving, clients_of, files, serve};
use fluxqueue_webhook::certificates::authority::Lifetimes;
use fluxqueue_webhook::certificates::keeper::{Keeper, KeeperSettings};
use fluxqueue_webhook::{Admission, Metrics, Readiness, router};
use kube::Client;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::logs;
use super::run::{namespace_name, object_name, positive_duration};
use crate::kube::client::configuration;
use crate::kube::reviews::Reviews;
use crate::kube::signals::Signals;
use crate::kube::tasks::Tasks;
use crate::serve::probes::{self, Pulse};
use crate::serve::{
    CertificateFiles, Counters, Gatekeeper, ListenAddress, PREFIX, listen, metrics_router, registry,
};

/// The time for which questions are answered after a signal: until then some clients may not know
/// that this process is going away.
const DRAIN_FOR: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct WebhookArgs {
    /// A spec.schedulerName that Fluxqueue serves; may be repeated. Pods that name no scheduler get
    /// the first
    #[arg(
        long = "scheduler-name",
        value_name = "NAME",
        default_value = names::SCHEDULER_NAME,
        value_parser = scheduler_name
    )]
    scheduler_names: Vec<String>,

    /// Fluxqueue's own namespace: nothing in it is ever changed or refused
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "POD_NAMESPACE",
        default_value = "fluxqueue-system",
        value_parser = namespace_name
    )]
    namespace: String,

    /// The address that serves the API server's questions, /livez and /readyz, over TLS; :PORT
    /// means all addresses, IPv4 and IPv6
    #[arg(long, value_name = "ADDRESS", default_value = ":9443")]
    bind_address: ListenAddress,

    /// The address that serves /metrics; without this flag there is none. On addresses other than
    /// the loopback it uses TLS, and answers only clients that the API server allows
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<ListenAddress>,

    /// The address that serves /livez and /readyz to kubelets over plain HTTP, where no other
    /// client can keep them out. Without this flag only --bind-address serves them
    #[arg(long, value_name = "ADDRESS")]
    health_bind_address: Option<ListenAddress>,

    /// Authorities, as PEM: only clients with a certificate of one of them are answered at
    /// --bind-address. The API server then needs one for its webhooks; give --health-bind-address
    /// for probes. Read at the start
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,

    /// The certificate for TLS, as PEM; read again when it changes. Without it, the replicas make
    /// their own, and keep it in a Secret
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// The private key of that certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// The kubeconfig to use, to keep the webhook's own certificates and to check clients that read
    /// metrics. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The Secret, in that namespace, for the webhook's own certificates
    #[arg(
        long,
        value_name = "NAME",
        default_value = "fluxqueue-webhook",
        value_parser = object_name
    )]
    secret_name: String,

    /// The Service by which the API server reaches this process; the webhook's own certificates are
    /// for that name
    #[arg(
        long,
        value_name = "NAME",
        default_value = "fluxqueue-webhook",
        value_parser = object_name
    )]
    service_name: String,

    /// The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration that name the
    /// authority to trust
    #[arg(long, value_name = "NAME", default_value = "fluxqueue", value_parser = object_name)]
    configuration_name: String,

    /// The time for which the webhook's own certificates are valid. They are replaced when a third
    /// of that time is left
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = positive_duration)]
    certificate_lifetime: Duration,

    /// The time for which the authority is valid that signs them
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = positive_duration)]
    authority_lifetime: Duration,

    /// The format of log lines
    #[arg(long, value_enum, default_value_t = logs::LogFormat::Text)]
    log_format: logs::LogFormat,

    /// The lines to log: error, warn, info, debug, trace, or a filter such as
    /// info,fluxqueue::kube=debug
    #[arg(long, value_name = "FILTER", env = "FLUXQUEUE_LOG", default_value = "info")]
    log_level: String,
}

// === impl WebhookArgs ===

impl WebhookArgs {
    /// Runs until a signal ends the process.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let WebhookArgs {
            scheduler_names,
            namespace,
            bind_address,
            metrics_bind_address,
            health_bind_address,
            client_ca_file,
            tls_cert_file,
            tls_private_key_file,
            kubeconfig,
            secret_name,
            service_name,
            configuration_name,
            certificate_lifetime,
            authority_lifetime,
            log_format,
            log_level,
        } = self;
        logs::start(log_format, &log_level)?;
        let admission = Admission::new(scheduler_names, namespace.clone())?;
        let certificates = match tls_cert_file.zip(tls_private_key_file) {
            Some((certificate, key)) => Certificates::Files(CertificateFiles { certificate, key }),
            None => Certificates::Own(KeeperSettings {
                namespace,
                secret: secret_name,
                service: service_name,
                configuration: configuration_name,
                lifetimes: Lifetimes {
                    authority_secs: i64::try_from(authority_lifetime.as_secs())?,
                    serving_secs: i64::try_from(certificate_lifetime.as_secs())?,
                },
            }),
        };
        let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
        let answering = Answering {
            bind_address,
            metrics_bind_address,
            health_bind_address,
            client_ca_file,
            kubeconfig,
            admission,
            certificates,
            connections: Connections::within_descriptors(),
        };
        runtime.block_on(answering.run())
    }
}

/// Checks a name that pods may have as `spec.schedulerName`.
fn scheduler_name(text: &str) -> Result<String, String> {
    if syntax::is_label_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("is not a scheduler's name: {}", syntax::NAME_RULE))
    }
}

/// The source of the certificate.
enum Certificates {
    /// Another program makes it, and configures the API server.
    Files(CertificateFiles),
    /// The replicas make it themselves.
    Own(KeeperSettings),
}

/// Everything that a process answers questions with.
struct Answering {
    bind_address: ListenAddress,
    metrics_bind_address: Option<ListenAddress>,
    health_bind_address: Option<ListenAddress>,
    client_ca_file: Option<PathBuf>,
    kubeconfig: Option<PathBuf>,
    admission: Admission,
    certificates: Certificates,
    connections: Connections,
}

impl Answering {
    async fn run(self) -> anyhow::Result<()> {
        let (signals, end) = (Signals::listen()?, CancellationToken::new());
        let mut tasks = Tasks::default();
        tasks.spawn("signals", signals.obey(end.clone()));
        let (listener, address) = listen(self.bind_address).await?;
        let serving = Arc::new(Serving::default());
        let mut registry = registry(env!("CARGO_PKG_VERSION"), env!("FLUXQUEUE_COMMIT"));
        let metrics = Metrics::new(registry.sub_registry_with_prefix(PREFIX));
        let readiness = Arc::new(Readiness::new(Arc::clone(&serving)));
        if let Some(address) = self.health_bind_address {
            serve_probes(address, Arc::clone(&readiness), &mut tasks).await?;
        }
        let clients = self.client_ca_file.as_deref().map(|path| {
            let authorities =
                std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            clients_of(&authorities).with_context(|| format!("--client-ca-file {}", path.display()))
        });
        let clients = clients.transpose()?;
        if let Some(address) = self.metrics_bind_address {
            self.serve_metrics(address, registry, &serving, &mut tasks).await?;
        }
        match self.certificates {
            Certificates::Files(files) => {
                tasks.spawn("certificate", files::open(files, Arc::clone(&serving))?.follow());
            }
            Certificates::Own(settings) => {
                let client = client(self.kubeconfig.as_deref()).await?;
                tasks.spawn(
                    "certificates",
                    Keeper::new(client, settings, Arc::clone(&serving)).keep(),
                );
            }
        }
        let routes = router(self.admission, metrics, Arc::clone(&readiness));
        let server =
            serve(listener, Some(serving.configuration(clients)?), self.connections, routes);
        tasks.spawn_telling("http server", async { match server.await {} });
        tracing::info!(serving = %address, "answering the API server");
        tokio::select! {
            () = end.cancelled() => {}
            ended = tasks.ended() => return Err(ended.into()),
        }
        readiness.set_stopping();
        tokio::time::sleep(DRAIN_FOR).await;
        Ok(())
    }

    /// Serves metrics: over plain HTTP for every client on the loopback address, elsewhere with the
    /// certificate for the API server.
    async fn serve_metrics(
        &self,
        address: ListenAddress,
        registry: Registry,
        serving: &Arc<Serving>,
        tasks: &mut Tasks,
    ) -> anyhow::Result<()> {
        let is_open = address.is_loopback();
        let gatekeeper: Option<Arc<dyn Gatekeeper>> = if is_open {
            None
        } else {
            Some(Arc::new(Reviews::new(client(self.kubeconfig.as_deref()).await?)))
        };
        let routes = metrics_router(Arc::new(Counters { registry, gatekeeper }));
        let (listener, address) = listen(address).await?;
        tracing::info!(metrics = %address, "serving metrics");
        let tls = if is_open { None } else { Some(serving.configuration(None)?) };
        let server = serve(listener, tls, self.connections.clone(), routes);
        tasks.spawn_telling("metrics server", async { match server.await {} });
        Ok(())
    }
}

/// Serves probes for kubelets.
async fn serve_probes(
    address: ListenAddress,
    readiness: Arc<Readiness>,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let pulse = Arc::new(Pulse::default());
    tasks.spawn("pulse", Arc::clone(&pulse).beat());
    let live = async move || {
        if pulse.beats() {
            (StatusCode::OK, "ok")
        } else {
            (StatusCode::INTERNAL_SERVER_ERROR, "the process is stuck")
        }
    };
    let routes = Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(async move || readiness.answer()));
    let (listener, address) = listen(address).await?;
    let ended = probes::serve(listener, routes)?;
    tasks.spawn("probes", async { drop(ended.await) });
    tracing::info!(probes = %address, "answering probes");
    Ok(())
}

async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    Ok(Client::try_from(configuration(kubeconfig).await?)?)
}
