//! The errno of each function: each row of docs/fluxion-errno.md is provoked here, and these rows
//! are the page. `FLUXION_SYS_REGENERATE=1` rewrites it.
#![allow(unsafe_code, reason = "calls the C functions")]

mod context;

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::fmt::Write as _;
use std::path::Path;

use context::{
    Context, cores, flexible, lone_node, many_shapes, pools, units, whole, whole_node, xor_slots,
};
use fluxion_sys::errno::{
    EAGAIN, EBUSY, EEXIST, EINVAL, ENODEV, ENOENT, ENOMEM, ENOSYS, ENOTSUP, EOVERFLOW, EPROTO,
};
use fluxion_sys::match_op::{
    ALLOCATE, ALLOCATE_ORELSE_RESERVE, ALLOCATE_W_SATISFIABILITY, SATISFIABILITY,
};
use fluxion_sys::match_op_t;

const HEAD: &str = "# Which function sets which errno

A function of `fluxion-sys/include/reapi_cli.h` that fails returns -1, or NULL, and sets errno. Each
of these rows is provoked by a test (`fluxion-sys/tests/errnos`), which also writes this page
(`FLUXION_SYS_REGENERATE=1`).

Besides, every function that takes a context sets EINVAL where that is NULL or has no graph, where a
pointer that it writes to is NULL, and where a text is NULL or no UTF-8; ENOMEM where there is no
memory for the answer; and, where a defect of the library was caught, ECANCELED if nothing has
changed, else EFAULT: then the graph is lost. A match with alternative slots may also set ERANGE: it
does not fit now, and one of the alternatives never does. `reapi_cli_destroy`,
`reapi_cli_clear_err_msg` and `match_op_valid` leave errno as it was.

| function | errno | when |
|---|---|---|
";

/// A way to fail.
struct Row {
    function: &'static str,
    errno: &'static str,
    when: &'static str,
}

/// The rows so far; each was seen.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    /// `seen`: errno after the call that failed; 0: it did not fail.
    fn row(&mut self, function: &'static str, wanted: c_int, seen: c_int, when: &'static str) {
        assert_eq!(name(seen), name(wanted), "{function}: {when}");
        self.0.push(Row { function, errno: name(wanted), when });
    }

    fn page(&self) -> String {
        let mut page = HEAD.to_owned();
        for Row { function, errno, when } in &self.0 {
            writeln!(page, "| `{function}` | {errno} | {when} |")
                .expect("a String takes everything");
        }
        page
    }
}

fn name(errno: c_int) -> &'static str {
    match errno {
        0 => "no failure",
        EAGAIN => "EAGAIN",
        EBUSY => "EBUSY",
        EEXIST => "EEXIST",
        EINVAL => "EINVAL",
        ENODEV => "ENODEV",
        ENOENT => "ENOENT",
        ENOMEM => "ENOMEM",
        ENOSYS => "ENOSYS",
        ENOTSUP => "ENOTSUP",
        EOVERFLOW => "EOVERFLOW",
        EPROTO => "EPROTO",
        _ => "another one",
    }
}

