//! Jobs of a system library.

use std::ffi::{c_char, c_int};

use serde_json::Value;

use super::barrier::{self, Ctx, Outcome, Text, TextOut};
use super::context::{Context, Effect, Owned, absent, with_graph};
use crate::abi::match_op_t;
use crate::builtin::Failure;
use crate::builtin::answer::Answer;
use crate::builtin::text::{self, Out};
use crate::{errno, match_op as op};

/// The answer of the library, in variables of our own.
struct Raw {
    jobid: u64,
    reserved: bool,
    r: Owned,
    at: i64,
    ov: f64,
}

impl Raw {
    fn new(jobid: u64) -> Self {
        Raw { jobid, reserved: false, r: Owned::empty(), at: 0, ov: 0.0 }
    }
}

impl Answer {
    /// The places for the answer, with times as of a match that has not succeeded.
    ///
    /// # Safety
    /// Pointers as the header says.
    unsafe fn before_match(
        reserved: *mut bool,
        r: TextOut,
        at: *mut i64,
        ov: *mut f64,
        jobspec: Text,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        unsafe {
            let answer = Answer::of(reserved, r, at, ov)?;
            text::read(jobspec, "jobspec")?;
            answer.clear_times();
            Ok(answer)
        }
    }

    /// Hands on the answer of the library.
    fn give(
        &self,
        context: &mut Context,
        op: match_op_t,
        result: Result<(), Failure>,
        raw: Raw,
    ) -> Result<(), Failure> {
        self.ov.set(raw.ov);
        if let Err(failure) = result {
            raw.r.forget();
            return Err(failure);
        }
        let asks_only = op == op::SATISFIABILITY;
        let takes = !matches!(
            op,
            op::SATISFIABILITY | op::WITHOUT_ALLOCATING | op::WITHOUT_ALLOCATING_FUTURE
        );
        let wrong = if raw.r.is_null() && !asks_only {
            Some("the library succeeded without R")
        } else if std::str::from_utf8(raw.r.bytes()).is_err() {
            Some("R of the library is not UTF-8")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            // Without its answer the caller would know neither its resources nor that it has them.
            if takes {
                take_back(context, raw.jobid)?;
            }
            return Err(Failure { errno: errno::EFAULT, text: wrong.to_owned() });
        }
        self.at.set(raw.at);
        if !asks_only {
            self.reserved.set(raw.reserved);
        }
        self.r.set(raw.r.hand_over());
        Ok(())
    }
}

pub(super) unsafe extern "C" fn match_allocate(
    ctx: Ctx,
    orelse_reserve: bool,
    jobspec: Text,
    jobid: *mut u64,
    reserved: *mut bool,
    r: TextOut,
    at: *mut i64,
    ov: *mut f64,
) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: pointers by the header.
        let (jobid, answer) =
            unsafe { (Out::new(jobid)?, Answer::before_match(reserved, r, at, ov, jobspec)?) };
        let function = context.raw().match_allocate;
        let mut raw = Raw::new(0);
        // SAFETY: places of our own, a string by the header.
        let result = unsafe {
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_match_allocate(
                    function,
                    o,
                    inner,
                    orelse_reserve,
                    jobspec,
                    &raw mut raw.jobid,
                    &raw mut raw.reserved,
                    raw.r.slot(),
                    &raw mut raw.at,
                    &raw mut raw.ov,
                );
            })
        };
        let id = raw.jobid;
        answer.give(context, op::ALLOCATE, result, raw)?;
        jobid.set(id);
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_match_allocate", work) }
}

pub(super) unsafe extern "C" fn match_op(
    ctx: Ctx,
    match_op: match_op_t,
    jobspec: Text,
    jobid: *mut u64,
    reserved: *mut bool,
    r: TextOut,
    at: *mut i64,
    ov: *mut f64,
) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: pointers by the header.
        let (jobid, answer) =
            unsafe { (Out::new(jobid)?, Answer::before_match(reserved, r, at, ov, jobspec)?) };
        let function = context.raw().match_op.ok_or_else(absent)?;
        let effect = known(match_op)?;
        let mut raw = Raw::new(0);
        // SAFETY: places of our own, a string by the header.
        let result = unsafe {
            context.ask(effect, |o, inner| {
                barrier::fluxion_barrier_match(
                    function,
                    o,
                    inner,
                    match_op,
                    jobspec,
                    &raw mut raw.jobid,
                    &raw mut raw.reserved,
                    raw.r.slot(),
                    &raw mut raw.at,
                    &raw mut raw.ov,
                );
            })
        };
        let id = raw.jobid;
        answer.give(context, match_op, result, raw)?;
        jobid.set(id);
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_match", work) }
}

