//! The target of a context, and how a call on it runs.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fluxion_engine::Engine;

use super::failure::Failure;
use crate::abi::reapi_cli_ctx_t;
use crate::errno;
use crate::messages::Messages;

/// The target of a `reapi_cli_ctx_t *` of this library.
#[derive(Default)]
pub(super) struct Handle {
    pub(super) engine: Option<Engine>,
    /// The texts of its failures.
    pub(super) messages: Messages,
}

impl Handle {
    /// The graph; an error if there is none.
    pub(super) fn engine(&mut self) -> Result<&mut Engine, Failure> {
        self.engine.as_mut().ok_or_else(|| Failure::invalid(""))
    }

    /// Notes the text of a failure.
    pub(super) fn note(&mut self, function: &str, text: &str) {
        if !text.is_empty() {
            // As upstream names them: most texts come from within.
            let function = match function {
                "reapi_cli_initialize" | "reapi_cli_find" => function,
                other => other.strip_prefix("reapi_cli_").unwrap_or(other),
            };
            self.messages.note(&format!("{function}: ERROR: {text}\n"));
        }
    }
}

/// A defect in a function, if a test of defects asks for it (`tests/panics.rs`). Not in the shipped
/// library.
#[cfg(fluxion_defects)]
pub(super) fn defect(function: &str) {
    if std::env::var("FLUXION_DEFECT_IN").is_ok_and(|wanted| wanted == function) {
        panic!("{function}: a defect, as wanted");
    }
}

#[cfg(not(fluxion_defects))]
pub(super) fn defect(_: &str) {}

/// Runs one call on a context.
///
/// # Safety
/// `ctx` is NULL, or came from `reapi_cli_new` or `reapi_cli_clone` of this library, was not
/// destroyed, and is not used by another thread meanwhile.
pub(super) unsafe fn call(
    ctx: *mut reapi_cli_ctx_t,
    function: &str,
    work: impl FnOnce(&mut Handle) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller's promise; this library makes contexts of no other type.
    let Some(context) = (unsafe { ctx.cast::<Handle>().as_mut() }) else {
        errno::set(errno::EINVAL);
        return -1;
    };
    // A panic must not cross into C. A call that had only asked is taken back; a change that was
    // left half done cannot be trusted, and the graph is given up.
    let work = || {
        if let Some(engine) = &mut context.engine {
            engine.begin_call();
        }
        defect(function);
        work(context)
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => {
            context.note(function, &failure.text);
            errno::set(failure.errno);
            -1
        }
        Err(_) => {
            let engine = context.engine.take();
            // The engine that is dropped here may be in any state: that must not panic into C
            // either.
            let take_back =
                || engine.and_then(|mut engine| engine.take_back_question().then_some(engine));
            context.engine = catch_unwind(AssertUnwindSafe(take_back)).unwrap_or_default();
            let (errno, text) = if context.engine.is_some() {
                (errno::ECANCELED, "a defect of the library was caught, nothing has changed")
            } else {
                (errno::EFAULT, "a defect of the library was caught, the graph is lost")
            };
            context.note(function, text);
            errno::set(errno);
            -1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = r#"{"graph":{"nodes":[{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}],"edges":[]}}"#;

    const OPTIONS: &str = r#"{"load_format":"jgf"}"#;

    /// Runs a call in which there is a defect. Returns its errno, and true if the graph is left.
    fn run(work: impl FnOnce(&mut Handle) -> Result<(), Failure>) -> (c_int, bool) {
        let mut context =
            Handle { engine: Some(Engine::new(GRAPH, OPTIONS).unwrap()), ..Handle::default() };
        let ctx = std::ptr::from_mut(&mut context).cast();
        // SAFETY: a live context that nothing else uses.
        assert_eq!(unsafe { call(ctx, "test", work) }, -1);
        let errno = errno::get();
        // SAFETY: as above.
        let answers = unsafe {
            call(ctx, "test", |context| {
                Ok(context.engine()?.asking(|engine| engine.status("/c0")).map(drop)?)
            })
        };
        (errno, answers == 0)
    }

    #[test]
    fn a_defect_in_a_question_costs_its_answer_alone() {
        let in_question = |context: &mut Handle| {
            context.engine()?.asking(|_| -> Result<(), Failure> { panic!("a defect, as wanted") })
        };
        assert_eq!(run(in_question), (errno::ECANCELED, true));
        let before_a_change = |context: &mut Handle| {
            context.engine()?.cancel(1).unwrap_err();
            context.engine()?.add_subgraph("{").unwrap_err();
            panic!("a defect, as wanted")
        };
        assert_eq!(run(before_a_change), (errno::ECANCELED, true));
        let after_a_change = |context: &mut Handle| {
            context.engine()?.set_status("/c0", false)?;
            panic!("a defect, as wanted")
        };
        assert_eq!(run(after_a_change), (errno::EFAULT, false));
    }
}
