//! The request for whole nodes, by an annotation on pods or on the object that makes them.

use fluxqueue_api::names::EXCLUSIVE;
use fluxqueue_api::text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::metadata::annotation;
use crate::unsupported::Unsupported;

/// The path of the annotation.
pub const FIELD: &str = "metadata.annotations[fluxqueue/exclusive]";

/// Returns the value of an object's annotation, if it has one; the error is about an unusable
/// value.
pub fn of_object(metadata: &ObjectMeta) -> Result<Option<bool>, Unsupported> {
    match annotation(metadata, EXCLUSIVE) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => {
            Err(refused(&format!("{} is neither \"true\" nor \"false\"", text::quoted(other))))
        }
    }
}

/// Refuses a request for whole nodes that cannot be honoured.
pub fn refused(why: &str) -> Unsupported {
    Unsupported { field: FIELD.to_owned(), message: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_true_or_false_and_nothing_else() {
        let read = |value: Option<&str>| {
            let annotations = value.map(|value| [(EXCLUSIVE.to_owned(), value.to_owned())].into());
            of_object(&ObjectMeta { annotations, ..ObjectMeta::default() })
        };
        assert_eq!(FIELD, format!("metadata.annotations[{EXCLUSIVE}]"));
        assert_eq!(
            (read(None), read(Some("true")), read(Some("false"))),
            (Ok(None), Ok(Some(true)), Ok(Some(false)))
        );
        for value in ["", "True", "yes", "4"] {
            let wrong = read(Some(value)).unwrap_err();
            assert_eq!(wrong.message, format!("{value:?} is neither \"true\" nor \"false\""));
        }
    }
}
