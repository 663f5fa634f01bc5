// Made by bindgen from include/reapi_cli.h: see tests/bindings.rs.

pub const FLUXION_EXT_LATER_OVERDUE: u32 = 1;
pub const FLUXION_EXT_LATER_CAPACITY: u32 = 2;
pub const FLUXION_EXT_LATER_STATUS: u32 = 4;
#[repr(C)]
#[derive(Debug)]
pub struct reapi_cli_ctx {
    _unused: [u8; 0],
}
pub type reapi_cli_ctx_t = reapi_cli_ctx;
pub const match_op_t_MATCH_UNKNOWN: match_op_t = 0;
pub const match_op_t_MATCH_ALLOCATE: match_op_t = 1;
pub const match_op_t_MATCH_ALLOCATE_W_SATISFIABILITY: match_op_t = 2;
pub const match_op_t_MATCH_ALLOCATE_ORELSE_RESERVE: match_op_t = 3;
pub const match_op_t_MATCH_SATISFIABILITY: match_op_t = 4;
pub const match_op_t_MATCH_WITHOUT_ALLOCATING: match_op_t = 5;
pub const match_op_t_MATCH_WITHOUT_ALLOCATING_FUTURE: match_op_t = 6;
pub const match_op_t_END_MATCH_OP_T: match_op_t = 7;
pub type match_op_t = ::core::ffi::c_uint;
pub const resource_status_t_RESOURCE_UP: resource_status_t = 0;
pub const resource_status_t_RESOURCE_DOWN: resource_status_t = 1;
pub type resource_status_t = ::core::ffi::c_uint;
unsafe extern "C" {
    pub fn match_op_to_string(match_op: match_op_t) -> *const ::core::ffi::c_char;
    pub fn match_op_from_string(str_: *const ::core::ffi::c_char) -> match_op_t;
    pub fn match_op_valid(match_op: match_op_t) -> bool;
    pub fn reapi_cli_new() -> *mut reapi_cli_ctx_t;
    pub fn reapi_cli_clone(ctx: *mut reapi_cli_ctx_t) -> *mut reapi_cli_ctx_t;
    pub fn reapi_cli_destroy(ctx: *mut reapi_cli_ctx_t);
    pub fn reapi_cli_initialize(
        ctx: *mut reapi_cli_ctx_t,
        rgraph: *const ::core::ffi::c_char,
        options: *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_match(
        ctx: *mut reapi_cli_ctx_t,
        match_op: match_op_t,
        jobspec: *const ::core::ffi::c_char,
        jobid: *mut u64,
        reserved: *mut bool,
        R: *mut *mut ::core::ffi::c_char,
        at: *mut i64,
        ov: *mut f64,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_match_with_jobid(
        ctx: *mut reapi_cli_ctx_t,
        match_op: match_op_t,
        jobspec: *const ::core::ffi::c_char,
        jobid: u64,
        reserved: *mut bool,
        R: *mut *mut ::core::ffi::c_char,
        at: *mut i64,
        ov: *mut f64,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_match_allocate(
        ctx: *mut reapi_cli_ctx_t,
        orelse_reserve: bool,
        jobspec: *const ::core::ffi::c_char,
        jobid: *mut u64,
        reserved: *mut bool,
        R: *mut *mut ::core::ffi::c_char,
        at: *mut i64,
        ov: *mut f64,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_match_satisfy(
        ctx: *mut reapi_cli_ctx_t,
        jobspec: *const ::core::ffi::c_char,
        sat: *mut bool,
        ov: *mut f64,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_update_allocate(
        ctx: *mut reapi_cli_ctx_t,
        jobid: u64,
        R: *const ::core::ffi::c_char,
        at: *mut i64,
        ov: *mut f64,
        R_out: *mut *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_cancel(
        ctx: *mut reapi_cli_ctx_t,
        jobid: u64,
        noent_ok: bool,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_partial_cancel(
        ctx: *mut reapi_cli_ctx_t,
        jobid: u64,
        R: *const ::core::ffi::c_char,
        noent_ok: bool,
        full_removal: *mut bool,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_info(
        ctx: *mut reapi_cli_ctx_t,
        jobid: u64,
        mode: *mut *mut ::core::ffi::c_char,
        reserved: *mut bool,
        at: *mut i64,
        ov: *mut f64,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_find(
        ctx: *mut reapi_cli_ctx_t,
        criteria: *const ::core::ffi::c_char,
        format: *const ::core::ffi::c_char,
        R: *mut *mut ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_stat(
        ctx: *mut reapi_cli_ctx_t,
        V: *mut i64,
        E: *mut i64,
        J: *mut i64,
        load: *mut f64,
        min: *mut f64,
        max: *mut f64,
        avg: *mut f64,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_add_subgraph(
        ctx: *mut reapi_cli_ctx_t,
        subgraph: *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_remove_subgraph(
        ctx: *mut reapi_cli_ctx_t,
        subgraph_path: *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_set_status(
        ctx: *mut reapi_cli_ctx_t,
        resource_path: *const ::core::ffi::c_char,
        status: resource_status_t,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_get_status(
        ctx: *mut reapi_cli_ctx_t,
        resource_path: *const ::core::ffi::c_char,
        status: *mut resource_status_t,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_set_rank_status(
        ctx: *mut reapi_cli_ctx_t,
        ranks: *const ::core::ffi::c_char,
        status: resource_status_t,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_get_rank_status(
        ctx: *mut reapi_cli_ctx_t,
        rank: *const ::core::ffi::c_char,
        status: *mut resource_status_t,
    ) -> ::core::ffi::c_int;
    pub fn reapi_cli_get_err_msg(
        ctx: *mut reapi_cli_ctx_t,
    ) -> *const ::core::ffi::c_char;
    pub fn reapi_cli_clear_err_msg(ctx: *mut reapi_cli_ctx_t);
    pub fn fluxion_ext_set_time(
        ctx: *mut reapi_cli_ctx_t,
        now: i64,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_move(
        ctx: *mut reapi_cli_ctx_t,
        jobid: u64,
        at: *mut i64,
        reserved: *mut bool,
        R: *mut *mut ::core::ffi::c_char,
        later: *mut ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_begin_trial(ctx: *mut reapi_cli_ctx_t) -> ::core::ffi::c_int;
    pub fn fluxion_ext_end_trial(ctx: *mut reapi_cli_ctx_t) -> ::core::ffi::c_int;
    pub fn fluxion_ext_charge(
        ctx: *mut reapi_cli_ctx_t,
        jobid: u64,
        charge: *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_release(
        ctx: *mut reapi_cli_ctx_t,
        jobid: u64,
        rank: u32,
        label: *const ::core::ffi::c_char,
        count: u64,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_resize(
        ctx: *mut reapi_cli_ctx_t,
        rank: u32,
        type_: *const ::core::ffi::c_char,
        size: u64,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_set_part(
        ctx: *mut reapi_cli_ctx_t,
        level: *const ::core::ffi::c_char,
        ranks: *const ::core::ffi::c_char,
        part: *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_parts(
        ctx: *mut reapi_cli_ctx_t,
        level: *const ::core::ffi::c_char,
        json: *mut *mut ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_remove_rank(
        ctx: *mut reapi_cli_ctx_t,
        rank: u32,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_eligible(
        ctx: *mut reapi_cli_ctx_t,
        jobspec: *const ::core::ffi::c_char,
        ranks: *mut *mut ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_explain(
        ctx: *mut reapi_cli_ctx_t,
        jobspec: *const ::core::ffi::c_char,
        json: *mut *mut ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_effort(
        ctx: *mut reapi_cli_ctx_t,
        steps: *mut u64,
        is_earliest: *mut bool,
    ) -> ::core::ffi::c_int;
    pub fn fluxion_ext_usage(
        ctx: *mut reapi_cli_ctx_t,
        rank: u32,
        json: *mut *mut ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
}
