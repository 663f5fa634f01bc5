//! The life of the process: becomes the leader, starts watches, core and workers, and ends them in
//! order.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::resource::v1::DeviceClass;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::admission::AdmissionObjects;
use super::client::{Clients, ConnectError, configuration, connect};
use super::clock::{Clock, ServerClock};
use super::driver::{Driver, Ending, Inbox, Machine};
use super::executors::{ExecutorSettings, Executors, OUTCOMES};
use super::fence::Fence;
use super::kinds::{self, WatchedKind};
use super::lean::Lean;
use super::lease::{Candidate, LeaseLost, LeaseSettings};
use super::pod_groups::{self, LOOK_EVERY, Served};
use super::reviews::Reviews;
use super::served_crd;
use super::signals::{SignalError, Signals};
use super::storage;
use super::tasks::{TaskEnded, Tasks};
use super::watch::{BATCHES, Watches};
use crate::serve::probes::{self, ProbesError};
use crate::serve::{
    Connections, DepthSource, Exposure, Facts, Health, Leading, ListenAddress, ListenError,
    Metrics, Places, Question, TlsError, listen, outlook, probe_router, serve, tls_configuration,
};
use fluxqueue_core::Event;

/// The most questions of the HTTP server that may wait for the core.
const QUESTIONS: usize = 8;

/// The time in which the core has to come to the end of a step. It is much longer than steps take,
/// and with the other bounds of an orderly end less than the 30 s that Kubernetes gives a process.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// The time in which records and Events have to be written once the last Binding is done.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// The settings of the shell.
#[derive(Debug)]
pub struct ShellSettings {
    /// The kubeconfig that a flag named, if one did.
    pub kubeconfig: Option<PathBuf>,
    /// The address at which probes and metrics are served.
    pub serve_on: ListenAddress,
    /// The protection of metrics and state.
    pub exposure: Exposure,
    /// The address at which probes are served apart from everything else, if there is one.
    pub probes_on: Option<ListenAddress>,
    /// The Lease, or `None` without leader election.
    pub lease: Option<LeaseSettings>,
    /// The settings of the workers.
    pub executors: ExecutorSettings,
}

/// Makes the core once the epoch of this leader is known.
pub type MakeMachine<M> = Box<dyn FnOnce(i64) -> anyhow::Result<M> + Send>;

