//! Values of errno that the functions of the header set, and errno itself.

use std::ffi::c_int;

/// No such job, path, rank or slot.
pub const ENOENT: c_int = 2;
/// A search gave up: no place was found, and it is not proved that there is none.
pub const EAGAIN: c_int = 11;
/// Out of memory.
pub const ENOMEM: c_int = 12;
/// A defect of the library was caught.
pub const EFAULT: c_int = 14;
/// It does not fit now.
pub const EBUSY: c_int = 16;
/// There already is a job of this id.
pub const EEXIST: c_int = 17;
/// It would not fit on the idle machine either.
pub const ENODEV: c_int = 19;
/// An argument or a document is wrong.
pub const EINVAL: c_int = 22;
/// It does not fit now, and one of its alternatives never does.
pub const ERANGE: c_int = 34;
/// Not offered by this library.
pub const ENOSYS: c_int = 38;
/// The graph or the options cannot be used.
pub const EPROTO: c_int = 71;
/// A defect of the library was caught before a call had changed anything.
pub const ECANCELED: c_int = 125;
/// Not possible with this kind of graph.
pub const ENOTSUP: c_int = 95;
/// A number is out of range.
pub const EOVERFLOW: c_int = 75;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// The errno of the last failed C call of this thread.
pub fn get() -> c_int {
    // SAFETY: the C library returns a valid pointer to this thread's errno.
    unsafe { *__errno_location() }
}

/// Sets this thread's errno.
pub fn set(value: c_int) {
    // SAFETY: as in `get`.
    unsafe { *__errno_location() = value }
}
