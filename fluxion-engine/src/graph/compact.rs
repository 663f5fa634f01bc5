//! Forgetting vertices that were removed.
//!
//! Where nodes come and go, vertices that are gone would fill the arena, and their names the table
//! of strings. Once more of them are gone than there are left, all others move together. Their
//! order stays, and with it every answer that follows from it: only numbers change, so none may
//! have been kept.

use std::collections::HashMap;

use super::text::Texts;
use super::{Graph, VertexId};

/// Fewer vertices that are gone are not worth it.
const GONE_MIN: usize = 1_024;

impl Graph {
    /// Whether more vertices are gone than are left. Not where upstream's count of vertices, with
    /// those that are gone, can be asked for: in graphs without pools.
    pub(crate) fn is_sparse(&self) -> bool {
        let gone = self.counts.gone;
        self.has_pool_types()
            && self.associations.is_empty()
            && gone >= GONE_MIN
            && gone > self.hot.len() - gone
    }

    /// Drops vertices that are gone. All numbers of vertices become others.
    pub(crate) fn compact(&mut self) {
        let mut moved = vec![VertexId::NONE; self.hot.len()];
        let mut next = 0;
        for vertex in self.vertices().filter(|vertex| self.is_linked(*vertex)) {
            moved[vertex.index()] = VertexId::at(next);
            next += 1;
        }
        let to = |vertex: VertexId| {
            if vertex == VertexId::NONE { vertex } else { moved[vertex.index()] }
        };
        let (mut hot, mut cold) = (Vec::with_capacity(next), Vec::with_capacity(next));
        let mut children = Vec::with_capacity(next);
        let mut texts = Texts::default();
        for vertex in self.vertices().filter(|vertex| self.is_linked(*vertex)) {
            let mut this = self.hot[vertex.index()];
            this.parent = to(this.parent);
            this.child_from =
                u32::try_from(children.len()).expect("no more edges than 32 bits count");
            this.child_room = this.child_count;
            children.extend(self.children(vertex).iter().map(|child| to(*child)));
            hot.push(this);
            let mut rest = self.cold[vertex.index()];
            rest.basename = texts.intern(self.texts.get(rest.basename));
            rest.name = rest.name.map(|name| texts.intern(self.texts.get(name)));
            rest.unit = texts.intern(self.texts.get(rest.unit));
            let properties = self.texts.set(rest.properties);
            rest.properties =
                texts.intern_set(properties.iter().map(|(name, value)| (&**name, &**value)));
            cold.push(rest);
        }
        let odd_paths: HashMap<VertexId, Box<str>> = std::mem::take(&mut self.odd_paths)
            .into_iter()
            .filter_map(|(vertex, path)| {
                Some((to(vertex), path)).filter(|(vertex, _)| *vertex != VertexId::NONE)
            })
            .collect();
        for tops in self.index.rank_tops.values_mut() {
            tops.iter_mut().for_each(|top| *top = to(*top));
        }
        self.pools.renumber(to);
        self.root = to(self.root);
        (self.hot, self.cold, self.children) = (hot, cold, children);
        (self.texts, self.odd_paths) = (texts, odd_paths);
        self.counts.gone = 0;
        self.changes.marked.clear();
        self.changes.revision += 1;
    }
}
