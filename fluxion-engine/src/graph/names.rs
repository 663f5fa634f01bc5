//! Names, paths and properties of vertices.

use std::borrow::Cow;
use std::collections::HashMap;

use super::arena::Arena;
use super::text::{Properties, PropertySet, TextId, Texts};
use crate::limits::NAME_BYTES_MAX;
use crate::vertex::VertexId;

/// A subsystem besides containment, and the path of a vertex in it.
pub type OtherPath = (Box<str>, Box<str>);

/// The texts of vertices, and the paths that do not follow from their names.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    texts: Texts,
    /// Paths that are not the parent's path and the name.
    odd_paths: HashMap<VertexId, Box<str>>,
    /// Paths in other subsystems than containment.
    other_paths: HashMap<VertexId, Vec<OtherPath>>,
}

impl Names {
    /// The number of a string, new or known.
    pub(super) fn text(&mut self, text: &str) -> TextId {
        self.texts.intern(text)
    }

    /// The number of a set of properties, new or known.
    pub(super) fn properties<'a>(
        &mut self,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> PropertySet {
        self.texts.intern_set(properties)
    }

    /// A string.
    pub(super) fn get(&self, text: TextId) -> &str {
        self.texts.get(text)
    }

    /// Bytes of a set of properties.
    pub(super) fn set_bytes(&self, set: PropertySet) -> usize {
        self.texts.set(set).iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// A set of properties, sorted by name.
    pub(super) fn set(&self, set: PropertySet) -> &Properties {
        self.texts.set(set)
    }

    /// The name of a vertex.
    pub(super) fn name(&self, arena: &Arena, vertex: VertexId) -> Cow<'_, str> {
        let basename = || self.texts.get(arena.basename(vertex));
        match (arena.name(vertex), arena.id(vertex)) {
            (Some(name), _) => Cow::Borrowed(self.texts.get(name)),
            (None, -1) => Cow::Borrowed(basename()),
            (None, id) => Cow::Owned(format!("{}{id}", basename())),
        }
    }

    /// Bytes of the name of a vertex.
    pub(super) fn name_bytes(&self, arena: &Arena, vertex: VertexId) -> usize {
        let basename = || self.texts.get(arena.basename(vertex)).len();
        match (arena.name(vertex), arena.id(vertex)) {
            (Some(name), _) => self.texts.get(name).len(),
            (None, -1) => basename(),
            (None, id) => {
                let digits = id.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
                basename() + usize::from(id < 0) + digits
            }
        }
    }

    /// Bytes of the path of a vertex, if that does not follow from names.
    pub(super) fn odd_path_bytes(&self, vertex: VertexId) -> Option<usize> {
        if self.odd_paths.is_empty() {
            None
        } else {
            self.odd_paths.get(&vertex).map(|path| path.len())
        }
    }

    /// A name, a basename or a unit of more bytes than there may be.
    pub(super) fn too_long(&self) -> Option<&str> {
        self.texts.strings().find(|text| !NAME_BYTES_MAX.allows(text.len()))
    }

    /// Whether the name of a vertex is basename and id.
    pub(super) fn is_plain(&self, arena: &Arena, vertex: VertexId) -> bool {
        let (id, basename) = (arena.id(vertex), self.texts.get(arena.basename(vertex)));
        match arena.name(vertex) {
            None => id != -1,
            Some(name) => *self.texts.get(name) == *format!("{basename}{id}"),
        }
    }

    /// Names from the root, joined.
    pub(super) fn path(&self, arena: &Arena, vertex: VertexId) -> String {
        let mut path = String::new();
        self.write_path(arena, vertex, &mut path);
        path
    }

    fn write_path(&self, arena: &Arena, vertex: VertexId, out: &mut String) {
        if !self.odd_paths.is_empty()
            && let Some(path) = self.odd_paths.get(&vertex)
        {
            out.push_str(path);
            return;
        }
        if let Some(parent) = arena.parent(vertex) {
            self.write_path(arena, parent, out);
        }
        out.push('/');
        out.push_str(&self.name(arena, vertex));
    }

    /// True if each path follows from names.
    pub(super) fn are_enough(&self) -> bool {
        self.odd_paths.is_empty()
    }

    /// Keeps a path that does not follow from names.
    pub(super) fn keep_path(&mut self, vertex: VertexId, path: &str) {
        self.odd_paths.insert(vertex, path.into());
    }

    /// Subsystem and path, where a vertex has a path in other subsystems than containment.
    pub(super) fn other_paths(&self, vertex: VertexId) -> &[OtherPath] {
        if self.other_paths.is_empty() {
            &[]
        } else {
            self.other_paths.get(&vertex).map_or(&[], Vec::as_slice)
        }
    }

    /// Gives a vertex its path in another subsystem than containment.
    pub(super) fn set_other_path(&mut self, vertex: VertexId, subsystem: &str, path: &str) {
        let paths = self.other_paths.entry(vertex).or_default();
        match paths.iter_mut().find(|(known, _)| **known == *subsystem) {
            Some((_, known)) => *known = path.into(),
            None => paths.push((subsystem.into(), path.into())),
        }
    }

    /// What follows in a text after the name of a vertex, if it begins with that.
    pub(super) fn strip_name<'t>(
        &self,
        arena: &Arena,
        vertex: VertexId,
        text: &'t str,
    ) -> Option<&'t str> {
        let (name, id) = match arena.name(vertex) {
            Some(name) => return text.strip_prefix(self.texts.get(name)),
            None => (self.texts.get(arena.basename(vertex)), arena.id(vertex)),
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

    /// How many sets of properties there are.
    #[cfg(test)]
    pub(super) fn sets(&self) -> usize {
        self.texts.sets()
    }

    /// Drops sets of properties that no vertex has, if they may be most.
    pub(super) fn drop_unused_sets(&mut self, arena: &mut Arena) {
        if self.texts.has_unused_sets() {
            self.texts.drop_unused_sets(arena.property_sets_mut());
        }
    }

    /// The arena without vertices that are gone, with only the texts that it needs. Returns the new
    /// numbers of the vertices.
    pub(super) fn compact(&mut self, arena: &Arena) -> (Arena, Vec<VertexId>) {
        // Both kinds of texts go into one table.
        let texts = std::cell::RefCell::new(Texts::default());
        let (arena, moved) = arena.compacted(
            |text| texts.borrow_mut().intern(self.texts.get(text)),
            |set| {
                let properties = self.texts.set(set).iter();
                texts.borrow_mut().intern_set(properties.map(|(name, value)| (&**name, &**value)))
            },
        );
        self.texts = texts.into_inner();
        self.odd_paths = renumbered(&mut self.odd_paths, &moved);
        self.other_paths = renumbered(&mut self.other_paths, &moved);
        (arena, moved)
    }
}

/// The same of the vertices that are left, by their new numbers.
fn renumbered<T>(of: &mut HashMap<VertexId, T>, moved: &[VertexId]) -> HashMap<VertexId, T> {
    let of = std::mem::take(of).into_iter();
    of.map(|(vertex, text)| (moved[vertex.index()], text))
        .filter(|(vertex, _)| *vertex != VertexId::NONE)
        .collect()
}
