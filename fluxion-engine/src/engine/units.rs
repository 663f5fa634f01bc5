//! Slots of pool units that an R names (`attributes.system.fluxion.slots`), to be taken up again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::amounts::amount_of;
use crate::book::Book;
use crate::graph::Graph;
use crate::limits::{NAME_BYTES_MAX, SLOT_PLACES_MAX};
use crate::pools::{Amounts, COUNT_MAX, SlotShape, Slots, Tenancy};
use crate::readers::r;
use crate::readers::slots::{EndText, PlacesText, SlotsText};
use crate::time::{End, When};
use crate::vertex::{TypeId, VertexId};
use crate::{Error, Reason};

/// Pools of which a job has units, and how many.
pub(super) type PoolUnits = Vec<(VertexId, u64)>;

/// The slots of an R that begin at second `at`.
pub(super) fn read(book: &Book, text: &str, at: i64) -> Result<Vec<Slots>, Error> {
    let (mut all, mut places) = (Vec::new(), 0);
    for (nth, text) in crate::readers::slots::read(text)?.into_iter().enumerate() {
        let what = format!("R: attributes.system.fluxion.slots[{nth}]");
        all.push(of_shape(book, &text, at, &what, &mut places)?);
    }
    Ok(all)
}

fn of_shape(
    book: &Book,
    text: &SlotsText<'_>,
    at: i64,
    what: &str,
    places: &mut usize,
) -> Result<Slots, Error> {
    let wrong = |more: &str| Error::invalid(format!("{what}{more}"));
    let tenancy = Tenancy::of(text.tenant, text.guest)
        .ok_or_else(|| wrong(": tenant and guest exclude each other"))?;
    NAME_BYTES_MAX.check(text.label.len(), format_args!("{what}.label"))?;
    let EndText(end) = text.end;
    if end.instant() <= at {
        return Err(wrong(".end: not after the start"));
    }
    let mut needs = Amounts::new();
    for (kind, amount) in &text.with.0 {
        let known = book.graph().types().get(kind);
        let kind = known.ok_or_else(|| wrong(&format!(".with: there is no type {kind}")))?;
        if *amount == 0 {
            return Err(wrong(".with: 0 units"));
        }
        needs.push((kind, *amount));
    }
    needs.sort_unstable();
    if needs.is_empty() {
        return Err(wrong(".with: no units"));
    }
    let mut on: Vec<(u32, u64)> = Vec::new();
    for place in &text.on {
        ranks(book.graph(), place, (what, needs.len()), places, &mut on)?;
    }
    on.sort_unstable();
    if let Some(pair) = on.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(wrong(&format!(".on: rank {}: is named twice", pair[0].0)));
    }
    if on.is_empty() {
        return Err(wrong(".on: no ranks"));
    }
    let shape = SlotShape { label: (&*text.label).into(), needs, tenancy };
    Ok(Slots::new(Arc::new(shape), (at, end), at > book.now(), on))
}

fn ranks(
    graph: &Graph,
    place: &PlacesText<'_>,
    (what, kinds): (&str, usize),
    places: &mut usize,
    on: &mut Vec<(u32, u64)>,
) -> Result<(), Error> {
    if place.per_rank == 0 || place.per_rank > COUNT_MAX {
        return Err(Error::invalid(format!("{what}.on: per_rank: not from 1 to {COUNT_MAX}")));
    }
    for (first, last) in r::ranges(&place.ranks, &format!("{what}.on: ranks"))? {
        let more = ((last - first) as usize).saturating_add(1).saturating_mul(kinds);
        *places = places.saturating_add(more);
        SLOT_PLACES_MAX.check(*places, what)?;
        for rank in first..=last {
            if graph.pools.position(rank).is_none() {
                let text = format!("{what}.on: rank {rank}: there is no such node");
                return Err(Error { reason: Reason::NotFound, text });
            }
            on.push((rank, place.per_rank));
        }
    }
    Ok(())
}

/// The types of which slots have units, by rank.
pub(super) fn kinds_by_rank(slots: &[Slots]) -> HashMap<u32, Vec<TypeId>> {
    let mut kinds: HashMap<u32, Vec<TypeId>> = HashMap::new();
    for of_shape in slots {
        for (rank, _) in of_shape.on() {
            let needs = of_shape.shape.needs.iter();
            kinds.entry(*rank).or_default().extend(needs.map(|(kind, _)| *kind));
        }
    }
    kinds
}

/// The units that slots take of nodes.
pub(super) fn of_nodes(graph: &Graph, slots: &[Slots]) -> Vec<(VertexId, TypeId, u64)> {
    let mut units = Vec::new();
    for (row, of_shape, count) in rows(graph, slots) {
        let node = graph.pools.vertices()[row];
        let needs = of_shape.shape.needs.iter();
        units.extend(needs.map(|(kind, amount)| (node, *kind, amount.saturating_mul(count))));
    }
    units
}

