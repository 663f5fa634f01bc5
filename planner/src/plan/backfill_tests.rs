//! Situations on a machine of whole nodes, and the plan for each: which jobs start, and which start
//! each of the others is promised.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tests::{name, queue_of, without_rules};
use super::*;
use crate::queue::{ClassId, JobId, PendingRequest, Place, QueueId};
use fluxqueue_machine::cluster::{Company, Stance};
use fluxqueue_machine::fluxion::{Fit, Forecast, Rank, RankSet, Tenancy};
use fluxqueue_machine::ledger::{Change, SlotRequest};
use fluxqueue_workload::Lifetime;
use fluxqueue_workload::Time;

/// A second that stands for an unknown end.
const UNKNOWN: i64 = i64::MAX - 1;
/// What never ends.
const NEVER: i64 = i64::MAX;

/// A machine of whole nodes: for each node, its bookings with their first and last second.
#[derive(Clone, Default)]
struct Timetable {
    now: i64,
    /// Per node.
    taken: Vec<Vec<Taken>>,
    promises: BTreeMap<PendingRequest, (Reserved, Vec<Rank>)>,
    passed_by: BTreeMap<PendingRequest, bool>,
    ahead: BTreeMap<PendingRequest, Delay>,
    changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq)]
struct Taken {
    from: i64,
    to: i64,
    by: Option<PendingRequest>,
}

/// The jobs that wait, each with its number of nodes and its seconds.
struct Jobs(BTreeMap<JobId, (usize, u64)>);

impl Timetable {
    /// Nodes that are taken until then; 0: free.
    fn of(until: &[i64]) -> Self {
        let taken = |to: &i64| {
            if *to > 0 { vec![Taken { from: 0, to: *to, by: None }] } else { Vec::new() }
        };
        Timetable { taken: until.iter().map(taken).collect(), ..Timetable::default() }
    }

    fn is_free(&self, rank: Rank, from: i64, seconds: i64) -> bool {
        let to = from.saturating_add(seconds);
        self.taken[rank as usize].iter().all(|taken| taken.to <= from || to <= taken.from)
    }

    fn fit(&self, nodes: &RankSet, count: usize, from: i64, seconds: i64) -> Option<Vec<Rank>> {
        let free: Vec<Rank> =
            nodes.iter().filter(|rank| self.is_free(*rank, from, seconds)).take(count).collect();
        (free.len() == count).then_some(free)
    }

    fn soonest(&self, nodes: &RankSet, (count, seconds): (usize, i64)) -> Option<(i64, Vec<Rank>)> {
        let mut ends: Vec<i64> =
            self.taken.iter().flatten().map(|taken| taken.to).filter(|to| *to < UNKNOWN).collect();
        ends.push(self.now);
        ends.sort_unstable();
        let mut ends = ends.into_iter().filter(|at| *at >= self.now);
        ends.find_map(|at| Some((at, self.fit(nodes, count, at, seconds)?)))
    }

    fn take(&mut self, ranks: &[Rank], from: i64, seconds: i64, by: Option<&PendingRequest>) {
        for rank in ranks {
            self.taken[*rank as usize].push(Taken {
                from,
                to: from.saturating_add(seconds),
                by: by.cloned(),
            });
        }
    }

    /// Ends the bookings of this node that have begun.
    fn end(&mut self, rank: Rank) {
        self.taken[rank as usize].retain(|taken| taken.from > self.now);
        self.changes.push(Change::Freed(rank));
    }
}

fn wish(request: &Request) -> (usize, i64) {
    let seconds = match request.groups[0].lifetime {
        Lifetime::Seconds(seconds) => i64::try_from(seconds).unwrap(),
        Lifetime::Eventually => UNKNOWN,
        Lifetime::Endless => NEVER,
    };
    (request.groups[0].wants[0].count, seconds)
}

impl Capacity for Timetable {
    type Slots = Vec<Rank>;

    without_rules!();

    fn version(&self, _: &Request) -> Version {
        Version { nodes: 0, changes: self.changes.len() as u64 }
    }

    fn open(&mut self, _: &Group) -> RankSet {
        (0..).take(self.taken.len()).collect()
    }

    fn lasting(&mut self, group: &Group) -> RankSet {
        self.open(group)
    }

    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots> {
        let (count, seconds) = wish(request);
        let Some(ranks) = self.fit(&nodes[0], count, self.now, seconds) else { return Fit::NotNow };
        self.take(&ranks, self.now, seconds, None);
        Fit::Placed(ranks)
    }

    fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast {
        let wish = wish(request);
        let could = |below: i64| {
            let free =
                |rank: &Rank| self.taken[*rank as usize].iter().all(|taken| taken.to < below);
            nodes[0].iter().filter(free).count() >= wish.0
        };
        match self.soonest(&nodes[0], wish) {
            Some((at, _)) if at <= self.now => Forecast::Now,
            Some((at, _)) => Forecast::At(at),
            None if could(NEVER) => Forecast::Eventually,
            None if nodes[0].len() >= wish.0 => Forecast::Blocked,
            None => Forecast::Never,
        }
    }

    fn eligible(&mut self, _: &Request, nodes: &[RankSet]) -> RankSet {
        let lasts = |rank: &Rank| self.taken[*rank as usize].iter().any(|taken| taken.to == NEVER);
        nodes[0].iter().filter(|rank| !lasts(rank)).collect()
    }

    fn changed_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool {
        self.changes[usize::try_from(then).unwrap()..].iter().any(|change| matters(*change))
    }

    fn fits_one(&self, _: &Request, rank: Rank) -> bool {
        self.is_free(rank, self.now, 1)
    }

    fn fits_one_some_day(&self, _: &Request, _: Rank) -> bool {
        true
    }
}

impl Promising for Timetable {
    fn inherit_patience(&mut self, _: &PendingRequest, _: QueueId) {}

    fn may_be_passed_by(&self, pending: &PendingRequest) -> bool {
        self.passed_by.get(pending).copied().unwrap_or(true)
    }

    fn displaces(&self, pending: &PendingRequest) -> Option<Delay> {
        self.ahead.get(pending).copied()
    }

    fn promised(&self) -> Vec<PendingRequest> {
        self.promises.keys().chain(self.passed_by.keys()).cloned().collect()
    }

    fn reserved(&self, pending: &PendingRequest) -> Option<Reserved> {
        self.promises.get(pending).map(|(reserved, _)| *reserved)
    }

    fn reserve(
        &mut self,
        (pending, class): (&PendingRequest, ClassId),
        request: &Request,
        nodes: &[RankSet],
        not_before: Option<i64>,
    ) -> Booking<Self::Slots> {
        let (count, seconds) = wish(request);
        let at_once =
            not_before.and_then(|at| Some((at, self.fit(&nodes[0], count, at, seconds)?)));
        let Some((at, ranks)) = at_once.or_else(|| self.soonest(&nodes[0], (count, seconds)))
        else {
            return Booking::Never;
        };
        self.take(&ranks, at, seconds, Some(pending));
        if at <= self.now {
            return Booking::Now(ranks);
        }
        self.promises.insert(pending.clone(), (Reserved { start: at, class }, ranks));
        Booking::At(at)
    }

    fn remake(
        &mut self,
        pending: &PendingRequest,
        _: Option<(ClassId, Request)>,
        left_of: &dyn Fn(&RankSet) -> RankSet,
    ) -> Remade<Self::Slots> {
        let (before, was) = self.promises.remove(pending).expect("it has one");
        let is_own = |taken: &Taken| taken.by.as_ref() == Some(pending);
        let own = self
            .taken
            .iter()
            .flatten()
            .find(|taken| is_own(taken))
            .expect("it has its place")
            .clone();
        self.taken.iter_mut().for_each(|taken| taken.retain(|taken| !is_own(taken)));
        let nodes = left_of(&(0..).take(self.taken.len()).collect());
        let wish = (was.len(), own.to - own.from);
        let was_kept = Kept { start: before.start, nodes: was.iter().copied().collect() };
        let late = Late { cause: Delay::Walltime, was: was_kept, by: None };
        let Some((at, ranks)) = self.soonest(&nodes, wish) else { return Remade::Lost(late) };
        self.take(&ranks, at, wish.1, Some(pending));
        let moved = (at, &ranks) != (before.start, &was);
        if moved {
            self.changes.extend(was.iter().map(|rank| Change::Freed(*rank)));
        }
        if at <= self.now {
            return Remade::Starts(ranks);
        }
        self.promises.insert(pending.clone(), (Reserved { start: at, ..before }, ranks));
        Remade::Kept { start: at, later: (at > before.start).then_some(late), moved }
    }

