//! Topologies of hwloc in XML, as `lstopo` exports them: one machine, below a cluster.
//!
//! The XML is read here, without the library hwloc. Vertices are made of machines, groups, NUMA
//! nodes, packages, caches, cores, threads, GPUs and disks; anything else only leads to what lies
//! below it. The order is that in which upstream's `walk_hwloc` comes to the objects: below each of
//! them those with processors, then memory, then devices.

use std::collections::HashMap;

use roxmltree::Node;

use super::allowlist::Allowlist;
use super::host::basename_and_id;
use super::xml;
use crate::Error;
use crate::graph::{Builder, Graph, NewVertex, PoolTypes, VertexId};
use crate::limits::{TOPOLOGY_BYTES_MAX, TOPOLOGY_DEPTH_MAX, VERTICES_MAX};

/// Reads a topology. Types of vertices that the allowlist has not are left out.
pub(crate) fn read(text: &str, pool_types: PoolTypes, allowed: &Allowlist) -> Result<Graph, Error> {
    TOPOLOGY_BYTES_MAX.check(text.len(), "topology")?;
    let mut reader = Topology {
        builder: Builder::new(pool_types),
        allowed,
        counts: HashMap::new(),
        nodes: 0,
        is_old: false,
    };
    // As upstream: a GPU that two drivers name (cuda0, opencl0d0) is two vertices `gpu0`.
    reader.builder.let_paths_repeat();
    let cluster = Vertex::new("cluster", "cluster", 0);
    let root = reader.add(&cluster, None)?;
    // As upstream: of an empty text there is the cluster.
    if text.is_empty() {
        return reader.builder.finish();
    }
    let document = xml::parse(text, "topology", true)?;
    let topology = document.root_element();
    if topology.tag_name().name() != "topology" {
        return Err(wrong(topology, "the document is no topology"));
    }
    reader.is_old = topology.attribute("version").is_none();
    let machine = objects(topology).next().ok_or_else(|| wrong(topology, "no object"))?;
    if machine.attribute("type") != Some("Machine") {
        return Err(wrong(machine, "the first object is no Machine"));
    }
    reader.object(machine, root, 1)?;
    reader.builder.finish()
}

/// A vertex to be made of an object.
struct Vertex<'a> {
    kind: &'static str,
    basename: String,
    name: Option<&'a str>,
    id: i64,
    rank: i32,
    size: u64,
    /// The number that Linux has for a disk.
    device: Option<&'a str>,
}

impl Vertex<'_> {
    /// Makes a vertex of size 1 without a rank, a name or a device.
    fn new(kind: &'static str, basename: &str, id: i64) -> Self {
        let basename = basename.to_owned();
        Vertex { kind, basename, name: None, id, rank: -1, size: 1, device: None }
    }
}

/// In which of its parent's lists hwloc has an object, in the order of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kin {
    /// Has processors.
    Normal,
    Memory,
    Devices,
    Misc,
}

struct Topology<'a> {
    builder: Builder,
    allowed: &'a Allowlist,
    /// How many objects of a type there were so far.
    counts: HashMap<String, i64>,
    /// How many machines there were so far.
    nodes: i32,
    /// True if the document is of hwloc 1, where memory has the objects near to it below it.
    is_old: bool,
}

