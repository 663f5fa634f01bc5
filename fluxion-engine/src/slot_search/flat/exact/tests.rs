//! Against every way to share out the slots.

use std::collections::BTreeSet;

use proptest::prelude::*;
use smallvec::SmallVec;

use super::problem::{Class, Problem};
use super::*;
use crate::slot_search::flat::shape::Pick;
use crate::slot_search::flat::taken::Slots;

/// Whether there is a place, by trying all.
fn fits(problem: &Problem) -> bool {
    let shapes = problem.counts.len();
    let mut ways: BTreeSet<Vec<u64>> = BTreeSet::from([vec![0; shapes]]);
    for class in &problem.classes {
        let mut here: Vec<Vec<u64>> = vec![Vec::new()];
        for shape in 0..shapes {
            let more = |slots: &Vec<u64>| {
                let slots = slots.clone();
                (0..=class.rooms[shape]).map(move |count| [slots.clone(), vec![count]].concat())
            };
            here = here.iter().flat_map(more).collect();
        }
        here.retain(|slots| problem.takes(class, slots));
        for _ in &class.rows {
            let sum = |way: &Vec<u64>, slots: &Vec<u64>| {
                let sums = way
                    .iter()
                    .zip(slots)
                    .zip(&problem.counts)
                    .map(|((a, b), most)| (a + b).min(*most));
                sums.collect::<Vec<u64>>()
            };
            ways =
                ways.iter().flat_map(|way| here.iter().map(move |slots| sum(way, slots))).collect();
        }
    }
    ways.contains(&problem.counts)
}

fn check(problem: &Problem, picks: &[Pick]) {
    let class_of =
        |row: usize| problem.classes.iter().find(|class| class.rows.contains(&row)).unwrap();
    let rows: BTreeSet<usize> = picks.iter().map(|pick| pick.row).collect();
    let mut sums = vec![0; problem.counts.len()];
    for row in rows {
        let mut slots = vec![0; problem.counts.len()];
        for pick in picks.iter().filter(|pick| pick.row == row) {
            slots[pick.shape] += pick.count;
            sums[pick.shape] += pick.count;
        }
        assert!(problem.takes(class_of(row), &slots), "row {row}: {slots:?}");
    }
    assert_eq!(sums, problem.counts);
}

/// Up to four shapes, two pools and two caps; few rows, so that it is often close.
fn problems() -> impl Strategy<Value = Problem> {
    let class = (
        prop::collection::vec(0_u64..9, 2),
        prop::collection::vec(prop::bool::weighted(0.8), 4),
        1_usize..3,
    );
    let shape =
        (1_u64..5, 0_u64..5, 0_u64..5, [prop::bool::weighted(0.4), prop::bool::weighted(0.3)]);
    let caps = [1_u64..3, 1_u64..4];
    (prop::collection::vec(shape, 2..5), caps, prop::collection::vec(class, 1..5)).prop_map(
        |(shapes, caps, classes)| {
            let mut problem = Problem {
                counts: shapes.iter().map(|shape| shape.0).collect(),
                weights: vec![
                    shapes.iter().map(|shape| shape.1).collect(),
                    shapes.iter().map(|shape| shape.2).collect(),
                    shapes.iter().map(|shape| u64::from(shape.3[0])).collect(),
                    shapes.iter().map(|shape| u64::from(shape.3[1])).collect(),
                ],
                classes: Vec::new(),
            };
            let mut rows = 0..;
            for (units, usable, count) in classes {
                let bounds: SmallVec<[u64; 8]> = units.into_iter().chain(caps).collect();
                let room =
                    |shape: usize| if usable[shape] { problem.room(shape, &bounds) } else { 0 };
                let rooms: Slots = (0..shapes.len()).map(room).collect();
                problem.classes.push(Class {
                    bounds,
                    rooms,
                    rows: rows.by_ref().take(count).collect(),
                });
            }
            problem
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn packing_finds_a_place_if_there_is_one(problem in problems()) {
        match problem.pack(&Effort::default()) {
            Outcome::Found(picks) => check(&problem, &picks),
            Outcome::Impossible => prop_assert!(!fits(&problem)),
            Outcome::GaveUp => prop_assert!(false, "so few slots are few steps"),
        }
    }

    #[test]
    fn what_flows_fits_and_what_does_not_flow_does_not(problem in problems()) {
        match problem.by_flow(&Effort::default()) {
            Outcome::Found(picks) => check(&problem, &picks),
            Outcome::Impossible => prop_assert!(!fits(&problem)),
            Outcome::GaveUp => {}
        }
        if !problem.units_flow(&Effort::default()) {
            prop_assert!(!fits(&problem));
        }
    }

    /// Caps that let no row take two slots: then flow alone always knows.
    #[test]
    fn flow_is_exact_where_a_row_takes_one_slot(mut problem in problems()) {
        problem.weights[3].fill(1);
        for class in &mut problem.classes {
            class.bounds[3] = 1;
            class.rooms.iter_mut().for_each(|room| *room = (*room).min(1));
        }
        let found = matches!(problem.by_flow(&Effort::default()), Outcome::Found(_));
        prop_assert_eq!(found, fits(&problem));
        prop_assert_ne!(problem.by_flow(&Effort::default()), Outcome::GaveUp);
    }

    /// Shapes that take the same may still have their own rows.
    #[test]
    fn flow_is_exact_where_all_take_the_same(mut problem in problems()) {
        for weights in &mut problem.weights {
            let first = weights[0].max(1);
            weights.fill(first);
        }
        for at in 0..problem.classes.len() {
            let rooms: Slots = (0..problem.counts.len())
                .map(|shape| {
                    let class = &problem.classes[at];
                    if class.rooms[shape] > 0 { problem.room(shape, &class.bounds) } else { 0 }
                })
                .collect();
            problem.classes[at].rooms = rooms;
        }
        let found = matches!(problem.by_flow(&Effort::default()), Outcome::Found(_));
        prop_assert_eq!(found, fits(&problem));
        prop_assert_ne!(problem.by_flow(&Effort::default()), Outcome::GaveUp);
    }
}

/// Many shapes and rows of many kinds: the search says that it gave up, and soon.
#[test]
fn a_long_search_is_given_up() {
    let shapes = 8;
    let weights: Vec<u64> = (0..shapes).map(|shape| 70 + 13 * shape).collect();
    let mut problem = Problem { counts: vec![20; 8], weights: vec![weights], classes: Vec::new() };
    for row in 0..40 {
        let bounds: SmallVec<[u64; 8]> = smallvec::smallvec![500 + row as u64 * 7 % 83];
        let rooms: Slots = (0..8).map(|shape| problem.room(shape, &bounds)).collect();
        problem.classes.push(Class { bounds, rooms, rows: vec![row] });
    }
    assert_eq!(problem.pack(&Effort::default()), Outcome::GaveUp);
}
