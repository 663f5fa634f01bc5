//! Machines and requests as texts, and a context behind the C ABI.
//!
//! Everything goes through [`FunctionTable`]: JSON in, R out. Where the environment variable
//! `FLUXION_LIBRARY` names another libreapi_cli.so, the same calls go there too.
#![allow(unsafe_code, reason = "the C boundary is what is measured")]
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by benches that need different parts; a bench may panic"
)]

use std::ffi::{CStr, CString, c_char};
use std::fmt::Write as _;
use std::path::Path;

use fluxion_sys::{FunctionTable, match_op, match_op_t, reapi_cli_ctx_t};

/// A context of a library, destroyed with this value.
pub(crate) struct Context {
    table: FunctionTable,
    raw: *mut reapi_cli_ctx_t,
}

/// A grant.
pub(crate) struct Granted {
    pub(crate) job: u64,
    pub(crate) at: i64,
    pub(crate) r: String,
}

impl Context {
    /// A context of the built-in library; `more` are further options, each with a comma before it.
    pub(crate) fn new(format: &str, policy: &str, graph: &str, more: &str) -> Self {
        Context::of(FunctionTable::builtin(), format, policy, graph, more)
    }

    /// A context of any library.
    pub(crate) fn of(
        table: FunctionTable,
        format: &str,
        policy: &str,
        graph: &str,
        more: &str,
    ) -> Self {
        let options = format!(
            r#"{{"load_format":"{format}","matcher_policy":"{policy}","match_format":"rv1_nosched","matcher_name":"CA","prune_filters":"ALL:core,ALL:node"{more}}}"#
        );
        Context::with(table, graph, &options)
    }

    /// A context of the built-in library that answers as the scheduler has it.
    pub(crate) fn of_pools(graph: &str) -> Self {
        let pools = r#","pool_types":["cpu","memory","pods","gpu"]"#;
        let options = format!(
            r#"{{"load_format":"jgf","matcher_policy":"lonode","match_format":"placement"{pools}}}"#
        );
        Context::with(FunctionTable::builtin(), graph, &options)
    }

    fn with(table: FunctionTable, graph: &str, options: &str) -> Self {
        let (graph, options) = (CString::new(graph).unwrap(), CString::new(options).unwrap());
        // SAFETY: the context is new, the texts end in NUL.
        let raw = unsafe { (table.new)() };
        let context = Context { table, raw };
        // SAFETY: as above.
        let rc = unsafe { (table.initialize)(raw, graph.as_ptr(), options.as_ptr()) };
        assert_eq!(rc, 0, "{}", context.error());
        context
    }

    /// Matches; an error is -1.
    pub(crate) fn try_match(&mut self, op: match_op_t, jobspec: &CStr) -> Option<Granted> {
        let (mut job, mut reserved, mut at, mut ov) = (0, false, 0, 0.0);
        let mut r: *mut c_char = std::ptr::null_mut();
        let call = self.table.match_op.unwrap();
        // SAFETY: the context is alive, all pointers are to locals, the text ends in NUL.
        let rc = unsafe {
            call(
                self.raw,
                op,
                jobspec.as_ptr(),
                &raw mut job,
                &raw mut reserved,
                &raw mut r,
                &raw mut at,
                &raw mut ov,
            )
        };
        if rc != 0 {
            return None;
        }
        // SAFETY: on success R is a string of malloc, which is ours.
        let text = unsafe {
            let text = CStr::from_ptr(r).to_string_lossy().into_owned();
            free(r.cast());
            text
        };
        Some(Granted { job, at, r: text })
    }

    /// Matches now.
    pub(crate) fn allocate(&mut self, jobspec: &CStr) -> Granted {
        let granted = self.try_match(match_op::ALLOCATE, jobspec);
        granted.unwrap_or_else(|| panic!("no match: {}", self.error()))
    }

    /// Matches now or later.
    pub(crate) fn reserve(&mut self, jobspec: &CStr) -> Granted {
        let granted = self.try_match(match_op::ALLOCATE_ORELSE_RESERVE, jobspec);
        granted.unwrap_or_else(|| panic!("no match: {}", self.error()))
    }

