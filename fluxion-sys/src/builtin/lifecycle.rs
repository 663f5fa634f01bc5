//! Contexts: made, given a graph, copied, destroyed; and the texts of their failures.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use fluxion_engine::readers::Format;
use fluxion_engine::{Engine, Reason};

use super::handle::{Handle, call, defect};
use super::text;
use crate::abi::reapi_cli_ctx_t;
use crate::errno;

/// See the header.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn reapi_cli_new() -> *mut reapi_cli_ctx_t {
    Box::into_raw(Box::<Handle>::default()).cast()
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_clone(ctx: *mut reapi_cli_ctx_t) -> *mut reapi_cli_ctx_t {
    let mut copy = ptr::null_mut();
    let work = |context: &mut Handle| {
        let engine = Some(context.engine()?.fork());
        // As upstream, where the copy shows all texts that were noted before.
        let messages = context.messages.clone();
        copy = Box::into_raw(Box::new(Handle { engine, messages })).cast();
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_clone", work) };
    copy
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_destroy(ctx: *mut reapi_cli_ctx_t) {
    if ctx.is_null() {
        return;
    }
    let before = errno::get();
    // SAFETY: by the header it came from this library and is used no more.
    let context = unsafe { Box::from_raw(ctx.cast::<Handle>()) };
    // Nothing in a context panics when dropped; if that ever changes, C must not see it.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        defect("reapi_cli_destroy");
        drop(context);
    }));
    errno::set(before);
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_initialize(
    ctx: *mut reapi_cli_ctx_t,
    rgraph: *const c_char,
    options: *const c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: strings by the header.
        let (graph, options) =
            unsafe { (text::read(rgraph, "rgraph")?, text::read(options, "options")?) };
        // As upstream (Q13): its graph is gone, also if it gets none instead.
        context.engine = None;
        let engine = Engine::new(graph, options).map_err(|error| error.as_reason(Reason::Setup))?;
        let options = engine.options();
        if options.allowlist.is_some() && options.load_format != Format::Hwloc {
            context.messages.note("WARN: allowlist unsupported\n");
        }
        context.engine = Some(engine);
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_initialize", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_get_err_msg(ctx: *mut reapi_cli_ctx_t) -> *mut c_char {
    // SAFETY: the header's rules for ctx; this library makes contexts of no other type.
    let Some(context) = (unsafe { ctx.cast::<Handle>().as_ref() }) else {
        errno::set(errno::EINVAL);
        return text::copy("ERROR: reapi_cli context is null\n");
    };
    text::copy(context.messages.text())
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_clear_err_msg(ctx: *mut reapi_cli_ctx_t) {
    // SAFETY: as above.
    if let Some(context) = unsafe { ctx.cast::<Handle>().as_mut() } {
        context.messages.clear();
    }
}
