//! Arguments: NULL, good texts, texts that the library itself handed out, and all of these with
//! a few bytes changed.

use std::ffi::{CString, c_char};
use std::ptr;

use libfuzzer_sys::arbitrary::{Result, Unstructured};

use crate::{GRAPH, POOLS, is_modest};

const WHOLE: &str = r#"{"graph":{"nodes":[
{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
{"id":"1","metadata":{"type":"node","id":0,"rank":0,"properties":{"a":""},"paths":{"containment":"/c0/node0"}}},
{"id":"2","metadata":{"type":"core","id":0,"rank":0,"paths":{"containment":"/c0/node0/core0"}}},
{"id":"3","metadata":{"type":"core","id":1,"rank":0,"paths":{"containment":"/c0/node0/core1"}}},
{"id":"4","metadata":{"type":"node","id":1,"rank":1,"paths":{"containment":"/c0/node1"}}},
{"id":"5","metadata":{"type":"core","id":0,"rank":1,"paths":{"containment":"/c0/node1/core0"}}},
{"id":"6","metadata":{"type":"gpu","id":0,"rank":1,"paths":{"containment":"/c0/node1/gpu0"}}}],
"edges":[{"source":"0","target":"1"},{"source":"1","target":"2"},{"source":"1","target":"3"},{"source":"0","target":"4"},
{"source":"4","target":"5"},{"source":"4","target":"6"}]}}"#;

/// Nodes without ranks: such a grant cannot be written in every format.
const RANKLESS: &str = r#"{"graph":{"nodes":[
{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
{"id":"1","metadata":{"type":"node","id":0,"paths":{"containment":"/c0/node0"}}},
{"id":"2","metadata":{"type":"core","id":0,"size":2,"paths":{"containment":"/c0/node0/core0"}}}],
"edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}"#;

const EXECUTED: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-1","gpu":"0"}}],
"nodelist":["node[0-1]"],"properties":{"a":"1"},"starttime":0,"expiration":0}}"#;

const GROWN: &str = r#"{"graph":{"nodes":[
{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
{"id":"8","metadata":{"type":"node","id":2,"rank":2,"paths":{"containment":"/c0/node2"}}},
{"id":"9","metadata":{"type":"core","id":0,"rank":2,"paths":{"containment":"/c0/node2/core0"}}}],
"edges":[{"source":"0","target":"8"},{"source":"8","target":"9"}]}}"#;

const GROWN_POOLS: &str = r#"{"graph":{"nodes":[
{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}},
{"id":"8","metadata":{"type":"node","id":2,"rank":2,"paths":{"containment":"/cluster0/node2"}}},
{"id":"9","metadata":{"type":"cpu","id":0,"rank":2,"size":1000,"paths":{"containment":"/cluster0/node2/cpu0"}}}],
"edges":[{"source":"0","target":"8"},{"source":"8","target":"9"}]}}"#;

/// What an argument is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Graph,
    Options,
    Jobspec,
    R,
    Criteria,
    Format,
    Subgraph,
    Path,
    Ranks,
    Charge,
    Label,
    Type,
}

/// A text that lives through a call; `None` is NULL.
pub(super) struct Argument(pub(super) Option<CString>);

impl Argument {
    pub(super) fn as_ptr(&self) -> *const c_char {
        self.0.as_ref().map_or(ptr::null(), |text| text.as_ptr())
    }
}

/// One argument. `handed_out` are texts of the library, newest last.
pub(super) fn argument(input: &mut Unstructured<'_>, kind: Kind, handed_out: &[String]) -> Result<Argument> {
    let known = known(kind);
    let choice = usize::from(input.arbitrary::<u8>()?);
    let mut bytes = match choice {
        255 => return Ok(Argument(None)),
        254 => input.arbitrary::<Vec<u8>>()?,
        200..=253 if !handed_out.is_empty() => {
            handed_out[handed_out.len() - 1 - (choice - 200) % handed_out.len()].clone().into_bytes()
        }
        _ => known[choice % known.len()].as_bytes().to_vec(),
    };
    // Mostly as it is.
    if input.ratio(1, 4)? {
        for _ in 0..input.int_in_range(1..=3)? {
            change(input, &mut bytes)?;
        }
        // A changed number may ask for billions of vertices, and would get them.
        if matches!(kind, Kind::Graph) && !std::str::from_utf8(&bytes).is_ok_and(is_modest) {
            bytes.clear();
        }
    }
    bytes.retain(|byte| *byte != 0);
    Ok(Argument(CString::new(bytes).ok()))
}

