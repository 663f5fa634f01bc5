//! Documents: links and names of files that lead nowhere, commands that no test runs, and pages
//! that are to be read in one go.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::Numbers;
use crate::sources::Sources;

/// Most lines of the map of the code: a newcomer reads it in one go.
const ARCHITECTURE_LINES_MAX: usize = 200;
/// Most rows of the glossary; other terms are explained at the head of their module.
const GLOSSARY_ROWS_MAX: usize = 36;
/// The contents of the site.
const CONTENTS: &str = "docs/SUMMARY.md";

/// The comment before a block that no test runs; `tests/cluster/documented.rs` reads it.
const NOT_RUN: &str = "<!-- not run: ";
/// The tests that run the blocks of the pages that they name.
const READERS: [&str; 2] = ["tests/cluster/documented", "tests/traces/command"];
/// The programs of commands in pages; a prompt makes a command of any other.
const PROGRAMS: [&str; 6] = ["kubectl ", "fluxqueue ", "helm ", "make ", "cargo ", "$ "];

/// Counts the blocks of commands that no test runs, by page: those with a reason in a page that is
/// run, and all in other pages.
pub fn count(sources: &Sources, numbers: &mut Numbers) {
    let is_reader = |path: &str| READERS.iter().any(|reader| path.starts_with(reader));
    let readers: Vec<_> = sources.files.iter().filter(|file| is_reader(&file.path)).collect();
    for (path, text) in sources.documents.iter().filter(|(path, _)| is_page(path)) {
        let name = format!("\"{path}\"");
        if !readers.iter().any(|file| file.text.contains(&name)) {
            for at in blocks_of_commands(text) {
                numbers.add(&format!("unrun {path}"), format!("{path}:{at}: the page is not run"));
            }
            continue;
        }
        for (at, line) in outside_of_code(text) {
            if let Some(reason) = line.trim_start().strip_prefix(NOT_RUN) {
                numbers.add(&format!("unrun {path}"), format!("{path}:{at}: {reason}"));
            }
        }
    }
}

/// Returns the relative links of the documents that lead to no file or to no heading, each with
/// its document and line.
pub fn broken_links(root: &Path, documents: &[(String, String)]) -> Vec<String> {
    let pages: BTreeMap<PathBuf, Vec<String>> = documents
        .iter()
        .filter(|(path, _)| is_page(path))
        .map(|(path, text)| (PathBuf::from(path), anchors(text)))
        .collect();
    let mut broken = Vec::new();
    for (path, text) in documents.iter().filter(|(path, _)| is_page(path)) {
        for (at, line) in outside_of_code(text) {
            for link in links(line).filter(|link| !link.contains(':')) {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { path.into() } else { joined(path, file) };
                let is_there = pages.contains_key(&target) || root.join(&target).exists();
                let has_anchor = anchor.is_empty()
                    || pages.get(&target).is_none_or(|known| known.iter().any(|it| it == anchor));
                if !is_there || !has_anchor {
                    broken.push(format!("{path}:{at}: {link}"));
                }
            }
        }
    }
    broken
}

/// Returns the Rust files that the documents name and that are not there, each with its document
/// and line. A name may be the end of a path.
pub fn missing_files(sources: &Sources) -> Vec<String> {
    let is_there = |name: &str| {
        let is_named = |path: &str| {
            path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        sources.files.iter().any(|file| is_named(&file.path))
    };
    let mut missing = Vec::new();
    for (path, text) in sources.documents.iter().filter(|(path, _)| is_page(path)) {
        for (at, line) in outside_of_code(text) {
            // Every second part stands between backquotes.
            for name in line.split('`').skip(1).step_by(2).filter(|name| is_source(name)) {
                if !is_there(name) {
                    missing.push(format!("{path}:{at}: {name}"));
                }
            }
        }
    }
    missing
}

/// True if this is the name of a Rust file.
fn is_source(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "rs")
        && !name.contains(|c: char| c.is_whitespace() || c == '*')
}

/// Returns the pages that are longer than their limits.
pub fn too_long(documents: &[(String, String)]) -> Vec<String> {
    let mut long = Vec::new();
    for (path, text) in documents {
        let (count, most) = match path.as_str() {
            "docs/ARCHITECTURE.md" => (text.lines().count(), ARCHITECTURE_LINES_MAX),
            "docs/internals/glossary.md" => {
                // The head of the table and the line below it are no rows.
                let rows = text.lines().filter(|line| line.starts_with('|')).count();
                (rows.saturating_sub(2), GLOSSARY_ROWS_MAX)
            }
            _ => continue,
        };
        if count > most {
            long.push(format!("{path} has {count} lines or rows of {most}"));
        }
    }
    long
}

