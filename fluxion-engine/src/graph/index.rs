//! Finding vertices: by rank, by path.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

use super::{Graph, VertexId};

/// Where the vertices of a rank are: the topmost of them. All others lie below one of these.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    pub(super) rank_tops: HashMap<i32, SmallVec<[VertexId; 1]>>,
}

impl Graph {
    /// Vertices at a path; more than one if several ranks share it.
    pub fn at_path(&self, path: &str) -> Vec<VertexId> {
        let mut found = Vec::new();
        if self.odd_paths.is_empty() {
            if let Some(rest) = path.strip_prefix('/') {
                self.descend(self.root, rest, &mut found);
            }
        } else {
            // Paths of this graph do not follow from its names: each is compared.
            found.extend(
                self.vertices()
                    .filter(|vertex| self.is_linked(*vertex) && *self.path(*vertex) == *path),
            );
        }
        found.sort_unstable();
        found
    }

    /// Vertices at or below `at` with names that are `rest` when joined. Names may hold slashes.
    fn descend(&self, at: VertexId, rest: &str, found: &mut Vec<VertexId>) {
        let Some(rest) = self.strip_name(at, rest) else { return };
        if rest.is_empty() {
            found.push(at);
        } else if let Some(rest) = rest.strip_prefix('/') {
            for child in self.children(at) {
                self.descend(*child, rest, found);
            }
        }
    }

    /// The vertex of this path and rank.
    pub(crate) fn find(&self, path: &str, rank: i32) -> Option<VertexId> {
        if rank < 0 || !self.odd_paths.is_empty() {
            return self.at_path(path).into_iter().find(|id| self.rank(*id) == rank);
        }
        // Only vertices below the tops of the rank are searched: a machine that grows node by node
        // is not searched each time.
        let mut found = Vec::new();
        for top in self.rank_tops(rank) {
            let above = self.parent(*top).map_or_else(String::new, |above| self.path(above));
            if let Some(rest) = path.strip_prefix(&*above).and_then(|rest| rest.strip_prefix('/')) {
                self.descend(*top, rest, &mut found);
            }
        }
        found.into_iter().filter(|id| self.rank(*id) == rank).min()
    }

