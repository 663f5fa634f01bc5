//! Documents of graphs, in every format that is read. The first byte chooses the format.
#![no_main]

use std::collections::BTreeSet;

use fluxion_engine::graph::PoolTypes;
use fluxion_engine::readers::{self, Allowlist, Format};
use fluxion_engine::{Engine, MatchOp, NOW_MAX, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let format = [Format::Jgf, Format::Grug, Format::Rv1exec, Format::Hwloc][usize::from(choice % 4)];
    if !matches!(format, Format::Jgf | Format::JgfShorthand) && !fluxion_fuzz::is_modest(text) {
        return;
    }
    let pool_types = PoolTypes { names: BTreeSet::new(), all_of_nodes: choice & 4 != 0 };
    let Ok(graph) = readers::read(format, text, pool_types, &Allowlist::default()) else { return };
    let paths: Vec<String> = graph.vertices().map(|vertex| graph.path(vertex)).collect();
    let Ok(mut engine) = Engine::with_graph(graph, Options::default()) else { return };
    let _ = engine.set_time(if choice & 8 == 0 { 0 } else { NOW_MAX });
    let _ = engine.match_next(MatchOp::AllocateOrElseReserve, &fluxion_fuzz::spec("core", 1, 60));
    for path in paths {
        let _ = engine.status(&path);
    }
});
