//! What texts and documents may ask for: each limit with its unit, its reason, and what happens
//! beyond it.
//!
//! All of them are checked before anything is made of the text, since what runs out of memory or
//! stack ends the process and cannot be caught at the C ABI. An error that is due to one of them
//! tells its value and its name; docs/fluxion-compatibility.md lists them all.

use std::fmt;

use crate::Error;

/// The most that a text or a document may ask for of something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// How errors and the documentation call it.
    name: &'static str,
    /// The largest number that is possible.
    pub(crate) max: usize,
    /// The things that are counted.
    unit: &'static str,
}

/// Declares the limits, each as a constant that knows its own name, and the list of them.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $max:expr, $unit:literal;)*) => {
        $(
            $(#[$doc])*
            pub(crate) const $name: Limit =
                Limit { name: stringify!($name), max: $max, unit: $unit };
        )*

        /// All limits.
        #[cfg(test)]
        const ALL: &[Limit] = &[$($name),*];
    };
}

limits! {
    /// All lists of hosts of one document together name at most this many: more than any machine
    /// has.
    HOSTS_MAX = 1 << 20, "hosts";

    /// The names of all lists of hosts of one document together: a few bytes of brackets can stand
    /// for gigabytes.
    HOSTS_BYTES_MAX = 64 << 20, "bytes of host names";

    /// A number in a list of hosts, zeros in front included: as many digits as a `u64` can have.
    HOST_DIGITS_MAX = 20, "digits in a number of a host list";

    /// Values of a jobspec, those behind aliases counted each time: aliases of aliases can name
    /// billions in a few lines.
    TREE_VALUES_MAX = 1 << 20, "values, aliases followed";

    /// The texts of a jobspec, those behind aliases counted each time: an alias of a few bytes can
    /// stand for a text of megabytes. Without aliases a jobspec has no more than its own bytes.
    TREE_BYTES_MAX = 64 << 20, "bytes of texts, aliases followed";

    /// Lists and mappings of a jobspec lie at most this deep in each other, also through aliases:
    /// reading and dropping them takes stack, of which a thread may have 2 MiB. As serde_json has
    /// it for JSON.
    TREE_DEPTH_MAX = 128, "lists and mappings in each other, aliases followed";

    /// Operators of a constraint in each other: a constraint is read and asked by recursion.
    CONSTRAINT_DEPTH_MAX = 32, "levels of a constraint";

    /// A jobspec: a value of one byte takes some 60 bytes of memory.
    JOBSPEC_BYTES_MAX = 16 << 20, "bytes of a jobspec";

    /// Resources of a jobspec in each other: a request is read, and searched for, by recursion.
    JOBSPEC_DEPTH_MAX = 32, "levels of resources";

    /// Resources of a jobspec, in each other and beside each other; and in the same way the labels,
    /// slots, caps and levels in its `attributes.system.fluxion`. They are compared with each
    /// other.
    RESOURCES_MAX = 1 << 16, "resources, or settings of slots, of a jobspec";

    /// Alternatives that `xor_slot` may multiply to.
    ALTERNATIVES_MAX = 1_000, "alternatives";

    /// Resources of all alternatives of a jobspec together: each alternative is a copy of all that
    /// it asks for.
    ALTERNATIVE_RESOURCES_MAX = 1 << 20, "resources in alternatives";

    /// A recipe in GraphML: all of it is in memory as a tree, some 100 bytes for an element of
    /// four.
    RECIPE_BYTES_MAX = 16 << 20, "bytes of a recipe";

    /// Nodes and edges of a recipe together. Real recipes have a few dozen; recursion follows them.
    RECIPE_ELEMENTS_MAX = 1_024, "nodes and edges of a recipe";

    /// Paths that the edges of a recipe make in other subsystems than containment, each with its
    /// record: an edge may lead to each vertex from each of its sources.
    OTHER_PATHS_BYTES_MAX = 1 << 30, "bytes of paths in other subsystems";

    /// Attributes of an element of a recipe or a topology: each is compared with all before it.
    XML_ATTRIBUTES_MAX = 256, "attributes of an element";

    /// Namespaces that a recipe or a topology declares: those of an element are copied to the ones
    /// below it. Real ones declare a few, at the top.
    XML_NAMESPACES_MAX = 64, "namespaces";

    /// A topology of hwloc: all of it is in memory as a tree, as a recipe is. That of a large
    /// machine has 200 KiB.
    TOPOLOGY_BYTES_MAX = 16 << 20, "bytes of a topology";

    /// Objects of a topology in each other: they are read by recursion. Real ones have a dozen.
    TOPOLOGY_DEPTH_MAX = 128, "objects in each other";

    /// Options: all of them are in memory as a tree, up to 100 times their bytes.
    OPTIONS_BYTES_MAX = 4 << 20, "bytes of options";

    /// Numbers that pruning filters keep: one for each type that a vertex counts below it, and one
    /// for each type that a type tracks. These are 2 GiB.
    FILTER_COUNTS_MAX = (2 << 30) / 8, "counts of pruning filters";

    /// A document in JGF: its paths and properties are kept, and may be all of it. As
    /// many bytes as the vertices take that it may have.
    JGF_BYTES_MAX = 4 << 30, "bytes of JGF";

    /// An R: a value of two bytes takes some 32 bytes of memory.
    R_BYTES_MAX = 256 << 20, "bytes of R";

    /// Ranks with slots in an R, shape by shape, times the types of a slot: each takes some 100
    /// bytes.
    SLOT_PLACES_MAX = 16 << 20, "types of slots on ranks";

    /// Vertices of a graph: each takes some 256 bytes (its two records, its edge, its name, and its
    /// occupancy in the schedule), so these are 4 GiB.
    VERTICES_MAX = (4 << 30) / 256, "vertices";

    /// The tables of pools, by an estimate: each type of pools has a cell of some 128 bytes for
    /// each node, also where few nodes have such a pool. 131,072 nodes may have 250 types, 16,384
    /// nodes 2,000.
    POOL_BYTES_MAX = 4 << 30, "bytes of tables of pools";

    /// A charge: each of its types takes some 64 bytes while it is read.
    CHARGE_BYTES_MAX = 16 << 20, "bytes of a charge";

    /// Units of all vertices that are handed out whole, together: walks add them up in 64 bits.
    UNITS_MAX = usize::MAX - 1, "units of vertices that are handed out whole";

    /// A type, a basename, a name, a unit or a subsystem of vertices; a label, a queue, a level and
    /// a part of one. Names of hosts have at most 253 bytes.
    NAME_BYTES_MAX = 1 << 10, "bytes of a name";

    /// The path of a vertex: as many names of usual length as there may be levels.
    PATH_BYTES_MAX = 16 << 10, "bytes of a path";

    /// Texts of all vertices together, as an answer has them if it names all: paths have the names
    /// of all that hold a vertex. Those of a machine of a million cores have some 100 MiB.
    TEXT_BYTES_MAX = 4 << 30, "bytes of names, paths and properties of vertices";

    /// Properties of a vertex in a document.
    VERTEX_PROPERTIES_MAX = 4 << 10, "properties of a vertex";

    /// Properties of all vertices of a document: one of a few bytes takes some 100 bytes of memory.
    PROPERTIES_MAX = 32 << 20, "properties of vertices";

    /// Levels of a graph: walks go down by recursion, and a stack ends without a word.
    LEVELS_MAX = 256, "levels of vertices";

    /// Edges to vertices that have a parent already: each can double a walk.
    ASSOCIATIONS_MAX = 4_096, "vertices with several parents";

    /// An expression of `find`: one is taken apart by recursion.
    FIND_BYTES_MAX = 16 << 10, "bytes of an expression";

    /// Parentheses of an expression of `find` in each other.
    FIND_DEPTH_MAX = 64, "parentheses in each other";
}

