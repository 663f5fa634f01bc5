//! Finding vertices by expressions.
//!
//! An expression has criteria `key=value`, joined by `and` (also by nothing) and `or`, strictly
//! from left to right, with parentheses. A vertex that is allocated, reserved or down is so for
//! everything below it.

use std::collections::{HashMap, HashSet};

use flux_lists::hostlist::Budget;

use super::Engine;
use super::defects::defect;
use super::job_id;
use crate::book::job::JobMode;
use crate::book::{Book, questions};
use crate::graph::VertexId;
use crate::limits::{FIND_BYTES_MAX, FIND_DEPTH_MAX};
use crate::schedule::Touch;
use crate::writer::{self, About, Emitted, MatchFormat};
use crate::{Error, lists};

#[derive(Debug)]
enum Expr {
    Criterion(Criterion),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
}

#[derive(Debug)]
enum Criterion {
    Status { up: bool },
    Now { allocated: bool },
    Future { reserved: bool },
    Filter(bool),
    Allocation(u64),
    Reservation(u64),
    Span(u64),
    Tag(u64),
    Names(HashSet<Box<str>>),
    Property(String),
}

/// What holds of a vertex, its own or because of what holds it.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    down: bool,
    allocated: bool,
    reserved: bool,
}

impl Engine {
    /// The vertices of which an expression holds, with all that leads to them. `None`: there are
    /// none. `compact`: JSON without blanks, and text as a JSON string.
    pub fn find(
        &mut self,
        criteria: &str,
        format: MatchFormat,
        compact: bool,
    ) -> Result<Option<String>, Error> {
        self.asking(|engine| engine.find_all(criteria, format, compact))
    }

    fn find_all(
        &mut self,
        criteria: &str,
        format: MatchFormat,
        compact: bool,
    ) -> Result<Option<String>, Error> {
        let expr = parse(criteria)?;
        let mut search =
            Search { book: &self.book, touched: HashMap::new(), filter: false, job: None };
        search.prepare(&expr);
        let mut emitted = Vec::new();
        search.visit(self.graph().root(), 1, State::default(), &expr, &mut emitted);
        let style = if compact { writer::COMPACT } else { writer::WIDE };
        if emitted.is_empty() && format != MatchFormat::Rlite {
            return Ok(None);
        }
        let about = About { starttime: 0, expiration: 0, slots: &[] };
        let text = self.writer.write_all(format, self.book.graph(), &emitted, about, style)?;
        defect("vertices written");
        if text.is_empty() {
            return Ok(None);
        }
        if compact && matches!(format, MatchFormat::Simple | MatchFormat::PrettySimple) {
            return Ok(Some(serde_json::Value::from(text).to_string()));
        }
        Ok(Some(text))
    }
}

struct Search<'a> {
    book: &'a Book,
    /// Per job of the expression, the vertices that it has anything of; whether for itself, and
    /// its count of them.
    touched: HashMap<u64, HashMap<VertexId, (bool, Option<&'a Touch>)>>,
    /// Vertices are written with what they count, and left out if they count nothing.
    filter: bool,
    /// Only what this job takes is counted.
    job: Option<u64>,
}

