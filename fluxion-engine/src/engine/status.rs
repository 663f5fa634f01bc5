//! Marking vertices and ranks up and down.

use super::Engine;
use crate::Error;
use crate::graph::VertexId;

impl Engine {
    /// Marks what lies at a path. A vertex that is down takes everything below it out of matches.
    pub fn set_status(&mut self, path: &str, up: bool) -> Result<(), Error> {
        for vertex in self.at(path)?.to_vec() {
            self.graph.set_up(vertex, up);
        }
        Ok(())
    }

    /// Whether the vertex at a path is marked up itself.
    pub fn status(&self, path: &str) -> Result<bool, Error> {
        Ok(self.graph.vertex(self.at(path)?[0]).up)
    }

    /// Marks ranks; `all` means all of them. Unknown ranks are passed over.
    pub fn set_rank_status(&mut self, ranks: &str, up: bool) -> Result<(), Error> {
        let known: Vec<u32> = if ranks == "all" {
            self.graph.ranks().collect()
        } else {
            let ranges = crate::idset::parse(ranks)?;
            if ranges.is_empty() {
                return Err(Error::invalid("ranks: empty"));
            }
            match ranges[..] {
                [(one, last)] if one == last => vec![one],
                _ => {
                    let within = |rank: &u32| ranges.iter().any(|(first, last)| (first..=last).contains(&rank));
                    self.graph.ranks().filter(within).collect()
                }
            }
        };
        for rank in known {
            if let Some(top) = self.graph.top_of_rank(rank) {
                self.graph.set_up(top, up);
            }
        }
        Ok(())
    }

    /// Whether the node of a rank is marked up.
    pub fn rank_status(&self, rank: &str) -> Result<bool, Error> {
        let wrong = || Error::invalid(format!("rank {rank:?}: not one rank of this graph"));
        match crate::idset::parse(rank)?[..] {
            [(one, last)] if one == last => {
                let top = self.graph.top_of_rank(one).ok_or_else(wrong)?;
                Ok(self.graph.vertex(top).up)
            }
            _ => Err(wrong()),
        }
    }

    fn at(&self, path: &str) -> Result<&[VertexId], Error> {
        match self.graph.at_path(path) {
            [] => Err(Error::invalid(format!("path {path:?}: there is no such vertex"))),
            found => Ok(found),
        }
    }
}
