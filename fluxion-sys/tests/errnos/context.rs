//! A context of the built-in library, of which each call tells what errno was.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use fluxion_sys::{Extensions, FunctionTable, errno, match_op_t, reapi_cli_ctx_t};

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

pub(crate) struct Context {
    table: FunctionTable,
    raw: *mut reapi_cli_ctx_t,
}

/// A node with two cores and two units of cpu, and what else is to be there.
fn graph(more: &str, edges: &str) -> String {
    format!(
        r#"{{"graph":{{"nodes":[
            {{"id":"0","metadata":{{"type":"cluster","id":0,"paths":{{"containment":"/c0"}}}}}},
            {{"id":"1","metadata":{{"type":"node","id":0,"rank":0,
            "paths":{{"containment":"/c0/node0"}}}}}},
            {{"id":"2","metadata":{{"type":"core","id":0,"rank":0,
            "paths":{{"containment":"/c0/node0/core0"}}}}}},
            {{"id":"3","metadata":{{"type":"core","id":1,"rank":0,
            "paths":{{"containment":"/c0/node0/core1"}}}}}},
            {{"id":"4","metadata":{{"type":"cpu","id":0,"rank":0,"size":2,
            "paths":{{"containment":"/c0/node0/cpu0"}}}}}}{more}],
            "edges":[{{"source":"0","target":"1"}},{{"source":"1","target":"2"}},{{"source":"1",
            "target":"3"}},{{"source":"1","target":"4"}}{edges}]}}}}"#
    )
}

/// A graph of whole vertices.
pub(crate) fn whole() -> Context {
    Context::of_whole("rv1_nosched")
}

/// A graph with pools of type cpu.
pub(crate) fn pools() -> Context {
    Context::with(
        &graph("", ""),
        r#""load_format":"jgf","match_format":"placement","pool_types":["cpu"]"#,
    )
}

/// The flexible traverser.
pub(crate) fn flexible() -> Context {
    Context::with(&graph("", ""), r#""load_format":"jgf","traverser_policy":"flexible""#)
}

/// A document with a node beside the first that has its `uniq_id`.
pub(crate) fn sibling() -> String {
    let node = r#",{"id":"9","metadata":{"type":"node","id":1,"uniq_id":1,"rank":1,
            "paths":{"containment":"/c0/node1"}}}"#;
    graph(node, r#",{"source":"0","target":"9"}"#)
}

fn jobspec(resources: &str) -> String {
    format!(
        r#"{{"version":1,"resources":[{resources}],"tasks":[{{"command":["a"],"slot":"s",
            "count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":60}}}}}}"#
    )
}

fn slot(label: &str, kind: &str, count: u32) -> String {
    format!(
        r#"{{"type":"slot","count":1,"label":"{label}","with":[{{"type":"{kind}",
            "count":{count}}}]}}"#
    )
}

/// A slot of whole cores.
pub(crate) fn cores(count: u32) -> String {
    jobspec(&slot("s", "core", count))
}

/// A slot of units of cpu.
pub(crate) fn units(count: u32) -> String {
    jobspec(&slot("s", "cpu", count))
}

/// A node with all that is on it.
pub(crate) fn whole_node() -> String {
    jobspec(&slot("s", "node", 1))
}

