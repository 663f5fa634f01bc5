//! The effects of the clock on jobs: reservations begin or are put off, and a job past its end
//! keeps its resources.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::{Engine, Job, JobMode};
use crate::Error;
use crate::graph::VertexId;
use crate::schedule::{Term, Touch};
use crate::time::{End, NOW_MAX};

/// When something is to be looked at: instants with jobs. Jobs may have gone or changed since.
pub(super) type Agenda = BinaryHeap<Reverse<(i64, u64)>>;

/// Entries that an agenda may have before it is rebuilt.
const AGENDA_MIN: usize = 64;

impl Engine {
    /// Moves the present to `now`, in seconds. It never goes back: an earlier instant changes
    /// nothing, and one beyond [`NOW_MAX`] is refused.
    ///
    /// A reservation that is due becomes an allocation if there is room where it has its
    /// place, in the order of starts and ids; else it stays a reservation, and begins in the next
    /// second at the earliest.
    pub fn set_time(&mut self, now: i64) -> Result<(), Error> {
        if now > NOW_MAX {
            return Err(Error::invalid(format!(
                "time: {now} is beyond {NOW_MAX}, the last second that the present can be"
            )));
        }
        if now <= self.now {
            return Ok(());
        }
        self.note_clock();
        self.now = now;
        self.graph.pools.advance(now);
        self.extend_overdue();
        self.begin_due();
        Ok(())
    }

    /// Notes when a job that was just made has to be looked at.
    pub(super) fn schedule_job(&mut self, id: u64) {
        self.forget_stale_entries();
        let Some(job) = self.jobs.get(&id) else { return };
        if job.info.mode == JobMode::Reserved {
            self.starts.push(Reverse((job.info.at, id)));
        } else if !job.touches.is_empty() {
            self.ends.push(Reverse((job.term.to, id)));
        }
    }

    /// Rebuilds the agendas where most of their entries are of jobs that have gone or changed
    /// since: they are never longer than twice the jobs, and [`AGENDA_MIN`] entries. A trial has
    /// its own copy, which ends with it.
    fn forget_stale_entries(&mut self) {
        let limit = 2 * self.jobs.len() + AGENDA_MIN;
        if self.trial.is_some() || self.starts.len().max(self.ends.len()) <= limit {
            return;
        }
        (self.starts, self.ends) = (Agenda::new(), Agenda::new());
        for (id, job) in self.jobs.iter() {
            if job.info.mode == JobMode::Reserved {
                self.starts.push(Reverse((job.info.at, *id)));
            } else if !job.touches.is_empty() {
                self.ends.push(Reverse((job.term.to, *id)));
            }
        }
    }

    /// A vertex that a job holds past its end is held until the next second.
    fn extend_overdue(&mut self) {
        let to = self.now + 1;
        while let Some(Reverse((end, id))) =
            self.ends.peek().copied().filter(|Reverse((end, _))| *end < to)
        {
            self.ends.pop();
            let is_it = |job: &Arc<Job>| job.info.mode == JobMode::Allocated && job.term.to == end;
            self.note_job(id);
            self.note_vertices();
            let Some(job) = self.jobs.get_mut(&id).filter(|job| is_it(job)) else { continue };
            extend(&mut self.schedule, &self.graph, Arc::make_mut(job), to);
            self.ends.push(Reverse((to, id)));
        }
        if !self.lost.is_empty() {
            self.note_vertices();
        }
        for (_, job) in &mut self.lost {
            if job.info.mode == JobMode::Allocated && job.term.to < to {
                extend(&mut self.schedule, &self.graph, Arc::make_mut(job), to);
            }
        }
    }

    /// Begins the reservations that are due, or puts them off.
    fn begin_due(&mut self) {
        let mut due = Vec::new();
        while let Some(Reverse((at, id))) =
            self.starts.peek().copied().filter(|Reverse((at, _))| *at <= self.now)
        {
            self.starts.pop();
            let is_it = |job: &Arc<Job>| job.info.mode == JobMode::Reserved && job.info.at == at;
            // A job that is on the agenda twice comes twice in a row.
            if self.jobs.get(&id).is_some_and(is_it) && due.last() != Some(&id) {
                due.push(id);
            }
        }
        // None of them is in the way of another before it has begun.
        for id in &due {
            self.note_job(*id);
            let Some(job) = self.jobs.get(id).cloned() else { continue };
            for touch in &job.touches {
                self.leave(job.term, touch);
            }
        }
        for id in due {
            let Some(mut job) = self.jobs.remove(&id) else { continue };
            self.begin(id, Arc::make_mut(&mut job));
            self.jobs.insert(id, job);
            self.schedule_job(id);
        }
    }

