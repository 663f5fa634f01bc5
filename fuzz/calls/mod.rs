//! Sequences of calls through the function table, as a C program makes them that gets much wrong: any order, several contexts
//! and clones, contexts without a graph, NULL for everything, texts that are none.
//!
//! After each call: errno is one that the header has for this function, nothing was handed out by a failure, and a failure
//! left the state as it was, as far as the functions that look can see. In the end all that is left is cancelled, and all is
//! free. Panics, foreign memory and leaks are for the sanitizer.

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

use errno::{EBUSY, EEXIST, EINVAL, ENODEV, ENOENT, ENOMEM, ENOSYS, ENOTSUP, EOVERFLOW, EPROTO};

/// What went wrong must be one of these, by function.
const OF_INITIALIZE: &[c_int] = &[EINVAL, EPROTO];
const OF_MATCH: &[c_int] = &[EINVAL, EBUSY, ENODEV, ENOENT, EEXIST, EOVERFLOW, ENOSYS];
const OF_SATISFY: &[c_int] = &[EINVAL, ENODEV, EOVERFLOW];
const OF_UPDATE: &[c_int] = &[EINVAL, EBUSY, ENOENT, EEXIST, EOVERFLOW, ENOTSUP, ENOSYS];
const OF_JOBS: &[c_int] = &[EINVAL, ENOENT, EOVERFLOW, ENOTSUP];
const OF_FIND: &[c_int] = &[EINVAL, ENOENT, ENOMEM, ENOSYS];
const OF_GRAPH: &[c_int] = &[EINVAL, ENOENT, EEXIST, ENOTSUP];

/// A place of a context, and what is known of it.
struct Place {
    ctx: *mut reapi_cli_ctx_t,
    /// A grant could not be written: it stays taken, and no job has it.
    has_lost: bool,
}