/// A node of which nothing is taken.
pub(crate) fn lone_node() -> String {
    jobspec(r#"{"type":"node","count":1}"#)
}

/// More shapes than are searched for, each of which fits alone.
pub(crate) fn many_shapes() -> String {
    jobspec(&(0..501).map(|at| slot(&format!("s{at}"), "cpu", 2)).collect::<Vec<_>>().join(","))
}

/// Choices that multiply to 2^10.
pub(crate) fn xor_slots() -> String {
    let choice = |kind| {
        format!(
            r#"{{"type":"xor_slot","count":1,"label":"s","with":[{{"type":"{kind}","count":1}}]}}"#
        )
    };
    let rack =
        format!(r#"{{"type":"rack","count":1,"with":[{},{}]}}"#, choice("core"), choice("gpu"));
    jobspec(&vec![rack; 10].join(","))
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

/// The errno of a call: 0 if it did not fail.
fn told(rc: c_int) -> c_int {
    if rc == 0 { 0 } else { errno::get() }
}

/// The places for the answer to a match.
struct Answer {
    id: u64,
    reserved: bool,
    r: *mut c_char,
    at: i64,
    ov: f64,
}

impl Default for Answer {
    fn default() -> Self {
        Answer { id: 0, reserved: false, r: ptr::null_mut(), at: 0, ov: 0.0 }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: NULL, or a text that the library has made for us.
        unsafe { free(self.r.cast()) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by this table, destroyed once.
        unsafe { (self.table.destroy)(self.raw) };
    }
}

impl Context {
    /// Without a graph.
    pub(crate) fn empty() -> Self {
        let table = FunctionTable::builtin();
        // SAFETY: a context may be made at any time.
        let raw = unsafe { (table.new)() };
        Context { table, raw }
    }

    fn with(graph: &str, options: &str) -> Self {
        let context = Context::empty();
        let seen = context.initialize(graph, &format!("{{{options}}}"));
        assert_eq!(seen, 0, "{options}");
        context
    }

    pub(crate) fn of_whole(format: &str) -> Self {
        let options =
            format!(r#""load_format":"jgf","matcher_policy":"low","match_format":"{format}""#);
        Context::with(&graph("", ""), &options)
    }

    /// A graph that a recipe makes.
    pub(crate) fn of_recipe() -> Self {
        let keys = concat!(
            r#"<key id="root" for="node" attr.name="root"/>"#,
            r#"<key id="type" for="node" attr.name="type"/>"#
        );
        let node =
            r#"<node id="c"><data key="root">1</data><data key="type">cluster</data></node>"#;
        Context::with(&format!(r#"<graphml>{keys}<graph id="g">{node}</graph></graphml>"#), "")
    }

    fn ext(&self) -> &'static Extensions {
        self.table.extensions.expect("the built-in library has them")
    }

    pub(crate) fn initialize(&self, graph: &str, options: &str) -> c_int {
        let (graph, options) = (text(graph), text(options));
        // SAFETY: a live context, texts that live through the call.
        told(unsafe { (self.table.initialize)(self.raw, graph.as_ptr(), options.as_ptr()) })
    }

    pub(crate) fn clone_of_it(&self) -> c_int {
        // SAFETY: a live context.
        let copy = unsafe { self.table.clone.expect("it is there")(self.raw) };
        assert!(copy.is_null());
        errno::get()
    }

    pub(crate) fn match_op(&self, op: match_op_t, jobspec: &str) -> c_int {
        let (jobspec, mut to) = (text(jobspec), Answer::default());
        let call = self.table.match_op.expect("it is there");
        // SAFETY: a live context, a text and places that live through the call.
        told(unsafe {
            call(
                self.raw,
                op,
                jobspec.as_ptr(),
                &raw mut to.id,
                &raw mut to.reserved,
                &raw mut to.r,
                &raw mut to.at,
                &raw mut to.ov,
            )
        })
    }

    pub(crate) fn match_with_jobid(&self, op: match_op_t, jobspec: &str, id: u64) -> c_int {
        let (jobspec, mut to) = (text(jobspec), Answer::default());
        let call = self.table.match_with_jobid.expect("it is there");
        // SAFETY: as above.
        told(unsafe {
            call(
                self.raw,
                op,
                jobspec.as_ptr(),
                id,
                &raw mut to.reserved,
                &raw mut to.r,
                &raw mut to.at,
                &raw mut to.ov,
            )
        })
    }

    pub(crate) fn match_allocate(&self, or_reserve: bool, jobspec: &str) -> c_int {
        let (jobspec, mut to) = (text(jobspec), Answer::default());
        // SAFETY: as above.
        told(unsafe {
            (self.table.match_allocate)(
                self.raw,
                or_reserve,
                jobspec.as_ptr(),
                &raw mut to.id,
                &raw mut to.reserved,
                &raw mut to.r,
                &raw mut to.at,
                &raw mut to.ov,
            )
        })
    }

    pub(crate) fn satisfy(&self, jobspec: &str) -> c_int {
        let (jobspec, mut to) = (text(jobspec), Answer::default());
        let call = self.table.match_satisfy.expect("it is there");
        // SAFETY: as above.
        told(unsafe { call(self.raw, jobspec.as_ptr(), &raw mut to.reserved, &raw mut to.ov) })
    }

    pub(crate) fn update(&self, id: u64, r: &str) -> c_int {
        let (r, mut to) = (text(r), Answer::default());
        let mut made: *const c_char = ptr::null();
        // SAFETY: as above.
        let rc = unsafe {
            let update = self.table.update_allocate;
            update(self.raw, id, r.as_ptr(), &raw mut to.at, &raw mut to.ov, &raw mut made)
        };
        let seen = told(rc);
        to.r = made.cast_mut();
        seen
    }

    pub(crate) fn cancel(&self, id: u64) -> c_int {
        // SAFETY: a live context.
        told(unsafe { (self.table.cancel)(self.raw, id, false) })
    }

    pub(crate) fn partial_cancel(&self, id: u64, r: &str) -> c_int {
        let (r, mut all) = (text(r), false);
        let call = self.table.partial_cancel.expect("it is there");
        // SAFETY: a live context, a text and a place that live through the call.
        told(unsafe { call(self.raw, id, r.as_ptr(), false, &raw mut all) })
    }

    pub(crate) fn info(&self, id: u64) -> c_int {
        let mut to = Answer::default();
        // SAFETY: a live context, places that live through the call.
        told(unsafe {
            let info = self.table.info;
            info(self.raw, id, &raw mut to.r, &raw mut to.reserved, &raw mut to.at, &raw mut to.ov)
        })
    }

    pub(crate) fn find(&self, criteria: &str, format: &CStr) -> c_int {
        let (criteria, mut to) = (text(criteria), Answer::default());
        let call = self.table.find.expect("it is there");
        // SAFETY: a live context, texts and a place that live through the call.
        told(unsafe { call(self.raw, criteria.as_ptr(), format.as_ptr(), &raw mut to.r) })
    }

    pub(crate) fn stat(&self) -> c_int {
        let (whole, part) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a live context; nothing is written.
        told(unsafe { (self.table.stat)(self.raw, whole, whole, whole, part, part, part, part) })
    }
}

/// Calls that take a text and answer with a number.
macro_rules! of_a_text {
    ($($name:ident, $table:ident;)*) => {
        impl Context {
            $(pub(crate) fn $name(&self, argument: &str) -> c_int {
                let argument = text(argument);
                // SAFETY: a live context, a text that lives through the call.
                told(unsafe {
                    self.table.$table.expect("it is there")(self.raw, argument.as_ptr())
                })
            })*
        }
    };
}

of_a_text! {
    add, add_subgraph;
    remove, remove_subgraph;
}

impl Context {
    pub(crate) fn set_status(&self, path: &str, status: u32) -> c_int {
        let (path, call) = (text(path), self.table.set_status.expect("it is there"));
        // SAFETY: a live context, a text that lives through the call.
        told(unsafe { call(self.raw, path.as_ptr(), status) })
    }

    pub(crate) fn get_status(&self, path: &str) -> c_int {
        let (path, call, mut to) = (text(path), self.table.get_status.expect("it is there"), 0);
        // SAFETY: a live context, a text and a place that live through the call.
        told(unsafe { call(self.raw, path.as_ptr(), &raw mut to) })
    }

    pub(crate) fn set_rank_status(&self, ranks: &str, status: u32) -> c_int {
        let (ranks, call) = (text(ranks), self.table.set_rank_status.expect("it is there"));
        // SAFETY: as above.
        told(unsafe { call(self.raw, ranks.as_ptr(), status) })
    }

    pub(crate) fn get_rank_status(&self, rank: &str) -> c_int {
        let (rank, call, mut to) =
            (text(rank), self.table.get_rank_status.expect("it is there"), 0);
        // SAFETY: as above.
        told(unsafe { call(self.raw, rank.as_ptr(), &raw mut to) })
    }

    pub(crate) fn set_time(&self, now: i64) -> c_int {
        // SAFETY: a live context.
        told(unsafe { (self.ext().set_time)(self.raw, now) })
    }

    pub(crate) fn move_job(&self, id: u64) -> c_int {
        let (mut to, mut later) = (Answer::default(), 0);
        // SAFETY: a live context, places that live through the call.
        told(unsafe {
            let call = self.ext().move_job;
            call(self.raw, id, &raw mut to.at, &raw mut to.reserved, &raw mut to.r, &raw mut later)
        })
    }

    pub(crate) fn begin_trial(&self) -> c_int {
        // SAFETY: a live context.
        told(unsafe { (self.ext().begin_trial)(self.raw) })
    }

    pub(crate) fn end_trial(&self) -> c_int {
        // SAFETY: a live context.
        told(unsafe { (self.ext().end_trial)(self.raw) })
    }

    pub(crate) fn charge(&self, charge: &str) -> c_int {
        let charge = text(charge);
        // SAFETY: a live context, a text that lives through the call.
        told(unsafe { (self.ext().charge)(self.raw, 1, charge.as_ptr()) })
    }

    pub(crate) fn release(&self, id: u64, rank: u32) -> c_int {
        // SAFETY: as above.
        told(unsafe { (self.ext().release)(self.raw, id, rank, c"s".as_ptr(), 1) })
    }

    pub(crate) fn resize(&self, rank: u32, kind: &str, size: u64) -> c_int {
        let kind = text(kind);
        // SAFETY: as above.
        told(unsafe { (self.ext().resize)(self.raw, rank, kind.as_ptr(), size) })
    }

    pub(crate) fn remove_rank(&self, rank: u32) -> c_int {
        // SAFETY: a live context.
        told(unsafe { (self.ext().remove_rank)(self.raw, rank) })
    }

    pub(crate) fn set_part(&self, level: &str, ranks: &str) -> c_int {
        let (level, ranks) = (text(level), text(ranks));
        // SAFETY: a live context, texts that live through the call.
        told(unsafe {
            (self.ext().set_part)(self.raw, level.as_ptr(), ranks.as_ptr(), c"p".as_ptr())
        })
    }

    pub(crate) fn eligible(&self, jobspec: &str) -> c_int {
        let (jobspec, mut to) = (text(jobspec), Answer::default());
        // SAFETY: a live context, a text and a place that live through the call.
        told(unsafe { (self.ext().eligible)(self.raw, jobspec.as_ptr(), &raw mut to.r) })
    }

    pub(crate) fn explain(&self, jobspec: &str) -> c_int {
        let (jobspec, mut to) = (text(jobspec), Answer::default());
        // SAFETY: as above.
        told(unsafe { (self.ext().explain)(self.raw, jobspec.as_ptr(), &raw mut to.r) })
    }

    pub(crate) fn usage(&self, rank: u32) -> c_int {
        let mut to = Answer::default();
        // SAFETY: as above.
        told(unsafe { (self.ext().usage)(self.raw, rank, &raw mut to.r) })
    }
}
