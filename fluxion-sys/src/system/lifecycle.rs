//! Contexts of a system library, and the texts of their failures.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::barrier::{self, Ctx, Outcome, Text};
use super::context::{Context, Effect, turn, with_context, with_graph};
use super::library::{LIBRARIES_MAX, library};
use super::options;
use crate::builtin::{Failure, text};
use crate::errno;

/// `new` of each library, by its slot.
pub(super) const NEW: [unsafe extern "C" fn() -> Ctx; LIBRARIES_MAX] =
    [new::<0>, new::<1>, new::<2>, new::<3>, new::<4>, new::<5>, new::<6>, new::<7>];

unsafe extern "C" fn new<const SLOT: usize>() -> Ctx {
    let Some(library) = library(SLOT) else {
        errno::set(errno::EINVAL);
        return ptr::null_mut();
    };
    let mut outcome = Outcome::new();
    let inner = {
        let _turn = turn();
        // SAFETY: a function of the library, and an outcome of our own.
        unsafe { barrier::fluxion_barrier_new(library.raw.new, &raw mut outcome) }
    };
    if inner.is_null() {
        errno::set(if outcome.error == 0 { errno::ENOMEM } else { outcome.error });
        return ptr::null_mut();
    }
    Box::into_raw(Box::new(Context::new(library, inner, false))).cast()
}

pub(super) unsafe extern "C" fn clone(ctx: Ctx) -> Ctx {
    let mut copy = ptr::null_mut();
    let work = |context: &mut Context| {
        let function =
            context.raw().clone.ok_or_else(|| Failure::invalid("not in this library"))?;
        let mut error = 0;
        let mut made: Ctx = ptr::null_mut();
        // SAFETY: `ask` passes our outcome and the context's own.
        unsafe {
            context.ask(Effect::Reads, |outcome, inner| {
                made = barrier::fluxion_barrier_clone(function, outcome, inner);
                error = (*outcome).error;
            })?;
        }
        if made.is_null() {
            let errno = if error == 0 { errno::ENOMEM } else { error };
            return Err(Failure { errno, text: String::new() });
        }
        let mut made = Context::new(context.library, made, true);
        made.messages = context.messages.clone();
        copy = Box::into_raw(Box::new(made)).cast();
        Ok(())
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_graph(ctx, "reapi_cli_clone", work) };
    copy
}

pub(super) unsafe extern "C" fn destroy(ctx: Ctx) {
    if ctx.is_null() {
        return;
    }
    let before = errno::get();
    // SAFETY: by the header it came from this library and is used no more.
    let context = unsafe { Box::from_raw(ctx.cast::<Context>()) };
    let mut outcome = Outcome::new();
    {
        let _turn = turn();
        // SAFETY: the library's own context, used no more. An exception ends in the barrier;
        // there is no caller to tell.
        unsafe {
            barrier::fluxion_barrier_void(context.raw().destroy, &raw mut outcome, context.inner);
        };
    }
    drop(context);
    errno::set(before);
}

pub(super) unsafe extern "C" fn initialize(ctx: Ctx, rgraph: Text, options: Text) -> c_int {
    let work = |context: &mut Context| {
        // SAFETY: strings by the header.
        let checked = unsafe {
            text::read(rgraph, "rgraph")?;
            text::read(options, "options")?
        };
        if context.has_graph {
            return Err(Failure::invalid("the context has a graph already"));
        }
        options::check(checked, context.raw().extensions.is_some())
            .map_err(|text| Failure { errno: errno::EPROTO, text })?;
        let function = context.raw().initialize;
        // SAFETY: strings by the header.
        let made = unsafe {
            context.ask(Effect::Changes, |outcome, inner| {
                barrier::fluxion_barrier_initialize(function, outcome, inner, rgraph, options);
            })
        };
        context.has_graph = made.is_ok();
        made
    };
    // SAFETY: the header's rules for ctx.
    unsafe { with_context(ctx, "reapi_cli_initialize", work) }
}

pub(super) unsafe extern "C" fn get_err_msg(ctx: Ctx) -> *mut c_char {
    // SAFETY: the header's rules for ctx.
    let Some(context) = (unsafe { ctx.cast::<Context>().as_ref() }) else {
        errno::set(errno::EINVAL);
        return text::copy("ERROR: reapi_cli context is null\n");
    };
    text::copy(context.messages.text())
}

pub(super) unsafe extern "C" fn clear_err_msg(ctx: Ctx) {
    // SAFETY: the header's rules for ctx.
    if let Some(context) = unsafe { ctx.cast::<Context>().as_mut() } {
        context.messages.clear();
    }
}
