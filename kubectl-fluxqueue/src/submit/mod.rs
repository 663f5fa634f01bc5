//! `submit`: creates a Job from a script or a command, with the options of sbatch.
//!
//! Options come from `#SBATCH` and `#FLUXQUEUE` lines of the script (`script.rs`), and from the
//! command line, which counts more. `request.rs` reads the options into a request, and
//! `manifest.rs` makes the Job. Nothing else is created: a script goes along in the command of the
//! container.

mod manifest;
pub(crate) mod options;
mod request;
mod script;

use std::path::Path;

use anyhow::{Context as _, anyhow, ensure};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as _, FromArgMatches as _};

use fluxqueue_api::{names, text};

use crate::api_path::Resource;
use crate::args::{Connection, Format, SubmitArgs, WaitArgs, WaitFor};
use crate::cluster::Cluster;
use crate::console::Console;
use crate::exit::{DONE, usage};
use crate::wish::queue_exists;
use crate::{output, wait};

use options::Options;
use request::Request;
use script::{Runs, Script};

/// The largest script in bytes: Linux takes 128 KiB in one argument of a program.
const SCRIPT_BYTES_MAX: u64 = 120 << 10;

/// Submits a job.
pub(crate) async fn run(
    connection: &Connection,
    args: SubmitArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let (job, notes) = job_of(&args, console)?;
    for note in notes {
        console.note(&note);
    }
    if args.dry_run {
        console.print(&shown(&job, args.output)?)?;
        return Ok(DONE);
    }
    let cluster = Cluster::connect(connection).await?;
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    if let Some(queue) = labels[names::QUEUE_NAME].as_str() {
        queue_exists(&cluster, ("--partition", queue), console).await?;
    }
    let created = cluster.create(Resource::JOB, Some(&cluster.namespace), &job, false).await?;
    let name = created.pointer("/metadata/name").and_then(serde_json::Value::as_str);
    let name = name.context("the API server names no Job")?.to_owned();
    match args.output {
        None => console.print(&format!("Submitted job {}\n", text::name(&name)))?,
        format => console.print(&shown(&created, format)?)?,
    }
    if !args.wait {
        return Ok(DONE);
    }
    console.flush()?;
    let args = WaitArgs { job: name, until: WaitFor::Ended, timeout: None };
    wait::wait_for_new(&cluster, &args, console).await
}

fn shown(job: &serde_json::Value, format: Option<Format>) -> anyhow::Result<String> {
    match format {
        Some(Format::Json) => output::json(job),
        Some(Format::Name) => Ok(output::name(job) + "\n"),
        _ => output::yaml(job),
    }
}

