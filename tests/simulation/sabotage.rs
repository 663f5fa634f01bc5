//! Proof that the checks can fail: a saboteur between the world and the core breaks one rule, and
//! that rule catches it.

mod mislaying;
mod saboteur;
mod walls;

use std::path::Path;

use crate::adversary::{self, ADVERSARY};
use crate::gangs::SLICED_GANGS;
use crate::machine::{self, Machine, Start};
use crate::pod_groups::{self, GROUPS};
use crate::queues;
use crate::quiescence::WRITES_NOTHING;
use crate::streams::{self, STREAMS};
use crate::suspended;
use crate::timely::{self, TIMELY};
use crate::{Failure, run};
use saboteur::Saboteur;

/// Most seeds until one of them catches the saboteur, and the steps of each.
const SEEDS_MAX: usize = 24;
/// The same limit for rules that concern few gangs.
const SEEDS_OF_FEW_MAX: usize = 96;
/// The same limit where a Job has to get too few pods for long, just after its release.
const SEEDS_OF_SHORT_JOBS_MAX: usize = 200;
const STEPS: u64 = 2_800;

/// Environment variable that selects one saboteur, or `all`, and skips all other tests.
pub(crate) const ONLY: &str = "FLUXQUEUE_SIM_SABOTAGE";
/// Environment variable that makes a run of all saboteurs write its table.
const UPDATE: &str = "UPDATE_GOLDEN";
/// The page with the table of saboteurs, and the lines before and after the table.
const PAGE: &str = "docs/internals/simulation.md";
const TABLE: [&str; 2] =
    ["<!-- Made by `make saboteurs`. Do not edit. -->\n", "<!-- The end of the table. -->\n"];

/// The fault of a saboteur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sabotage {
    BindTwice,
    BindBeforeTheAnswer,
    BindToAnotherNode,
    IgnoreOtherSchedulers,
    IgnoreCordons,
    IgnoreGates,
    IgnoreHolds,
    IgnoreWhatIsUnsupported,
    ForgetToFree,
    ForgetPlacements,
    ForgetAnswers,
    KeepRecords,
    WriteTwice,
    NeverRest,
    DecideTooEarly,
    IgnoreAntiAffinity,
    IgnoreOwnAntiAffinity,
    WriteToOthers,
    LookAhead,
    WriteBlindly,
    StartLate,
    StartBesideGates,
    ClaimEpochs,
    SayPending,
    PlaceNoGroups,
    MislayMembers,
    GreetOnRestart,
    ForgetTheClock,
    RecordEverything,
    LeakSlots,
    HideDelays,
    PromiseMore,
    LookBack,
    IgnoreStops,
    IgnorePause,
    IgnoreLevels,
    IgnoreSpreads,
    IgnoreSlices,
    IgnoreExclusive,
    ReleaseEarly,
    ResumeOthers,
    IgnoreMarks,
    HoldPlaces,
    PlanLonger,
    PromiseFewer,
    ExcuseDelays,
    PassByForEver,
    RepelUnannounced,
    PassGangsByForEver,
    CrowdUnannounced,
    CountRefused,
    WaitForRefusals,
    BlameNodes,
    BelieveOwners,
    RaiseMembers,
    KeepRefused,
    LowerMinCount,
    TakeBackConditions,
    SilenceGroups,
}