/// Replaces, removes, repeats or inserts a few bytes.
fn change(input: &mut Unstructured<'_>, bytes: &mut Vec<u8>) -> Result<()> {
    let at = usize::from(input.arbitrary::<u16>()?) % (bytes.len() + 1);
    let end = bytes.len().min(at + usize::from(input.int_in_range(1_u8..=40)?));
    match input.int_in_range(0..=3)? {
        0 => drop(bytes.drain(at..end)),
        1 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        2 if at < bytes.len() => bytes[at] = input.arbitrary()?,
        _ => bytes.insert(at, *input.choose(b"0123456789-.,\"{}[]/ \xff")?),
    }
    Ok(())
}

fn known(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Graph => &[WHOLE, POOLS, GRAPH, EXECUTED, RANKLESS, ""],
        Kind::Options => OPTIONS,
        Kind::Jobspec => JOBSPECS,
        Kind::R => &[
            r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0-1"}}],"nodelist":["node0"],"starttime":0,"expiration":90}}"#,
            r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0"}}],"nodelist":["node[0-1]"],"starttime":0,"expiration":90}}"#,
            r#"{"graph":{"nodes":[{"id":"2","metadata":{"type":"core","id":0,"rank":0,"exclusive":true,"paths":{"containment":"/c0/node0/core0"}}},{"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/c0/node0"}}},{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}],"edges":[{"source":"1","target":"2"},{"source":"0","target":"1"}]}}"#,
            "",
        ],
        Kind::Criteria => &[
            "status=up",
            "sched-now=allocated and sched-future=free",
            "( jobid-alloc=1 or jobid-tag=2 ) or status=down",
            "agfilter=true",
            "jobid-span=1 agfilter=t",
            "names=node[0-1] and property=a",
            "status=",
        ],
        Kind::Format => &[
            "jgf",
            "rv1",
            "rv1_nosched",
            "rlite",
            "simple",
            "pretty_simple",
            "jgf_shorthand",
            "rv1_shorthand",
            "placement",
            "x",
        ],
        Kind::Subgraph => &[GROWN, GROWN_POOLS, WHOLE, POOLS, ""],
        Kind::Path => {
            &["/c0/node0", "/c0/node1/core0", "/c0", "/cluster0/node1", "/c0/r0/n1", "/c0/node2", "", "/nowhere"]
        }
        Kind::Ranks => &["0", "1", "0-1", "all", "2-9,1", "", "-1", "4294967295"],
        Kind::Charge => &[
            r#"{"label":"a","rank":0,"count":2,"with":{"cpu":1000},"end":"never"}"#,
            r#"{"label":"s","rank":1,"count":1,"with":{"cpu":9000,"pods":1},"end":"eventually"}"#,
            r#"{"label":"s","rank":0,"count":1,"with":{"cpu":18446744073709551615},"end":50}"#,
            r#"{"label":"s","rank":0,"count":0,"with":{},"end":50}"#,
            r#"{"label":"s","rank":0,"count":1,"with":{"cpu":100},"end":30,"tenant":17}"#,
            r#"{"label":"a","rank":1,"count":1,"with":{"cpu":100},"end":"never","guest":true}"#,
        ],
        Kind::Label => &["a", "s", "t", ""],
        Kind::Type => &["cpu", "pods", "core", "", "node"],
    }
}

const OPTIONS: &[&str] = &[
    r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"rv1_nosched"}"#,
    r#"{"load_format":"jgf","matcher_policy":"first","match_format":"placement","pool_types":["*"]}"#,
    r#"{"load_format":"grug","matcher_policy":"high","match_format":"rv1","prune_filters":"ALL:core,ALL:node,ALL:gpu"}"#,
    r#"{"load_format":"rv1exec","matcher_policy":"firstnodex","match_format":"rlite"}"#,
    r#"{"load_format":"jgf","matcher_policy":"first","match_format":"jgf"}"#,
    r#"{"load_format":"jgf","matcher_policy":"locality","match_format":"rv1_shorthand","traverser_policy":"flexible"}"#,
    r#"{"load_format":"jgf","matcher_policy":"lonodex","match_format":"jgf_shorthand"}"#,
    r#"{"load_format":"jgf","matcher_policy":"variation","match_format":"simple","load_allowlist":"node"}"#,
    r#"{"load_format":"jgf","matcher_policy":"low","match_format":"jgf","pool_types":"core"}"#,
    r#"{"load_format":"jgf_shorthand","matcher_policy":"policy=low node_exclusive=true","match_format":"pretty_simple"}"#,
    "{}",
    "",
];

macro_rules! jobspec {
    ($resources:literal, $system:literal) => {
        concat!(
            r#"{"version":1,"resources":["#,
            $resources,
            r#"],"tasks":[{"command":["a"],"slot":"s","count":{"per_slot":1}}],"attributes":{"system":{"#,
            $system,
            "}}}"
        )
    };
}

