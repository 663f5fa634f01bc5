//! A session: the graph, the jobs it has made, and where answers go.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::time::{Duration, Instant};

use fluxion_engine::graph::PoolTypes;
use fluxion_engine::readers::Allowlist;
use fluxion_engine::{Engine, JobMode, MatchFormat, readers};

use crate::options::{self, Options};

/// What commands work on.
pub(crate) struct Session {
    pub(crate) engine: Engine,
    pub(crate) format: MatchFormat,
    pub(crate) elapse_time: bool,
    /// The id that the next job gets.
    pub(crate) next_job: u64,
    /// The jobspec of each job, and how long its match took, in seconds.
    pub(crate) asked: BTreeMap<u64, (String, f64)>,
    pub(crate) matches: Matches,
    /// Grants, and the lines about them.
    granted: Option<BufWriter<File>>,
    /// Everything else, and grants too if there is no file for them.
    stdout: BufWriter<Stdout>,
}

/// How long successful matches took.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    pub(crate) count: u32,
    pub(crate) least: Duration,
    pub(crate) most: Duration,
    pub(crate) sum: Duration,
}

impl Matches {
    pub(crate) fn add(&mut self, took: Duration) {
        self.least = if self.count == 0 { took } else { self.least.min(took) };
        self.most = self.most.max(took);
        self.sum += took;
        self.count += 1;
    }
}

impl Session {
    /// Loads the graph.
    pub(crate) fn open(options: Options) -> io::Result<Self> {
        let policy = options::policy(&options.policy).map_err(io::Error::other)?;
        let text = std::fs::read_to_string(&options.load_file)?;
        let started = Instant::now();
        let graph = readers::read(
            options.load_format,
            &text,
            PoolTypes::default(),
            &Allowlist::read(&options.allowlist),
        )
        .map_err(io::Error::other)?;
        let settings = fluxion_engine::Options {
            load_format: options.load_format,
            policy,
            traverser: options.traverser,
            format: options.match_format,
            prune_filters: options.prune_filters,
            ..fluxion_engine::Options::default()
        };
        let engine = Engine::with_graph(graph, settings).map_err(io::Error::other)?;
        let took = started.elapsed();
        let granted = options.test_output.map(File::create).transpose()?.map(BufWriter::new);
        let mut session = Session {
            engine,
            format: options.match_format,
            elapse_time: options.elapse_time,
            next_job: 1,
            asked: BTreeMap::new(),
            matches: Matches::default(),
            granted,
            stdout: BufWriter::new(io::stdout()),
        };
        if session.elapse_time {
            session.describe_graph(took)?;
        }
        Ok(session)
    }

    /// Writes to where grants go.
    pub(crate) fn granted(&mut self, text: Arguments<'_>) -> io::Result<()> {
        match &mut self.granted {
            Some(file) => file.write_fmt(text),
            None => self.stdout.write_fmt(text),
        }
    }

    /// Writes to standard output.
    pub(crate) fn shown(&mut self, text: Arguments<'_>) -> io::Result<()> {
        self.stdout.write_fmt(text)
    }

    /// Writes a fault to standard error. It is no reason to end.
    pub(crate) fn wrong(&mut self, text: Arguments<'_>) -> io::Result<()> {
        self.stdout.flush()?;
        writeln!(io::stderr(), "ERROR: {text}")
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.granted {
            file.flush()?;
        }
        self.stdout.flush()
    }

    /// The job is there, and was not cancelled.
    pub(crate) fn is_live(&self, id: u64) -> bool {
        self.engine.info(id).is_ok_and(|info| info.mode != JobMode::Canceled)
    }

    /// An id is used: the next job gets the one after it, as upstream does, also where that was
    /// used before.
    pub(crate) fn took_id(&mut self, id: u64) {
        self.next_job = id.saturating_add(1);
    }

    fn describe_graph(&mut self, took: Duration) -> io::Result<()> {
        let graph = self.engine.graph();
        let (mut names, mut paths, mut ranks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for vertex in graph.vertices() {
            *names.entry(graph.name(vertex).into_owned()).or_insert(0) += 1;
            *paths.entry(graph.path(vertex)).or_insert(0) += 1;
            *ranks.entry(graph.rank(vertex)).or_insert(0) += 1;
        }
        let lines = [
            ("Graph Load Time", took.as_secs_f64().to_string()),
            ("Vertex Count", graph.len().to_string()),
            ("Edge Count", graph.edges().to_string()),
            ("by_type Key-Value Pairs", graph.counts().len().to_string()),
            ("by_name Key-Value Pairs", names.len().to_string()),
            ("by_path Key-Value Pairs", paths.len().to_string()),
        ];
        for (what, number) in lines {
            writeln!(self.stdout, "INFO: {what}: {number}")?;
        }
        for (rank, count) in ranks {
            writeln!(self.stdout, "INFO: number of vertices with rank {rank}: {count}")?;
        }
        Ok(())
    }
}