struct Calls<'a> {
    input: Unstructured<'a>,
    table: FunctionTable,
    extensions: Extensions,
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
        let function = self.input.int_in_range(0_u8..=34)?;
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
                assert!(before.is_some() || error == EINVAL, "errno {error} without a graph");
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
                if errno::get() == ENOENT {
                    all.push(String::from("root alone"));
                    continue;
                }
                return None;
            }
            all.push(copied(text).unwrap_or_default());
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

    fn life(&mut self, function: u8, at: usize) -> Result<()> {
        let ctx = self.places[at].ctx;
        match function {
            0 => self.put(at, None),
            1 => {
                let to = self.input.int_in_range(0..=CONTEXTS - 1)?;
                let before = self.state(at);
                let clone = self.table.clone.expect("the built-in library has it");
                // SAFETY: NULL or a live context.
                let copy = unsafe { clone(ctx) };
                assert_eq!(copy.is_null(), before.is_none());
                if !copy.is_null() {
                    let has_lost = self.places[at].has_lost;
                    self.put(to, Some(Place { ctx: copy, has_lost }));
                    assert_eq!(self.state(to), before, "a clone is the same");
                }
            }
            2 => {
                if self.input.ratio(1, 3)? {
                    self.destroy(at);
                }
            }
            3 | 4 => {
                // SAFETY: NULL or a live context.
                let text = copied(unsafe { (self.table.get_err_msg)(ctx) }).expect("there is always a text");
                assert!(text.len() <= 1 << 17);
                // SAFETY: as above.
                unsafe { (self.table.clear_err_msg)(ctx) };
                // SAFETY: as above.
                let cleared = copied(unsafe { (self.table.get_err_msg)(ctx) });
                assert!(ctx.is_null() || cleared.is_some_and(|text| text.is_empty()));
            }
            _ => {
                if ctx.is_null() {
                    self.put(at, None);
                }
                let (graph, options) = (self.text(Kind::Graph)?, self.text(Kind::Options)?);
                let (had, ctx) = (self.state(at), self.places[at].ctx);
                errno::set(0);
                // SAFETY: a live context, NULL or texts that live through the call.
                let rc = unsafe { (self.table.initialize)(ctx, graph.as_ptr(), options.as_ptr()) };
                let (error, has) = (errno::get(), self.state(at));
                if rc == 0 {
                    assert!(had.is_none() && has.is_some());
                } else {
                    assert_eq!(had, has);
                    assert!(OF_INITIALIZE.contains(&error), "errno {error}");
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, at: usize, place: Option<Place>) {
        self.destroy(at);
        // SAFETY: a context may be made at any time.
        let new = || Place { ctx: unsafe { (self.table.new)() }, has_lost: false };
        self.places[at] = place.unwrap_or_else(new);
    }

    fn destroy(&mut self, at: usize) {
        errno::set(4711);
        // SAFETY: NULL or a live context, which nobody uses any more.
        unsafe { (self.table.destroy)(self.places[at].ctx) };
        assert_eq!(errno::get(), 4711, "errno is preserved");
        self.places[at] = Place { ctx: ptr::null_mut(), has_lost: false };
    }

    fn matched(&mut self, function: u8, at: usize) -> Result<()> {
        let spec = self.text(Kind::Jobspec)?;
        let op = self.input.int_in_range(0..=8)?;
        let (given, orelse) = (self.id()?, self.input.arbitrary()?);
        let (mut jobid, mut reserved, mut r, mut start, mut ov) = (77, false, ptr::null_mut(), 0, 0.0);
        if function == 6 {
            let mut sat = true;
            let (is, took) = (self.out(&mut sat)?, self.out(&mut ov)?);
            let call = self.table.match_satisfy.expect("the built-in library has it");
            // SAFETY: NULL or live things.
            let fits = self.checked(at, OF_SATISFY, |ctx| unsafe { call(ctx, spec.as_ptr(), is, took) });
            assert!(!fits || sat);
            return Ok(());
        }
        let (to_id, to_reserved) = (self.out(&mut jobid)?, self.out(&mut reserved)?);
        let (to_r, to_start, to_ov) = (self.out(&mut r)?, self.out(&mut start)?, self.out(&mut ov)?);
        let table = self.table;
        let call = |ctx| {
            let spec = spec.as_ptr();
            // SAFETY: NULL or live things.
            unsafe {
                match function {
                    7 | 8 => (table.match_allocate)(ctx, orelse, spec, to_id, to_reserved, to_r, to_start, to_ov),
                    9 | 10 => table.match_with_jobid.expect("it is there")(
                        ctx,
                        op,
                        spec,
                        given,
                        to_reserved,
                        to_r,
                        to_start,
                        to_ov,
                    ),
                    _ => table.match_op.expect("it is there")(ctx, op, spec, to_id, to_reserved, to_r, to_start, to_ov),
                }
            }
        };
        let (ctx, before) = (self.places[at].ctx, self.state(at));
        errno::set(0);
        let rc = call(ctx);
        let error = errno::get();
        let after = self.state(at);
        if rc == 0 {
            assert!(!r.is_null() && before.is_some());
            self.take(r);
            let id = if matches!(function, 9 | 10) { given } else { jobid };
            if id != u64::MAX {
                self.jobs.insert(id);
            }
            // Upstream takes such ids as well, and no function knows them any more.
            self.places[at].has_lost |= i64::try_from(given).is_err();
            return Ok(());
        }
        assert!(r.is_null() && rc == -1);
        assert!(OF_MATCH.contains(&error), "errno {error}");
        assert_eq!(jobid, 77, "set on success only");
        if before != after {
            // By the header: what cannot be written is taken all the same.
            assert_eq!(error, EINVAL, "something has changed");
            self.places[at].has_lost = true;
        }
        Ok(())
    }

    fn of_jobs(&mut self, function: u8, at: usize) -> Result<()> {
        let (id, noent_ok) = (self.id()?, self.input.arbitrary()?);
        let table = self.table;
        match function {
            14 => {
                // SAFETY: NULL or a live context.
                self.checked(at, OF_JOBS, |ctx| unsafe { (table.cancel)(ctx, id, noent_ok) });
            }
            15 | 16 => {
                let (r, mut full) = (self.text(Kind::R)?, false);
                let (call, full) = (table.partial_cancel.expect("it is there"), self.out(&mut full)?);
                // SAFETY: NULL or live things.
                self.checked(at, OF_JOBS, |ctx| unsafe { call(ctx, id, r.as_ptr(), noent_ok, full) });
            }
            17 => {
                let (mut mode, mut reserved, mut start, mut ov) = (ptr::null_mut(), false, 0, 0.0);
                let (to_mode, to_reserved) = (self.out(&mut mode)?, self.out(&mut reserved)?);
                let (to_start, to_ov) = (self.out(&mut start)?, self.out(&mut ov)?);
                // SAFETY: NULL or live things.
                let call = |ctx| unsafe { (table.info)(ctx, id, to_mode, to_reserved, to_start, to_ov) };
                let known = self.checked(at, OF_JOBS, call);
                assert_eq!(known, copied(mode).is_some());
            }
            _ => {
                let (r, mut start, mut ov, mut out) = (self.text(Kind::R)?, 0, 0.0, ptr::null());
                let (to_start, to_ov, to_out) = (self.out(&mut start)?, self.out(&mut ov)?, self.out(&mut out)?);
                let call = |ctx| {
                    // SAFETY: NULL or live things.
                    unsafe { (table.update_allocate)(ctx, id, r.as_ptr(), to_start, to_ov, to_out) }
                };
                if self.checked(at, OF_UPDATE, call) {
                    self.take(out.cast_mut());
                    self.jobs.insert(id);
                } else {
                    assert!(out.is_null());
                }
            }
        }
        Ok(())
    }

    fn of_graph(&mut self, function: u8, at: usize) -> Result<()> {
        let table = self.table;
        let by_rank = self.input.arbitrary()?;
        let place = self.text(if by_rank { Kind::Ranks } else { Kind::Path })?;
        let mut status = self.input.int_in_range(0..=2)?;
        match function {
            20 | 21 => {
                let (criteria, format, mut r) = (self.text(Kind::Criteria)?, self.text(Kind::Format)?, ptr::null_mut());
                let (call, to) = (table.find.expect("it is there"), self.out(&mut r)?);
                // SAFETY: NULL or live things.
                let call = |ctx| unsafe { call(ctx, criteria.as_ptr(), format.as_ptr(), to) };
                let found = self.checked(at, OF_FIND, call);
                assert!(found || r.is_null());
                copied(r);
            }
            22 => {
                let sub = self.text(Kind::Subgraph)?;
                let call = table.add_subgraph.expect("it is there");
                // SAFETY: NULL or live things.
                self.checked(at, OF_GRAPH, |ctx| unsafe { call(ctx, sub.as_ptr()) });
            }
            23 => {
                let call = table.remove_subgraph.expect("it is there");
                // SAFETY: NULL or live things.
                self.checked(at, OF_GRAPH, |ctx| unsafe { call(ctx, place.as_ptr()) });
            }
            24 => {
                let call = if by_rank { table.set_rank_status } else { table.set_status }.expect("it is there");
                // SAFETY: NULL or live things.
                self.checked(at, &[EINVAL], |ctx| unsafe { call(ctx, place.as_ptr(), status) });
            }
            25 => {
                let call = if by_rank { table.get_rank_status } else { table.get_status }.expect("it is there");
                let to = self.out(&mut status)?;
                // SAFETY: NULL or live things.
                self.checked(at, &[EINVAL], |ctx| unsafe { call(ctx, place.as_ptr(), to) });
            }
            _ => {
                let none = (ptr::null_mut(), ptr::null_mut());
                let call = |ctx| {
                    // SAFETY: NULL or live things.
                    unsafe { (table.stat)(ctx, none.0, none.0, none.0, none.1, none.1, none.1, none.1) }
                };
                assert!(!self.checked(at, &[EINVAL, ENOSYS], call));
            }
        }
        Ok(())
    }

    fn extended(&mut self, function: u8, at: usize) -> Result<()> {
        let ext = self.extensions;
        let (id, rank) = (self.id()?, self.input.int_in_range(0_u32..=3)?);
        match function {
            27 => {
                let now =
                    if self.input.ratio(1, 8)? { self.input.arbitrary()? } else { self.input.int_in_range(0..=99)? };
                // SAFETY: NULL or a live context.
                self.checked(at, &[EINVAL], |ctx| unsafe { (ext.set_time)(ctx, now) });
            }
            28 | 29 => {
                let charge = self.text(Kind::Charge)?;
                // SAFETY: NULL or live things.
                if self.checked(at, OF_JOBS, |ctx| unsafe { (ext.charge)(ctx, id, charge.as_ptr()) }) {
                    self.jobs.insert(id);
                }
            }
            30 => {
                let (label, count) = (self.text(Kind::Label)?, self.input.int_in_range(0..=3)?);
                // SAFETY: NULL or live things.
                self.checked(at, OF_JOBS, |ctx| unsafe { (ext.release)(ctx, id, rank, label.as_ptr(), count) });
            }
            31 => {
                let (kind, size) = (self.text(Kind::Type)?, self.input.arbitrary::<u64>()?);
                let size = size >> self.input.int_in_range(0..=63)?;
                // SAFETY: NULL or live things.
                self.checked(at, OF_JOBS, |ctx| unsafe { (ext.resize)(ctx, rank, kind.as_ptr(), size) });
            }
            32 => {
                // SAFETY: NULL or a live context.
                self.checked(at, OF_GRAPH, |ctx| unsafe { (ext.remove_rank)(ctx, rank) });
            }
            _ => {
                let (spec, mut answer) = (self.text(Kind::Jobspec)?, ptr::null_mut());
                let (call, to) = (if function == 33 { ext.eligible } else { ext.explain }, self.out(&mut answer)?);
                // SAFETY: NULL or live things.
                let known = self.checked(at, &[EINVAL, ENOTSUP], |ctx| unsafe { call(ctx, spec.as_ptr(), to) });
                assert_eq!(known, copied(answer).is_some());
            }
        }
        Ok(())
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
                assert!(unsafe { (self.table.cancel)(ctx, *id, true) } == 0 || errno::get() == EOVERFLOW);
            }
            // Whatever could not be written belongs to nobody, and may stand under any id.
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
