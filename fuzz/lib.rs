//! Parts that the targets share: small graphs with jobs on them.

pub mod calls;

use std::cell::RefCell;

use fluxion_engine::{Engine, MatchOp, NOW_MAX};

thread_local! {
    /// Engines without jobs, with their graphs and options.
    static MADE: RefCell<Vec<([String; 2], Engine)>> = const { RefCell::new(Vec::new()) };

    /// The engines of [`on_each`].
    static KEPT: RefCell<Vec<Option<Engine>>> = const { RefCell::new(Vec::new()) };
}

/// Plays on the engines that these functions make. `play` returns true if a call has changed
/// something: the next input has an engine of its own then. Else it has the same one, since a call
/// that fails changes nothing.
pub fn on_each(makers: &[fn() -> Engine], play: impl Fn(&mut Engine) -> bool) {
    KEPT.with_borrow_mut(|kept| {
        kept.resize(makers.len(), None);
        for (kept, make) in kept.iter_mut().zip(makers) {
            if play(kept.get_or_insert_with(make)) {
                *kept = None;
            }
        }
    });
}

/// Returns an engine without jobs: a copy, since reading a graph takes longer than most inputs.
/// Copies share jobs, so the first has none.
fn made(graph: &str, options: &str) -> Engine {
    MADE.with_borrow_mut(|all| {
        if let Some((_, made)) = all.iter().find(|(from, _)| *from == [graph, options]) {
            return made.fork();
        }
        let made = Engine::new(graph, options).expect("the graph is good");
        all.push(([graph, options].map(str::to_owned), made.fork()));
        made
    })
}

/// Two racks of two nodes with cores, a GPU and memory; one job runs, one waits.
pub fn engine(format: &str) -> Engine {
    engine_with(format, "lonode", "simple")
}

/// The same under another policy and traverser.
pub fn engine_with(format: &str, policy: &str, traverser: &str) -> Engine {
    let options = format!(
        r#"{{"load_format":"grug","matcher_policy":"{policy}","traverser_policy":"{traverser}","match_format":"{format}",
        "prune_filters":"ALL:core,ALL:node,ALL:gpu"}}"#
    );
    let mut engine = made(GRAPH, &options);
    for spec in [spec("node", 1, 60), spec("core", 3, 100), spec("node", 4, 10)] {
        let _ = engine.match_next(MatchOp::AllocateOrElseReserve, &spec);
    }
    engine
}

/// Nodes with divisible cpu and memory.
pub fn pools() -> Engine {
    let options = r#"{"load_format":"jgf","matcher_policy":"first","match_format":"placement","pool_types":["*"]}"#;
    made(POOLS, options)
}

/// The same with a job that runs, one that has a node whole and one that waits, at a late instant.
pub fn busy_pools(format: &str) -> Engine {
    let options = format!(
        r#"{{"load_format":"jgf","matcher_policy":"lonode","match_format":"{format}","pool_types":["cpu"]}}"#
    );
    let mut engine = made(POOLS, &options);
    engine.set_time(NOW_MAX - 7).expect("it is no later than it may be");
    for spec in [spec("cpu", 1500, 60), spec("node", 1, 100), spec("cpu", 3000, 10)] {
        let _ = engine.match_next(MatchOp::AllocateOrElseReserve, &spec);
    }
    engine
}

/// A rack of two nodes and a node of its own, with cores, pools, storage of the rack and licences.
pub fn racks_of_pools(policy: &str, format: &str, pools: &str) -> Engine {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |above: Option<usize>, kind: &str, id: u32, rank: i64, path: &str| {
        let size = if matches!(kind, "cpu" | "memory" | "license") { 8 } else { 1 };
        let at = nodes.len();
        nodes.push(format!(
            r#"{{"id":"{at}","metadata":{{"type":"{kind}","id":{id},"uniq_id":{at},"rank":{rank},
            "size":{size},"paths":{{"containment":"{path}"}}}}}}"#
        ));
        edges.extend(above.map(|above| format!(r#"{{"source":"{above}","target":"{at}"}}"#)));
        at
    };
    let root = add(None, "cluster", 0, -1, "/c0");
    add(Some(root), "license", 0, -1, "/c0/license0");
    let rack = add(Some(root), "rack", 0, -1, "/c0/rack0");
    add(Some(rack), "ssd", 0, -1, "/c0/rack0/ssd0");
    let places = [(0, rack, "/c0/rack0"), (1, rack, "/c0/rack0"), (2, root, "/c0")];
    for (rank, above, within) in places {
        let node = format!("{within}/node{rank}");
        let at = add(Some(above), "node", rank, i64::from(rank), &node);
        for (kind, id) in [("core", 0), ("core", 1), ("cpu", 0), ("memory", 0)] {
            add(Some(at), kind, id, i64::from(rank), &format!("{node}/{kind}{id}"));
        }
    }
    let graph =
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","));
    let options = format!(
        r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"{format}",
        "pool_types":[{pools}]}}"#
    );
    made(&graph, &options)
}

/// A jobspec that asks for slots of one thing.
pub fn spec(kind: &str, count: u32, seconds: u32) -> String {
    format!(
        r#"{{"version":1,"resources":[{{"type":"slot","count":{count},"label":"s","with":[{{"type":"{kind}","count":1}}]}}],
        "tasks":[{{"command":["a"],"slot":"s","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{seconds}}}}}}}"#
    )
}

/// Whether the numbers in a text are small enough together, so that a few lines do not ask for
/// billions of vertices.
pub fn is_modest(text: &str) -> bool {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let product = numbers.map(|digits| digits.parse::<f64>().unwrap_or(f64::INFINITY).max(1.0)).product::<f64>();
    product < 1e6
}

const GRAPH: &str = r#"<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="root" for="node" attr.name="root" attr.type="int"><default>0</default></key>
<key id="type" for="node" attr.name="type" attr.type="string"/>
<key id="size" for="node" attr.name="size" attr.type="long"><default>1</default></key>
<key id="id_scope" for="edge" attr.name="id_scope" attr.type="int"><default>1</default></key>
<key id="multi_scale" for="edge" attr.name="multi_scale" attr.type="int"><default>2</default></key>
<graph id="g"><node id="c"><data key="root">1</data><data key="type">cluster</data></node>
<node id="r"><data key="type">rack</data></node><node id="n"><data key="type">node</data></node>
<node id="k"><data key="type">core</data></node><node id="g"><data key="type">gpu</data></node>
<node id="m"><data key="type">memory</data><data key="size">4</data></node>
<edge source="c" target="r"/><edge source="r" target="n"/><edge source="n" target="k"/>
<edge source="n" target="g"><data key="multi_scale">1</data></edge><edge source="n" target="m"/>
</graph></graphml>"#;

/// Two nodes with cpu.
pub const POOLS: &str = r#"{"graph":{"nodes":[
{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}},
{"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/cluster0/node0"}}},
{"id":"2","metadata":{"type":"cpu","id":0,"rank":0,"size":4000,"paths":{"containment":"/cluster0/node0/cpu0"}}},
{"id":"3","metadata":{"type":"node","id":1,"rank":1,"paths":{"containment":"/cluster0/node1"}}},
{"id":"4","metadata":{"type":"cpu","id":1,"rank":1,"size":2000,"paths":{"containment":"/cluster0/node1/cpu1"}}}],
"edges":[{"source":"0","target":"1"},{"source":"1","target":"2"},{"source":"0","target":"3"},{"source":"3","target":"4"}]}}"#;
