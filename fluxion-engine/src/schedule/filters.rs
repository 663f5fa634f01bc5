//! Pruning filters: which types a vertex counts in its subtree, and how much there is of each.

use std::collections::BTreeMap;

use crate::Error;
use crate::graph::{Graph, TypeId, VertexId};
use crate::limits::FILTER_COUNTS_MAX;

/// What stands for every vertex type on the left of a filter.
const ALL: &str = "ALL";

/// Tracked types per vertex type, and totals per vertex.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filters {
    /// Types that the option names.
    of_all: Vec<TypeId>,
    anchored: BTreeMap<TypeId, Vec<TypeId>>,
    /// By vertex type: the tracked types, in order.
    tracked: Vec<Box<[TypeId]>>,
    /// Types that are tracked anywhere.
    anywhere: Vec<bool>,
    /// Per vertex, where its totals begin; `NONE` for leaves.
    totals_from: Vec<u32>,
    totals: Vec<u64>,
    /// How many clusters there are that hold anything: these count each type of leaves.
    clusters: usize,
}

const NONE: u32 = u32::MAX;

impl Filters {
    /// Reads `HL:LL,HL:LL`.
    pub(crate) fn read(text: &str, graph: &mut Graph) -> Result<Self, Error> {
        let mut filters = Filters::default();
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        for pair in text.split(',').filter(|_| !text.is_empty()) {
            let halves = pair
                .split_once(':')
                .filter(|(above, below)| !above.is_empty() && !below.is_empty());
            let Some((above, below)) = halves else {
                return Err(Error::invalid(format!(
                    "prune_filters: {pair:?}: not two types with a colon between"
                )));
            };
            let below = graph.intern(below)?;
            if above == ALL {
                filters.of_all.push(below);
            } else {
                filters.anchored.entry(graph.intern(above)?).or_default().push(below);
            }
        }
        let lists = std::iter::once(&mut filters.of_all).chain(filters.anchored.values_mut());
        for kinds in lists {
            kinds.sort_unstable();
            kinds.dedup();
        }
        let inner = graph.vertices().filter(|vertex| !is_leaf(graph, *vertex));
        let inner = inner.map(|vertex| Some(graph.kind(vertex)));
        filters.check_room(graph.types().len(), inner, "prune_filters")?;
        Ok(filters)
    }

    /// Refuses more numbers than there may be: for these types, and beside the vertices that are
    /// counted for vertices of these types that hold others; `None`: of a type that is new.
    pub(crate) fn check_room(
        &self,
        kinds: usize,
        inner: impl Iterator<Item = Option<TypeId>>,
        place: &str,
    ) -> Result<(), Error> {
        let own = |kind: TypeId| {
            let leaves = if kind == TypeId::CLUSTER { kinds } else { 0 };
            leaves + self.anchored.get(&kind).map_or(0, Vec::len)
        };
        let width = |kind: Option<TypeId>| self.of_all.len() + kind.map_or(0, own);
        let anchored: usize = self.anchored.values().map(Vec::len).sum();
        let tables = kinds.saturating_mul(self.of_all.len() + 1).saturating_add(anchored);
        let known = self.totals.len().saturating_add(self.clusters.saturating_mul(kinds));
        let new = inner.map(width).fold(0, usize::saturating_add);
        FILTER_COUNTS_MAX.check(tables.saturating_add(known).saturating_add(new), place)
    }

    /// Counts all vertices again: after the graph was made, or has changed.
    pub(crate) fn prime(&mut self, graph: &Graph) {
        self.track(graph);
        self.totals_from = vec![NONE; graph.len()];
        self.totals.clear();
        self.clusters = 0;
        let mut sums = vec![0_u64; graph.types().len()];
        self.count(graph, graph.root(), &mut sums);
        self.totals.shrink_to_fit();
    }

    /// The types that a vertex tracks; none for a leaf.
    #[inline]
    pub(crate) fn tracked(&self, graph: &Graph, vertex: VertexId) -> &[TypeId] {
        if self.totals_from.get(vertex.index()).is_none_or(|from| *from == NONE) {
            return &[];
        }
        &self.tracked[graph.kind(vertex).index()]
    }

    /// How much there is below a vertex, one number per tracked type.
    #[inline]
    pub(crate) fn totals(&self, graph: &Graph, vertex: VertexId) -> &[u64] {
        match self.totals_from.get(vertex.index()) {
            None | Some(&NONE) => &[],
            Some(from) => {
                &self.totals[*from as usize..][..self.tracked[graph.kind(vertex).index()].len()]
            }
        }
    }

