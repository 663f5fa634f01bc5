//! An error and its causes as one line.
//!
//! `kube::Error` prints "client error (Connect)" and leaves "connection refused" to its sources; of
//! an answer of the API server it prints the whole structure.

use std::error::Error;

use fluxqueue_api::text;

/// Returns the error and its sources, each text once, up to the length of a message.
pub(super) fn error_chain(error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return text::into_message(format!(
            "{} {}: {}",
            status.code, status.reason, status.message
        ));
    }
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
    text::into_message(text)
}

#[cfg(test)]
mod tests {
    use super::error_chain;

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
        assert_eq!(error_chain(&outer), "service error: connect: connection refused");
    }

    #[test]
    fn an_answer_of_the_api_server_keeps_its_own_words() {
        let status = kube::core::Status::failure("pods is forbidden", "Forbidden").with_code(403);
        assert_eq!(
            error_chain(&kube::Error::Api(status.boxed())),
            "403 Forbidden: pods is forbidden"
        );
    }
}