/// An error shows this much of a text that may be long, in characters.
const SHOWN_CHARS: usize = 80;

/// The beginning of a text that may be long, for an error.
pub(crate) fn beginning(text: &str) -> &str {
    text.char_indices().nth(SHOWN_CHARS).map_or(text, |(end, _)| &text[..end])
}

impl Limit {
    /// Whether this much is possible.
    pub(crate) fn allows(self, count: usize) -> bool {
        count <= self.in_force()
    }

    /// Refuses more than this. `place`: what asks for it.
    pub(crate) fn check(self, count: usize, place: impl fmt::Display) -> Result<(), Error> {
        if self.allows(count) { Ok(()) } else { Err(self.exceeded(place)) }
    }

    /// The error of what asks for more than this.
    pub(crate) fn exceeded(self, place: impl fmt::Display) -> Error {
        Error::invalid(format!("{place}: more than {self}"))
    }

    #[cfg(not(test))]
    fn in_force(self) -> usize {
        self.max
    }

    /// The number in force: lower in a test that could not reach the limit.
    #[cfg(test)]
    fn in_force(self) -> usize {
        tests::LOWERED.get().filter(|(name, _)| *name == self.name).map_or(self.max, |(_, max)| max)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.max, self.unit, self.name)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::{ALL, JGF_BYTES_MAX, Limit, R_BYTES_MAX, VERTICES_MAX};
    use crate::{Engine, Error, JobMode, UpdateReader};

