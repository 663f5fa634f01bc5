//! `completion`: scripts for shells, and the program by which kubectl completes this command.
//!
//! kubectl runs `kubectl_complete-fluxqueue` with the words of the command line, and expects one
//! candidate in each line and a last line with a directive. That program, which `completion
//! kubectl` prints, asks this one.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap_complete::{Shell as Clap, generate};

use crate::args::{Args, CompletionArgs, Shell};
use crate::console::Console;
use crate::exit::DONE;

/// The first argument of a call that requests candidates.
pub(crate) const CANDIDATES: &str = "__complete";

/// The program for kubectl.
const FOR_KUBECTL: &str = "#!/bin/sh
# Completes `kubectl fluxqueue`: put this into a file kubectl_complete-fluxqueue in your PATH,
# and make it executable.
exec kubectl-fluxqueue __complete \"$@\"
";

/// Tells kubectl that file names are no candidates, as Cobra does.
const NO_FILES: &str = ":4";
/// Tells kubectl that file names are candidates.
const FILES: &str = ":0";

/// Prints a completion script.
pub(crate) fn script(args: CompletionArgs, console: &mut Console<'_>) -> anyhow::Result<u8> {
    let shell = match args.shell {
        Shell::Bash => Clap::Bash,
        Shell::Zsh => Clap::Zsh,
        Shell::Fish => Clap::Fish,
        Shell::Kubectl => {
            console.print(FOR_KUBECTL)?;
            return Ok(DONE);
        }
    };
    let mut script = Vec::new();
    let mut command = Args::command().bin_name("kubectl-fluxqueue");
    generate(shell, &mut command, "kubectl-fluxqueue", &mut script);
    console.print(&String::from_utf8_lossy(&script))?;
    Ok(DONE)
}

/// Prints the candidates for the last of these words.
pub(crate) fn candidates(words: &[OsString], console: &mut Console<'_>) -> u8 {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (found, directive) = of_words(&words);
    let mut text: String = found.iter().map(|candidate| candidate.clone() + "\n").collect();
    text.push_str(directive);
    text.push('\n');
    match console.print(&text).and_then(|()| console.flush()) {
        Ok(()) => DONE,
        Err(_) => crate::exit::FAILED,
    }
}

/// Returns the candidates for the last word, and the directive that tells whether file names are
/// candidates too.
fn of_words(words: &[String]) -> (Vec<String>, &'static str) {
    let mut command = Args::command();
    command.build();
    let (last, before) =
        words.split_last().map_or(("", words), |(last, rest)| (last.as_str(), rest));
    let mut of = &command;
    for word in before {
        if let Some(sub) = of.find_subcommand(word) {
            of = sub;
        }
    }
    // The word may be the value of the option before it.
    let option = before.last().filter(|word| word.starts_with('-'));
    let option = option.and_then(|word| {
        of.get_arguments().find(|arg| {
            let short = arg.get_short().map(|short| format!("-{short}"));
            let long = arg.get_long().map(|long| format!("--{long}"));
            arg.get_action().takes_values()
                && (short.as_ref() == Some(word) || long.as_ref() == Some(word))
        })
    });
    let fitting = |all: Vec<String>| -> Vec<String> {
        all.into_iter().filter(|it| it.starts_with(last)).collect()
    };
    if let Some(option) = option {
        let values = option.get_possible_values();
        let values: Vec<String> = values.iter().map(|value| value.get_name().to_owned()).collect();
        let is_file =
            option.get_value_names().is_some_and(|names| names.iter().any(|it| it == "FILE"));
        return (fitting(values), if is_file { FILES } else { NO_FILES });
    }
    if last.starts_with('-') {
        let longs = of.get_arguments().filter(|arg| !arg.is_hide_set());
        let longs = longs.filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
        return (fitting(longs.collect()), NO_FILES);
    }
    let subs: Vec<String> = of
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| match sub.get_about() {
            Some(about) => format!("{}\t{about}", sub.get_name()),
            None => sub.get_name().to_owned(),
        })
        .collect();
    if !subs.is_empty() {
        return (fitting(subs), NO_FILES);
    }
    let values =
        of.get_positionals().next().map(clap::Arg::get_possible_values).unwrap_or_default();
    let values = values.iter().map(|value| value.get_name().to_owned()).collect();
    let takes_files = of.get_name() == "submit";
    (fitting(values), if takes_files { FILES } else { NO_FILES })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &str) -> (Vec<String>, &'static str) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        of_words(&words)
    }

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn commands_options_and_values_are_completed() {
        let (found, directive) = complete("ho");
        assert!(found.len() == 1 && found[0].starts_with("hold\t"), "{found:?}");
        assert_eq!(directive, ":4");
        let (found, _) = complete("queue --all");
        assert_eq!(found, ["--all-namespaces"]);
        let (found, _) = complete("queue -o ");
        assert_eq!(found, ["wide", "json", "yaml", "name"]);
        let (found, _) = complete("queue --output w");
        assert_eq!(found, ["wide"]);
        let (found, _) = complete("completion k");
        assert_eq!(found, ["kubectl"]);
        assert_eq!(complete("submit ru").1, ":0", "scripts are files");
        assert_eq!(complete("--kubeconfig ").1, ":0");
    }

    #[test]
    fn there_is_a_script_for_each_shell() {
        for (shell, word) in [
            (Shell::Bash, "complete -F"),
            (Shell::Zsh, "#compdef"),
            (Shell::Fish, "complete -c"),
            (Shell::Kubectl, "kubectl-fluxqueue __complete"),
        ] {
            let mut out = Vec::new();
            let look = crate::Look::plain();
            let mut console = Console::new(std::io::empty(), &mut out, std::io::sink(), look);
            script(CompletionArgs { shell }, &mut console).unwrap();
            drop(console);
            assert!(String::from_utf8(out).unwrap().contains(word), "{shell:?}");
        }
    }
}