/// The slots that stand for the units of a document that names none: on each node one without a
/// label, of all units that are listed there. Whole pools of a vertex that the job has for itself
/// go with it.
pub(super) fn of_document(
    graph: &Graph,
    units: &[(VertexId, u64)],
    vertices: &[(VertexId, bool)],
    times: (i64, End),
    planned: bool,
) -> Result<Vec<Slots>, Error> {
    let is_covered = below_own(graph, vertices);
    let mut by_needs: BTreeMap<Amounts, Vec<(u32, u64)>> = BTreeMap::new();
    let is_own =
        |(pool, amount): &&(VertexId, u64)| *amount < graph.size(*pool) || !is_covered(*pool);
    for (rank, needs) in by_rank(graph, units.iter().filter(is_own))? {
        by_needs.entry(needs).or_default().push((rank, 1));
    }
    let slots = by_needs.into_iter().map(|(needs, on)| {
        let shape = SlotShape { label: Box::default(), needs, tenancy: Tenancy::Shared };
        Slots::new(Arc::new(shape), times, planned, on)
    });
    Ok(slots.collect())
}

/// Whether a vertex is, or lies below, one that a document gives to the job for itself.
fn below_own<'g>(
    graph: &'g Graph,
    vertices: &[(VertexId, bool)],
) -> impl Fn(VertexId) -> bool + use<'g> {
    let own: HashSet<VertexId> = vertices
        .iter()
        .filter(|(vertex, exclusive)| *exclusive && !graph.is_pool(*vertex))
        .map(|(vertex, _)| *vertex)
        .collect();
    move |vertex| graph.way_up(vertex).any(|above| own.contains(&above))
}

/// The units of pools that a document lists, by rank. An error if it lists a pool twice.
pub(super) fn by_rank<'a>(
    graph: &Graph,
    units: impl Iterator<Item = &'a (VertexId, u64)>,
) -> Result<BTreeMap<u32, Amounts>, Error> {
    let (mut seen, mut by_rank) = (HashSet::new(), BTreeMap::<u32, Amounts>::new());
    for (pool, amount) in units {
        let path = || graph.path(*pool);
        if !seen.insert(*pool) {
            return Err(Error::invalid(format!("{}: is named twice", path())));
        }
        if let Some(row) = graph.parent(*pool).and_then(|node| graph.position_of(node)) {
            let needs = by_rank.entry(graph.pools.ranks()[row]).or_default();
            let sum = amount_of(needs, graph.kind(*pool));
            *sum = sum.saturating_add(*amount);
            needs.sort_unstable();
        }
    }
    Ok(by_rank)
}

/// The vertices of a document without pools of which slots take units. An error if there are others
/// that are to be held, but for those of a vertex that is.
pub(super) fn without_pools(
    graph: &Graph,
    mut vertices: Vec<(VertexId, bool)>,
    slots: &[Slots],
) -> Result<Vec<(VertexId, bool)>, Error> {
    if !graph.has_pool_types() {
        return Ok(vertices);
    }
    let is_pool = |(vertex, exclusive): &(VertexId, bool)| *exclusive && graph.is_pool(*vertex);
    let is_covered = below_own(graph, &vertices);
    if slots.is_empty() {
        let other =
            vertices.iter().filter(|of| is_pool(of)).find(|(vertex, _)| !is_covered(*vertex));
        if let Some((vertex, _)) = other {
            return Err(Error::invalid(format!(
                "{}: is a pool, and R does not name the slots that have its units",
                graph.path(*vertex)
            )));
        }
    }
    vertices.retain(|of| !is_pool(of) || is_covered(of.0));
    Ok(vertices)
}

/// Fails if there is no room for slots beside the claims of others.
pub(super) fn check_free(book: &Book, slots: &[Slots]) -> Result<(), Error> {
    let (graph, pools) = (book.graph(), &book.graph().pools);
    let mut sums: HashMap<(usize, TypeId), u128> = HashMap::new();
    for (row, of_shape, count) in rows(graph, slots) {
        for (kind, amount) in &of_shape.shape.needs {
            let sum = sums.entry((row, *kind)).or_default();
            *sum = sum.saturating_add(u128::from(*amount) * u128::from(count));
        }
    }
    for (row, of_shape, _) in rows(graph, slots) {
        let rank = pools.ranks()[row];
        let from = of_shape.times.0.max(book.now());
        let to = of_shape.times.1.instant().max(from.saturating_add(1));
        let (when, tenancy) = (When::Window { from, to }, of_shape.shape.tenancy);
        if !pools.by_node().is_clear(row, tenancy, when) {
            return Err(Error::invalid(format!(
                "R: rank {rank}: others have it whole, or keep slots away"
            )));
        }
        for (kind, _) in &of_shape.shape.needs {
            let free = pools.by_node().free_beside(row, *kind, tenancy, when);
            let wanted = sums[&(row, *kind)];
            if u128::from(free) < wanted {
                let kind = graph.types().name(*kind);
                return Err(Error::invalid(format!(
                    "R: rank {rank}: {free} {kind} are free, not {wanted}"
                )));
            }
        }
    }
    Ok(())
}

/// The rows of slots, with the slots and their number there.
fn rows<'a>(graph: &'a Graph, slots: &'a [Slots]) -> impl Iterator<Item = (usize, &'a Slots, u64)> {
    let of_shape = move |of_shape: &'a Slots| {
        of_shape
            .on()
            .iter()
            .filter_map(move |(rank, count)| Some((graph.pools.position(*rank)?, of_shape, *count)))
    };
    slots.iter().flat_map(of_shape)
}
