//! The functions of barrier.cpp, as Rust sees them.

use std::ffi::{CStr, c_char, c_int};

use crate::abi::{match_op_t, resource_status_t};
use crate::errno;

pub(super) use crate::table::{Ctx, Text, TextOut};

/// The outcome of a call. Filled by the barrier.
#[repr(C)]
pub(super) struct Outcome {
    /// The result of the function; 0 where it returns no int.
    pub(super) rc: c_int,
    /// errno after it, 0 if it left none.
    pub(super) error: c_int,
    thrown: c_int,
    text: [c_char; 256],
}

impl Outcome {
    pub(super) fn new() -> Self {
        Outcome { rc: -1, error: 0, thrown: 0, text: [0; 256] }
    }

    /// The exception that it threw, if it did.
    pub(super) fn exception(&self) -> Option<String> {
        // SAFETY: the barrier ends the text with a NUL; so does `new`.
        let text = unsafe { CStr::from_ptr(self.text.as_ptr()) };
        (self.thrown != 0).then(|| text.to_string_lossy().into_owned())
    }

    /// The errno of a call that failed; never 0. Upstream leaves none in some failures.
    pub(super) fn errno(&self) -> c_int {
        if self.error == 0 { errno::EINVAL } else { self.error }
    }
}

type Match<I> =
    unsafe extern "C" fn(Ctx, match_op_t, Text, I, *mut bool, TextOut, *mut i64, *mut f64) -> c_int;