    /// Ends a job.
    pub(crate) fn cancel(&mut self, job: u64) {
        // SAFETY: the context is alive.
        assert_eq!(unsafe { (self.table.cancel)(self.raw, job, false) }, 0, "{}", self.error());
    }

    /// Moves a reservation; returns when it starts.
    pub(crate) fn move_job(&mut self, job: u64) -> i64 {
        let (mut at, mut reserved, mut later) = (0, false, 0);
        let mut r: *mut c_char = std::ptr::null_mut();
        let call = self.table.extensions.unwrap().move_job;
        // SAFETY: the context is alive, all pointers are to locals; on success R is a string of
        // malloc, which is ours.
        let rc = unsafe {
            let rc =
                call(self.raw, job, &raw mut at, &raw mut reserved, &raw mut r, &raw mut later);
            if rc == 0 {
                free(r.cast());
            }
            rc
        };
        assert_eq!(rc, 0, "{}", self.error());
        at
    }

    /// Puts ranks into a part of a level.
    pub(crate) fn set_part(&mut self, level: &CStr, ranks: &str, part: &str) {
        let (ranks, part) = (CString::new(ranks).unwrap(), CString::new(part).unwrap());
        let call = self.table.extensions.unwrap().set_part;
        // SAFETY: the context is alive, the texts end in NUL.
        let rc = unsafe { call(self.raw, level.as_ptr(), ranks.as_ptr(), part.as_ptr()) };
        assert_eq!(rc, 0, "{}", self.error());
    }

    /// Begins a trial, or ends it.
    pub(crate) fn trial(&mut self, begin: bool) {
        let extensions = self.table.extensions.unwrap();
        let call = if begin { extensions.begin_trial } else { extensions.end_trial };
        // SAFETY: the context is alive.
        assert_eq!(unsafe { call(self.raw) }, 0, "{}", self.error());
    }

    /// A copy of all of it, which is destroyed at once.
    pub(crate) fn copy(&self) {
        // SAFETY: the context is alive; the copy is ours.
        unsafe { (self.table.destroy)((self.table.clone.unwrap())(self.raw)) };
    }

    /// Why a request does not fit.
    pub(crate) fn explain(&mut self, jobspec: &CStr) -> String {
        let mut text: *mut c_char = std::ptr::null_mut();
        let call = self.table.extensions.unwrap().explain;
        // SAFETY: the context is alive; on success the text is ours.
        unsafe {
            assert_eq!(call(self.raw, jobspec.as_ptr(), &raw mut text), 0, "{}", self.error());
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            free(text.cast());
            copy
        }
    }

    /// The vertices of which criteria hold.
    pub(crate) fn find(&self, criteria: &CStr) -> Option<String> {
        let mut text: *mut c_char = std::ptr::null_mut();
        let call = self.table.find.unwrap();
        // SAFETY: the context is alive, the text ends in NUL; on success the answer is ours, or
        // NULL.
        unsafe {
            let rc = call(self.raw, criteria.as_ptr(), c"rv1_nosched".as_ptr(), &raw mut text);
            assert_eq!(rc, 0, "{}", self.error());
            if text.is_null() {
                return None;
            }
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            free(text.cast());
            Some(copy)
        }
    }

    /// Adds the vertices of a document that are not there yet.
    pub(crate) fn add_subgraph(&self, document: &CStr) {
        // SAFETY: the context is alive, the text ends in NUL.
        let rc = unsafe { self.table.add_subgraph.unwrap()(self.raw, document.as_ptr()) };
        assert_eq!(rc, 0, "{}", self.error());
    }

    /// Puts a slot of a job on a rank, to an instant.
    pub(crate) fn charge(&mut self, job: u64, charge: &str) {
        let charge = CString::new(charge).unwrap();
        // SAFETY: the context is alive, the text ends in NUL.
        let rc = unsafe { (self.table.extensions.unwrap().charge)(self.raw, job, charge.as_ptr()) };
        assert_eq!(rc, 0, "{}", self.error());
    }

    /// Older versions of upstream cannot take a part of a job back.
    pub(crate) fn has_partial_cancel(&self) -> bool {
        self.table.partial_cancel.is_some()
    }

