//! Counts what makes the project hard to read, and sees in a test that none of it grows.
//!
//! - [`circles`]: modules of a crate that depend on each other in a circle
//! - [`owners`]: types that change themselves and have too many fields or methods, or methods away
//!   from home
//! - [`guards`]: a state that should not be is passed over in silence
//! - [`words`]: sentences without a subject, in comments and documents
//! - lines of more than 100 columns, files of more than 600 lines, and type names that mean two
//!   things
//!
//! The numbers on record are in `numbers.txt`. Where one is larger than on record the test fails,
//! and says where the largest parts are. `make structure` records smaller ones; larger ones are
//! never recorded.

pub mod circles;
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

/// A number for each measure, and what it consists of.
#[derive(Debug, Default)]
pub struct Numbers(BTreeMap<String, Vec<String>>);

impl Numbers {
    /// Adds something that counts one, by its place in the sources.
    pub fn add(&mut self, measure: &str, what: String) {
        self.0.entry(measure.to_owned()).or_default().push(what);
    }

    /// Each measure with what it consists of.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(measure, parts)| (measure.as_str(), parts.as_slice()))
    }

    /// The numbers as they are recorded: a measure and its number a line.
    pub fn to_text(&self) -> String {
        let lines: Vec<String> =
            self.iter().map(|(measure, parts)| format!("{measure} {}", parts.len())).collect();
        lines.join("\n") + "\n"
    }
}

/// Counts everything.
pub fn count(sources: &Sources) -> Numbers {
    let mut numbers = Numbers::default();
    circles::count(sources, &mut numbers);
    owners::count(sources, &mut numbers);
    guards::count(sources, &mut numbers);
    words::count(sources, &mut numbers);
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

    /// The largest parts of a measure that a failure shows.
    const SHOWN_MAX: usize = 12;
    /// Asks for smaller numbers to be recorded.
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