    fn take_lost(&mut self, _: &PendingRequest) -> Option<Late> {
        None
    }

    fn withdraw(&mut self, pending: &PendingRequest) -> Option<Kept> {
        let (reserved, ranks) = self.promises.remove(pending)?;
        self.taken
            .iter_mut()
            .for_each(|taken| taken.retain(|taken| taken.by.as_ref() != Some(pending)));
        Some(Kept { start: reserved.start, nodes: ranks.into_iter().collect() })
    }

    fn let_go(&mut self, _: &PendingRequest) {}

    fn drain(&mut self, _: &PendingRequest, request: &Request, nodes: &[RankSet]) -> Arc<RankSet> {
        let eligible = self.eligible(request, nodes);
        Arc::new(eligible.iter().take(wish(request).0).collect())
    }
}

impl Requests for Jobs {
    fn is_put_off(&self, _: &PendingRequest) -> bool {
        false
    }

    fn request(&self, pending: &PendingRequest) -> Option<Request> {
        let (count, seconds) = self.0[&pending.job()];
        let sample = Arc::new(crate::samples::pod("sample", 1));
        let lifetime = if seconds == 0 { Lifetime::Eventually } else { Lifetime::Seconds(seconds) };
        let wants = vec![SlotRequest::new(Arc::clone(&sample.shape), count)];
        let (pods, stance, company) = (Vec::new(), Stance::default(), Company::Together);
        let group = Group {
            wants,
            pods,
            lifetime,
            lifetime_later: None,
            sample,
            stance,
            company,
            queue: QueueId::DEFAULT,
            volumes: None,
            levels: None,
            tenancy: Tenancy::Shared,
            queue_nodes: None,
        };
        Some(Request { groups: vec![group], starts_job: true })
    }
}

/// Makes the queue of these jobs, each with its number of nodes and its seconds; 0 stands for an
/// unknown end.
fn jobs(jobs: &[(usize, u64)]) -> (Pending, Jobs) {
    let keys: Vec<(usize, Lifetime)> =
        jobs.iter().map(|(count, secs)| (*count, Lifetime::Seconds(*secs))).collect();
    let numbers = std::iter::successors(Some(JobId::FIRST), |job| Some(job.next()));
    (queue_of(&keys), Jobs(numbers.zip(jobs.iter().copied()).collect()))
}

const EASY: Depths = Depths { reservations: 1, queue: 1_000, is_strict: false, in_order: false };
const HYBRID_2: Depths = Depths { reservations: 2, ..EASY };
const CONSERVATIVE: Depths = Depths { reservations: usize::MAX, ..EASY };

/// Plans, keeps the findings in the queue, and puts the decisions in words; blocked requests are
/// left out.
fn walk(queue: &mut Pending, jobs: &Jobs, machine: &mut Timetable, depths: Depths) -> Vec<String> {
    walk_by(queue, jobs, machine, &[depths])
}

/// The same with several queues, each by its own depths.
fn walk_by(
    queue: &mut Pending,
    jobs: &Jobs,
    machine: &mut Timetable,
    depths: &[Depths],
) -> Vec<String> {
    let (policies, mut held) = (Policies::PerQueue(depths.to_vec()), Claims::default());
    let mut walking = Walking::begin(&policies, queue, machine, News::Anything, &mut held);
    // It is left after each request: that makes no difference.
    while !walking.go_on(&policies, queue, jobs, machine, |_| true) {}
    let plan = walking.end(&mut held);
    let mut said = Vec::new();
    for decision in plan.decisions {
        match decision {
            Decision::Start { pending, slots, .. } => {
                queue.remove(&pending);
                machine.promises.remove(&pending);
                let on: Vec<String> = slots.iter().map(Rank::to_string).collect();
                said.push(format!("{} starts on {}", name(pending.job()), on.join(" ")));
            }
            Decision::Blocked { class, attempt, .. } => queue.remember(class, *attempt),
            Decision::Reserved { pending, start, later } => {
                let later = later
                    .map_or_else(String::new, |late| format!(", later: {}", late.cause.as_str()));
                said.push(format!("{} at {start}{later}", name(pending.job())));
            }
            Decision::Withdrawn { pending, later } => {
                said.push(format!("{} withdrawn {later:?}", name(pending.job())));
            }
        }
    }
    for (class, standing) in plan.confirmed {
        queue.last_attempt_mut(class).expect("it was confirmed").confirm(standing);
    }
    for first in plan.first_undated {
        said.push(format!("{} is passed by", name(first.job())));
        machine.passed_by.entry(first).or_insert(true);
    }
    said
}