impl Topology<'_> {
    /// Adds the vertices of an object, and of what lies below it, to `above`.
    fn object(&mut self, object: Node<'_, '_>, above: VertexId, depth: usize) -> Result<(), Error> {
        TOPOLOGY_DEPTH_MAX.check(depth, "topology")?;
        let kind = object.attribute("type").unwrap_or_default();
        let mut below: Vec<(Kin, Node<'_, '_>)> =
            objects(object).map(|child| (self.list(child), child)).collect();
        // A stable order: within a list that of the document, and of objects with processors that
        // of the first of these.
        below.sort_by_key(|(list, child)| {
            (*list, if *list == Kin::Normal { first_processor(*child) } else { 0 })
        });
        let mut at = above;
        if self.is_old && kind == "NUMANode" {
            // As in hwloc 2: a group, and the memory beside the objects that were below it.
            let devices = below.iter().position(|(list, _)| *list > Kin::Normal);
            let devices = devices.unwrap_or(below.len());
            for (_, child) in below.drain(..devices) {
                self.object(child, at, depth + 1)?;
            }
            if let Some(memory) = self.vertex(object, kind)? {
                self.add(&memory, Some(at))?;
            }
        } else if let Some(vertex) = self.vertex(object, kind)? {
            at = self.add(&vertex, Some(above))?;
        }
        for (_, child) in below {
            self.object(child, at, depth + 1)?;
        }
        Ok(())
    }

    fn list(&self, object: Node<'_, '_>) -> Kin {
        match object.attribute("type").unwrap_or_default() {
            "Bridge" | "PCIDev" | "OSDev" => Kin::Devices,
            "Misc" => Kin::Misc,
            "NUMANode" if !self.is_old || objects(object).next().is_none() => Kin::Memory,
            "MemCache" => Kin::Memory,
            _ => Kin::Normal,
        }
    }

    /// The number of an object among those of its type.
    fn index(&mut self, kind: &str) -> i64 {
        let count = self.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    /// The vertex that an object stands for, if it stands for one.
    fn vertex<'n>(
        &mut self,
        object: Node<'n, '_>,
        kind: &str,
    ) -> Result<Option<Vertex<'n>>, Error> {
        if kind == "OSDev" {
            return self.device(object);
        }
        if kind == "Machine" {
            return self.machine(object);
        }
        let cache;
        let (word, kind) = match kind {
            "Group" => ("group", "group"),
            "NUMANode" => ("numanode", "numanode"),
            "Package" | "Socket" => ("socket", "socket"),
            "Core" => ("core", "core"),
            "PU" => ("pu", "pu"),
            "Cache" if object.attribute("cache_type") != Some("2") => {
                cache = format!("L{}cache", object.attribute("depth").unwrap_or_default());
                (&*cache, "cache")
            }
            "L1Cache" => ("L1cache", "cache"),
            "L2Cache" => ("L2cache", "cache"),
            "L3Cache" => ("L3cache", "cache"),
            _ => return Ok(None),
        };
        let id = self.index(word);
        let is_known = kind != "cache" || ["L1cache", "L2cache", "L3cache"].contains(&word);
        if !is_known || !self.allowed.has(word) {
            return Ok(None);
        }
        let size = if kind == "cache" { number(object, "cache_size")? / 1024 } else { 1 };
        Ok(Some(Vertex { size, ..Vertex::new(kind, word, id) }))
    }

    fn machine<'n>(&mut self, object: Node<'n, '_>) -> Result<Option<Vertex<'n>>, Error> {
        let Some(name) = info(object, "HostName").filter(|_| self.allowed.has("node")) else {
            return Ok(None);
        };
        let (basename, id) = basename_and_id(name)
            .ok_or_else(|| wrong(object, "HostName: its number is beyond 63 bits"))?;
        let rank = self.nodes;
        self.nodes += 1;
        Ok(Some(Vertex { name: Some(name), rank, ..Vertex::new("node", basename, id) }))
    }

    fn device<'n>(&mut self, object: Node<'n, '_>) -> Result<Option<Vertex<'n>>, Error> {
        let kind = object.attribute("osdev_type").unwrap_or_default();
        let name = object.attribute("name").unwrap_or_default();
        // Those for direct memory access are not important, so that hwloc does not count them.
        if kind == DMA {
            return Ok(None);
        }
        let index = self.index("OSDev");
        let is_gpu = kind == COPROCESSOR || kind == GPU && name.starts_with("rsmi");
        if is_gpu && self.allowed.has("gpu") {
            let of = |number: &str| leading_number(number).unwrap_or(0);
            let id = if let Some(rest) = name.strip_prefix("cuda") {
                of(rest)
            } else if let Some(rest) = name.strip_prefix("rsmi") {
                of(rest)
            } else if let Some(rest) = name.strip_prefix("opencl") {
                let (_, device) = rest.split_once('d').ok_or_else(|| {
                    wrong(object, "name: an opencl device is opencl, a number, d, and a number")
                })?;
                of(device)
            } else {
                index
            };
            return Ok(Some(Vertex::new("gpu", "gpu", id)));
        }
        if kind != BLOCK || !self.allowed.has("storage") {
            return Ok(None);
        }
        let size = info(object, "Size").ok_or_else(|| wrong(object, "a disk without Size"))?;
        let kilobytes = leading_number(size).and_then(|size| u64::try_from(size).ok());
        let kilobytes = kilobytes
            .filter(|size| *size > 0)
            .ok_or_else(|| wrong(object, "Size: not a number of kilobytes"))?;
        Ok(Some(Vertex {
            size: kilobytes / 1_000_000,
            device: Some(info(object, "LinuxDeviceID").unwrap_or("-1")),
            ..Vertex::new("storage", "storage", index)
        }))
    }

    fn add(&mut self, vertex: &Vertex<'_>, above: Option<VertexId>) -> Result<VertexId, Error> {
        VERTICES_MAX.check(self.builder.len() + 1, "topology")?;
        let uniq_id = i64::try_from(self.builder.len()).unwrap_or(i64::MAX);
        let properties = vertex.device.map(|device| ("LinuxDeviceID", device));
        let (kind, basename) =
            (self.builder.kind(vertex.kind)?, self.builder.text(&vertex.basename));
        let vertex = NewVertex {
            name: vertex.name.map(|name| self.builder.text(name)),
            rank: vertex.rank,
            size: vertex.size,
            properties: self.builder.properties(properties),
            ..NewVertex::new(kind, basename, vertex.id, uniq_id)
        };
        let id = self.builder.add(vertex)?;
        if let Some(above) = above {
            self.builder.edge(above, id);
        }
        Ok(id)
    }
}

