//! Reads one namespace of the cluster, and nothing else.

use std::path::PathBuf;

use anyhow::Context;
use fluxqueue_api::FluxJob;
use fluxqueue_workload::ShapeInterner;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

use crate::look::{Look, Record, SeenPod, Workload};

/// The place of the cluster.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClusterFlags {
    /// The kubeconfig file; by default the one that kubectl would use
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig file
    #[arg(long)]
    context: Option<String>,
    /// The namespace
    #[arg(long, short)]
    namespace: String,
}

/// The namespace that the demo uses.
pub(crate) struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    /// Connects to the cluster.
    pub(crate) async fn connect(flags: &ClusterFlags) -> anyhow::Result<Self> {
        let file = match &flags.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let options =
            KubeConfigOptions { context: flags.context.clone(), ..KubeConfigOptions::default() };
        let config =
            Config::from_custom_kubeconfig(file.context("reading the kubeconfig")?, &options)
                .await?;
        Ok(Cluster { client: Client::try_from(config)?, namespace: flags.namespace.clone() })
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Looks at the namespace once.
    pub(crate) async fn look(&self) -> kube::Result<Look> {
        let all = ListParams::default();
        let (jobs, deployments, sets) =
            (self.api::<Job>(), self.api::<Deployment>(), self.api::<ReplicaSet>());
        let (stateful, pods) = (self.api::<StatefulSet>(), self.api::<Pod>());
        let (jobs, deployments, sets, stateful, pods, records) = futures::try_join!(
            jobs.list(&all),
            deployments.list(&all),
            sets.list(&all),
            stateful.list(&all),
            pods.list(&all),
            self.flux_jobs(),
        )?;
        let mut look = Look::default();
        for job in jobs {
            let conditions = job
                .status
                .as_ref()
                .and_then(|status| status.conditions.as_ref())
                .into_iter()
                .flatten();
            let conditions = conditions.filter(|it| it.status == "True");
            let conditions =
                conditions.map(|it| (it.type_.clone(), it.reason.clone().unwrap_or_default()));
            look.workloads.push(Workload::new(&job.metadata, conditions));
        }
        let elastic = deployments.iter().map(|it| &it.metadata);
        let elastic = elastic
            .chain(sets.iter().map(|it| &it.metadata))
            .chain(stateful.iter().map(|it| &it.metadata));
        look.workloads.extend(elastic.map(|meta| Workload::new(meta, [])));
        let mut shapes = ShapeInterner::new();
        look.pods = pods.iter().map(|pod| SeenPod::new(pod, &mut shapes)).collect();
        look.records = records.iter().map(Record::of).collect();
        Ok(look)
    }

    /// Reads the FluxJobs.
    pub(crate) async fn flux_jobs(&self) -> kube::Result<Vec<FluxJob>> {
        Ok(self.api::<FluxJob>().list(&ListParams::default()).await?.items)
    }

    /// Counts the Jobs.
    pub(crate) async fn jobs(&self) -> kube::Result<usize> {
        Ok(self.api::<Job>().list(&ListParams::default()).await?.items.len())
    }

    /// Reads the events Scheduled of pods: each pod with the reporter of its event.
    pub(crate) async fn scheduled(&self) -> kube::Result<Vec<(String, String)>> {
        let events =
            self.api::<Event>().list(&ListParams::default().fields("reason=Scheduled")).await?;
        let of = |event: &Event| {
            let pod = event.regarding.as_ref()?.name.clone()?;
            Some((pod, event.reporting_controller.clone().unwrap_or_else(|| event.name_any())))
        };
        Ok(events.iter().filter_map(of).collect())
    }
}
