//! The functions of the table, each called with arguments that the input chooses.

use std::ffi::c_int;
use std::ptr;

use fluxion_engine::NOW_MAX;
use fluxion_sys::errno;
use libfuzzer_sys::arbitrary::Result;

use super::texts::Kind;
use super::{CONTEXTS, Calls, Place, copied};

use errno::{EBUSY, EEXIST, EINVAL, ENODEV, ENOENT, ENOMEM, ENOSYS, ENOTSUP, EOVERFLOW, EPROTO};

/// What went wrong must be one of these, by function.
const OF_INITIALIZE: &[c_int] = &[EINVAL, EPROTO];
const OF_MATCH: &[c_int] = &[EINVAL, EBUSY, ENODEV, ENOENT, EEXIST, EOVERFLOW, ENOSYS];
const OF_SATISFY: &[c_int] = &[EINVAL, ENODEV, EOVERFLOW];
const OF_UPDATE: &[c_int] = &[EINVAL, EBUSY, ENOENT, EEXIST, EOVERFLOW, ENOTSUP, ENOSYS];
const OF_JOBS: &[c_int] = &[EINVAL, ENOENT, EOVERFLOW, ENOTSUP];
const OF_FIND: &[c_int] = &[EINVAL, ENOENT, ENOMEM, ENOSYS];
const OF_GRAPH: &[c_int] = &[EINVAL, ENOENT, EEXIST, ENOTSUP];

/// Instants at both ends of the clock.
const ENDS_OF_TIME: [i64; 8] =
    [i64::MIN, -1, 0, 3_153_600_000, NOW_MAX - 1, NOW_MAX, NOW_MAX + 1, i64::MAX];

impl Calls<'_> {
    /// Contexts come, go, are copied, get a graph; and what went wrong in them.
    pub(super) fn life(&mut self, function: u8, at: usize) -> Result<()> {
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
                    assert!(has.is_some());
                    self.places[at].has_lost = false;
                } else {
                    // Its graph is gone, unless an argument was none.
                    assert!(has.is_none() || had == has);
                    assert!(OF_INITIALIZE.contains(&error), "errno {error}");
                }
            }
        }
        Ok(())
    }

    /// Matches of every kind.
    pub(super) fn matched(&mut self, function: u8, at: usize) -> Result<()> {
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
        let known: Vec<u64> =
            self.jobs.iter().copied().chain([given]).filter(|id| self.is_known(at, *id)).collect();
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
            // Upstream takes such ids as well, and no function knows them any more. Of two jobs of
            // one id a part stays, also if the library chose the id.
            self.places[at].has_lost |= i64::try_from(given).is_err() || known.contains(&id);
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

    /// Questions about jobs that there are, or not.
    pub(super) fn of_jobs(&mut self, function: u8, at: usize) -> Result<()> {
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
                let given_back = self.checked(at, OF_JOBS, |ctx| unsafe { call(ctx, id, r.as_ptr(), noent_ok, full) });
                // By ranks: a vertex without one is not found once the vertex above it was given
                // back.
                self.places[at].has_lost |= given_back && self.holds_unranked(at);
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

    /// Finding, marking, growing, shrinking.
    pub(super) fn of_graph(&mut self, function: u8, at: usize) -> Result<()> {
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
                self.checked(at, &[EINVAL, ENOTSUP], |ctx| unsafe { call(ctx, place.as_ptr(), status) });
            }
            25 => {
                let call = if by_rank { table.get_rank_status } else { table.get_status }.expect("it is there");
                let to = self.out(&mut status)?;
                // SAFETY: NULL or live things.
                self.checked(at, &[EINVAL, ENOTSUP], |ctx| unsafe { call(ctx, place.as_ptr(), to) });
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

    /// All calls of a trial are taken back.
    fn tried(&mut self, at: usize) -> Result<()> {
        let (ext, before, has_lost) = (self.extensions, self.state(at), self.places[at].has_lost);
        // SAFETY: NULL or a live context.
        if !self.checked(at, &[EINVAL], |ctx| unsafe { (ext.begin_trial)(ctx) }) {
            return Ok(());
        }
        let jobs = self.jobs.clone();
        let calls = self.input.int_in_range(0..=4)?;
        let done = (0..calls).try_for_each(|_| {
            let function = self.input.int_in_range(6_u8..=34)?;
            match function {
                6..=13 => self.matched(function, at),
                14..=19 => self.of_jobs(function, at),
                20..=26 => self.of_graph(function, at),
                _ => self.extended(function.min(33), at),
            }
        });
        // SAFETY: as above.
        assert!(self.checked(at, &[], |ctx| unsafe { (ext.end_trial)(ctx) }), "the trial has ended before");
        (self.places[at].has_lost, self.jobs) = (has_lost, jobs);
        assert_eq!(before, self.state(at), "a trial left something behind");
        done
    }

    /// What upstream does not have.
    pub(super) fn extended(&mut self, function: u8, at: usize) -> Result<()> {
        let ext = self.extensions;
        let (id, rank) = (self.id()?, self.input.int_in_range(0_u32..=3)?);
        match function {
            27 => {
                let now = match self.input.int_in_range(0..=15)? {
                    0 => self.input.arbitrary()?,
                    1 => *self.input.choose(&ENDS_OF_TIME)?,
                    _ => self.input.int_in_range(0..=99)?,
                };
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
            33 => {
                let (mut start, mut reserved, mut later, mut r) = (0, false, 0, ptr::null_mut());
                let (to_start, to_reserved) = (self.out(&mut start)?, self.out(&mut reserved)?);
                let (to_later, to_r) = (self.out(&mut later)?, self.out(&mut r)?);
                // SAFETY: NULL or live things.
                let call = |ctx| unsafe { (ext.move_job)(ctx, id, to_start, to_reserved, to_r, to_later) };
                let moved = self.checked(at, OF_MATCH, call);
                assert_eq!(moved, copied(r).is_some());
                assert!(!moved || later == 0 || start > 0);
            }
            34 => self.tried(at)?,
            35 => {
                let (level, ranks) = (self.text(Kind::Label)?, self.text(Kind::Ranks)?);
                let part = self.text(Kind::Label)?;
                // SAFETY: NULL or live things.
                let call = |ctx| unsafe { (ext.set_part)(ctx, level.as_ptr(), ranks.as_ptr(), part.as_ptr()) };
                self.checked(at, &[EINVAL, ENOTSUP], call);
                let mut json = ptr::null_mut();
                let to = self.out(&mut json)?;
                // SAFETY: NULL or live things.
                let known = self.checked(at, &[EINVAL], |ctx| unsafe { (ext.parts)(ctx, level.as_ptr(), to) });
                assert_eq!(known, copied(json).is_some());
            }
            _ => {
                let (spec, mut answer) = (self.text(Kind::Jobspec)?, ptr::null_mut());
                let (call, to) = (if function == 36 { ext.eligible } else { ext.explain }, self.out(&mut answer)?);
                // SAFETY: NULL or live things.
                let known = self.checked(at, &[EINVAL, ENOTSUP], |ctx| unsafe { call(ctx, spec.as_ptr(), to) });
                assert_eq!(known, copied(answer).is_some());
            }
        }
        Ok(())
    }
}
