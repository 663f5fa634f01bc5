//! One function pointer per C function, so that the caller does not care which library is behind
//! them.

use std::ffi::{c_char, c_int};

use crate::abi::{match_op_t, reapi_cli_ctx_t, resource_status_t};
use crate::builtin::{extensions as ext, graph, jobs, lifecycle};

pub(crate) type Ctx = *mut reapi_cli_ctx_t;
pub(crate) type Text = *const c_char;
pub(crate) type TextOut = *mut *mut c_char;

/// The functions of a library. Fields that are `Option` came to upstream later than 0.30, and may
/// be absent.
///
/// All are documented in `include/reapi_cli.h`.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "named as in the header, which has the docs")]
pub struct FunctionTable {
    pub new: unsafe extern "C" fn() -> Ctx,
    pub destroy: unsafe extern "C" fn(Ctx),
    pub initialize: unsafe extern "C" fn(Ctx, Text, Text) -> c_int,
    pub match_allocate: unsafe extern "C" fn(
        Ctx,
        bool,
        Text,
        *mut u64,
        *mut bool,
        TextOut,
        *mut i64,
        *mut f64,
    ) -> c_int,
    pub update_allocate:
        unsafe extern "C" fn(Ctx, u64, Text, *mut i64, *mut f64, *mut *const c_char) -> c_int,
    pub cancel: unsafe extern "C" fn(Ctx, u64, bool) -> c_int,
    pub info: unsafe extern "C" fn(Ctx, u64, TextOut, *mut bool, *mut i64, *mut f64) -> c_int,
    pub stat: unsafe extern "C" fn(
        Ctx,
        *mut i64,
        *mut i64,
        *mut i64,
        *mut f64,
        *mut f64,
        *mut f64,
        *mut f64,
    ) -> c_int,
    pub get_err_msg: unsafe extern "C" fn(Ctx) -> *mut c_char,
    pub clear_err_msg: unsafe extern "C" fn(Ctx),
    /// `reapi_cli_match`, since 0.33.
    pub match_op: Option<
        unsafe extern "C" fn(
            Ctx,
            match_op_t,
            Text,
            *mut u64,
            *mut bool,
            TextOut,
            *mut i64,
            *mut f64,
        ) -> c_int,
    >,
    /// Since 0.33.
    pub match_satisfy: Option<unsafe extern "C" fn(Ctx, Text, *mut bool, *mut f64) -> c_int>,
    /// Since 0.36.1.
    pub partial_cancel: Option<unsafe extern "C" fn(Ctx, u64, Text, bool, *mut bool) -> c_int>,
    /// Since 0.52.
    pub clone: Option<unsafe extern "C" fn(Ctx) -> Ctx>,
    /// Since 0.52.
    pub match_with_jobid: Option<
        unsafe extern "C" fn(
            Ctx,
            match_op_t,
            Text,
            u64,
            *mut bool,
            TextOut,
            *mut i64,
            *mut f64,
        ) -> c_int,
    >,
    /// Since 0.53.
    pub find: Option<unsafe extern "C" fn(Ctx, Text, Text, TextOut) -> c_int>,
    /// Since 0.53.
    pub add_subgraph: Option<unsafe extern "C" fn(Ctx, Text) -> c_int>,
    /// Since 0.53.
    pub remove_subgraph: Option<unsafe extern "C" fn(Ctx, Text) -> c_int>,
    /// Since 0.53.
    pub set_status: Option<unsafe extern "C" fn(Ctx, Text, resource_status_t) -> c_int>,
    /// Since 0.53.
    pub get_status: Option<unsafe extern "C" fn(Ctx, Text, *mut resource_status_t) -> c_int>,
    /// Since 0.53.
    pub set_rank_status: Option<unsafe extern "C" fn(Ctx, Text, resource_status_t) -> c_int>,
    /// Since 0.53.
    pub get_rank_status: Option<unsafe extern "C" fn(Ctx, Text, *mut resource_status_t) -> c_int>,
    /// The functions that upstream does not have: all of them, or none.
    pub extensions: Option<&'static Extensions>,
}

/// The functions `fluxion_ext_*`.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "named as in the header, which has the docs")]
pub struct Extensions {
    pub set_time: unsafe extern "C" fn(Ctx, i64) -> c_int,
    pub move_job: unsafe extern "C" fn(Ctx, u64, *mut i64, *mut bool, TextOut, *mut c_int) -> c_int,
    pub begin_trial: unsafe extern "C" fn(Ctx) -> c_int,
    pub end_trial: unsafe extern "C" fn(Ctx) -> c_int,
    pub charge: unsafe extern "C" fn(Ctx, u64, Text) -> c_int,
    pub release: unsafe extern "C" fn(Ctx, u64, u32, Text, u64) -> c_int,
    pub resize: unsafe extern "C" fn(Ctx, u32, Text, u64) -> c_int,
    pub remove_rank: unsafe extern "C" fn(Ctx, u32) -> c_int,
    pub set_part: unsafe extern "C" fn(Ctx, Text, Text, Text) -> c_int,
    pub parts: unsafe extern "C" fn(Ctx, Text, TextOut) -> c_int,
    pub eligible: unsafe extern "C" fn(Ctx, Text, TextOut) -> c_int,
    pub explain: unsafe extern "C" fn(Ctx, Text, TextOut) -> c_int,
    pub effort: unsafe extern "C" fn(Ctx, *mut u64, *mut bool) -> c_int,
    pub usage: unsafe extern "C" fn(Ctx, u32, TextOut) -> c_int,
}

