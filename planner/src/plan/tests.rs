//! Situations and the plan for each: which requests start, hold nodes, or are blocked, and by which
//! cause.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::progress::Progress;
use super::*;
use crate::queue::{ClassId, JobId, PendingRequest, Place, QueueId};
use crate::samples::{group, pod};
use fluxqueue_machine::fluxion::{Fit, Forecast, Rank, RankSet};
use fluxqueue_machine::ledger::Change;
use fluxqueue_workload::Time;
use fluxqueue_workload::{Lifetime, Shape};

/// Defines the answers of a machine on which pods have no rules about each other, queues have no
/// limits, and no request is known not to start.
macro_rules! without_rules {
    () => {
        fn some_day(&mut self, group: &Group) -> RankSet {
            self.open(group)
        }

        fn waits_for_others(&mut self, _: &Request, _: &[RankSet], _: &Outcome) -> Option<RankSet> {
            None
        }

        fn has_held_its_time(&mut self, _: &PendingRequest, _: &Request) -> bool {
            false
        }

        fn are_allowed_together(&mut self, _: &Request, _: &[RankSet]) -> bool {
            true
        }

        fn are_allowed_together_some_day(&mut self, _: &Request) -> bool {
            true
        }

        fn limit(&mut self, _: &PendingRequest, _: &Request) -> Option<Limited> {
            None
        }

        fn out_of_reach(&mut self, _: &Group, _: &Request, _: &RankSet) -> RankSet {
            RankSet::new()
        }

        fn crowded_by(&mut self, _: &Group, _: &Request, _: &RankSet) -> RankSet {
            RankSet::new()
        }

        fn drawn_away_by(&mut self, _: &Group, _: &Request, _: &RankSet) -> RankSet {
            RankSet::new()
        }

        fn is_to_stay_undisturbed(&self, _: &Request, _: &Self::Slots) -> Option<RankSet> {
            None
        }

        fn out_of_reach_of_promises(&mut self, _: &Group) -> Vec<(RankSet, JobId)> {
            Vec::new()
        }

        fn rules_out(&self, _: &Request) -> bool {
            false
        }

        fn knows_candidates(&self) -> bool {
            false
        }

        fn next_candidate(&self, _: &Place) -> Option<(Place, ClassId)> {
            None
        }
    };
}
pub(super) use without_rules;

/// Slots of a node: free, taken by what ends some day, taken for ever.
type NodeSlots = (u64, u64, u64);

/// A situation: its description, the nodes, the requests that wait (slots, nodes), and the expected
/// decisions.
type Situation =
    (&'static str, &'static [NodeSlots], &'static [(u64, &'static str)], &'static [&'static str]);

/// A machine of equal slots.
#[derive(Clone)]
struct Machine {
    nodes: Vec<NodeSlots>,
    /// Nodes that are cordoned.
    cordoned: RankSet,
    changes: Vec<Change>,
    version: u64,
    /// The number of questions so far.
    asked: u64,
    /// The steps after which each search gives up, and those of all that did; 0: none gives up.
    gives_up_after: u64,
    in_vain: u64,
}