/// A situation: its description, the depths, until when each node is taken, the jobs that wait
/// (nodes, seconds), and the expected decisions.
type Situation =
    (&'static str, Depths, &'static [i64], &'static [(usize, u64)], &'static [&'static str]);

#[test]
fn situations() {
    let cases: &[Situation] = &[
        ("the first who waits is promised a start", EASY, &[10, 4], &[(2, 5)], &["a at 10"]),
        (
            "in the gap before it others start",
            EASY,
            &[10, 0],
            &[(2, 5), (1, 10)],
            &["a at 10", "b starts on 1"],
        ),
        ("who would delay it does not", EASY, &[10, 0], &[(2, 5), (1, 11)], &["a at 10"]),
        (
            "beside it whoever has room",
            EASY,
            &[10, 10, 0],
            &[(2, 5), (1, 99)],
            &["a at 10", "b starts on 2"],
        ),
        (
            "one of whom nobody knows the end is beside it too",
            EASY,
            &[10, 10, 0],
            &[(2, 5), (1, 0)],
            &["a at 10", "b starts on 2"],
        ),
        ("easy promises to one only", EASY, &[10, 4], &[(2, 5), (1, 6)], &["a at 10"]),
        (
            "hybrid to so many",
            HYBRID_2,
            &[10, 4],
            &[(2, 5), (1, 6), (1, 7)],
            &["a at 10", "b at 4"],
        ),
        (
            "conservative to all",
            CONSERVATIVE,
            &[10, 4],
            &[(2, 5), (1, 6), (1, 7)],
            &["a at 10", "b at 4", "c at 15"],
        ),
        (
            "equal ones each",
            CONSERVATIVE,
            &[10],
            &[(1, 5), (1, 5), (1, 5)],
            &["a at 10", "b at 15", "c at 20"],
        ),
        (
            "work without a known end gives no date",
            EASY,
            &[UNKNOWN, 0],
            &[(2, 5), (1, 99)],
            &["b starts on 1", "a is passed by"],
        ),
        (
            "the promise goes to the first who has a date",
            EASY,
            &[UNKNOWN, 10],
            &[(2, 5), (1, 7), (1, 3)],
            &["b at 10", "a is passed by"],
        ),
        ("services in the way: passed over", EASY, &[NEVER, 10], &[(2, 5), (1, 7)], &["b at 10"]),
    ];
    for (what, depths, until, waiting, expected) in cases {
        let (mut queue, waiting) = jobs(waiting);
        assert_eq!(
            walk(&mut queue, &waiting, &mut Timetable::of(until), *depths),
            *expected,
            "{what}"
        );
    }
}

/// Two nodes, of which one is taken until 10 and one until 4. Made from nothing at 3, A would take
/// 4, and B be sent from 4 to 9.
#[test]
fn a_reservation_only_moves_earlier() {
    let (mut queue, waiting) = jobs(&[(2, 5), (1, 6)]);
    let mut machine = Timetable::of(&[10, 4]);
    assert_eq!(walk(&mut queue, &waiting, &mut machine, CONSERVATIVE), ["a at 10", "b at 4"]);
    machine.now = 3;
    machine.end(0);
    assert_eq!(walk(&mut queue, &waiting, &mut machine, CONSERVATIVE), ["b starts on 0"]);
    assert_eq!(walk(&mut queue, &waiting, &mut machine, CONSERVATIVE), ["a at 9"]);
}

#[test]
fn higher_priority_goes_ahead_and_delays_only_who_is_in_the_way() {
    let (mut queue, mut waiting) = jobs(&[(1, 5), (1, 7)]);
    let mut machine = Timetable::of(&[10, 20]);
    assert_eq!(walk(&mut queue, &waiting, &mut machine, CONSERVATIVE), ["a at 10", "b at 15"]);
    let third = JobId::FIRST.next().next();
    let pending = PendingRequest::Start(third);
    queue.put(
        Place::new(7, Time(9), 0, pending.clone()),
        super::tests::key_of(1, Lifetime::Seconds(8)),
    );
    waiting.0.insert(third, (1, 8));
    // A request that was kept out for a time goes around all reservations.
    let mut around = machine.clone();
    assert_eq!(walk(&mut queue, &waiting, &mut around, CONSERVATIVE), ["c at 20"]);
    machine.ahead.insert(pending, Delay::Priority);
    assert_eq!(
        walk(&mut queue, &waiting, &mut machine, CONSERVATIVE),
        ["a at 18, later: priority", "b at 20, later: priority", "c at 10"]
    );
}

#[test]
fn who_was_passed_by_for_long_enough_holds_what_he_needs_and_no_more() {
    let (mut queue, waiting) = jobs(&[(2, 5), (1, 4), (1, 4)]);
    let mut machine = Timetable::of(&[UNKNOWN, 0, 0, NEVER]);
    machine.taken[2].push(Taken { from: 0, to: UNKNOWN, by: None });
    let mut patient = machine.clone();
    let expected = ["b starts on 1", "c at 4", "a is passed by"];
    assert_eq!(walk(&mut queue, &waiting, &mut patient, EASY), expected);
    let (mut queue, waiting) = jobs(&[(2, 5), (1, 4), (1, 4)]);
    machine.passed_by.insert(PendingRequest::Start(JobId::FIRST), false);
    assert_eq!(
        walk(&mut queue, &waiting, &mut machine.clone(), EASY),
        ["a is passed by"],
        "it holds nodes 0 and 1"
    );
    // A node more than it needs is for others.
    let (mut queue, waiting) = jobs(&[(2, 5), (1, 4), (1, 4)]);
    machine.taken.push(Vec::new());
    machine.taken[1].push(Taken { from: 0, to: UNKNOWN, by: None });
    assert_eq!(
        walk(&mut queue, &waiting, &mut machine, EASY),
        ["b starts on 4", "c at 4", "a is passed by"]
    );
}

const FCFS: Depths = Depths { in_order: true, ..EASY };

/// A job in a queue: the queue's number and priority, its number of nodes, and its seconds.
type InQueue = (u32, i32, usize, u64);

/// Jobs a, b, c ... that came in this order.
fn jobs_in(jobs: &[InQueue]) -> (Pending, Jobs) {
    let (mut pending, mut asks) = (Pending::default(), BTreeMap::new());
    let mut keys: BTreeMap<InQueue, RequestKey> = BTreeMap::new();
    let numbers = std::iter::successors(Some(JobId::FIRST), |job| Some(job.next()));
    for ((at, number), job) in (1..).zip(numbers).zip(jobs) {
        let (queue, priority, count, seconds) = *job;
        let id = (0..queue).fold(QueueId::DEFAULT, |id, _| id.next());
        let new =
            || RequestKey { queue: id, ..super::tests::key_of(count, Lifetime::Seconds(seconds)) };
        let key = keys.entry(*job).or_insert_with(new).clone();
        let place =
            Place::new(0, Time(at), 0, PendingRequest::Start(number)).in_queue(id, priority);
        pending.put(place, key);
        asks.insert(number, (count, seconds));
    }
    (pending, Jobs(asks))
}

#[test]
fn several_queues_share_one_timeline() {
    /// A situation of several queues: its description, each queue's depths, until when each node is
    /// taken, the jobs that wait, and the expected decisions.
    type Several = (
        &'static str,
        &'static [Depths],
        &'static [i64],
        &'static [InQueue],
        &'static [&'static str],
    );
    let cases: &[Several] = &[
        (
            "equal queues are merged by age",
            &[EASY, EASY],
            &[0],
            &[(1, 0, 1, 5), (0, 0, 1, 5)],
            &["a starts on 0", "b at 5"],
        ),
        (
            "the queue of higher priority goes first",
            &[EASY, EASY],
            &[0],
            &[(0, 0, 1, 5), (1, 9, 1, 5)],
            &["b starts on 0", "a at 5"],
        ),
        (
            "each queue promises to its own first",
            &[EASY, EASY],
            &[10, 4],
            &[(0, 0, 2, 5), (1, 0, 1, 6), (0, 0, 1, 7), (1, 0, 1, 9)],
            &["a at 10", "b at 4"],
        ),
        (
            "a reservation of one is respected by all",
            &[EASY, EASY],
            &[10, 0],
            &[(0, 0, 2, 5), (1, 0, 1, 11), (1, 0, 1, 10)],
            &["a at 10", "b at 15", "c starts on 1"],
        ),
        (
            "nobody of a queue in order starts behind one who waits there, and others do",
            &[EASY, FCFS],
            &[10, 0],
            &[(1, 0, 2, 5), (1, 0, 1, 3), (0, 0, 1, 10)],
            &["a at 10", "c starts on 1"],
        ),
        (
            "its head holds a reservation against the others",
            &[EASY, FCFS],
            &[10, 0],
            &[(1, 0, 2, 5), (0, 0, 1, 11)],
            &["a at 10", "b at 15"],
        ),
        (
            "who waits for what nobody knows the end of keeps his queue in order, too",
            &[EASY, FCFS],
            &[UNKNOWN, 0],
            &[(1, 0, 2, 5), (1, 0, 1, 3), (0, 0, 1, 99)],
            &["c starts on 1", "a is passed by"],
        ),
        (
            "who can never start keeps nobody",
            &[EASY, FCFS],
            &[0],
            &[(1, 0, 2, 5), (1, 0, 1, 3)],
            &["b starts on 0"],
        ),
        (
            "equal ones in order are one behind the other",
            &[FCFS, FCFS],
            &[4],
            &[(1, 0, 1, 5), (1, 0, 1, 5), (0, 0, 1, 5)],
            &["a at 4", "c at 9"],
        ),
    ];
    for (what, depths, until, waiting, expected) in cases {
        let (mut queue, waiting) = jobs_in(waiting);
        let mut machine = Timetable::of(until);
        assert_eq!(walk_by(&mut queue, &waiting, &mut machine, depths), *expected, "{what}");
        let promised: Vec<_> =
            machine.promises.values().map(|(reserved, _)| reserved.start).collect();
        assert!(
            walk_by(&mut queue, &waiting, &mut machine, depths)
                .iter()
                .all(|said| said.ends_with("passed by"))
        );
        assert_eq!(
            machine.promises.values().map(|(reserved, _)| reserved.start).collect::<Vec<_>>(),
            promised,
            "{what}"
        );
    }
}

/// In a queue in order A is promised a start at 10. Then B comes to be ahead of it, at this
/// priority.
fn one_comes_ahead_in_order(priority: i32) -> (Pending, Jobs, Timetable, PendingRequest) {
    let (mut queue, mut waiting) = jobs_in(&[(1, 0, 1, 5)]);
    let mut machine = Timetable::of(&[10, 20]);
    assert_eq!(walk_by(&mut queue, &waiting, &mut machine, &[EASY, FCFS]), ["a at 10"]);
    let second = JobId::FIRST.next();
    let pending = PendingRequest::Start(second);
    let place =
        Place::new(priority, Time(0), 0, pending.clone()).in_queue(QueueId::DEFAULT.next(), 0);
    let key = RequestKey {
        queue: QueueId::DEFAULT.next(),
        ..super::tests::key_of(2, Lifetime::Seconds(8))
    };
    queue.put(place, key);
    waiting.0.insert(second, (2, 8));
    (queue, waiting, machine, pending)
}

#[test]
fn what_was_promised_in_a_queue_in_order_stands_when_one_is_ahead_who_may_not_displace_it() {
    let (mut queue, waiting, mut machine, pending) = one_comes_ahead_in_order(0);
    // The job has the same priority, and came in earlier: its pod was replaced, or one of its gates
    // removed.
    for cause in [None, Some(Delay::Priority)] {
        machine.ahead.extend(cause.map(|cause| (pending.clone(), cause)));
        let said = walk_by(&mut queue, &waiting, &mut machine, &[EASY, FCFS]);
        assert!(said.iter().all(|said| said == "b at 20"), "{said:?}");
        assert_eq!(machine.promises[&PendingRequest::Start(JobId::FIRST)].0.start, 10);
    }
}

#[test]
fn who_comes_to_be_behind_in_a_queue_in_order_keeps_no_reservation() {
    let (mut queue, waiting, mut machine, pending) = one_comes_ahead_in_order(7);
    machine.ahead.insert(pending, Delay::Priority);
    let said = walk_by(&mut queue, &waiting, &mut machine, &[EASY, FCFS]);
    assert!(said.iter().any(|said| said == "b at 20"), "{said:?}");
    assert!(
        said.iter().any(|said| said.starts_with("a withdrawn") && said.contains("Priority")),
        "{said:?}"
    );
}