impl FunctionTable {
    /// The library that is linked in: fluxion-engine.
    pub const fn builtin() -> Self {
        FunctionTable {
            new: lifecycle::reapi_cli_new,
            destroy: lifecycle::reapi_cli_destroy,
            initialize: lifecycle::reapi_cli_initialize,
            match_allocate: jobs::reapi_cli_match_allocate,
            update_allocate: jobs::reapi_cli_update_allocate,
            cancel: jobs::reapi_cli_cancel,
            info: jobs::reapi_cli_info,
            stat: graph::reapi_cli_stat,
            get_err_msg: lifecycle::reapi_cli_get_err_msg,
            clear_err_msg: lifecycle::reapi_cli_clear_err_msg,
            match_op: Some(jobs::reapi_cli_match),
            match_satisfy: Some(jobs::reapi_cli_match_satisfy),
            partial_cancel: Some(jobs::reapi_cli_partial_cancel),
            clone: Some(lifecycle::reapi_cli_clone),
            match_with_jobid: Some(jobs::reapi_cli_match_with_jobid),
            find: Some(graph::reapi_cli_find),
            add_subgraph: Some(graph::reapi_cli_add_subgraph),
            remove_subgraph: Some(graph::reapi_cli_remove_subgraph),
            set_status: Some(graph::reapi_cli_set_status),
            get_status: Some(graph::reapi_cli_get_status),
            set_rank_status: Some(graph::reapi_cli_set_rank_status),
            get_rank_status: Some(graph::reapi_cli_get_rank_status),
            extensions: Some(&Extensions {
                set_time: ext::fluxion_ext_set_time,
                move_job: ext::fluxion_ext_move,
                begin_trial: ext::fluxion_ext_begin_trial,
                end_trial: ext::fluxion_ext_end_trial,
                charge: ext::fluxion_ext_charge,
                release: ext::fluxion_ext_release,
                resize: ext::fluxion_ext_resize,
                remove_rank: ext::fluxion_ext_remove_rank,
                set_part: ext::fluxion_ext_set_part,
                parts: ext::fluxion_ext_parts,
                eligible: ext::fluxion_ext_eligible,
                explain: ext::fluxion_ext_explain,
                effort: ext::fluxion_ext_effort,
                usage: ext::fluxion_ext_usage,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi as c;

    /// Compiles only if the table has the header's signatures; the names resolve to the exported
    /// functions.
    #[test]
    fn the_table_has_the_signatures_of_the_header() {
        let of_the_header = FunctionTable {
            new: c::reapi_cli_new,
            destroy: c::reapi_cli_destroy,
            initialize: c::reapi_cli_initialize,
            match_allocate: c::reapi_cli_match_allocate,
            update_allocate: c::reapi_cli_update_allocate,
            cancel: c::reapi_cli_cancel,
            info: c::reapi_cli_info,
            stat: c::reapi_cli_stat,
            get_err_msg: lifecycle::reapi_cli_get_err_msg,
            clear_err_msg: c::reapi_cli_clear_err_msg,
            match_op: Some(c::reapi_cli_match),
            match_satisfy: Some(c::reapi_cli_match_satisfy),
            partial_cancel: Some(c::reapi_cli_partial_cancel),
            clone: Some(c::reapi_cli_clone),
            match_with_jobid: Some(c::reapi_cli_match_with_jobid),
            find: Some(c::reapi_cli_find),
            add_subgraph: Some(c::reapi_cli_add_subgraph),
            remove_subgraph: Some(c::reapi_cli_remove_subgraph),
            set_status: Some(c::reapi_cli_set_status),
            get_status: Some(c::reapi_cli_get_status),
            set_rank_status: Some(c::reapi_cli_set_rank_status),
            get_rank_status: Some(c::reapi_cli_get_rank_status),
            extensions: Some(&Extensions {
                set_time: c::fluxion_ext_set_time,
                move_job: c::fluxion_ext_move,
                begin_trial: c::fluxion_ext_begin_trial,
                end_trial: c::fluxion_ext_end_trial,
                charge: c::fluxion_ext_charge,
                release: c::fluxion_ext_release,
                resize: c::fluxion_ext_resize,
                remove_rank: c::fluxion_ext_remove_rank,
                set_part: c::fluxion_ext_set_part,
                parts: c::fluxion_ext_parts,
                eligible: c::fluxion_ext_eligible,
                explain: c::fluxion_ext_explain,
                effort: c::fluxion_ext_effort,
                usage: c::fluxion_ext_usage,
            }),
        };
        // The header's is const, as upstream's, although the text is the caller's to free.
        let get_err_msg: unsafe extern "C" fn(Ctx) -> *const c_char = c::reapi_cli_get_err_msg;
        assert_eq!(
            get_err_msg as *const () as usize,
            of_the_header.get_err_msg as *const () as usize
        );
        assert_eq!(
            of_the_header.new as *const () as usize,
            FunctionTable::builtin().new as *const () as usize
        );
    }
}
