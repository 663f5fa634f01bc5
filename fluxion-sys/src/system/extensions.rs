//! The extensions, where a system library has them: our own, built as a shared library.

use std::ffi::c_int;

use super::barrier::{self, Ctx, Text, TextOut};
use super::context::{Context, Effect, Owned, absent, with_graph};
use crate::builtin::Failure;
use crate::builtin::text::{self, Out};
use crate::errno;
use crate::table::Extensions;

/// All of them, behind the barrier.
pub(super) static TABLE: Extensions = Extensions {
    set_time,
    move_job,
    begin_trial,
    end_trial,
    charge,
    release,
    resize,
    remove_rank,
    set_part,
    parts,
    eligible,
    explain,
    effort,
    usage,
};

fn raw(context: &Context) -> Result<&'static Extensions, Failure> {
    context.raw().extensions.ok_or_else(absent)
}

unsafe extern "C" fn set_time(ctx: Ctx, now: i64) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.set_time;
        // SAFETY: numbers only.
        unsafe {
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_set_time(function, o, inner, now);
            })
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_set_time", work) }
}

unsafe extern "C" fn move_job(
    ctx: Ctx,
    jobid: u64,
    at: *mut i64,
    reserved: *mut bool,
    r: TextOut,
    later: *mut c_int,
) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.move_job;
        // SAFETY: pointers by the header.
        let (at, reserved, r, later) =
            unsafe { (Out::new(at)?, Out::new(reserved)?, Out::new(r)?, Out::new(later)?) };
        let (mut start, mut planned, mut causes, mut answer) = (0, false, 0, Owned::empty());
        // SAFETY: places of our own.
        let result = unsafe {
            context.ask(Effect::Changes, |o, inner| {
                let (start, planned, causes) = (&raw mut start, &raw mut planned, &raw mut causes);
                barrier::fluxion_barrier_move(
                    function,
                    o,
                    inner,
                    jobid,
                    start,
                    planned,
                    answer.slot(),
                    causes,
                );
            })
        };
        give(result, answer, &r)?;
        at.set(start);
        reserved.set(planned);
        later.set(causes);
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_move", work) }
}

unsafe extern "C" fn begin_trial(ctx: Ctx) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.begin_trial;
        // SAFETY: nothing but the context.
        unsafe {
            context
                .ask(Effect::Changes, |o, inner| barrier::fluxion_barrier_trial(function, o, inner))
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_begin_trial", work) }
}

unsafe extern "C" fn end_trial(ctx: Ctx) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.end_trial;
        // SAFETY: nothing but the context.
        unsafe {
            context
                .ask(Effect::Changes, |o, inner| barrier::fluxion_barrier_trial(function, o, inner))
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_end_trial", work) }
}

unsafe extern "C" fn charge(ctx: Ctx, jobid: u64, charge: Text) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.charge;
        // SAFETY: a string by the header.
        unsafe {
            text::read(charge, "charge")?;
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_charge(function, o, inner, jobid, charge);
            })
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_charge", work) }
}

unsafe extern "C" fn release(ctx: Ctx, jobid: u64, rank: u32, label: Text, count: u64) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.release;
        // SAFETY: a string by the header.
        unsafe {
            text::read(label, "label")?;
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_release(function, o, inner, jobid, rank, label, count);
            })
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_release", work) }
}

unsafe extern "C" fn resize(ctx: Ctx, rank: u32, kind: Text, size: u64) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.resize;
        // SAFETY: a string by the header.
        unsafe {
            text::read(kind, "type")?;
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_resize(function, o, inner, rank, kind, size);
            })
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_resize", work) }
}

unsafe extern "C" fn remove_rank(ctx: Ctx, rank: u32) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.remove_rank;
        // SAFETY: numbers only.
        unsafe {
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_remove_rank(function, o, inner, rank);
            })
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_remove_rank", work) }
}

unsafe extern "C" fn set_part(ctx: Ctx, level: Text, ranks: Text, part: Text) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.set_part;
        // SAFETY: strings by the header, the last of which may be NULL.
        unsafe {
            text::read(level, "level")?;
            text::read(ranks, "ranks")?;
            if !part.is_null() {
                text::read(part, "part")?;
            }
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_set_part(function, o, inner, level, ranks, part);
            })
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_set_part", work) }
}

unsafe extern "C" fn parts(ctx: Ctx, level: Text, json: TextOut) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.parts;
        // SAFETY: pointers by the header.
        unsafe { ask(context, function, level, json) }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_parts", work) }
}

unsafe extern "C" fn eligible(ctx: Ctx, jobspec: Text, ranks: TextOut) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.eligible;
        // SAFETY: pointers by the header.
        unsafe { ask(context, function, jobspec, ranks) }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_eligible", work) }
}

unsafe extern "C" fn explain(ctx: Ctx, jobspec: Text, json: TextOut) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.explain;
        // SAFETY: pointers by the header.
        unsafe { ask(context, function, jobspec, json) }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_explain", work) }
}

unsafe extern "C" fn effort(ctx: Ctx, steps: *mut u64, is_earliest: *mut bool) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.effort;
        // SAFETY: pointers by the header.
        let (steps, is_earliest) = unsafe { (Out::new(steps)?, Out::new(is_earliest)?) };
        let (mut spent, mut is_proved) = (0, false);
        // SAFETY: places of our own.
        unsafe {
            context.ask(Effect::Reads, |o, inner| {
                let (spent, is_proved) = (&raw mut spent, &raw mut is_proved);
                barrier::fluxion_barrier_effort(function, o, inner, spent, is_proved);
            })
        }?;
        steps.set(spent);
        is_earliest.set(is_proved);
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_effort", work) }
}

unsafe extern "C" fn usage(ctx: Ctx, rank: u32, json: TextOut) -> c_int {
    let work = |context: &mut Context| {
        let function = raw(context)?.usage;
        // SAFETY: a pointer by the header.
        let json = unsafe { Out::new(json)? };
        let mut answer = Owned::empty();
        // SAFETY: a place of our own.
        let result = unsafe {
            context.ask(Effect::Reads, |o, inner| {
                barrier::fluxion_barrier_usage(function, o, inner, rank, answer.slot());
            })
        };
        give(result, answer, &json)
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "fluxion_ext_usage", work) }
}

/// # Safety
/// `jobspec` and `into` as the header says.
unsafe fn ask(
    context: &mut Context,
    function: unsafe extern "C" fn(Ctx, Text, TextOut) -> c_int,
    jobspec: Text,
    into: TextOut,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let into = unsafe {
        text::read(jobspec, "jobspec")?;
        Out::new(into)?
    };
    let mut answer = Owned::empty();
    // SAFETY: a place of our own, a string by the caller's promise.
    let result = unsafe {
        context.ask(Effect::Reads, |o, inner| {
            barrier::fluxion_barrier_ask(function, o, inner, jobspec, answer.slot());
        })
    };
    give(result, answer, &into)
}

fn give(
    result: Result<(), Failure>,
    answer: Owned,
    into: &Out<*mut std::ffi::c_char>,
) -> Result<(), Failure> {
    if let Err(failure) = result {
        answer.forget();
        return Err(failure);
    }
    if answer.is_null() || std::str::from_utf8(answer.bytes()).is_err() {
        return Err(Failure {
            errno: errno::EFAULT,
            text: "the library succeeded without an answer".to_owned(),
        });
    }
    into.set(answer.hand_over());
    Ok(())
}
