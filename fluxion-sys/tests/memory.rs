//! Every function of the built-in library, called as C would: owners of memory, NULL for each
//! argument, and the time of each free.
//!
//! Runs with the others, and is made small so that it also runs under Miri, which sees use after
//! free, leaks and foreign memory: `cargo +nightly miri test -p fluxion-sys --test memory`.
#![allow(unsafe_code, reason = "calls the C functions")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use fluxion_sys::{
    Extensions, FunctionTable, errno, match_op, match_op_t, reapi_cli_ctx_t, status,
};

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

const GRAPH: &str = r#"{"graph":{"nodes":[
    {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
    {"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/c0/node0"}}},
    {"id":"2","metadata":{"type":"core","id":0,"rank":0,"paths":{"containment":"/c0/node0/core0"}}},
    {"id":"3","metadata":{"type":"core","id":1,"rank":0,"paths":{"containment":"/c0/node0/core1"}}}],
    "edges":[{"source":"0","target":"1"},{"source":"1","target":"2"},{"source":"1","target":"3"}]}}"#;

/// A second node, beside the first.
const MORE: &str = r#"{"graph":{"nodes":[
    {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
    {"id":"4","metadata":{"type":"node","id":1,"rank":1,"paths":{"containment":"/c0/node1"}}},
    {"id":"5","metadata":{"type":"core","id":0,"rank":1,"paths":{"containment":"/c0/node1/core0"}}}],
    "edges":[{"source":"0","target":"4"},{"source":"4","target":"5"}]}}"#;

const POOLS: &str = r#"{"graph":{"nodes":[
    {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
    {"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/c0/node0"}}},
    {"id":"2","metadata":{"type":"cpu","id":0,"rank":0,"size":4000,"paths":{"containment":"/c0/node0/cpu0"}}}],
    "edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}"#;

/// A context, and the calls on it.
struct Session {
    table: FunctionTable,
    ctx: *mut reapi_cli_ctx_t,
}

/// The answer of a match.
struct Answer {
    rc: c_int,
    errno: c_int,
    jobid: u64,
    reserved: bool,
    at: i64,
    r: Option<String>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: a context of this table, used no more.
        unsafe { (self.table.destroy)(self.ctx) };
    }
}

impl Session {
    fn new(graph: &str, options: &str) -> Self {
        let table = FunctionTable::builtin();
        // SAFETY: a context may be made at any time.
        let session = Session { table, ctx: unsafe { (table.new)() } };
        let (graph, options) = (text(graph), text(options));
        // SAFETY: our context, strings that live through the call.
        let rc = unsafe { (table.initialize)(session.ctx, graph.as_ptr(), options.as_ptr()) };
        assert_eq!(rc, 0, "{}", session.message());
        session
    }

    fn message(&self) -> String {
        // SAFETY: our context; the text is ours.
        unsafe { taken((self.table.get_err_msg)(self.ctx)) }.unwrap_or_default()
    }

    fn extensions(&self) -> &'static Extensions {
        self.table.extensions.expect("the built-in library has them")
    }

    fn matched(&self, op: match_op_t, jobspec: &str) -> Answer {
        let jobspec = text(jobspec);
        let (mut jobid, mut reserved, mut r, mut at, mut ov) = (0, false, ptr::null_mut(), 0, 0.0);
        let function = self.table.match_op.expect("the built-in library has it");
        // SAFETY: our context, a string that lives through the call, places for the answer.
        let rc = unsafe {
            function(
                self.ctx,
                op,
                jobspec.as_ptr(),
                &raw mut jobid,
                &raw mut reserved,
                &raw mut r,
                &raw mut at,
                &raw mut ov,
            )
        };
        let errno = errno::get();
        // SAFETY: set on success only, and ours then.
        let r = unsafe { taken(r) };
        Answer { rc, errno, jobid, reserved, at, r }
    }

    /// One of the functions that take a text and return nothing else.
    fn say(
        &self,
        function: Option<unsafe extern "C" fn(*mut reapi_cli_ctx_t, *const c_char) -> c_int>,
        what: &str,
    ) {
        let what = text(what);
        // SAFETY: our context, a string that lives through the call.
        let rc = unsafe { function.expect("the built-in library has it")(self.ctx, what.as_ptr()) };
        assert_eq!(rc, 0, "{}", self.message());
    }

    /// One of the extensions that answer with a text.
    fn ask(
        &self,
        function: unsafe extern "C" fn(
            *mut reapi_cli_ctx_t,
            *const c_char,
            *mut *mut c_char,
        ) -> c_int,
        what: &str,
    ) -> String {
        let what = text(what);
        let mut answer = ptr::null_mut();
        // SAFETY: our context, a string that lives through the call, a place for the answer.
        let rc = unsafe { function(self.ctx, what.as_ptr(), &raw mut answer) };
        assert_eq!(rc, 0, "{}", self.message());
        // SAFETY: it succeeded, so the answer is ours.
        unsafe { taken(answer) }.expect("an answer")
    }
}