#[rustfmt::skip]
unsafe extern "C" {
    pub(super) fn fluxion_barrier_new(f: unsafe extern "C" fn() -> Ctx, o: *mut Outcome) -> Ctx;
    pub(super) fn fluxion_barrier_clone(f: unsafe extern "C" fn(Ctx) -> Ctx, o: *mut Outcome, ctx: Ctx) -> Ctx;
    pub(super) fn fluxion_barrier_void(f: unsafe extern "C" fn(Ctx), o: *mut Outcome, ctx: Ctx);
    pub(super) fn fluxion_barrier_message(f: unsafe extern "C" fn(Ctx) -> *mut c_char, o: *mut Outcome, ctx: Ctx) -> *mut c_char;
    pub(super) fn fluxion_barrier_initialize(
        f: unsafe extern "C" fn(Ctx, Text, Text) -> c_int,
        o: *mut Outcome, ctx: Ctx, rgraph: Text, options: Text);
    pub(super) fn fluxion_barrier_match_allocate(
        f: unsafe extern "C" fn(Ctx, bool, Text, *mut u64, *mut bool, TextOut, *mut i64, *mut f64) -> c_int,
        o: *mut Outcome, ctx: Ctx, orelse_reserve: bool, jobspec: Text, jobid: *mut u64, reserved: *mut bool, r: TextOut,
        at: *mut i64, ov: *mut f64);
    pub(super) fn fluxion_barrier_match(
        f: Match<*mut u64>,
        o: *mut Outcome, ctx: Ctx, op: match_op_t, jobspec: Text, jobid: *mut u64, reserved: *mut bool, r: TextOut,
        at: *mut i64, ov: *mut f64);
    pub(super) fn fluxion_barrier_match_with_jobid(
        f: Match<u64>,
        o: *mut Outcome, ctx: Ctx, op: match_op_t, jobspec: Text, jobid: u64, reserved: *mut bool, r: TextOut,
        at: *mut i64, ov: *mut f64);
    pub(super) fn fluxion_barrier_match_satisfy(
        f: unsafe extern "C" fn(Ctx, Text, *mut bool, *mut f64) -> c_int,
        o: *mut Outcome, ctx: Ctx, jobspec: Text, sat: *mut bool, ov: *mut f64);
    pub(super) fn fluxion_barrier_update_allocate(
        f: unsafe extern "C" fn(Ctx, u64, Text, *mut i64, *mut f64, *mut *const c_char) -> c_int,
        o: *mut Outcome, ctx: Ctx, jobid: u64, r: Text, at: *mut i64, ov: *mut f64, r_out: *mut *const c_char);
    pub(super) fn fluxion_barrier_cancel(
        f: unsafe extern "C" fn(Ctx, u64, bool) -> c_int,
        o: *mut Outcome, ctx: Ctx, jobid: u64, noent_ok: bool);
    pub(super) fn fluxion_barrier_partial_cancel(
        f: unsafe extern "C" fn(Ctx, u64, Text, bool, *mut bool) -> c_int,
        o: *mut Outcome, ctx: Ctx, jobid: u64, r: Text, noent_ok: bool, full_removal: *mut bool);
    pub(super) fn fluxion_barrier_info(
        f: unsafe extern "C" fn(Ctx, u64, TextOut, *mut bool, *mut i64, *mut f64) -> c_int,
        o: *mut Outcome, ctx: Ctx, jobid: u64, mode: TextOut, reserved: *mut bool, at: *mut i64, ov: *mut f64);
    pub(super) fn fluxion_barrier_stat(
        f: unsafe extern "C" fn(Ctx, *mut i64, *mut i64, *mut i64, *mut f64, *mut f64, *mut f64, *mut f64) -> c_int,
        o: *mut Outcome, ctx: Ctx, v: *mut i64, e: *mut i64, j: *mut i64, load: *mut f64, min: *mut f64, max: *mut f64,
        avg: *mut f64);
    pub(super) fn fluxion_barrier_find(
        f: unsafe extern "C" fn(Ctx, Text, Text, TextOut) -> c_int,
        o: *mut Outcome, ctx: Ctx, criteria: Text, format: Text, r: TextOut);
    pub(super) fn fluxion_barrier_text(
        f: unsafe extern "C" fn(Ctx, Text) -> c_int,
        o: *mut Outcome, ctx: Ctx, text: Text);
    pub(super) fn fluxion_barrier_set_status(
        f: unsafe extern "C" fn(Ctx, Text, resource_status_t) -> c_int,
        o: *mut Outcome, ctx: Ctx, place: Text, status: resource_status_t);
    pub(super) fn fluxion_barrier_get_status(
        f: unsafe extern "C" fn(Ctx, Text, *mut resource_status_t) -> c_int,
        o: *mut Outcome, ctx: Ctx, place: Text, status: *mut resource_status_t);
    pub(super) fn fluxion_barrier_set_time(
        f: unsafe extern "C" fn(Ctx, i64) -> c_int,
        o: *mut Outcome, ctx: Ctx, now: i64);
    pub(super) fn fluxion_barrier_move(
        f: unsafe extern "C" fn(Ctx, u64, *mut i64, *mut bool, TextOut, *mut c_int) -> c_int,
        o: *mut Outcome, ctx: Ctx, jobid: u64, at: *mut i64, reserved: *mut bool, r: TextOut, later: *mut c_int);
    pub(super) fn fluxion_barrier_trial(f: unsafe extern "C" fn(Ctx) -> c_int, o: *mut Outcome, ctx: Ctx);
    pub(super) fn fluxion_barrier_charge(
        f: unsafe extern "C" fn(Ctx, u64, Text) -> c_int,
        o: *mut Outcome, ctx: Ctx, jobid: u64, charge: Text);
    pub(super) fn fluxion_barrier_release(
        f: unsafe extern "C" fn(Ctx, u64, u32, Text, u64) -> c_int,
        o: *mut Outcome, ctx: Ctx, jobid: u64, rank: u32, label: Text, count: u64);
    pub(super) fn fluxion_barrier_resize(
        f: unsafe extern "C" fn(Ctx, u32, Text, u64) -> c_int,
        o: *mut Outcome, ctx: Ctx, rank: u32, kind: Text, size: u64);
    pub(super) fn fluxion_barrier_remove_rank(
        f: unsafe extern "C" fn(Ctx, u32) -> c_int,
        o: *mut Outcome, ctx: Ctx, rank: u32);
    pub(super) fn fluxion_barrier_set_part(
        f: unsafe extern "C" fn(Ctx, Text, Text, Text) -> c_int,
        o: *mut Outcome, ctx: Ctx, level: Text, ranks: Text, part: Text);
    pub(super) fn fluxion_barrier_ask(
        f: unsafe extern "C" fn(Ctx, Text, TextOut) -> c_int,
        o: *mut Outcome, ctx: Ctx, jobspec: Text, answer: TextOut);
    pub(super) fn fluxion_barrier_effort(
        f: unsafe extern "C" fn(Ctx, *mut u64, *mut bool) -> c_int,
        o: *mut Outcome, ctx: Ctx, steps: *mut u64, is_earliest: *mut bool);
    pub(super) fn fluxion_barrier_usage(
        f: unsafe extern "C" fn(Ctx, u32, TextOut) -> c_int,
        o: *mut Outcome, ctx: Ctx, rank: u32, answer: TextOut);
}
