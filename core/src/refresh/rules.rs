//! Rules of jobs that contradict themselves or each other.

use crate::jobs::job::{Job, Style};
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::member::Member;
use crate::parts::Refresh;
use crate::sound::{Lookup, Sound};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Pod, exclusive};

impl Refresh<'_> {
    /// Notes whether a job depends on DeviceClasses.
    pub(crate) fn note_devices(&mut self, id: JobId) -> Sound {
        let live = self.jobs.live(self.jobs.all.known(&id)?);
        let waiting = live.filter(|member| member.stage.is_waiting()).map(|member| &*member.pod);
        let is_asking = self.jobs.classes.devices.are_requested(waiting);
        self.jobs.classes.devices.note(id, is_asking);
        Ok(())
    }

    /// Returns the error in a job's wish for nodes alone: its maker has a value that cannot be
    /// read, or honoured, or some pods of one start have the wish and others do not. `live` are its
    /// pods that have not ended.
    pub(crate) fn bad_exclusive(&self, job: &Job, live: &[&Member]) -> Option<String> {
        let mut made_by = self.jobs.makers(job);
        let by_maker = made_by.find_map(|made_by| {
            let wrong = match &made_by.exclusive {
                Err(wrong) => wrong.clone(),
                Ok(Some(true)) => self.sight().no_exclusive(false)?,
                Ok(_) => return None,
            };
            Some(format!(
                "{} {}: {}: {}",
                made_by.kind.as_str(),
                made_by.id,
                wrong.field,
                wrong.message
            ))
        });
        if by_maker.is_some() || job.style != Style::Gang || job.life != Lifecycle::Waiting {
            return by_maker;
        }
        let mut pods = live.iter().map(|member| &*member.pod);
        let first = pods.next()?;
        let asks = self.jobs.is_exclusive(first);
        // Mostly the pods are all alike, and a look at their maker is not needed.
        let other =
            pods.find(|pod| !says_the_same(first, pod) && self.jobs.is_exclusive(pod) != asks)?;
        let (who, who_not) = if asks { (first, other) } else { (other, first) };
        let field = exclusive::FIELD;
        Some(format!(
            "{field}: pod {} asks for nodes alone, and {} of the same gang does not",
            who.id, who_not.id
        ))
    }
}

/// True if two pods have the same wish of their own, and the same maker.
fn says_the_same(one: &Pod, other: &Pod) -> bool {
    let (maker, other_maker) = (one.owner.as_ref(), other.owner.as_ref());
    one.exclusive == other.exclusive
        && maker.map(|owner| &owner.uid) == other_maker.map(|owner| &owner.uid)
}

impl Refresh<'_> {
    /// Returns the error in the level rules of the objects that made a job's pods.
    pub(crate) fn bad_levels(&self, job: &Job) -> Option<String> {
        let mut made_by = self.jobs.makers(job);
        made_by.find_map(|made_by| {
            let wrong = match &made_by.levels {
                Err(wrong) => wrong.clone(),
                Ok(None) => return None,
                Ok(rules) => self.sight().level_trouble(rules)?,
            };
            Some(format!(
                "{} {}: {}: {}",
                made_by.kind.as_str(),
                made_by.id,
                wrong.field,
                wrong.message
            ))
        })
    }
}
