//! Changing the graph, and the status of its vertices.

use std::ffi::{c_char, c_int};

use super::failure::Failure;
use super::handle::{Handle, call};
use super::text;
use super::text::Out;
use crate::abi::{reapi_cli_ctx_t, resource_status_t};
use crate::{errno, status};
use fluxion_engine::MatchFormat;

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_find(
    ctx: *mut reapi_cli_ctx_t,
    criteria: *const c_char,
    format: *const c_char,
    r: *mut *mut c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (criteria, r) = unsafe { (text::read(criteria, "criteria")?, Out::new(r)?) };
        let engine = context.engine()?;
        let format = if format.is_null() {
            engine.options().format
        } else {
            // SAFETY: a string by the header.
            let name = unsafe { text::read(format, "format")? };
            MatchFormat::parse(name)
                .ok_or_else(|| Failure::invalid(&format!("find: unknown match format {name:?}")))?
        };
        match engine.find(criteria, format, true)? {
            None => r.set(std::ptr::null_mut()),
            Some(_) if matches!(format, MatchFormat::Simple | MatchFormat::PrettySimple) => {
                // As upstream (Q27), where the answer has to be a JSON document.
                let text = "find: names alone are no JSON".to_owned();
                return Err(Failure { errno: errno::ENOMEM, text });
            }
            Some(found) => r.set_text(&found)?,
        }
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_find", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_stat(
    ctx: *mut reapi_cli_ctx_t,
    _v: *mut i64,
    _e: *mut i64,
    _j: *mut i64,
    _load: *mut f64,
    _min: *mut f64,
    _max: *mut f64,
    _avg: *mut f64,
) -> c_int {
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe {
        call(ctx, "reapi_cli_stat", |context| {
            context.engine()?;
            Err(Failure { errno: errno::ENOSYS, text: String::new() })
        })
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_add_subgraph(
    ctx: *mut reapi_cli_ctx_t,
    subgraph: *const c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: a string by the header.
        let subgraph = unsafe { text::read(subgraph, "subgraph")? };
        Ok(context.engine()?.add_subgraph(subgraph)?)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_add_subgraph", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_remove_subgraph(
    ctx: *mut reapi_cli_ctx_t,
    subgraph_path: *const c_char,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: a string by the header.
        let path = unsafe { text::read(subgraph_path, "subgraph_path")? };
        Ok(context.engine()?.remove_subgraph(path)?)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_remove_subgraph", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_set_status(
    ctx: *mut reapi_cli_ctx_t,
    resource_path: *const c_char,
    status: resource_status_t,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: a string by the header.
        let path = unsafe { text::read(resource_path, "resource_path")? };
        let engine = context.engine()?;
        if path.is_empty() {
            return Err(Failure::invalid(""));
        }
        Ok(engine.set_status(path, is_up(status)?)?)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_set_status", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_get_status(
    ctx: *mut reapi_cli_ctx_t,
    resource_path: *const c_char,
    status: *mut resource_status_t,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (path, status) =
            unsafe { (text::read(resource_path, "resource_path")?, Out::new(status)?) };
        if path.is_empty() {
            // As upstream, which says nothing of an empty path.
            return Err(Failure::invalid(""));
        }
        status.set(of_up(context.engine()?.asking(|engine| engine.status(path))?));
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_get_status", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_set_rank_status(
    ctx: *mut reapi_cli_ctx_t,
    ranks: *const c_char,
    status: resource_status_t,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: a string by the header.
        let ranks = unsafe { text::read(ranks, "ranks")? };
        Ok(context.engine()?.set_rank_status(ranks, is_up(status)?)?)
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_set_rank_status", work) }
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reapi_cli_get_rank_status(
    ctx: *mut reapi_cli_ctx_t,
    rank: *const c_char,
    status: *mut resource_status_t,
) -> c_int {
    let work = |context: &mut Handle| {
        // SAFETY: pointers by the header.
        let (rank, status) = unsafe { (text::read(rank, "rank")?, Out::new(status)?) };
        status.set(of_up(context.engine()?.asking(|engine| engine.rank_status(rank))?));
        Ok(())
    };
    // SAFETY: the header's rules for ctx are those of `call`.
    unsafe { call(ctx, "reapi_cli_get_rank_status", work) }
}

fn is_up(value: resource_status_t) -> Result<bool, Failure> {
    match value {
        status::UP => Ok(true),
        status::DOWN => Ok(false),
        // As upstream, without a word.
        _ => Err(Failure::invalid("")),
    }
}

fn of_up(up: bool) -> resource_status_t {
    if up { status::UP } else { status::DOWN }
}