impl Search<'_> {
    fn prepare(&mut self, expr: &Expr) {
        match expr {
            Expr::And(left, right) | Expr::Or(left, right) => {
                self.prepare(left);
                self.prepare(right);
            }
            // As upstream: of several the last one counts.
            Expr::Criterion(Criterion::Filter(wanted)) => self.filter = *wanted,
            Expr::Criterion(
                Criterion::Allocation(id)
                | Criterion::Reservation(id)
                | Criterion::Span(id)
                | Criterion::Tag(id),
            ) => {
                self.job = Some(*id);
                let mut all = HashMap::new();
                if let Some(job) = self.book.jobs().get(*id) {
                    for holding in questions::holdings(self.book.graph(), job) {
                        let known = all.entry(holding.vertex).or_insert((false, None));
                        *known = (holding.exclusive, holding.touch.or(known.1));
                    }
                }
                self.touched.insert(*id, all);
            }
            Expr::Criterion(_) => {}
        }
    }

    /// Adds the vertices of a subtree that are to be written. True if there are any.
    fn visit(
        &self,
        vertex: VertexId,
        depth: usize,
        above: State,
        expr: &Expr,
        emitted: &mut Vec<Emitted>,
    ) -> bool {
        let graph = self.book.graph();
        let held = questions::held(self.book, vertex);
        let state = State {
            down: above.down || !graph.is_marked_up(vertex),
            allocated: above.allocated || held.now,
            reserved: above.reserved || held.later,
        };
        let mut any = false;
        for child in graph.children(vertex) {
            any |= self.visit(*child, depth + 1, state, expr, emitted);
        }
        if !any && !self.holds(expr, vertex, state) {
            return false;
        }
        let filter = if self.filter {
            match self.counts(vertex) {
                Some(filter) => Some(filter),
                // As upstream: what lies below it was written, and is nothing to what holds it.
                None => return false,
            }
        } else {
            None
        };
        emitted.push(Emitted {
            vertex,
            depth,
            exclusive: true,
            needs: graph.size(vertex),
            label: Box::default(),
            filter,
            left_out: false,
        });
        true
    }

    fn holds(&self, expr: &Expr, vertex: VertexId, state: State) -> bool {
        match expr {
            Expr::And(left, right) => {
                self.holds(left, vertex, state) && self.holds(right, vertex, state)
            }
            Expr::Or(left, right) => {
                self.holds(left, vertex, state) || self.holds(right, vertex, state)
            }
            Expr::Criterion(criterion) => self.meets(criterion, vertex, state),
        }
    }

    fn meets(&self, criterion: &Criterion, vertex: VertexId, state: State) -> bool {
        let graph = self.book.graph();
        match criterion {
            Criterion::Status { up } => *up != state.down,
            Criterion::Now { allocated } => *allocated == state.allocated,
            Criterion::Future { reserved } => *reserved == state.reserved,
            Criterion::Filter(wanted) => *wanted,
            Criterion::Allocation(id) => self.has(*id, vertex, JobMode::Allocated),
            Criterion::Reservation(id) => self.has(*id, vertex, JobMode::Reserved),
            Criterion::Tag(id) => self.touched[id].contains_key(&vertex),
            Criterion::Span(id) => self.touched[id]
                .get(&vertex)
                .is_some_and(|(_, touch)| touch.is_some_and(|touch| !touch.below.is_empty())),
            Criterion::Names(names) => !names.is_empty() && names.contains(&*graph.name(vertex)),
            Criterion::Property(name) => graph.property(vertex, name).is_some(),
        }
    }

    /// Whether a job in this mode has a vertex for itself.
    fn has(&self, id: u64, vertex: VertexId, mode: JobMode) -> bool {
        self.book.jobs().get(id).is_some_and(|job| job.info.mode == mode)
            && self.touched[&id].get(&vertex).is_some_and(|(exclusive, _)| *exclusive)
    }

    /// Used and total of each tracked type; `None`: the vertex tracks none, or the job of the
    /// expression counts nothing there.
    fn counts(&self, vertex: VertexId) -> Option<Vec<(Box<str>, i64, u64)>> {
        let (graph, schedule) = (self.book.graph(), self.book.schedule());
        let now = self.book.now();
        let (tracked, totals) =
            (schedule.filters.tracked(graph, vertex), schedule.filters.totals(graph, vertex));
        if tracked.is_empty() {
            return None;
        }
        let touch = match self.job {
            None => None,
            Some(id) => {
                let touch = self.touched[&id].get(&vertex).and_then(|(_, touch)| *touch);
                Some(touch.filter(|touch| !touch.below.is_empty())?)
            }
        };
        let count = |(column, (kind, total)): (usize, (&crate::graph::TypeId, &u64))| {
            let used = match touch {
                Some(touch) => touch.below.get(column).copied().unwrap_or(0),
                None => schedule
                    .planner(vertex)
                    .map_or(0, |planner| planner.peak(now, now + 1, column + 1)),
            };
            (graph.types().name(*kind).into(), used, *total)
        };
        let mut counts: Vec<_> = tracked.iter().zip(totals).enumerate().map(count).collect();
        counts.sort_unstable();
        Some(counts)
    }
}

