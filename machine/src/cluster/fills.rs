//! The fill of each node, by the resources that every node has: plain numbers beside the exact
//! account, so that thousands of nodes can be compared in a moment.

use super::node::Node;
use crate::fluxion::Rank;
use fluxqueue_workload::Resources;

/// The CPU that a pod without a CPU request counts for where nodes are compared, in thousandths of
/// a core, as in kube-scheduler.
const SILENT_MILLI_CPU: u64 = 100;

/// The memory that a pod without a memory request counts for there, in bytes.
const SILENT_MEMORY: u64 = 200 * 1024 * 1024;

/// Per rank.
#[derive(Debug, Clone, Default)]
pub(super) struct Fills(Vec<Fill>);

/// The size and use of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fill {
    pub(super) cpu: Amount,
    pub(super) memory: Amount,
    pods: Amount,
}

/// One resource of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Amount {
    pub(super) size: u64,
    pub(super) used: u64,
    /// Pods there that ask for none of it.
    silent: u64,
}

/// The requests of a pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) cpu: u64,
    pub(super) memory: u64,
    pods: u64,
    /// True if it requests other resources besides.
    pub(super) has_others: bool,
}

impl Fills {
    /// The node of a rank, empty.
    pub(super) fn put(&mut self, rank: Rank, node: &Node) {
        let rank = rank as usize;
        if self.0.len() <= rank {
            self.0.resize(rank + 1, Fill::default());
        }
        self.0[rank] = Fill::default();
        self.0[rank].resize(node);
    }

    /// The node has become larger or smaller.
    pub(super) fn resize(&mut self, rank: Rank, node: &Node) {
        self.0[rank as usize].resize(node);
    }

    /// A pod comes to a node that is there, or leaves it.
    pub(super) fn count(&mut self, rank: Rank, requests: &Resources, comes: bool) {
        let wanted = Wanted::of(requests);
        let fill = &mut self.0[rank as usize];
        for (part, amount) in [
            (&mut fill.cpu, wanted.cpu),
            (&mut fill.memory, wanted.memory),
            (&mut fill.pods, wanted.pods),
        ] {
            let silent = u64::from(amount == 0);
            if comes {
                part.used = part.used.saturating_add(amount);
                part.silent += silent;
            } else {
                part.used = part.used.saturating_sub(amount);
                part.silent = part.silent.saturating_sub(silent);
            }
        }
    }

    /// Sets the use of a node, whatever was counted so far.
    pub(super) fn set_use(&mut self, rank: Rank, used: &Resources) {
        let (fill, used) = (&mut self.0[rank as usize], Wanted::of(used));
        (fill.cpu.used, fill.memory.used, fill.pods.used) = (used.cpu, used.memory, used.pods);
    }

    pub(super) fn of(&self, rank: Rank) -> Fill {
        self.0.get(rank as usize).copied().unwrap_or_default()
    }
}

impl Fill {
    fn resize(&mut self, node: &Node) {
        let has = Wanted::of(&node.allocatable);
        (self.cpu.size, self.memory.size, self.pods.size) = (has.cpu, has.memory, has.pods);
    }

    /// True if there is room for the requests of a pod, as far as resources are kept here.
    pub(super) fn has_room(&self, wanted: &Wanted) -> bool {
        self.cpu.has(wanted.cpu) && self.memory.has(wanted.memory) && self.pods.has(wanted.pods)
    }

    /// What would be used of CPU and memory with one more pod, which counts for something whatever
    /// it asks for.
    pub(super) fn with(&self, wanted: &Wanted) -> [(Amount, u64); 2] {
        let counted = |part: Amount, amount: u64, silent: u64| {
            let more = if amount == 0 { silent } else { amount };
            (
                part,
                part.used.saturating_add(part.silent.saturating_mul(silent)).saturating_add(more),
            )
        };
        [
            counted(self.cpu, wanted.cpu, SILENT_MILLI_CPU),
            counted(self.memory, wanted.memory, SILENT_MEMORY),
        ]
    }
}

impl Amount {
    fn has(self, amount: u64) -> bool {
        amount == 0 || self.used.saturating_add(amount) <= self.size
    }
}

impl Wanted {
    pub(super) fn of(requests: &Resources) -> Self {
        let mut wanted = Wanted { cpu: 0, memory: 0, pods: 0, has_others: false };
        for (name, amount) in requests.iter() {
            match &**name {
                "cpu" => wanted.cpu = amount,
                "memory" => wanted.memory = amount,
                "pods" => wanted.pods = amount,
                _ => wanted.has_others = true,
            }
        }
        wanted
    }
}
