//! The document: GraphML to recipe vertices and edges.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;

use roxmltree::Node;

use crate::Error;
use crate::limits::{NAME_BYTES_MAX, RECIPE_BYTES_MAX, RECIPE_ELEMENTS_MAX};
use crate::readers::xml;

/// The subsystem that is generated.
pub(super) const CONTAINMENT: &str = "containment";

/// Vertices and edges to be generated.
pub(super) struct Recipe {
    pub(super) vertices: Vec<VertexRecipe>,
    /// In the order of the document.
    pub(super) edges: Vec<EdgeRecipe>,
}

/// The description of a resource.
pub(super) struct VertexRecipe {
    pub(super) is_root: bool,
    pub(super) kind: String,
    pub(super) basename: String,
    pub(super) size: u32,
    pub(super) unit: String,
    pub(super) subsystem: String,
}

/// How many of its target each source has, or which of those that are there.
pub(super) struct EdgeRecipe {
    /// Where it stands, for texts.
    pub(super) place: String,
    /// Index of a recipe vertex.
    pub(super) source: usize,
    /// Index of a recipe vertex.
    pub(super) target: usize,
    pub(super) subsystem: String,
    pub(super) method: Method,
    /// Children of each source.
    pub(super) scale: u64,
    /// The number of levels up that share one numbering.
    pub(super) id_scope: usize,
    pub(super) id_start: i64,
    pub(super) id_stride: i64,
    pub(super) target_subsystem: String,
    /// Levels up from the target, and from the source, to what must be the same.
    pub(super) target_up: usize,
    pub(super) source_up: usize,
}

/// What an edge does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Multiply,
    AssociateIn,
    AssociateByPathIn,
}

/// Attributes of recipe vertices.
const OF_VERTICES: [&str; 6] = ["root", "type", "basename", "size", "unit", "subsystem"];
/// Attributes of recipe edges.
const OF_EDGES: [&str; 11] = [
    "e_subsystem",
    "relation",
    "rrelation",
    "id_scope",
    "id_start",
    "id_stride",
    "gen_method",
    "multi_scale",
    "as_tgt_subsystem",
    "as_tgt_uplvl",
    "as_src_uplvl",
];

/// The `<key>` elements: the meaning of the data of a vertex or an edge, and its default where it
/// is left out.
#[derive(Default)]
struct Keys<'d> {
    /// Attribute by the id of its key.
    names: HashMap<&'d str, &'d str>,
    /// Keys of no attribute.
    nameless: HashSet<&'d str>,
    /// By the id of its key, an attribute that no recipe knows.
    unknown: HashMap<&'d str, &'d str>,
    /// The error of the first element, where each has an attribute that no recipe knows.
    unknown_default: Option<Error>,
    /// Value by attribute.
    defaults: HashMap<&'d str, &'d str>,
}

/// The data of one element over the defaults.
struct Data<'d, 'i> {
    element: Node<'d, 'i>,
    values: HashMap<&'d str, &'d str>,
}

impl Recipe {
    pub(super) fn read(text: &str) -> Result<Self, Error> {
        RECIPE_BYTES_MAX.check(text.len(), "grug")?;
        let document = xml::parse(text, "grug", false)?;
        let root = document.root_element();
        if root.tag_name().name() != "graphml" {
            return Err(wrong(root, "not a graphml document"));
        }
        let (mut of_vertices, mut of_edges) = (Keys::default(), Keys::default());
        for element in children(root, "key") {
            match element.attribute("for") {
                Some("node") => of_vertices.add(element, &[&OF_VERTICES])?,
                Some("edge") => of_edges.add(element, &[&OF_EDGES])?,
                // As GraphML has it by default.
                Some("all") | None => {
                    of_vertices.add(element, &[&OF_VERTICES, &OF_EDGES])?;
                    of_edges.add(element, &[&OF_VERTICES, &OF_EDGES])?;
                }
                // Of the graph as a whole, or of ports and the like: nothing that a recipe knows.
                Some(_) => {}
            }
        }
        let graph = children(root, "graph").next().ok_or_else(|| wrong(root, "no graph"))?;
        // Before they are read: to tell the line of an element takes a look at all before it.
        let elements = children(graph, "node").count() + children(graph, "edge").count();
        RECIPE_ELEMENTS_MAX.check(elements, place(graph))?;
        let (mut vertices, mut index) = (Vec::new(), HashMap::new());
        for element in children(graph, "node") {
            let id = attribute(element, "id")?;
            if index.insert(id, vertices.len()).is_some() {
                return Err(wrong(element, &format!("id: {id:?} is used twice")));
            }
            vertices.push(vertex(&of_vertices.data(element)?)?);
        }
        let mut edges = Vec::new();
        for element in children(graph, "edge") {
            let end = |name| {
                let id = attribute(element, name)?;
                index
                    .get(id)
                    .copied()
                    .ok_or_else(|| wrong(element, &format!("{name}: there is no node {id:?}")))
            };
            let (source, target) = (end("source")?, end("target")?);
            edges.push(edge(&of_edges.data(element)?, source, target)?);
        }
        check_edges(vertices.len(), &edges)?;
        Ok(Recipe { vertices, edges })
    }
}