/// Makes the Job for these arguments, and lines for people.
fn job_of(
    args: &SubmitArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<(serde_json::Value, Vec<String>)> {
    let script = args.script.as_deref().map(|path| read(path, console)).transpose()?;
    job_with(args, script.as_deref()).map_err(usage)
}

/// Does the same with the text of the script, if there is one.
fn job_with(
    args: &SubmitArgs,
    script: Option<&str>,
) -> anyhow::Result<(serde_json::Value, Vec<String>)> {
    let (runs, request, notes) = match (&args.script, script, &args.wrap) {
        (Some(path), Some(text), _) => {
            let label = if path == "-" { "stdin" } else { path };
            let in_line = |error: anyhow::Error| anyhow!("{label}:{error}");
            script::check(text).map_err(in_line)?;
            let script::Read { words, notes } = script::options(text).map_err(in_line)?;
            merged(&words).map_err(in_line)?;
            let script = Script::read(text).map_err(in_line)?;
            let name = stem(label);
            let request =
                |words: &[script::Word]| Request::read(&over(merged(words)?, &args.options), &name);
            let read = request(&words).map_err(|error| {
                match line_of(&words, &error.to_string(), request) {
                    Some(line) => in_line(anyhow!("{line}: {error}")),
                    None => error,
                }
            });
            let notes = notes.into_iter().map(|note| format!("{label}:{note}")).collect();
            (Runs::Script(script, args.command.clone()), read?, notes)
        }
        (_, _, Some(line)) => {
            let shell = ["/bin/sh".to_owned(), "-c".to_owned(), line.clone()];
            (Runs::Command(shell.to_vec()), Request::read(&args.options, "wrap")?, Vec::new())
        }
        _ => {
            let program = args.command.first();
            let program =
                program.context("nothing to run: name a script, or a command behind --")?;
            let request = Request::read(&args.options, &stem(program))?;
            (Runs::Command(args.command.clone()), request, Vec::new())
        }
    };
    Ok((manifest::job(&request, &runs), notes))
}

/// Returns the name of a file without its folder and its extension.
fn stem(path: &str) -> String {
    let stem = Path::new(path).file_stem();
    stem.map_or_else(|| "job".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Returns the line of a script with the option that an error begins with; `None` if the value that
/// counts is not that of the script.
fn line_of(
    words: &[script::Word],
    error: &str,
    request: impl Fn(&[script::Word]) -> anyhow::Result<Request>,
) -> Option<usize> {
    let option = error.split([':', ' ', ',']).next()?;
    let options = Options::augment_args(clap::Command::new("#SBATCH"));
    let is_it = |arg: &&clap::Arg| arg.get_long() == option.strip_prefix("--");
    let aliases = options.get_arguments().find(is_it)?.get_all_aliases().unwrap_or_default();
    let is_of_option = |at: &usize| {
        let name = words[*at].text.split('=').next().unwrap_or_default();
        name == option || name.strip_prefix("--").is_some_and(|name| aliases.contains(&name))
    };
    let of_option: Vec<usize> = (0..words.len()).rev().filter(is_of_option).collect();
    // Without the words that count, the error is another one, or there is none.
    let count = |left_out: &[usize]| {
        let others = (0..words.len()).filter(|at| !left_out.contains(at));
        let others: Vec<script::Word> = others.map(|at| words[at].clone()).collect();
        request(&others).map_or_else(|other| other.to_string() != error, |_| true)
    };
    let one = of_option.iter().find(|at| count(&[**at]));
    let at = one.or_else(|| of_option.first().filter(|_| count(&of_option)))?;
    Some(words[*at].line)
}

fn read(path: &str, console: &mut Console<'_>) -> anyhow::Result<String> {
    if path == "-" {
        return console.read_input(SCRIPT_BYTES_MAX).context("reading stdin");
    }
    let reading = || format!("reading {}", text::message(path));
    let size = std::fs::metadata(path).with_context(reading)?.len();
    ensure!(size <= SCRIPT_BYTES_MAX, "{path}: a script has {SCRIPT_BYTES_MAX} bytes at most");
    std::fs::read_to_string(path).with_context(reading)
}

/// Reads options from words of a script, by the same rules as those of the command line. An error
/// begins with the line.
fn merged(words: &[script::Word]) -> anyhow::Result<Options> {
    let parse = |words: &[script::Word]| {
        let command = Options::augment_args(clap::Command::new("#SBATCH").no_binary_name(true));
        let matches = command
            .try_get_matches_from(words.iter().map(|word| word.text.as_str()))
            .map_err(|error| first_line(&error))?;
        Options::from_arg_matches(&matches).map_err(|error| first_line(&error))
    };
    parse(words).map_err(|said| {
        // The error of all words together does not give the line of the wrong one.
        let wrong = words.iter().find_map(|word| {
            let said = parse(std::slice::from_ref(word)).err()?;
            Some(format!("{}: {said}", word.line))
        });
        anyhow!(wrong.unwrap_or(said))
    })
}

/// Returns clap's message of an error, without the usage.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Returns the options of a script, with those of the command line over them.
fn over(script: Options, line: &Options) -> Options {
    macro_rules! either {
        ($($field:ident),*) => {
            Options {
                $($field: line.$field.clone().or(script.$field),)*
                exclusive: line.exclusive || script.exclusive,
                gpu_resource: differing(&line.gpu_resource, script.gpu_resource, "nvidia.com/gpu"),
                scheduler_name: differing(&line.scheduler_name, script.scheduler_name, "fluxqueue"),
                env: script.env.into_iter().chain(line.env.iter().cloned()).collect(),
                mount: script.mount.into_iter().chain(line.mount.iter().cloned()).collect(),
            }
        };
    }
    either!(
        image,
        nodes,
        ntasks,
        ntasks_per_node,
        cpus_per_task,
        mem,
        mem_per_cpu,
        gpus,
        gpus_per_node,
        gpus_per_task,
        gres,
        time,
        array,
        job_name,
        partition,
        constraint,
        chdir,
        priority_class
    )
}

/// Returns the value of the command line, or that of the script if the former is the default.
fn differing(line: &str, script: String, default: &str) -> String {
    if line == default { script } else { line.to_owned() }
}

/// Says what to do about an argument of `submit` that sbatch takes and this command does not;
/// `None`: the error is another one.
pub(crate) fn option_of_slurm(error: &clap::Error) -> Option<String> {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    if error.kind() != ErrorKind::UnknownArgument || !usage.contains(" submit ") {
        return None;
    }
    let argument = of(ContextKind::InvalidArg)?;
    if argument.starts_with('-') {
        return script::not_taken(argument);
    }
    Some(format!(
        "{}: arguments of a script follow behind --, as in `submit SCRIPT -- ARGUMENT`",
        text::quoted(argument)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    pub(super) fn submitted(
        line: &[&str],
        script: &str,
    ) -> anyhow::Result<(serde_json::Value, Vec<String>)> {
        let words = [&["kubectl-fluxqueue", "submit"], line].concat();
        let parsed = crate::args::Args::try_parse_from(words)
            .map_err(|error| anyhow::anyhow!(error.to_string()))?;
        let crate::args::Command::Submit(args) = parsed.command else { panic!("submit") };
        let look = crate::Look::plain();
        let mut console = Console::new(script.as_bytes(), std::io::sink(), std::io::sink(), look);
        job_of(&args, &mut console)
    }

    #[test]
    fn n_is_the_number_of_tasks_and_the_namespace_has_its_long_form() {
        let parse = |words: &[&str]| crate::args::Args::try_parse_from(words).unwrap();
        let args =
            parse(&["k", "submit", "-n", "4", "--namespace", "lab", "--image", "i", "--", "x"]);
        assert_eq!(args.connection.namespace.as_deref(), Some("lab"));
        let args = parse(&["k", "-n", "lab", "submit", "-n", "4", "--image", "i", "--", "x"]);
        assert_eq!(args.connection.namespace.as_deref(), Some("lab"));
        let crate::args::Command::Submit(submit) = args.command else { panic!("submit") };
        assert_eq!(submit.options.ntasks, Some(4));
        let args = parse(&["k", "queue", "-n", "lab"]);
        assert_eq!(args.connection.namespace.as_deref(), Some("lab"));
    }

    #[test]
    fn the_command_line_counts_more_than_the_script() {
        let script = "#!/bin/bash\n#SBATCH -N 4 -t 10\n#FLUXQUEUE --image=a/b:1\n\
                      #SBATCH --job-name=solve\nrun\n";
        let (job, notes) = submitted(&["-", "-N", "2", "--", "x"], script).unwrap();
        assert_eq!(job["spec"]["parallelism"], 2);
        assert_eq!(job["metadata"]["generateName"], "solve-");
        assert_eq!(job["metadata"]["annotations"]["fluxqueue/walltime"], "600s");
        assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["image"], "a/b:1");
        assert_eq!(notes, Vec::<String>::new());
    }

    #[test]
    fn an_error_names_the_line_of_the_script() {
        let error = |script: &str| {
            let error = submitted(&["-", "--image", "i"], script).unwrap_err();
            crate::console::said(&error)
        };
        let script = "#!/bin/sh\n#SBATCH -N 4\n#SBATCH --ntasks=many\n";
        assert!(error(script).starts_with("stdin:3: invalid value 'many'"), "{}", error(script));
        let script = "#!/bin/sh\n\n#SBATCH --begin=tomorrow\n";
        assert!(error(script).starts_with("stdin:3: --begin"), "{}", error(script));
    }

    #[test]
    fn a_number_that_cannot_be_read_names_its_option_and_what_is_expected() {
        for (option, number, said) in [
            ("-N", "1-4", "'--nodes <NODES>': a range of nodes is not supported"),
            ("-N", "-1", "'--nodes <NODES>': expected a whole number from 1"),
            ("-N", "0", "'--nodes <NODES>': expected a whole number from 1"),
            ("-n", "4-", "'--ntasks <TASKS>': expected a whole number from 1"),
            ("-c", "99999999999", "'--cpus-per-task <CPUS>': expected a whole number from 1"),
            ("--gpus-per-node", "-1", "'--gpus-per-node <GPUS>': expected a whole number from 0"),
            ("-G", "a100:2", "'--gpus <GPUS>': a kind of GPU is a --constraint here"),
        ] {
            let line = ["--image", "i", option, number, "--", "x"];
            let error = submitted(&line, "").unwrap_err().to_string();
            let error = error.lines().next().unwrap();
            assert!(error.contains(said), "{option} {number}: {error}");
        }
        let many = submitted(&["--image", "i", "-n", "100001", "--", "x"], "").unwrap_err();
        assert!(many.to_string().starts_with("--ntasks: a job has 100000 pods"), "{many}");
    }

    #[test]
    fn a_value_that_means_nothing_names_its_line_if_the_script_has_it() {
        let error = |line: &[&str], script: &str| {
            let line = [&["-", "--image", "i"], line].concat();
            submitted(&line, script).map(drop).map_err(|error| crate::console::said(&error))
        };
        let script = "#!/bin/sh\n#SBATCH -t 10\n#SBATCH -t soon\n#SBATCH --env=A=1 --env=B\n";
        let said = error(&[], script).unwrap_err();
        assert!(said.starts_with("stdin:3: --time: \"soon\""), "{said}");
        let said = error(&["-t", "later"], script).unwrap_err();
        assert!(said.starts_with("--time: \"later\""), "{said}");
        let said = error(&["-t", "5"], script).unwrap_err();
        assert!(said.starts_with("stdin:4: --env: \"B\""), "{said}");
        let script = "#!/bin/sh\n#SBATCH -t soon\n#SBATCH -t soon\n";
        let said = error(&[], script).unwrap_err();
        assert!(said.starts_with("stdin:3: --time"), "{said}");
        let said = error(&[], "#!/bin/sh\n#SBATCH --queue='a b'\n").unwrap_err();
        assert!(said.starts_with("stdin:2: --partition: \"a b\""), "{said}");
        let script = "#!/bin/sh\n#SBATCH --mem=1G\n#SBATCH --mem-per-cpu=1G\n";
        let said = error(&[], script).unwrap_err();
        assert_eq!(said, "stdin:2: --mem and --mem-per-cpu exclude each other");
        let script = "#!/bin/sh\n\n#SBATCH -N 2-4\n";
        let said = error(&[], script).unwrap_err();
        assert!(said.starts_with("stdin:3: ") && said.contains("--nodes"), "{said}");
        assert_eq!(error(&["-N", "2"], "#!/bin/sh\n#SBATCH -n 2\n"), Ok(()));
    }

    #[test]
    fn options_that_sbatch_alone_has_are_told_from_those_that_nothing_has() {
        let error = |option: &str| {
            let script = format!("#!/bin/sh\n#SBATCH {option}\n");
            crate::console::said(&submitted(&["-", "--image", "i"], &script).unwrap_err())
        };
        for option in ["--mincpus=4", "-s", "--gpu-bind=closest", "--propagate", "-B 2:4:1"] {
            let said = error(option);
            assert!(said.starts_with("stdin:2: --"), "{said}");
            assert!(said.ends_with("is an option of sbatch that is not supported here"), "{said}");
        }
        assert_eq!(error("--colour=red"), "stdin:2: --colour is not an option that is known here");
    }

    #[test]
    fn a_script_that_no_interpreter_reads_right_is_refused() {
        for (script, said) in [
            ("#!/bin/sh\r\ntrue\r\n", "stdin:1: it ends with CR LF"),
            ("#!/bin/sh\ntrue\r\n", "stdin:2: it ends with CR LF"),
            ("\u{feff}#!/bin/sh\ntrue\n", "stdin:1: the script begins with a byte order"),
            ("#!/bin/sh\na\0b\n", "stdin:2: it has a NUL byte"),
        ] {
            let error = submitted(&["-", "--image", "i"], script).unwrap_err();
            let error = crate::console::said(&error);
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn options_for_files_and_mail_are_left_out_with_a_line_each() {
        let script = "#!/bin/sh\n#SBATCH -o out.%j --mail-type=END\n";
        let (_, notes) = submitted(&["-", "--image", "i"], script).unwrap();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("stdin:2: --output is left out: "), "{notes:?}");
    }

    #[test]
    fn what_sbatch_takes_and_the_command_does_not_is_explained() {
        let said = |line: &[&str]| {
            let words = [&["kubectl-fluxqueue", "submit"], line].concat();
            option_of_slurm(&crate::args::Args::try_parse_from(words).unwrap_err())
        };
        for line in [&["--dependency", "afterok:1", "a.sh"][..], &["-d", "afterok:1"]] {
            let text = said(line).unwrap();
            assert!(text.starts_with("--dependency is not there yet: a workflow"), "{text}");
        }
        let mail = said(&["--mail-user=me", "a.sh"]).unwrap();
        assert!(mail.starts_with("--mail-user: there is no mail"), "{mail}");
        assert!(said(&["a.sh", "input"]).unwrap().contains("behind --"));
        assert_eq!(said(&["--colour"]), None);
        assert_eq!(said(&["--nodes=lots"]), None);
    }

    #[test]
    fn without_a_script_a_command_or_an_image_nothing_is_submitted() {
        let error = |line: &[&str]| submitted(line, "").unwrap_err().to_string();
        assert!(error(&["--image", "i"]).contains("nothing to run"));
        assert!(error(&["--", "x"]).contains("--image"));
        assert!(error(&["--wrap", "x", "--", "x"]).contains("cannot be used"));
    }
}
