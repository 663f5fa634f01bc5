//! Documents in XML: what their parser does not limit is looked for before it reads them.

use roxmltree::{Document, ParsingOptions};

use crate::Error;
use crate::limits::{VERTICES_MAX, XML_ATTRIBUTES_MAX, XML_NAMESPACES_MAX};

/// Reads a document. `what`: the words that errors begin with. `has_type`: it may say of which type
/// of document it is.
pub(super) fn parse<'d>(text: &'d str, what: &str, has_type: bool) -> Result<Document<'d>, Error> {
    // The parser compares each attribute of an element with those before it, copies the namespaces
    // of an element to those below it that have their own, and follows any number of entities.
    for element in text.split('<') {
        XML_ATTRIBUTES_MAX.check(attributes(element), what)?;
    }
    XML_NAMESPACES_MAX.check(text.matches("xmlns").count(), what)?;
    if text.contains("<!ENTITY") {
        return Err(Error::invalid(format!("{what}: entities are not read")));
    }
    let nodes_limit = u32::try_from(VERTICES_MAX.max).unwrap_or(u32::MAX);
    let options = ParsingOptions { allow_dtd: has_type, nodes_limit, ..ParsingOptions::default() };
    Document::parse_with_options(text, options)
        .map_err(|error| Error::invalid(format!("{what}: {error}")))
}

/// How many values in quotation marks there are up to the end of a tag, of which this is the text
/// from its beginning to that of the next: no tag has another within it.
fn attributes(element: &str) -> usize {
    let (mut count, mut open) = (0, None);
    for byte in element.bytes() {
        match (open, byte) {
            (None, b'>') => break,
            (None, b'"' | b'\'') => {
                count += 1;
                open = Some(byte);
            }
            (Some(mark), byte) if mark == byte => open = None,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_parser_does_not_limit_is_refused_at_once() {
        let with_attributes = |count: usize| {
            let all: Vec<String> = (0..count).map(|at| format!("a{at}='\"'")).collect();
            format!("<a><b {} c = \"\"/></a>", all.join(" "))
        };
        assert!(parse(&with_attributes(255), "grug", false).is_ok());
        let text = format!("<a b='>'>{}</a>", "\"&lt;".repeat(1_000));
        assert!(parse(&text, "grug", false).is_ok());
        for count in [256, 500_000] {
            let error = parse(&with_attributes(count), "grug", false).unwrap_err();
            assert!(error.text.starts_with("grug: more than 256 attributes of an"), "{error}");
        }
        let namespaces = |count: usize| {
            let begin: Vec<String> =
                (0..count).map(|at| format!("<a xmlns:n{at}='u{at}'>")).collect();
            begin.concat() + &"</a>".repeat(count)
        };
        assert!(parse(&namespaces(XML_NAMESPACES_MAX.max), "grug", false).is_ok());
        let error = parse(&namespaces(XML_NAMESPACES_MAX.max + 1), "grug", false).unwrap_err();
        assert!(error.text.ends_with("namespaces (XML_NAMESPACES_MAX)"), "{error}");
        let entity = format!("<!DOCTYPE a [<!ENTITY e '{}'>]><a>&e;&e;</a>", "x".repeat(9));
        let error = parse(&entity, "topology", true).unwrap_err();
        assert_eq!(error.text, "topology: entities are not read");
        assert!(parse("<!DOCTYPE a SYSTEM 'a.dtd'><a/>", "topology", true).is_ok());
        assert!(parse("<!DOCTYPE a SYSTEM 'a.dtd'><a/>", "grug", false).is_err());
    }
}
