//! Scripts: their interpreter, and the options in their first comments.

use anyhow::{bail, ensure};

use fluxqueue_api::text;

/// A script, and the program that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// The program, its arguments, and the option after which it takes a script as an argument.
    pub interpreter: Vec<String>,
    /// True if the argument after the script is its name, as for shells.
    pub is_named: bool,
    /// The script.
    pub text: String,
}

/// The program of the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Runs {
    /// A script with arguments.
    Script(Script, Vec<String>),
    /// A command.
    Command(Vec<String>),
}

/// A word of a line with options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// `--option` or `--option=value`.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
}

/// The options of a script.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The options that have a meaning here.
    pub words: Vec<Word>,
    /// The options that have none, with their lines.
    pub notes: Vec<String>,
}

/// The meaning of an option of sbatch here.
#[derive(Clone, Copy)]
enum Meaning {
    /// It means the same as in sbatch.
    Same,
    /// It has no effect; without it the job is still the requested one.
    LeftOut(&'static str),
    /// It is not supported yet, or is given in another way.
    Refused(&'static str),
}

use Meaning::{LeftOut, Refused, Same};

/// An option: long and short name, whether it has a value, and its meaning.
type Known = (&'static str, Option<char>, bool, Meaning);

const LOGS: &str = "`kubectl fluxqueue logs` shows the output of a job";
const MAIL: &str = "there is no mail; `kubectl fluxqueue wait` says when a job has ended";

const ELSEWHERE: Meaning = Refused("is an option of sbatch that is not supported here");

const OF_NOTHING: &str = "is not an option that is known here";

const KNOWN: [Known; 61] = [
    ("image", None, true, Same),
    ("nodes", Some('N'), true, Same),
    ("ntasks", Some('n'), true, Same),
    ("ntasks-per-node", None, true, Same),
    ("cpus-per-task", Some('c'), true, Same),
    ("mem", None, true, Same),
    ("mem-per-cpu", None, true, Same),
    ("gpus", Some('G'), true, Same),
    ("gpus-per-node", None, true, Same),
    ("gpus-per-task", None, true, Same),
    ("gpu-resource", None, true, Same),
    ("gres", None, true, Same),
    ("time", Some('t'), true, Same),
    ("array", Some('a'), true, Same),
    ("exclusive", None, false, Same),
    ("job-name", Some('J'), true, Same),
    ("partition", Some('p'), true, Same),
    ("queue", None, true, Same),
    ("constraint", Some('C'), true, Same),
    ("chdir", Some('D'), true, Same),
    ("priority-class", None, true, Same),
    ("env", None, true, Same),
    ("mount", None, true, Same),
    ("scheduler-name", None, true, Same),
    ("output", Some('o'), true, LeftOut(LOGS)),
    ("error", Some('e'), true, LeftOut(LOGS)),
    ("open-mode", None, true, LeftOut(LOGS)),
    ("input", Some('i'), true, LeftOut("a job has no standard input")),
    ("mail-type", None, true, LeftOut(MAIL)),
    ("mail-user", None, true, LeftOut(MAIL)),
    ("account", Some('A'), true, LeftOut("a namespace takes the place of an account")),
    ("comment", None, true, LeftOut("there are no comments")),
    ("requeue", None, false, LeftOut("a pod that is drained is made again; others are not")),
    ("no-requeue", None, false, LeftOut("a pod that fails is not made again")),
    ("export", None, true, LeftOut("the environment is that of the image, and --env")),
    ("get-user-env", None, false, LeftOut("the environment is that of the image, and --env")),
    ("parsable", None, false, LeftOut("-o name on the command line prints the name alone")),
    ("quiet", Some('Q'), false, LeftOut("there is nothing to leave out")),
    ("verbose", Some('v'), false, LeftOut("there is nothing more to say")),
    ("threads-per-core", None, true, LeftOut("CPUs are what Kubernetes counts")),
    ("hint", None, true, LeftOut("CPUs are what Kubernetes counts")),
    ("begin", Some('b'), true, Refused("is not there yet: a CronJob begins at a time")),
    (
        "dependency",
        Some('d'),
        true,
        Refused("is not there yet: a workflow engine or a JobSet orders jobs"),
    ),
    (
        "hold",
        Some('H'),
        false,
        Refused("is not there yet: `kubectl fluxqueue hold` holds a job that was submitted"),
    ),
    (
        "qos",
        Some('q'),
        true,
        Refused("is not there: use --partition for a queue or --priority-class"),
    ),
    (
        "nodelist",
        Some('w'),
        true,
        Refused("is not there: use --constraint kubernetes.io/hostname=NODE for one node"),
    ),
    ("exclude", Some('x'), true, Refused("is not there: a manifest can exclude nodes by affinity")),
    ("reservation", None, true, Refused("is not there yet")),
    ("licenses", Some('L'), true, Refused("are not there: limits of queues count resources")),
    ("deadline", None, true, Refused("is not there: see activeDeadlineSeconds of a Job")),
    ("time-min", None, true, Refused("is not there yet: say the shortest --time that will do")),
    (
        "signal",
        None,
        true,
        Refused("is not there: Kubernetes sends SIGTERM, and SIGKILL after the grace period"),
    ),
    ("switches", None, true, Refused("is an annotation here: fluxqueue/required-level")),
    ("clusters", Some('M'), true, Refused("is --context on the command line")),
    ("priority", None, true, Refused("is --priority-class here")),
    ("nice", None, true, Refused("is --priority-class here")),
    (
        "distribution",
        Some('m'),
        true,
        Refused("is not there: annotations place pods in levels of the machine"),
    ),
    ("ntasks-per-core", None, true, Refused("is not there: use --cpus-per-task")),
    ("wrap", None, true, Refused("has no place in a script")),
    ("wait", Some('W'), false, Refused("is an option of the command line alone")),
    ("test-only", None, false, Refused("is `kubectl fluxqueue when -f` here")),
];

/// The other options of sbatch, all with the meaning [`ELSEWHERE`].
const NOT_SUPPORTED: [(&str, Option<char>); 53] = [
    ("acctg-freq", None),
    ("batch", None),
    ("bb", None),
    ("bbf", None),
    ("cluster-constraint", None),
    ("container", None),
    ("container-id", None),
    ("contiguous", None),
    ("core-spec", Some('S')),
    ("cores-per-socket", None),
    ("cpu-freq", None),
    ("cpus-per-gpu", None),
    ("delay-boot", None),
    ("export-file", None),
    ("extra", None),
    ("extra-node-info", Some('B')),
    ("gid", None),
    ("gpu-bind", None),
    ("gpu-freq", None),
    ("gpus-per-socket", None),
    ("gres-flags", None),
    ("ignore-pbs", None),
    ("kill-on-invalid-dep", None),
    ("mcs-label", None),
    ("mem-bind", None),
    ("mem-per-gpu", None),
    ("mincpus", None),
    ("network", None),
    ("no-kill", Some('k')),
    ("nodefile", Some('F')),
    ("ntasks-per-gpu", None),
    ("ntasks-per-socket", None),
    ("oom-kill-step", None),
    ("overcommit", Some('O')),
    ("oversubscribe", Some('s')),
    ("power", None),
    ("prefer", None),
    ("profile", None),
    ("propagate", None),
    ("reboot", None),
    ("resv-ports", None),
    ("segment", None),
    ("sockets-per-node", None),
    ("spread-job", None),
    ("stepmgr", None),
    ("thread-spec", None),
    ("tmp", None),
    ("tres-bind", None),
    ("tres-per-task", None),
    ("uid", None),
    ("use-min-nodes", None),
    ("wait-all-nodes", None),
    ("wckey", None),
];

/// Returns the option of sbatch with a long name or a letter that will do.
fn known(is_it: impl Fn(&str, Option<char>) -> bool) -> Option<Known> {
    let others = NOT_SUPPORTED.iter().map(|(name, short)| (*name, *short, false, ELSEWHERE));
    KNOWN.into_iter().chain(others).find(|(name, short, ..)| is_it(name, *short))
}

/// Says of an option of sbatch, such as `--begin` or `-b`, why the command does not take it. `None`
/// if the command takes it, or sbatch has no such option.
pub(super) fn not_taken(option: &str) -> Option<String> {
    let known = if let Some(long) = option.strip_prefix("--") {
        known(|name, _| name == long)?
    } else {
        let short = option.strip_prefix('-')?.chars().next();
        known(|_, letter| letter == short)?
    };
    match known.3 {
        Same => None,
        LeftOut(why) => Some(format!("--{}: {why}", known.0)),
        Refused(why) => Some(format!("--{} {why}", known.0)),
    }
}

/// Reads the options of a script: the lines `#SBATCH` and `#FLUXQUEUE` before its first command. An
/// error begins with its line, here and in the other functions that read scripts.
pub(super) fn options(text: &str) -> anyhow::Result<Read> {
    let mut read = Read::default();
    for (at, line) in text.lines().enumerate() {
        let (number, line) = (at + 1, line.trim_end());
        if !line.trim().is_empty() && !line.starts_with('#') {
            break;
        }
        let rest = ["#SBATCH", "#FLUXQUEUE"].iter().find_map(|mark| line.strip_prefix(mark));
        if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])) {
            let Some(words) = shlex::split(rest) else {
                bail!("{number}: a quotation mark is not closed");
            };
            read_words(words, number, &mut read)?;
        }
    }
    Ok(read)
}

