//! YAML to a tree, by the events of granit-parser.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use super::{Content, Node};
use crate::Error;

/// Values of a document, those behind aliases counted each time: aliases of aliases can name billions in a few lines.
const NODES_MAX: usize = 1 << 20;

pub(super) fn read(text: &str) -> Result<Node<'_>, Error> {
    let mut tree = Tree::default();
    for event in Parser::new_from_str_with_options(text, granit_parser::options! { emit_comments: false }) {
        let (event, span) = event.map_err(|error| {
            let at = error.marker();
            Error::invalid(format!("jobspec: line {}, column {}: {}", at.line(), at.col() + 1, error.info()))
        })?;
        tree.take(event, &span)?;
    }
    tree.root.ok_or_else(|| Error::invalid("jobspec: empty"))
}

/// The tree so far.
#[derive(Default)]
struct Tree<'a> {
    root: Option<Node<'a>>,
    /// Lists and mappings that are not closed yet, outermost first.
    open: Vec<Open<'a>>,
    /// What aliases stand for.
    anchors: HashMap<usize, Node<'a>>,
    nodes: usize,
}

struct Open<'a> {
    line: u32,
    anchor: usize,
    items: Items<'a>,
}

enum Items<'a> {
    List(Vec<Node<'a>>),
    Map { fields: Vec<(Cow<'a, str>, Node<'a>)>, key: Option<Cow<'a, str>> },
}

impl<'a> Tree<'a> {
    fn take(&mut self, event: Event<'a>, span: &Span) -> Result<(), Error> {
        let line = u32::try_from(span.start.line()).unwrap_or(u32::MAX);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let content = if plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
                    Content::Null
                } else {
                    Content::Text { text, quoted: style != ScalarStyle::Plain }
                };
                self.put(Node { line, content }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(line, anchor, Items::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => self.begin(line, anchor, Items::Map { fields: Vec::new(), key: None }),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let content = match open.items {
                    Items::List(items) => Content::List(items),
                    Items::Map { fields, .. } => Content::Map(fields),
                };
                self.put(Node { line: open.line, content }, open.anchor)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| wrong(line, "an alias of what it stands in"))?;
                self.nodes += size(&node);
                self.put(node, 0)
            }
            Event::DocumentStart(..) if self.root.is_some() => Err(wrong(line, "a second document")),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, line: u32, anchor: usize, items: Items<'a>) -> Result<(), Error> {
        if let Some(Open { items: Items::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(wrong(line, "a key that is no scalar"));
        }
        self.open.push(Open { line, anchor, items });
        Ok(())
    }

    /// Puts a whole value where it belongs.
    fn put(&mut self, node: Node<'a>, anchor: usize) -> Result<(), Error> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(wrong(node.line, "too many values"));
        }
        if anchor != 0 {
            self.nodes += size(&node);
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.root = Some(node),
            Some(Items::List(items)) => items.push(node),
            Some(Items::Map { fields, key }) => match key.take() {
                Some(key) => fields.push((key, node)),
                None => {
                    let line = node.line;
                    let Content::Text { text, .. } = node.content else {
                        return Err(wrong(line, "a key that is no scalar"));
                    };
                    if fields.iter().any(|(known, _)| *known == text) {
                        return Err(wrong(line, &format!("{text:?} is there twice")));
                    }
                    *key = Some(text);
                }
            },
        }
        Ok(())
    }
}

/// How many values it holds, itself included.
fn size(node: &Node<'_>) -> usize {
    1 + match &node.content {
        Content::List(items) => items.iter().map(size).sum(),
        Content::Map(fields) => fields.iter().map(|(_, value)| size(value)).sum(),
        _ => 0,
    }
}

fn wrong(line: u32, what: &str) -> Error {
    Error::invalid(format!("jobspec: line {line}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_aliases_but_not_for_ever() {
        let node = read("a: &x [1, 2]\nb: *x\n").unwrap();
        assert_eq!(node.map().unwrap()[1].1.list().unwrap().len(), 2);
        let mut laughs = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
        for level in 1..12 {
            let row = vec![format!("*a{}", level - 1); 10].join(", ");
            laughs.push(format!("a{level}: &a{level} [{row}]"));
        }
        assert!(read(&laughs.join("\n")).unwrap_err().text.contains("too many values"));
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
