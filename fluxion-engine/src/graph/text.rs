//! Strings of vertices, each kept once: a machine of a million cores has one `core`.

use std::collections::HashMap;
use std::sync::Arc;

/// A string of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(u32);

impl TextId {
    /// The empty string.
    pub const EMPTY: TextId = TextId(0);
}

/// Properties of a vertex, names with values. Equal sets are kept once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PropertySet(u32);

impl PropertySet {
    /// No properties.
    pub const NONE: PropertySet = PropertySet(0);
}

/// Names with values, sorted by name.
pub type Properties = Vec<(Box<str>, Box<str>)>;

/// All strings and property sets of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    strings: Vec<Arc<str>>,
    known: HashMap<Arc<str>, TextId>,
    sets: Vec<Arc<Properties>>,
    known_sets: HashMap<Arc<Properties>, PropertySet>,
    /// Bytes that the sets take, about.
    set_bytes: usize,
    /// The same when unused ones were dropped.
    used_bytes: usize,
}

/// Fewer bytes of sets that are used no more are not worth a look at all vertices.
const UNUSED_BYTES: usize = 16 << 20;

/// Bytes that a set of properties takes, about.
fn bytes_of(set: &Properties) -> usize {
    set.iter().map(|(name, value)| 64 + name.len() + value.len()).sum::<usize>() + 64
}

impl Default for Texts {
    fn default() -> Self {
        let (empty, none): (Arc<str>, Arc<Properties>) = (Arc::from(""), Arc::default());
        Texts {
            strings: vec![Arc::clone(&empty)],
            known: HashMap::from([(empty, TextId::EMPTY)]),
            sets: vec![Arc::clone(&none)],
            known_sets: HashMap::from([(none, PropertySet::NONE)]),
            set_bytes: 0,
            used_bytes: 0,
        }
    }
}

impl Texts {
    pub(crate) fn intern(&mut self, text: &str) -> TextId {
        if let Some(id) = self.known.get(text) {
            return *id;
        }
        let id = TextId(u32::try_from(self.strings.len()).expect("fewer strings than vertices"));
        let text: Arc<str> = Arc::from(text);
        self.strings.push(Arc::clone(&text));
        self.known.insert(text, id);
        id
    }

    pub(crate) fn get(&self, id: TextId) -> &str {
        &self.strings[id.0 as usize]
    }

    /// All strings.
    pub(crate) fn strings(&self) -> impl Iterator<Item = &str> {
        self.strings.iter().map(|text| &**text)
    }

    /// The set of these properties; of a name that occurs twice the last counts.
    pub(crate) fn intern_set<'a>(
        &mut self,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> PropertySet {
        let mut set: Properties = Vec::new();
        for (name, value) in properties {
            match set.binary_search_by(|(known, _)| (**known).cmp(name)) {
                Ok(at) => set[at].1 = value.into(),
                Err(at) => set.insert(at, (name.into(), value.into())),
            }
        }
        if let Some(id) = self.known_sets.get(&set) {
            return *id;
        }
        self.keep_set(Arc::new(set))
    }

    fn keep_set(&mut self, set: Arc<Properties>) -> PropertySet {
        if let Some(id) = self.known_sets.get(&set) {
            return *id;
        }
        let id = PropertySet(u32::try_from(self.sets.len()).expect("fewer sets than vertices"));
        self.set_bytes += bytes_of(&set);
        self.sets.push(Arc::clone(&set));
        self.known_sets.insert(set, id);
        id
    }

    /// How many sets there are.
    #[cfg(test)]
    pub(crate) fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Whether most sets may be unused: a vertex with another property has another set.
    pub(crate) fn has_unused_sets(&self) -> bool {
        self.set_bytes > 2 * self.used_bytes + UNUSED_BYTES
    }

    /// Drops the sets that are not `used`, and gives the others their new numbers.
    pub(crate) fn drop_unused_sets<'a>(&mut self, used: impl Iterator<Item = &'a mut PropertySet>) {
        let empty = Texts::default();
        let sets = std::mem::replace(&mut self.sets, empty.sets);
        (self.known_sets, self.set_bytes) = (empty.known_sets, 0);
        let mut moved: Vec<Option<PropertySet>> = vec![None; sets.len()];
        for set in used {
            let at = set.0 as usize;
            *set = *moved[at].get_or_insert_with(|| self.keep_set(Arc::clone(&sets[at])));
        }
        self.used_bytes = self.set_bytes;
    }

    pub(crate) fn set(&self, id: PropertySet) -> &Properties {
        &self.sets[id.0 as usize]
    }
}
