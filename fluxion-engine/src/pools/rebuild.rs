//! All that follows from the claims, made again from them: after a defect that may have left it
//! half done.
//!
//! The claims of the rows are the account. Sums, lists of starts and ends, and what searches keep
//! follow from them and from the sizes of the pools.

use std::sync::Arc;

use super::{Pools, Shut, ends};

/// Drops all claims of a job, and makes everything again that follows from claims.
pub(crate) fn drop_job(pools: &mut Pools, job: u64) {
    for claims in &mut pools.claims {
        if claims.iter().any(|claim| claim.job == job) {
            Arc::make_mut(claims).retain(|claim| claim.job != job);
        }
    }
    pools.rebuild();
}

impl Pools {
    /// Makes everything again that follows from claims.
    pub(crate) fn rebuild(&mut self) {
        self.starts.clear();
        self.ends = ends::Ends::default();
        self.planned.fill(0);
        self.exclusive.fill(0);
        self.shut.fill(Shut::default());
        for column in self.columns.iter_mut().flatten() {
            column.used.fill(0);
            column.endless.fill(0);
        }
        for row in 0..self.len() {
            let claims = Arc::clone(&self.claims[row]);
            for claim in claims.iter() {
                self.last(row, claim, claim.count, true);
                if claim.planned {
                    self.planned[row] += 1;
                } else {
                    self.count(row, claim, claim.count, true);
                }
                self.list(std::iter::once(row), (claim.start, claim.end), claim.planned);
            }
            self.refresh(row);
        }
        self.timelines.forget_all();
        self.forget_indexes();
    }
}

#[cfg(test)]
mod tests {
    use super::Pools;
    use crate::{Engine, MatchOp};

    const GRAPH: &str = r#"{"graph":{"nodes":[
        {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
        {"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/c0/node0"}}},
        {"id":"2","metadata":{"type":"cpu","id":0,"rank":0,"size":8,
        "paths":{"containment":"/c0/node0/cpu0"}}},
        {"id":"3","metadata":{"type":"node","id":1,"rank":1,"paths":{"containment":"/c0/node1"}}},
        {"id":"4","metadata":{"type":"cpu","id":0,"rank":1,"size":8,
        "paths":{"containment":"/c0/node1/cpu0"}}}],
        "edges":[{"source":"0","target":"1"},{"source":"1","target":"2"},
        {"source":"0","target":"3"},{"source":"3","target":"4"}]}}"#;

    /// Everything that follows from claims, as text.
    fn derived(pools: &Pools) -> String {
        let mut ends: Vec<(i64, Vec<u32>)> = pools
            .ends
            .iter()
            .map(|(end, ranks)| {
                let ends_then = |rank: &u32| {
                    pools.position(*rank).is_some_and(|row| {
                        pools.claims[row].iter().any(|claim| claim.end.instant() == end)
                    })
                };
                let mut ranks: Vec<u32> = ranks.iter().copied().filter(ends_then).collect();
                ranks.sort_unstable();
                ranks.dedup();
                (end, ranks)
            })
            .collect();
        ends.sort_unstable();
        let columns: Vec<_> = pools
            .columns
            .iter()
            .flatten()
            .map(|column| (&column.used, &column.free, &column.endless))
            .collect();
        format!(
            "{:?} {:?} {:?} {:?} {ends:?} {columns:?}",
            pools.planned, pools.exclusive, pools.shut, pools.starts
        )
    }

    fn spec(what: &str, count: usize, more: &str) -> String {
        format!(
            r#"{{"version":1,"resources":[{{"type":"slot","label":"s","count":1,
            "with":[{{"type":"{what}","count":{count}}}]}}],"tasks":[{{"command":["a"],"slot":"s",
            "count":{{"per_slot":1}}}}],"attributes":{{"system":{{{more}}}}}}}"#
        )
    }

    /// Random histories: all that follows from the claims is the same when it is made again.
    #[test]
    fn rebuilt_equals_kept() {
        let options = r#"{"load_format":"jgf","match_format":"rv1_nosched","pool_types":["cpu"]}"#;
        for seed in 0..20_u64 {
            let mut number = 0x9E37_79B9_7F4A_7C15 ^ (seed + 1);
            let mut below = |bound: usize| {
                number ^= number >> 12;
                number ^= number << 25;
                number ^= number >> 27;
                (number >> 33) as usize % bound
            };
            let mut engine = Engine::new(GRAPH, options).unwrap();
            for step in 0..120 {
                let id = below(9) as u64;
                let more = [
                    "\"duration\":7",
                    "\"duration\":0",
                    "\"duration\":30,\"fluxion\":{\"tenant\":3}",
                ][below(3)];
                let spec = spec(["cpu", "cpu", "node"][below(3)], 1 + below(6), more);
                let rank = u32::try_from(below(2)).unwrap();
                let _ = match below(8) {
                    0..=2 => engine.match_job(MatchOp::AllocateOrElseReserve, &spec, id).map(drop),
                    3 => engine.cancel(id),
                    4 => engine.charge(
                        id,
                        &format!(
                            r#"{{"label":"r","rank":{rank},"count":2,"with":{{"cpu":1}},
                            "end":{}}}"#,
                            engine.now() + 9
                        ),
                    ),
                    5 => engine.release(id, rank, "r", 1),
                    6 => engine.move_reservation(id).map(drop),
                    _ => engine.set_time(engine.now() + 4),
                };
                let pools = &mut engine.graph.pools;
                let kept = derived(pools);
                pools.rebuild();
                assert_eq!(derived(pools), kept, "seed {seed}, step {step}");
            }
        }
    }
}
