//! Operations of a match by name, as `match_op.h` of upstream has them.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::abi::{self, match_op_t};
use crate::{errno, match_op};

const NAMES: [(match_op_t, &CStr); 6] = [
    (match_op::ALLOCATE, c"allocate"),
    (match_op::ALLOCATE_W_SATISFIABILITY, c"allocate_with_satisfiability"),
    (match_op::ALLOCATE_ORELSE_RESERVE, c"allocate_orelse_reserve"),
    (match_op::SATISFIABILITY, c"satisfiability"),
    (match_op::WITHOUT_ALLOCATING, c"without_allocating"),
    (match_op::WITHOUT_ALLOCATING_FUTURE, c"without_allocating_future"),
];

fn name_of(op: match_op_t) -> Option<&'static CStr> {
    NAMES.iter().find(|(known, _)| *known == op).map(|(_, name)| *name)
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn match_op_to_string(op: match_op_t) -> *const c_char {
    if let Some(name) = name_of(op) {
        return name.as_ptr();
    }
    let is_of_the_type = op < abi::match_op_t_END_MATCH_OP_T;
    errno::set(if is_of_the_type { errno::ENOENT } else { errno::EINVAL });
    ptr::null()
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn match_op_from_string(text: *const c_char) -> match_op_t {
    if text.is_null() {
        errno::set(errno::EINVAL);
        return abi::match_op_t_MATCH_UNKNOWN;
    }
    // SAFETY: not NULL, and a string by the header.
    let text = unsafe { CStr::from_ptr(text) };
    if let Some((op, _)) = NAMES.iter().find(|(_, name)| *name == text) {
        return *op;
    }
    errno::set(errno::ENOENT);
    abi::match_op_t_MATCH_UNKNOWN
}

/// See the header.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn match_op_valid(op: match_op_t) -> bool {
    name_of(op).is_some()
}
