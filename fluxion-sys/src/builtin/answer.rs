//! The answer to a match.

use std::ffi::c_char;

use super::failure::Failure;
use super::text::Out;

/// The places for the answer to a match, beside the id of the job.
pub(crate) struct Answer {
    pub(crate) reserved: Out<bool>,
    pub(crate) r: Out<*mut c_char>,
    pub(crate) at: Out<i64>,
    pub(crate) ov: Out<f64>,
}

impl Answer {
    /// # Safety
    /// Each place is NULL or may be written to during the call.
    pub(crate) unsafe fn of(
        reserved: *mut bool,
        r: *mut *mut c_char,
        at: *mut i64,
        ov: *mut f64,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok(Answer {
                reserved: Out::new(reserved)?,
                r: Out::new(r)?,
                at: Out::new(at)?,
                ov: Out::new(ov)?,
            })
        }
    }

    /// Puts the times of a match that has not succeeded.
    pub(crate) fn clear_times(&self) {
        self.at.set(0);
        self.ov.set(0.0);
    }
}
