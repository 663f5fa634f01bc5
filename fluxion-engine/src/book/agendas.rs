//! When jobs are to be looked at: the starts of reservations, and the ends of jobs that hold
//! vertices.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::job::{Job, JobMode};
use super::jobs::Jobs;

/// Entries that an agenda may have before it is rebuilt.
const AGENDA_MIN: usize = 64;

/// Instants with jobs, which may have gone or changed since.
type Agenda = BinaryHeap<Reverse<(i64, u64)>>;

/// The agendas of a book.
#[derive(Debug, Clone, Default)]
pub(super) struct Agendas {
    starts: Agenda,
    ends: Agenda,
}

impl Agendas {
    /// Notes when a job has to be looked at.
    pub(super) fn add(&mut self, id: u64, job: &Job) {
        if job.info.mode == JobMode::Reserved {
            self.starts.push(Reverse((job.info.at, id)));
        } else if !job.claims.vertices().is_empty() {
            self.add_end(id, job.term.to);
        }
    }

    /// Notes when a job ends that holds vertices.
    pub(super) fn add_end(&mut self, id: u64, at: i64) {
        self.ends.push(Reverse((at, id)));
    }

    /// Entries of the longer agenda.
    pub(super) fn longest(&self) -> usize {
        self.starts.len().max(self.ends.len())
    }

    /// Rebuilds the agendas where most of their entries are of jobs that have gone or changed
    /// since: they are never longer than twice the jobs, and [`AGENDA_MIN`] entries.
    pub(super) fn forget_stale_entries(&mut self, jobs: &Jobs) {
        if self.longest() > 2 * jobs.len() + AGENDA_MIN {
            *self = Agendas::default();
            for (id, job) in jobs.iter() {
                self.add(id, job);
            }
        }
    }

    /// Takes out a start that has come by an instant.
    pub(super) fn next_start(&mut self, now: i64) -> Option<(i64, u64)> {
        next(&mut self.starts, now)
    }

    /// Takes out an end that has come by an instant.
    pub(super) fn next_end(&mut self, now: i64) -> Option<(i64, u64)> {
        next(&mut self.ends, now)
    }
}

fn next(agenda: &mut Agenda, now: i64) -> Option<(i64, u64)> {
    let Reverse((at, _)) = agenda.peek()?;
    if *at > now { None } else { agenda.pop().map(|Reverse(entry)| entry) }
}
