//! Doc comments in the source, and the items that they describe.
//!
//! This reads code in rustfmt's form, not all of Rust. Its callers compare the result with the
//! code.

use std::fmt::Write as _;

/// A name, and its doc comment as one paragraph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Documented {
    pub name: String,
    /// The value of a constant.
    pub value: String,
    pub doc: String,
}

/// Returns the constants of a module that are texts.
pub(super) fn constants(source: &str) -> Vec<Documented> {
    documented(source.lines(), |line| {
        let (name, value) = line.strip_prefix("pub const ")?.split_once(": &str = ")?;
        Some((name.to_owned(), value.trim_end_matches(';').trim_matches('"').to_owned()))
    })
}

/// Returns the variants of an enum, or the fields of a struct under their names in JSON.
pub(super) fn members(source: &str, of: &str) -> Vec<Documented> {
    let opens = |line: &&str| {
        let rest = line.strip_prefix("pub enum ").or_else(|| line.strip_prefix("pub struct "));
        rest.is_some_and(|rest| rest.strip_suffix(" {") == Some(of))
    };
    let body =
        source.lines().skip_while(|line| !opens(line)).skip(1).take_while(|line| *line != "}");
    documented(body.map(|line| line.strip_prefix("    ").unwrap_or(line)), |line| {
        let line = line.trim_end_matches(',');
        if let Some(field) = line.strip_prefix("pub ") {
            return Some((camel_case(field.split_once(':')?.0), String::new()));
        }
        line.chars().all(char::is_alphanumeric).then(|| (line.to_owned(), String::new()))
    })
}

fn documented<'a>(
    lines: impl Iterator<Item = &'a str>,
    item: impl Fn(&str) -> Option<(String, String)>,
) -> Vec<Documented> {
    let (mut all, mut doc) = (Vec::new(), String::new());
    for line in lines {
        if let Some(text) = line.strip_prefix("///") {
            let _ = write!(doc, "{}{}", if doc.is_empty() { "" } else { " " }, text.trim());
        } else if !line.starts_with("#[") {
            if let Some((name, value)) = item(line).filter(|_| !doc.is_empty()) {
                all.push(Documented { name, value, doc: plain(&doc) });
            }
            doc.clear();
        }
    }
    all
}

/// Turns links to code into plain names, for people who read no code.
fn plain(doc: &str) -> String {
    doc.replace("[`", "`").replace("`]", "`")
}

fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let mut letters = part.chars();
        let head = letters.next().map(|c| c.to_ascii_uppercase());
        head.into_iter().fold(name, |mut name, c| {
            name.push(c);
            name
        }) + letters.as_str()
    })
}

#[test]
fn constants_variants_and_fields_are_found_with_their_docs() {
    let source = "/// Not this: it is no text.\npub const N: usize = 3;\n\n\
                  /// Says\n/// this of [`X`].\npub const X: &str = \"a/b\";\n";
    let expected =
        Documented { name: "X".into(), value: "a/b".into(), doc: "Says this of `X`.".into() };
    assert_eq!(constants(source), [expected]);
    let source = "/// Outside.\npub enum E {\n    /// One.\n    #[default]\n    First,\n    \
                  /// Other.\n    Other(u8),\n}\npub enum F {\n    /// Two.\n    Second,\n}\n";
    let names =
        |of| members(source, of).into_iter().map(|it| (it.name, it.doc)).collect::<Vec<_>>();
    assert_eq!(names("E"), [("First".to_owned(), "One.".to_owned())]);
    assert_eq!(names("F"), [("Second".to_owned(), "Two.".to_owned())]);
    let source = "pub struct S {\n    /// A field.\n    #[serde(default)]\n    \
                  pub two_words: Option<u8>,\n}\n";
    assert_eq!(members(source, "S")[0].name, "twoWords");
}