fn parse(criteria: &str) -> Result<Expr, Error> {
    let wrong = || Error::invalid(format!("find: invalid criteria: {criteria}."));
    FIND_BYTES_MAX.check(criteria.len(), "find")?;
    let words: Vec<&str> = criteria.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let mut tokens = Vec::new();
    for word in words {
        // Parentheses may touch what they enclose.
        let mut rest = word;
        while let Some(inner) = rest.strip_prefix('(') {
            tokens.push("(");
            rest = inner;
        }
        let body = rest.trim_end_matches(')');
        if !body.is_empty() {
            tokens.push(body);
        }
        tokens.extend(std::iter::repeat_n(")", rest.len() - body.len()));
    }
    let mut words = Words { tokens: &tokens, at: 0, hosts: lists::budget() };
    let expr = words.expression(0).map_err(|error| error.unwrap_or_else(wrong))?;
    if words.at == tokens.len() { Ok(expr) } else { Err(wrong()) }
}

/// The value that was read; else an error, if it says more than that this is no criterion.
type Read<T> = Result<T, Option<Error>>;

/// The words of an expression, read one after the other.
struct Words<'a> {
    tokens: &'a [&'a str],
    at: usize,
    /// The names that the lists of the expression may still have.
    hosts: Budget,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn expression(&mut self, depth: usize) -> Read<Expr> {
        let mut left = self.operand(depth)?;
        loop {
            match self.peek() {
                None | Some(")") => return Ok(left),
                Some("or") => {
                    self.at += 1;
                    left = Expr::Or(Box::new(left), Box::new(self.operand(depth)?));
                }
                Some("and") => {
                    self.at += 1;
                    left = Expr::And(Box::new(left), Box::new(self.operand(depth)?));
                }
                Some(_) => left = Expr::And(Box::new(left), Box::new(self.operand(depth)?)),
            }
        }
    }

    fn operand(&mut self, depth: usize) -> Read<Expr> {
        let token = self.peek().ok_or(None)?;
        self.at += 1;
        if token != "(" {
            return criterion(token, &mut self.hosts).map(Expr::Criterion);
        }
        if depth == FIND_DEPTH_MAX.max {
            return Err(Some(FIND_DEPTH_MAX.exceeded("find")));
        }
        let inner = self.expression(depth + 1)?;
        if self.peek() == Some(")") {
            self.at += 1;
            Ok(inner)
        } else {
            Err(None)
        }
    }
}

fn criterion(text: &str, hosts: &mut Budget) -> Read<Criterion> {
    let (key, text) = text.split_once('=').ok_or(None)?;
    let value = text.to_ascii_lowercase();
    let one_of = |yes: &str, no: &str| match &*value {
        word if word == yes => Ok(true),
        word if word == no => Ok(false),
        _ => Err(None),
    };
    // As upstream (Q27), capitals count in the id of a job, and nowhere else: a name that has some
    // is not found.
    let job_id = || job_id::parse(text).ok_or(None);
    Ok(match key {
        "status" => Criterion::Status { up: one_of("up", "down")? },
        "sched-now" => Criterion::Now { allocated: one_of("allocated", "free")? },
        "sched-future" => Criterion::Future { reserved: one_of("reserved", "free")? },
        "agfilter" => Criterion::Filter(match &*value {
            "true" | "t" => true,
            "false" | "f" => false,
            _ => return Err(None),
        }),
        "jobid-alloc" => Criterion::Allocation(job_id()?),
        "jobid-reserved" => Criterion::Reservation(job_id()?),
        "jobid-span" => Criterion::Span(job_id()?),
        "jobid-tag" => Criterion::Tag(job_id()?),
        // As upstream: an empty list is one, and nothing has a name of it.
        "names" if value.is_empty() => Criterion::Names(HashSet::new()),
        "names" => Criterion::Names(
            lists::read_hostlist(&value, hosts)
                .map_err(Some)?
                .into_iter()
                .map(Into::into)
                .collect(),
        ),
        "property" => Criterion::Property(value),
        _ => return Err(None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_an_expression_share_one_budget() {
        // One of these takes some 60 MB.
        let lists = |count: usize| vec!["names=a[0-599999]"; count].join(" or ");
        assert!(parse(&lists(1)).is_ok());
        for text in [lists(2), lists(700), format!("({}) and (({}))", lists(1), lists(1))] {
            let error = parse(&text).unwrap_err();
            assert!(error.text.contains("HOSTS_MAX"), "{error}");
        }
    }
}
