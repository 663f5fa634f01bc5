//! The graph of a system library: found, changed, up and down.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::barrier::{self, Ctx, Text, TextOut};
use super::context::{Context, Effect, Owned, absent, with_graph};
use crate::abi::resource_status_t;
use crate::builtin::Failure;
use crate::builtin::text::{self, Out};
use crate::{errno, status};

pub(super) unsafe extern "C" fn find(ctx: Ctx, criteria: Text, format: Text, r: TextOut) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: pointers by the header.
        let r = unsafe {
            text::read(criteria, "criteria")?;
            if !format.is_null() {
                text::read(format, "format")?;
            }
            Out::new(r)?
        };
        let function = context.raw().find.ok_or_else(absent)?;
        let mut found = Owned::empty();
        // SAFETY: places of our own, strings by the header.
        let result = unsafe {
            context.ask(Effect::Reads, |o, inner| {
                barrier::fluxion_barrier_find(function, o, inner, criteria, format, found.slot());
            })
        };
        if let Err(failure) = result {
            found.forget();
            return Err(failure);
        }
        if std::str::from_utf8(found.bytes()).is_err() {
            return Err(Failure {
                errno: errno::EFAULT,
                text: "R of the library is not UTF-8".to_owned(),
            });
        }
        // NULL means that nothing was found.
        r.set(if found.is_null() { ptr::null_mut::<c_char>() } else { found.hand_over() });
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_find", work) }
}

pub(super) unsafe extern "C" fn stat(
    ctx: Ctx,
    v: *mut i64,
    e: *mut i64,
    j: *mut i64,
    load: *mut f64,
    min: *mut f64,
    max: *mut f64,
    avg: *mut f64,
) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: pointers by the header.
        let (counts, times) = unsafe {
            (
                [Out::new(v)?, Out::new(e)?, Out::new(j)?],
                [Out::new(load)?, Out::new(min)?, Out::new(max)?, Out::new(avg)?],
            )
        };
        let function = context.raw().stat;
        let (mut numbers, mut seconds) = ([0i64; 3], [0f64; 4]);
        let [vertices, edges, jobs] = &mut numbers;
        let [load_s, min_s, max_s, avg_s] = &mut seconds;
        // SAFETY: places of our own.
        unsafe {
            context.ask(Effect::Reads, |o, inner| {
                barrier::fluxion_barrier_stat(
                    function, o, inner, vertices, edges, jobs, load_s, min_s, max_s, avg_s,
                );
            })?;
        }
        counts.iter().zip(numbers).for_each(|(place, value)| place.set(value));
        times.iter().zip(seconds).for_each(|(place, value)| place.set(value));
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_stat", work) }
}

pub(super) unsafe extern "C" fn add_subgraph(ctx: Ctx, subgraph: Text) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: a string by the header.
        unsafe { text::read(subgraph, "subgraph")? };
        let function = context.raw().add_subgraph.ok_or_else(absent)?;
        // SAFETY: a string by the header.
        unsafe {
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_text(function, o, inner, subgraph);
            })
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_add_subgraph", work) }
}

pub(super) unsafe extern "C" fn remove_subgraph(ctx: Ctx, path: Text) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: a string by the header.
        unsafe { text::read(path, "subgraph_path")? };
        let function = context.raw().remove_subgraph.ok_or_else(absent)?;
        // SAFETY: a string by the header.
        unsafe {
            context.ask(Effect::Changes, |o, inner| {
                barrier::fluxion_barrier_text(function, o, inner, path);
            })
        }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_remove_subgraph", work) }
}

pub(super) unsafe extern "C" fn set_status(ctx: Ctx, path: Text, to: resource_status_t) -> c_int {
    let work = |context: &mut Context| {
        let function = context.raw().set_status;
        // SAFETY: a string by the header.
        unsafe { set(context, function, path, "resource_path", to) }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_set_status", work) }
}

pub(super) unsafe extern "C" fn set_rank_status(
    ctx: Ctx,
    ranks: Text,
    to: resource_status_t,
) -> c_int {
    let work = |context: &mut Context| {
        let function = context.raw().set_rank_status;
        // SAFETY: a string by the header.
        unsafe { set(context, function, ranks, "ranks", to) }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_set_rank_status", work) }
}

pub(super) unsafe extern "C" fn get_status(
    ctx: Ctx,
    path: Text,
    into: *mut resource_status_t,
) -> c_int {
    let work = |context: &mut Context| {
        let function = context.raw().get_status;
        // SAFETY: pointers by the header.
        unsafe { get(context, function, path, "resource_path", into) }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_get_status", work) }
}

pub(super) unsafe extern "C" fn get_rank_status(
    ctx: Ctx,
    rank: Text,
    into: *mut resource_status_t,
) -> c_int {
    let work = |context: &mut Context| {
        let function = context.raw().get_rank_status;
        // SAFETY: pointers by the header.
        unsafe { get(context, function, rank, "rank", into) }
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_get_rank_status", work) }
}

type Setter = unsafe extern "C" fn(Ctx, Text, resource_status_t) -> c_int;
type Getter = unsafe extern "C" fn(Ctx, Text, *mut resource_status_t) -> c_int;

/// # Safety
/// `place` as the header says.
unsafe fn set(
    context: &mut Context,
    function: Option<Setter>,
    place: Text,
    name: &str,
    to: resource_status_t,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { text::read(place, name)? };
    let function = function.ok_or_else(absent)?;
    if !matches!(to, status::UP | status::DOWN) {
        return Err(Failure::invalid(&format!("status: {to} is neither up nor down")));
    }
    // SAFETY: a string by the caller's promise.
    unsafe {
        context.ask(Effect::Changes, |o, inner| {
            barrier::fluxion_barrier_set_status(function, o, inner, place, to);
        })
    }
}

/// # Safety
/// `place` and `into` as the header says.
unsafe fn get(
    context: &mut Context,
    function: Option<Getter>,
    place: Text,
    name: &str,
    into: *mut resource_status_t,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let into = unsafe {
        text::read(place, name)?;
        Out::new(into)?
    };
    let function = function.ok_or_else(absent)?;
    let mut found = status::UP;
    // SAFETY: a place of our own, a string by the caller's promise.
    unsafe {
        context.ask(Effect::Reads, |o, inner| {
            barrier::fluxion_barrier_get_status(function, o, inner, place, &raw mut found);
        })?;
    }
    if !matches!(found, status::UP | status::DOWN) {
        return Err(Failure {
            errno: errno::EFAULT,
            text: format!("the library knows a status {found}"),
        });
    }
    into.set(found);
    Ok(())
}
