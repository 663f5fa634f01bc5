//! A system library behind the table: one of our own that misbehaves, and our cdylib with and
//! without its extensions.
#![allow(unsafe_code, reason = "calls the functions of a table")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod ours;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::ptr;
use std::sync::Mutex;

use fluxion_sys::system::OpenError;
use fluxion_sys::{FunctionTable, errno, match_op, reapi_cli_ctx_t};

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

/// misbehaving.cpp as of a version of Fluxion, compiled once: tests run side by side.
fn misbehaving(version: u32) -> PathBuf {
    static COMPILED: Mutex<BTreeMap<u32, PathBuf>> = Mutex::new(BTreeMap::new());
    COMPILED.lock().unwrap().entry(version).or_insert_with(|| compile(version)).clone()
}

fn compile(version: u32) -> PathBuf {
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let compiler = cc::Build::new()
        .cpp(true)
        .target(&host)
        .host(&host)
        .opt_level(0)
        .cargo_metadata(false)
        .get_compiler();
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let library = directory.join(format!("misbehaving-{version}-{}.so", std::process::id()));
    let build = Command::new(compiler.path())
        .args(["-std=c++17", "-Wall", "-shared", "-fPIC", "-g"])
        .arg(format!("-DVERSION={version}"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/system/misbehaving.cpp"))
        .arg("-o")
        .arg(&library)
        .output()
        .expect("there is a C++ compiler");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    library
}

/// A context, and how a test uses it.
struct Session {
    table: FunctionTable,
    ctx: *mut reapi_cli_ctx_t,
}

impl Drop for Session {
    fn drop(&mut self) {
        errno::set(3);
        // SAFETY: our context, used no more.
        unsafe { (self.table.destroy)(self.ctx) };
        assert_eq!(errno::get(), 3, "destroy keeps errno");
    }
}

/// The outputs of a match.
#[derive(Debug, PartialEq)]
struct Matched {
    rc: i32,
    errno: i32,
    jobid: u64,
    r: Option<String>,
    at: i64,
}

impl Session {
    fn without_graph(table: FunctionTable) -> Self {
        // SAFETY: may be called at any time.
        let ctx = unsafe { (table.new)() };
        assert!(!ctx.is_null());
        Session { table, ctx }
    }

    fn new(table: FunctionTable) -> Self {
        let session = Session::without_graph(table);
        assert_eq!(session.initialize("graph", "{}"), 0, "{}", session.message());
        session
    }

    fn initialize(&self, graph: &str, options: &str) -> i32 {
        let (graph, options) = (CString::new(graph).unwrap(), CString::new(options).unwrap());
        // SAFETY: our context, our strings.
        unsafe { (self.table.initialize)(self.ctx, graph.as_ptr(), options.as_ptr()) }
    }

    /// By the id, or by one that the library chooses.
    fn matched(&self, jobspec: &str, id: Option<u64>) -> Matched {
        let jobspec = CString::new(jobspec).unwrap();
        let (mut jobid, mut reserved, mut at, mut ov) = (0, false, -1, -1.0);
        let untouched = c"untouched".as_ptr().cast_mut();
        let mut r = untouched;
        errno::set(0);
        // SAFETY: our context, our string, our places.
        let rc = unsafe {
            match id {
                None => (self.table.match_allocate)(
                    self.ctx,
                    false,
                    jobspec.as_ptr(),
                    &raw mut jobid,
                    &raw mut reserved,
                    &raw mut r,
                    &raw mut at,
                    &raw mut ov,
                ),
                Some(id) => self.table.match_with_jobid.unwrap()(
                    self.ctx,
                    match_op::ALLOCATE,
                    jobspec.as_ptr(),
                    id,
                    &raw mut reserved,
                    &raw mut r,
                    &raw mut at,
                    &raw mut ov,
                ),
            }
        };
        let errno = if rc == 0 { 0 } else { errno::get() };
        let r = (r != untouched).then(|| Session::take(r));
        Matched { rc, errno, jobid, r, at }
    }

    fn take(text: *mut c_char) -> String {
        // SAFETY: a string that the table handed out, which is ours.
        unsafe {
            let copy = CStr::from_ptr(text).to_str().unwrap().to_owned();
            free(text.cast());
            copy
        }
    }

    fn message(&self) -> String {
        // SAFETY: our context.
        Session::take(unsafe { (self.table.get_err_msg)(self.ctx) })
    }

    fn has_job(&self, jobid: u64) -> bool {
        let (mut mode, mut reserved, mut at, mut ov) = (ptr::null_mut(), false, 0, 0.0);
        // SAFETY: our context, our places.
        let rc = unsafe {
            (self.table.info)(
                self.ctx,
                jobid,
                &raw mut mode,
                &raw mut reserved,
                &raw mut at,
                &raw mut ov,
            )
        };
        if rc == 0 {
            Session::take(mode);
        } else {
            assert!(mode.is_null(), "a failed call hands nothing out");
            assert_eq!(errno::get(), errno::ENOENT);
        }
        rc == 0
    }
}

#[test]
fn exceptions_become_errno_and_text() {
    let table = FunctionTable::open(&misbehaving(54)).unwrap();
    for (jobspec, errno, text) in [
        ("throw runtime_error", errno::EFAULT, "no such thing"),
        ("throw out_of_range", errno::EINVAL, "map::at"),
        ("throw bad_alloc", errno::ENOMEM, "bad_alloc"),
        ("throw int", errno::EFAULT, "not a std::exception"),
    ] {
        let session = Session::new(table);
        let matched = session.matched(jobspec, None);
        assert_eq!((matched.rc, matched.errno, matched.r), (-1, errno, None), "{jobspec}");
        assert!(session.message().contains(text), "{jobspec}: {}", session.message());
        // A half-done change is not built upon.
        assert_eq!(session.matched("fine", None).errno, errno::EFAULT);
    }
    let session = Session::without_graph(table);
    assert_eq!((session.initialize("throw", "{}"), errno::get()), (-1, errno::EFAULT));
    assert!(session.message().contains("cannot be read"));
    // One that only looks leaves the context as it is.
    let session = Session::new(table);
    let mut found = ptr::null_mut();
    // SAFETY: our context and places.
    let rc =
        unsafe { table.find.unwrap()(session.ctx, c"throw".as_ptr(), ptr::null(), &raw mut found) };
    assert_eq!((rc, errno::get()), (-1, errno::EFAULT));
    assert_eq!(session.matched("fine", None).rc, 0);
    assert_eq!(session.matched("fine", Some(13)).rc, 0);
    // SAFETY: our context.
    assert!(unsafe { table.clone.unwrap()(session.ctx) }.is_null());
    assert_eq!(errno::get(), errno::EFAULT);
}

#[test]
fn nonsense_is_taken_back() {
    let session = Session::new(FunctionTable::open(&misbehaving(54)).unwrap());
    for jobspec in ["without R", "bytes"] {
        for id in [None, Some(40)] {
            let matched = session.matched(jobspec, id);
            assert_eq!(
                (matched.rc, matched.errno, matched.r),
                (-1, errno::EFAULT, None),
                "{jobspec}"
            );
        }
    }
    assert!(!session.has_job(40) && !session.has_job(1) && !session.has_job(2));
    let matched = session.matched("{\"any\": \"text\"}", Some(40));
    assert_eq!(
        (matched.rc, matched.r.as_deref(), matched.at),
        (0, Some("{\"any\": \"text\"}"), 60)
    );
    for jobspec in ["without R", "bytes"] {
        let (r, mut at, mut ov, mut out) = (CString::new(jobspec).unwrap(), 0, 0.0, ptr::null());
        // SAFETY: our context and places.
        let rc = unsafe {
            (session.table.update_allocate)(
                session.ctx,
                41,
                r.as_ptr(),
                &raw mut at,
                &raw mut ov,
                &raw mut out,
            )
        };
        assert_eq!((rc, errno::get(), out.is_null()), (-1, errno::EFAULT, true));
    }
    assert!(!session.has_job(41));
    let mut status = 5;
    // SAFETY: our context and places.
    let rc = unsafe {
        session.table.get_status.unwrap()(session.ctx, c"/odd".as_ptr(), &raw mut status)
    };
    assert_eq!((rc, errno::get(), status), (-1, errno::EFAULT, 5));
}

#[test]
fn failures_keep_their_errno_and_hand_out_nothing() {
    let session = Session::new(FunctionTable::open(&misbehaving(54)).unwrap());
    let busy = session.matched("busy", None);
    assert_eq!((busy.rc, busy.errno, busy.r), (-1, errno::EBUSY, None));
    let silent = session.matched("fail silently", None);
    assert_eq!((silent.rc, silent.errno), (-1, errno::EINVAL), "there always is an errno");
    assert_eq!(session.matched("fail with bytes", None).errno, errno::EINVAL);
    assert!(session.message().contains("not UTF-8: \u{fffd}"), "{:?}", session.message());
    // SAFETY: our context.
    unsafe { (session.table.clear_err_msg)(session.ctx) };
    assert_eq!(session.message(), "");
    let (mut sat, mut ov) = (true, 0.0);
    // SAFETY: our context and places.
    let rc = unsafe {
        session.table.match_satisfy.unwrap()(
            session.ctx,
            c"never".as_ptr(),
            &raw mut sat,
            &raw mut ov,
        )
    };
    assert_eq!((rc, errno::get(), sat), (-1, errno::ENODEV, false));
    let mut found = c"x".as_ptr().cast_mut();
    // SAFETY: our context and places.
    let rc = unsafe {
        session.table.find.unwrap()(session.ctx, c"nothing".as_ptr(), ptr::null(), &raw mut found)
    };
    assert_eq!((rc, found.is_null()), (0, true));
    // SAFETY: our context.
    let rc = unsafe { session.table.remove_subgraph.unwrap()(session.ctx, c"/x".as_ptr()) };
    assert_eq!((rc, errno::get()), (-1, errno::EINVAL));
}

#[test]
fn the_texts_of_one_for_all_contexts_go_to_the_context_that_failed() {
    let table = FunctionTable::open(&misbehaving(54)).unwrap();
    let (one, other) = (Session::new(table), Session::new(table));
    assert_eq!(one.matched("fail with bytes", None).errno, errno::EINVAL);
    assert_eq!(other.message(), "");
    // SAFETY: our context.
    unsafe { (table.clear_err_msg)(other.ctx) };
    assert!(one.message().contains("not UTF-8"), "{:?}", one.message());
}

#[test]
fn what_would_crash_never_gets_there() {
    let table = FunctionTable::open(&misbehaving(54)).unwrap();
    // SAFETY: NULL is the point of the test.
    unsafe {
        (table.destroy)(ptr::null_mut());
        (table.clear_err_msg)(ptr::null_mut());
        assert_eq!((table.cancel)(ptr::null_mut(), 1, false), -1);
        assert_eq!(errno::get(), errno::EINVAL);
    }
    let session = Session::without_graph(table);
    assert_eq!(session.matched("fine", None).errno, errno::EINVAL, "no graph yet");
    assert_eq!((session.initialize("graph", "no JSON"), errno::get()), (-1, errno::EPROTO));
    assert_eq!(
        (session.initialize("graph", r#"{"matcher_name":"x"}"#), errno::get()),
        (-1, errno::EPROTO)
    );
    assert_eq!((session.initialize("wrong", "{}"), errno::get()), (-1, errno::EPROTO));
    assert_eq!(session.initialize("graph", "{}"), 0);
    assert_eq!(
        (session.initialize("graph", "{}"), errno::get()),
        (-1, errno::EINVAL),
        "a second graph"
    );
    let mut all = false;
    // SAFETY: our context; NULL is the point of the test.
    unsafe {
        assert_eq!((table.initialize)(session.ctx, ptr::null(), ptr::null()), -1);
        assert_eq!(table.remove_subgraph.unwrap()(session.ctx, ptr::null()), -1);
        assert_eq!(errno::get(), errno::EINVAL);
        assert_eq!(table.set_status.unwrap()(session.ctx, c"/x".as_ptr(), 2), -1);
        let shared =
            c"{\"scheduling\":{\"graph\":{\"nodes\":[{\"metadata\":{\"name\":\"shared\"}}]}}}";
        assert_eq!(
            table.partial_cancel.unwrap()(session.ctx, 1, shared.as_ptr(), false, &raw mut all),
            -1
        );
        assert_eq!(errno::get(), errno::EINVAL);
    }
    assert_eq!(session.matched("fine", Some(5)).rc, 0);
    assert_eq!(session.matched("fine", Some(5)).errno, errno::EEXIST);
    assert_eq!(
        session.message().matches("nonexistent").count(),
        0,
        "looking for the id leaves no text"
    );
}

#[test]
fn versions_differ_in_what_they_have() {
    let old = FunctionTable::open(&misbehaving(26)).unwrap();
    assert!(
        old.match_op.is_none()
            && old.match_satisfy.is_none()
            && old.clone.is_none()
            && old.extensions.is_none()
    );
    assert_eq!(Session::new(old).matched("fine", None).rc, 0);
    let newer = FunctionTable::open(&misbehaving(33)).unwrap();
    assert!(
        newer.match_op.is_some()
            && newer.match_satisfy.is_some()
            && newer.match_with_jobid.is_none()
    );
    assert!(matches!(
        FunctionTable::open(&misbehaving(0)),
        Err(OpenError::Lacks { symbol: "reapi_cli_new", .. })
    ));
    assert!(matches!(FunctionTable::open("/nonexistent.so".as_ref()), Err(OpenError::Open { .. })));
}

#[test]
fn calls_take_turns() {
    let path = misbehaving(54);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let session = Session::new(FunctionTable::open(&path).unwrap());
                for _ in 0..25 {
                    assert_eq!(session.matched("slowly", None).rc, 0);
                }
            });
        }
    });
    let session = Session::new(FunctionTable::open(&path).unwrap());
    let (mut together, mut other, mut seconds) = ([-1i64], [0i64; 2], [0f64; 4]);
    let [edges, jobs] = &mut other;
    let [load, min, max, avg] = &mut seconds;
    let place = &raw mut together[0];
    // SAFETY: our context and places.
    let answer =
        unsafe { (session.table.stat)(session.ctx, place, edges, jobs, load, min, max, avg) };
    assert_eq!(answer, 0);
    assert_eq!(together, [0], "two calls were inside at once");
}
