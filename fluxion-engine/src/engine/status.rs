//! Marking vertices and ranks up and down; properties.

use super::Engine;
use crate::graph::{Graph, Properties, TypeId, VertexId};
use crate::limits::VERTEX_PROPERTIES_MAX;
use crate::{Error, lists};

impl Engine {
    /// Marks what lies at a path. A vertex that is down takes everything below it out of matches.
    pub fn set_status(&mut self, path: &str, up: bool) -> Result<(), Error> {
        self.book.not_in_a_trial("set_status")?;
        let found = at(self.graph(), path)?;
        for vertex in found {
            if self.graph().is_marked_up(vertex) != up {
                let nodes = self
                    .graph()
                    .subtree(vertex)
                    .iter()
                    .filter(|below| self.graph().is_node(**below))
                    .count();
                self.searches.count_up(nodes, up);
            }
            self.book.set_up(vertex, up);
        }
        Ok(())
    }

    /// Whether the vertex at a path is marked up itself.
    pub fn status(&self, path: &str) -> Result<bool, Error> {
        Ok(self.graph().is_marked_up(at(self.graph(), path)?[0]))
    }

    /// Marks ranks; `all` means all of them. Unknown ranks are passed over.
    pub fn set_rank_status(&mut self, ranks: &str, up: bool) -> Result<(), Error> {
        self.book.not_in_a_trial("set_rank_status")?;
        let known: Vec<i32> = if ranks == "all" {
            self.graph().ranks()
        } else {
            let ranges = lists::read_idset(ranks)?;
            if ranges.is_empty() {
                return Err(Error::invalid("ranks: empty"));
            }
            match ranges[..] {
                [(one, last)] if one == last => i32::try_from(one).into_iter().collect(),
                _ => {
                    let within = |rank: &i32| lists::hold_rank(&ranges, *rank);
                    self.graph().ranks().into_iter().filter(within).collect()
                }
            }
        };
        for rank in known {
            if let Some(top) = self.graph().top_of_rank(rank) {
                if self.graph().is_marked_up(top) != up {
                    self.searches.count_up(1, up);
                }
                self.book.set_up(top, up);
            }
        }
        Ok(())
    }

    /// Whether the node of a rank is marked up.
    pub fn rank_status(&self, rank: &str) -> Result<bool, Error> {
        let wrong = || Error::invalid(format!("rank {rank:?}: not one rank of this graph"));
        match lists::read_idset(rank)?[..] {
            [(one, last)] if one == last => {
                let one = i32::try_from(one).map_err(|_| wrong())?;
                let of_rank = self.graph().of_rank(one);
                let is_node = |vertex: &&VertexId| {
                    [TypeId::NODE, TypeId::STORAGE_NODE].contains(&self.graph().kind(**vertex))
                };
                let node = of_rank.iter().find(is_node).ok_or_else(wrong)?;
                Ok(self.graph().is_marked_up(*node))
            }
            _ => Err(wrong()),
        }
    }

    /// Properties of what lies at a path, sorted by name; of several vertices, of the first.
    pub fn properties(&self, path: &str) -> Result<&Properties, Error> {
        Ok(self.graph().properties(at(self.graph(), path)?[0]))
    }

    /// Gives what lies at a path a property, or the property another value.
    pub fn set_property(&mut self, path: &str, name: &str, value: &str) -> Result<(), Error> {
        self.book.not_in_a_trial("set_property")?;
        let found = at(self.graph(), path)?;
        let graph = self.graph();
        for vertex in &found {
            let more = usize::from(graph.property(*vertex, name).is_none());
            let all = graph.properties(*vertex).len() + more;
            VERTEX_PROPERTIES_MAX.check(all, "set_property")?;
        }
        let more = name.len().saturating_add(value.len()).saturating_mul(found.len());
        graph.check_texts(more, "set_property")?;
        for vertex in found {
            self.book.set_property(vertex, name, value);
        }
        Ok(())
    }
}

/// The vertices at a path, of which there must be one.
fn at(graph: &Graph, path: &str) -> Result<Vec<VertexId>, Error> {
    let found = graph.at_path(path);
    if found.is_empty() {
        return Err(Error::invalid(format!("path {path:?}: there is no such vertex")));
    }
    Ok(found)
}
