//! Vertex types as small numbers.

use std::collections::HashMap;

use crate::Error;

/// A vertex type, interned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(u16);

/// The vertex types of a graph, in order of appearance. They are never forgotten: their number is bounded.
#[derive(Debug, Clone, Default)]
pub struct Types {
    names: Vec<Box<str>>,
    ids: HashMap<Box<str>, TypeId>,
}

impl TypeId {
    /// The type with this index, which must be one of a table.
    pub(crate) fn from_index(index: usize) -> Self {
        TypeId(u16::try_from(index).expect("a table holds at most 65536 types"))
    }

    /// For indexing tables that have an entry per type.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Types {
    /// The number of a type, new or known.
    pub fn intern(&mut self, name: &str) -> Result<TypeId, Error> {
        if let Some(id) = self.ids.get(name) {
            return Ok(*id);
        }
        let id = u16::try_from(self.names.len())
            .map(TypeId)
            .map_err(|_| Error::invalid(format!("type {name:?}: there are more than 65536 vertex types")))?;
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        Ok(id)
    }

    /// The number of a known type.
    pub fn get(&self, name: &str) -> Option<TypeId> {
        self.ids.get(name).copied()
    }

    /// The name of a type of this table.
    pub fn name(&self, id: TypeId) -> &str {
        &self.names[id.index()]
    }

    /// All types.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &str)> {
        (0..=u16::MAX).map(TypeId).zip(self.names.iter().map(|name| &**name))
    }
}
