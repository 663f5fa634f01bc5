//! Vertices and their types as small numbers.

use std::collections::{HashMap, HashSet};

use crate::Error;
use crate::limits::{NAME_BYTES_MAX, beginning};

/// Index of a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexId(u32);

/// A vertex type, interned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(u16);

/// The vertex types of a graph, in order of appearance. They are never forgotten: their number is
/// bounded.
#[derive(Debug, Clone, Default)]
pub struct Types {
    names: Vec<Box<str>>,
    ids: HashMap<Box<str>, TypeId>,
}

impl VertexId {
    /// No vertex.
    pub(crate) const NONE: VertexId = VertexId(u32::MAX);

    /// The vertex at an index, if that many can be told apart.
    pub(crate) fn next(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(VertexId).filter(|id| *id != VertexId::NONE)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// The vertex at an index that a graph handed out.
    pub(crate) fn at(index: usize) -> Self {
        VertexId(u32::try_from(index).expect("indices of vertices have 32 bits"))
    }
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

/// Types that upstream knows before it reads any graph; a request may name them on every graph.
const BUILTIN: [&str; 10] =
    ["cluster", "core", "socket", "gpu", "node", "rack", "slot", "xor_slot", "ssd", "storage_node"];

impl TypeId {
    /// The type `cluster`.
    pub const CLUSTER: TypeId = TypeId(0);
    /// The type `core`.
    pub const CORE: TypeId = TypeId(1);
    /// The type `gpu`.
    pub const GPU: TypeId = TypeId(3);
    /// The type `node`.
    pub const NODE: TypeId = TypeId(4);
    /// The type `slot`, of which there are no vertices.
    pub const SLOT: TypeId = TypeId(6);
    /// The type `xor_slot`, of which there are no vertices.
    pub const XOR_SLOT: TypeId = TypeId(7);
    /// The type `storage_node`.
    pub const STORAGE_NODE: TypeId = TypeId(9);
}

impl Types {
    /// The types that upstream has built in.
    pub fn with_builtin() -> Self {
        let mut types = Types::default();
        for name in BUILTIN {
            // A table of ten has room.
            let _ = types.intern(name);
        }
        types
    }

    /// Number of types.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// No types.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Fails if these types, new or known, are more than there are numbers for, or one has too long
    /// a name.
    pub(crate) fn check_room_for<'a>(
        &self,
        names: impl ExactSizeIterator<Item = &'a str> + Clone,
    ) -> Result<(), Error> {
        names.clone().try_for_each(check_length)?;
        if u16::try_from(self.names.len() + names.len()).is_ok() {
            return Ok(());
        }
        let mut new = HashSet::new();
        for name in names.filter(|name| !self.ids.contains_key(*name)) {
            if new.insert(name) && u16::try_from(self.names.len() + new.len() - 1).is_err() {
                return Err(too_many(name));
            }
        }
        Ok(())
    }

    /// The number of a type, new or known.
    pub fn intern(&mut self, name: &str) -> Result<TypeId, Error> {
        if let Some(id) = self.ids.get(name) {
            return Ok(*id);
        }
        check_length(name)?;
        let id = u16::try_from(self.names.len()).map(TypeId).map_err(|_| too_many(name))?;
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

fn check_length(name: &str) -> Result<(), Error> {
    NAME_BYTES_MAX.check(name.len(), format_args!("type {:?}", beginning(name)))
}

fn too_many(name: &str) -> Error {
    Error::invalid(format!("type {name:?}: there are more than 65536 vertex types"))
}
