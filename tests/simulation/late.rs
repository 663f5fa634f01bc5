//! Writes of a leader that was paused after its last look at the lease: they reach the server late,
//! while its successor works. A write that takes effect is news to the successor; one that was
//! decided on an older state takes none.

use fluxqueue_core::{ActionKind, BindOutcome, Outcome, Write, WriteOutcome};
use fluxqueue_workload::{NodeName, ObjectRef, Time};

use crate::rng::Rng;
use crate::server::Server;
use crate::stats::Stats;
use crate::trace;
use crate::violation::{Violation, broken};

/// Percentage of such writes that take effect at all.
const LANDS_PERCENT: usize = 85;

/// Writes on their way.
#[derive(Debug, Default)]
pub(crate) struct Late(Vec<ActionKind>);

/// The effect of one write.
#[derive(Debug, Default)]
pub(crate) struct Landed {
    /// The node that got a pod.
    pub(crate) node: Option<NodeName>,
    /// The FluxJob with a changed status.
    pub(crate) wrote: Option<ObjectRef>,
    /// A line for the trace.
    pub(crate) line: Option<String>,
}

impl Late {
    /// Adds writes that are under way, too.
    pub(crate) fn extend(&mut self, writes: Vec<ActionKind>) {
        self.0.extend(writes);
    }

    /// True if none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets one of them reach the server, or be lost.
    pub(crate) fn land(
        &mut self,
        server: &mut Server,
        wall: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Result<Landed, Violation> {
        let Some(write) = rng.take(&mut self.0) else { return Ok(Landed::default()) };
        if !rng.chance(LANDS_PERCENT) {
            return Ok(Landed::default());
        }
        let is_stale = is_stale(server, &write);
        let waits = |pod: &ObjectRef| server.pod(pod).is_some_and(|it| it.node.is_none());
        let waited = matches!(&write, ActionKind::Bind { pod, .. } if waits(pod));
        let outcome = server.apply(&write, wall);
        let line = Some(format!("{}: {outcome:?}", trace::kind(&write)));
        match (&write, outcome) {
            (ActionKind::Bind { pod, node, .. }, Outcome::Bind(BindOutcome::Bound)) if waited => {
                stats.count("Binding of a paused leader took effect");
                server.bound_by_others.insert(pod.uid.clone());
                return Ok(Landed { node: Some(node.clone()), wrote: None, line });
            }
            (_, Outcome::Write(WriteOutcome::Written(_))) if is_stale => {
                let text = format!("{} took effect on a newer version", trace::kind(&write));
                return broken("nothing that is newer is overwritten", text);
            }
            (
                ActionKind::Write(Write::WriteStatus { job, .. }),
                Outcome::Write(WriteOutcome::Written(_)),
            ) => {
                stats.count("status write of a paused leader took effect");
                server.note_late_write(job);
                return Ok(Landed { node: None, wrote: Some(job.clone()), line });
            }
            (
                ActionKind::Write(Write::WriteStatus { .. }),
                Outcome::Write(WriteOutcome::Conflict),
            ) => {
                stats.count("status write of a paused leader came too late");
            }
            _ => {}
        }
        Ok(Landed { node: None, wrote: None, line })
    }
}

/// True if the object is not of the version that the write was decided on.
fn is_stale(server: &Server, write: &ActionKind) -> bool {
    if let ActionKind::Write(Write::SetGroupCondition { group, resource_version, .. }) = write {
        let stored = server.pod_groups.get(&group.key).filter(|it| it.id.uid == group.uid);
        return stored.is_some_and(|stored| stored.resource_version != *resource_version);
    }
    let ActionKind::Write(
        Write::WriteStatus { job, resource_version, .. }
        | Write::DeleteFluxJob { job, resource_version },
    ) = write
    else {
        return false;
    };
    let stored =
        server.flux_job(job).and_then(|stored| stored.metadata.resource_version.as_deref());
    stored.is_some() && stored != resource_version.as_deref()
}