pub(super) unsafe extern "C" fn match_with_jobid(
    ctx: Ctx,
    match_op: match_op_t,
    jobspec: Text,
    jobid: u64,
    reserved: *mut bool,
    r: TextOut,
    at: *mut i64,
    ov: *mut f64,
) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: pointers by the header.
        let answer = unsafe { Answer::before_match(reserved, r, at, ov, jobspec)? };
        let function = context.raw().match_with_jobid.ok_or_else(absent)?;
        let effect = known(match_op)?;
        if effect == Effect::Changes && holds_something(context, jobid)? {
            return Err(Failure {
                errno: errno::EEXIST,
                text: format!("job {jobid}: there is one already"),
            });
        }
        let mut raw = Raw::new(jobid);
        // SAFETY: places of our own, a string by the header.
        let result = unsafe {
            context.ask(effect, |o, inner| {
                barrier::fluxion_barrier_match_with_jobid(
                    function,
                    o,
                    inner,
                    match_op,
                    jobspec,
                    jobid,
                    &raw mut raw.reserved,
                    raw.r.slot(),
                    &raw mut raw.at,
                    &raw mut raw.ov,
                );
            })
        };
        answer.give(context, match_op, result, raw)
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_match_with_jobid", work) }
}

pub(super) unsafe extern "C" fn match_satisfy(
    ctx: Ctx,
    jobspec: Text,
    sat: *mut bool,
    ov: *mut f64,
) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: pointers by the header.
        let (sat, ov) = unsafe {
            text::read(jobspec, "jobspec")?;
            (Out::new(sat)?, Out::new(ov)?)
        };
        sat.set(false);
        let function = context.raw().match_satisfy.ok_or_else(absent)?;
        let (mut fits, mut seconds) = (false, 0.0);
        // SAFETY: places of our own, a string by the header.
        let result = unsafe {
            context.ask(Effect::Reads, |o, inner| {
                barrier::fluxion_barrier_match_satisfy(
                    function,
                    o,
                    inner,
                    jobspec,
                    &raw mut fits,
                    &raw mut seconds,
                );
            })
        };
        ov.set(seconds);
        // Before 0.53 an error left `sat` true; a request that failed does not fit.
        sat.set(fits && result.is_ok());
        result
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_match_satisfy", work) }
}

pub(super) unsafe extern "C" fn update_allocate(
    ctx: Ctx,
    jobid: u64,
    r: Text,
    at: *mut i64,
    ov: *mut f64,
    r_out: *mut *const c_char,
) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: pointers by the header.
        let (at, ov, r_out) = unsafe {
            text::read(r, "R")?;
            (Out::new(at)?, Out::new(ov)?, Out::new(r_out)?)
        };
        let function = context.raw().update_allocate;
        let (mut start, mut seconds, mut granted) = (0, 0.0, std::ptr::null());
        // SAFETY: places of our own, a string by the header.
        unsafe {
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_update_allocate(
                    function,
                    o,
                    inner,
                    jobid,
                    r,
                    &raw mut start,
                    &raw mut seconds,
                    &raw mut granted,
                );
            })?;
        }
        // SAFETY: the library succeeded, so it is NULL or a string from malloc that is ours.
        let granted = unsafe { Owned::of(granted.cast_mut()) };
        if granted.is_null() || std::str::from_utf8(granted.bytes()).is_err() {
            take_back(context, jobid)?;
            return Err(Failure {
                errno: errno::EFAULT,
                text: "the library succeeded without R".to_owned(),
            });
        }
        at.set(start);
        ov.set(seconds);
        r_out.set(granted.hand_over().cast_const());
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_update_allocate", work) }
}

pub(super) unsafe extern "C" fn cancel(ctx: Ctx, jobid: u64, noent_ok: bool) -> c_int {
    let work = |context: &mut Context| {
        let function = context.raw().cancel;
        // SAFETY: numbers only.
        unsafe {
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_cancel(function, o, inner, jobid, noent_ok);
            })
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_cancel", work) }
}

pub(super) unsafe extern "C" fn partial_cancel(
    ctx: Ctx,
    jobid: u64,
    r: Text,
    noent_ok: bool,
    full_removal: *mut bool,
) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: pointers by the header.
        let full_removal = unsafe {
            only_exclusive(text::read(r, "R")?)?;
            Out::new(full_removal)?
        };
        let function = context.raw().partial_cancel.ok_or_else(absent)?;
        let mut all = false;
        // SAFETY: places of our own, a string by the header.
        unsafe {
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_partial_cancel(
                    function,
                    o,
                    inner,
                    jobid,
                    r,
                    noent_ok,
                    &raw mut all,
                );
            })?;
        }
        full_removal.set(all);
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_partial_cancel", work) }
}

