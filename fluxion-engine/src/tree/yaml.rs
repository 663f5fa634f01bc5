//! YAML to a tree, by the events of granit-parser.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use super::value::{Content, SeenKeys, Value};
use crate::Error;
use crate::limits::{Limit, TREE_BYTES_MAX, TREE_DEPTH_MAX, TREE_VALUES_MAX};

/// Why a text is refused.
pub(super) enum YamlError {
    /// It asks for more than a limit.
    Limit(Error),
    /// It is no such document.
    Text(Error),
}

impl From<YamlError> for Error {
    fn from(error: YamlError) -> Self {
        let (YamlError::Limit(error) | YamlError::Text(error)) = error;
        error
    }
}

pub(super) fn read(text: &str) -> Result<Value<'_>, YamlError> {
    let mut tree = Growing::default();
    for event in
        Parser::new_from_str_with_options(text, granit_parser::options! { emit_comments: false })
    {
        let (event, span) = event.map_err(|error| {
            let (at, info) = (error.marker(), error.info());
            let (line, column) = (at.line(), at.col() + 1);
            let text = format!("jobspec: line {line}, column {column}: {info}");
            YamlError::Text(Error::invalid(text))
        })?;
        tree.take(event, &span)?;
    }
    tree.root.ok_or_else(|| YamlError::Text(Error::invalid("jobspec: empty")))
}

/// The tree so far.
#[derive(Default)]
struct Growing<'a> {
    root: Option<Value<'a>>,
    /// Lists and mappings that are not closed yet, outermost first.
    open: Vec<Open<'a>>,
    /// What aliases stand for.
    anchors: HashMap<usize, Anchored<'a>>,
    values: usize,
    /// Bytes of the texts of all values and keys.
    bytes: usize,
}

/// A value with an anchor.
struct Anchored<'a> {
    value: Value<'a>,
    extent: Measure,
}

/// How large a value is.
#[derive(Clone, Copy)]
struct Measure {
    /// How many lists and mappings lie in each other in it.
    depth: usize,
    /// How many values it holds, itself included.
    values: usize,
    /// Bytes of its texts, keys included.
    bytes: usize,
}

struct Open<'a> {
    line: u32,
    anchor: usize,
    /// The deepest of its members so far.
    inside: usize,
    /// How many values there were in the document when it began.
    values: usize,
    /// How many bytes of texts there were then.
    bytes: usize,
    items: Items<'a>,
}

enum Items<'a> {
    List(Vec<Value<'a>>),
    Map { fields: Vec<(Cow<'a, str>, Value<'a>)>, key: Option<Cow<'a, str>>, keys: SeenKeys<'a> },
}

impl<'a> Growing<'a> {
    fn take(&mut self, event: Event<'a>, span: &Span) -> Result<(), YamlError> {
        let line = u32::try_from(span.start.line()).unwrap_or(u32::MAX);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let bytes = text.len();
                self.count_bytes(bytes, line)?;
                let content = if plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
                    Content::Null
                } else {
                    Content::Text { text, quoted: style != ScalarStyle::Plain }
                };
                self.put(Value { line, content }, anchor, Measure { depth: 0, values: 1, bytes })
            }
            Event::SequenceStart(_, anchor, _) => self.begin(line, anchor, Items::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => self.begin(
                line,
                anchor,
                Items::Map { fields: Vec::new(), key: None, keys: SeenKeys::default() },
            ),
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.open.pop();
                let open =
                    open.ok_or_else(|| wrong(line, "a collection ends that did not begin"))?;
                let content = match open.items {
                    Items::List(items) => Content::List(items),
                    Items::Map { fields, .. } => Content::Map(fields),
                };
                let extent = Measure {
                    depth: open.inside + 1,
                    values: self.values - open.values + 1,
                    bytes: self.bytes - open.bytes,
                };
                self.put(Value { line: open.line, content }, open.anchor, extent)
            }
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor).map(|known| known.extent);
                let extent =
                    known.ok_or_else(|| wrong(line, "an alias of a value that holds it"))?;
                self.count(extent.values - 1, line)?;
                self.count_bytes(extent.bytes, line)?;
                if self.open.len() + extent.depth > TREE_DEPTH_MAX.max {
                    return Err(too_much(line, TREE_DEPTH_MAX));
                }
                let value = self.anchors[&anchor].value.clone();
                self.put(value, 0, extent)
            }
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(wrong(line, "a second document"))
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, line: u32, anchor: usize, items: Items<'a>) -> Result<(), YamlError> {
        if let Some(Open { items: Items::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(wrong(line, "a key that is no scalar"));
        }
        if self.open.len() == TREE_DEPTH_MAX.max {
            return Err(too_much(line, TREE_DEPTH_MAX));
        }
        let (values, bytes) = (self.values, self.bytes);
        self.open.push(Open { line, anchor, inside: 0, values, bytes, items });
        Ok(())
    }

    /// Counts values before any is made.
    fn count(&mut self, values: usize, line: u32) -> Result<(), YamlError> {
        self.values += values;
        if self.values > TREE_VALUES_MAX.max {
            return Err(too_much(line, TREE_VALUES_MAX));
        }
        Ok(())
    }

    /// Counts bytes of texts before any is copied.
    fn count_bytes(&mut self, bytes: usize, line: u32) -> Result<(), YamlError> {
        self.bytes += bytes;
        if TREE_BYTES_MAX.allows(self.bytes) { Ok(()) } else { Err(too_much(line, TREE_BYTES_MAX)) }
    }

    /// Puts a whole value where it belongs.
    fn put(&mut self, value: Value<'a>, anchor: usize, extent: Measure) -> Result<(), YamlError> {
        self.count(1, value.line)?;
        if anchor != 0 {
            self.count(extent.values, value.line)?;
            self.count_bytes(extent.bytes, value.line)?;
            self.anchors.insert(anchor, Anchored { value: value.clone(), extent });
        }
        if let Some(open) = self.open.last_mut() {
            open.inside = open.inside.max(extent.depth);
        }
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.root = Some(value),
            Some(Items::List(items)) => items.push(value),
            Some(Items::Map { fields, key, keys }) => match key.take() {
                Some(key) => fields.push((key, value)),
                None => {
                    let line = value.line;
                    let Content::Text { text, .. } = value.content else {
                        return Err(wrong(line, "a key that is no scalar"));
                    };
                    if !keys.add(&text, fields) {
                        return Err(wrong(line, &format!("{text:?} is there twice")));
                    }
                    *key = Some(text);
                }
            },
        }
        Ok(())
    }
}

