//! `resource-query`: loads a resource graph and takes commands on standard input, as Fluxion's
//! program of this name does.
//!
//! Commands, options and the form of the output are upstream's, so that its users and its
//! tests find what they know: `resource-query -L graph.json -f jgf -P lonode`, then
//! `match allocate job.yaml`. What upstream does not end well ends here: the end of input ends the
//! session, and a fault is a text on standard error.
//!
//! Nothing of scheduling is decided here; that is fluxion-engine. [`options`] reads the command
//! line, [`session`] holds the graph and where answers go, [`commands`] has one function per
//! command.

mod commands;
mod options;
mod picture;
mod session;

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use options::{Options, Wanted};
use session::Session;

fn main() -> ExitCode {
    let options = match options::read(std::env::args().skip(1)) {
        Ok(Wanted::Session(options)) => options,
        Ok(Wanted::Help) => {
            eprint!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(text) => {
            eprint!("[ERROR] {text}\n\n{}", options::USAGE);
            return ExitCode::FAILURE;
        }
    };
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the answers has enough of them.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ERROR: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> io::Result<()> {
    let prompt = !options.disable_prompt && io::stdin().is_terminal();
    let picture = options.graph_output.clone();
    let mut session = Session::open(options)?;
    let mut line = Vec::new();
    let mut input = io::stdin().lock();
    loop {
        if prompt {
            session.shown(format_args!("resource-query> "))?;
            session.flush()?;
        }
        line.clear();
        // A line that is not UTF-8 names no file or path that there could be: it is an error of its
        // command.
        if input.read_until(b'\n', &mut line)? == 0
            || !commands::run(&mut session, &String::from_utf8_lossy(&line))?
        {
            break;
        }
    }
    if let Some((path, format)) = picture {
        let mut file = io::BufWriter::new(std::fs::File::create(path)?);
        picture::draw(session.engine.graph(), format, &mut file)?;
        file.flush()?;
    }
    session.flush()
}
