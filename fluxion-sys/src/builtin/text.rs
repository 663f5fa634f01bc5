//! Strings across the boundary.

use std::ffi::{CStr, c_char, c_void};

use super::failure::Failure;
use crate::errno;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
}

/// A string argument.
///
/// # Safety
/// `text` is NULL or ends in NUL, and stays unchanged for `'a`.
pub(crate) unsafe fn read<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::invalid(""));
    }
    // SAFETY: not NULL, and the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::invalid(&format!("{name}: is not UTF-8")))
}

/// A copy that the C side frees with free(3). NULL if there is no memory.
pub(crate) fn copy(text: &str) -> *mut c_char {
    let bytes = text.as_bytes();
    // SAFETY: malloc may be called with any size.
    let target = unsafe { malloc(bytes.len() + 1) }.cast::<u8>();
    if !target.is_null() {
        // SAFETY: the target has room for the bytes and the NUL, and nothing else refers to it yet.
        unsafe {
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            *target.add(bytes.len()) = 0;
        }
    }
    target.cast()
}

/// A place to put an answer, checked before anything is changed.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// `target` is NULL or may be written to during the call.
    pub(crate) unsafe fn new(target: *mut T) -> Result<Self, Failure> {
        if target.is_null() { Err(Failure::invalid("")) } else { Ok(Out(target)) }
    }

    pub(crate) fn set(&self, value: T) {
        // SAFETY: not NULL, and the promise given to `new`. The old value is plain data
        // that needs no drop.
        unsafe { self.0.write(value) };
    }
}

impl Out<*mut c_char> {
    /// Puts a copy of the text.
    pub(crate) fn set_text(&self, text: &str) -> Result<(), Failure> {
        let copy = copy(text);
        if copy.is_null() {
            return Err(Failure {
                errno: errno::ENOMEM,
                text: "no memory for the answer".to_owned(),
            });
        }
        self.set(copy);
        Ok(())
    }
}
