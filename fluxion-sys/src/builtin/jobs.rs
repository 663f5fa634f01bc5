//! Matching, cancelling, asking after jobs.

use std::ffi::{c_char, c_int};
use std::time::Instant;

use fluxion_engine::{Engine, Grant, JobMode, MatchOp};

use super::answer::Answer;
use super::failure::Failure;
use super::handle::{Handle, call};
use super::text;
use super::text::Out;
use crate::abi::{match_op_t, reapi_cli_ctx_t};
use crate::{errno, match_op};

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_match(
    ctx: *mut reapi_cli_ctx_t,
    match_op: match_op_t,
    jobspec: *const c_char,
    jobid: *mut u64,
    reserved: *mut bool,
    r: *mut *mut c_char,
    at: *mut i64,
    ov: *mut f64,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        unsafe {
            let (jobid, answer) = (Out::new(jobid)?, Answer::of(reserved, r, at, ov)?);
            jobid.set(do_match(context, match_op, jobspec, None, &answer)?.unwrap_or(u64::MAX));
        }
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_match", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_match_with_jobid(
    ctx: *mut reapi_cli_ctx_t,
    match_op: match_op_t,
    jobspec: *const c_char,
    jobid: u64,
    reserved: *mut bool,
    r: *mut *mut c_char,
    at: *mut i64,
    ov: *mut f64,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        unsafe {
            let answer = Answer::of(reserved, r, at, ov)?;
            do_match(context, match_op, jobspec, Some(jobid), &answer).map(|_| ())
        }
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_match_with_jobid", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_match_allocate(
    ctx: *mut reapi_cli_ctx_t,
    orelse_reserve: bool,
    jobspec: *const c_char,
    jobid: *mut u64,
    reserved: *mut bool,
    r: *mut *mut c_char,
    at: *mut i64,
    ov: *mut f64,
) -> c_int {
    let op = if orelse_reserve { match_op::ALLOCATE_ORELSE_RESERVE } else { match_op::ALLOCATE };
    // SAFETY: the same rules.
    unsafe { reapi_cli_match(ctx, op, jobspec, jobid, reserved, r, at, ov) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_match_satisfy(
    ctx: *mut reapi_cli_ctx_t,
    jobspec: *const c_char,
    sat: *mut bool,
    ov: *mut f64,
) -> c_int {
    let work = |context: &mut Handle| {
        let started = Instant::now();
        // SAFETY: pointers by the header.
        let (sat, ov, jobspec) =
            unsafe { (Out::new(sat)?, Out::new(ov)?, text::read(jobspec, "jobspec")?) };
        sat.set(false);
        let engine = context.engine()?;
        ov.set(0.0);
        let answer = engine.satisfy(jobspec);
        ov.set(started.elapsed().as_secs_f64());
        sat.set(answer.is_ok());
        answer.map_err(Failure::from)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_match_satisfy", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_update_allocate(
    ctx: *mut reapi_cli_ctx_t,
    jobid: u64,
    r: *const c_char,
    at: *mut i64,
    ov: *mut f64,
    r_out: *mut *const c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        let started = Instant::now();
        // SAFETY: pointers by the header; the caller frees the text that it gets, whatever the type
        // says.
        let (r, at, ov, r_out) = unsafe {
            (
                text::read(r, "R")?,
                Out::new(at)?,
                Out::new(ov)?,
                Out::new(r_out.cast::<*mut c_char>())?,
            )
        };
        let engine = context.engine()?;
        if r.is_empty() {
            return Err(Failure::invalid(""));
        }
        let grant = engine.update_allocate(jobid, r)?;
        let seconds = started.elapsed().as_secs_f64();
        if let Err(failure) = r_out.set_text(&grant.r) {
            engine.cancel(jobid)?;
            return Err(failure);
        }
        engine.set_overhead(jobid, seconds);
        at.set(grant.at);
        ov.set(seconds);
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_update_allocate", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_cancel(
    ctx: *mut reapi_cli_ctx_t,
    jobid: u64,
    noent_ok: bool,
) -> c_int {
    let work = |context: &mut Handle| {
        let engine = context.engine()?;
        may_end(engine, jobid)?;
        let cancelled = engine.cancel(jobid).map_err(Failure::from);
        tolerate(context, "reapi_cli_cancel", cancelled, noent_ok)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_cancel", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_partial_cancel(
    ctx: *mut reapi_cli_ctx_t,
    jobid: u64,
    r: *const c_char,
    noent_ok: bool,
    full_removal: *mut bool,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (r, full_removal) = unsafe { (text::read(r, "R")?, Out::new(full_removal)?) };
        let engine = context.engine()?;
        may_end(engine, jobid)?;
        let cancelled = engine.partial_cancel(jobid, r).map_err(Failure::from);
        let cancelled = cancelled.map(|all| full_removal.set(all));
        tolerate(context, "reapi_cli_partial_cancel", cancelled, noent_ok)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_partial_cancel", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_info(
    ctx: *mut reapi_cli_ctx_t,
    jobid: u64,
    mode: *mut *mut c_char,
    reserved: *mut bool,
    at: *mut i64,
    ov: *mut f64,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (mode, reserved, at, ov) =
            unsafe { (Out::new(mode)?, Out::new(reserved)?, Out::new(at)?, Out::new(ov)?) };
        let info = context.engine()?.asking(|engine| engine.info(jobid))?;
        mode.set_text(info.mode.as_str())?;
        reserved.set(info.mode == JobMode::Reserved);
        at.set(info.at);
        ov.set(info.overhead);
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_info", work) }
}

/// Matches, and puts the answer. Returns the job, if something was taken.
///
/// # Safety
/// `jobspec` is as the header says.
unsafe fn do_match(
    context: &mut Handle,
    op: match_op_t,
    jobspec: *const c_char,
    jobid: Option<u64>,
    answer: &Answer,
) -> Result<Option<u64>, Failure> {
    let started = Instant::now();
    // SAFETY: the caller's promise.
    let jobspec = unsafe { text::read(jobspec, "jobspec") }?;
    let engine = context.engine()?;
    answer.clear_times();
    let op = operation(op)?;
    let result = match jobid {
        Some(jobid) => engine.match_job(op, jobspec, jobid),
        None => engine.match_next(op, jobspec),
    };
    let seconds = started.elapsed().as_secs_f64();
    answer.ov.set(seconds);
    answer.at.set(engine.refused_at());
    let Grant { job, at: start, reserved: later, r: granted, .. } = result?;
    if let Err(failure) = answer.r.set_text(&granted) {
        // Without its answer the caller would not know its resources.
        if let Some(job) = job {
            engine.cancel(job)?;
        }
        return Err(failure);
    }
    if let Some(job) = job {
        engine.set_overhead(job, seconds);
    }
    answer.at.set(start);
    if op != MatchOp::Satisfiability {
        answer.reserved.set(later);
    }
    Ok(job)
}

fn operation(op: match_op_t) -> Result<MatchOp, Failure> {
    Ok(match op {
        match_op::ALLOCATE => MatchOp::Allocate,
        match_op::ALLOCATE_W_SATISFIABILITY => MatchOp::AllocateWithSatisfiability,
        match_op::ALLOCATE_ORELSE_RESERVE => MatchOp::AllocateOrElseReserve,
        match_op::SATISFIABILITY => MatchOp::Satisfiability,
        match_op::WITHOUT_ALLOCATING => MatchOp::WithoutAllocating,
        match_op::WITHOUT_ALLOCATING_FUTURE => MatchOp::WithoutAllocatingFuture,
        other => return Err(Failure::invalid(&format!("match_op: {other} is no operation"))),
    })
}

/// As upstream (Q12), which matches under any id, and cannot remove a job with one beyond this.
fn may_end(engine: &Engine, jobid: u64) -> Result<(), Failure> {
    let is_there = |jobid| engine.info(jobid).is_ok_and(|info| info.mode != JobMode::Canceled);
    if i64::try_from(jobid).is_err() && is_there(jobid) {
        return Err(Failure {
            errno: errno::EOVERFLOW,
            text: format!("jobid: {jobid} is larger than 2^63-1"),
        });
    }
    Ok(())
}

/// A missing job is no failure if the caller says so; it is noted all the same.
fn tolerate(
    context: &mut Handle,
    function: &str,
    result: Result<(), Failure>,
    noent_ok: bool,
) -> Result<(), Failure> {
    match result {
        Err(failure) if noent_ok && failure.errno == errno::ENOENT => {
            context.note(function, &failure.text);
            Ok(())
        }
        other => other,
    }
}