fn read_words(words: Vec<String>, line: usize, read: &mut Read) -> anyhow::Result<()> {
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let shown = text::quoted(&word);
        ensure!(word != "hetjob" && word != ":", "{line}: jobs of several parts are not there yet");
        let (known, mut value) = if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let known = known(|known, _| known == name);
            let Some(known) = known else {
                bail!("{line}: --{} {OF_NOTHING}", text::name(name));
            };
            (known, value.map(str::to_owned))
        } else if let Some(short) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            let Some(known) = known(|_, letter| letter == Some(short)) else {
                bail!("{line}: {shown} {OF_NOTHING}");
            };
            let rest = word[1 + short.len_utf8()..].to_owned();
            (known, (!rest.is_empty()).then_some(rest))
        } else {
            bail!("{line}: {shown} is no option");
        };
        let (name, _, takes_value, meaning) = known;
        if takes_value && value.is_none() {
            value = words.next();
            ensure!(value.is_some(), "{line}: --{name} needs a value");
        }
        match meaning {
            Same => {
                ensure!(
                    takes_value || value.is_none(),
                    "{line}: --{name}={} is not there: --{name} alone is",
                    text::name(value.as_deref().unwrap_or_default())
                );
                let text = value.map_or(format!("--{name}"), |value| format!("--{name}={value}"));
                read.words.push(Word { text, line });
            }
            LeftOut(why) => read.notes.push(format!("{line}: --{name} is left out: {why}")),
            Refused(why) => bail!("{line}: --{name} {why}"),
        }
    }
    Ok(())
}