/// Each saboteur with the rules that must catch it.
const ALL: [(Sabotage, &[&str]); 59] = [
    (Sabotage::CountRefused, &[adversary::WALLS]),
    (Sabotage::WaitForRefusals, &[adversary::REFUSALS]),
    (Sabotage::BlameNodes, &[adversary::TOLD]),
    (Sabotage::BelieveOwners, &[adversary::WALLS]),
    (Sabotage::RaiseMembers, &[adversary::WALLS]),
    (Sabotage::KeepRefused, &[adversary::REFUSALS]),
    (Sabotage::LowerMinCount, &[pod_groups::NEEDED]),
    (Sabotage::TakeBackConditions, &[pod_groups::NEVER_BACK]),
    (Sabotage::SilenceGroups, &[pod_groups::TOLD]),
    (Sabotage::ReleaseEarly, &[suspended::RELEASED_WHEN_PLACED]),
    (Sabotage::ResumeOthers, &[suspended::LEFT_ALONE]),
    (Sabotage::IgnoreMarks, &[suspended::NOT_STARTED, suspended::WITHOUT_PODS]),
    (
        Sabotage::HoldPlaces,
        &[suspended::GIVEN_BACK, "a job at the head of the queue that could start does"],
    ),
    (Sabotage::PlanLonger, &["a promise is for the earliest second around all others"]),
    (Sabotage::PromiseFewer, &["a job that may be promised a start is"]),
    (Sabotage::ExcuseDelays, &["the cause for which a promise is broken is one that there was"]),
    (Sabotage::PassByForEver, &["no job is passed by for longer than the rule allows"]),
    (
        Sabotage::RepelUnannounced,
        &[
            "the cause for which a promise is broken is one that there was",
            // The core does not know either which jobs have to stay out of the nodes that are held
            // for it.
            "no job is passed by for longer than the rule allows",
        ],
    ),
    (Sabotage::PassGangsByForEver, &[streams::PASSED_BY]),
    (Sabotage::CrowdUnannounced, &[streams::PASSED_BY]),
    (
        Sabotage::IgnoreLevels,
        &["a gang that requires a level starts in one part of it", SPREAD_GANGS, SLICED_GANGS],
    ),
    (Sabotage::IgnoreSpreads, &[SPREAD_GANGS]),
    (Sabotage::IgnoreSlices, &[SLICED_GANGS]),
    (Sabotage::IgnoreExclusive, &["no two jobs share a node of an exclusive one", WHOLE_GANGS]),
    (Sabotage::PromiseMore, &["an estimate equals the promise, or lies ahead"]),
    (Sabotage::LookBack, &["an estimate equals the promise, or lies ahead"]),
    (Sabotage::IgnoreStops, &["no job starts from a queue that is stopped or gone"]),
    (Sabotage::IgnorePause, &[queues::PAUSED]),
    (Sabotage::HideDelays, &["a promise is broken only for a cause that an Event names"]),
    (Sabotage::BindTwice, &["no pod is bound twice"]),
    (
        Sabotage::BindBeforeTheAnswer,
        &["a gang is bound by its acknowledged placement", "one write per object is under way"],
    ),
    (
        Sabotage::BindToAnotherNode,
        &[
            "a bound pod fits beside all pods that are known to be on its node",
            "a gang is bound by its acknowledged placement",
            "a node that does not want a pod does not get it",
            "pods go to nodes that are there",
            WHOLE_GANGS,
        ],
    ),
    (
        Sabotage::IgnoreOtherSchedulers,
        &[
            "a bound pod fits beside all pods that are known to be on its node",
            "no pod goes where another keeps it away",
            // The core does not know either that a node is not free for a job that requires it
            // alone.
            "no two jobs share a node of an exclusive one",
            WHOLE_GANGS,
        ],
    ),
    (Sabotage::IgnoreCordons, &["a node that does not want a pod does not get it", WHOLE_GANGS]),
    (Sabotage::IgnoreGates, &["gated pods are not bound", WHOLE_GANGS]),
    (Sabotage::IgnoreHolds, &["a held job is not started"]),
    (Sabotage::IgnoreWhatIsUnsupported, &["a pod that cannot be honoured is refused", WHOLE_GANGS]),
    (
        Sabotage::ForgetToFree,
        &[
            "a job at the head of the queue that could start does",
            "finished jobs say how they ended",
        ],
    ),
    (
        Sabotage::ForgetPlacements,
        &[
            "a gang is bound by its acknowledged placement",
            "a half-bound gang is finished where its placement says",
            EPOCHS,
            WHOLE_GANGS,
        ],
    ),
    (
        Sabotage::ForgetAnswers,
        &[
            WRITES_NOTHING,
            "a job at the head of the queue that could start does",
            "finished jobs say how they ended",
            "deleted objects leave nothing behind",
        ],
    ),
    (Sabotage::KeepRecords, &["deleted objects leave nothing behind"]),
    (Sabotage::WriteTwice, &["one write per object is under way"]),
    (Sabotage::NeverRest, &["the core becomes quiet"]),
    (Sabotage::DecideTooEarly, &["nothing is decided before the first lists are complete"]),
    (
        // The saboteur drops the constraints of our own pods, too.
        Sabotage::IgnoreAntiAffinity,
        &[
            "no pod goes where another keeps it away",
            "no pod goes where one is that it is to be apart from",
            WHOLE_GANGS,
        ],
    ),
    (
        Sabotage::IgnoreOwnAntiAffinity,
        &[
            "no pod goes where one is that it is to be apart from",
            "no pod goes where another keeps it away",
            WHOLE_GANGS,
        ],
    ),
    (Sabotage::WriteToOthers, &["objects of another scheduler are left alone"]),
    (Sabotage::LookAhead, &["no instant is written that lies ahead"]),
    (Sabotage::WriteBlindly, &["every write says on which version it was decided"]),
    (
        Sabotage::StartLate,
        &[
            WHOLE_GANGS,
            "a bound pod fits beside all pods that are known to be on its node",
            "pods go to nodes that are there",
            "only pods that exist are bound",
        ],
    ),
    (Sabotage::StartBesideGates, &["no gang starts before its gates are off"]),
    (Sabotage::ClaimEpochs, &[EPOCHS]),
    (Sabotage::SayPending, &["Unsatisfiable is what does not fit the idle cluster"]),
    (
        Sabotage::PlaceNoGroups,
        &[
            "a gang of several shapes starts if it fits",
            "Unsatisfiable is what does not fit the idle cluster",
            WRITES_NOTHING,
            "a job at the head of the queue that could start does",
        ],
    ),
    (
        Sabotage::MislayMembers,
        &[
            "a gang of several shapes starts if it fits",
            "Unsatisfiable is what does not fit the idle cluster",
        ],
    ),
    (Sabotage::GreetOnRestart, &[WRITES_NOTHING]),
    // With its own clock the core also announces the consequences of planned ends that are not
    // near.
    (
        Sabotage::ForgetTheClock,
        &["no instant is written that lies ahead", "the core becomes quiet"],
    ),
    (Sabotage::RecordEverything, &["a lone pod that has its node is given no FluxJob"]),
    (Sabotage::LeakSlots, &["the account of taken amounts matches the pods"]),
];