fn too_much(line: u32, limit: Limit) -> YamlError {
    YamlError::Limit(limit.exceeded(format_args!("jobspec: line {line}")))
}

fn wrong(line: u32, what: &str) -> YamlError {
    YamlError::Text(Error::invalid(format!("jobspec: line {line}: {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::tests::with_lower;

    fn read(text: &str) -> Result<Value<'_>, Error> {
        super::read(text).map_err(Error::from)
    }

    #[test]
    fn follows_aliases_but_not_for_ever() {
        let value = read("a: &x [1, 2]\nb: *x\n").unwrap();
        assert_eq!(value.map().unwrap()[1].1.list().unwrap().len(), 2);
        let mut laughs = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
        for level in 1..12 {
            let row = vec![format!("*a{}", level - 1); 10].join(", ");
            laughs.push(format!("a{level}: &a{level} [{row}]"));
        }
        assert!(read(&laughs.join("\n")).unwrap_err().text.contains("more than 1048576 values"));
    }

    #[test]
    fn bytes_behind_aliases_are_counted_each_time() {
        // A text with an escape, and one that is a part of the document.
        for text in [format!("\"\\t{}\"", "x".repeat(200_000)), "x".repeat(200_000)] {
            let document =
                |aliases: usize| format!("a: &a {text}\nb: [{}]\n", vec!["*a"; aliases].join(","));
            assert!(read(&document(300)).is_ok());
            let error = read(&document(100_000)).unwrap_err();
            assert!(error.text.starts_with("jobspec: line 2: more than 67108864 bytes"), "{error}");
            // In braces it is no JSON, and the error is still about the limit.
            let braces = format!("{{a: &a {text}, b: [{}]}}", vec!["*a"; 100_000].join(","));
            let error = Value::read(&braces).unwrap_err();
            assert!(error.text.contains("TREE_BYTES_MAX"), "{error}");
        }
        // Keys count as well, and what holds aliases.
        let key = format!("a: &a {{{}: 1}}\nb: &b [*a, *a]\nc: [*b, *b]\n", "k".repeat(100));
        with_lower(TREE_BYTES_MAX, 1_013, || assert!(read(&key).is_ok()));
        with_lower(TREE_BYTES_MAX, 1_012, || assert!(read(&key).is_err()));
    }

    #[test]
    fn is_not_deeper_through_aliases_than_written_out() {
        let nested = |levels: usize, text: &str| {
            format!("{}{text}{}", "[".repeat(levels), "]".repeat(levels))
        };
        assert!(read(&nested(TREE_DEPTH_MAX.max, "x")).is_ok());
        assert!(read(&nested(TREE_DEPTH_MAX.max + 1, "x")).is_err());
        let half = TREE_DEPTH_MAX.max / 2 - 1;
        let twice = |more: usize| {
            format!("a: &a {}\nb: {}\n", nested(half, "x"), nested(half + more, "*a"))
        };
        assert!(read(&twice(1)).is_ok());
        assert!(
            read(&twice(2)).unwrap_err().text.contains("line 2: more than 128 lists and mappings")
        );
        // Each alias a little deeper than the one before: a document that needs megabytes of stack
        // to drop.
        let mut lines = vec![format!("a0: &a0 {}", nested(100, "x"))];
        lines.extend(
            (1..64).map(|at| format!("a{at}: &a{at} {}", nested(100, &format!("*a{}", at - 1)))),
        );
        assert!(read(&lines.join("\n")).unwrap_err().text.contains("in each other"));
    }

    #[test]
    fn refuses_and_says_where() {
        for (text, says) in [
            ("foo: bar: baz\n", "line 1"),
            ("a: 1\nb: 2\na: 3\n", "line 3: \"a\" is there twice"),
            ("a: 1\n---\nb: 2\n", "second document"),
            ("? [1]\n: 2\n", "no scalar"),
            ("", "empty"),
            ("a: *nowhere\n", "line 1"),
            ("\t", ""),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.text.contains(says), "{text:?}: {error}");
        }
    }
}
