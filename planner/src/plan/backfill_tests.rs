//! Situations on a machine of whole nodes, and the plan for each: which jobs start, and which start
//! each of the others is promised.

mod timetable;

use std::collections::BTreeMap;

use super::tests::{name, queue_of};
use super::*;
use crate::queue::{JobId, PendingRequest, Place, QueueId};
use fluxqueue_machine::fluxion::Rank;
use fluxqueue_workload::Lifetime;
use fluxqueue_workload::Time;
use timetable::{Jobs, NEVER, Taken, Timetable, UNKNOWN};

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
            Decision::PutOff { pending, .. } => {
                said.push(format!("{} is put off", name(pending.job())));
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

/// The node that A was promised is taken for longer when C comes in ahead, which no number of ends
/// that are known helps.
#[test]
fn a_request_that_comes_in_ahead_and_takes_nothing_is_no_cause_of_a_delay() {
    let (mut queue, mut waiting) = jobs(&[(1, 5)]);
    let mut machine = Timetable::of(&[10, 20, UNKNOWN]);
    assert_eq!(walk(&mut queue, &waiting, &mut machine, CONSERVATIVE), ["a at 10"]);
    let (b, c) = (JobId::FIRST.next(), JobId::FIRST.next().next());
    let pending = PendingRequest::Start(c);
    queue.put(
        Place::new(7, Time(9), 0, pending.clone()),
        super::tests::key_of(3, Lifetime::Seconds(8)),
    );
    waiting.0.extend([(b, (1, 1)), (c, (3, 8))]);
    machine.ahead.insert(pending, Delay::Priority);
    machine.taken[0][0].to = 12;
    assert_eq!(
        walk(&mut queue, &waiting, &mut machine, CONSERVATIVE),
        ["a at 12, later: capacity", "c is passed by"]
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

#[test]
fn a_namespace_rests_in_a_walk_after_a_long_search_that_gave_up() {
    let (mut queue, waiting) = jobs(&[(2, 5), (3, 5), (1, 5)]);
    let mut machine = Timetable { in_vain: 1, ..Timetable::of(&[0, 0, 0, 0]) };
    walk(&mut queue, &waiting, &mut machine, EASY);
    assert_eq!(machine.in_vain, 40_001, "one gang and the lone pod are tried");
}
