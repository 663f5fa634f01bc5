//! Sentences without a subject, found by words such as those in [`ALONE`].
//!
//! They are found by their words, in comments, documents, the C header and the messages of the
//! program.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use crate::Numbers;
use crate::sources::{File, Sources};

/// Words that take the place of a subject.
const ALONE: [&str; 10] = [
    "who",
    "whoever",
    "whom",
    "whose",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "anew",
    "whosoever",
];
/// Words after "what" with which a clause takes the place of a noun.
const AFTER_WHAT: [&str; 13] =
    ["is", "was", "has", "had", "are", "were", "it", "a", "the", "there", "of", "pods", "others"];
/// Words after "so" that count without naming the thing.
const AFTER_SO: [&str; 4] = ["many", "much", "often", "few"];
/// Words after "is" and its like that make a passive without an actor.
const AFTER_IS: [&str; 4] = ["said", "told", "asked", "looked"];

/// Counts them, by folder.
pub fn count(sources: &Sources, numbers: &mut Numbers) {
    for file in &sources.files {
        let measure = format!("words {}", folder_of(file));
        for (at, line) in file.text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            for word in found(comment) {
                numbers.add(&measure, format!("{}:{}: {word}", file.path, at + 1));
            }
        }
        if !file.is_test {
            let mut texts = Vec::new();
            texts_of(file.syntax.to_token_stream(), &mut texts);
            for (line, text) in texts.iter().filter(|(_, text)| text.contains(' ')) {
                for word in found(text) {
                    numbers.add(
                        &format!("messages {}", file.krate),
                        format!("{}:{line}: {word}", file.path),
                    );
                }
            }
        }
    }
    for (path, text) in &sources.documents {
        for (at, line) in text.lines().enumerate() {
            for word in found(line) {
                numbers.add(&format!("words {path}"), format!("{path}:{}: {word}", at + 1));
            }
        }
    }
}

fn folder_of(file: &File) -> String {
    file.path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned()
}

/// Returns the expressions in a text that count.
fn found(text: &str) -> Vec<String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let trimmed = |at: usize| -> &str {
        words.get(at).map_or("", |word| word.trim_matches(|c: char| !c.is_alphanumeric()))
    };
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        // Punctuation at the end of a word separates it from the next.
        let next = if word.ends_with(|c: char| c.is_alphanumeric()) { trimmed(at + 1) } else { "" };
        let is_pair = match trimmed(at) {
            "what" => AFTER_WHAT.contains(&next),
            "so" => AFTER_SO.contains(&next),
            "is" | "are" | "was" | "were" => {
                AFTER_IS.contains(&next) && (next != "looked" || trimmed(at + 2) == "at")
            }
            _ => false,
        };
        if ALONE.contains(&trimmed(at)) {
            found.push(trimmed(at).to_owned());
        } else if is_pair {
            found.push(format!("{} {next}", trimmed(at)));
        }
    }
    found
}

/// Collects the string literals in a stream of tokens, with their lines, without those in
/// attributes.
fn texts_of(tokens: TokenStream, texts: &mut Vec<(usize, String)>) {
    let mut after_hash = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if !after_hash => texts_of(group.stream(), texts),
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    texts.push((line, text.value()));
                }
            }
            TokenTree::Punct(punct)
                if punct.as_char() == '#' || (after_hash && punct.as_char() == '!') =>
            {
                after_hash = true;
                continue;
            }
            _ => {}
        }
        after_hash = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_without_a_subject_are_found() {
        for (text, expected) in [
            ("/ Whoever asks is told what is there.", vec!["whoever", "is told", "what is"]),
            ("The nodes that the job may use.", vec![]),
            ("So many pods as nobody wants, anew.", vec!["so many", "nobody", "anew"]),
            (
                "What it costs; that was looked at, so often",
                vec!["what it", "was looked", "so often"],
            ),
            ("It is so. Many pods wait for what: the node.", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_are_found_outside_of_attributes() {
        let text = "#[doc = \"a b\"] fn f() { println!(\"c {} d\", g(\"e f\")) }";
        let mut texts = Vec::new();
        texts_of(text.parse().expect("tokens"), &mut texts);
        assert_eq!(
            texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
            ["c {} d", "e f"]
        );
    }
}
