//! The naive machine: vertices in a list, jobs in a list, every question answered by looking at all
//! of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

#[derive(Debug, Clone)]
pub(crate) struct Vertex {
    pub(crate) kind: &'static str,
    pub(crate) id: i64,
    pub(crate) rank: i64,
    pub(crate) size: u64,
    pub(crate) parent: Option<usize>,
    /// In the order of their edges.
    pub(crate) children: Vec<usize>,
    pub(crate) path: String,
    pub(crate) has_property: bool,
    pub(crate) up: bool,
}

/// Vertices of a job from one instant to another.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) reserved: bool,
    /// Vertices that it has for itself.
    pub(crate) own: BTreeSet<usize>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    /// Parents before children; the place of a vertex is its `uniq_id`.
    pub(crate) vertices: Vec<Vertex>,
    pub(crate) jobs: BTreeMap<u64, Job>,
    pub(crate) now: i64,
    /// A reservation was put off: its vertices may be another's at the same time.
    pub(crate) has_put_off: bool,
    /// What `first` has noted of the edge to a vertex.
    pub(crate) weights: BTreeMap<usize, u64>,
}

/// How ids of cores and GPUs are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// From 0 in each node or socket.
    Parent,
    /// From 0 in each node, on through its sockets.
    Node,
    /// Through the whole machine.
    Machine,
}

/// The vertices of a machine.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// 0: none.
    pub(crate) racks: usize,
    /// 0: none.
    pub(crate) sockets: usize,
    /// Nodes: cores and GPUs of each socket (or node), a property, the size of its memory (0:
    /// none).
    pub(crate) nodes: Vec<(usize, usize, bool, u64)>,
    pub(crate) ids: Ids,
    /// Ids of nodes fall, where they rise otherwise.
    pub(crate) falling: bool,
}

impl Shape {
    pub(crate) fn machine(&self) -> Machine {
        let mut machine = Machine::default();
        let root = machine.add(None, "cluster", 0, -1, 1);
        let racks: Vec<usize> =
            (0..self.racks).map(|at| machine.add(Some(root), "rack", id(at), -1, 1)).collect();
        for (at, (cores, gpus, has_property, memory)) in self.nodes.iter().enumerate() {
            let above = if racks.is_empty() { root } else { racks[at % racks.len()] };
            let number = if self.falling { self.nodes.len() - 1 - at } else { at };
            let rank = id(at);
            let node = machine.add(Some(above), "node", id(number), rank, 1);
            machine.vertices[node].has_property = *has_property;
            for socket in 0..self.sockets.max(1) {
                let above = if self.sockets == 0 {
                    node
                } else {
                    machine.add(Some(node), "socket", id(socket), rank, 1)
                };
                for (kind, count) in [("core", *cores), ("gpu", *gpus)] {
                    for part in 0..count {
                        let number = match self.ids {
                            Ids::Parent => part,
                            Ids::Node => socket * count + part,
                            Ids::Machine => {
                                machine.vertices.iter().filter(|vertex| vertex.kind == kind).count()
                            }
                        };
                        machine.add(Some(above), kind, id(number), rank, 1);
                    }
                }
                if *memory > 0 {
                    machine.add(Some(above), "memory", id(socket), rank, *memory);
                }
            }
        }
        machine
    }
}

fn id(at: usize) -> i64 {
    i64::try_from(at).unwrap()
}

impl Machine {
    fn add(
        &mut self,
        parent: Option<usize>,
        kind: &'static str,
        id: i64,
        rank: i64,
        size: u64,
    ) -> usize {
        let at = self.vertices.len();
        let path =
            format!("{}/{kind}{id}", parent.map_or("", |parent| &self.vertices[parent].path));
        if let Some(parent) = parent {
            self.vertices[parent].children.push(at);
        }
        let (children, has_property) = (Vec::new(), false);
        self.vertices.push(Vertex {
            kind,
            id,
            rank,
            size,
            parent,
            children,
            path,
            has_property,
            up: true,
        });
        at
    }

