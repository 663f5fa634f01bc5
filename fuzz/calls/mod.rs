//! Sequences of calls through the function table, as a C program makes them that gets much wrong:
//! any order, several contexts and clones, contexts without a graph, NULL for everything, texts
//! that are none.
//!
//! After each call: errno is one that the header has for this function, nothing was handed out by a
//! failure, and a failure left the state as it was, as far as the functions that look can see. In
//! the end all that is left is cancelled, and all is free. Panics, foreign memory and leaks are for
//! the sanitizer.

mod functions;
mod texts;

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use fluxion_sys::{Extensions, FunctionTable, errno, reapi_cli_ctx_t};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use texts::{Argument, Kind, argument};

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

/// Calls of one sequence; more say nothing new.
const CALLS_MAX: usize = 40;
const CONTEXTS: usize = 3;
/// Texts of the library that are kept as arguments.
const HANDED_OUT_MAX: usize = 6;

/// A place of a context, and the expectations of it.
struct Place {
    ctx: *mut reapi_cli_ctx_t,
    /// Something stays taken that no job has: a grant that could not be written, a part of two jobs
    /// of one id, or of one that was given back by ranks.
    has_lost: bool,
}

struct Calls<'a> {
    input: Unstructured<'a>,
    table: FunctionTable,
    extensions: &'static Extensions,
    places: [Place; CONTEXTS],
    handed_out: Vec<String>,
    /// Ids that jobs have or had.
    jobs: BTreeSet<u64>,
}

/// Plays one sequence.
pub fn play(data: &[u8]) {
    let table = FunctionTable::builtin();
    let extensions = table.extensions.expect("the built-in library has them");
    let places = [const { Place { ctx: ptr::null_mut(), has_lost: false } }; CONTEXTS];
    let input = Unstructured::new(data);
    let mut calls = Calls { input, table, extensions, places, handed_out: Vec::new(), jobs: BTreeSet::new() };
    for _ in 0..CALLS_MAX {
        if calls.input.is_empty() || calls.next().is_err() {
            break;
        }
    }
    calls.finish();
}