/// Returns where the contents of the site differ from the pages: each page is named once, by its
/// title.
pub fn wrong_contents(documents: &[(String, String)]) -> Vec<String> {
    let mut pages: BTreeMap<PathBuf, &str> = BTreeMap::new();
    for (path, text) in documents {
        if path.starts_with("docs/") && is_page(path) && path != CONTENTS {
            let title = text.lines().find_map(|line| line.strip_prefix("# "));
            pages.insert(PathBuf::from(path), title.unwrap_or_default());
        }
    }
    let contents = documents.iter().find(|(path, _)| path == CONTENTS);
    let contents = contents.map(|(_, text)| text.as_str()).unwrap_or_default();
    let mut wrong = Vec::new();
    for line in contents.lines() {
        let Some((name, link)) =
            line.split_once('[').and_then(|(_, rest)| rest.strip_suffix(')')?.split_once("]("))
        else {
            continue;
        };
        let page = joined(CONTENTS, link);
        match pages.remove(&page) {
            Some(title) if title == name => {}
            Some(title) => wrong.push(format!("{}: the title is {title:?}", page.display())),
            // A heading of several pages is no page.
            None if link.is_empty() => {}
            None => {
                wrong.push(format!("{}: there is no such page, or it is twice", page.display()));
            }
        }
    }
    wrong.extend(pages.keys().map(|page| format!("{}: it is not named", page.display())));
    wrong
}

fn is_page(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// The lines of a page that are in no fenced block of code, numbered from 1.
fn outside_of_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((at + 1, line))
    })
}

/// Returns the first line of each block of code with a command, fenced or indented, from 1.
fn blocks_of_commands(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut is_fenced, mut begin, mut is_counted) = (false, 0, true);
    for (at, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        if bare.starts_with("```") {
            is_fenced = !is_fenced;
            (begin, is_counted) = (at + 1, false);
            continue;
        }
        if !is_fenced && !line.starts_with("    ") {
            (begin, is_counted) = (at + 2, false);
            continue;
        }
        if !is_counted && PROGRAMS.iter().any(|program| bare.starts_with(program)) {
            found.push(begin);
            is_counted = true;
        }
    }
    found
}

/// The targets of the links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link))
}

/// The headings of a page, as links name them.
fn anchors(text: &str) -> Vec<String> {
    let headings = outside_of_code(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#'))).collect()
}

fn anchor(heading: &str) -> String {
    let lower = heading.trim().to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The path of a link in a document, from the project's root.
fn joined(document: &str, link: &str) -> PathBuf {
    let mut path = PathBuf::from(document);
    path.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::File;

    #[test]
    fn documents_lead_somewhere_and_keep_to_their_limits() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = Sources::read(&root).expect("the sources can be read");
        let missing = missing_files(&sources);
        assert!(missing.is_empty(), "files that are not there:\n{}", missing.join("\n"));
        let documents = sources.documents;
        let broken = broken_links(&root, &documents);
        assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
        let long = too_long(&documents);
        assert!(long.is_empty(), "{}", long.join("\n"));
        let wrong = wrong_contents(&documents);
        assert!(wrong.is_empty(), "{CONTENTS}:\n{}", wrong.join("\n"));
    }

    #[test]
    fn contents_that_differ_from_the_pages_are_found() {
        let page = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let documents = [
            page(CONTENTS, "- [A]()\n- [One](one.md)\n- [2](two.md)\n- [Four](four.md)\n"),
            page("docs/one.md", "# One\n"),
            page("docs/two.md", "<!-- a comment -->\n# Two\n"),
            page("docs/internals/three.md", "# Three\n"),
        ];
        let wrong = [
            "docs/two.md: the title is \"Two\"",
            "docs/four.md: there is no such page, or it is twice",
            "docs/internals/three.md: it is not named",
        ];
        assert_eq!(wrong_contents(&documents), wrong);
    }

    #[test]
    fn broken_links_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "# A `b`: c\n[1](#a-b-c) [2](#d) [3](src/lib.rs) [4](src/none.rs)\n\
                    ```\n[5](none)\n```\n[6](https://example.com/none)\n";
        let documents = [("page.md".to_owned(), text.to_owned())];
        assert_eq!(broken_links(root, &documents), ["page.md:2: #d", "page.md:2: src/none.rs"]);
    }

    #[test]
    fn files_that_are_not_there_are_found() {
        let file = |path: &str| File {
            path: path.to_owned(),
            krate: "core".to_owned(),
            text: String::new(),
            syntax: syn::parse_str("").expect("an empty file is Rust"),
            is_test: false,
        };
        let text = "`plan/claims.rs`, `held.rs` and `aims.rs`\n```\n`none.rs`\n```\n`*.rs`\n";
        let documents = vec![("a.md".to_owned(), text.to_owned())];
        let sources = Sources { files: vec![file("planner/src/plan/claims.rs")], documents };
        assert_eq!(missing_files(&sources), ["a.md:1: held.rs", "a.md:1: aims.rs"]);
    }

    #[test]
    fn commands_that_no_test_runs_are_counted() {
        let text =
            "<!-- not run: a -->\n```sh\n<!-- not run: b -->\n```\n- <!-- run with a=b -->\n";
        let other = "a\n\n    kubectl get a\n    kubectl get b\n\n```text\nno\n$ yes\n```\n\
                     ```yaml\nmake: 1\n```\nkubectl get c\n";
        assert_eq!(blocks_of_commands(other), [3, 6]);
        let documents = [("a.md", text), ("b.md", other)]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .to_vec();
        let reader = File {
            path: format!("{}.rs", READERS[0]),
            krate: String::new(),
            text: "read(\"a.md\")".to_owned(),
            syntax: syn::parse_file("").expect("an empty file"),
            is_test: true,
        };
        let mut numbers = Numbers::default();
        count(&Sources { documents, files: vec![reader] }, &mut numbers);
        assert_eq!(numbers.to_text(), "unrun a.md 1\nunrun b.md 2\n");
    }
}