pub(super) unsafe extern "C" fn info(
    ctx: Ctx,
    jobid: u64,
    mode: TextOut,
    reserved: *mut bool,
    at: *mut i64,
    ov: *mut f64,
) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: pointers by the header.
        let (mode, reserved, at, ov) =
            unsafe { (Out::new(mode)?, Out::new(reserved)?, Out::new(at)?, Out::new(ov)?) };
        let (state, raw) = ask_info(context, jobid)?;
        if std::str::from_utf8(state.bytes()).is_err() || state.is_null() {
            return Err(Failure {
                errno: errno::EFAULT,
                text: "the library succeeded without a mode".to_owned(),
            });
        }
        reserved.set(raw.reserved);
        at.set(raw.at);
        ov.set(raw.ov);
        mode.set(state.hand_over());
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_info", work) }
}

fn ask_info(context: &mut Context, jobid: u64) -> Result<(Owned, Raw), Failure> {
    let function = context.raw().info;
    let mut raw = Raw::new(jobid);
    let mut mode = Owned::empty();
    // SAFETY: places of our own.
    let result = unsafe {
        context.ask(Effect::Reads, |o: *mut Outcome, inner| {
            barrier::fluxion_barrier_info(
                function,
                o,
                inner,
                jobid,
                mode.slot(),
                &raw mut raw.reserved,
                &raw mut raw.at,
                &raw mut raw.ov,
            );
        })
    };
    match result {
        Ok(()) => Ok((mode, raw)),
        Err(failure) => {
            mode.forget();
            Err(failure)
        }
    }
}

/// True if a job of this id is allocated or reserved.
fn holds_something(context: &mut Context, jobid: u64) -> Result<bool, Failure> {
    let found = match ask_info(context, jobid) {
        Ok((mode, _)) => matches!(mode.bytes(), b"ALLOCATED" | b"RESERVED"),
        Err(failure) if failure.errno == errno::ENOENT => {
            // The library noted that there is no such job, as was hoped.
            forget_messages(context)?;
            false
        }
        Err(failure) => return Err(failure),
    };
    Ok(found)
}

fn forget_messages(context: &mut Context) -> Result<(), Failure> {
    let function = context.raw().clear_err_msg;
    // SAFETY: the library's own context; the outcome has no rc of its own.
    unsafe {
        context.ask(Effect::Reads, |o, inner| barrier::fluxion_barrier_void(function, o, inner))
    }
}

/// Cancels a job that the caller cannot be told of.
fn take_back(context: &mut Context, jobid: u64) -> Result<(), Failure> {
    let function = context.raw().cancel;
    // SAFETY: numbers only.
    unsafe {
        context.ask(Effect::Changes, |o, inner| {
            barrier::fluxion_barrier_cancel(function, o, inner, jobid, true);
        })
    }
}

/// Upstream follows a pointer to nowhere where R names a vertex that the job has not exclusively.
fn only_exclusive(r: &str) -> Result<(), Failure> {
    let document: Value =
        serde_json::from_str(r).map_err(|error| Failure::invalid(&format!("R: {error}")))?;
    // An R that names no vertices releases whole ranks.
    let Some(scheduling) = document.get("scheduling").filter(|value| !value.is_null()) else {
        return Ok(());
    };
    let nodes = scheduling.pointer("/graph/nodes").and_then(Value::as_array);
    let nodes = nodes.ok_or_else(|| Failure::invalid("R: scheduling: no graph with nodes"))?;
    let exclusive =
        |node: &Value| node.pointer("/metadata/exclusive").and_then(Value::as_bool) == Some(true);
    if nodes.iter().all(exclusive) {
        return Ok(());
    }
    Err(Failure::invalid(
        "R: scheduling: has vertices that are shared: leave it out to release whole ranks",
    ))
}

/// The effect of an operation; operations that no version knows are refused.
fn known(op: match_op_t) -> Result<Effect, Failure> {
    match op {
        op::ALLOCATE | op::ALLOCATE_W_SATISFIABILITY | op::ALLOCATE_ORELSE_RESERVE => {
            Ok(Effect::Changes)
        }
        op::SATISFIABILITY | op::WITHOUT_ALLOCATING | op::WITHOUT_ALLOCATING_FUTURE => {
            Ok(Effect::Reads)
        }
        other => Err(Failure::invalid(&format!("match_op: {other} is no operation"))),
    }
}