impl Calls<'_> {
    fn next(&mut self) -> Result<()> {
        let function = self.input.int_in_range(0_u8..=37)?;
        let at = self.input.int_in_range(0..=CONTEXTS - 1)?;
        match function {
            0..=5 => self.life(function, at),
            6..=13 => self.matched(function, at),
            14..=19 => self.of_jobs(function, at),
            20..=26 => self.of_graph(function, at),
            _ => self.extended(function, at),
        }
    }

    fn text(&mut self, kind: Kind) -> Result<Argument> {
        argument(&mut self.input, kind, &self.handed_out)
    }

    /// Where an answer goes; rarely NULL.
    fn out<T>(&mut self, target: &mut T) -> Result<*mut T> {
        Ok(if self.input.ratio(1, 40)? { ptr::null_mut() } else { target })
    }

    fn id(&mut self) -> Result<u64> {
        let known: Vec<u64> = self.jobs.iter().copied().collect();
        Ok(match self.input.int_in_range(0_u8..=9)? {
            0 => *self.input.choose(&[0, u64::MAX, i64::MAX as u64, 1 << 63])?,
            1 | 2 => self.input.int_in_range(1..=60)?,
            _ if known.is_empty() => 1,
            _ => *self.input.choose(&known)?,
        })
    }

    /// Takes over a text of the library.
    fn take(&mut self, text: *mut c_char) -> String {
        // SAFETY: the library handed it out just now, so it ends in NUL, and is ours to free.
        let copy = unsafe {
            let copy = CStr::from_ptr(text).to_str().expect("texts are UTF-8").to_owned();
            free(text.cast());
            copy
        };
        if self.handed_out.len() == HANDED_OUT_MAX {
            self.handed_out.remove(0);
        }
        self.handed_out.push(copy.clone());
        copy
    }

    /// Makes a call, and checks what holds of each.
    fn checked(&mut self, at: usize, errors: &[c_int], call: impl FnOnce(*mut reapi_cli_ctx_t) -> c_int) -> bool {
        let before = self.state(at);
        errno::set(0);
        let rc = call(self.places[at].ctx);
        let (error, after) = (errno::get(), self.state(at));
        match rc {
            0 => assert_ne!(before, None, "nothing succeeds without a graph"),
            -1 => {
                assert!(errors.contains(&error), "errno {error}, not one of {errors:?}");
                assert!(before.is_some() || error == errno::EINVAL, "errno {error} without a graph");
                assert_eq!(before, after, "errno {error}, and something has changed");
            }
            other => panic!("neither 0 nor -1: {other}"),
        }
        rc == 0
    }

    /// All that can be seen of a context; `None`: it has no graph.
    fn state(&self, at: usize) -> Option<Vec<String>> {
        let (table, ctx) = (&self.table, self.places[at].ctx);
        let find = table.find.expect("the built-in library has it");
        let mut all = Vec::new();
        for criteria in [c"status=up", c"status=down", c"sched-now=allocated", c"sched-future=reserved"] {
            let mut text = ptr::null_mut();
            // SAFETY: NULL or a live context, texts that live for ever, a place for the answer.
            if unsafe { find(ctx, criteria.as_ptr(), c"jgf".as_ptr(), &raw mut text) } != 0 {
                assert!(text.is_null());
                // A document of the root alone cannot be written.
                if errno::get() == errno::ENOENT {
                    all.push(String::from("root alone"));
                    continue;
                }
                return None;
            }
            // Something was left out of a shorthand once: that is written ever after, also if that
            // could not be written.
            all.push(copied(text).unwrap_or_default().replace(r#","writer":"fluxion:jgf_shorthand""#, ""));
        }
        for id in self.jobs.iter().copied().chain([1, 2, 3]) {
            let (mut mode, mut reserved, mut start, mut ov) = (ptr::null_mut(), false, 0, 0.0);
            // SAFETY: a live context, places for the answer.
            let rc = unsafe { (table.info)(ctx, id, &raw mut mode, &raw mut reserved, &raw mut start, &raw mut ov) };
            all.push(format!("{rc} {:?} {reserved} {start}", copied(mode)));
        }
        for rank in 0..3 {
            let mut text = ptr::null_mut();
            // SAFETY: a live context, a place for the answer.
            let rc = unsafe { (self.extensions.usage)(ctx, rank, &raw mut text) };
            all.push(format!("{rc} {:?}", copied(text)));
        }
        Some(all)
    }

    /// Whether a job of this id is, or was, in a context.
    fn is_known(&self, at: usize, id: u64) -> bool {
        let (mut mode, mut reserved, mut start, mut ov) = (ptr::null_mut(), false, 0, 0.0);
        let ctx = self.places[at].ctx;
        // SAFETY: NULL or a live context, places for the answer.
        let rc = unsafe { (self.table.info)(ctx, id, &raw mut mode, &raw mut reserved, &raw mut start, &raw mut ov) };
        rc == 0 && copied(mode).is_some()
    }

    /// Whether something is taken that lies in a node and has no rank.
    fn holds_unranked(&self, at: usize) -> bool {
        let state = self.state(at).unwrap_or_default();
        let mut taken = state.iter().skip(2).take(2).flat_map(|text| text.split(r#"{"id":"#));
        let is_above =
            |vertex: &str| ["cluster", "rack", "node"].iter().any(|it| vertex.contains(&format!(r#""type":"{it}""#)));
        taken.any(|vertex| vertex.contains(r#""rank":-1"#) && !is_above(vertex))
    }

    fn put(&mut self, at: usize, place: Option<Place>) {
        self.destroy(at);
        // SAFETY: a context may be made at any time.
        let new = || Place { ctx: unsafe { (self.table.new)() }, has_lost: false };
        self.places[at] = place.unwrap_or_else(new);
    }

    fn destroy(&mut self, at: usize) {
        errno::set(4711);
        // SAFETY: NULL or a live context, which is used no more.
        unsafe { (self.table.destroy)(self.places[at].ctx) };
        assert_eq!(errno::get(), 4711, "errno is preserved");
        self.places[at] = Place { ctx: ptr::null_mut(), has_lost: false };
    }

    /// Everything is cancelled, so everything is free.
    fn finish(mut self) {
        for at in 0..CONTEXTS {
            let ctx = self.places[at].ctx;
            if self.state(at).is_none() {
                self.destroy(at);
                continue;
            }
            for id in &self.jobs {
                // SAFETY: a live context.
                if unsafe { (self.table.cancel)(ctx, *id, true) } != 0 {
                    // It is matched under such an id, and cannot be removed.
                    assert_eq!(errno::get(), errno::EOVERFLOW);
                    self.places[at].has_lost = true;
                }
            }
            // Grants that could not be written belong to no job, and may stand under any id.
            let state = self.state(at).expect("it has a graph");
            if !self.places[at].has_lost {
                assert_eq!((state[2].as_str(), state[3].as_str()), ("", ""), "something is still taken");
            }
            self.destroy(at);
        }
    }
}

/// A text of the library, which is freed. `None`: there is none.
fn copied(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the library handed it out just now, so it ends in NUL, and is ours to free.
    unsafe {
        let copy = CStr::from_ptr(text).to_str().expect("texts are UTF-8").to_owned();
        free(text.cast());
        Some(copy)
    }
}
