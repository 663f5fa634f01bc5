//! A context of the library, owned; the only place outside of fluxion-sys that calls C.
#![allow(unsafe_code, reason = "calls the C functions of fluxion-sys")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use fluxion_sys::{
    Extensions, FLUXION_EXT_EVENTUALLY, FunctionTable, errno, match_op, match_op_t, reapi_cli_ctx_t, status,
};

use super::answer::{self, Explanation, NodeUsage};
use super::{End, Forecast, GraphError, Placement, Policy, Rank, RankSet, Request, json};
use crate::cluster::Resources;

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

/// A resource graph of nodes with pools. Calls that fail change nothing.
#[derive(Debug)]
pub struct Graph {
    ctx: NonNull<reapi_cli_ctx_t>,
    table: FunctionTable,
    extensions: Extensions,
    match_with_jobid: MatchWithJobid,
    /// The nodes that were added, since the library takes one that is there for an addition of nothing.
    nodes: RankSet,
    /// The present as it was told, to know an answer that means now.
    now: i64,
    /// Requests are written here, and end in NUL.
    buffer: String,
}

type MatchWithJobid = unsafe extern "C" fn(
    *mut reapi_cli_ctx_t,
    match_op_t,
    *const c_char,
    u64,
    *mut bool,
    *mut *mut c_char,
    *mut i64,
    *mut f64,
) -> c_int;

// SAFETY: a context may move between threads (see the header); `&mut self` everywhere keeps two from using it at once.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the context came from `new` of this table, and is used no more.
        unsafe { (self.table.destroy)(self.ctx.as_ptr()) }
    }
}

impl Graph {
    /// A graph without nodes, in the library behind the table, which must have the extensions.
    pub fn new(table: FunctionTable, policy: Policy) -> Result<Self, GraphError> {
        let missing = |what: &str| GraphError {
            operation: "new",
            errno: errno::ENOSYS,
            text: format!("the Fluxion library lacks {what}"),
        };
        let extensions = table.extensions.ok_or_else(|| missing("fluxion_ext_*"))?;
        let match_with_jobid = table.match_with_jobid.ok_or_else(|| missing("reapi_cli_match_with_jobid"))?;
        // SAFETY: may be called at any time.
        let ctx = NonNull::new(unsafe { (table.new)() }).ok_or_else(|| missing("memory"))?;
        let mut graph =
            Graph { ctx, table, extensions, match_with_jobid, nodes: RankSet::new(), now: 0, buffer: String::new() };
        let document = c_string("new", json::empty_graph())?;
        let options = format!(
            r#"{{"load_format":"jgf","matcher_name":"CA","matcher_policy":"{}","match_format":"placement","pool_types":["*"]}}"#,
            policy.as_str()
        );
        let options = c_string("new", options)?;
        // SAFETY: our context, strings that live through the call.
        let rc = unsafe { (graph.table.initialize)(graph.raw(), document.as_ptr(), options.as_ptr()) };
        graph.check("new", rc)?;
        Ok(graph)
    }

    /// Moves the present, in seconds of the epoch. It never goes back.
    pub fn set_time(&mut self, now_seconds: i64) -> Result<(), GraphError> {
        // SAFETY: our context.
        let rc = unsafe { (self.extensions.set_time)(self.raw(), now_seconds) };
        self.check("set_time", rc)?;
        self.now = self.now.max(now_seconds);
        Ok(())
    }

    /// Adds a node that is up; its rank must be new. Amounts beyond 2^63 - 1 count as that.
    pub fn add_node(&mut self, rank: Rank, name: &str, pools: &Resources) -> Result<(), GraphError> {
        let add_subgraph = self.table.add_subgraph.ok_or_else(|| absent("add_node"))?;
        if self.nodes.contains(rank) {
            let text = format!("rank {rank}: another node has it");
            return Err(GraphError { operation: "add_node", errno: errno::EEXIST, text });
        }
        let document = self.write("add_node", |out| json::node(out, rank, name, pools))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { add_subgraph(self.raw(), document) };
        self.check("add_node", rc)?;
        self.nodes.insert(rank);
        Ok(())
    }