const JOBSPECS: &[&str] = &[
    jobspec!(r#"{"type":"slot","count":1,"label":"s","with":[{"type":"core","count":1}]}"#, r#""duration":60"#),
    jobspec!(r#"{"type":"slot","count":2,"label":"s","with":[{"type":"node","count":1}]}"#, r#""duration":10"#),
    jobspec!(
        r#"{"type":"node","count":1,"exclusive":true,"with":[{"type":"slot","count":1,"label":"s","with":[{"type":"core","count":1}]}]}"#,
        r#""duration":30"#
    ),
    jobspec!(r#"{"type":"slot","count":1,"label":"s","with":[{"type":"cpu","count":700}]}"#, r#""duration":0"#),
    jobspec!(
        r#"{"type":"slot","count":2,"label":"s","with":[{"type":"cpu","count":1000}]},{"type":"slot","count":1,"label":"t","with":[{"type":"cpu","count":500}]}"#,
        r#""fluxion":{"policy":"hinode","prefer":["1"],"max_per_node":[{"labels":["s","t"],"count":2}],"end":"eventually"}"#
    ),
    jobspec!(
        r#"{"type":"slot","count":2,"label":"s","with":[{"type":"cpu","count":1000}]},{"type":"slot","count":2,"label":"t","with":[{"type":"cpu","count":700}]}"#,
        r#""duration":9,"fluxion":{"slots":[{"label":"s","ranks":"0-1","prefer":["1"],"duration":20},{"label":"t","ranks":"1-2","end":"eventually"}],"max_per_node":[{"labels":["s","t"],"count":1}]}"#
    ),
    jobspec!(
        r#"{"type":"slot","count":1,"label":"s","with":[{"type":"core","count":1}]}"#,
        r#""fluxion":{"slots":[{"label":"s","ranks":"0"}]}"#
    ),
    jobspec!(
        r#"{"type":"slot","count":2,"label":"s","with":[{"type":"cpu","count":300}]}"#,
        r#""duration":12,"fluxion":{"tenant":17}"#
    ),
    jobspec!(
        r#"{"type":"slot","count":1,"label":"s","with":[{"type":"cpu","count":100}]}"#,
        r#""duration":40,"fluxion":{"guest":true,"policy":"spread"}"#
    ),
    jobspec!(
        r#"{"type":"slot","count":2,"label":"s","with":[{"type":"cpu","count":200}]},{"type":"slot","count":1,"label":"t","with":[{"type":"cpu","count":700}]}"#,
        r#""duration":8,"fluxion":{"tenant":18446744073709551615,"counted":"0-1","slots":[{"label":"t","ranks":"0","counted":"1"}],"levels":[{"level":"a","max_skew":1,"max_per_part":2},{"level":"a","labels":["t"],"within":"one","slice":true}]}"#
    ),
    jobspec!(
        r#"{"type":"slot","count":{"min":1,"max":4,"operator":"+","operand":1},"label":"s","with":[{"type":"core","count":1},{"type":"gpu","count":1}]}"#,
        r#""duration":5,"queue":"q""#
    ),
    jobspec!(
        r#"{"type":"slot","count":1,"label":"s","with":[{"type":"core","count":1}]}"#,
        r#""duration":60,"constraints":{"properties":["a"]}"#
    ),
    jobspec!(
        r#"{"type":"slot","count":1,"label":"s","with":[{"type":"core","count":1}]}"#,
        r#""constraints":{"or":[{"ranks":["1"]},{"hostlist":["node0"]}]}"#
    ),
    jobspec!(r#"{"type":"core","count":1,"exclusive":true}"#, r#""duration":-1"#),
    jobspec!(
        r#"{"type":"node","count":1,"with":[{"type":"xor_slot","count":1,"label":"s","with":[{"type":"core","count":2}]},{"type":"xor_slot","count":1,"label":"t","with":[{"type":"gpu","count":1}]}]}"#,
        r#""duration":20"#
    ),
    jobspec!(r#"{"type":"node","count":1}"#, r#""duration":20"#),
    jobspec!(r#"{"type":"slot","count":1,"label":"s","with":[{"type":"mpi","count":1}]}"#, r#""duration":3600.5"#),
    "version: 1\nresources:\n  - type: slot\n    count: 1\n    label: s\n    with:\n      - type: core\n        count: 2\ntasks:\n  - command: [a]\n    slot: s\n    count: {per_slot: 1}\nattributes: {system: {duration: 7}}\n",
    "",
];