/// Kinds of devices, by hwloc's numbers.
const BLOCK: &str = "0";
const GPU: &str = "1";
const DMA: &str = "4";
const COPROCESSOR: &str = "5";

/// The objects directly below an element.
fn objects<'n, 'd: 'n>(element: Node<'n, 'd>) -> impl Iterator<Item = Node<'n, 'd>> {
    element.children().filter(|child| child.tag_name().name() == "object")
}

/// What an object says of itself under a name.
fn info<'n>(object: Node<'n, '_>, name: &str) -> Option<&'n str> {
    let infos = object.children().filter(|child| child.tag_name().name() == "info");
    infos
        .filter(|info| info.attribute("name") == Some(name))
        .find_map(|info| info.attribute("value"))
}

fn number(object: Node<'_, '_>, name: &str) -> Result<u64, Error> {
    let text = object.attribute(name).unwrap_or("0");
    text.parse().map_err(|_| wrong(object, &format!("{name}: {text:?}: not a number")))
}

/// The first of an object's processors; the sets of hwloc are words of 32 bits, the last word
/// first.
fn first_processor(object: Node<'_, '_>) -> u64 {
    let set = object.attribute("complete_cpuset").or_else(|| object.attribute("cpuset"));
    let words = set.unwrap_or_default().rsplit(',').zip(0..);
    let first = words.filter_map(|(word, at)| {
        let word = u32::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
        (word > 0).then(|| at * 32 + u64::from(word.trailing_zeros()))
    });
    first.min().unwrap_or(u64::MAX)
}

/// The number that a text begins with, as C's strtol reads it; `None`: it is beyond 64 bits.
fn leading_number(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number = &text[..text.len() - digits.len() + end];
    if end == 0 { Some(0) } else { number.parse().ok() }
}

