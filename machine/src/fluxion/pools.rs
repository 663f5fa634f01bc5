//! A graph with nodes made of pools of units: the questions of the core, in a library that has the
//! extensions.
#![allow(unsafe_code, reason = "calls the extensions of fluxion-sys")]

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use fluxion_sys::{
    Extensions, FLUXION_EXT_EVENTUALLY, FunctionTable, errno, later, match_op, match_op_t,
    reapi_cli_ctx_t, status,
};

use super::answer::{self, Explanation, NodeUsage};
use super::context::{Context, lacks, take, with_nul};
use super::error::GraphError;
use super::json;
use super::placement::{Booking, Fit, Forecast, Later, Moved, Placement, Reserved, Steps};
use super::rankset::{Rank, RankSet};
use super::request::{End, Policy, Request, Tenancy};
use fluxqueue_workload::Resources;

/// A resource graph of nodes with pools. Calls that fail change nothing.
#[derive(Debug)]
pub(super) struct PoolGraph {
    context: Context,
    extensions: &'static Extensions,
    /// The nodes that were added, since the library takes one that is there for an addition of
    /// nothing.
    nodes: RankSet,
    /// The present as it was set, to recognize an answer that means now.
    now: i64,
    /// True if it is a copy, and all changes to it are a trial.
    is_copy: bool,
    steps: Steps,
}

impl PoolGraph {
    /// A graph without nodes, in the library behind the table.
    pub(super) fn new(
        table: FunctionTable,
        extensions: &'static Extensions,
        policy: Policy,
        search_steps: u64,
    ) -> Result<Self, GraphError> {
        let options = format!(
            r#"{{"load_format":"jgf","matcher_name":"CA","matcher_policy":"{}","match_format":"placement","pool_types":["*"],"search_budget":{search_steps}}}"#,
            policy.as_str()
        );
        let context = Context::new(table, json::empty_graph(), options)?;
        let (nodes, steps) = (RankSet::new(), Steps::default());
        Ok(PoolGraph { context, extensions, nodes, now: 0, is_copy: false, steps })
    }

    /// True if the library makes copies.
    pub(super) fn can_be_copied(&self) -> bool {
        self.context.table.clone.is_some()
    }

    /// A copy with all that is taken, which stays without effect on this graph.
    pub(super) fn copy(&mut self) -> Result<Self, GraphError> {
        let mut context = self.context.copy()?;
        // Else a job that is cancelled in the copy would show as cancelled here: both share its
        // record. The copy of a copy goes on with the trial of that.
        if !self.is_copy {
            // SAFETY: our context.
            let rc = unsafe { (self.extensions.begin_trial)(context.raw()) };
            context.check("copy", rc)?;
        }
        let (extensions, nodes) = (self.extensions, self.nodes.clone());
        let steps = Steps::default();
        Ok(PoolGraph { context, extensions, nodes, now: self.now, is_copy: true, steps })
    }

    /// Moves the present, in seconds of the epoch. It never goes back.
    pub(super) fn set_time(&mut self, now_seconds: i64) -> Result<(), GraphError> {
        // SAFETY: our context.
        let rc = unsafe { (self.extensions.set_time)(self.context.raw(), now_seconds) };
        self.context.check("set_time", rc)?;
        self.now = self.now.max(now_seconds);
        Ok(())
    }

    /// Adds a node that is up; its rank must be new. Amounts beyond 2^63 - 1 count as that.
    pub(super) fn add_node(
        &mut self,
        rank: Rank,
        name: &str,
        pools: &Resources,
    ) -> Result<(), GraphError> {
        if self.nodes.contains(rank) {
            let text = format!("rank {rank}: another node has it");
            return Err(GraphError { operation: "add_node", errno: errno::EEXIST, text });
        }
        self.context.add_subgraph("add_node", |out| json::node(out, rank, name, pools))?;
        self.nodes.insert(rank);
        Ok(())
    }