/// The requests that wait, by name: their number of slots, and their nodes.
struct Waiting(BTreeMap<JobId, (u64, &'static str)>);

impl Machine {
    fn of(nodes: &[NodeSlots]) -> Self {
        Machine {
            nodes: nodes.to_vec(),
            cordoned: RankSet::new(),
            changes: Vec::new(),
            version: 0,
            asked: 0,
            gives_up_after: 0,
            in_vain: 0,
        }
    }

    fn sum(&self, nodes: &[RankSet], of: impl Fn(&NodeSlots) -> u64) -> u64 {
        nodes.iter().flat_map(RankSet::iter).map(|rank| of(&self.nodes[rank as usize])).sum()
    }
}

fn count(request: &Request) -> u64 {
    request.groups.iter().flat_map(|group| &group.wants).map(|want| want.count as u64).sum()
}

impl Capacity for Machine {
    type Slots = Vec<(Rank, u64)>;

    without_rules!();

    fn steps_in_vain(&self) -> u64 {
        self.in_vain
    }

    fn version(&self, _: &Request) -> Version {
        Version { nodes: self.version, changes: self.changes.len() as u64 }
    }

    fn open(&mut self, group: &Group) -> RankSet {
        let mut open = self.lasting(group);
        open.subtract(&self.cordoned);
        open
    }

    fn lasting(&mut self, group: &Group) -> RankSet {
        let mut lasting: RankSet =
            group.sample.shape.constraints.node_selector[0].1.parse().expect("an idset");
        let mut there = RankSet::new();
        for rank in (0..).take(self.nodes.len()) {
            there.insert(rank);
        }
        lasting.intersect_with(&there);
        lasting
    }

    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots> {
        self.asked += 1;
        self.in_vain += self.gives_up_after;
        if self.gives_up_after > 0 {
            return Fit::NotFound;
        }
        let mut missing = count(request);
        if self.sum(nodes, |node| node.0) < missing {
            return Fit::NotNow;
        }
        let mut slots = Vec::new();
        for rank in nodes[0].iter() {
            let node = &mut self.nodes[rank as usize];
            let here = node.0.min(missing);
            if here > 0 {
                node.0 -= here;
                node.1 += here;
                missing -= here;
                slots.push((rank, here));
            }
        }
        Fit::Placed(slots)
    }

    fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast {
        self.asked += 1;
        let wanted = count(request);
        let fits = |of: fn(&NodeSlots) -> u64| self.sum(nodes, of) >= wanted;
        if fits(|node| node.0) {
            Forecast::Now
        } else if fits(|node| node.0 + node.1) {
            Forecast::Eventually
        } else if fits(|node| node.0 + node.1 + node.2) {
            Forecast::Blocked
        } else {
            Forecast::Never
        }
    }

    fn eligible(&mut self, _: &Request, nodes: &[RankSet]) -> RankSet {
        let mut eligible = RankSet::new();
        for rank in nodes.iter().flat_map(RankSet::iter) {
            if self.nodes[rank as usize].0 + self.nodes[rank as usize].1 > 0 {
                eligible.insert(rank);
            }
        }
        eligible
    }

    fn changed_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool {
        let then = usize::try_from(then).expect("a few");
        self.changes[then..].iter().any(|change| matters(*change))
    }

    fn fits_one(&self, _: &Request, rank: Rank) -> bool {
        self.nodes[rank as usize].0 > 0
    }

    fn fits_one_some_day(&self, _: &Request, _: Rank) -> bool {
        true
    }
}

impl Requests for Waiting {
    fn is_put_off(&self, pending: &PendingRequest) -> bool {
        self.0[&pending.job()].0 == 0
    }

    fn request(&self, pending: &PendingRequest) -> Option<Request> {
        let (slots, nodes) = self.0[&pending.job()];
        let mut sample = pod("sample", 1);
        let mut shape = Shape::clone(&sample.shape);
        shape.constraints.node_selector = vec![(Arc::from("nodes"), Arc::from(nodes))];
        sample.shape = Arc::new(shape);
        let group = group(sample, usize::try_from(slots).ok()?, Lifetime::Eventually);
        Some(Request { groups: vec![group], starts_job: true })
    }
}

/// Jobs a, b, c ... in this order: how many slots, on which nodes. Equal ones are of one class; 0
/// slots is one that is put off.
fn queue(jobs: &[(u64, &'static str)]) -> (Pending, Waiting) {
    let (mut queue, mut waiting) = (Pending::default(), BTreeMap::new());
    let mut shapes: BTreeMap<(u64, &str), Arc<Shape>> = BTreeMap::new();
    let numbers = std::iter::successors(Some(JobId::FIRST), |job| Some(job.next()));
    for ((at, job), (slots, nodes)) in (1..).zip(numbers).zip(jobs) {
        let shape = shapes
            .entry((*slots, nodes))
            .or_insert_with(|| Arc::new(Shape::clone(&pod("p", 1).shape)));
        let want = SlotKey {
            shape: Same(Arc::clone(shape)),
            walltime: Lifetime::Eventually,
            deadline: None,
            terms: Terms::default(),
            slices: Vec::new(),
            count: usize::try_from(*slots).expect("a few"),
        };
        queue.put(
            Place::new(0, Time(at), 0, PendingRequest::Start(job)),
            RequestKey { queue: QueueId::DEFAULT, counts: None, slots: vec![want] },
        );
        waiting.insert(job, (*slots, *nodes));
    }
    (queue, Waiting(waiting))
}

/// Returns the key of a job's demand.
pub(super) fn key_of(count: usize, walltime: Lifetime) -> RequestKey {
    let shape = Same(Arc::new(Shape::clone(&pod("p", 1).shape)));
    let slots = vec![SlotKey {
        shape,
        walltime,
        deadline: None,
        terms: Terms::default(),
        slices: Vec::new(),
        count,
    }];
    RequestKey { queue: QueueId::DEFAULT, counts: None, slots }
}

/// Jobs a, b, c ... in this order: how many slots, for how long. Equal ones are of one class.
pub(super) fn queue_of(jobs: &[(usize, Lifetime)]) -> Pending {
    let mut queue = Pending::default();
    let mut keys: Vec<(&(usize, Lifetime), RequestKey)> = Vec::new();
    let numbers = std::iter::successors(Some(JobId::FIRST), |job| Some(job.next()));
    for ((at, number), job) in (1..).zip(numbers).zip(jobs) {
        let known = keys.iter().find(|(known, _)| *known == job).map(|(_, key)| key.clone());
        let key = known.unwrap_or_else(|| key_of(job.0, job.1));
        keys.push((job, key.clone()));
        queue.put(Place::new(0, Time(at), 0, PendingRequest::Start(number)), key);
    }
    queue
}

pub(super) fn name(job: JobId) -> char {
    let names = ('a'..).zip(std::iter::successors(Some(JobId::FIRST), |job| Some(job.next())));
    names.into_iter().find_map(|(name, number)| (number == job).then_some(name)).expect("a few")
}

/// Plans, keeps the findings in the queue, and puts them in words.
fn walk(queue: &mut Pending, waiting: &Waiting, machine: &mut Machine) -> Vec<String> {
    let plan = plan_by_order(queue, waiting, machine, News::Anything, &mut Claims::default());
    let mut said = Vec::new();
    for decision in plan.decisions {
        match decision {
            Decision::Start { pending, slots, .. } => {
                queue.remove(&pending);
                let on: Vec<String> =
                    slots.iter().map(|(rank, here)| format!("{rank}x{here}")).collect();
                said.push(format!("{} starts on {}", name(pending.job()), on.join(" ")));
            }
            Decision::Blocked { class, pending, attempt } => {
                let who = name(pending.job());
                said.push(match &attempt.outcome {
                    Outcome::Waits { held, .. } => format!("{who} waits and holds {held}"),
                    Outcome::Behind { held, job } => {
                        format!("{who} is behind {} and holds {held}", name(*job))
                    }
                    Outcome::KeptAway { held } => format!("{who} is kept away and holds {held}"),
                    Outcome::Scattered { held } => {
                        format!("{who} has room in no domain and holds {held}")
                    }
                    Outcome::PassedOver => format!("{who} is passed over"),
                    Outcome::NodesAway => format!("{who}: nodes away"),
                    Outcome::NoNodes => format!("{who}: no nodes"),
                    Outcome::Never => format!("{who}: never"),
                    Outcome::NotFound => format!("{who}: not found"),
                    Outcome::AtLimit(_) => unreachable!("nothing is limited"),
                });
                queue.remember(class, *attempt);
            }
            Decision::Reserved { .. } | Decision::Withdrawn { .. } | Decision::PutOff { .. } => {
                unreachable!("nothing is promised")
            }
        }
    }
    for (class, standing) in plan.confirmed {
        queue.last_attempt_mut(class).expect("it was confirmed").confirm(standing);
    }
    said
}

/// First come, first served. It is left after each request: that makes no difference.
fn plan_by_order(
    queue: &Pending,
    waiting: &Waiting,
    machine: &mut Machine,
    news: News,
    held: &mut Claims,
) -> Plan<<Machine as Capacity>::Slots> {
    let mut progress = Progress::begin(in_order::heads(queue, news), news, held);
    while !progress.heads.is_empty() {
        in_order::go_on(queue, waiting, machine, &mut progress, |_| true);
    }
    *held = progress.holds;
    progress.plan
}

#[test]
fn situations() {
    // Nodes (free, taken by work with an end, taken for ever); waiting requests (slots, nodes);
    // decisions.
    let cases: &[Situation] = &[
        (
            "who fits starts, lowest node first",
            &[(2, 0, 0), (2, 0, 0)],
            &[(3, "0-1"), (1, "0-1")],
            &["a starts on 0x2 1x1", "b starts on 1x1"],
        ),
        (
            "who does not fit holds what he could use",
            &[(1, 1, 0), (1, 0, 0)],
            &[(3, "0-1"), (1, "0-1")],
            &["a waits and holds 0-1", "b is behind a and holds 0-1"],
        ),
        (
            "what he cannot use is free for others",
            &[(0, 2, 0), (1, 0, 0)],
            &[(2, "0"), (1, "1")],
            &["a waits and holds 0", "b starts on 1x1"],
        ),
        (
            "services in the way: passed over, holds nothing",
            &[(1, 0, 1)],
            &[(2, "0"), (1, "0")],
            &["a is passed over", "b starts on 0x1"],
        ),
        (
            "larger than the machine: never, holds nothing",
            &[(1, 0, 0)],
            &[(2, "0"), (1, "0")],
            &["a: never", "b starts on 0x1"],
        ),
        (
            "no node at all",
            &[(1, 0, 0)],
            &[(1, "7"), (1, "0")],
            &["a: no nodes", "b starts on 0x1"],
        ),
        (
            "one of two that are equal starts, the other waits",
            &[(2, 1, 0)],
            &[(2, "0"), (2, "0")],
            &["a starts on 0x2", "b waits and holds 0"],
        ),
        (
            "equal ones are asked for once",
            &[(0, 2, 0)],
            &[(2, "0"), (2, "0"), (2, "0")],
            &["a waits and holds 0"],
        ),
        (
            "who is put off is stepped over and holds nothing",
            &[(1, 0, 0)],
            &[(0, "0"), (1, "0")],
            &["b starts on 0x1"],
        ),
        (
            "behind the first whose nodes are in the way",
            &[(0, 1, 0), (0, 1, 0), (1, 1, 0)],
            &[(1, "0"), (1, "1"), (2, "1-2")],
            &["a waits and holds 0", "b waits and holds 1", "c waits and holds 1-2"],
        ),
    ];
    for (what, nodes, jobs, expected) in cases {
        let (mut queue, waiting) = queue(jobs);
        assert_eq!(walk(&mut queue, &waiting, &mut Machine::of(nodes)), *expected, "{what}");
    }
}

#[test]
fn cordoned_nodes_may_come_back() {
    let (mut queue, waiting) = queue(&[(1, "0")]);
    let mut machine = Machine::of(&[(1, 0, 0)]);
    machine.cordoned.insert(0);
    assert_eq!(walk(&mut queue, &waiting, &mut machine), ["a: nodes away"]);
    machine.cordoned.remove(0);
    (machine.version, machine.changes) = (1, vec![Change::Node(0)]);
    assert_eq!(walk(&mut queue, &waiting, &mut machine), ["a starts on 0x1"]);
}

/// After a first walk the machine changes: is a request that waits looked at again?
#[test]
fn a_request_is_looked_at_again_only_if_its_answer_may_be_another() {
    type Turn = fn(&mut Machine);
    let freed: Turn = |machine| {
        machine.nodes[0] = (1, 1, 0);
        machine.changes.push(Change::Freed(0));
    };
    let freed_elsewhere: Turn = |machine| machine.changes.push(Change::Freed(1));
    let service_ends: Turn = |machine| {
        machine.nodes[0] = (1, 1, 0);
        machine.changes.push(Change::FreedForGood(0));
    };
    let service_comes: Turn = |machine| machine.changes.push(Change::TakenForGood(0));
    let node_grows: Turn = |machine| machine.changes.push(Change::Node(0));
    // Slots of node 0, what waits for it, what happens, whether that matters.
    let cases: &[(NodeSlots, u64, Turn, bool)] = &[
        ((0, 2, 0), 2, freed, true),
        ((0, 2, 0), 2, freed_elsewhere, false),
        ((0, 2, 0), 2, service_comes, true),
        ((0, 2, 0), 2, node_grows, true),
        ((1, 0, 1), 2, freed, true),
        ((0, 1, 1), 2, service_ends, true),
        ((2, 0, 0), 9, freed, false),
        ((2, 0, 0), 9, service_ends, false),
        ((2, 0, 0), 9, node_grows, true),
    ];
    for (at, (slots, wanted, turn, matters)) in cases.iter().enumerate() {
        let (mut queue, waiting) = queue(&[(*wanted, "0")]);
        let mut machine = Machine::of(&[*slots, (0, 1, 0)]);
        walk(&mut queue, &waiting, &mut machine);
        let asked = machine.asked;
        assert!(
            walk(&mut queue, &waiting, &mut machine).is_empty() && machine.asked == asked,
            "case {at}: nothing changed"
        );
        turn(&mut machine);
        walk(&mut queue, &waiting, &mut machine);
        assert_eq!(machine.asked > asked, *matters, "case {at}");
    }
}

#[test]
fn nodes_that_earlier_jobs_leave_matter_only_if_there_is_room() {
    let (mut queue, waiting) = queue(&[(2, "0"), (2, "0-1")]);
    let mut machine = Machine::of(&[(0, 2, 0), (1, 1, 0)]);
    assert_eq!(
        walk(&mut queue, &waiting, &mut machine),
        ["a waits and holds 0", "b waits and holds 0-1"]
    );
    let asked = machine.asked;
    queue.remove(&PendingRequest::Start(1.into()));
    assert!(walk(&mut queue, &waiting, &mut machine).is_empty());
    assert_eq!(machine.asked, asked, "node 0 is left to b, and full");
    machine.nodes[0] = (1, 1, 0);
    machine.changes.push(Change::Freed(0));
    assert_eq!(walk(&mut queue, &waiting, &mut machine), ["b starts on 0x1 1x1"]);
}

#[test]
fn room_on_nodes_that_were_held_counts_once_they_are_left() {
    let (mut queue, waiting) = queue(&[(2, "0"), (2, "0-1")]);
    let mut machine = Machine::of(&[(1, 1, 0), (1, 1, 0)]);
    assert_eq!(
        walk(&mut queue, &waiting, &mut machine),
        ["a waits and holds 0", "b is behind a and holds 0-1"]
    );
    queue.remove(&PendingRequest::Start(1.into()));
    assert_eq!(walk(&mut queue, &waiting, &mut machine), ["b starts on 0x1 1x1"]);
}

#[test]
fn who_comes_last_is_judged_by_what_was_held_before() {
    let (mut queue, mut waiting) = queue(&[(2, "0")]);
    let mut machine = Machine::of(&[(1, 1, 0), (1, 0, 0)]);
    let mut holds = Claims::default();
    let first = plan_by_order(&queue, &waiting, &mut machine, News::Anything, &mut holds);
    for decision in first.decisions {
        if let Decision::Blocked { class, attempt, .. } = decision {
            queue.remember(class, *attempt);
        }
    }
    queue.take_arrivals();
    for (number, nodes) in [(2, "0"), (3, "1")] {
        let shape = Same(Arc::new(Shape::clone(&pod("p", 1).shape)));
        let want = SlotKey {
            shape,
            walltime: Lifetime::Eventually,
            deadline: None,
            terms: Terms::default(),
            slices: Vec::new(),
            count: 1,
        };
        let job = JobId::from(number);
        queue.put(
            Place::new(0, Time(number.cast_signed()), 0, PendingRequest::Start(job)),
            RequestKey { queue: QueueId::DEFAULT, counts: None, slots: vec![want] },
        );
        waiting.0.insert(job, (1, nodes));
    }
    assert!(is_behind(&queue, &holds));
    let next = plan_by_order(&queue, &waiting, &mut machine, News::Arrivals, &mut holds);
    let outcomes: Vec<String> = next
        .decisions
        .iter()
        .map(|decision| match decision {
            Decision::Start { pending, .. } => format!("{} starts", name(pending.job())),
            Decision::Blocked { pending, attempt, .. } => {
                format!("{} {:?}", name(pending.job()), attempt.outcome)
            }
            Decision::Reserved { .. } | Decision::Withdrawn { .. } | Decision::PutOff { .. } => {
                unreachable!("nothing is promised")
            }
        })
        .collect();
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes[0].starts_with("b Behind") && outcomes[1] == "c starts", "{outcomes:?}");
}

/// Returns how many of these jobs of one namespace a walk asks about, if each search gives up after
/// this number of steps.
fn asked_about(jobs: &[(u64, &'static str)], gives_up_after: u64) -> u64 {
    let mut machine = Machine { gives_up_after, ..Machine::of(&[(9, 0, 0); 4]) };
    let (queue, waiting) = queue(jobs);
    plan_by_order(&queue, &waiting, &mut machine, News::Anything, &mut Claims::default());
    machine.asked
}

#[test]
fn a_namespace_rests_in_a_walk_after_a_long_search_that_gave_up() {
    let gangs = [(2, "0-3"), (3, "0-3"), (4, "0-3")];
    assert_eq!(asked_about(&gangs, 20_000), 1);
    assert_eq!(asked_about(&gangs, 10), 3, "the next walk would cost more");
    assert_eq!(asked_about(&[(2, "0-3"), (3, "0-3"), (1, "0-3")], 20_000), 2, "one pod is tried");
}