const EPOCHS: &str = "the epoch is that of the leader that placed";
/// The rule of gangs that ask to be spread over a level.
const SPREAD_GANGS: &str = "a gang that is to be spread over a level is";
/// The rule that a gang breaks first if it starts though one of its members is wrong.
const WHOLE_GANGS: &str = "no gang starts that does not fit whole";

impl Sabotage {
    /// True if the rule can be broken under this seed.
    fn has_a_chance(self, seed: u64) -> bool {
        match self {
            Sabotage::IgnoreStops | Sabotage::IgnorePause => machine::has_queues(seed),
            Sabotage::RepelUnannounced => timely::has_repellers(seed),
            Sabotage::CountRefused => adversary::has_acts(seed),
            Sabotage::WaitForRefusals => adversary::has_refusals(seed),
            Sabotage::BlameNodes => adversary::has_overruns(seed),
            Sabotage::BelieveOwners => adversary::has_foreign_owners(seed),
            Sabotage::RaiseMembers => adversary::has_lies(seed),
            Sabotage::KeepRefused => adversary::has_refused_bindings(seed),
            Sabotage::ReleaseEarly
            | Sabotage::ResumeOthers
            | Sabotage::IgnoreMarks
            | Sabotage::HoldPlaces => machine::has_suspended(seed),
            _ => true,
        }
    }

    /// Returns how many seeds are tried.
    fn seeds_max(self) -> usize {
        match self {
            Sabotage::HoldPlaces => SEEDS_OF_SHORT_JOBS_MAX,
            Sabotage::IgnoreSpreads | Sabotage::IgnoreSlices | Sabotage::MislayMembers => {
                SEEDS_OF_FEW_MAX
            }
            _ => SEEDS_MAX,
        }
    }