    /// Puts a node into a part of a level, and out of the one that it is in; `None`: into none.
    pub(super) fn set_part(
        &mut self,
        level: &str,
        rank: Rank,
        part: Option<&str>,
    ) -> Result<(), GraphError> {
        const SET_PART: &str = "set_part";
        let text = |text: &str| CString::new(text).map_err(|_| with_nul(SET_PART));
        let (level, part) = (text(level)?, part.map(text).transpose()?);
        let part = part.as_ref().map_or(ptr::null(), |part| part.as_ptr());
        let rank = self.context.write(SET_PART, |out| out.push_str(&rank.to_string()))?;
        // SAFETY: our context, strings that end in NUL and live through the call, or NULL.
        let rc =
            unsafe { (self.extensions.set_part)(self.context.raw(), level.as_ptr(), rank, part) };
        self.context.check(SET_PART, rc)
    }

    /// Sets how much a node has of a resource; 0 takes it away. Taken amounts stay.
    pub(super) fn resize(
        &mut self,
        rank: Rank,
        resource: &str,
        size: u64,
    ) -> Result<(), GraphError> {
        let resource = self.context.write("resize", |out| out.push_str(resource))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { (self.extensions.resize)(self.context.raw(), rank, resource, size) };
        self.context.check("resize", rc)
    }

    /// Removes a node; slots on it vanish from their jobs, and a job that has none left ends.
    pub(super) fn remove_node(&mut self, rank: Rank) -> Result<(), GraphError> {
        // SAFETY: our context.
        let rc = unsafe { (self.extensions.remove_rank)(self.context.raw(), rank) };
        self.context.check("remove_node", rc)?;
        self.nodes.remove(rank);
        Ok(())
    }

    /// Marks a node up or down. A node that is down keeps its jobs and gets no new ones.
    pub(super) fn set_up(&mut self, rank: Rank, up: bool) -> Result<(), GraphError> {
        let set_rank_status = self
            .context
            .table
            .set_rank_status
            .ok_or_else(|| lacks("set_up", "reapi_cli_set_rank_status"))?;
        let rank = self.context.write("set_up", |out| out.push_str(&rank.to_string()))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe {
            set_rank_status(self.context.raw(), rank, if up { status::UP } else { status::DOWN })
        };
        self.context.check("set_up", rc)
    }

    /// Takes a place for all slots of a request, or for none. The job must be new.
    pub(super) fn allocate(&mut self, job: u64, request: &Request<'_>) -> Result<Fit, GraphError> {
        match self.ask("allocate", match_op::ALLOCATE, job, request) {
            Ok(asked) => self.taken("allocate", job, &asked.text, request).map(Fit::Placed),
            Err(error) if error.errno == errno::EBUSY => Ok(Fit::NotNow),
            Err(error) if error.errno == errno::EAGAIN => Ok(Fit::NotFound),
            Err(error) => Err(error),
        }
    }

    /// Reads the slots that a job got. If they cannot be read they must not stay taken, since no
    /// job would own them.
    fn taken(
        &mut self,
        operation: &'static str,
        job: u64,
        text: &str,
        request: &Request<'_>,
    ) -> Result<Placement, GraphError> {
        answer::placement(text, request).or_else(|why| {
            self.cancel(job)?;
            Err(GraphError { operation, errno: errno::EPROTO, text: why })
        })
    }

    /// Takes a place now or at the earliest second at which there is one. The job must be new.
    pub(super) fn reserve(
        &mut self,
        job: u64,
        request: &Request<'_>,
    ) -> Result<Booking, GraphError> {
        match self.ask("reserve", match_op::ALLOCATE_ORELSE_RESERVE, job, request) {
            Ok(Asked { text, at, is_earliest }) => {
                let placement = self.taken("reserve", job, &text, request)?;
                Ok(if at <= self.now {
                    Booking::Now(placement)
                } else {
                    Booking::At(Reserved { at, is_earliest, placement })
                })
            }
            Err(error) if is_no_place(&error) => Ok(Booking::Never),
            Err(error) => Err(error),
        }
    }