    /// Whether any vertex tracks a type.
    pub(crate) fn is_tracked(&self, kind: TypeId) -> bool {
        self.anywhere.get(kind.index()).copied().unwrap_or(false)
    }

    /// Counts vertices from an index on. Not possible where types come to be tracked, or a leaf has
    /// become none.
    pub(crate) fn grow(&mut self, graph: &Graph, from: usize) -> bool {
        let kinds = graph.types().len();
        if self.tracked.len() != kinds || self.totals_from.len() != from {
            return false;
        }
        let new = || (from..graph.len()).map(VertexId::at);
        let tracked_at_cluster = &self.tracked[TypeId::CLUSTER.index()];
        if new().any(|vertex| {
            is_leaf(graph, vertex) && !tracked_at_cluster.contains(&graph.kind(vertex))
        }) {
            return false;
        }
        let is_old = |vertex: &VertexId| vertex.index() < from;
        let joints: Vec<VertexId> =
            new().filter(|vertex| graph.parent(*vertex).as_ref().is_some_and(is_old)).collect();
        if joints
            .iter()
            .filter_map(|top| graph.parent(*top))
            .any(|above| self.totals_from[above.index()] == NONE)
        {
            return false;
        }
        self.totals_from.resize(graph.len(), NONE);
        for top in joints {
            let mut sums = vec![0_u64; kinds];
            self.count(graph, top, &mut sums);
            self.change(graph, graph.parent(top), &sums, true);
        }
        true
    }

    /// There is another amount of a type directly below a node than before.
    pub(crate) fn resize(
        &mut self,
        graph: &Graph,
        node: VertexId,
        kind: TypeId,
        (before, after): (u64, u64),
    ) {
        let mut sums = vec![0_u64; graph.types().len()];
        sums[kind.index()] = before.abs_diff(after);
        self.change(graph, Some(node), &sums, after > before);
    }

    /// Counts a subtree no more that was cut off from `parent`.
    pub(crate) fn shrink(
        &mut self,
        graph: &Graph,
        top: VertexId,
        parent: Option<VertexId>,
    ) -> bool {
        let mut sums = vec![0_u64; graph.types().len()];
        for vertex in graph.subtree(top) {
            let sum = &mut sums[graph.kind(vertex).index()];
            *sum = sum.saturating_add(graph.size(vertex));
        }
        self.change(graph, parent, &sums, false);
        true
    }

    /// Adds to, or takes from, the totals of a vertex and all that hold it.
    fn change(&mut self, graph: &Graph, from: Option<VertexId>, sums: &[u64], add: bool) {
        let mut at = from;
        while let Some(vertex) = at {
            let start = self.totals_from[vertex.index()] as usize;
            for (column, kind) in self.tracked[graph.kind(vertex).index()].iter().enumerate() {
                if let Some(total) = self.totals.get_mut(start + column) {
                    let more = sums[kind.index()];
                    *total =
                        if add { total.saturating_add(more) } else { total.saturating_sub(more) };
                }
            }
            at = graph.parent(vertex);
        }
    }

    /// Types that a vertex type tracks: those anchored at it, then those that all track, each in
    /// order of the types.
    fn track(&mut self, graph: &Graph) {
        let mut leaves = vec![false; graph.types().len()];
        for vertex in graph.vertices().filter(|vertex| graph.is_linked(*vertex)) {
            if is_leaf(graph, vertex) && graph.associates(vertex).is_empty() {
                leaves[graph.kind(vertex).index()] = true;
            }
        }
        self.tracked = vec![Box::default(); graph.types().len()];
        self.anywhere = vec![false; graph.types().len()];
        for (kind, _) in graph.types().iter() {
            let mut own = self.anchored.get(&kind).cloned().unwrap_or_default();
            if kind == TypeId::CLUSTER {
                let leaf =
                    |at: &usize| leaves[*at] && !self.of_all.contains(&TypeId::from_index(*at));
                own.extend((0..leaves.len()).filter(leaf).map(TypeId::from_index));
            }
            own.sort_unstable();
            own.dedup();
            let mut all: Vec<TypeId> = self
                .of_all
                .iter()
                .copied()
                .filter(|other| *other != kind && !own.contains(other))
                .collect();
            all.sort_unstable();
            all.dedup();
            own.extend(all);
            for tracked in &own {
                self.anywhere[tracked.index()] = true;
            }
            self.tracked[kind.index()] = own.into();
        }
    }

