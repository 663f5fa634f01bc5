//! The parts of the core, and the owners that each of them may change.
//!
//! [`Core`] owns the state: each of its fields is an owner. A part is the work of one folder or
//! file. It borrows the owners on which it works for one call, and cannot reach any other. It lends
//! its owners to parts that come before it in this file, and never to one that comes after it, so
//! that no circle of calls can be written. Work for a later part, or for a later step of the cycle,
//! is put on the [`Agenda`].

use crate::Core;
use crate::agenda::Agenda;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::registry::Jobs;
use crate::lookahead::Lookahead;
use crate::occupancy::Occupancy;
use crate::records::Records;
use crate::settings::CoreSettings;
use crate::telling::Reporting;
use crate::telling::holders::Holders;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queues::Queues;

/// The owners about which most parts ask, and which none of these questions changes.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    pub settings: &'a CoreSettings,
    pub clock: Clock,
    pub jobs: &'a Jobs,
    pub planner: &'a Planner,
    pub queues: &'a Queues,
}

/// Borrows for a part the owners that it changes, and those that it only reads.
macro_rules! lend {
    ($from:ident, Queueing) => {
        lend!(@ $from, Queueing, [jobs planner queues agenda], [settings])
    };
    ($from:ident, Notices) => {
        lend!(@ $from, Notices, [jobs agenda], [])
    };
    ($from:ident, PromiseKeeping) => {
        lend!(@ $from, PromiseKeeping, [jobs planner queues occupancy agenda], [settings intake])
    };
    ($from:ident, Telling) => {
        lend!(@ $from, Telling, [jobs planner reporting agenda], [settings queues occupancy])
    };
    ($from:ident, Slots) => {
        lend!(@ $from, Slots, [jobs records planner queues occupancy agenda], [settings intake])
    };
    ($from:ident, WriteAhead) => {
        lend!(@ $from, WriteAhead, [jobs records planner agenda], [settings queues])
    };
    ($from:ident, Binding) => {
        lend!(@ $from, Binding, [jobs records planner queues occupancy agenda], [settings intake])
    };
    ($from:ident, Members) => {
        lend!(@ $from, Members, [intake jobs records planner queues occupancy agenda], [settings])
    };
    ($from:ident, StandIns) => {
        lend!(@ $from, StandIns, [intake jobs records planner queues occupancy agenda], [settings])
    };
    ($from:ident, Recovery) => {
        lend!(@ $from, Recovery, [intake jobs records planner queues occupancy agenda], [settings])
    };
    ($from:ident, Estimating) => {
        lend!(@ $from, Estimating, [jobs lookahead agenda], [])
    };
    ($from:ident, Recording) => {
        lend!(@ $from, Recording, [intake jobs records planner queues occupancy lookahead reporting agenda], [settings])
    };
    ($from:ident, Refresh) => {
        lend!(@ $from, Refresh, [intake jobs records planner queues occupancy lookahead reporting agenda], [settings])
    };
    ($from:ident, Nodes) => {
        lend!(@ $from, Nodes, [jobs records planner queues occupancy agenda], [settings intake])
    };
    ($from:ident, Projecting) => {
        lend!(@ $from, Projecting, [jobs planner lookahead agenda], [queues occupancy])
    };
    (@ $from:ident, $part:ident, [$($changed:ident)*], [$($read:ident)*]) => {
        $part {
            clock: $from.clock,
            $($changed: &mut $from.$changed,)*
            $($read: &$from.$read,)*
        }
    };
}

/// Defines the parts to which a part, or the core, lends its owners.
macro_rules! lends {
    ($holder:ty => $($name:ident: $part:ident),* $(,)?) => {
        impl $holder {
            $(
                /// Lends the owners on which this part works.
                pub(crate) fn $name(&mut self) -> $part<'_> {
                    lend!(self, $part)
                }
            )*
        }
    };
}

/// Defines the questions that these parts can ask.
macro_rules! lend_sight {
    ($($holder:ty),*) => {
        $(impl $holder {
            /// Lends the owners about which most parts ask.
            pub(crate) fn sight(&self) -> Sight<'_> {
                Sight {
                    settings: &self.settings,
                    clock: self.clock,
                    jobs: &self.jobs,
                    planner: &self.planner,
                    queues: &self.queues,
                }
            }
        })*
    };
}

/// Defines the parts that ask which pods are on nodes.
macro_rules! lend_holders {
    ($($holder:ty),*) => {
        $(impl $holder {
            /// Lends the pods by the nodes on which they are.
            pub(crate) fn holders(&self) -> Holders<'_> {
                let (jobs, planner) = (&self.jobs, &self.planner);
                Holders { jobs, planner, occupancy: &self.occupancy }
            }
        })*
    };
}

