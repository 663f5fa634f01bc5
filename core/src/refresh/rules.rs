//! Rules of jobs that contradict themselves or each other.

use crate::jobs::job::{Job, Lifecycle, Member, Style};
use crate::parts::Refresh;
use fluxqueue_workload::{Pod, exclusive};

impl Refresh<'_> {
    /// What is wrong with what a job asks: its maker says what cannot be read, or honoured, or not
    /// all that start together ask for it. `live` are those of its pods that have not ended.
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
        // Mostly they are all alike, and who made them need not be asked again.
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

/// Two pods say the same themselves, and have the same maker.
fn says_the_same(one: &Pod, other: &Pod) -> bool {
    let (maker, other_maker) = (one.owner.as_ref(), other.owner.as_ref());
    one.exclusive == other.exclusive
        && maker.map(|owner| &owner.uid) == other_maker.map(|owner| &owner.uid)
}

impl Refresh<'_> {
    /// What is wrong with what the objects that made a job's pods ask of levels.
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
