//! A reader of the source: doc comments with their items, and the values of constants.
//!
//! It reads code as rustfmt leaves it, not all of Rust. Its callers compare the number of items
//! with the code.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

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

/// The files with Rust code below a folder, without those of tests, in the order of their paths.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut entries: Vec<PathBuf> = entries.collect();
    entries.sort();
    let mut files = Vec::new();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !matches!(name, "tests" | "scenarios") {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|it| it == "rs") && !name.ends_with("tests.rs") {
            files.push(path);
        }
    }
    files
}

/// The constants with numbers and durations in a file, and the numbers in its struct literals, each
/// with `TYPE = VALUE`. They need no doc comment.
pub(super) fn values(source: &str) -> Vec<Documented> {
    let (mut all, mut doc, mut lines) = (Vec::new(), String::new(), source.lines());
    while let Some(line) = lines.next() {
        let line = line.trim();
        if line == "mod tests {" {
            break;
        }
        if let Some(text) = line.strip_prefix("///") {
            let _ = write!(doc, "{}{}", if doc.is_empty() { "" } else { " " }, text.trim());
            continue;
        }
        let item = line.strip_prefix("pub ").unwrap_or(line);
        let item = item.strip_prefix("pub(crate) ").unwrap_or(item);
        let item = item.strip_prefix("pub(super) ").unwrap_or(item);
        if let Some((name, rest)) = item.strip_prefix("const ").and_then(|it| it.split_once(": ")) {
            let mut rest = rest.to_owned();
            while !rest.ends_with(';') {
                let Some(more) = lines.next() else { break };
                let _ = write!(rest, " {}", more.trim());
            }
            let value = rest.trim_end_matches(';').replace("= Backoff {  ", "= Backoff { ");
            if value.contains(" = ") && !value.starts_with('&') && !value.starts_with('[') {
                all.push(Documented { name: name.to_owned(), value, doc: plain(&doc) });
            }
        } else if let Some((name, value)) =
            item.strip_suffix(',').and_then(|it| it.split_once(": "))
            && value.chars().all(|c| c.is_ascii_digit() || c == '_')
            && value.starts_with(|c: char| c.is_ascii_digit())
        {
            all.push(Documented {
                name: name.to_owned(),
                value: format!("_ = {value}"),
                doc: String::new(),
            });
        }
        if !line.starts_with("#[") {
            doc.clear();
        }
    }
    all
}

/// The variants of an enum, or the fields of a struct, as JSON names them.
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

/// Turns links to code into plain names: readers of the page need not know the code.
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

#[test]
fn constants_and_defaults_are_found_with_their_values() {
    let source = "/// Most.\nconst A_MAX: usize = 3;\npub(super) const B: Backoff =\n    Backoff { min_millis: 1, max_millis: 2 };\nS {\n    of_it: 1_000,\n}\n";
    let found: Vec<(String, String, String)> =
        values(source).into_iter().map(|it| (it.name, it.value, it.doc)).collect();
    let expected = [
        ("A_MAX", "usize = 3", "Most."),
        ("B", "Backoff = Backoff { min_millis: 1, max_millis: 2 }", ""),
        ("of_it", "_ = 1_000", ""),
    ];
    let expected = expected.map(|(name, value, doc)| (name.into(), value.into(), doc.into()));
    assert_eq!(found, expected);
}