/// Counts jobs in and out of their queues, and writes the status of queues.
pub(crate) struct Queueing<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub jobs: &'a mut Jobs,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub agenda: &'a mut Agenda,
}

/// Reports the findings of the other parts to pods and jobs, by conditions and Events.
pub(crate) struct Notices<'a> {
    pub clock: Clock,
    pub jobs: &'a mut Jobs,
    pub agenda: &'a mut Agenda,
}

/// Reports promises and their delays, restores promises after a restart, and gives them up.
pub(crate) struct PromiseKeeping<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a Intake,
    pub jobs: &'a mut Jobs,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// Finds words for the outcome of an attempt: why a request waits, and at which place.
pub(crate) struct Telling<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub jobs: &'a mut Jobs,
    pub planner: &'a mut Planner,
    pub queues: &'a Queues,
    pub occupancy: &'a Occupancy,
    pub reporting: &'a mut Reporting,
    pub agenda: &'a mut Agenda,
}

/// Gives slots to pods, plans their ends, and takes the slots back.
pub(crate) struct Slots<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// Keeps starts back until the promises that they rest on are on record.
pub(crate) struct WriteAhead<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a Queues,
    pub agenda: &'a mut Agenda,
}

/// Sends Bindings and the writes that have to come before them, and hears how they ended.
pub(crate) struct Binding<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// Takes up pods: finds the job of each, or makes one.
pub(crate) struct Members<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// Holds places for the pods of suspended Jobs, and releases the Jobs.
pub(crate) struct StandIns<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// Finds the jobs again after a restart, and joins those with an owner that is seen late.
pub(crate) struct Recovery<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// Says on record when jobs are expected to start, at a bounded rate.
pub(crate) struct Estimating<'a> {
    pub clock: Clock,
    pub jobs: &'a mut Jobs,
    pub lookahead: &'a mut Lookahead,
    pub agenda: &'a mut Agenda,
}

/// Writes FluxJobs, and takes up what they say.
pub(crate) struct Recording<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub lookahead: &'a mut Lookahead,
    pub reporting: &'a mut Reporting,
    pub agenda: &'a mut Agenda,
}

/// Looks at the jobs that have changed: which of their pods wait, and whether they have ended.
pub(crate) struct Refresh<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub lookahead: &'a mut Lookahead,
    pub reporting: &'a mut Reporting,
    pub agenda: &'a mut Agenda,
}

/// Takes up nodes as they come, change and go, with the consequences for the pods on them.
pub(crate) struct Nodes<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// Runs the plan forward on a copy, to find out when requests start.
pub(crate) struct Projecting<'a> {
    pub clock: Clock,
    pub jobs: &'a mut Jobs,
    pub planner: &'a mut Planner,
    pub queues: &'a Queues,
    pub occupancy: &'a Occupancy,
    pub lookahead: &'a mut Lookahead,
    pub agenda: &'a mut Agenda,
}

lends!(PromiseKeeping<'_> => queueing: Queueing);
lends!(Telling<'_> => notices: Notices);
lends!(Slots<'_> => queueing: Queueing, notices: Notices, promise_keeping: PromiseKeeping);
lends!(Binding<'_> => queueing: Queueing, notices: Notices, slots: Slots, write_ahead: WriteAhead);
lends!(Members<'_> => notices: Notices, promise_keeping: PromiseKeeping, slots: Slots);
lends!(StandIns<'_> => queueing: Queueing, slots: Slots, write_ahead: WriteAhead, binding: Binding, members: Members);
lends!(Recovery<'_> => slots: Slots, members: Members, stand_ins: StandIns);
lends!(Recording<'_> => queueing: Queueing, notices: Notices, promise_keeping: PromiseKeeping, telling: Telling, slots: Slots, write_ahead: WriteAhead, binding: Binding, members: Members, estimating: Estimating);
lends!(Refresh<'_> => queueing: Queueing, notices: Notices, promise_keeping: PromiseKeeping, telling: Telling, slots: Slots, binding: Binding, members: Members, stand_ins: StandIns, recovery: Recovery, recording: Recording);
lends!(Nodes<'_> => slots: Slots, binding: Binding);
lends!(Projecting<'_> => estimating: Estimating);
lends!(Core => queueing: Queueing, promise_keeping: PromiseKeeping, telling: Telling, slots: Slots, write_ahead: WriteAhead, binding: Binding, members: Members, stand_ins: StandIns, recovery: Recovery, estimating: Estimating, recording: Recording, refreshing: Refresh, nodes: Nodes, projecting: Projecting);

lend_sight!(
    PromiseKeeping<'_>,
    Slots<'_>,
    WriteAhead<'_>,
    Members<'_>,
    StandIns<'_>,
    Recovery<'_>,
    Recording<'_>,
    Refresh<'_>,
    Nodes<'_>,
    Core
);
lend_holders!(PromiseKeeping<'_>, Telling<'_>, Core);
