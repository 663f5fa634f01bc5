//! `match` and `multi-match`, and how a grant is printed.

use std::io;
use std::time::{Duration, Instant};

use fluxion_engine::jobspec::Jobspec;
use fluxion_engine::{Error, Grant, MatchOp, Reason};

use super::words::{MALFORMED, read};
use crate::session::Session;

/// The line around the lines about a grant.
pub(super) const RULE: &str = "INFO: =============================\n";

pub(super) fn one(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let [subcommand, file] = words else { return session.wrong(format_args!("{MALFORMED}")) };
    match operation(subcommand) {
        Some(op) => matched(session, op, file).map(|_| ()),
        None => session.wrong(format_args!("unknown subcmd {subcommand}")),
    }
}

pub(super) fn several(session: &mut Session, words: &[&str]) -> io::Result<()> {
    let (subcommand, files) = match words {
        [subcommand, files @ ..] if files.len() > 1 => (subcommand, files),
        _ => return session.wrong(format_args!("{MALFORMED}")),
    };
    let Some(op) = operation(subcommand).filter(|op| *op != MatchOp::Satisfiability) else {
        return session.wrong(format_args!("unknown subcmd {subcommand}"));
    };
    for file in files {
        // The jobs are one another's neighbours: where one finds no place, the rest is not tried.
        if !matched(session, op, file)? {
            break;
        }
    }
    Ok(())
}

fn operation(subcommand: &str) -> Option<MatchOp> {
    Some(match subcommand {
        "allocate" => MatchOp::Allocate,
        "allocate_with_satisfiability" => MatchOp::AllocateWithSatisfiability,
        "allocate_orelse_reserve" => MatchOp::AllocateOrElseReserve,
        "satisfiability" => MatchOp::Satisfiability,
        "without_allocating" => MatchOp::WithoutAllocating,
        "without_allocating_future" => MatchOp::WithoutAllocatingFuture,
        _ => return None,
    })
}

/// Whether it was granted.
fn matched(session: &mut Session, op: MatchOp, file: &str) -> io::Result<bool> {
    let Some(text) = read(session, file)? else { return Ok(false) };
    let started = Instant::now();
    let id = session.next_job;
    let answer = Jobspec::parse(&text).and_then(|spec| session.engine.match_spec(op, &spec, id));
    let took = started.elapsed();
    if let Err(error) = &answer
        && !error.is_answer()
    {
        session.wrong(format_args!("{file}: {error}"))?;
    }
    if op == MatchOp::Satisfiability {
        return satisfiable(session, &answer, took).map(|()| answer.is_ok());
    }
    let keeps = matches!(
        op,
        MatchOp::Allocate | MatchOp::AllocateWithSatisfiability | MatchOp::AllocateOrElseReserve
    );
    match answer {
        Ok(grant) => {
            session.matches.add(took);
            let keeps = matches!(
                op,
                MatchOp::Allocate
                    | MatchOp::AllocateWithSatisfiability
                    | MatchOp::AllocateOrElseReserve
            );
            if keeps {
                session.took_id(id);
                session.asked.insert(id, (file.to_owned(), took.as_secs_f64()));
                session.engine.set_overhead(id, took.as_secs_f64());
            }
            print(session, id, &grant, if keeps { None } else { Some("MATCHED") })?;
            elapsed(session, took)?;
            Ok(true)
        }
        Err(error) => {
            refused(
                session,
                id,
                matches!(error.reason, Reason::Unsatisfiable | Reason::NotFound),
                took,
            )?;
            // A request that would have fitted another time uses up an id, a wrong one does not.
            if keeps && error.is_answer() {
                session.took_id(id);
            }
            visits(session)?;
            Ok(false)
        }
    }
}

/// As upstream: what cannot be read, or goes wrong otherwise, is not unsatisfiable.
fn satisfiable(
    session: &mut Session,
    answer: &Result<Grant, Error>,
    took: Duration,
) -> io::Result<()> {
    let fits = !matches!(answer, Err(error) if error.is_answer());
    let says = if fits { "Satisfiable" } else { "Unsatisfiable" };
    session.granted(format_args!("{RULE}INFO: {says} request\n{RULE}"))?;
    elapsed(session, took)
}

/// Prints the grant of a job.
pub(super) fn print(
    session: &mut Session,
    id: u64,
    grant: &Grant,
    says: Option<&str>,
) -> io::Result<()> {
    session.granted(format_args!("{}", grant.r))?;
    let says = says.unwrap_or(if grant.at == 0 { "ALLOCATED" } else { "RESERVED" });
    session.granted(format_args!("{RULE}INFO: JOBID={id}\nINFO: RESOURCES={says}\n"))?;
    if grant.at == 0 {
        session.granted(format_args!("INFO: SCHEDULED AT=Now\n{RULE}"))
    } else {
        session.granted(format_args!("INFO: SCHEDULED AT={}\n{RULE}", grant.at))
    }
}

/// Prints that a job was granted nothing.
pub(super) fn refused(
    session: &mut Session,
    id: u64,
    is_unsatisfiable: bool,
    took: Duration,
) -> io::Result<()> {
    session.granted(format_args!("{RULE}INFO: No matching resources found\n"))?;
    if is_unsatisfiable {
        session.granted(format_args!("INFO: Unsatisfiable request\n"))?;
    }
    session.granted(format_args!("INFO: JOBID={id}\n"))?;
    if session.elapse_time {
        session.granted(format_args!("INFO: ELAPSE={}\n", took.as_secs_f64()))?;
    }
    session.granted(format_args!("{RULE}"))
}

/// With `--elapse-time`: how long it took, and how many vertices were visited.
pub(super) fn elapsed(session: &mut Session, took: Duration) -> io::Result<()> {
    if session.elapse_time {
        session.shown(format_args!("INFO: ELAPSE={}\n", took.as_secs_f64()))?;
    }
    visits(session)
}

/// The engine does not walk as upstream does, and does not count its steps.
fn visits(session: &mut Session) -> io::Result<()> {
    if session.elapse_time {
        session
            .shown(format_args!("INFO: PREORDER VISIT COUNT=0\nINFO: POSTORDER VISIT COUNT=0\n"))?;
    }
    Ok(())
}