    /// Sums up what lies below a vertex, notes it, and adds it with the vertex itself to `sums`.
    fn count(&mut self, graph: &Graph, vertex: VertexId, sums: &mut [u64]) {
        if !is_leaf(graph, vertex) {
            self.clusters += usize::from(graph.kind(vertex) == TypeId::CLUSTER);
            let children = graph.children(vertex);
            let mut below = vec![0_u64; sums.len()];
            for child in children {
                self.count(graph, *child, &mut below);
            }
            self.totals_from[vertex.index()] = u32::try_from(self.totals.len()).unwrap_or(NONE);
            for kind in &self.tracked[graph.kind(vertex).index()] {
                self.totals.push(below[kind.index()]);
            }
            for (sum, more) in sums.iter_mut().zip(&below) {
                *sum = sum.saturating_add(*more);
            }
        }
        let own = &mut sums[graph.kind(vertex).index()];
        *own = own.saturating_add(graph.size(vertex));
    }
}

fn is_leaf(graph: &Graph, vertex: VertexId) -> bool {
    graph.children(vertex).is_empty() && !graph.leads_back(vertex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::tests::with_lower;
    use crate::{Engine, Reason};

    /// Clusters in each other, each with a leaf of a type of its own.
    fn nested(from: usize, to: usize) -> String {
        let vertex = |id: usize, kind: &str, path: &str| {
            format!(
                r#"{{"id":"{id}","metadata":{{"type":"{kind}","id":{id},
                    "paths":{{"containment":"{path}"}}}}}}"#
            )
        };
        let (mut nodes, mut edges, mut path) = (Vec::new(), Vec::new(), String::new());
        for at in 0..to {
            path = format!("{path}/cluster{}", 2 * at);
            if at > 0 {
                edges.push(format!(r#"{{"source":"{}","target":"{}"}}"#, 2 * at - 2, 2 * at));
            }
            nodes.push(vertex(2 * at, "cluster", &path));
            if at >= from {
                edges.push(format!(r#"{{"source":"{}","target":"{}"}}"#, 2 * at, 2 * at + 1));
                let kind = format!("leaf{at}x");
                nodes.push(vertex(2 * at + 1, &kind, &format!("{path}/{kind}{}", 2 * at + 1)));
            }
        }
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","))
    }

    fn engine(text: &str, filters: &str) -> Result<Engine, Error> {
        let options =
            format!(r#"{{"load_format":"jgf","prune_filters":"{filters}","pool_types":["cpu"]}}"#);
        Engine::new(text, &options)
    }

    #[test]
    fn counts_of_filters_are_estimated_before_they_are_made() {
        let says = |answer: Result<(), Error>, place: &str| {
            let error = answer.unwrap_err();
            assert!(error.text.starts_with(place), "{error}");
            assert!(error.text.ends_with("(FILTER_COUNTS_MAX)"), "{error}");
            error.reason
        };
        // Ten vertices with ten numbers, and as many as there are types for the tables.
        assert!(engine(&nested(0, 10), "ALL:core").is_ok());
        with_lower(FILTER_COUNTS_MAX, 150, || {
            let answer = engine(&nested(0, 10), "ALL:core").map(drop);
            assert_eq!(says(answer, "prune_filters: "), Reason::Setup);
        });
        // Types that all track, at each type.
        let all: Vec<String> = (0..20_000).map(|at| format!("ALL:t{at}")).collect();
        says(engine(&nested(0, 1), &all.join(",")).map(drop), "prune_filters: ");
        let twice = vec!["ALL:core"; 100_000].join(",");
        with_lower(FILTER_COUNTS_MAX, 150, || assert!(engine(&nested(0, 1), &twice).is_ok()));
    }

    #[test]
    fn a_graph_that_grows_has_room_for_its_counts() {
        let mut engine = engine(&nested(0, 6), "ALL:core").unwrap();
        let before = engine.graph().len();
        with_lower(FILTER_COUNTS_MAX, 200, || {
            let error = engine.add_subgraph(&nested(6, 12)).unwrap_err();
            assert!(error.text.contains("FILTER_COUNTS_MAX"), "{error}");
        });
        assert_eq!(engine.graph().len(), before);
        engine.add_subgraph(&nested(6, 12)).unwrap();
        assert_eq!(engine.graph().len(), 2 * 12);
    }
}
