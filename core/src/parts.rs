//! The parts of the core, and the owners that each of them may change.
//!
//! [`Core`] owns the state: each of its fields is an owner. A part is the work of one folder or
//! file. It borrows the owners on which it works for one call, and cannot reach any other. It lends
//! its owners to parts that come before it (`places`), and the build fails if it lends to one that
//! comes after it, so that no circle of calls can be written. Work for a later part, or for a later
//! step of the cycle, is put on the [`Agenda`](crate::agenda::Agenda).

use crate::cycle::Core;
use crate::telling::holders::Holders;

pub(crate) use crate::binding::Binding;
pub(crate) use crate::lookahead::estimating::Estimating;
pub(crate) use crate::lookahead::projecting::Projecting;
pub(crate) use crate::members::Members;
pub(crate) use crate::nodes::Nodes;
pub(crate) use crate::notices::Notices;
pub(crate) use crate::promise_keeping::PromiseKeeping;
pub(crate) use crate::queueing::Queueing;
pub(crate) use crate::record_order::RecordOrder;
pub(crate) use crate::recording::Recording;
pub(crate) use crate::recovery::Recovery;
pub(crate) use crate::refresh::Refresh;
pub(crate) use crate::sight::Sight;
pub(crate) use crate::slots::Slots;
pub(crate) use crate::stand_ins::StandIns;
pub(crate) use crate::telling::Telling;

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
    ($from:ident, RecordOrder) => {
        lend!(@ $from, RecordOrder, [jobs records planner agenda], [settings queues])
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
        lend!(@ $from, Recording,
            [intake jobs records planner queues occupancy lookahead reporting agenda],
            [settings])
    };
    ($from:ident, Refresh) => {
        lend!(@ $from, Refresh,
            [intake jobs records planner queues occupancy lookahead reporting agenda],
            [settings])
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

/// Numbers the parts in this order, and the core after all of them.
macro_rules! places {
    ($($place:literal $part:ident)*) => {
        $(impl $part<'_> {
            const PLACE: u8 = $place;
        })*
        impl Core {
            const PLACE: u8 = u8::MAX;
        }
    };
}

places! {
    1 Queueing
    2 Notices
    3 PromiseKeeping
    4 Telling
    5 Slots
    6 RecordOrder
    7 Binding
    8 Members
    9 StandIns
    10 Recovery
    11 Estimating
    12 Recording
    13 Refresh
    14 Nodes
    15 Projecting
}

/// Defines the parts to which a part, or the core, lends its owners. The build fails if one of them
/// does not come before it.
macro_rules! lends {
    ($holder:ty => $($name:ident: $part:ident),* $(,)?) => {
        $(const _: () = assert!($part::PLACE < <$holder>::PLACE);)*

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

lends!(PromiseKeeping<'_> => queueing: Queueing);
lends!(Telling<'_> => notices: Notices);
lends!(Slots<'_> => queueing: Queueing, notices: Notices, promise_keeping: PromiseKeeping);
lends!(Binding<'_> =>
    queueing: Queueing, notices: Notices, slots: Slots, record_order: RecordOrder,
);
lends!(Members<'_> => notices: Notices, promise_keeping: PromiseKeeping, slots: Slots);
lends!(StandIns<'_> =>
    queueing: Queueing, slots: Slots, record_order: RecordOrder, binding: Binding, members: Members,
);
lends!(Recovery<'_> => slots: Slots, members: Members, stand_ins: StandIns);
lends!(Recording<'_> =>
    queueing: Queueing, notices: Notices, promise_keeping: PromiseKeeping, telling: Telling,
    slots: Slots, record_order: RecordOrder, binding: Binding, members: Members,
    estimating: Estimating,
);
lends!(Refresh<'_> =>
    queueing: Queueing, notices: Notices, promise_keeping: PromiseKeeping, telling: Telling,
    slots: Slots, binding: Binding, members: Members, stand_ins: StandIns, recovery: Recovery,
    recording: Recording,
);
lends!(Nodes<'_> => slots: Slots, binding: Binding);
lends!(Projecting<'_> => estimating: Estimating);
lends!(Core =>
    queueing: Queueing, notices: Notices, promise_keeping: PromiseKeeping, telling: Telling,
    slots: Slots, record_order: RecordOrder, binding: Binding, members: Members,
    stand_ins: StandIns, recovery: Recovery, estimating: Estimating, recording: Recording,
    refreshing: Refresh, nodes: Nodes, projecting: Projecting,
);

lend_sight!(
    PromiseKeeping<'_>,
    Slots<'_>,
    RecordOrder<'_>,
    Members<'_>,
    StandIns<'_>,
    Recovery<'_>,
    Recording<'_>,
    Refresh<'_>,
    Nodes<'_>,
    Core
);
lend_holders!(PromiseKeeping<'_>, Telling<'_>, Core);