    /// Sets how much a node has of a resource; 0 takes it away. What is taken of it stays.
    pub fn resize(&mut self, rank: Rank, resource: &str, size: u64) -> Result<(), GraphError> {
        let resource = self.write("resize", |out| out.push_str(resource))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { (self.extensions.resize)(self.raw(), rank, resource, size) };
        self.check("resize", rc)
    }

    /// Removes a node; slots on it vanish from their jobs, and a job that has none left ends.
    pub fn remove_node(&mut self, rank: Rank) -> Result<(), GraphError> {
        // SAFETY: our context.
        let rc = unsafe { (self.extensions.remove_rank)(self.raw(), rank) };
        self.check("remove_node", rc)?;
        self.nodes.remove(rank);
        Ok(())
    }

    /// Marks a node up or down. A node that is down keeps its jobs and gets no new ones.
    pub fn set_up(&mut self, rank: Rank, up: bool) -> Result<(), GraphError> {
        let set_rank_status = self.table.set_rank_status.ok_or_else(|| absent("set_up"))?;
        let rank = self.write("set_up", |out| out.push_str(&rank.to_string()))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { set_rank_status(self.raw(), rank, if up { status::UP } else { status::DOWN }) };
        self.check("set_up", rc)
    }

    /// Takes a place for all slots of a request. `None`: they do not fit now. The job must be new.
    pub fn allocate(&mut self, job: u64, request: &Request<'_>) -> Result<Option<Placement>, GraphError> {
        match self.ask("allocate", match_op::ALLOCATE, job, request) {
            Ok((text, _)) => match answer::placement(&text, request) {
                Ok(placement) => Ok(Some(placement)),
                Err(why) => {
                    // What nobody knows about must not stay taken.
                    self.cancel(job)?;
                    Err(GraphError { operation: "allocate", errno: errno::EPROTO, text: why })
                }
            },
            Err(error) if error.errno == errno::EBUSY => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// When a request could start. Takes nothing.
    pub fn forecast(&mut self, request: &Request<'_>) -> Result<Forecast, GraphError> {
        match self.ask("forecast", match_op::WITHOUT_ALLOCATING_FUTURE, 0, request) {
            Ok((_, at)) if at >= FLUXION_EXT_EVENTUALLY => Ok(Forecast::Eventually),
            Ok((_, at)) if at <= self.now => Ok(Forecast::Now),
            Ok((_, at)) => Ok(Forecast::At(at)),
            Err(error) if error.errno == errno::EBUSY => Ok(Forecast::Blocked),
            Err(error) if error.errno == errno::ENODEV => Ok(Forecast::Never),
            Err(error) => Err(error),
        }
    }

    /// The ranks on which at least one slot of some shape fits once everything that has an end has ended.
    pub fn eligible(&mut self, request: &Request<'_>) -> Result<RankSet, GraphError> {
        let text = self.report("eligible", self.extensions.eligible, request)?;
        text.parse().map_err(|error| unreadable("eligible", &error))
    }

    /// What there is for each shape of a request, now and on the idle machine.
    pub fn explain(&mut self, request: &Request<'_>) -> Result<Explanation, GraphError> {
        let text = self.report("explain", self.extensions.explain, request)?;
        serde_json::from_str(&text).map_err(|error| unreadable("explain", &error))
    }

    /// Puts slots of a job on a node, whether or not they fit; the job is made if it is new.
    pub fn charge(
        &mut self,
        job: u64,
        rank: Rank,
        label: &str,
        requests: &Resources,
        count: u64,
        end: End,
    ) -> Result<(), GraphError> {
        let charge = self.write("charge", |out| json::charge(out, rank, label, requests, count, end))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { (self.extensions.charge)(self.raw(), job, charge) };
        self.check("charge", rc)
    }

    /// Gives back `count` slots of a label that a job has on a node. With its last slot the job ends.
    pub fn release(&mut self, job: u64, rank: Rank, label: &str, count: u64) -> Result<(), GraphError> {
        let label = self.write("release", |out| out.push_str(label))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { (self.extensions.release)(self.raw(), job, rank, label, count) };
        self.check("release", rc)
    }

    /// Gives back everything of a job. One that has ended already is none the worse.
    pub fn cancel(&mut self, job: u64) -> Result<(), GraphError> {
        // SAFETY: our context.
        let rc = unsafe { (self.table.cancel)(self.raw(), job, true) };
        self.check("cancel", rc)
    }

    /// What a node has, and what is taken of it now.
    pub fn usage(&mut self, rank: Rank) -> Result<NodeUsage, GraphError> {
        let mut text = ptr::null_mut();
        // SAFETY: our context, and a place for the answer.
        let rc = unsafe { (self.extensions.usage)(self.raw(), rank, &raw mut text) };
        self.check("usage", rc)?;
        serde_json::from_str(&take(text)).map_err(|error| unreadable("usage", &error))
    }

    fn ask(
        &mut self,
        operation: &'static str,
        op: match_op_t,
        job: u64,
        request: &Request<'_>,
    ) -> Result<(String, i64), GraphError> {
        let jobspec = self.write(operation, |out| json::jobspec(out, request))?;
        let (mut reserved, mut r, mut at, mut overhead) = (false, ptr::null_mut(), 0, 0.0);
        // SAFETY: our context, a string that ends in NUL and lives through the call, places for the answer.
        let rc = unsafe {
            (self.match_with_jobid)(
                self.raw(),
                op,
                jobspec,
                job,
                &raw mut reserved,
                &raw mut r,
                &raw mut at,
                &raw mut overhead,
            )
        };
        self.check(operation, rc)?;
        Ok((take(r), at))
    }

    fn report(
        &mut self,
        operation: &'static str,
        function: unsafe extern "C" fn(*mut reapi_cli_ctx_t, *const c_char, *mut *mut c_char) -> c_int,
        request: &Request<'_>,
    ) -> Result<String, GraphError> {
        let jobspec = self.write(operation, |out| json::jobspec(out, request))?;
        let mut text = ptr::null_mut();
        // SAFETY: our context, a string that ends in NUL and lives through the call, a place for the answer.
        let rc = unsafe { function(self.raw(), jobspec, &raw mut text) };
        self.check(operation, rc)?;
        Ok(take(text))
    }

    /// Writes an argument into the buffer, which keeps it until the next one.
    fn write(&mut self, operation: &'static str, fill: impl FnOnce(&mut String)) -> Result<*const c_char, GraphError> {
        self.buffer.clear();
        fill(&mut self.buffer);
        self.buffer.push('\0');
        match CStr::from_bytes_with_nul(self.buffer.as_bytes()) {
            Ok(text) => Ok(text.as_ptr()),
            Err(_) => Err(with_nul(operation)),
        }
    }

    fn raw(&self) -> *mut reapi_cli_ctx_t {
        self.ctx.as_ptr()
    }

    /// Reads errno right after a call that failed, and takes the text that it left.
    fn check(&mut self, operation: &'static str, rc: c_int) -> Result<(), GraphError> {
        if rc == 0 {
            return Ok(());
        }
        let errno = errno::get();
        // EBUSY and ENODEV are answers, frequent, and leave no text.
        if errno == errno::EBUSY || errno == errno::ENODEV {
            return Err(GraphError { operation, errno, text: String::new() });
        }
        // SAFETY: our context.
        let text = unsafe { take((self.table.get_err_msg)(self.raw())) };
        // SAFETY: our context.
        unsafe { (self.table.clear_err_msg)(self.raw()) };
        Err(GraphError { operation, errno, text: text.trim_end().to_owned() })
    }
}

/// A string of the library, freed after it is copied. "" for NULL.
fn take(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: strings that the library hands out end in NUL, and are ours until we free them.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        free(text.cast());
        copy
    }
}

fn c_string(operation: &'static str, text: String) -> Result<CString, GraphError> {
    CString::new(text).map_err(|_| with_nul(operation))
}

fn absent(operation: &'static str) -> GraphError {
    GraphError { operation, errno: errno::ENOSYS, text: "the Fluxion library lacks it".to_owned() }
}

fn with_nul(operation: &'static str) -> GraphError {
    GraphError { operation, errno: errno::EINVAL, text: "an argument holds a NUL character".to_owned() }
}

fn unreadable(operation: &'static str, error: &dyn std::fmt::Display) -> GraphError {
    GraphError { operation, errno: errno::EPROTO, text: format!("cannot read the answer: {error}") }
}

#[cfg(test)]
mod tests;
