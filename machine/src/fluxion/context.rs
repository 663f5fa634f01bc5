//! A context of the library, owned: the calls that upstream offers too.
#![allow(unsafe_code, reason = "calls the C functions of fluxion-sys")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use fluxion_sys::{FunctionTable, errno, match_op_t, reapi_cli_ctx_t};

use super::error::GraphError;

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

/// A larger buffer (of a document with many nodes) is given up at the next call.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// A context with a graph.
#[derive(Debug)]
pub(super) struct Context {
    ctx: NonNull<reapi_cli_ctx_t>,
    pub(super) table: FunctionTable,
    /// Arguments are written here, and end in NUL.
    buffer: String,
}

/// A grant.
#[derive(Debug)]
pub(super) struct Matched {
    /// The job's id.
    pub(super) job: u64,
    /// R, in the context's format.
    pub(super) r: String,
    /// The second at which it starts.
    pub(super) at: i64,
}

// SAFETY: a context may move between threads (see the header); `&mut self` everywhere keeps two
// from using it at once.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context came from `new` of this table, and is used no more.
        unsafe { (self.table.destroy)(self.ctx.as_ptr()) }
    }
}

impl Context {
    /// A context with the graph of a document, made as the options say.
    pub(super) fn new(
        table: FunctionTable,
        document: String,
        options: String,
    ) -> Result<Self, GraphError> {
        const NEW: &str = "new";
        let document = CString::new(document).map_err(|_| with_nul(NEW))?;
        let options = CString::new(options).map_err(|_| with_nul(NEW))?;
        // SAFETY: may be called at any time.
        let ctx = NonNull::new(unsafe { (table.new)() }).ok_or_else(|| lacks(NEW, "memory"))?;
        let mut context = Context { ctx, table, buffer: String::new() };
        // SAFETY: our context, strings that live through the call.
        let rc = unsafe { (table.initialize)(context.raw(), document.as_ptr(), options.as_ptr()) };
        context.check(NEW, rc)?;
        Ok(context)
    }

    /// A deep copy, if the library makes one.
    pub(super) fn copy(&mut self) -> Result<Self, GraphError> {
        const COPY: &str = "copy";
        let clone = self.table.clone.ok_or_else(|| lacks(COPY, "reapi_cli_clone"))?;
        // SAFETY: our context.
        let Some(ctx) = NonNull::new(unsafe { clone(self.raw()) }) else {
            self.check(COPY, -1)?;
            return Err(lacks(COPY, "memory"));
        };
        Ok(Context { ctx, table: self.table, buffer: String::new() })
    }

    /// Adds the vertices of a JGF document.
    pub(super) fn add_subgraph(
        &mut self,
        operation: &'static str,
        fill: impl FnOnce(&mut String),
    ) -> Result<(), GraphError> {
        let function =
            self.table.add_subgraph.ok_or_else(|| lacks(operation, "reapi_cli_add_subgraph"))?;
        let document = self.write(operation, fill)?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { function(self.raw(), document) };
        self.check(operation, rc)
    }

    /// Removes what lies at a path and below.
    pub(super) fn remove_subgraph(
        &mut self,
        operation: &'static str,
        path: &str,
    ) -> Result<(), GraphError> {
        let function = self
            .table
            .remove_subgraph
            .ok_or_else(|| lacks(operation, "reapi_cli_remove_subgraph"))?;
        let path = self.write(operation, |out| out.push_str(path))?;
        // SAFETY: our context, a string that ends in NUL and lives through the call.
        let rc = unsafe { function(self.raw(), path) };
        self.check(operation, rc)
    }

    /// Matches a jobspec; the library chooses the job's id.
    pub(super) fn matched(
        &mut self,
        operation: &'static str,
        op: match_op_t,
        fill: impl FnOnce(&mut String),
    ) -> Result<Matched, GraphError> {
        let function = self.table.match_op.ok_or_else(|| lacks(operation, "reapi_cli_match"))?;
        self.matching(operation, 0, fill, |ctx, jobspec, job, reserved, r, at, overhead| {
            // SAFETY: as `matching` promises.
            unsafe { function(ctx, op, jobspec, job, reserved, r, at, overhead) }
        })
    }

    /// Matches a jobspec under this id.
    pub(super) fn matched_as(
        &mut self,
        operation: &'static str,
        op: match_op_t,
        job: u64,
        fill: impl FnOnce(&mut String),
    ) -> Result<Matched, GraphError> {
        let function = self
            .table
            .match_with_jobid
            .ok_or_else(|| lacks(operation, "reapi_cli_match_with_jobid"))?;
        self.matching(operation, job, fill, |ctx, jobspec, _, reserved, r, at, overhead| {
            // SAFETY: as `matching` promises.
            unsafe { function(ctx, op, jobspec, job, reserved, r, at, overhead) }
        })
    }