    /// Returns the first seed of the worlds that judge the rule: those with a naive planner, those
    /// with an endless stream of small jobs, with a malicious tenant, or with PodGroups.
    fn first_seed(self) -> u64 {
        match self {
            Sabotage::PlanLonger
            | Sabotage::PromiseFewer
            | Sabotage::ExcuseDelays
            | Sabotage::PassByForEver
            | Sabotage::RepelUnannounced => TIMELY,
            Sabotage::PassGangsByForEver | Sabotage::CrowdUnannounced => STREAMS,
            Sabotage::CountRefused
            | Sabotage::WaitForRefusals
            | Sabotage::BlameNodes
            | Sabotage::BelieveOwners
            | Sabotage::RaiseMembers
            | Sabotage::KeepRefused => ADVERSARY,
            Sabotage::LowerMinCount | Sabotage::TakeBackConditions | Sabotage::SilenceGroups => {
                GROUPS + 1
            }
            _ => 1,
        }
    }
}

/// Returns the saboteur that the environment names, for a replay.
pub(crate) fn named() -> Option<impl Fn(&Start) -> Box<dyn Machine>> {
    let name = std::env::var(ONLY).ok()?;
    let (sabotage, _) = ALL.into_iter().find(|(sabotage, _)| format!("{sabotage:?}") == name)?;
    Some(move |start: &Start| -> Box<dyn Machine> { Box::new(Saboteur::new(sabotage, start)) })
}

/// Checks that every saboteur is caught, by the rule that it breaks.
pub(crate) fn each_is_caught() -> Result<(), String> {
    let only = std::env::var(ONLY).ok().filter(|only| only != "all");
    let mut rows = Vec::new();
    for (sabotage, rules) in ALL {
        if only.as_ref().is_some_and(|only| *only != format!("{sabotage:?}")) {
            continue;
        }
        let factory =
            move |start: &Start| -> Box<dyn Machine> { Box::new(Saboteur::new(sabotage, start)) };
        let mut seeds = (sabotage.first_seed()..)
            .filter(|seed| sabotage.has_a_chance(*seed))
            .take(sabotage.seeds_max());
        // A fault of any cause shows as soon as a new process begins, and says nothing about the
        // rule that has to catch it. Looking ahead never ends for a place that is kept for longer
        // than a run.
        let is_endless = |failure: &Failure| {
            sabotage == Sabotage::HoldPlaces && failure.rule == "the core becomes quiet"
        };
        let says_something = |failure: &Failure| {
            rules.contains(&&*failure.rule)
                || (failure.rule != WRITES_NOTHING && !is_endless(failure))
        };
        let found =
            seeds.find_map(|seed| run(seed, STEPS, &factory, false).failure.filter(says_something));
        let Some(failure) = found else {
            return Err(format!(
                "{sabotage:?} is not caught within {} seeds",
                sabotage.seeds_max()
            ));
        };
        if !rules.contains(&&*failure.rule) {
            let Failure { seed, step, rule, text, .. } = failure;
            return Err(format!(
                "{sabotage:?} is caught by another rule, by seed {seed}, step {step}: {rule}: {text}"
            ));
        }
        println!(
            "{sabotage:?} is caught by seed {}, step {}: {}",
            failure.seed, failure.step, failure.rule
        );
        let row = format!("| `{sabotage:?}` | {} |", rules.join("; "));
        rows.push((row, format!(" {}, step {} |", failure.seed, failure.step)));
    }
    if only.is_some() { Ok(()) } else { compare_with_page(&rows) }
}

/// Compares the table on the page with these rows, or writes it. Seeds are written and not
/// compared: every change of the core may move them.
fn compare_with_page(rows: &[(String, String)]) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let [begin, end] = TABLE;
    let parts = page.split_once(begin).and_then(|(before, rest)| {
        rest.split_once(end).map(|(table, after)| (before, table, after))
    });
    let (before, table, after) = parts.ok_or(format!("{PAGE} has no table of saboteurs"))?;
    if std::env::var_os(UPDATE).is_some() {
        let rows: Vec<String> = rows.iter().map(|(row, seed)| format!("{row}{seed}\n")).collect();
        let rows = rows.concat();
        let head = "| saboteur | rules that may catch it | first seed that does |\n|---|---|---|\n";
        let text = format!("{before}{begin}\n{head}{rows}\n{end}{after}");
        return std::fs::write(&path, text).map_err(|error| format!("{PAGE}: {error}"));
    }
    let written: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let is_same = written.len() == rows.len()
        && written.iter().zip(rows).all(|(line, (row, _))| line.starts_with(row.as_str()));
    if is_same { Ok(()) } else { Err(format!("{PAGE} has other saboteurs: run `make saboteurs`")) }
}
