//! Contexts: each has its own texts of failures, and one graph at a time.
#![allow(unsafe_code, reason = "calls the C functions")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::thread;

use fluxion_sys::{FunctionTable, errno, reapi_cli_ctx_t};

const GRAPH: &CStr = cr#"{"graph":{"nodes":[
    {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}],"edges":[]}}"#;
const OPTIONS: &CStr = cr#"{"load_format":"jgf"}"#;

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

/// A context of the built-in library. It may move between threads, as the header says.
struct Context(*mut reapi_cli_ctx_t);

// SAFETY: by the header a context may move between threads; a test uses it on one at a time.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: our context, used no more.
        unsafe { (FunctionTable::builtin().destroy)(self.0) };
    }
}

impl Context {
    fn new() -> Self {
        let table = FunctionTable::builtin();
        // SAFETY: a context may be made at any time; texts that live for ever.
        unsafe {
            let context = Context((table.new)());
            assert_eq!((table.initialize)(context.0, GRAPH.as_ptr(), OPTIONS.as_ptr()), 0);
            context
        }
    }

    /// Fails, with a text that names the job.
    fn fail(&self, job: u64) {
        // SAFETY: our context.
        assert_eq!(unsafe { (FunctionTable::builtin().cancel)(self.0, job, false) }, -1);
    }

    fn text(&self) -> String {
        text_of(self.0)
    }

    fn clear(&self) {
        // SAFETY: our context.
        unsafe { (FunctionTable::builtin().clear_err_msg)(self.0) };
    }

    fn copy(&self) -> Self {
        let clone = FunctionTable::builtin().clone.expect("the built-in library has it");
        // SAFETY: our context.
        let copy = Context(unsafe { clone(self.0) });
        assert!(!copy.0.is_null());
        copy
    }
}

fn text_of(ctx: *mut reapi_cli_ctx_t) -> String {
    // SAFETY: a context, or NULL; the text is ours.
    unsafe {
        let text: *mut c_char = (FunctionTable::builtin().get_err_msg)(ctx);
        let copy = CStr::from_ptr(text).to_str().expect("UTF-8").to_owned();
        free(text.cast());
        copy
    }
}

#[test]
fn contexts_of_one_thread_do_not_show_each_others_texts() {
    let (one, other) = (Context::new(), Context::new());
    one.fail(5);
    assert!(one.text().contains("job 5"), "{}", one.text());
    assert_eq!(other.text(), "");
    other.fail(6);
    assert!(!other.text().contains("job 5") && other.text().contains("job 6"));
    other.clear();
    assert!(one.text().contains("job 5"), "the clear was another context's");
    drop(one);
    assert_eq!(other.text(), "");
    assert_eq!(Context::new().text(), "", "a text of a context that is gone");
}

#[test]
fn a_context_takes_its_texts_to_another_thread() {
    let context = Context::new();
    context.fail(5);
    let context = thread::spawn(move || {
        assert!(context.text().contains("job 5"));
        context.fail(6);
        context
    });
    let context = context.join().expect("it does not panic");
    assert!(context.text().contains("job 5") && context.text().contains("job 6"));
}

#[test]
fn a_clone_begins_with_the_texts_and_has_its_own_from_then_on() {
    let context = Context::new();
    context.fail(5);
    let copy = context.copy();
    assert_eq!(copy.text(), context.text());
    copy.fail(6);
    assert!(copy.text().contains("job 6") && !context.text().contains("job 6"));
    context.clear();
    assert!(copy.text().contains("job 5"));
}

#[test]
fn without_a_context_there_is_one_text_alone() {
    let context = Context::new();
    context.fail(5);
    // SAFETY: NULL is the point of the test.
    unsafe {
        assert_eq!((FunctionTable::builtin().cancel)(ptr::null_mut(), 7, false), -1);
        (FunctionTable::builtin().clear_err_msg)(ptr::null_mut());
    }
    assert_eq!(text_of(ptr::null_mut()), "ERROR: reapi_cli context is null\n");
    assert_eq!(errno::get(), errno::EINVAL);
    assert!(context.text().contains("job 5") && !context.text().contains("job 7"));
}

/// Q13.
#[test]
fn a_second_graph_takes_the_first_away_also_where_it_cannot_be_read() {
    let table = FunctionTable::builtin();
    let cancel = |context: &Context| {
        // SAFETY: our context.
        let rc = unsafe { (table.cancel)(context.0, 5, true) };
        (rc, if rc == 0 { 0 } else { errno::get() })
    };
    let context = Context::new();
    assert_eq!(cancel(&context), (0, 0));
    // SAFETY: our context; texts that live for ever.
    unsafe {
        assert_eq!((table.initialize)(context.0, c"{".as_ptr(), OPTIONS.as_ptr()), -1);
    }
    assert_eq!(errno::get(), errno::EPROTO);
    assert_eq!(cancel(&context), (-1, errno::EINVAL));
}