    /// Begins a reservation that the vertices do not count any more, or puts it off.
    fn begin(&mut self, id: u64, job: &mut Job) {
        let rows: Vec<usize> = job.rows(&self.graph.pools).collect();
        let begins = rows.iter().all(|row| self.graph.pools.ledger().may_begin(*row, id))
            && job.touches.iter().all(|touch| self.may_begin(touch));
        let later = self.now + 1 - job.info.at;
        for row in rows {
            if begins {
                self.graph.pools.begin(row, id);
            } else {
                self.graph.pools.put_off(row, id, later);
            }
        }
        if begins {
            job.info.mode = JobMode::Allocated;
            job.term.reserved = false;
            // It may begin so late that it should have ended.
            job.term.to = job.term.to.max(self.now + 1);
        } else {
            if !std::mem::replace(&mut job.put_off, true) {
                self.note_vertices();
                self.schedule.put_off += 1;
            }
            job.info.at = self.now + 1;
            let Term { from, to, end, .. } = &mut job.term;
            (*from, *end) = (from.saturating_add(later), end.later(later));
            // A term without an end lasts as long as the window.
            *to = if let End::At(_) = end { to.saturating_add(later) } else { *to };
        }
        for touch in &job.touches {
            self.enter(job.term, touch);
        }
    }

    /// True if a vertex can be had now. A vertex that is not part of the graph any more belongs to
    /// no other job.
    fn may_begin(&self, touch: &Touch) -> bool {
        !touch.exclusive
            || !self.graph.is_linked(touch.vertex)
            || self.is_to_be_had(touch.vertex, (self.now, self.now + 1), |row| {
                self.graph.pools.ledger().is_untouched(row)
            })
    }

    /// True if a vertex is up, and no job has it, anything below it, or a vertex that holds it, at
    /// any instant of a window; `is_idle` tells it of the pools of a row.
    pub(super) fn is_to_be_had(
        &self,
        vertex: VertexId,
        (from, to): (i64, i64),
        is_idle: impl Fn(usize) -> bool,
    ) -> bool {
        let (graph, schedule) = (&self.graph, &self.schedule);
        graph.is_up(vertex)
            && graph.way_up(vertex).all(|vertex| schedule.is_free(vertex, from, to))
            && schedule.is_untouched(vertex, from, to)
            && (!graph.has_pool_types() || graph.rows_within(vertex).into_iter().all(is_idle))
    }
}

/// Moves the end of all vertices that a job holds.
fn extend(
    schedule: &mut crate::schedule::Schedule,
    graph: &crate::graph::Graph,
    job: &mut Job,
    to: i64,
) {
    let longer = Term { to, ..job.term };
    for touch in &job.touches {
        schedule.remove(job.term, touch);
        schedule.add(graph, longer, touch);
    }
    job.term = longer;
}

#[cfg(test)]
mod tests {
    use super::AGENDA_MIN;
    use crate::engine::{Engine, JobMode, MatchOp};

    const CLUSTER: &str = r#"{"graph":{"nodes":[
        {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
        {"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/c0/node0"}}},
        {"id":"2","metadata":{"type":"core","id":0,"rank":0,"paths":{"containment":"/c0/node0/core0"}}}],
        "edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}"#;
    const OPTIONS: &str =
        r#"{"load_format":"jgf","matcher_policy":"first","match_format":"rlite"}"#;
    const JOBSPEC: &str = r#"{"version":1,"resources":[{"type":"slot","count":1,"label":"s","with":[{"type":"core","count":1}]}],
        "tasks":[{"command":["a"],"slot":"s","count":{"per_slot":1}}],"attributes":{"system":{"duration":1000}}}"#;

    #[test]
    fn jobs_that_are_cancelled_long_before_their_time_leave_nothing_on_the_agendas() {
        let mut engine = Engine::new(CLUSTER, OPTIONS).expect("a graph");
        for _ in 0..1_000 {
            let ends =
                engine.match_next(MatchOp::Allocate, JOBSPEC).expect("it fits").job.expect("an id");
            let starts = engine
                .match_next(MatchOp::AllocateOrElseReserve, JOBSPEC)
                .expect("later")
                .job
                .expect("an id");
            for job in [starts, ends] {
                engine.cancel(job).expect("it is there");
            }
        }
        let longest = engine.starts.len().max(engine.ends.len());
        assert!(longest <= AGENDA_MIN + 5, "{longest} entries");
        // Entries of living jobs are handled when their time comes.
        let runs =
            engine.match_next(MatchOp::Allocate, JOBSPEC).expect("it fits").job.expect("an id");
        let next = engine
            .match_next(MatchOp::AllocateOrElseReserve, JOBSPEC)
            .expect("later")
            .job
            .expect("an id");
        for _ in 0..200 {
            let other = engine
                .match_next(MatchOp::AllocateOrElseReserve, JOBSPEC)
                .expect("later")
                .job
                .expect("an id");
            engine.cancel(other).expect("it is there");
        }
        engine.cancel(runs).expect("it is there");
        engine.set_time(1_000).expect("it is later");
        assert_eq!(engine.info(next).expect("it is there").mode, JobMode::Allocated);
    }
}