#[test]
fn the_page_has_a_row_for_each_errno_of_each_function() {
    let mut rows = Rows::default();
    contexts(&mut rows);
    let by_op: Match = |context, op, jobspec| context.match_op(op, jobspec);
    matches(&mut rows, "reapi_cli_match", by_op);
    let by_id: Match = |context, op, jobspec| context.match_with_jobid(op, jobspec, 5);
    matches(&mut rows, "reapi_cli_match_with_jobid", by_id);
    let full = pools();
    assert_eq!(full.match_with_jobid(ALLOCATE, &units(1), 7), 0);
    rows.row(
        "reapi_cli_match_with_jobid",
        EEXIST,
        full.match_with_jobid(ALLOCATE, &units(1), 7),
        "on a graph with pools a job of this id holds or will hold something",
    );
    let or_reserve: Match = |context, op, jobspec| context.match_allocate(op != ALLOCATE, jobspec);
    matches(&mut rows, "reapi_cli_match_allocate", or_reserve);
    satisfiability(&mut rows);
    jobs(&mut rows);
    graphs(&mut rows);
    extensions(&mut rows);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fluxion-errno.md");
    let page = rows.page();
    if std::env::var_os("FLUXION_SYS_REGENERATE").is_some() {
        std::fs::write(&path, &page).expect("docs/fluxion-errno.md can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("docs/fluxion-errno.md can be read");
    assert!(kept == page, "docs/fluxion-errno.md: set FLUXION_SYS_REGENERATE=1 to rewrite it");
    header_agrees(&rows);
    let twice: BTreeSet<_> = rows.0.iter().map(|row| (row.function, row.errno, row.when)).collect();
    assert_eq!(twice.len(), rows.0.len(), "a row is there twice");
}

/// Each errno that the header names at a function of upstream's has a row there, or is one that all
/// functions set. Comments on extensions also name those of other calls.
fn header_agrees(rows: &Rows) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/reapi_cli.h");
    let header = std::fs::read_to_string(path).expect("the header can be read");
    let functions: BTreeSet<&str> =
        rows.0.iter().map(|row| row.function).filter(|name| name.starts_with("reapi_")).collect();
    for function in functions {
        let prototype =
            header.find(&format!("{function} (")).expect("the header has each function");
        // Functions that one comment is about stand together.
        let before = header[..prototype].rfind("/*").expect("each function has a comment");
        let words = header[before..prototype].split(|c: char| !c.is_ascii_alphanumeric());
        for errno in words.filter(|word| is_errno(word)) {
            let has_row = rows.0.iter().any(|row| row.function == function && row.errno == errno);
            let is_general =
                matches!(errno, "EINVAL" | "ENOMEM" | "ECANCELED" | "EFAULT" | "ERANGE");
            assert!(has_row || is_general, "the header has {errno} at {function}, and no row does");
        }
    }
}

fn is_errno(word: &str) -> bool {
    let known = [
        "EAGAIN",
        "EBUSY",
        "EEXIST",
        "EINVAL",
        "ENODEV",
        "ENOENT",
        "ENOMEM",
        "ENOSYS",
        "ENOTSUP",
        "EOVERFLOW",
        "EPROTO",
        "ERANGE",
        "EFAULT",
        "ECANCELED",
    ];
    known.contains(&word)
}

type Match = fn(&Context, match_op_t, &str) -> c_int;

fn contexts(rows: &mut Rows) {
    rows.row("reapi_cli_clone", EINVAL, Context::empty().clone_of_it(), "the context has no graph");
    let when = "the graph or the options cannot be used";
    rows.row("reapi_cli_initialize", EPROTO, Context::empty().initialize("{", "{}"), when);
}

fn matches(rows: &mut Rows, function: &'static str, matching: Match) {
    let mut row = |errno, seen, when| rows.row(function, errno, seen, when);
    row(
        EINVAL,
        matching(&whole(), ALLOCATE, "{}"),
        "the jobspec is wrong, or the operation is none",
    );
    let full = whole();
    assert_eq!(full.match_op(ALLOCATE, &cores(2)), 0);
    row(EBUSY, matching(&full, ALLOCATE, &cores(1)), "it does not fit now");
    let reserving = ALLOCATE_ORELSE_RESERVE;
    row(
        ENODEV,
        matching(&whole(), reserving, &cores(3)),
        "it would not fit on the idle machine, of an operation that asks whether it ever would",
    );
    row(
        EAGAIN,
        matching(&pools(), ALLOCATE, &many_shapes()),
        "of several shapes on pools, of levels, or with a budget: no place was found, \
         and it is not proved that there is none",
    );
    let held = whole();
    assert_eq!(held.match_op(ALLOCATE, &whole_node()), 0);
    row(
        ENOENT,
        matching(&held, reserving, &lone_node()),
        "it fits later, and nothing of it would be taken",
    );
    row(
        EOVERFLOW,
        matching(&flexible(), ALLOCATE, &xor_slots()),
        "the choices of xor_slot multiply to too many",
    );
    row(
        ENOSYS,
        matching(&Context::of_whole("placement"), ALLOCATE, &cores(1)),
        "match_format placement has no words for whole vertices",
    );
}

fn satisfiability(rows: &mut Rows) {
    let mut row = |errno, seen, when| rows.row("reapi_cli_match_satisfy", errno, seen, when);
    row(EINVAL, whole().satisfy("{}"), "the jobspec is wrong");
    row(ENODEV, whole().satisfy(&cores(3)), "it would not fit on the idle machine");
    row(
        EAGAIN,
        pools().satisfy(&many_shapes()),
        "of several shapes on pools, of levels, or with a budget: no place was found, \
         and it is not proved that there is none",
    );
    row(
        EOVERFLOW,
        flexible().satisfy(&xor_slots()),
        "the choices of xor_slot multiply to too many",
    );
    let ever = whole().match_op(ALLOCATE_W_SATISFIABILITY, &cores(3));
    assert_eq!((ever, whole().match_op(SATISFIABILITY, &cores(3))), (ENODEV, ENODEV));
}

const R: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],
            "nodelist":["node0"],"starttime":0,"expiration":9}}"#;

