//! Values of the header, by name.

/// The causes of the delay of a reservation, as bits, of `fluxion_ext_move`.
pub mod later {
    use std::ffi::c_int;

    use crate::abi as c;

    /// Work past its end has its room.
    pub const OVERDUE: c_int = c::FLUXION_EXT_LATER_OVERDUE.cast_signed();
    /// A node was removed, a pool made smaller, or charged beyond its free units.
    pub const CAPACITY: c_int = c::FLUXION_EXT_LATER_CAPACITY.cast_signed();
    /// A node is down, the request may use it no more, or it is in another part of a level.
    pub const STATUS: c_int = c::FLUXION_EXT_LATER_STATUS.cast_signed();
}

/// Values of `match_op_t`.
pub mod match_op {
    use crate::abi as c;

    /// Now, or EBUSY.
    pub const ALLOCATE: c::match_op_t = c::match_op_t_MATCH_ALLOCATE;
    /// Now, or EBUSY, or ENODEV if the request could never fit.
    pub const ALLOCATE_W_SATISFIABILITY: c::match_op_t =
        c::match_op_t_MATCH_ALLOCATE_W_SATISFIABILITY;
    /// Now, or reserved at the earliest instant.
    pub const ALLOCATE_ORELSE_RESERVE: c::match_op_t = c::match_op_t_MATCH_ALLOCATE_ORELSE_RESERVE;
    /// 0 if the request could ever fit, taking nothing.
    pub const SATISFIABILITY: c::match_op_t = c::match_op_t_MATCH_SATISFIABILITY;
    /// As [`ALLOCATE`], but take nothing.
    pub const WITHOUT_ALLOCATING: c::match_op_t = c::match_op_t_MATCH_WITHOUT_ALLOCATING;
    /// As [`ALLOCATE_ORELSE_RESERVE`], but take nothing.
    pub const WITHOUT_ALLOCATING_FUTURE: c::match_op_t =
        c::match_op_t_MATCH_WITHOUT_ALLOCATING_FUTURE;
}

/// Values of `resource_status_t`.
pub mod status {
    use crate::abi as c;

    /// Up.
    pub const UP: c::resource_status_t = c::resource_status_t_RESOURCE_UP;
    /// Down.
    pub const DOWN: c::resource_status_t = c::resource_status_t_RESOURCE_DOWN;
}
