//! `update`: a job is made of the resources that a file lists.

use std::io;
use std::time::Instant;

use fluxion_engine::{JobMode, UpdateReader, Updated};

use super::matching::{elapsed, print, refused};
use super::words::{MALFORMED, job_id, number, read};
use crate::session::Session;

pub(super) fn update(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [subcommand, reader, file, id, start, duration] = words else {
        return session.wrong(format_args!("{MALFORMED}"));
    };
    // As upstream (Q6): both allocate, and the output goes by the start.
    if !matches!(*subcommand, "allocate" | "reserve") {
        return session.wrong(format_args!("unknown subcmd {subcommand}"));
    }
    let Some(reader) = UpdateReader::parse(reader) else {
        return session.wrong(format_args!("unsupported reader {reader}"));
    };
    // The session has shown the error already.
    let Some(text) = read(session, file)? else { return Ok(()) };
    let (id, start, seconds) = (job_id(id), number(start), number(duration));
    if session.is_live(id) {
        return session.wrong(format_args!("job {id} exists already"));
    }
    if start < 0 || seconds == 0 {
        return session.wrong(format_args!("update: from {start} for {seconds} seconds"));
    }
    let started = Instant::now();
    let answer = session.engine.update(id, &text, reader, start, seconds, JobMode::Allocated);
    let took = started.elapsed();
    session.took_id(id);
    match answer {
        Ok(Updated { grant, .. }) => {
            session.asked.insert(id, ((*file).to_owned(), took.as_secs_f64()));
            session.engine.set_overhead(id, took.as_secs_f64());
            print(session, id, &grant, None)?;
            elapsed(session, took)
        }
        Err(error) => {
            session.wrong(format_args!("{file}: {error}"))?;
            // Missing vertices are not unsatisfiable.
            refused(session, id, false, took)
        }
    }
}
