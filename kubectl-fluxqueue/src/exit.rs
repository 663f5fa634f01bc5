//! Exit codes, and the errors that have one of their own.

use std::error::Error;
use std::fmt;

/// The exit code of a command that succeeded.
pub(crate) const DONE: u8 = 0;
/// The exit code of a command that failed.
pub(crate) const FAILED: u8 = 1;
/// The exit code of wrong usage, as clap has it.
pub(crate) const WRONG_USAGE: u8 = 2;
/// The exit code of `wait` for a job that failed.
pub(crate) const JOB_FAILED: u8 = 3;
/// The exit code of `wait` when its time is up.
pub(crate) const TIME_IS_UP: u8 = 4;

/// An error that lies in the arguments or in the script of a user, whatever the cluster is.
#[derive(Debug)]
struct WrongUsage(anyhow::Error);

impl fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for WrongUsage {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Makes an error one of the usage.
pub(crate) fn usage(error: anyhow::Error) -> anyhow::Error {
    anyhow::Error::new(WrongUsage(error))
}

/// Returns the exit code of a command that ends with this error.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    if error.is::<WrongUsage>() { WRONG_USAGE } else { FAILED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context as _, anyhow};

    #[test]
    fn an_error_of_the_usage_keeps_its_texts_and_its_code_in_every_context() {
        let error = Err::<(), _>(anyhow!("a")).context("b").map_err(usage).context("c");
        let error = error.unwrap_err();
        assert_eq!((code_of(&error), format!("{error:#}").as_str()), (2, "c: b: a"));
        assert_eq!(code_of(&anyhow!("a")), 1);
    }
}
