//! `find`.

use std::io;

use super::matching::RULE;
use super::words::MALFORMED;
use crate::session::Session;

pub(super) fn find(session: &mut Session, words: &[&str]) -> io::Result<()> {
    if words.is_empty() {
        return session.wrong(format_args!("{MALFORMED}"));
    }
    let criteria = words.join(" ");
    match session.engine.find(&criteria, session.format, false) {
        Ok(found) => {
            session.granted(format_args!("{}", found.unwrap_or_default()))?;
            session.granted(format_args!("{RULE}INFO: EXPRESSION=\"{criteria}\"\n{RULE}"))
        }
        Err(error) => session.wrong(format_args!("find: {criteria}: {error}")),
    }
}
