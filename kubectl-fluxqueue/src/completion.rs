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

/// The beginnings of the labels and of the states of subcommands in the script that clap_complete
/// writes for bash. They have to be equal, and for a program with a hyphen in its name they are not
/// (clap_complete 4.6.11), so that no subcommand would have candidates.
const LABELS_OF_BASH: &str = "kubectl__subcmd__fluxqueue__subcmd__";
const STATES_OF_BASH: &str = "kubectl__fluxqueue__subcmd__";

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
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Clap::Bash {
        script = script.replace(LABELS_OF_BASH, STATES_OF_BASH);
    }
    console.print(&script)?;
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
    use std::fmt::Write as _;

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
            assert!(printed(shell).contains(word), "{shell:?}");
        }
    }

    fn printed(shell: Shell) -> String {
        let mut out = Vec::new();
        let look = crate::Look::plain();
        let mut console = Console::new(std::io::empty(), &mut out, std::io::sink(), look);
        script(CompletionArgs { shell }, &mut console).unwrap();
        drop(console);
        String::from_utf8(out).unwrap()
    }

    /// Completes command lines in bash itself, each with the last word begun; returns the
    /// candidates of each.
    fn in_bash(lines: &[String]) -> Vec<Vec<String>> {
        let mut program = printed(Shell::Bash);
        program.push_str(
            r#"
complete_line() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _kubectl__fluxqueue "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    echo "${COMPREPLY[*]}"
}
"#,
        );
        for line in lines {
            writeln!(program, "complete_line kubectl-fluxqueue {line}").unwrap();
        }
        let ran = std::process::Command::new("bash").args(["-c", &program]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        String::from_utf8(ran.stdout).unwrap().lines().map(words).collect()
    }

    #[test]
    fn bash_completes_the_options_of_each_subcommand() {
        let mut command = Args::command();
        command.build();
        let subs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert!(subs.contains(&"support-bundle"), "{subs:?}");
        let with = |sub: &&str| format!("{sub} --");
        let lines: Vec<String> = subs.iter().map(with).collect();
        for (line, found) in lines.iter().zip(in_bash(&lines)) {
            let (expected, _) = complete(line);
            let missing: Vec<_> = expected.iter().filter(|it| !found.contains(it)).collect();
            assert!(missing.is_empty(), "{line}: {missing:?} of {expected:?} in {found:?}");
        }
        let other = ["que", "queue --output ''", "completion ''"].map(str::to_owned);
        let found = in_bash(&other);
        assert_eq!(found[0], ["queue", "queues"]);
        assert_eq!(found[1], ["wide", "json", "yaml", "name"]);
        assert!(found[2].contains(&"fish".to_owned()), "{:?}", found[2]);
    }
}
