//! Exit codes.

/// The exit code of a command that succeeded.
pub(crate) const DONE: u8 = 0;
/// The exit code of a command that failed.
pub(crate) const FAILED: u8 = 1;
/// The exit code of wrong arguments, as clap has it.
pub(crate) const WRONG_ARGUMENTS: u8 = 2;
/// The exit code of `wait` for a job that failed.
pub(crate) const JOB_FAILED: u8 = 3;
/// The exit code of `wait` when its time is up.
pub(crate) const TIME_IS_UP: u8 = 4;