fn jobs(rows: &mut Rows) {
    let mut row = |function, errno, seen, when| rows.row(function, errno, seen, when);
    let update = "reapi_cli_update_allocate";
    let taken = whole();
    assert_eq!(taken.update(1, R), 0);
    row(update, EINVAL, taken.update(2, R), "R is wrong, or some of it is not free");
    row(update, EEXIST, taken.update(1, R), "there is a job of this id");
    let gone = R.replace(r#""rank":"0""#, r#""rank":"9""#);
    row(update, ENOENT, whole().update(1, &gone), "some of it is not there");
    let slots = |rank: u32, units: u32| {
        format!(
            r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{rank}","children":{{}}}}],
            "nodelist":["node{rank}"],"starttime":0,"expiration":60}},
            "attributes":{{"system":{{"fluxion":{{"slots":[{{"label":"s","with":{{"cpu":{units}}},
            "end":60,"on":[{{"ranks":"{rank}","per_rank":1}}]}}]}}}}}}}}"#
        )
    };
    let full = "R names units of pools that are not free";
    row(update, EINVAL, pools().update(2, &slots(0, 1_000_000)), full);
    let nowhere = "R names units of pools of a node that is not there";
    row(update, ENOENT, pools().update(2, &slots(77, 1)), nowhere);
    let recipe = Context::of_recipe();
    row(
        update,
        ENOTSUP,
        recipe.update(1, "{}"),
        "a bare graph, where load_format is no format of one",
    );
    let placement = Context::of_whole("placement");
    row(
        update,
        ENOSYS,
        placement.update(1, R),
        "match_format placement has no words for whole vertices",
    );
    row("reapi_cli_cancel", ENOENT, whole().cancel(1), "there is no such job");
    // Q12.
    let large = whole();
    assert_eq!(large.match_with_jobid(ALLOCATE, &cores(1), u64::MAX), 0);
    let beyond = "the id of a job that is there is larger than INT64_MAX";
    row("reapi_cli_cancel", EOVERFLOW, large.cancel(u64::MAX), beyond);
    let partial = "reapi_cli_partial_cancel";
    row(partial, EINVAL, taken.partial_cancel(1, "{}"), "R is wrong, or the job has nothing of it");
    row(
        partial,
        ENOENT,
        whole().partial_cancel(1, R),
        "there is no such job, or it is a reservation",
    );
    row(partial, EOVERFLOW, large.partial_cancel(u64::MAX, R), beyond);
    row("reapi_cli_info", ENOENT, whole().info(1), "there is no such job");
}

fn graphs(rows: &mut Rows) {
    let mut row = |function, errno, seen, when| rows.row(function, errno, seen, when);
    let in_trial = pools();
    assert_eq!(in_trial.begin_trial(), 0);
    let trial = "a trial has begun";
    row(
        "reapi_cli_find",
        EINVAL,
        whole().find("up", c"rlite"),
        "the criteria or the format are wrong",
    );
    row(
        "reapi_cli_find",
        ENOENT,
        whole().find("names=cluster0", c"jgf"),
        "the root is all that was found",
    );
    let simple = whole().find("status=up", c"simple");
    // Q27.
    row("reapi_cli_find", ENOMEM, simple, "something was found, and the format is no JSON");
    row("reapi_cli_stat", ENOSYS, whole().stat(), "always");
    let add = "reapi_cli_add_subgraph";
    row(add, EINVAL, whole().add("{}"), "the document is wrong, or does not fit the graph");
    let sibling = context::sibling();
    row(add, EEXIST, whole().add(&sibling), "a new vertex has the uniq_id of a sibling");
    row(add, ENOTSUP, in_trial.add(&sibling), trial);
    let remove = "reapi_cli_remove_subgraph";
    row(remove, EINVAL, whole().remove("/c0"), "it is the root");
    row(remove, ENOENT, whole().remove("/gone"), "there is no such path");
    row(remove, ENOTSUP, in_trial.remove("/c0/node0"), trial);
    let set = "reapi_cli_set_status";
    row(set, EINVAL, whole().set_status("/gone", 1), "there is no such path, or no such status");
    row(set, ENOTSUP, in_trial.set_status("/c0", 1), trial);
    let none = "there is no such path";
    row("reapi_cli_get_status", EINVAL, whole().get_status("/gone"), none);
    let set = "reapi_cli_set_rank_status";
    row(
        set,
        EINVAL,
        whole().set_rank_status("x", 1),
        "the ranks are no idset, or there is no such status",
    );
    row(set, ENOTSUP, in_trial.set_rank_status("0", 1), trial);
    let one = "it is not exactly one rank, or the graph has none such";
    row("reapi_cli_get_rank_status", EINVAL, whole().get_rank_status("7"), one);
}

