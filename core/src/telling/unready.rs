//! Claims that are not ready: the words for pods that wait for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::jobs::job::Style;
use crate::parts::Telling;
use crate::sound::{Lookup, Sound};
use crate::telling::obstacle::TiedClaims;
use fluxqueue_machine::cluster::summary;
use fluxqueue_machine::cluster::volumes::Unready;
use fluxqueue_machine::rules;
use fluxqueue_planner::plan::Request;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::NamedNodes;

/// Most claims that a text about the places of volumes names.
const CLAIMS_NAMED: usize = 3;

impl Telling<'_> {
    /// Returns the claims, of pods that start together, with volumes that only some nodes can use.
    pub(crate) fn where_volumes_are(&self, request: &Request) -> TiedClaims {
        let is_alone = request.pods() == 1;
        if is_alone || self.planner.cluster.volumes().is_idle() {
            return TiedClaims::default();
        }
        let mut tied = BTreeMap::new();
        for (claim, volume) in
            request.all_pods().flat_map(|pod| self.planner.cluster.volumes().tied(pod))
        {
            tied.insert(claim, volume);
            if tied.len() > CLAIMS_NAMED {
                break;
            }
        }
        let named = tied.iter().take(CLAIMS_NAMED);
        let claims = named.map(|(claim, volume)| {
            let cluster = &self.planner.cluster;
            cluster.volumes().where_claim_is(cluster.nodes(), claim, volume)
        });
        TiedClaims { clauses: claims.collect(), are_more: tied.len() > CLAIMS_NAMED }
    }

    /// Reports claims that are not ready to the pods that wait for them, in the words of
    /// kube-scheduler.
    pub(crate) fn report_unready(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let is_lone = job.style == Style::Lone;
        let waiting = self.jobs.live(job).filter(|member| member.stage.is_waiting());
        let unready =
            waiting.filter_map(|member| Some((Arc::clone(&member.pod), member.unready.clone()?)));
        let unready: Vec<(Arc<Pod>, Unready)> = unready.collect();
        for (pod, unready) in unready {
            let text = match unready.is_whole {
                // For pods of a larger job, the other reasons for which nodes are closed are not
                // computed.
                true if is_lone => rules::unavailable(&mut self.planner.site(), &pod),
                // An affinity that names no node is found before the claims are checked.
                false if pod.shape.constraints.named_nodes() == NamedNodes::None => {
                    rules::unavailable(&mut self.planner.site(), &pod)
                }
                true => unready.said,
                false => summary::unplaceable(self.planner.cluster.nodes().len(), &unready.said),
            };
            self.notices().report_unscheduled(&pod.id.uid, "Unschedulable", &text)?;
        }
        Ok(())
    }
}
