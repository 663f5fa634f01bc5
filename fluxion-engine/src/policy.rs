//! Match policies, by name.

/// In which order vertices are taken, and how.
///
/// For pools: `low` and whatever prefers low scores fills the lowest ranks first, `high` and its
/// like the highest. `first` promises no more than to be the cheapest. `binpack` and `spread` go by
/// how full a node is, and are for pools alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    order: Order,
    /// What lies in a node goes together: a node's number counts more than any number below it.
    node_centric: bool,
    /// Nodes are taken with all that lies below them.
    node_exclusive: bool,
    /// The walk ends as soon as there is enough.
    stop_early: bool,
    /// `first` and `firstnodex`, as they are named; they fill pools from the lowest rank.
    first: bool,
    /// `binpack` and `spread`, which are ours: nodes go by how full they are. For pools only.
    fill: Option<ByFill>,
}

/// How candidates are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// High scores first.
    Descending,
    /// Low scores first.
    Ascending,
    /// High scores first; of the outermost level, runs of neighbours first.
    Locality,
    /// Well performing vertices first: low `perf_class`.
    Variation,
}

/// Nodes in order of their fill; equally full ones by rank, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ByFill {
    /// The fullest first.
    Fullest,
    /// The emptiest first.
    Emptiest,
}

impl Policy {
    /// Whatever is found first.
    pub const FIRST: Policy = Policy {
        order: Order::Descending,
        node_centric: true,
        node_exclusive: false,
        stop_early: true,
        first: true,
        fill: None,
    };
    /// Low ids first.
    pub const LOW: Policy = Policy::plain(Order::Ascending, false, false);
    /// High ids first.
    pub const HIGH: Policy = Policy::plain(Order::Descending, false, false);
    /// Low nodes first, and within a node low ids.
    pub const LONODE: Policy = Policy::plain(Order::Ascending, true, false);
    /// High nodes first, and within a node high ids.
    pub const HINODE: Policy = Policy::plain(Order::Descending, true, false);

    /// The fullest node first (most allocated). For slots of pool units only.
    pub const BINPACK: Policy =
        Policy { fill: Some(ByFill::Fullest), ..Policy::plain(Order::Descending, false, false) };
    /// The emptiest node first (least allocated). For slots of pool units only.
    pub const SPREAD: Policy =
        Policy { fill: Some(ByFill::Emptiest), ..Policy::plain(Order::Ascending, false, false) };

    const fn plain(order: Order, node_centric: bool, node_exclusive: bool) -> Self {
        Policy { order, node_centric, node_exclusive, stop_early: false, first: false, fill: None }
    }

    /// The policy of this name, or of a list such as `policy=high node_centric=true`.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "first" => Policy::FIRST,
            "firstnodex" => Policy { node_exclusive: true, ..Policy::FIRST },
            "low" => Policy::LOW,
            "high" => Policy::HIGH,
            "lonode" => Policy::LONODE,
            "hinode" => Policy::HINODE,
            "lonodex" => Policy::plain(Order::Ascending, true, true),
            "hinodex" => Policy::plain(Order::Descending, true, true),
            "locality" => Policy::plain(Order::Locality, false, false),
            "variation" => Policy::plain(Order::Variation, false, false),
            "binpack" => Policy::BINPACK,
            "spread" => Policy::SPREAD,
            custom => return Policy::custom(custom),
        })
    }

    /// Reads `key=value` with blanks between as upstream's `parse_custom_match_policy`
    /// (`dfu_match_policy_factory.cpp`) does: a word that it does not understand, also an empty
    /// one, ends the list; of both orders `high` counts, and of a flag the first value.
    fn custom(text: &str) -> Option<Self> {
        let (mut high, mut low, mut flags) = (false, false, [None; 3]);
        for word in text.split(' ') {
            let mut halves = word.split('=');
            let flag = match halves.next()? {
                "policy" => None,
                "node_centric" => Some(0),
                "node_exclusive" => Some(1),
                "stop_on_1_matches" => Some(2),
                _ => break,
            };
            match (flag, halves.next()?) {
                (None, "high") => high = true,
                (None, "low") => low = true,
                (Some(flag), "true") => _ = flags[flag].get_or_insert(true),
                (Some(flag), "false") if flags[flag].is_none() => flags[flag] = Some(false),
                _ => break,
            }
        }
        let order = match (high, low) {
            (true, _) => Order::Descending,
            (false, true) => Order::Ascending,
            (false, false) => return None,
        };
        let [node_centric, node_exclusive, stop_early] = flags.map(Option::unwrap_or_default);
        Some(Policy { order, node_centric, node_exclusive, stop_early, first: false, fill: None })
    }

    /// For pools: highest ranks first.
    pub(crate) fn descends(self) -> bool {
        !self.first && matches!(self.order, Order::Descending | Order::Locality)
    }

    /// For pools: nodes go by how full they are.
    pub(crate) fn by_fill(self) -> Option<ByFill> {
        self.fill
    }

    pub(crate) fn order(self) -> Order {
        self.order
    }

    /// What lies in a node goes together.
    pub(crate) fn is_node_centric(self) -> bool {
        self.node_centric
    }

    pub(crate) fn takes_whole_nodes(self) -> bool {
        self.node_exclusive
    }

    pub(crate) fn stops_early(self) -> bool {
        self.stop_early
    }
}

#[cfg(test)]
mod tests {
    use super::Policy;

    /// As upstream reads lists: `dfu_match_policy_factory.cpp` at fd257f71.
    #[test]
    fn lists_end_at_what_is_not_understood() {
        let parse = |text: &str| Policy::parse(text);
        for (list, same) in [
            ("policy=high policy=low", "high"),
            ("policy=low policy=high", "high"),
            ("policy=low node_centric=true", "lonode"),
            ("policy=low  node_centric=true", "low"),
            ("policy=low node_centric=maybe node_exclusive=true", "low"),
            ("policy=low node_centric=true node_centric=false node_exclusive=true", "lonode"),
            ("policy=low node_centric=true node_centric=true node_exclusive=true", "lonodex"),
            ("policy=low unknown", "low"),
            ("policy=low policy=other node_centric=true", "low"),
            ("policy=low=high", "low"),
        ] {
            assert_eq!(parse(list), parse(same), "{list}");
        }
        for list in ["", " policy=low", "node_centric=true", "policy", "policy=other policy=low"] {
            assert_eq!(parse(list), None, "{list:?}");
        }
    }
}
