//! The project's own shared library, opened as any other; and a copy of it with extensions that
//! have other names.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr;

use fluxion_sys::{FunctionTable, errno, match_op};

use crate::Session;

const GRAPH: &str = r#"{"graph":{"nodes":[
    {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}},
    {"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/cluster0/node0"}}},
    {"id":"2","metadata":{"type":"core","id":0,"rank":0,"paths":{"containment":"/cluster0/node0/core0"}}}],
    "edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}"#;
const OPTIONS: &str = r#"{"load_format":"jgf","matcher_policy":"first","match_format":"jgf"}"#;
const CORE: &str = r#"{"version":1,"resources":[{"type":"slot","count":1,"label":"s","with":[{"type":"core","count":1}]}],
    "tasks":[{"command":["a"],"slot":"s","count":{"per_slot":1}}],"attributes":{"system":{"duration":60}}}"#;

/// The library that cargo built with this test: beside it, or one directory up.
fn shared_library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let candidates =
        test.ancestors().skip(1).take(2).map(|directory| directory.join("libfluxion_sys.so"));
    let found: Vec<PathBuf> = candidates.filter(|path| path.exists()).collect();
    found.first().unwrap_or_else(|| panic!("no libfluxion_sys.so near {}", test.display())).clone()
}

/// A copy in which fluxion_ext_* are not to be found: the linker's hash of a changed name does not
/// match it.
fn without_extensions(library: &Path) -> PathBuf {
    let mut bytes = std::fs::read(library).unwrap();
    let (name, other) = (b"fluxion_ext_", b"fluxion_EXT_");
    for at in 0..bytes.len() - name.len() {
        if bytes[at..].starts_with(name) {
            bytes[at..at + name.len()].copy_from_slice(other);
        }
    }
    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("without-{}.so", std::process::id()));
    std::fs::write(&copy, bytes).unwrap();
    copy
}

fn allocates_once(table: FunctionTable) {
    let session = Session::without_graph(table);
    assert_eq!(session.initialize(GRAPH, OPTIONS), 0, "{}", session.message());
    let first = session.matched(CORE, Some(1));
    assert_eq!(first.rc, 0, "{}", session.message());
    assert!(first.r.unwrap().contains("/cluster0/node0/core0"));
    assert_eq!(session.matched(CORE, Some(2)).errno, errno::EBUSY);
    assert_eq!(session.matched(CORE, Some(1)).errno, errno::EEXIST);
    assert_eq!(session.matched("{", Some(3)).errno, errno::EINVAL);
    assert!(!session.message().is_empty());
}

#[test]
fn ours_serves_as_a_system_library() {
    let table = FunctionTable::open(&shared_library()).unwrap();
    allocates_once(table);
    let extensions = table.extensions.expect("ours has them");
    let session = Session::without_graph(table);
    let options = r#"{"load_format":"jgf","matcher_policy":"first","match_format":"placement","pool_types":["*"]}"#;
    assert_eq!(session.initialize(GRAPH, options), 0, "{}", session.message());
    let (mut usage, mut parts) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: our context and places.
    unsafe {
        assert_eq!((extensions.set_time)(session.ctx, 10), 0);
        assert_eq!(
            (extensions.resize)(session.ctx, 0, c"cpu".as_ptr(), 4000),
            0,
            "{}",
            session.message()
        );
        assert_eq!((extensions.usage)(session.ctx, 0, &raw mut usage), 0, "{}", session.message());
        assert_eq!((extensions.usage)(session.ctx, 7, std::ptr::null_mut()), -1);
        let set_part = extensions.set_part;
        assert_eq!(
            set_part(session.ctx, c"zone".as_ptr(), c"0".as_ptr(), c"a".as_ptr()),
            0,
            "{}",
            session.message()
        );
        assert_eq!(set_part(session.ctx, c"zone".as_ptr(), c"x".as_ptr(), c"a".as_ptr()), -1);
        assert_eq!(
            (extensions.parts)(session.ctx, c"zone".as_ptr(), &raw mut parts),
            0,
            "{}",
            session.message()
        );
    }
    assert!(Session::take(usage).contains(r#""size":4000"#));
    let parts = Session::take(parts);
    assert!(
        parts.contains(r#"{"part":"a","ranks":"0","free":{"#) && parts.contains(r#""cpu":4000"#),
        "{parts}"
    );
}

#[test]
fn ours_without_extensions_is_a_plain_library() {
    let table = FunctionTable::open(&without_extensions(&shared_library())).unwrap();
    assert!(table.extensions.is_none());
    allocates_once(table);
    let session = Session::without_graph(table);
    assert_eq!(
        (session.initialize(GRAPH, r#"{"load_format":"jgf","pool_types":["*"]}"#), errno::get()),
        (-1, errno::EPROTO)
    );
}

/// One rule for the built-in library and for one behind the barrier: no place is written to where
/// one of them is NULL, and nothing is taken.
#[test]
fn a_match_without_all_places_for_its_answer_writes_to_none() {
    let spec = CString::new(CORE).unwrap();
    for table in [FunctionTable::builtin(), FunctionTable::open(&shared_library()).unwrap()] {
        let session = Session::without_graph(table);
        assert_eq!(session.initialize(GRAPH, OPTIONS), 0, "{}", session.message());
        for missing in 0..4 {
            let (mut reserved, mut r, mut at, mut ov) = (true, ptr::null_mut(), -1, -1.0);
            errno::set(0);
            // SAFETY: our context, our string, and places of which one is NULL on purpose.
            let rc = unsafe {
                table.match_with_jobid.unwrap()(
                    session.ctx,
                    match_op::ALLOCATE,
                    spec.as_ptr(),
                    1,
                    if missing == 0 { ptr::null_mut() } else { &raw mut reserved },
                    if missing == 1 { ptr::null_mut() } else { &raw mut r },
                    if missing == 2 { ptr::null_mut() } else { &raw mut at },
                    if missing == 3 { ptr::null_mut() } else { &raw mut ov },
                )
            };
            assert_eq!((rc, errno::get()), (-1, errno::EINVAL), "place {missing}");
            assert_eq!((reserved, r.is_null(), at, ov), (true, true, -1, -1.0), "place {missing}");
        }
        // A failed match puts its times.
        assert_eq!(session.matched("{", Some(1)).at, 0);
        assert_eq!(session.matched(CORE, Some(1)).rc, 0, "{}", session.message());
    }
}
