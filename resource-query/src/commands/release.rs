//! `cancel` and `partial-cancel`.

use std::io;

use fluxion_engine::{JobMode, UpdateReader};

use super::matching::RULE;
use super::report::mode;
use super::words::{MALFORMED, job_id, read};
use crate::session::Session;

pub(super) fn cancel(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let (id, stats) = match words {
        [id] => (id, false),
        [id, what] => (id, *what == "stats"),
        _ => return session.wrong(format_args!("{MALFORMED}")),
    };
    let id = job_id(id);
    match session.engine.cancel(id) {
        Ok(()) if stats => counts(session, ""),
        Ok(()) => Ok(()),
        Err(error) => session.wrong(format_args!("cancel: {error}")),
    }
}

pub(super) fn partial_cancel(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let (id, reader, file, stats) = match words {
        [id, reader, file] => (id, reader, file, false),
        [id, reader, file, what] => (id, reader, file, *what == "stats"),
        _ => return session.wrong(format_args!("{MALFORMED}")),
    };
    let Some(reader) =
        UpdateReader::parse(reader).filter(|reader| *reader != UpdateReader::JgfShorthand)
    else {
        return session.wrong(format_args!("unsupported reader {reader}"));
    };
    // The session has shown the error already.
    let Some(text) = read(session, file)? else { return Ok(()) };
    let id = job_id(id);
    // As upstream (Q6), to which what starts later is reserved, also where an update has said so.
    if !session.engine.info(id).is_ok_and(|info| mode(&info) == JobMode::Allocated) {
        return session.wrong(format_args!("partial-cancel: job {id} is not allocated"));
    }
    if let Err(error) = session.engine.partial_cancel_with(id, &text, reader) {
        session.wrong(format_args!("partial-cancel: {error}"))?;
    }
    // Also where the job has none of these resources.
    if stats { counts(session, "PARTIAL ") } else { Ok(()) }
}

/// The engine does not walk as upstream does, and does not count its steps.
fn counts(session: &mut Session, what: &str) -> io::Result<()> {
    session.granted(format_args!("{RULE}INFO: {what}CANCEL PREORDER COUNT=\"0\"\n"))?;
    session.granted(format_args!("INFO: {what}CANCEL POSTORDER COUNT=\"0\"\n{RULE}"))
}
