//! The command line, as getopt_long reads it: long options may be shortened, short ones joined.

use std::path::{Path, PathBuf};

use fluxion_engine::readers::Format;
use fluxion_engine::{MatchFormat, Policy, Traverser};

/// The tasks of the program.
pub(crate) enum Wanted {
    /// A session.
    Session(Options),
    /// The text on how to use it.
    Help,
}

/// Settings of a session.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) load_file: PathBuf,
    pub(crate) load_format: Format,
    /// Types of vertices, with commas between them; empty: all.
    pub(crate) allowlist: String,
    pub(crate) policy: String,
    pub(crate) match_format: MatchFormat,
    pub(crate) traverser: Traverser,
    pub(crate) prune_filters: String,
    pub(crate) elapse_time: bool,
    pub(crate) disable_prompt: bool,
    /// Where the graph is drawn at the end.
    pub(crate) graph_output: Option<(PathBuf, GraphFormat)>,
    /// Where grants go, instead of standard output.
    pub(crate) test_output: Option<PathBuf>,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphFormat {
    Dot,
    GraphMl,
}

/// Long name, short name, and whether it takes a value.
const KNOWN: [(&str, char, bool); 15] = [
    ("help", 'h', false),
    ("load-file", 'L', true),
    ("load-format", 'f', true),
    ("load-allowlist", 'W', true),
    ("match-subsystems", 'S', true),
    ("match-policy", 'P', true),
    ("match-format", 'F', true),
    ("traverser-policy", 'T', true),
    ("prune-filters", 'p', true),
    ("graph-format", 'g', true),
    ("reserve-vtx-vec", 'r', true),
    ("elapse-time", 'e', false),
    ("disable-prompt", 'd', false),
    ("graph-output", 'o', true),
    ("test-output", 't', true),
];

/// The largest value of --reserve-vtx-vec.
const RESERVE_MAX: i64 = 2_000_000;

pub(crate) const USAGE: &str = "\
usage: resource-query -L FILE [options]

Loads a resource graph, takes commands on standard input (`help` lists them), and answers
where the resources of a jobspec (RFC 14, YAML or JSON) can be had.

    -h, --help
    -L, --load-file=FILE           the graph
    -f, --load-format=FORMAT       grug (default), jgf, jgf_shorthand, rv1exec, rv1exec_force,
                                   hwloc
    -W, --load-allowlist=TYPES     of hwloc: only vertices of these types, with commas between
    -S, --match-subsystems=NAME    CA (default); others are not offered
    -P, --match-policy=POLICY      first (default), firstnodex, high, low, hinode, lonode, hinodex,
                                   lonodex, locality, variation, or \"policy=high|low KEY=true ...\"
    -F, --match-format=FORMAT      simple (default), pretty_simple, jgf, jgf_shorthand, rlite, rv1,
                                   rv1_nosched, rv1_shorthand
    -T, --traverser-policy=NAME    simple (default), flexible
    -p, --prune-filters=HL:LL,...  which types (LL) are counted at which (HL, or ALL);
                                   default ALL:core,ALL:node
    -g, --graph-format=FORMAT      of -o: dot (default), graphml
    -o, --graph-output=BASENAME    draw the graph at the end
    -r, --reserve-vtx-vec=COUNT    taken for compatibility, without effect
    -e, --elapse-time              say how long each match took
    -d, --disable-prompt           no prompt on a terminal
    -t, --test-output=FILE         what is granted goes there instead of standard output
";

/// Reads the arguments, without the program's name.
pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Wanted, String> {
    let mut all = Options {
        load_file: PathBuf::from("conf/default"),
        load_format: Format::Grug,
        allowlist: String::new(),
        policy: "first".to_owned(),
        match_format: MatchFormat::Simple,
        traverser: Traverser::Simple,
        prune_filters: "ALL:core,ALL:node".to_owned(),
        elapse_time: false,
        disable_prompt: false,
        graph_output: None,
        test_output: None,
    };
    let (mut basename, mut picture, mut filters) = (None, GraphFormat::Dot, Vec::new());
    for (option, value) in split(arguments)? {
        match option {
            'h' => return Ok(Wanted::Help),
            'L' => all.load_file = value.into(),
            'f' => {
                all.load_format =
                    Format::parse(&value).ok_or_else(|| unknown("load-format", &value))?;
            }
            'S' if value.eq_ignore_ascii_case("CA") => {}
            'S' => return Err(format!("--match-subsystems: {value}: only CA is offered")),
            'P' => all.policy = value,
            'F' => {
                all.match_format =
                    MatchFormat::parse(&value).ok_or_else(|| unknown("match-format", &value))?;
            }
            'T' => {
                all.traverser = match &*value {
                    "simple" => Traverser::Simple,
                    "flexible" => Traverser::Flexible,
                    _ => return Err(unknown("traverser-policy", &value)),
                }
            }
            // Several times: all of them count, instead of the default.
            'p' if value.trim().is_empty() => {}
            'p' => filters.push(value),
            'g' => {
                picture = match &*value {
                    "dot" => GraphFormat::Dot,
                    "graphml" => GraphFormat::GraphMl,
                    _ => return Err(unknown("graph-format", &value)),
                }
            }
            'r' => reserve(&value)?,
            'e' => all.elapse_time = true,
            'd' => all.disable_prompt = true,
            'o' => basename = Some(value),
            't' => all.test_output = Some(value.into()),
            // As upstream, which puts no comma before the second list.
            'W' if value.trim_matches(' ').is_empty() => {}
            _ => {
                all.allowlist += "cluster,";
                all.allowlist += &value;
            }
        }
    }
    if !filters.is_empty() {
        all.prune_filters = filters.join(",");
    }
    let extension = if picture == GraphFormat::Dot { "dot" } else { "graphml" };
    all.graph_output = basename.map(|name| (PathBuf::from(format!("{name}.{extension}")), picture));
    loadable(&all.load_file)?;
    Ok(Wanted::Session(all))
}