    /// What follows in a text after the name of a vertex, if it begins with that.
    fn strip_name<'t>(&self, vertex: VertexId, text: &'t str) -> Option<&'t str> {
        let cold = &self.cold[vertex.index()];
        let (name, id) = match cold.name {
            Some(name) => return text.strip_prefix(self.texts.get(name)),
            None => (self.texts.get(cold.basename), self.id(vertex)),
        };
        let rest = text.strip_prefix(name)?;
        if id < 0 {
            return if id == -1 { Some(rest) } else { rest.strip_prefix(&*id.to_string()) };
        }
        // The digits of a number, without a string of its own: this runs once for each vertex that
        // is not meant.
        let digits = id.checked_ilog10().unwrap_or(0) as usize + 1;
        let (number, rest) = rest.split_at_checked(digits)?;
        let plain = number.bytes().all(|byte| byte.is_ascii_digit())
            && (digits == 1 || !number.starts_with('0'));
        (plain && number.parse() == Ok(id)).then_some(rest)
    }

    /// All vertices of a rank, in the order in which they were added.
    pub fn of_rank(&self, rank: i32) -> Vec<VertexId> {
        let mut all = Vec::new();
        for top in self.rank_tops(rank) {
            all.extend(self.subtree(*top).into_iter().filter(|vertex| self.rank(*vertex) == rank));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The vertex that stands for a rank: the one with the shortest path.
    pub fn top_of_rank(&self, rank: i32) -> Option<VertexId> {
        let tops = self.rank_tops(rank);
        if let [top] = tops {
            Some(*top)
        } else {
            tops.iter().copied().min_by_key(|top| self.path(*top).len())
        }
    }

    /// All ranks, ascending.
    pub fn ranks(&self) -> Vec<i32> {
        let mut ranks: Vec<i32> =
            self.index.rank_tops.keys().copied().filter(|rank| *rank >= 0).collect();
        ranks.sort_unstable();
        ranks
    }

    fn rank_tops(&self, rank: i32) -> &[VertexId] {
        self.index.rank_tops.get(&rank).map_or(&[], |tops| tops)
    }

    /// Whether the vertex is the topmost of its rank on its way to the root.
    fn is_rank_top(&self, vertex: VertexId) -> bool {
        let rank = self.rank(vertex);
        let mut at = self.parent(vertex);
        while let Some(above) = at {
            if self.rank(above) == rank {
                return false;
            }
            at = self.parent(above);
        }
        true
    }

    pub(super) fn index_ranks(&mut self) {
        for at in 0..self.hot.len() {
            self.index_rank(VertexId::at(at));
        }
    }

    pub(super) fn index_rank(&mut self, vertex: VertexId) {
        let rank = self.rank(vertex);
        if rank >= 0 && self.is_rank_top(vertex) {
            self.index.rank_tops.entry(rank).or_default().push(vertex);
        }
    }

    pub(super) fn unindex_rank(&mut self, vertex: VertexId) {
        let rank = self.rank(vertex);
        if let Some(tops) = self.index.rank_tops.get_mut(&rank) {
            tops.retain(|top| *top != vertex);
            if tops.is_empty() {
                self.index.rank_tops.remove(&rank);
            }
        }
    }

    /// How many vertices there are of each type that can be reached from the root, by name.
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for vertex in self.vertices().filter(|vertex| self.is_linked(*vertex)) {
            *counts.entry(self.types.name(self.kind(vertex))).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::{Graph, PoolTypes};
    use crate::readers::jgf;

    fn graph() -> Graph {
        let vertex = |id: usize, kind: &str, name: &str, rank: i64, path: &str| {
            format!(
                r#"{{"id":"{id}","metadata":{{"type":"{kind}","name":"{name}","id":{id},"rank":{rank},"paths":{{"containment":"{path}"}}}}}}"#
            )
        };
        let nodes = [
            vertex(0, "cluster", "cluster0", -1, "/cluster0"),
            vertex(1, "node", "node1", 0, "/cluster0/node1"),
            vertex(12, "node", "node12", 1, "/cluster0/node12"),
            vertex(3, "core", "core3", 0, "/cluster0/node1/core3"),
            vertex(4, "node", "twin", 2, "/cluster0/twin"),
            vertex(5, "node", "twin", 3, "/cluster0/twin"),
        ];
        let edges = [(0, 1), (0, 12), (1, 3), (0, 4), (0, 5)]
            .map(|(source, target)| format!(r#"{{"source":"{source}","target":"{target}"}}"#));
        let text = format!(
            r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
            nodes.join(","),
            edges.join(",")
        );
        jgf::read(&text, PoolTypes::default()).unwrap()
    }

    #[test]
    fn finds_by_path_and_by_rank() {
        let graph = graph();
        for vertex in graph.vertices() {
            assert!(graph.at_path(&graph.path(vertex)).contains(&vertex));
            assert_eq!(graph.find(&graph.path(vertex), graph.rank(vertex)), Some(vertex));
        }
        assert_eq!(graph.at_path("/cluster0/twin").len(), 2);
        for path in [
            "",
            "/",
            "cluster0",
            "/cluster0/",
            "/cluster0/node",
            "/cluster0/node01",
            "/cluster0/node1/core",
        ] {
            assert_eq!(graph.at_path(path), [], "{path}");
        }
        assert_eq!(graph.find("/cluster0/node1", 1), None);
        assert_eq!(graph.of_rank(0).len(), 2);
        assert_eq!(graph.top_of_rank(0), graph.find("/cluster0/node1", 0));
        assert_eq!(graph.ranks(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_graph_has_a_bottom() {
        let chain = |length: usize| {
            let (mut nodes, mut edges, mut path) = (Vec::new(), Vec::new(), String::new());
            for at in 0..length {
                path = format!("{path}/group{at}");
                nodes.push(format!(
                    r#"{{"id":"{at}","metadata":{{"type":"group","id":{at},"paths":{{"containment":"{path}"}}}}}}"#
                ));
                if at > 0 {
                    edges.push(format!(r#"{{"source":"{}","target":"{at}"}}"#, at - 1));
                }
            }
            format!(
                r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
                nodes.join(","),
                edges.join(",")
            )
        };
        let graph = jgf::read(&chain(256), PoolTypes::default()).unwrap();
        assert!(jgf::read(&chain(257), PoolTypes::default()).unwrap_err().text.contains("levels"));
        let deeper = chain(257);
        let deeper = jgf::parse(&deeper).unwrap();
        assert!(
            graph.plan_growth(&deeper.nodes, &deeper.edges).err().unwrap().text.contains("levels")
        );
        assert_eq!(graph.len(), 256);
    }
}
