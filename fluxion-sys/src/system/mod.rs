//! A system library: any `libreapi_cli.so`, opened at run time and put behind the same function
//! table.
//!
//! Made for upstream's, versions 0.26 to 0.54, which differ in their functions.
//! [`FunctionTable::open`](crate::FunctionTable::open) looks symbols up one by one: those that
//! every version has must be there, later ones become `None`, and the extensions are there all or
//! not at all. Promises of the header that upstream does not keep are kept here:
//!
//! - C++ exceptions end at a barrier in C++ (`barrier.cpp`), and become EINVAL, ENOMEM or EFAULT
//!   and a text. A call that may have changed something and threw leaves a context that can only be
//!   destroyed: its state is unknown.
//! - Calls are serialised process-wide, since upstream's contexts share an error text and tables of
//!   types. The text of each call goes to the context of the call.
//! - Calls on which upstream would crash are refused before they get there: NULL, a call before
//!   initialize, options that are no JSON or of the wrong type, unknown matchers and traversers
//!   (`options.rs`), a partial cancel of shared vertices.
//! - Answers go to variables of our own first, and on to the caller on success only; strings that a
//!   failed call left behind are neither passed on nor freed. Success without R, or with an R that
//!   is not UTF-8, is taken back and becomes EFAULT.
//! - A job id that is taken is EEXIST; upstream would lose the first one's resources.
//!
//! A crash inside the library (a segmentation fault) ends the process: nothing here can stop that.
//!
//! Libraries are never closed, and a process can open [`LIBRARIES_MAX`] of them: the function
//! pointers of a table carry no data, so `new` needs a function of its own for each.

mod barrier;
mod context;
mod extensions;
mod graph;
mod jobs;
mod library;
mod lifecycle;
mod open;
mod options;

pub use library::{LIBRARIES_MAX, OpenError};
