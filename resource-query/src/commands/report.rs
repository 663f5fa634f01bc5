//! Reports: jobs, statistics, files.

use std::io;

use fluxion_engine::{JobInfo, JobMode};

use super::words::{MALFORMED, job_id, read};
use crate::session::Session;

pub(super) fn list(session: &mut Session, _words: &[&str]) -> io::Result<()> {
    let jobs: Vec<u64> = session.asked.keys().copied().collect();
    jobs.into_iter().try_for_each(|job| describe(session, job))
}

pub(super) fn info(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [id] = words else { return session.wrong(format_args!("{MALFORMED}")) };
    describe(session, job_id(id))
}

/// As upstream (Q6): the state of a job goes by its start.
pub(super) fn mode(info: &JobInfo) -> JobMode {
    match (info.mode, info.at) {
        (JobMode::Canceled, _) => JobMode::Canceled,
        (_, 0) => JobMode::Allocated,
        _ => JobMode::Reserved,
    }
}

fn describe(session: &mut Session, id: u64) -> io::Result<()> {
    let Some((file, seconds)) = session.asked.get(&id).cloned() else {
        return session.wrong(format_args!("info: nonexistent job {id}"));
    };
    match session.engine.info(id) {
        Ok(info) => {
            let (mode, at) = (mode(&info).as_str(), info.at);
            session.shown(format_args!("INFO: {id}, {mode}, {at}, {file}, {seconds}\n"))
        }
        Err(error) => session.wrong(format_args!("info: {error}")),
    }
}

pub(super) fn stat(session: &mut Session, words: &[&str]) -> io::Result<()> {
    if !words.is_empty() {
        return session.wrong(format_args!("{MALFORMED}"));
    }
    let matches = &session.matches;
    let count = matches.count;
    let mean = matches.sum.as_secs_f64() / f64::from(count.max(1));
    let (least, most) = (matches.least.as_secs_f64(), matches.most.as_secs_f64());
    session.shown(format_args!("INFO: Num. of Jobs Matched: {count}\n"))?;
    session
        .shown(format_args!("INFO: Min. Match Time: {least}\nINFO: Max. Match Time: {most}\n"))?;
    session.shown(format_args!("INFO: Avg. Match Time: {mean}\n"))
}

pub(super) fn cat(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [file] = words else { return session.wrong(format_args!("{MALFORMED}")) };
    // The session has shown the error already.
    let Some(text) = read(session, file)? else { return Ok(()) };
    session.shown(format_args!("{text}\nINFO: Jobspec in {file}\n"))
}
