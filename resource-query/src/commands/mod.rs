//! The commands: a table of names, and one module for those that belong together.

mod elastic;
mod find;
mod matching;
mod release;
mod report;
mod update;
mod vertices;
mod words;

use std::io;

use crate::session::Session;

/// A command: its words after the name, to its output.
type Run = fn(&mut Session, &[&str]) -> io::Result<()>;

struct Command {
    name: &'static str,
    short: &'static str,
    run: Run,
    about: &'static str,
}

const COMMANDS: [Command; 17] = [
    Command {
        name: "match",
        short: "m",
        run: matching::one,
        about: "take resources: match allocate | allocate_with_satisfiability | allocate_orelse_reserve | satisfiability | \
                without_allocating | without_allocating_future JOBSPEC",
    },
    Command {
        name: "multi-match",
        short: "M",
        run: matching::several,
        about: "the same for several: multi-match SUBCOMMAND JOBSPEC JOBSPEC ...",
    },
    Command {
        name: "update",
        short: "u",
        run: update::update,
        about: "take the resources of a file: update allocate | reserve jgf | jgf_shorthand | rv1exec FILE JOBID START DURATION",
    },
    Command {
        name: "attach",
        short: "j",
        run: elastic::attach,
        about: "add the vertices of a JGF file: attach FILE",
    },
    Command {
        name: "remove",
        short: "",
        run: elastic::remove,
        about: "remove a path, or ranks: remove PATH true, remove IDSET false",
    },
    Command {
        name: "find",
        short: "f",
        run: find::find,
        about: "list what meets conditions: find status=up|down sched-now=allocated|free sched-future=reserved|free \
                agfilter=true|false names=HOSTLIST property=KEY jobid-alloc|jobid-reserved|jobid-span|jobid-tag=JOBID; \
                with and, or, parentheses",
    },
    Command {
        name: "cancel",
        short: "c",
        run: release::cancel,
        about: "end a job: cancel JOBID [stats]",
    },
    Command {
        name: "partial-cancel",
        short: "pc",
        run: release::partial_cancel,
        about: "give back part of a job: partial-cancel JOBID jgf | rv1exec FILE [stats]",
    },
    Command {
        name: "set-property",
        short: "p",
        run: vertices::set_property,
        about: "set-property PATH PROPERTY=VALUE",
    },
    Command {
        name: "get-property",
        short: "g",
        run: vertices::get_property,
        about: "get-property PATH",
    },
    Command {
        name: "set-status",
        short: "t",
        run: vertices::set_status,
        about: "set-status PATH up|down",
    },
    Command { name: "get-status", short: "e", run: vertices::get_status, about: "get-status PATH" },
    Command { name: "list", short: "l", run: report::list, about: "all jobs" },
    Command { name: "info", short: "i", run: report::info, about: "one job: info JOBID" },
    Command {
        name: "stat",
        short: "s",
        run: report::stat,
        about: "how many matches, and how long they took",
    },
    Command { name: "cat", short: "a", run: report::cat, about: "print a file: cat JOBSPEC" },
    Command {
        name: "help",
        short: "h",
        run: help,
        about: "this list, or one command of it: help [COMMAND]",
    },
];

/// Runs a line. Returns whether the session goes on.
pub(crate) fn run(session: &mut Session, line: &str) -> io::Result<bool> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.split_first() {
        None => {}
        Some((name, _)) if name.starts_with('#') => {}
        Some((&("quit" | "q"), _)) => return Ok(false),
        Some((name, words)) => match command(name) {
            Some(command) => (command.run)(session, words)?,
            None => session.wrong(format_args!("unknown command: {name}"))?,
        },
    }
    Ok(true)
}

fn command(name: &str) -> Option<&'static Command> {
    COMMANDS
        .iter()
        .find(|command| command.name == name || (command.short == name && !name.is_empty()))
}

fn help(session: &mut Session, words: &[&str]) -> io::Result<()> {
    if let [name] = words {
        return match command(name) {
            Some(command) => describe(session, command),
            None => session.shown(format_args!("ERROR: unknown command: {name}\n")),
        };
    }
    for command in &COMMANDS {
        describe(session, command)?;
    }
    session.shown(format_args!("INFO: quit (q) -- end the session\n"))
}

fn describe(session: &mut Session, command: &Command) -> io::Result<()> {
    let Command { name, short, about, .. } = command;
    if short.is_empty() {
        return session.shown(format_args!("INFO: {name} -- {about}\n"));
    }
    session.shown(format_args!("INFO: {name} ({short}) -- {about}\n"))
}