fn wrong(element: Node<'_, '_>, what: &str) -> Error {
    let at = element.document().text_pos_at(element.range().start);
    Error::invalid(format!("topology: line {}: {what}", at.row))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of hwloc 2 with two packages, of which the second stands first.
    const MACHINE: &str = r#"<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd">
        <topology version="2.0"><object type="Machine" cpuset="0x0000000f">
        <info name="HostName" value="rack2n07"/>
        <object type="NUMANode"/>
        <object type="Package" cpuset="0x0000000c">
          <object type="Core" cpuset="0x00000004"><object type="PU" cpuset="0x00000004"/></object>
          <object type="Core" cpuset="0x00000008"><object type="PU" cpuset="0x00000008"/></object>
          <object type="Bridge"><object type="PCIDev">
            <object type="OSDev" name="dma0" osdev_type="4"/>
            <object type="OSDev" name="eth0" osdev_type="2"/>
            <object type="OSDev" name="sda" osdev_type="0">
              <info name="Size" value="2000000"/></object>
            <object type="OSDev" name="rsmi3" osdev_type="1"/>
            <object type="OSDev" name="card0" osdev_type="1"/>
            <object type="OSDev" name="opencl1d2" osdev_type="5"/>
          </object></object>
        </object>
        <object type="Package" cpuset="0x00000003">
          <object type="L3Cache" cpuset="0x00000003" cache_size="2097152">
          <object type="Core" cpuset="0x00000001"/><object type="Core" cpuset="0x00000002"/>
          </object></object>
        </object></topology>"#;

    fn paths(text: &str, allowed: &str) -> Result<Vec<String>, Error> {
        let graph = read(text, PoolTypes::default(), &Allowlist::read(allowed))?;
        Ok(graph.vertices().map(|vertex| graph.path(vertex)).collect())
    }

    #[test]
    fn objects_come_in_the_order_of_processors_then_memory_then_devices() {
        let node = "/cluster0/rack2n07";
        let below = |rest: &[&str]| -> Vec<String> {
            let all = rest.iter().map(|rest| format!("{node}/{rest}"));
            ["/cluster0".to_owned(), node.to_owned()].into_iter().chain(all).collect()
        };
        assert_eq!(
            paths(MACHINE, "node,socket,core,storage,gpu").unwrap(),
            below(&[
                "socket0",
                "socket0/core0",
                "socket0/core1",
                "socket1",
                "socket1/core2",
                "socket1/core3",
                "socket1/storage1",
                "socket1/gpu3",
                "socket1/gpu2",
            ])
        );
        assert_eq!(
            paths(MACHINE, "node,numanode,L3cache,pu").unwrap(),
            below(&["L3cache0", "pu0", "pu1", "numanode0"])
        );
    }

    #[test]
    fn what_a_vertex_is_follows_from_its_object() {
        let graph = read(MACHINE, PoolTypes::default(), &Allowlist::default()).unwrap();
        let at = |path: &str| graph.at_path(path)[0];
        let node = at("/cluster0/rack2n07");
        assert_eq!((graph.id(node), graph.rank(node), graph.basename(node)), (7, 0, "rack2n"));
        let cache = at("/cluster0/rack2n07/socket0/L3cache0");
        assert_eq!((graph.kind_name(cache), graph.size(cache)), ("cache", 2048));
        let disk = at("/cluster0/rack2n07/socket1/storage1");
        assert_eq!((graph.size(disk), graph.rank(disk)), (2, -1));
        assert_eq!(graph.property(disk, "LinuxDeviceID"), Some("-1"));
    }

    #[test]
    fn memory_of_hwloc_1_has_no_levels() {
        let text = r#"<topology><object type="Machine"><info name="HostName" value="n"/>
            <object type="NUMANode" cpuset="0x1"><object type="Socket" cpuset="0x1">
            <object type="Core" cpuset="0x1"/></object></object></object></topology>"#;
        assert_eq!(
            paths(text, "node,numanode,socket,core").unwrap(),
            [
                "/cluster0",
                "/cluster0/n",
                "/cluster0/n/socket0",
                "/cluster0/n/socket0/core0",
                "/cluster0/n/numanode0"
            ]
        );
        assert_eq!(paths("", "").unwrap(), ["/cluster0"]);
    }

    #[test]
    fn a_gpu_that_two_drivers_name_is_two_vertices() {
        let text = r#"<topology version="2.0"><object type="Machine">
            <info name="HostName" value="n"/><object type="PCIDev">
            <object type="OSDev" name="cuda0" osdev_type="5"/>
            <object type="OSDev" name="opencl0d0" osdev_type="5"/></object></object></topology>"#;
        let gpus = paths(text, "node,gpu").unwrap();
        assert_eq!(gpus[2..], ["/cluster0/n/gpu0", "/cluster0/n/gpu0"]);
    }

    #[test]
    fn errors_tell_the_line() {
        for (text, says) in [
            ("<topology/>", "line 1: no object"),
            ("<lstopo/>", "no topology"),
            ("<topology>\n<object type=\"Core\"/></topology>", "line 2"),
            ("<topology><object", "topology: "),
            (
                r#"<topology><object type="Machine"><object type="OSDev" osdev_type="0"/>
                </object></topology>"#,
                "without Size",
            ),
            (
                r#"<topology><object type="Machine">
                <object type="OSDev" osdev_type="5" name="opencl"/></object></topology>"#,
                "opencl",
            ),
        ] {
            let error = paths(text, "").unwrap_err();
            assert!(error.text.contains(says), "{error}");
        }
        let deep = format!("<topology>{}", "<object type=\"Machine\">".repeat(300))
            + &"</object>".repeat(300)
            + "</topology>";
        assert!(paths(&deep, "").unwrap_err().text.contains("TOPOLOGY_DEPTH_MAX"));
    }
}