/// Refuses a script that an interpreter would misread in the container: with the line ends of
/// Windows, a byte order mark or a NUL.
pub(super) fn check(text: &str) -> anyhow::Result<()> {
    ensure!(
        !text.starts_with('\u{feff}'),
        "1: the script begins with a byte order mark: save it as UTF-8 without one"
    );
    for (number, line) in (1..).zip(text.split('\n')) {
        ensure!(
            !line.ends_with('\r'),
            "{number}: it ends with CR LF, as lines do on Windows: dos2unix makes LF of that"
        );
        ensure!(!line.contains('\0'), "{number}: it has a NUL byte, so this is no script");
    }
    Ok(())
}

impl Script {
    /// Reads the interpreter of a script from its first line.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let first = text.lines().next().unwrap_or_default();
        let Some(shebang) = first.strip_prefix("#!") else {
            bail!("1: the script does not begin with #! and the program that reads it");
        };
        let mut interpreter: Vec<String> = shebang.split_whitespace().map(str::to_owned).collect();
        // `env -S` splits words, which has been done already.
        interpreter.retain(|word| word != "-S");
        let program = interpreter
            .iter()
            .map(|word| word.rsplit('/').next().unwrap_or(word))
            .find(|word| *word != "env" && !word.starts_with('-'))
            .unwrap_or_default()
            .to_owned();
        let (flag, is_named) =
            match program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
                "sh" | "bash" | "dash" | "ash" | "ksh" | "zsh" => ("-c", true),
                "python" | "pypy" => ("-c", false),
                "perl" | "ruby" | "julia" | "node" | "Rscript" => ("-e", false),
                _ => bail!(
                    "1: {} is not known to take a script as an argument: put the script into the \
                 image, and submit the command that runs it",
                    text::quoted(&program)
                ),
            };
        interpreter.push(flag.to_owned());
        Ok(Script { interpreter, is_named, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        options(text).unwrap().words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn options_stand_in_the_comments_before_the_first_command() {
        let script = "#!/bin/bash
# Our solver.
#SBATCH -N4 --ntasks 16   # on four nodes
##SBATCH --time=1
#SBATCHES --time=2

#SBATCH --job-name='big one' -t 1-0
#FLUXQUEUE --env=A=\"b c\"
srun solve
#SBATCH --exclusive
";
        assert_eq!(
            words(script),
            ["--nodes=4", "--ntasks=16", "--job-name=big one", "--time=1-0", "--env=A=b c"]
        );
    }

    #[test]
    fn what_cannot_be_read_names_its_line() {
        for (line, said) in [
            ("--nodes", "2: --nodes needs a value"),
            ("'open", "2: a quotation mark is not closed"),
            ("solve", "2: \"solve\" is no option"),
            ("-Z 3", "2: \"-Z\" is not an option that is known here"),
            ("--exclusive=user", "2: --exclusive=user is not there"),
            ("-d afterok:1", "2: --dependency is not there yet"),
            ("hetjob", "2: jobs of several parts"),
        ] {
            let error = options(&format!("#!/bin/sh\n#SBATCH {line}\n")).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn an_interpreter_is_given_the_script_as_an_argument() {
        let of = |first: &str| Script::read(&format!("{first}\necho\n")).map(|it| it.interpreter);
        assert_eq!(of("#!/bin/bash -l").unwrap(), ["/bin/bash", "-l", "-c"]);
        assert_eq!(of("#!/usr/bin/env python3").unwrap(), ["/usr/bin/env", "python3", "-c"]);
        assert_eq!(of("#!/usr/bin/env -S perl -w").unwrap(), ["/usr/bin/env", "perl", "-w", "-e"]);
        assert!(of("#!/opt/magic").unwrap_err().to_string().contains("\"magic\" is not known"));
        assert!(of("echo").unwrap_err().to_string().starts_with("1: the script does not"));
    }

    /// Each option that means the same is one of `submit`, too.
    #[test]
    fn every_option_that_means_the_same_is_one_of_the_command() {
        use clap::Args as _;
        let command = super::super::options::Options::augment_args(clap::Command::new("x"));
        for (name, short, takes_value, meaning) in KNOWN {
            if matches!(meaning, Same) {
                let of_name = |arg: &&clap::Arg| {
                    arg.get_long() == Some(name)
                        || arg.get_all_aliases().unwrap_or_default().contains(&name)
                };
                let arg =
                    command.get_arguments().find(of_name).unwrap_or_else(|| panic!("--{name}"));
                assert_eq!(arg.get_action().takes_values(), takes_value, "--{name}");
                assert!(short.is_none() || arg.get_short() == short, "--{name}");
            }
        }
    }
}