/// Refuses edges of one subsystem that lead from a node to itself, that are there twice, or that
/// close a circle: their vertices could not be told from those of the others.
fn check_edges(vertices: usize, edges: &[EdgeRecipe]) -> Result<(), Error> {
    // By subsystem, the targets of each node so far.
    let mut targets: HashMap<&str, Vec<Vec<usize>>> = HashMap::new();
    for edge in edges {
        let of = targets.entry(&edge.subsystem).or_insert_with(|| vec![Vec::new(); vertices]);
        let wrong = |what: &str| Err(Error::invalid(format!("{}: {what}", edge.place)));
        if edge.source == edge.target {
            return wrong("source and target are the same node");
        }
        if of[edge.source].contains(&edge.target) {
            return wrong("an edge from this source to this target is there already");
        }
        let (mut seen, mut open) = (vec![false; vertices], vec![edge.target]);
        while let Some(at) = open.pop() {
            if at == edge.source {
                return wrong("closes a circle");
            }
            if !std::mem::replace(&mut seen[at], true) {
                open.extend_from_slice(&of[at]);
            }
        }
        of[edge.source].push(edge.target);
    }
    Ok(())
}

fn vertex(data: &Data<'_, '_>) -> Result<VertexRecipe, Error> {
    let kind = data.name("type", "")?;
    if kind.is_empty() {
        return Err(wrong(data.element, "type: missing"));
    }
    Ok(VertexRecipe {
        is_root: data.number::<i32>("root", 0)? != 0,
        kind: kind.to_owned(),
        basename: data.name("basename", kind)?.to_owned(),
        size: data.number("size", 1)?,
        unit: data.name("unit", "")?.to_owned(),
        subsystem: data.name("subsystem", CONTAINMENT)?.to_owned(),
    })
}

fn edge(data: &Data<'_, '_>, source: usize, target: usize) -> Result<EdgeRecipe, Error> {
    let method = match data.text("gen_method", "MULTIPLY") {
        "MULTIPLY" => Method::Multiply,
        "ASSOCIATE_IN" => Method::AssociateIn,
        "ASSOCIATE_BY_PATH_IN" => Method::AssociateByPathIn,
        other => return Err(wrong(data.element, &format!("gen_method: unknown {other:?}"))),
    };
    Ok(EdgeRecipe {
        place: place(data.element),
        source,
        target,
        subsystem: data.name("e_subsystem", CONTAINMENT)?.to_owned(),
        method,
        scale: data.number("multi_scale", 1)?,
        id_scope: data.number("id_scope", 0)?,
        id_start: data.number("id_start", 0)?,
        id_stride: data.number("id_stride", 1)?,
        target_subsystem: data.name("as_tgt_subsystem", CONTAINMENT)?.to_owned(),
        target_up: data.number("as_tgt_uplvl", 1)?,
        source_up: data.number("as_src_uplvl", 1)?,
    })
}

impl<'d> Keys<'d> {
    fn add(&mut self, element: Node<'d, '_>, known: &[&[&str]]) -> Result<(), Error> {
        let id = attribute(element, "id")?;
        // Editors keep how they draw a node under keys that name no attribute.
        let Some(name) = element.attribute("attr.name") else {
            self.nameless.insert(id);
            return Ok(());
        };
        if !known.iter().any(|known| known.contains(&name)) {
            // As upstream, which looks for attributes where they are used.
            self.unknown.insert(id, name);
            if children(element, "default").next().is_some() {
                let error = wrong(element, &format!("attr.name: unknown {name:?}"));
                self.unknown_default.get_or_insert(error);
            }
            return Ok(());
        }
        self.names.insert(id, name);
        if let Some(default) = children(element, "default").next() {
            self.defaults.insert(name, content(default));
        }
        Ok(())
    }

    fn data<'i>(&self, element: Node<'d, 'i>) -> Result<Data<'d, 'i>, Error> {
        if let Some(error) = &self.unknown_default {
            return Err(error.clone());
        }
        let mut values = self.defaults.clone();
        for item in children(element, "data") {
            let key = attribute(item, "key")?;
            if self.nameless.contains(key) {
                continue;
            }
            if let Some(name) = self.unknown.get(key) {
                return Err(wrong(item, &format!("key: {key:?}: unknown attr.name {name:?}")));
            }
            let name =
                self.names.get(key).ok_or_else(|| wrong(item, &format!("key: unknown {key:?}")))?;
            values.insert(name, content(item));
        }
        Ok(Data { element, values })
    }
}

impl<'d> Data<'d, '_> {
    fn text(&self, name: &str, default: &'d str) -> &'d str {
        self.values.get(name).copied().unwrap_or(default)
    }

    /// A text that vertices will have.
    fn name(&self, name: &str, default: &'d str) -> Result<&'d str, Error> {
        let text = self.text(name, default);
        if NAME_BYTES_MAX.allows(text.len()) {
            return Ok(text);
        }
        Err(NAME_BYTES_MAX.exceeded(format_args!("{}: {name}", place(self.element))))
    }

    fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, Error> {
        let Some(value) = self.values.get(name) else { return Ok(default) };
        value.parse().map_err(|_| {
            wrong(self.element, &format!("{name}: {value:?} is no number that it could be"))
        })
    }
}

fn attribute<'d>(element: Node<'d, '_>, name: &str) -> Result<&'d str, Error> {
    element.attribute(name).ok_or_else(|| wrong(element, &format!("{name}: missing")))
}

/// The text inside an element, without the blanks around it.
fn content<'d>(element: Node<'d, '_>) -> &'d str {
    element.text().unwrap_or_default().trim()
}

fn children<'d, 'i>(
    parent: Node<'d, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'d, 'i>> {
    parent.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

fn place(element: Node<'_, '_>) -> String {
    let at = element.document().text_pos_at(element.range().start);
    format!("grug: line {}: <{}>", at.row, element.tag_name().name())
}

fn wrong(element: Node<'_, '_>, what: &str) -> Error {
    Error::invalid(format!("{}: {what}", place(element)))
}