    /// `call` gets our context, a string that ends in NUL, and places for the answers, all of which
    /// live through it.
    fn matching(
        &mut self,
        operation: &'static str,
        mut job: u64,
        fill: impl FnOnce(&mut String),
        call: impl FnOnce(
            *mut reapi_cli_ctx_t,
            *const c_char,
            *mut u64,
            *mut bool,
            *mut *mut c_char,
            *mut i64,
            *mut f64,
        ) -> c_int,
    ) -> Result<Matched, GraphError> {
        let jobspec = self.write(operation, fill)?;
        let (mut reserved, mut r, mut at, mut overhead) = (false, ptr::null_mut(), 0, 0.0);
        let places = (&raw mut job, &raw mut reserved, &raw mut r, &raw mut at, &raw mut overhead);
        let rc = call(self.raw(), jobspec, places.0, places.1, places.2, places.3, places.4);
        self.check(operation, rc)?;
        Ok(Matched { job, r: take(r), at })
    }

    /// Gives back everything of a job. One that has ended already is none the worse.
    pub(super) fn cancel(&mut self, job: u64) -> Result<(), GraphError> {
        // SAFETY: our context.
        let rc = unsafe { (self.table.cancel)(self.raw(), job, true) };
        self.check("cancel", rc)
    }

    /// Gives back the slots of a job on the ranks of an R; true if the job has none left.
    pub(super) fn partial_cancel(
        &mut self,
        job: u64,
        fill: impl FnOnce(&mut String),
    ) -> Result<bool, GraphError> {
        const PARTIAL_CANCEL: &str = "partial_cancel";
        let function = self
            .table
            .partial_cancel
            .ok_or_else(|| lacks(PARTIAL_CANCEL, "reapi_cli_partial_cancel"))?;
        let r = self.write(PARTIAL_CANCEL, fill)?;
        let mut all = false;
        // SAFETY: our context, a string that ends in NUL and lives through the call, a place for
        // the answer.
        let rc = unsafe { function(self.raw(), job, r, false, &raw mut all) };
        self.check(PARTIAL_CANCEL, rc)?;
        Ok(all)
    }

    /// Writes an argument into the buffer, which keeps it until the next one.
    pub(super) fn write(
        &mut self,
        operation: &'static str,
        fill: impl FnOnce(&mut String),
    ) -> Result<*const c_char, GraphError> {
        if self.buffer.capacity() > BUFFER_BYTES_MAX {
            self.buffer = String::new();
        }
        self.buffer.clear();
        fill(&mut self.buffer);
        self.buffer.push('\0');
        match CStr::from_bytes_with_nul(self.buffer.as_bytes()) {
            Ok(text) => Ok(text.as_ptr()),
            Err(_) => Err(with_nul(operation)),
        }
    }

    pub(super) fn raw(&self) -> *mut reapi_cli_ctx_t {
        self.ctx.as_ptr()
    }

    /// Reads errno right after a call that failed, and takes the text that it left.
    pub(super) fn check(&mut self, operation: &'static str, rc: c_int) -> Result<(), GraphError> {
        if rc == 0 {
            return Ok(());
        }
        let errno = errno::get();
        // These are answers, frequent, and leave no text.
        if matches!(errno, errno::EBUSY | errno::ENODEV | errno::EAGAIN) {
            return Err(GraphError { operation, errno, text: String::new() });
        }
        // SAFETY: our context.
        let text = take(unsafe { (self.table.get_err_msg)(self.raw()) });
        // SAFETY: our context.
        unsafe { (self.table.clear_err_msg)(self.raw()) };
        Err(GraphError { operation, errno, text: text.trim_end().to_owned() })
    }
}

/// A string that the library has handed out, freed after it is copied. "" for NULL.
pub(super) fn take(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: strings that the library hands out end in NUL, and are ours until we free them.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        free(text.cast());
        copy
    }
}

/// Makes the error for a library that lacks a needed function.
pub(super) fn lacks(operation: &'static str, what: &str) -> GraphError {
    GraphError {
        operation,
        errno: errno::ENOSYS,
        text: format!("the Fluxion library lacks {what}"),
    }
}

pub(super) fn with_nul(operation: &'static str) -> GraphError {
    GraphError {
        operation,
        errno: errno::EINVAL,
        text: "an argument holds a NUL character".to_owned(),
    }
}
