//! The failure of a call.

use std::ffi::c_int;

use fluxion_engine::{Error, Reason};

use crate::errno;

/// The failure of a call: errno, and a text for people ("" if the errno says it all).
pub(crate) struct Failure {
    pub(crate) errno: c_int,
    pub(crate) text: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let errno = match error.reason {
            Reason::Invalid | Reason::Nothing => errno::EINVAL,
            Reason::Busy => errno::EBUSY,
            Reason::GaveUp => errno::EAGAIN,
            Reason::Unsatisfiable => errno::ENODEV,
            Reason::NotFound => errno::ENOENT,
            Reason::Exists => errno::EEXIST,
            Reason::Overflow => errno::EOVERFLOW,
            Reason::Exceeded => errno::ERANGE,
            Reason::Setup => errno::EPROTO,
            Reason::NotSupported => errno::ENOTSUP,
            Reason::NotOffered => errno::ENOSYS,
        };
        Failure { errno, text: error.text }
    }
}

impl Failure {
    pub(crate) fn invalid(text: &str) -> Self {
        Failure { errno: errno::EINVAL, text: text.to_owned() }
    }
}
