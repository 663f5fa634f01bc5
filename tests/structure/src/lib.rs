//! Counts the traits that make the project hard to read. A test fails if one of the numbers grows.
//!
//! - [`circles`]: modules of a crate that depend on each other in a circle
//! - [`owners`]: types that change themselves and have too many fields or methods, or methods away
//!   from home
//! - [`guards`]: guards that pass over an impossible state in silence
//! - [`words`]: sentences without a subject, in comments and documents
//! - [`documents`]: links that lead nowhere, and commands in pages that no test runs
//! - lines of more than 100 columns, files of more than 600 lines, and type names that mean two
//!   things
//!
//! The numbers on record are in `numbers.txt`. If a number is larger than on record, the test fails
//! and lists the places that count. `make structure` records smaller numbers; larger ones are never
//! recorded.

pub mod circles;
pub mod documents;
pub mod guards;
pub mod owners;
pub mod sources;
pub mod words;

use std::collections::BTreeMap;

use sources::Sources;

/// Columns that a line may have.
const COLUMNS_MAX: usize = 100;
/// Lines that a file may have.
const LINES_MAX: usize = 600;

/// For each measure, the places that count.
#[derive(Debug, Default)]
pub struct Numbers(BTreeMap<String, Vec<String>>);

impl Numbers {
    /// Adds a place in the sources to a measure.
    pub fn add(&mut self, measure: &str, what: String) {
        self.0.entry(measure.to_owned()).or_default().push(what);
    }

    /// Returns each measure with its places.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(measure, parts)| (measure.as_str(), parts.as_slice()))
    }

    /// Renders the numbers as they are recorded: one measure with its number per line.
    pub fn to_text(&self) -> String {
        let lines: Vec<String> =
            self.iter().map(|(measure, parts)| format!("{measure} {}", parts.len())).collect();
        lines.join("\n") + "\n"
    }
}

/// Counts every measure.
pub fn count(sources: &Sources) -> Numbers {
    let mut numbers = Numbers::default();
    circles::count(sources, &mut numbers);
    owners::count(sources, &mut numbers);
    guards::count(sources, &mut numbers);
    words::count(sources, &mut numbers);
    documents::count(sources, &mut numbers);
    lines(sources, &mut numbers);
    numbers
}

fn lines(sources: &Sources, numbers: &mut Numbers) {
    for file in &sources.files {
        let wide =
            file.text.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS_MAX);
        for (at, _) in wide {
            numbers.add(&format!("wide {}", file.krate), format!("{}:{}", file.path, at + 1));
        }
        let count = file.text.lines().count();
        if count > LINES_MAX {
            numbers.add(&format!("long {}", file.krate), format!("{}: {count} lines", file.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Most places of a measure that a failure lists.
    const SHOWN_MAX: usize = 12;
    /// Environment variable that makes the test record smaller numbers.
    const UPDATE: &str = "UPDATE_NUMBERS";

    fn recorded(text: &str) -> BTreeMap<String, usize> {
        let entries = text.lines().filter_map(|line| line.rsplit_once(' '));
        entries
            .map(|(measure, number)| (measure.to_owned(), number.parse().expect("a number")))
            .collect()
    }

    #[test]
    fn nothing_that_makes_the_project_hard_to_read_grows() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = Sources::read(&here.join("../..")).expect("the sources can be read");
        assert!(sources.files.len() > 300, "{} files are found", sources.files.len());
        let (numbers, path) = (count(&sources), here.join("numbers.txt"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let known = recorded(&text);
        let mut grown = Vec::new();
        for (measure, parts) in numbers.iter() {
            let limit = known.get(measure).copied().unwrap_or(0);
            if parts.len() > limit && !text.is_empty() {
                let shown = parts
                    .iter()
                    .take(SHOWN_MAX)
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join("\n  ");
                grown.push(format!("{measure}: {}, on record {limit}\n  {shown}", parts.len()));
            }
        }
        assert!(
            grown.is_empty(),
            "more than on record in tests/structure/numbers.txt:\n{}",
            grown.join("\n")
        );
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, numbers.to_text()).expect("the numbers can be written");
        }
    }
}