fn extensions(rows: &mut Rows) {
    let mut row = |function, errno, seen, when| rows.row(function, errno, seen, when);
    let in_trial = pools();
    assert_eq!(in_trial.begin_trial(), 0);
    let trial = "a trial has begun";
    row(
        "fluxion_ext_set_time",
        EINVAL,
        pools().set_time(i64::MAX),
        "it is beyond half of FLUXION_EXT_EVENTUALLY",
    );
    row("fluxion_ext_move", ENOENT, pools().move_job(1), "there is no such job");
    let running = pools();
    assert_eq!(running.match_with_jobid(ALLOCATE, &units(2), 1), 0);
    row(
        "fluxion_ext_move",
        EINVAL,
        running.move_job(1),
        "the job is no reservation of a graph with pools",
    );
    let shrunk = pools();
    assert_eq!(shrunk.match_with_jobid(ALLOCATE, &units(2), 1), 0);
    assert_eq!(shrunk.match_with_jobid(ALLOCATE_ORELSE_RESERVE, &units(2), 2), 0);
    assert_eq!(shrunk.resize(0, "cpu", 1), 0);
    row(
        "fluxion_ext_move",
        EBUSY,
        shrunk.move_job(2),
        "its room is gone, and there is none at any instant; EAGAIN if that is not proved",
    );
    row("fluxion_ext_begin_trial", EINVAL, in_trial.begin_trial(), trial);
    row("fluxion_ext_end_trial", EINVAL, pools().end_trial(), "no trial has begun");
    let charge = "fluxion_ext_charge";
    row(charge, EINVAL, pools().charge("{}"), "the charge is wrong");
    let of = |rank: u32, kind: &str| {
        format!(r#"{{"label":"a","rank":{rank},"count":1,"with":{{"{kind}":1}},"end":"never"}}"#)
    };
    row(charge, EINVAL, whole().charge(&of(0, "core")), "the graph has no pools");
    row(charge, ENOENT, pools().charge(&of(9, "cpu")), "there is no such rank");
    row(charge, ENOTSUP, in_trial.charge(&of(0, "new")), "a trial has begun, and the type is new");
    row(
        "fluxion_ext_release",
        ENOENT,
        pools().release(1, 0),
        "there is no such rank or job, or it has fewer such slots there",
    );
    let resize = "fluxion_ext_resize";
    row(resize, EINVAL, pools().resize(0, "core", 1), "it is no pool type, or is handed out whole");
    row(resize, ENOENT, pools().resize(9, "cpu", 1), "there is no such rank");
    row(resize, ENOTSUP, in_trial.resize(0, "cpu", 1), trial);
    row("fluxion_ext_remove_rank", ENOENT, pools().remove_rank(9), "there is no such rank");
    row("fluxion_ext_remove_rank", ENOTSUP, in_trial.remove_rank(0), trial);
    let part = "fluxion_ext_set_part";
    row(
        part,
        EINVAL,
        pools().set_part("", "0"),
        "the level has no name, the ranks are no idset, or the graph has no pools",
    );
    row(part, ENOTSUP, in_trial.set_part("rack", "0"), trial);
    let wrong = "the jobspec is wrong, or asks for more than slots of pool units";
    row("fluxion_ext_eligible", EINVAL, pools().eligible(&cores(1)), wrong);
    row("fluxion_ext_explain", EINVAL, pools().explain(&cores(1)), wrong);
    row("fluxion_ext_usage", ENOENT, pools().usage(9), "there is no such rank");
}
