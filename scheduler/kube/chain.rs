//! Errors as one line, with what caused them.
//!
//! `kube::Error` says "client error (Connect)" and leaves "connection refused" to its sources.

use std::error::Error;

/// The error and its sources, each said once.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::chain;

    #[derive(Debug, thiserror::Error)]
    #[error("{said}")]
    struct Link {
        said: &'static str,
        #[source]
        cause: Option<Box<Link>>,
    }

    #[test]
    fn each_cause_is_said_once() {
        let refused = Link { said: "connection refused", cause: None };
        let connect = Link { said: "connect", cause: Some(Box::new(refused)) };
        let outer = Link { said: "service error: connect", cause: Some(Box::new(connect)) };
        assert_eq!(chain(&outer), "service error: connect: connection refused");
    }
}
