//! The functions that upstream does not have.

use std::ffi::{c_char, c_int};

use fluxion_engine::{Delay, Moved};

use super::handle::{Handle, call};
use super::text;
use super::text::Out;
use crate::abi::reapi_cli_ctx_t;
use crate::later as cause;

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_set_time(ctx: *mut reapi_cli_ctx_t, now: i64) -> c_int {
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_set_time", |context| Ok(context.engine()?.set_time(now)?)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_move(
    ctx: *mut reapi_cli_ctx_t,
    jobid: u64,
    at: *mut i64,
    reserved: *mut bool,
    r: *mut *mut c_char,
    later: *mut c_int,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (at, reserved, r, later) =
            unsafe { (Out::new(at)?, Out::new(reserved)?, Out::new(r)?, Out::new(later)?) };
        // A caller without the answer would not know its resources: nothing is moved then.
        let hand_out = |moved: &Moved| r.set_text(&moved.r);
        let moved = context.engine()?.move_reservation_if(jobid, hand_out)?;
        at.set(moved.at);
        reserved.set(moved.reserved);
        let Delay { overdue, capacity, status } = moved.delay;
        let causes =
            [(overdue, cause::OVERDUE), (capacity, cause::CAPACITY), (status, cause::STATUS)];
        later.set(causes.into_iter().filter(|(is, _)| *is).fold(0, |bits, (_, bit)| bits | bit));
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_move", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_begin_trial(ctx: *mut reapi_cli_ctx_t) -> c_int {
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_begin_trial", |context| Ok(context.engine()?.begin_trial()?)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_end_trial(ctx: *mut reapi_cli_ctx_t) -> c_int {
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_end_trial", |context| Ok(context.engine()?.end_trial()?)) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_charge(
    ctx: *mut reapi_cli_ctx_t,
    jobid: u64,
    charge: *const c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: a string by the header.
        let charge = unsafe { text::read(charge, "charge")? };
        Ok(context.engine()?.charge(jobid, charge)?)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_charge", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_release(
    ctx: *mut reapi_cli_ctx_t,
    jobid: u64,
    rank: u32,
    label: *const c_char,
    count: u64,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: a string by the header.
        let label = unsafe { text::read(label, "label")? };
        Ok(context.engine()?.release(jobid, rank, label, count)?)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_release", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_resize(
    ctx: *mut reapi_cli_ctx_t,
    rank: u32,
    kind: *const c_char,
    size: u64,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: a string by the header.
        let kind = unsafe { text::read(kind, "type")? };
        Ok(context.engine()?.resize(rank, kind, size)?)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_resize", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_remove_rank(
    ctx: *mut reapi_cli_ctx_t,
    rank: u32,
) -> c_int {
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe {
        call(ctx, "fluxion_ext_remove_rank", |context| Ok(context.engine()?.remove_rank(rank)?))
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_set_part(
    ctx: *mut reapi_cli_ctx_t,
    level: *const c_char,
    ranks: *const c_char,
    part: *const c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: strings by the header.
        let (level, ranks) = unsafe { (text::read(level, "level")?, text::read(ranks, "ranks")?) };
        // SAFETY: as above.
        let part = if part.is_null() { "" } else { unsafe { text::read(part, "part")? } };
        Ok(context.engine()?.set_part(level, ranks, part)?)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_set_part", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_parts(
    ctx: *mut reapi_cli_ctx_t,
    level: *const c_char,
    json: *mut *mut c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (level, json) = unsafe { (text::read(level, "level")?, Out::new(json)?) };
        json.set_text(&context.engine()?.asking(|engine| engine.level(level).to_json()))
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_parts", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_eligible(
    ctx: *mut reapi_cli_ctx_t,
    jobspec: *const c_char,
    ranks: *mut *mut c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (jobspec, ranks) = unsafe { (text::read(jobspec, "jobspec")?, Out::new(ranks)?) };
        ranks.set_text(&context.engine()?.eligible(jobspec)?)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_eligible", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_explain(
    ctx: *mut reapi_cli_ctx_t,
    jobspec: *const c_char,
    json: *mut *mut c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (jobspec, json) = unsafe { (text::read(jobspec, "jobspec")?, Out::new(json)?) };
        json.set_text(&context.engine()?.explain(jobspec)?.to_json())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_explain", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_effort(
    ctx: *mut reapi_cli_ctx_t,
    steps: *mut u64,
    is_earliest: *mut bool,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (steps, is_earliest) = unsafe { (Out::new(steps)?, Out::new(is_earliest)?) };
        let engine = context.engine()?;
        let (spent, is_proved) = engine.search_effort();
        steps.set(spent);
        is_earliest.set(is_proved);
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_effort", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fluxion_ext_usage(
    ctx: *mut reapi_cli_ctx_t,
    rank: u32,
    json: *mut *mut c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: a pointer by the header.
        let json = unsafe { Out::new(json)? };
        json.set_text(&context.engine()?.asking(|engine| engine.usage(rank))?.to_json())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "fluxion_ext_usage", work) }
}
