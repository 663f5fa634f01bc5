//! Each quirk of docs/fluxion-compatibility.md is found by its number: where the code reproduces
//! it, and in a test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The numbers in a text: Q and digits, as a word.
fn numbers(text: &str) -> BTreeSet<u32> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter_map(|word| word.strip_prefix('Q')?.parse().ok()).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs" || end == "c") {
            found.push(path);
        }
    }
}

#[test]
fn each_quirk_is_named_where_it_is_reproduced_and_where_it_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/fluxion-compatibility.md")).unwrap();
    let listed = page.lines().filter_map(|line| line.strip_prefix("- **"));
    let listed: BTreeSet<u32> = listed
        .filter_map(|line| line.split_once("**"))
        .flat_map(|(name, _)| numbers(name))
        .collect();
    assert!(listed.iter().copied().eq(1..=*listed.last().unwrap()), "{listed:?}");
    let (mut code, mut tests) = (BTreeSet::new(), BTreeSet::new());
    for part in ["fluxion-engine", "fluxion-sys", "resource-query"] {
        let (mut in_src, mut in_tests) = (Vec::new(), Vec::new());
        sources(&root.join(part).join("src"), &mut in_src);
        sources(&root.join(part).join("tests"), &mut in_tests);
        for path in in_tests {
            tests.extend(numbers(&std::fs::read_to_string(path).unwrap()));
        }
        for path in in_src {
            let text = std::fs::read_to_string(&path).unwrap();
            let (before, after) =
                text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
            let is_test = path.file_name().is_some_and(|name| name == "tests.rs");
            let before = numbers(before);
            if is_test {
                tests.extend(before);
            } else {
                code.extend(before);
            }
            tests.extend(numbers(after));
        }
    }
    assert_eq!(listed.difference(&code).collect::<Vec<_>>(), [&0; 0], "no code names these");
    assert_eq!(listed.difference(&tests).collect::<Vec<_>>(), [&0; 0], "no test names these");
}
