//! `attach` and `remove`: the graph grows and shrinks.

use std::io;

use super::words::{MALFORMED, read};
use crate::session::Session;

pub(super) fn attach(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [file] = words else { return session.wrong(format_args!("{MALFORMED}")) };
    // The session has shown the error already.
    let Some(text) = read(session, file)? else { return Ok(()) };
    match session.engine.add_subgraph(&text) {
        Ok(()) => Ok(()),
        Err(error) => session.wrong(format_args!("can't attach {file}: {error}")),
    }
}

pub(super) fn remove(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [target, is_path] = words else { return session.wrong(format_args!("{MALFORMED}")) };
    let removed = match *is_path {
        "true" => session.engine.remove_subgraph(target),
        "false" => session.engine.remove_ranks(target),
        _ => {
            return session
                .wrong(format_args!("{is_path}: neither true (a path) nor false (ranks)"));
        }
    };
    match removed {
        Ok(()) => Ok(()),
        Err(error) => session.wrong(format_args!("can't remove {target}: {error}")),
    }
}