fn text(of: &str) -> CString {
    CString::new(of).expect("no NUL")
}

/// Copies a string of the library and frees it.
///
/// # Safety
/// NULL, or a string that is ours.
unsafe fn taken(from: *mut c_char) -> Option<String> {
    if from.is_null() {
        return None;
    }
    // SAFETY: ends in NUL, came from malloc.
    unsafe {
        let copy = CStr::from_ptr(from).to_str().expect("UTF-8").to_owned();
        free(from.cast());
        Some(copy)
    }
}

fn jobspec(kind: &str, count: u64, seconds: u64) -> String {
    format!(
        r#"{{"version":1,"resources":[{{"type":"slot","count":1,"label":"s","with":[{{"type":"{kind}","count":{count}}}]}}],
        "tasks":[{{"command":["a"],"slot":"s","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{seconds}}}}}}}"#
    )
}

const WHOLE: &str = r#"{"load_format":"jgf","matcher_name":"CA","matcher_policy":"lonode","match_format":"rv1_nosched"}"#;

#[test]
fn jobs_come_and_go() {
    let session = Session::new(GRAPH, WHOLE);
    let first = session.matched(match_op::ALLOCATE, &jobspec("core", 1, 60));
    assert_eq!((first.rc, first.reserved, first.at), (0, false, 0), "{}", session.message());
    let r = first.r.expect("R of an allocation");
    let second = session.matched(match_op::ALLOCATE_ORELSE_RESERVE, &jobspec("core", 2, 60));
    assert_eq!((second.rc, second.reserved, second.at), (0, true, 60), "{}", session.message());
    assert_eq!(session.matched(match_op::ALLOCATE, &jobspec("core", 2, 60)).errno, errno::EBUSY);
    let never = session.matched(match_op::SATISFIABILITY, &jobspec("core", 3, 60));
    assert_eq!((never.rc, never.errno), (-1, errno::ENODEV));

    let table = session.table;
    let (mut mode, mut reserved, mut at, mut ov) = (ptr::null_mut(), false, 0, 0.0);
    // SAFETY: our context, places for the answer.
    let rc = unsafe {
        (table.info)(
            session.ctx,
            second.jobid,
            &raw mut mode,
            &raw mut reserved,
            &raw mut at,
            &raw mut ov,
        )
    };
    assert_eq!(rc, 0);
    // SAFETY: it succeeded, so the text is ours.
    assert_eq!(unsafe { taken(mode) }.as_deref(), Some("RESERVED"));

    let (found, criteria) = (table.find.expect("it is there"), text("sched-now=allocated"));
    let mut list = ptr::null_mut();
    // SAFETY: our context, strings that live through the call, a place for the answer.
    let answer = unsafe { found(session.ctx, criteria.as_ptr(), c"rlite".as_ptr(), &raw mut list) };
    assert_eq!(answer, 0);
    // SAFETY: it succeeded, so the text is ours.
    assert!(unsafe { taken(list) }.is_some_and(|list| list.contains("core")));

    // A copy goes its own way.
    // SAFETY: our context.
    let copy = Session { table, ctx: unsafe { table.clone.expect("it is there")(session.ctx) } };
    // SAFETY: contexts of this table.
    unsafe {
        assert_eq!((table.cancel)(copy.ctx, first.jobid, false), 0);
        assert_eq!((table.cancel)(copy.ctx, 99, false), -1);
        assert_eq!(errno::get(), errno::ENOENT);
        assert_eq!((table.cancel)(session.ctx, second.jobid, false), 0);
    }
    let (text_of_r, mut full) = (text(&r), false);
    let partial = table.partial_cancel.expect("it is there");
    // SAFETY: our context, a string that lives through the call, a place for the answer.
    let rc = unsafe { partial(session.ctx, first.jobid, text_of_r.as_ptr(), false, &raw mut full) };
    assert_eq!((rc, full), (0, true), "{}", session.message());

    // An R that was granted once is taken again.
    let mut again = ptr::null();
    // SAFETY: our context, a string that lives through the call, places for the answer.
    let rc = unsafe {
        (table.update_allocate)(
            session.ctx,
            7,
            text_of_r.as_ptr(),
            &raw mut at,
            &raw mut ov,
            &raw mut again,
        )
    };
    assert_eq!(rc, 0, "{}", session.message());
    // SAFETY: it succeeded, so the text is ours.
    assert!(unsafe { taken(again.cast_mut()) }.is_some());
}

#[test]
fn the_graph_grows_and_shrinks() {
    let session = Session::new(GRAPH, WHOLE);
    let table = session.table;
    session.say(table.add_subgraph, MORE);
    assert_eq!(
        session.matched(match_op::ALLOCATE, &jobspec("core", 1, 0)).rc,
        0,
        "{}",
        session.message()
    );
    let (set, get) =
        (table.set_status.expect("it is there"), table.get_status.expect("it is there"));
    let (set_rank, get_rank) =
        (table.set_rank_status.expect("it is there"), table.get_rank_status.expect("it is there"));
    let (path, mut is) = (c"/c0/node1".as_ptr(), status::UP);
    // SAFETY: our context, strings that live for ever, a place for the answer.
    unsafe {
        assert_eq!(set(session.ctx, path, status::DOWN), 0);
        assert_eq!((get(session.ctx, path, &raw mut is), is), (0, status::DOWN));
        assert_eq!(set_rank(session.ctx, c"all".as_ptr(), status::UP), 0);
        assert_eq!((get_rank(session.ctx, c"1".as_ptr(), &raw mut is), is), (0, status::UP));
    }
    session.say(table.remove_subgraph, "/c0/node1");
    // SAFETY: our context, strings that live for ever.
    assert_eq!(unsafe { set(session.ctx, path, status::UP) }, -1);
    assert!(!session.message().is_empty());
    // SAFETY: our context.
    unsafe { (table.clear_err_msg)(session.ctx) };
    assert!(session.message().is_empty());
}

#[test]
fn pools_are_handed_out_in_parts() {
    let options = r#"{"load_format":"jgf","matcher_policy":"first","match_format":"placement","pool_types":["cpu"]}"#;
    let session = Session::new(POOLS, options);
    let ext = session.extensions();
    let grant = session.matched(match_op::ALLOCATE, &jobspec("cpu", 1500, 0));
    assert_eq!(grant.rc, 0, "{}", session.message());
    assert!(grant.r.is_some_and(|placement| placement.contains("\"ranks\":\"0\"")));
    let charge = text(r#"{"label":"x","rank":0,"count":2,"with":{"cpu":1000},"end":"never"}"#);
    // SAFETY: our context, strings that live through the calls.
    unsafe {
        assert_eq!((ext.set_time)(session.ctx, 100), 0);
        assert_eq!((ext.charge)(session.ctx, 50, charge.as_ptr()), 0, "{}", session.message());
        assert_eq!((ext.release)(session.ctx, 50, 0, c"x".as_ptr(), 1), 0, "{}", session.message());
        assert_eq!((ext.release)(session.ctx, 50, 0, c"x".as_ptr(), 9), -1);
        assert_eq!((ext.resize)(session.ctx, 0, c"cpu".as_ptr(), 8000), 0);
    }
    let mut usage = ptr::null_mut();
    // SAFETY: our context, a place for the answer.
    assert_eq!(unsafe { (ext.usage)(session.ctx, 0, &raw mut usage) }, 0);
    // SAFETY: it succeeded, so the text is ours.
    let usage = unsafe { taken(usage) }.expect("usage");
    assert!(usage.contains("\"size\":8000") && usage.contains("\"used\":2500"), "{usage}");
    let large = jobspec("cpu", 6000, 0);
    assert_eq!(session.ask(ext.eligible, &large), "");
    assert!(session.ask(ext.explain, &large).contains("\"short_nodes\":1"));
    // SAFETY: our context.
    assert_eq!(unsafe { (ext.remove_rank)(session.ctx, 0) }, 0);
}

#[test]
fn a_reservation_is_moved_and_a_trial_is_taken_back() {
    let options = r#"{"load_format":"jgf","matcher_policy":"first","match_format":"placement","pool_types":["cpu"]}"#;
    let session = Session::new(POOLS, options);
    let ext = session.extensions();
    let (first, second) = (jobspec("cpu", 3000, 100), jobspec("cpu", 3000, 100));
    let first = session.matched(match_op::ALLOCATE, &first).jobid;
    let second = session.matched(match_op::ALLOCATE_ORELSE_RESERVE, &second);
    assert_eq!((second.at, second.reserved), (100, true));
    let moved = |job: u64| {
        let (mut at, mut reserved, mut later, mut r) = (-1, false, -1, ptr::null_mut());
        // SAFETY: our context, places for the answers.
        let rc = unsafe {
            (ext.move_job)(
                session.ctx,
                job,
                &raw mut at,
                &raw mut reserved,
                &raw mut r,
                &raw mut later,
            )
        };
        // SAFETY: the text is ours if it succeeded.
        let r = if rc == 0 { unsafe { taken(r) } } else { None };
        (rc, at, reserved, later, r.map(|r| r.is_empty()))
    };
    assert_eq!(moved(second.jobid), (0, 100, true, 0, Some(true)));
    // SAFETY: our context.
    unsafe {
        assert_eq!((ext.begin_trial)(session.ctx), 0);
        assert_eq!((ext.begin_trial)(session.ctx), -1);
        assert_eq!((session.table.cancel)(session.ctx, first, false), 0);
        assert_eq!((ext.resize)(session.ctx, 0, c"cpu".as_ptr(), 8000), -1);
        assert_eq!(errno::get(), errno::ENOTSUP);
    }
    assert_eq!(moved(second.jobid), (0, 0, false, 0, Some(false)));
    // SAFETY: our context.
    unsafe {
        assert_eq!((ext.end_trial)(session.ctx), 0);
        assert_eq!((ext.end_trial)(session.ctx), -1);
    }
    assert_eq!(moved(second.jobid), (0, 100, true, 0, Some(true)));
    assert_eq!(moved(first).0, -1);
    // A job past its end has the room: later, and why.
    // SAFETY: our context.
    assert_eq!(unsafe { (ext.set_time)(session.ctx, 150) }, 0);
    // SAFETY: our context.
    assert_eq!(unsafe { (session.table.cancel)(session.ctx, first, false) }, 0);
    assert_eq!(moved(second.jobid), (0, 150, false, 0, Some(false)));
}

#[test]
fn null_is_refused_and_touches_nothing() {
    let session = Session::new(GRAPH, WHOLE);
    let (table, none) = (session.table, ptr::null_mut::<reapi_cli_ctx_t>());
    let spec = text(&jobspec("core", 1, 0));
    let function = table.match_op.expect("it is there");
    let (mut jobid, mut reserved, mut at, mut ov) = (0, false, 0, 0.0);
    let (jobid, reserved, at, ov) = (&raw mut jobid, &raw mut reserved, &raw mut at, &raw mut ov);
    // SAFETY: the test passes NULL on purpose; the rest is ours.
    unsafe {
        (table.destroy)(none);
        assert!(table.clone.expect("it is there")(none).is_null());
        assert_eq!((table.initialize)(none, ptr::null(), ptr::null()), -1);
        assert_eq!((table.cancel)(none, 1, true), -1);
        assert_eq!(
            function(
                session.ctx,
                match_op::ALLOCATE,
                ptr::null(),
                jobid,
                reserved,
                ptr::null_mut(),
                at,
                ov
            ),
            -1
        );
        assert_eq!(errno::get(), errno::EINVAL);
        let (null, mut r) = (ptr::null_mut(), ptr::null_mut());
        assert_eq!(
            function(
                session.ctx,
                match_op::ALLOCATE,
                spec.as_ptr(),
                null,
                reserved,
                &raw mut r,
                at,
                ov
            ),
            -1
        );
        assert!(r.is_null(), "set on success only");
        assert_eq!(
            table.find.expect("it is there")(
                session.ctx,
                ptr::null(),
                ptr::null(),
                ptr::null_mut()
            ),
            -1
        );
        assert_eq!(table.add_subgraph.expect("it is there")(session.ctx, ptr::null()), -1);
    }
    // Without a graph every argument is wrong, also one that would have its own errno.
    // SAFETY: a context may be made at any time, and is destroyed once.
    unsafe {
        let empty = (table.new)();
        assert_eq!((table.cancel)(empty, u64::MAX, true), -1);
        assert_eq!(errno::get(), errno::EINVAL);
        (table.destroy)(empty);
    }
    // Nothing was taken by what failed.
    assert_eq!(
        session.matched(match_op::ALLOCATE, &jobspec("core", 2, 0)).rc,
        0,
        "{}",
        session.message()
    );
}
