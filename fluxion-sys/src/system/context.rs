//! Contexts of a system library as our callers see them, and calls on them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::barrier::{self, Ctx, Outcome};
use super::library::Library;
use crate::builtin::{Failure, text};
use crate::errno;
use crate::messages::Messages;
use crate::table::FunctionTable;

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

/// The target of a `reapi_cli_ctx_t *` of a system library.
pub(super) struct Context {
    pub(super) library: &'static Library,
    /// The library's own context; not NULL.
    pub(super) inner: Ctx,
    pub(super) has_graph: bool,
    /// A call that could change something threw; its half-done change cannot be trusted.
    lost: bool,
    /// The texts of its failures: those that the library noted, and those of this side.
    pub(super) messages: Messages,
}

/// The effect of a call on the graph of the context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    Changes,
}

/// All calls into system libraries take turns.
pub(super) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    pub(super) fn new(library: &'static Library, inner: Ctx, has_graph: bool) -> Self {
        Context { library, inner, has_graph, lost: false, messages: Messages::default() }
    }

    pub(super) fn raw(&self) -> &'static FunctionTable {
        &self.library.raw
    }

    /// Calls the library through a function of the barrier, and judges the outcome: a thrown
    /// exception and -1 are failures.
    ///
    /// # Safety
    /// `call` passes the outcome and this context's `inner` to a function of the barrier, with
    /// arguments that the function allows.
    pub(super) unsafe fn ask(
        &mut self,
        effect: Effect,
        call: impl FnOnce(*mut Outcome, Ctx),
    ) -> Result<(), Failure> {
        if self.lost {
            let text = "an earlier exception left the context in an unknown state".to_owned();
            return Err(Failure { errno: errno::EFAULT, text });
        }
        let mut outcome = Outcome::new();
        call(&raw mut outcome, self.inner);
        if let Some(what) = outcome.exception() {
            self.lost |= effect == Effect::Changes;
            let text = format!("the library threw an exception: {what}");
            return Err(Failure { errno: outcome.errno(), text });
        }
        if outcome.rc != 0 {
            // The library has its own text of it, which `take_texts` takes.
            return Err(Failure { errno: outcome.errno(), text: String::new() });
        }
        Ok(())
    }

    /// Notes a text for get_err_msg.
    pub(super) fn note(&mut self, function: &str, text: &str) {
        if !text.is_empty() {
            self.messages.note(&format!("{function}: ERROR: {text}\n"));
        }
    }

    /// Moves the texts that the library has noted to those of the context. Upstream notes all in
    /// one text of the process, which the next call on any context would show.
    fn take_texts(&mut self) {
        let mut outcome = Outcome::new();
        // SAFETY: the library's own context; the result is ours.
        let noted = unsafe {
            let function = self.raw().get_err_msg;
            Owned::of(barrier::fluxion_barrier_message(function, &raw mut outcome, self.inner))
        };
        if noted.bytes().is_empty() {
            return;
        }
        // Upstream quotes text that it could not read, so this need not be UTF-8.
        self.messages.note(&String::from_utf8_lossy(noted.bytes()));
        let clear = self.raw().clear_err_msg;
        // SAFETY: the library's own context.
        unsafe { barrier::fluxion_barrier_void(clear, &raw mut outcome, self.inner) };
    }

    pub(super) fn need_graph(&self) -> Result<(), Failure> {
        if self.has_graph { Ok(()) } else { Err(Failure::invalid("the context has no graph")) }
    }
}

/// The table has no entry then, so no call gets here.
pub(super) fn absent() -> Failure {
    Failure { errno: errno::ENOSYS, text: "not in this library".to_owned() }
}

/// Runs one call on a context that has a graph, while no other call runs.
///
/// # Safety
/// `ctx` is NULL, or came from `new` or `clone` of a table of this module, was not destroyed, and
/// is not used by another thread meanwhile.
pub(super) unsafe fn with_graph(
    ctx: Ctx,
    function: &str,
    work: impl FnOnce(&mut Context) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_context(ctx, function, |context| {
            context.need_graph()?;
            work(context)
        })
    }
}

/// Runs one call on a context with or without a graph, while no other call runs.
///
/// # Safety
/// As for [`with_graph`].
pub(super) unsafe fn with_context(
    ctx: Ctx,
    function: &str,
    work: impl FnOnce(&mut Context) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller's promise; this module makes contexts of no other type.
    let Some(context) = (unsafe { ctx.cast::<Context>().as_mut() }) else {
        errno::set(errno::EINVAL);
        return -1;
    };
    let result = {
        let _turn = turn();
        let result = work(context);
        context.take_texts();
        result
    };
    match result {
        Ok(()) => 0,
        Err(failure) => {
            context.note(function, &failure.text);
            errno::set(failure.errno);
            -1
        }
    }
}

/// A string that a library handed out; freed when dropped.
pub(super) struct Owned(*mut c_char);

impl Owned {
    /// Nothing yet: a library fills it through [`Owned::slot`].
    pub(super) fn empty() -> Self {
        Owned(std::ptr::null_mut())
    }

    /// # Safety
    /// `text` is NULL, or ends in NUL, came from malloc and has no other owner.
    pub(super) unsafe fn of(text: *mut c_char) -> Self {
        Owned(text)
    }

    pub(super) fn slot(&mut self) -> *mut *mut c_char {
        &raw mut self.0
    }

    /// Lets go of the pointer that a failed call left: it may be anything.
    pub(super) fn forget(mut self) {
        self.0 = std::ptr::null_mut();
    }

    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        if self.0.is_null() {
            return b"";
        }
        // SAFETY: a library that succeeded hands out a string, and it is ours.
        unsafe { CStr::from_ptr(self.0) }.to_bytes()
    }

    /// Hands it to the caller, which frees it; NULL becomes "" where there must be a string.
    pub(super) fn hand_over(mut self) -> *mut c_char {
        let text = std::mem::replace(&mut self.0, std::ptr::null_mut());
        if text.is_null() { text::copy("") } else { text }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: NULL, or a string from malloc that is ours.
        unsafe { free(self.0.cast()) };
    }
}