    /// Its JGF.
    pub(crate) fn document(&self) -> String {
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        for (at, vertex) in self.vertices.iter().enumerate() {
            let Vertex { kind, id, rank, size, path, .. } = vertex;
            let mut more = String::new();
            if vertex.has_property {
                more.push_str(r#""properties":{"p":""},"#);
            }
            let _ = write!(more, r#""status":{}"#, u8::from(!vertex.up));
            nodes.push(format!(
                r#"{{"id":"{at}","metadata":{{"type":"{kind}","id":{id},"uniq_id":{at},"rank":{rank},"size":{size},{more},"paths":{{"containment":"{path}"}}}}}}"#
            ));
            if let Some(parent) = vertex.parent {
                edges.push(format!(r#"{{"source":"{parent}","target":"{at}"}}"#));
            }
        }
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","))
    }

    pub(crate) fn at_path(&self, path: &str) -> usize {
        self.vertices.iter().position(|vertex| vertex.path == path).unwrap()
    }

    /// A vertex and all above it.
    pub(crate) fn way_up(&self, vertex: usize) -> Vec<usize> {
        std::iter::successors(Some(vertex), |at| self.vertices[*at].parent).collect()
    }

    /// A vertex and all below it.
    pub(crate) fn subtree(&self, top: usize) -> Vec<usize> {
        (0..self.vertices.len()).filter(|vertex| self.way_up(*vertex).contains(&top)).collect()
    }

    /// A job has the vertex for itself at some instant of a window.
    pub(crate) fn is_taken(&self, vertex: usize, from: i64, to: i64) -> bool {
        self.jobs.values().any(|job| job.overlaps(from, to) && job.own.contains(&vertex))
    }

    /// A job has the vertex, or anything below it, at some instant of a window.
    pub(crate) fn is_in_use(&self, vertex: usize, from: i64, to: i64) -> bool {
        let uses = |job: &Job| job.own.iter().any(|own| self.way_up(*own).contains(&vertex));
        self.jobs.values().any(|job| job.overlaps(from, to) && uses(job))
    }

    /// Moves the clock. Jobs past their end are taken to end in the next second. Reservations that
    /// are due begin in the order of starts and ids, where no job has anything of the vertices they
    /// get, and all of it is up; else they are put off to the next second.
    pub(crate) fn advance(&mut self, seconds: i64) {
        self.now += seconds;
        let now = self.now;
        for job in self.jobs.values_mut().filter(|job| !job.reserved) {
            job.to = job.to.max(now + 1);
        }
        let due =
            |(id, job): (&u64, &Job)| (job.reserved && job.from <= now).then_some((job.from, *id));
        let due: BTreeSet<(i64, u64)> = self.jobs.iter().filter_map(due).collect();
        for (_, id) in due {
            let mut others = self.clone();
            others.jobs.retain(|_, job| !job.reserved);
            let may = |vertex: &usize| {
                let mut way = self.way_up(*vertex).into_iter();
                way.all(|above| self.vertices[above].up && !others.is_taken(above, now, now + 1))
                    && !others.is_in_use(*vertex, now, now + 1)
            };
            let begins = self.jobs[&id].own.iter().all(may);
            let job = self.jobs.get_mut(&id).unwrap();
            if begins {
                // It may be that it should have ended since.
                (job.reserved, job.to) = (false, job.to.max(now + 1));
            } else {
                self.has_put_off = true;
                let later = now + 1 - job.from;
                (job.from, job.to) = (job.from + later, job.to + later);
            }
        }
    }

    /// Instants after now at which a job begins or ends, which has something that the cluster
    /// counts.
    pub(crate) fn instants(&self) -> BTreeSet<i64> {
        let counts = |vertex: &usize| !["rack", "socket"].contains(&self.vertices[*vertex].kind);
        let jobs = self.jobs.values().filter(|job| job.own.iter().any(counts));
        jobs.flat_map(|job| [job.from, job.to]).filter(|at| *at > self.now).collect()
    }

    /// Notes the resources left below the vertices that a grant passes through: of a rack nodes, of
    /// a node cores.
    pub(crate) fn weigh(&mut self, own: &BTreeSet<usize>) {
        let passed: BTreeSet<usize> = own.iter().flat_map(|own| self.way_up(*own)).collect();
        for vertex in passed {
            let kind = match self.vertices[vertex].kind {
                "rack" => "node",
                "node" => "core",
                _ => continue,
            };
            let below =
                self.subtree(vertex).into_iter().filter(|below| self.vertices[*below].kind == kind);
            let free = below.filter(|below| !self.is_taken(*below, self.now, self.now + 1)).count();
            self.weights.insert(vertex, free as u64);
        }
    }
}

impl Job {
    pub(crate) fn overlaps(&self, from: i64, to: i64) -> bool {
        self.from < to && from < self.to
    }
}