    /// Withdraws a reservation and makes it again at the earliest second around all others. `None`
    /// if there is no such second any more, as when a pod has outlived its planned end; the
    /// reservation then stands where it was.
    pub(super) fn remake(
        &mut self,
        job: u64,
        request: &Request<'_>,
    ) -> Result<Option<Moved>, GraphError> {
        let (mut at, mut reserved, mut text, mut causes) = (0, false, ptr::null_mut(), 0);
        // SAFETY: our context, and places for the answers.
        let rc = unsafe {
            let context = self.context.raw();
            (self.extensions.move_job)(
                context,
                job,
                &raw mut at,
                &raw mut reserved,
                &raw mut text,
                &raw mut causes,
            )
        };
        let moved = self.context.check("remake", rc);
        self.count(&moved);
        match moved {
            Ok(()) => {}
            Err(error) if is_no_place(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let text = take(text);
        let placement =
            if text.is_empty() { None } else { Some(self.taken("remake", job, &text, request)?) };
        let is_overdue = causes & later::OVERDUE != 0;
        let later =
            (causes != 0).then_some(if is_overdue { Later::Overdue } else { Later::Capacity });
        Ok(Some(Moved { at, has_begun: !reserved, placement, later }))
    }

    /// A reservation has begun.
    pub(super) fn has_begun(&mut self, job: u64) -> Result<bool, GraphError> {
        let (mut mode, mut reserved, mut at, mut overhead) = (ptr::null_mut(), false, 0, 0.0);
        let info = self.context.table.info;
        // SAFETY: our context, and places for the answers.
        let rc = unsafe {
            info(
                self.context.raw(),
                job,
                &raw mut mode,
                &raw mut reserved,
                &raw mut at,
                &raw mut overhead,
            )
        };
        self.context.check("has_begun", rc)?;
        drop(take(mode));
        Ok(!reserved)
    }

    /// Returns when a request could start. Takes nothing.
    pub(super) fn forecast(&mut self, request: &Request<'_>) -> Result<Forecast, GraphError> {
        match self.ask("forecast", match_op::WITHOUT_ALLOCATING_FUTURE, 0, request) {
            Ok(asked) if asked.at >= FLUXION_EXT_EVENTUALLY => Ok(Forecast::Eventually),
            Ok(asked) if asked.at <= self.now => Ok(Forecast::Now),
            Ok(asked) => Ok(Forecast::At(asked.at)),
            Err(error) if error.errno == errno::EBUSY => Ok(Forecast::Blocked),
            Err(error) if error.errno == errno::ENODEV => Ok(Forecast::Never),
            Err(error) if error.errno == errno::EAGAIN => Ok(Forecast::NotFound),
            Err(error) => Err(error),
        }
    }

    /// The ranks on which at least one slot of some shape fits once everything that has an end has
    /// ended.
    pub(super) fn eligible(&mut self, request: &Request<'_>) -> Result<RankSet, GraphError> {
        let text = self.report("eligible", self.extensions.eligible, request)?;
        text.parse().map_err(|error| unreadable("eligible", &error))
    }

    /// Explains the supply for each shape of a request, now and on the idle machine.
    pub(super) fn explain(&mut self, request: &Request<'_>) -> Result<Explanation, GraphError> {
        let text = self.report("explain", self.extensions.explain, request)?;
        serde_json::from_str(&text).map_err(|error| unreadable("explain", &error))
    }

    /// Puts slots of a job on a node, whether or not they fit; the job is made if it is new.
    pub(super) fn charge(
        &mut self,
        job: u64,
        rank: Rank,
        label: &str,
        requests: &Resources,
        count: u64,
        terms: (End, Tenancy),
    ) -> Result<(), GraphError> {
        let charge = self
            .context
            .write("charge", |out| json::charge(out, rank, label, requests, count, terms))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { (self.extensions.charge)(self.context.raw(), job, charge) };
        self.context.check("charge", rc)
    }

    /// Gives back `count` slots of a label that a job has on a node. With its last slot the job
    /// ends.
    pub(super) fn release(
        &mut self,
        job: u64,
        rank: Rank,
        label: &str,
        count: u64,
    ) -> Result<(), GraphError> {
        let label = self.context.write("release", |out| out.push_str(label))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { (self.extensions.release)(self.context.raw(), job, rank, label, count) };
        self.context.check("release", rc)
    }

    /// Gives back everything of a job. One that has ended already is none the worse.
    pub(super) fn cancel(&mut self, job: u64) -> Result<(), GraphError> {
        self.context.cancel(job)
    }

    /// Returns the amounts of a node, and the part taken now.
    pub(super) fn usage(&mut self, rank: Rank) -> Result<NodeUsage, GraphError> {
        let mut text = ptr::null_mut();
        // SAFETY: our context, and a place for the answer.
        let rc = unsafe { (self.extensions.usage)(self.context.raw(), rank, &raw mut text) };
        self.context.check("usage", rc)?;
        serde_json::from_str(&take(text)).map_err(|error| unreadable("usage", &error))
    }

    fn ask(
        &mut self,
        operation: &'static str,
        op: match_op_t,
        job: u64,
        request: &Request<'_>,
    ) -> Result<Asked, GraphError> {
        let matched =
            self.context.matched_as(operation, op, job, |out| json::jobspec(out, request));
        let is_earliest = self.count(&matched);
        let matched = matched?;
        Ok(Asked { text: matched.r, at: matched.at, is_earliest })
    }

    fn report(
        &mut self,
        operation: &'static str,
        function: unsafe extern "C" fn(
            *mut reapi_cli_ctx_t,
            *const c_char,
            *mut *mut c_char,
        ) -> c_int,
        request: &Request<'_>,
    ) -> Result<String, GraphError> {
        let jobspec = self.context.write(operation, |out| json::jobspec(out, request))?;
        let mut text = ptr::null_mut();
        // SAFETY: our context, a string that ends in NUL and lives through the call, a place for
        // the answer.
        let rc = unsafe { function(self.context.raw(), jobspec, &raw mut text) };
        let told = self.context.check(operation, rc);
        self.count(&told);
        told?;
        Ok(take(text))
    }

    /// Returns the steps that the searches of all questions took.
    pub(super) fn steps(&self) -> Steps {
        self.steps
    }

    /// Adds the steps of the last question, which had this answer. True if the start that was found
    /// is proved to be the earliest.
    fn count<T>(&mut self, answer: &Result<T, GraphError>) -> bool {
        let (mut steps, mut is_earliest) = (0, false);
        // SAFETY: our context, and places for the answers.
        let rc = unsafe {
            (self.extensions.effort)(self.context.raw(), &raw mut steps, &raw mut is_earliest)
        };
        // A graph that is lost answers nothing any more, which the question itself has told.
        let steps = if rc == 0 { steps } else { 0 };
        self.steps.all = self.steps.all.saturating_add(steps);
        if answer.as_ref().is_err_and(GraphError::has_given_up) {
            self.steps.in_vain = self.steps.in_vain.saturating_add(steps);
        }
        rc == 0 && is_earliest
    }
}

/// The answer to a question for a place.
struct Asked {
    /// The grant, as the graph writes it.
    text: String,
    /// The second at which it starts.
    at: i64,
    /// True if it is proved that it cannot start before that second.
    is_earliest: bool,
}

fn unreadable(operation: &'static str, error: &dyn std::fmt::Display) -> GraphError {
    GraphError { operation, errno: errno::EPROTO, text: format!("cannot read the answer: {error}") }
}

/// True if there is no place for a request, now or later: an answer, and no failure of the graph.
fn is_no_place(error: &GraphError) -> bool {
    matches!(error.errno, errno::EBUSY | errno::EAGAIN | errno::ENODEV)
}