/// The options in their order, by short name; any other word is an error.
fn split(arguments: impl IntoIterator<Item = String>) -> Result<Vec<(char, String)>, String> {
    let mut options = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (name, given) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                (name.to_owned(), Some(value.to_owned()))
            }
            _ => (argument, None),
        };
        if let Some(long) = name.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (_, short, takes_value) = by_long_name(long)?;
            let value = match (takes_value, given) {
                (true, Some(value)) => value,
                (true, None) => {
                    arguments.next().ok_or_else(|| format!("--{long}: its value is missing"))?
                }
                (false, None) => String::new(),
                (false, Some(_)) => return Err(format!("--{long}: takes no value")),
            };
            options.push((short, value));
            continue;
        }
        let Some(letters) =
            name.strip_prefix('-').filter(|letters| !letters.is_empty() && name != "--")
        else {
            return Err(format!("{name}: not an option"));
        };
        let mut rest = letters.chars();
        while let Some(short) = rest.next() {
            let known = KNOWN.iter().find(|(_, known, _)| *known == short);
            let (_, _, takes_value) = known.ok_or_else(|| format!("-{short}: unknown option"))?;
            if !takes_value {
                options.push((short, String::new()));
                continue;
            }
            let value = match rest.as_str() {
                "" => arguments.next().ok_or_else(|| format!("-{short}: its value is missing"))?,
                joined => joined.to_owned(),
            };
            options.push((short, value));
            break;
        }
    }
    Ok(options)
}

fn by_long_name(name: &str) -> Result<(&'static str, char, bool), String> {
    if let Some(exact) = KNOWN.iter().find(|(known, ..)| *known == name) {
        return Ok(*exact);
    }
    let mut matching = KNOWN.iter().filter(|(known, ..)| known.starts_with(name));
    match (matching.next(), matching.next()) {
        (Some(one), None) => Ok(*one),
        (None, _) => Err(format!("--{name}: unknown option")),
        (Some(_), Some(_)) => Err(format!("--{name}: could be several options")),
    }
}

/// As C's atoi reads it; a text without number is 0.
fn reserve(value: &str) -> Result<(), String> {
    let digits = value.trim_start();
    let length = digits
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || (*at == 0 && matches!(c, '+' | '-'))));
    let number: i64 = digits[..length.map_or(digits.len(), |(at, _)| at)].parse().unwrap_or(0);
    if (0..=RESERVE_MAX).contains(&number) {
        return Ok(());
    }
    Err(format!("--reserve-vtx-vec: {value}: not from 0 to {RESERVE_MAX}"))
}

fn loadable(path: &Path) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => {
            Err(format!("--load-file: {}: is a directory", path.display()))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(format!("--load-file: {}: {error}", path.display())),
    }
}

fn unknown(option: &str, value: &str) -> String {
    format!("--{option}: {value}: unknown")
}

/// The policy of this name, or why there is none.
pub(crate) fn policy(name: &str) -> Result<Policy, String> {
    Policy::parse(name).ok_or_else(|| format!("--match-policy: {name}: unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Result<Options, String> {
        let load = ["-L", env!("CARGO_MANIFEST_PATH")];
        match read(load.iter().chain(arguments).map(ToString::to_string))? {
            Wanted::Session(options) => Ok(options),
            Wanted::Help => Err("help".to_owned()),
        }
    }

    #[test]
    fn reads_as_getopt_does() {
        let options = of(&[
            "-Plonode",
            "-edFrv1",
            "--traverser=flexible",
            "--test-output",
            "out",
            "-p",
            "ALL:gpu",
            "-pnode:x",
        ])
        .unwrap();
        assert_eq!((&*options.policy, options.match_format), ("lonode", MatchFormat::Rv1));
        assert_eq!(
            (options.elapse_time, options.disable_prompt, options.traverser),
            (true, true, Traverser::Flexible)
        );
        assert_eq!(options.test_output.as_deref(), Some(Path::new("out")));
        assert_eq!(options.prune_filters, "ALL:gpu,node:x");
        assert_eq!(of(&["-h"]).unwrap_err(), "help");
    }

    #[test]
    fn refuses_and_says_what() {
        for (arguments, says) in [
            (&["-Z"][..], "-Z"),
            (&["stray"], "stray"),
            (&["--match"], "several"),
            (&["--load-format=xyz"], "xyz"),
            (&["-t"], "missing"),
            (&["--elapse-time=1"], "takes no value"),
            (&["-r", "-5"], "-5"),
            (&["-r", "2000001"], "2000001"),
            (&["-S", "PA"], "PA"),
            (&["-L", "/nonexistent"], "nonexistent"),
        ] {
            let error = of(arguments).unwrap_err();
            assert!(error.contains(says), "{arguments:?}: {error}");
        }
        assert!(of(&["-r", "abc"]).is_ok());
    }
}
