//! Libraries that can do less, or go wrong.
#![allow(unsafe_code, reason = "functions as a library has them")]

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fluxion_sys::{FunctionTable, errno, match_op_t, reapi_cli_ctx_t};
use fluxqueue_api::JobState;

use super::{World, pod};
use fluxqueue_workload::Shape;

#[test]
fn what_the_library_cannot_place_is_refused_by_name() {
    let plain = FunctionTable { extensions: None, ..FunctionTable::builtin() };
    let mut world = World::on(plain, &[("a", 4)]);
    let mut odd = pod("p", 1);
    let mut shape = Shape::clone(&odd.shape);
    shape.requests.set("ephemeral-storage", 1);
    odd.shape = Arc::new(shape);
    world.submit(odd);
    world.submit(pod("q", 1));
    world.settle();
    assert_eq!((world.state("p"), world.node_of("q")), (Some(JobState::Refused), Some("a")));
    let (reason, message) = world.blocked("p");
    assert!(
        reason == "UnsupportedConstraint" && message.contains("requests[ephemeral-storage]"),
        "{reason}: {message}"
    );
}

#[test]
fn a_graph_that_the_library_has_lost_is_made_anew() {
    let mut world = World::on(forgetful(), &[("a", 2)]);
    world.submit(pod("p", 1));
    world.settle();
    assert_eq!(world.node_of("p"), Some("a"));
    lose();
    world.submit(pod("q", 1));
    world.settle();
    assert_eq!((world.node_of("q"), world.core.gauges().graph_errors > 0), (None, true));
    world.pass_seconds(11);
    world.settle();
    assert_eq!(world.node_of("q"), Some("a"));
    world.submit(pod("r", 1));
    world.settle();
    assert_eq!(world.node_of("r"), None, "what was taken is still taken");
}

static LOST: AtomicBool = AtomicBool::new(false);

/// The built-in library, until it loses its graph: then only a new context helps.
fn forgetful() -> FunctionTable {
    FunctionTable { new, match_with_jobid: Some(match_with_jobid), ..FunctionTable::builtin() }
}

fn lose() {
    LOST.store(true, Ordering::Relaxed);
}

unsafe extern "C" fn new() -> *mut reapi_cli_ctx_t {
    LOST.store(false, Ordering::Relaxed);
    // SAFETY: may be called at any time.
    unsafe { (FunctionTable::builtin().new)() }
}

unsafe extern "C" fn match_with_jobid(
    ctx: *mut reapi_cli_ctx_t,
    op: match_op_t,
    jobspec: *const c_char,
    jobid: u64,
    reserved: *mut bool,
    r: *mut *mut c_char,
    at: *mut i64,
    ov: *mut f64,
) -> c_int {
    let Some(real) =
        FunctionTable::builtin().match_with_jobid.filter(|_| !LOST.load(Ordering::Relaxed))
    else {
        errno::set(errno::EFAULT);
        return -1;
    };
    // SAFETY: as the caller promises.
    unsafe { real(ctx, op, jobspec, jobid, reserved, r, at, ov) }
}