/// The reason why the process fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// The API server cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The port is taken.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The probes cannot be served.
    #[error(transparent)]
    Probes(#[from] ProbesError),
    /// Signals cannot be received.
    #[error(transparent)]
    Signal(#[from] SignalError),
    /// The core could not be made.
    #[error("starting the core")]
    Core(#[source] anyhow::Error),
    /// The thread of the core could not be started.
    #[error("starting the thread of the core")]
    Thread(#[source] std::io::Error),
    /// Another process may lead now.
    #[error(transparent)]
    Lost(#[from] LeaseLost),
    /// A part of the process broke.
    #[error(transparent)]
    Task(#[from] TaskEnded),
}

/// Runs until a signal ends the process, or something goes wrong.
pub async fn run<M: Machine>(
    settings: ShellSettings,
    make: MakeMachine<M>,
) -> Result<(), ShellError> {
    let (signals, end) = (Signals::listen()?, CancellationToken::new());
    let mut tasks = Tasks::default();
    tasks.spawn("signals", signals.obey(end.clone()));
    run_until(end, tasks, settings, make).await
}

/// Runs until `end` is cancelled, or something goes wrong.
pub(super) async fn run_until<M: Machine>(
    end: CancellationToken,
    mut tasks: Tasks,
    settings: ShellSettings,
    make: MakeMachine<M>,
) -> Result<(), ShellError> {
    let ShellSettings { kubeconfig, serve_on, exposure, probes_on, lease, executors } = settings;
    let config = configuration(kubeconfig.as_deref()).await?;
    let clients = connect(&config)?;
    let facts = Arc::new(Facts {
        metrics: Arc::new(Metrics::new(env!("CARGO_PKG_VERSION"), env!("FLUXQUEUE_COMMIT"))),
        health: Arc::new(Health::default()),
        leading: OnceLock::new(),
        gatekeeper: match exposure {
            Exposure::Open => None,
            Exposure::Secured(_) => Some(Arc::new(Reviews::new(clients.write.clone()))),
        },
        places: Places::default(),
        last_outlook: outlook::LastOutlook::default(),
        admission: Arc::new(AdmissionObjects(clients.write.clone())),
    });
    let (listener, serving) = listen(serve_on).await?;
    let tls = match &exposure {
        Exposure::Open => None,
        Exposure::Secured(files) => Some(tls_configuration(files.as_ref())?),
    };
    let connections = Connections::within_descriptors();
    let server = serve(listener, tls, connections.clone(), Arc::clone(&facts));
    tasks.spawn_telling("http server", async { match server.await {} });
    tasks.spawn("pulse", Arc::clone(&facts.health.pulse).beat());
    if let Some(address) = probes_on {
        let (listener, probes) = listen(address).await?;
        let ended = probes::serve(listener, probe_router(Arc::clone(&facts)))?;
        tasks.spawn("probes", async { drop(ended.await) });
        tracing::info!(%probes, "answering probes");
    }
    tracing::info!(server = %config.cluster_url, serving = %serving, "fluxqueue starts");

    tokio::select! {
        () = served_crd::wait_until_they_will_do(&clients.write, &facts.health) => {}
        ended = tasks.ended() => return Err(ended.into()),
        () = end.cancelled() => return Ok(()),
    }
    let leadership = match lease {
        Some(lease) => tokio::select! {
            led = Candidate::new(clients.write.clone(), lease).acquire() => Some(led),
            ended = tasks.ended() => return Err(ended.into()),
            () = end.cancelled() => return Ok(()),
        },
        None => None,
    };
    let run = Run { facts, clients, tasks, executors, asked_to_end: end };
    let Some(mut leadership) = leadership else {
        tracing::warn!(
            "no leader election: a second process would decide beside this one, and writes of a \
             predecessor are not waited for"
        );
        let term = Term { epoch: 0, wait_first: Duration::ZERO, fence: Fence::open() };
        return run.lead(term, make).await.map(|_| ());
    };
    let fence = leadership.fence.clone();
    let term = Term { epoch: leadership.epoch, wait_first: leadership.wait_first, fence };
    let held = leadership.fence.clone();
    let unfit = |at_least| unfit(&connections, &held, at_least);
    let end = tokio::select! {
        end = run.lead(term, make) => end?,
        lost = leadership.keep(&unfit) => {
            if let LeaseLost::GivenUp { .. } = &lost {
                tracing::error!(error = %lost, "ending");
                leadership.release_after_writes().await;
            }
            return Err(lost.into());
        }
    };
    match end {
        End::NothingInFlight => leadership.release().await,
        // The Lease is left to expire, so the successor waits as long as it must.
        End::PerhapsInFlight => {}
    }
    Ok(())
}

/// Returns the work that this process has not been able to do for at least this long, if another
/// process would do better as the leader.
fn unfit(connections: &Connections, fence: &Fence, at_least: Duration) -> Option<String> {
    let longer =
        |(lasts, why): (Duration, String)| (lasts >= at_least).then_some((lasts.as_secs(), why));
    let deaf = connections.deaf_for().and_then(longer);
    let deaf =
        deaf.map(|(secs, why)| format!("no connection could be accepted for {secs} s: {why}"));
    deaf.or_else(|| {
        let (secs, why) = fence.unanswered_for().and_then(longer)?;
        Some(format!("no write was answered for {secs} s: {why}"))
    })
}

/// The resources of a leader.
struct Run {
    facts: Arc<Facts>,
    clients: Clients,
    tasks: Tasks,
    executors: ExecutorSettings,
    asked_to_end: CancellationToken,
}

/// The term of a leader.
struct Term {
    epoch: i64,
    wait_first: Duration,
    fence: Fence,
}

/// The state after an orderly end.
enum End {
    /// Nothing is decided any more, and every Binding of this leader and of those before it has
    /// ended.
    NothingInFlight,
    /// A Binding may still take effect, or be decided.
    PerhapsInFlight,
}

// === impl Run ===

impl Run {
    /// Leads until the end is requested, then ends in order.
    async fn lead<M: Machine>(
        mut self,
        term: Term,
        make: MakeMachine<M>,
    ) -> Result<End, ShellError> {
        let Term { epoch, wait_first, fence } = term;
        self.facts.metrics.leader.set(1);
        self.facts.health.set_leads();
        if !wait_first.is_zero() {
            tracing::info!(
                secs = wait_first.as_secs(),
                "waiting until the last leader's writes must have ended"
            );
            tokio::select! {
                () = tokio::time::sleep(wait_first) => {}
                ended = self.tasks.ended() => return Err(ended.into()),
                () = self.asked_to_end.cancelled() => return Ok(End::PerhapsInFlight),
            }
        }
        let machine = make(epoch).map_err(ShellError::Core)?;
        let ending = Ending::default();
        let executors = self.start(machine, fence, ending.clone()).await?;
        tokio::select! {
            ended = self.tasks.ended() => return Err(ended.into()),
            () = self.asked_to_end.cancelled() => {}
        }
        tracing::info!("asked to end");
        self.facts.health.set_stopping();
        ending.stop.cancel();
        // A step that is under way may still decide on Bindings, so the end begins after it.
        let left = match tokio::time::timeout(STOP_WITHIN, ending.stopped.cancelled()).await {
            Ok(()) => self.finish(&executors).await,
            Err(_) => {
                tracing::warn!("the core is still deciding");
                End::PerhapsInFlight
            }
        };
        ending.end.cancel();
        executors.close();
        Ok(left)
    }

    async fn start<M: Machine>(
        &mut self,
        machine: M,
        fence: Fence,
        ending: Ending,
    ) -> Result<Arc<Executors>, ShellError> {
        let (batches_in, batches) = mpsc::channel(BATCHES);
        let (outcomes_in, outcomes) = mpsc::channel(OUTCOMES);
        let (questions_in, questions) = mpsc::channel(QUESTIONS);
        let executors = Arc::new(Executors::new(Arc::clone(&self.facts.metrics)));
        executors.start(&mut self.tasks, &self.executors, &self.clients, fence, &outcomes_in);
        let inbox = Inbox { batches, outcomes, questions };
        let (metrics, health) = (Arc::clone(&self.facts.metrics), Arc::clone(&self.facts.health));
        let clock = Clock::start();
        let driver = Driver::new(machine, clock, inbox, Arc::clone(&executors), metrics, health);
        self.start_driver(driver, ending)?;
        self.start_clock(clock, &batches_in).await;
        self.start_watches(batches_in).await;
        self.show(questions_in, Arc::clone(&executors));
        Ok(executors)
    }

    /// Starts the thread of the core. It uses the runtime's timers and channels, but none of its
    /// worker threads.
    fn start_driver<M: Machine>(
        &mut self,
        driver: Driver<M>,
        ending: Ending,
    ) -> Result<(), ShellError> {
        let runtime = tokio::runtime::Handle::current();
        let (ended_in, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("core".to_owned()).spawn(move || {
            // The thread drops this at its end, also in a panic, and the receiver notices.
            let _ended_in = ended_in;
            runtime.block_on(driver.run(ending));
        });
        thread.map_err(ShellError::Thread)?;
        self.tasks.spawn("core", async {
            let _ = ended.await;
        });
        Ok(())
    }

    /// Sends the core the difference between its clock and the API server's, before the first
    /// object.
    async fn start_clock(&mut self, clock: Clock, batches: &mpsc::Sender<Vec<Event>>) {
        let mut server_clock = ServerClock::new(self.clients.write.clone(), clock);
        if let Some(offset) = server_clock.compare().await {
            // This fails only if the core has ended, and its task reports that.
            let _ = batches.send(vec![offset]).await;
        }
        self.tasks.spawn_telling("clock", server_clock.keep_comparing(batches.clone()));
    }

    async fn start_watches(&mut self, batches: mpsc::Sender<Vec<Event>>) {
        let kinds = self.readable_kinds(&batches).await;
        let served = Served::look(&self.clients.watch).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "asking for the served versions of PodGroups");
            Served::Hidden("it is not known yet whether the API server serves PodGroups".into())
        });
        let watches = Watches {
            client: self.clients.watch.clone(),
            batches,
            metrics: Arc::clone(&self.facts.metrics),
            unlisted: Arc::new(AtomicUsize::new(kinds.len() + served.kinds())),
        };
        for kind in kinds {
            let watch = kind.watch(watches.clone());
            self.tasks.spawn_telling("watch", async move {
                match watch.await {
                    Ok(()) => format!("the watch of {} ended", kind.name),
                    Err(error) => error.to_string(),
                }
            });
        }
        let of_groups = pod_groups::watch(watches, served, LOOK_EVERY);
        self.tasks.spawn_telling("watch", async move {
            match of_groups.await {
                Ok(()) => "the watch of PodGroups ended".to_owned(),
                Err(error) => error.to_string(),
            }
        });
    }

    /// Returns the kinds to watch besides PodGroups: those without which nothing can be decided,
    /// and those of the others that may be read.
    async fn readable_kinds(&self, batches: &mpsc::Sender<Vec<Event>>) -> Vec<WatchedKind> {
        let client = &self.clients.watch;
        let mut kinds = kinds::REQUIRED.to_vec();
        match storage::refusal(client).await {
            None => kinds.extend(storage::KINDS),
            Some(why) => {
                tracing::warn!(
                    why,
                    "claims and volumes may not be read: pods that mount them wait"
                );
                // This fails only if the core has ended, and its task reports that.
                let _ = batches.send(vec![storage::hidden(&why)]).await;
            }
        }
        // Quotas matter only where Jobs wait without pods, for which there is a role of its own.
        let quotas = WatchedKind::of::<Lean<ResourceQuota>>();
        match quotas.refusal(client).await {
            None => kinds.push(quotas),
            Some(why) => tracing::debug!(
                why,
                "quotas may not be read: a Job that waits without pods is released whatever they \
                 leave"
            ),
        }
        let device_classes = WatchedKind::of::<DeviceClass>();
        match device_classes.refusal(client).await {
            None => kinds.push(device_classes),
            Some(why) => tracing::info!(
                why,
                "DeviceClasses may not be read, so no pod is refused for a resource of theirs"
            ),
        }
        kinds
    }

    fn show(&self, questions: mpsc::Sender<Question>, executors: Arc<Executors>) {
        let depths: Box<dyn DepthSource> = Box::new(executors);
        // A process leads once: when it loses the Lease, it ends.
        let _ = self.facts.leading.set(Leading { questions, depths });
    }

    /// Waits for everything in flight, within bounds.
    async fn finish(&mut self, executors: &Executors) -> End {
        // Each Binding ends by its own timeout; one more second is for the wake-ups.
        let within = self.executors.bind_timeout + Duration::from_secs(1);
        let finished = tokio::time::timeout(within, executors.finish_bindings()).await;
        if tokio::time::timeout(FLUSH_WITHIN, executors.flush()).await.is_err() {
            tracing::warn!(
                "some records or events were not written; the next leader writes the records again"
            );
        }
        match finished {
            Ok(()) => End::NothingInFlight,
            Err(_) => {
                tracing::warn!("some Bindings have no answer yet");
                End::PerhapsInFlight
            }
        }
    }
}

impl DepthSource for Arc<Executors> {
    fn depths(&self) -> Vec<(&'static str, usize)> {
        Executors::depths(self)
    }
}
