//! The table of medians that the bench prints.

use std::cell::RefCell;
use std::ffi::CStr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use criterion::Criterion;
use fluxion_sys::FunctionTable;

use crate::machine::{Context, Granted};

/// Times of one piece of work, in microseconds.
struct Row {
    name: String,
    target: Option<f64>,
    ours: Option<f64>,
    theirs: Option<f64>,
}

/// Medians, row by row.
pub(crate) struct Table {
    criterion: Criterion,
    rows: Vec<Row>,
    /// The library that is measured, if it is not the built-in one.
    pub(crate) other: Option<FunctionTable>,
    /// What must be part of a row's name; from the command line.
    filter: Option<String>,
}

impl Table {
    pub(crate) fn new(criterion: Criterion, filter: Option<String>) -> Self {
        Table { criterion, rows: Vec::new(), other: None, filter }
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }

    /// A context of the library that is measured.
    pub(crate) fn context(&self, format: &str, policy: &str, graph: &str, more: &str) -> Context {
        Context::of(self.other.unwrap_or(FunctionTable::builtin()), format, policy, graph, more)
    }

    /// Rows for which the other library would take minutes are for ours alone.
    pub(crate) fn is_short(&self, nodes: u64) -> bool {
        self.other.is_some() && nodes > 1_000
    }

    pub(crate) fn note(&mut self, name: &str, target: Option<f64>, median: f64) {
        let at = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row { name: name.to_owned(), target, ours: None, theirs: None });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        *if self.other.is_some() { &mut row.theirs } else { &mut row.ours } = Some(median);
    }

    /// Measures what `once` says that it took. `target` is in microseconds.
    pub(crate) fn row(
        &mut self,
        name: &str,
        target: Option<f64>,
        mut once: impl FnMut() -> Duration,
    ) {
        if !self.wants(name) {
            return;
        }
        let times: Rc<RefCell<Vec<f64>>> = Rc::default();
        let noted = Rc::clone(&times);
        let whose = if self.other.is_some() { "FLUXION_LIBRARY: " } else { "" };
        self.criterion.bench_function(&format!("{whose}{name}"), |bencher| {
            bencher.iter_custom(|count| {
                (0..count).fold(Duration::ZERO, |sum, _| {
                    let took = once();
                    noted.borrow_mut().push(took.as_secs_f64() * 1e6);
                    sum + took
                })
            });
        });
        let mut times = times.take();
        times.sort_by(f64::total_cmp);
        if let Some(median) = times.get(times.len() / 2) {
            self.note(name, target, *median);
        }
    }

    /// Measures a grant, which is then looked at and cancelled.
    fn cancelling(
        &mut self,
        name: &str,
        target: Option<f64>,
        context: &mut Context,
        grant: impl Fn(&mut Context) -> Granted,
        look: impl Fn(&Granted),
    ) {
        self.row(name, target, || {
            let started = Instant::now();
            let granted = grant(context);
            let took = started.elapsed();
            look(&granted);
            context.cancel(granted.job);
            took
        });
    }

    /// A match that is cancelled again.
    pub(crate) fn matching(
        &mut self,
        name: &str,
        target: Option<f64>,
        context: &mut Context,
        spec: &CStr,
    ) {
        self.cancelling(name, target, context, |context| context.allocate(spec), |_| ());
    }

    /// A match now or later, whichever it is.
    pub(crate) fn soonest(&mut self, name: &str, context: &mut Context, spec: &CStr) {
        self.cancelling(name, None, context, |context| context.reserve(spec), |_| ());
    }

    /// A reservation that is cancelled again.
    pub(crate) fn reserving(
        &mut self,
        name: &str,
        target: Option<f64>,
        context: &mut Context,
        spec: &CStr,
    ) {
        let is_later = |granted: &Granted| assert!(granted.at > 0, "{name}: there was room now");
        self.cancelling(name, target, context, |context| context.reserve(spec), is_later);
    }

    /// A match that fails.
    pub(crate) fn refusing(
        &mut self,
        name: &str,
        target: Option<f64>,
        context: &mut Context,
        spec: &CStr,
    ) {
        self.row(name, target, || {
            let started = Instant::now();
            let granted = context.try_match(fluxion_sys::match_op::ALLOCATE_ORELSE_RESERVE, spec);
            let took = started.elapsed();
            assert!(granted.is_none(), "{name}: it fits");
            took
        });
    }

    pub(crate) fn print(&self) {
        let both = self.rows.iter().any(|row| row.theirs.is_some());
        let (head, line) =
            if both { (" FLUXION_LIBRARY (us) | times |", "---|---|") } else { ("", "") };
        println!("\n| work | must be under (us) | median (us) |{head}\n|---|---|---|{line}");
        let text =
            |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
        for Row { name, target, ours, theirs } in &self.rows {
            let aim = target.map_or_else(String::new, |target| format!("{target}"));
            let over = if target.zip(*ours).is_some_and(|(target, ours)| ours >= target) {
                " **over**"
            } else {
                ""
            };
            print!("| {name} | {aim} | {}{over} |", text(*ours));
            if both {
                print!(
                    " {} | {} |",
                    text(*theirs),
                    text(theirs.zip(*ours).map(|(theirs, ours)| theirs / ours))
                );
            }
            println!();
        }
    }
}