    /// Takes a part of a job back; returns whether that was all of it.
    pub(crate) fn partial_cancel(&mut self, job: u64, r: &CStr) -> bool {
        let mut full = false;
        let call = self.table.partial_cancel.unwrap();
        // SAFETY: the context is alive, the text ends in NUL.
        let rc = unsafe { call(self.raw, job, r.as_ptr(), false, &raw mut full) };
        assert_eq!(rc, 0, "{}", self.error());
        full
    }

    fn error(&self) -> String {
        // SAFETY: the context is alive; the text is ours.
        unsafe {
            let text = (self.table.get_err_msg)(self.raw);
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            free(text.cast());
            copy
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe { (self.table.destroy)(self.raw) };
    }
}

unsafe extern "C" {
    fn free(pointer: *mut std::ffi::c_void);
}

/// The library that `FLUXION_LIBRARY` names.
pub(crate) fn upstream() -> Option<FunctionTable> {
    let path = std::env::var_os("FLUXION_LIBRARY")?;
    Some(
        FunctionTable::open(Path::new(&path))
            .unwrap_or_else(|error| panic!("FLUXION_LIBRARY: {error}")),
    )
}

/// What lies in every node: type, how many, size.
pub(crate) type Parts<'a> = &'a [(&'a str, u64, u64)];

/// 36 cores, 4 GPUs and memory, one vertex each.
pub(crate) const CORES: Parts<'static> = &[("core", 36, 1), ("gpu", 4, 1), ("memory", 1, 256)];
/// 32 cores in thousandths, 256 GiB, 110 pods: with `POOLS` as options.
pub(crate) const PODS: Parts<'static> =
    &[("cpu", 1, 32_000), ("memory", 1, 256 << 30), ("pods", 1, 110)];
/// The same with 8 GPUs: for contexts that answer as the scheduler has it.
pub(crate) const PODS_AND_GPUS: Parts<'static> =
    &[("cpu", 1, 32_000), ("memory", 1, 256 << 30), ("pods", 1, 110), ("gpu", 1, 8)];
/// The options that make the parts of a node pools.
pub(crate) const POOLS: &str = r#","pool_types":["cpu","memory","pods"]"#;

/// JGF of a cluster of equal nodes. Every other node has the property `arm`.
pub(crate) fn jgf(nodes: u64, parts: Parts<'_>) -> String {
    let per_node: u64 = parts.iter().map(|(_, count, _)| count).sum::<u64>() + 1;
    let mut text = String::from(
        r#"{"graph":{"nodes":[{"id":"0","metadata":{"type":"cluster","basename":"cluster","name":"cluster0","id":0,"uniq_id":0,"rank":-1,"exclusive":false,"unit":"","size":1,"paths":{"containment":"/cluster0"}}}"#,
    );
    for node in 0..nodes {
        let mut id = 1 + node * per_node;
        let properties = if node % 2 == 0 { r#","properties":{"arm":""}"# } else { "" };
        let _ = write!(
            text,
            r#",{{"id":"{id}","metadata":{{"type":"node","basename":"node","name":"node{node}","id":{node},"uniq_id":{id},"rank":{node},"exclusive":false,"unit":"","size":1{properties},"paths":{{"containment":"/cluster0/node{node}"}}}}}}"#
        );
        for (kind, count, size) in parts {
            for at in 0..*count {
                id += 1;
                let _ = write!(
                    text,
                    r#",{{"id":"{id}","metadata":{{"type":"{kind}","basename":"{kind}","name":"{kind}{at}","id":{at},"uniq_id":{id},"rank":{node},"exclusive":false,"unit":"","size":{size},"paths":{{"containment":"/cluster0/node{node}/{kind}{at}"}}}}}}"#
                );
            }
        }
    }
    text.push_str("],\"edges\":[");
    for node in 0..nodes {
        let top = 1 + node * per_node;
        let comma = if node == 0 { "" } else { "," };
        let _ = write!(text, r#"{comma}{{"source":"0","target":"{top}"}}"#);
        for below in top + 1..top + per_node {
            let _ = write!(text, r#",{{"source":"{top}","target":"{below}"}}"#);
        }
    }
    text.push_str("]}}");
    text
}

/// GRUG of a cluster of nodes with `cores` cores each.
pub(crate) fn grug(nodes: u64, cores: u64) -> String {
    let node = |id: &str, kind: &str, root: u8| {
        format!(
            r#"<node id="{id}"><data key="root">{root}</data><data key="type">{kind}</data><data key="basename">{kind}</data><data key="size">1</data><data key="subsystem">containment</data></node>"#
        )
    };
    let edge = |id: &str, from: &str, to: &str, scale: u64| {
        format!(
            r#"<edge id="{id}" source="{from}" target="{to}"><data key="e_subsystem">containment</data><data key="relation">contains</data><data key="rrelation">in</data><data key="gen_method">MULTIPLY</data><data key="multi_scale">{scale}</data></edge>"#
        )
    };
    let mut text = String::from(
        r#"<?xml version="1.0" encoding="UTF-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">"#,
    );
    for (id, of, kind, default) in [
        ("root", "node", "int", "0"),
        ("type", "node", "string", ""),
        ("basename", "node", "string", ""),
        ("size", "node", "long", "1"),
        ("subsystem", "node", "string", "containment"),
        ("e_subsystem", "edge", "string", "containment"),
        ("relation", "edge", "string", "contains"),
        ("rrelation", "edge", "string", "in"),
        ("id_scope", "edge", "int", "0"),
        ("id_start", "edge", "int", "0"),
        ("id_stride", "edge", "int", "1"),
        ("gen_method", "edge", "string", "MULTIPLY"),
        ("multi_scale", "edge", "int", "1"),
    ] {
        let _ = write!(
            text,
            r#"<key id="{id}" for="{of}" attr.name="{id}" attr.type="{kind}"><default>{default}</default></key>"#
        );
    }
    text.push_str(r#"<graph id="G" edgedefault="directed">"#);
    text.push_str(&node("cluster", "cluster", 1));
    text.push_str(&node("node", "node", 0));
    text.push_str(&node("core", "core", 0));
    text.push_str(&edge("a", "cluster", "node", nodes));
    text.push_str(&edge("b", "node", "core", cores));
    text.push_str("</graph></graphml>");
    text
}

/// A jobspec with these resources (JSON), for some seconds, with a constraint (JSON, or "").
pub(crate) fn jobspec(resources: &str, seconds: u64, constraint: &str) -> CString {
    let constraint = if constraint.is_empty() {
        String::new()
    } else {
        format!(r#","constraints":{constraint}"#)
    };
    CString::new(format!(
        r#"{{"version":9999,"resources":[{resources}],"attributes":{{"system":{{"duration":{seconds}{constraint}}}}},"tasks":[{{"command":["app"],"slot":"task","count":{{"per_slot":1}}}}]}}"#
    ))
    .unwrap()
}

/// `count` slots of these parts.
pub(crate) fn slots(count: u64, parts: &[(&str, u64)]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|(kind, count)| format!(r#"{{"type":"{kind}","count":{count}}}"#))
        .collect();
    format!(r#"{{"type":"slot","count":{count},"label":"task","with":[{}]}}"#, parts.join(","))
}

/// Slots of two labels, each on its own ranks, at most one slot of both on a node.
pub(crate) fn two_shapes(
    counts: [u64; 2],
    ranks: [std::ops::Range<u64>; 2],
    parts: &[(&str, u64)],
) -> CString {
    let slot = |at: usize| slots(counts[at], parts).replace("\"task\"", &format!("\"{at}\""));
    let own = |at: usize| {
        let last = ranks[at].end - 1;
        format!(r#"{{"label":"{at}","ranks":"{}-{last}"}}"#, ranks[at].start)
    };
    CString::new(format!(
        r#"{{"version":1,"resources":[{},{}],"tasks":[{{"command":["app"],"slot":"0","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":3600,"fluxion":{{"slots":[{},{}],"max_per_node":[{{"labels":["0","1"],"count":1}}]}}}}}}}}"#,
        slot(0), slot(1), own(0), own(1)
    ))
    .unwrap()
}

/// `count` nodes, each with a slot of all its cores: had alone.
pub(crate) fn whole_nodes(count: u64, cores: u64) -> String {
    format!(
        r#"{{"type":"node","count":{count},"exclusive":true,"with":[{}]}}"#,
        slots(1, &[("core", cores)])
    )
}