    thread_local! {
        /// The name of a limit, and the number in force instead of it.
        pub(super) static LOWERED: Cell<Option<(&'static str, usize)>> = const { Cell::new(None) };
    }

    /// Does something under a lower limit.
    pub(crate) fn with_lower<T>(limit: Limit, max: usize, work: impl FnOnce() -> T) -> T {
        LOWERED.set(Some((limit.name, max)));
        let answer = work();
        LOWERED.set(None);
        answer
    }

    const SMALL: &str = r#"{"graph":{"nodes":[
        {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
        {"id":"1","metadata":{"type":"node","id":0,"rank":0,"name":"n0","exclusive":true,
            "paths":{"containment":"/c0/n0"}}}],
        "edges":[{"source":"0","target":"1"}]}}"#;

    const R: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],
            "nodelist":["n0"]}}"#;

    fn engine(graph: &str, format: &str) -> Result<Engine, Error> {
        Engine::new(graph, &format!(r#"{{"load_format":"{format}","matcher_policy":"first"}}"#))
    }

    #[test]
    fn documents_are_limited_before_they_are_read() {
        let says = |answer: Result<(), Error>, limit: Limit| {
            let error = answer.unwrap_err();
            assert!(error.text.contains(limit.name), "{error}");
        };
        let mut small = engine(SMALL, "jgf").unwrap();
        let mut flat = engine(R, "rv1exec").unwrap();
        flat.update_allocate(1, R).unwrap();
        with_lower(JGF_BYTES_MAX, 20, || {
            says(engine(SMALL, "jgf").map(drop), JGF_BYTES_MAX);
            says(small.add_subgraph(SMALL), JGF_BYTES_MAX);
            says(small.update_allocate(1, SMALL).map(drop), JGF_BYTES_MAX);
        });
        with_lower(R_BYTES_MAX, 20, || {
            says(engine(R, "rv1exec").map(drop), R_BYTES_MAX);
            says(small.update_allocate(1, SMALL).map(drop), R_BYTES_MAX);
            says(flat.update_allocate(2, R).map(drop), R_BYTES_MAX);
            says(flat.partial_cancel(1, R).map(drop), R_BYTES_MAX);
            let reader = UpdateReader::Rv1exec;
            says(flat.update(2, R, reader, 0, 9, JobMode::Allocated).map(drop), R_BYTES_MAX);
            says(flat.partial_cancel_with(1, R, reader).map(drop), R_BYTES_MAX);
        });
    }

    #[test]
    fn a_graph_that_grows_counts_what_is_there() {
        let mut engine = engine(SMALL, "jgf").unwrap();
        let more = SMALL
            .replace(r#""id":"1""#, r#""id":"2""#)
            .replace(r#""target":"1""#, r#""target":"2""#)
            .replace(r#""rank":0"#, r#""rank":1"#)
            .replace("n0", "n1");
        with_lower(VERTICES_MAX, 2, || {
            let error = engine.add_subgraph(&more).unwrap_err();
            assert!(error.text.contains("VERTICES_MAX"), "{error}");
        });
        // Vertices that the graph has already are not counted twice.
        with_lower(VERTICES_MAX, 3, || engine.add_subgraph(&more).unwrap());
        with_lower(VERTICES_MAX, 3, || engine.add_subgraph(&more).unwrap());
    }

    #[test]
    fn a_mark_of_the_byte_order_in_front_of_an_r_is_passed_over() {
        let marked = format!("\u{feff}{R}");
        let mut engine = engine(&marked, "rv1exec").unwrap();
        engine.update_allocate(1, &marked).unwrap();
        assert!(engine.partial_cancel(1, &marked).unwrap());
        let reader = UpdateReader::Rv1exec;
        engine.update(2, &marked, reader, 0, 9, JobMode::Allocated).unwrap();
        assert!(engine.partial_cancel_with(2, &marked, reader).unwrap());
    }

    #[test]
    fn the_documentation_lists_every_limit() {
        let page = include_str!("../../docs/fluxion-compatibility.md");
        for limit in ALL {
            let row = format!("| `{}` | {} | {} |", limit.name, limit.max, limit.unit);
            assert!(page.contains(&row), "no row {row}");
        }
        assert_eq!(page.matches("_MAX` |").count(), ALL.len());
    }
}
