//! Worlds with one malicious tenant: whatever it does in its own namespace, no other tenant is
//! hurt.
//!
//! Every run has two worlds, which begin alike and differ only in the adversary's acts. After every
//! second, the views of the tenants of the other namespaces are compared ([`seen`]): they are
//! identical.
//!
//! - Acts without requests are left out in the twin: pods and FluxJobs with owners of other
//!   namespaces, finalizers, labels, texts and overrides of any kind, objects that are refused or
//!   fit nowhere.
//! - Acts with requests are honest requests in the twin, of the same tenant, at the same instants
//!   and with the same true run times: a lie gains no more than the request alone.
//! - Overruns, and nodes that the adversary takes past Fluxqueue ([`overruns`]), do delay others,
//!   but only with the causes `walltime` and `capacity`, which name a pod that is to blame. There
//!   is no twin then.
//! - Writes of one namespace are refused ([`crate::refusals`]) on which nothing else depends, such
//!   as conditions of pods. In the twin nothing is refused.
//! - Bindings are refused for pods that wait for the room that everything else leaves, under a
//!   policy without promises. The twin has no such pods, so a refused start claims nothing.
//! - Bindings and FluxJobs of any requests are refused. They are requests until they are refused,
//!   and no other job waits for records that cannot be written. Others are delayed for the causes
//!   above only. There is no twin then.
//!
//! Nothing is late or lost here, everything happens at whole seconds, and both worlds are inspected
//! every second. Tenants, nodes, controllers and the adversary have random streams of their own,
//! and uids follow from names, so that only the scheduler is shared.
//!
//! Constraints that couple tenants legitimately are left out: no tenant's pods have terms about
//! pods of all namespaces.
//!
//! `FLUXQUEUE_SIM_ACTS=ForeignOwner,Texts` tries only these acts.
//!
//! - [`side`]: one of the two worlds
//! - [`tenants`]: the acts of honest tenants
//! - [`acts`]: the acts of the adversary: those of [`idle`] request nothing, [`lies`] are about
//!   requests
//! - [`seen`]: the view of the other tenants

mod acts;
mod idle;
mod lies;
mod overruns;
mod seen;
mod side;
mod tenants;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_core::QueuePolicy;
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::ObjectKey;

use crate::machine::{self, Factory, Start};
use crate::objects::OURS;
use crate::punctual::Punctual;
use crate::refusals::Refusal;
use crate::rng::Rng;
use crate::violation::{Violation, broken};
pub(crate) use overruns::TOLD;

use acts::{Act, Adversary};
use overruns::Judge;
use seen::Seen;
use side::Side;
use tenants::Tenant;

/// Seeds from here on are runs of such worlds.
pub(crate) const ADVERSARY: u64 = 4_000_000_000;

/// The rule of acts that ask for nothing, and of lies.
pub(crate) const WALLS: &str = "a tenant's acts in its own namespace change nothing for others";
/// The rule of refused writes.
pub(crate) const REFUSALS: &str =
    "writes that are refused in one namespace change nothing for others";

/// Events that a run of many seeds must have met.
pub(crate) const MUST_HAPPEN: [&str; 24] = [
    "others' pods started beside an adversary",
    "restart beside an adversary",
    "delay by an overrun told",
    "delay by a node taken past us told",
    "Binding refused beside others",
    "act: Finalizer",
    "act: Relabel",
    "act: Churn",
    "act: Texts",
    "act: Wishes",
    "act: Refused",
    "act: NeverFits",
    "act: DeleteRecords",
    "act: OtherSchedulers",
    "act: ForgedRecords",
    "act: LieAboutOwner",
    "act: LieByLabels",
    "act: LieByTexts",
    "act: Disagree",
    "act: DeleteTrueRecords",
    "act: RelabelRunning",
    "act: WishInVain",
    "act: RefuseConditions",
    "act: RefuseRecords",
];

/// Environment variable that selects acts by name.
const ACTS: &str = "FLUXQUEUE_SIM_ACTS";

/// Acts that are known to change something for others, with the change that would prevent it.
const NOT_YET: [(Act, &str); 2] = [
    (
        Act::Waves,
        "the next pods of a Job are planned for, but beside overruns a delay by them may be told as capacity",
    ),
    (
        Act::RefuseBindings,
        "a promise that is made just when a start is refused may be broken at once, with the cause capacity",
    ),
];

/// The namespace of the adversary, and those of the others.
const RIVAL: &str = "rival";
const OTHERS: [&str; 2] = ["clinic", "lab"];
/// All of them.
pub(crate) const NAMESPACES: [&str; 3] = [RIVAL, OTHERS[0], OTHERS[1]];

/// Seconds for which a job may be passed by.
const BYPASS_SECONDS: u64 = 60;
/// Percentage of seconds in which a tenant submits something.
const SUBMIT_PERCENT: usize = 6;

/// True if the adversary acts without requests in the runs of this seed.
pub(crate) fn has_acts(seed: u64) -> bool {
    matches!(kind_of(seed), Kind::Idle | Kind::Lies)
}

/// True if it names objects of other namespaces as owners of its pods.
pub(crate) fn has_foreign_owners(seed: u64) -> bool {
    kind_of(seed) == Kind::Idle
}

/// True if it lies about its requests.
pub(crate) fn has_lies(seed: u64) -> bool {
    kind_of(seed) == Kind::Lies
}

/// True if all its Bindings are refused.
pub(crate) fn has_refused_bindings(seed: u64) -> bool {
    kind_of(seed) == Kind::Barred
}

/// True if its writes are refused.
pub(crate) fn has_refusals(seed: u64) -> bool {
    kind_of(seed) == Kind::Refusals
}

/// True if its pods run for longer than their walltime.
pub(crate) fn has_overruns(seed: u64) -> bool {
    kind_of(seed) == Kind::Overruns
}

/// A priority below that of every other tenant.
const LAST: i32 = -100;

/// Seconds after which the record of a promise is up to date.
const UNTOLD_SECONDS: i64 = 7;

/// The subject of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Acts without requests.
    Idle,
    /// The same acts, beside requests about which the adversary lies.
    Lies,
    /// The adversary's pods run for longer than their walltime, and take nodes past Fluxqueue.
    Overruns,
    /// Writes for the adversary's pods that decide nothing are refused.
    Refusals,
    /// All its Bindings are refused, and its requests come after all others.
    Barred,
    /// Its Bindings and its records are refused for a time.
    Refused,
}

/// Returns the subject of the runs of this seed.
fn kind_of(seed: u64) -> Kind {
    const KINDS: [Kind; 6] =
        [Kind::Idle, Kind::Lies, Kind::Overruns, Kind::Refusals, Kind::Barred, Kind::Refused];
    KINDS[usize::try_from(seed % 6).expect("a small number")]
}

/// One run.
pub(crate) struct Adversarial<'a> {
    kind: Kind,
    here: Side<'a>,
    /// The world without lies; none where nothing is compared.
    twin: Option<Side<'a>>,
    adversary: Adversary,
    /// The tenants, for each of the worlds.
    tenants: [Vec<Tenant>; 2],
    /// Random numbers for nodes and for the process.
    rng: Rng,
    judge: Judge,
    /// Jobs of others with different promises in both worlds, and the time since when they differ.
    promised_otherwise: BTreeMap<ObjectKey, i64>,
}

impl<'a> Adversarial<'a> {
    /// Makes worlds with a few nodes.
    pub(crate) fn new(seed: u64, factory: &'a Factory, traced: bool) -> Self {
        let kind = kind_of(seed);
        let start = Start {
            suspend_hold_secs: machine::SUSPEND_HOLD_SECONDS,
            scheduler: Arc::from(OURS),
            epoch: 1,
            record_lone_pods: (seed / 24).is_multiple_of(2),
            queue_policy: policy_of(seed, kind),
            bypass_secs: BYPASS_SECONDS,
            questions_per_slice: machine::questions_per_slice(seed),
        };
        let has_twin = !matches!(kind, Kind::Overruns | Kind::Refused);
        let mut adversarial = Adversarial {
            kind,
            here: Side::new(start.clone(), factory, traced),
            twin: has_twin.then(|| Side::new(start, factory, traced)),
            adversary: Adversary::new(RIVAL, stream(seed, 1), acts_of(kind)),
            tenants: [tenants(seed, kind, Role::Adversary), tenants(seed, kind, Role::Honest)],
            rng: stream(seed, 2),
            judge: Judge::default(),
            promised_otherwise: BTreeMap::new(),
        };
        for at in 0..adversarial.rng.between(3, 5) {
            let (zone, cores) =
                (if at % 2 == 0 { "a" } else { "b" }, adversarial.rng.between(4, 6));
            adversarial.sides(|side| side.join(&format!("node-{at}"), zone, cores));
        }
        adversarial
            .sides(|side| NAMESPACES.iter().for_each(|namespace| side.put_lasting(namespace)));
        adversarial.sides(|side| side.world.list());
        if kind == Kind::Barred {
            let barred = Refusal { bindings: true, ..Refusal::default() };
            adversarial.here.world.server.refusals.insert(Arc::from(RIVAL), barred);
        }
        adversarial
    }

    /// Returns the world with the adversary, after the run.
    pub(crate) fn into_world(self) -> Punctual<'a> {
        self.here.world
    }

    /// Runs this many seconds.
    pub(crate) fn run(&mut self, steps: u64) -> Result<(), Violation> {
        while self.here.world.steps < steps {
            self.trouble();
            self.act();
            self.here.settle()?;
            if let Some(twin) = &mut self.twin {
                twin.settle()?;
            }
            self.compare()?;
            self.sides(Side::pass_second);
        }
        Ok(())
    }

    fn sides(&mut self, mut each: impl FnMut(&mut Side<'a>)) {
        each(&mut self.here);
        self.twin.as_mut().map(each);
    }

    /// Cordons or opens a node, or lets another process take over, in both worlds.
    fn trouble(&mut self) {
        let names: Vec<_> = self.here.world.server.nodes.keys().cloned().collect();
        let name = self.rng.pick(&names).expect("there are some").clone();
        match self.rng.below(200) {
            0..3 => {
                self.judge.capacity_changed(self.here.world.now);
                self.sides(|side| {
                    let node = Node::clone(&side.world.server.nodes[&name]);
                    side.world.server.put_node(Node { unschedulable: !node.unschedulable, ..node });
                });
            }
            3..5 => {
                if matches!(self.kind, Kind::Refused | Kind::Overruns) {
                    // The new process does not know promises that could not be written, and has to
                    // break others for them. It does not know either that a priority was edited in
                    // the last second, if the last process had not written it yet.
                    self.judge.capacity_changed(self.here.world.now);
                }
                self.sides(|side| {
                    side.world.restart();
                    side.world.stats.count("restart beside an adversary");
                });
            }
            _ => {}
        }
    }

    fn act(&mut self) {
        let Adversarial { here, twin, adversary, tenants: [tenants, twins], .. } = self;
        for tenant in tenants {
            let liar = (*tenant.namespace == *RIVAL).then_some(&mut *adversary);
            tenant.act(here, liar);
        }
        if let Some(twin) = twin {
            for tenant in twins {
                tenant.act(twin, None);
            }
        }
        let mut stats = std::mem::take(&mut here.world.stats);
        adversary.act(here, &mut stats);
        here.world.stats = stats;
    }

    fn compare(&mut self) -> Result<(), Violation> {
        let Some(twin) = &self.twin else { return self.judge.judge(&mut self.here, &OTHERS) };
        let refused = u64::try_from(self.here.refused).expect("a few");
        self.here.world.stats.add("Binding refused beside others", refused);
        let (here, there) = (Seen::by(&OTHERS, &self.here), Seen::by(&OTHERS, twin));
        let is_refused = matches!(self.kind, Kind::Refusals | Kind::Barred);
        let (now, rule) = (self.here.world.now, if is_refused { REFUSALS } else { WALLS });
        if let Some(text) = here.difference(&there) {
            return broken(rule, format!("at {now}: {text}"));
        }
        let promised = here.promised_otherwise(&there);
        self.promised_otherwise.retain(|key, _| promised.contains_key(key));
        let allowed = if self.kind == Kind::Idle { 0 } else { UNTOLD_SECONDS };
        for (key, text) in promised {
            let since = *self.promised_otherwise.entry(key.clone()).or_insert(now);
            if now - since >= allowed {
                return broken(rule, format!("at {now}, since {since}: {key} is promised {text}"));
            }
        }
        self.here.world.stats.add(
            "others' pods started beside an adversary",
            here.started_at(self.here.world.time()),
        );
        Ok(())
    }

    /// Returns the details of a failure: both worlds.
    pub(crate) fn describe(&self) -> Vec<String> {
        let lines = |side: &Side| side.world.trace.lines().map(str::to_string).collect::<Vec<_>>();
        let mut all = self.twin.as_ref().map(lines).unwrap_or_default();
        all.push("--- above the twin, below the world with the adversary ---".to_owned());
        all.extend(lines(&self.here));
        all
    }
}

/// Makes a stream of random numbers of its own.
fn stream(seed: u64, number: u64) -> Rng {
    Rng::new(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93))
}

/// Returns the queue policy of a run. A promise to a pod that comes last is kept, so there are no
/// promises where such a pod has to claim nothing.
fn policy_of(seed: u64, kind: Kind) -> QueuePolicy {
    match kind {
        Kind::Barred => QueuePolicy::Fcfs,
        _ => QueuePolicy::ALL[usize::try_from(seed / 6 % 4).expect("a small number")],
    }
}

/// The role of a tenant's world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Adversary,
    Honest,
}

fn tenants(seed: u64, kind: Kind, role: Role) -> Vec<Tenant> {
    let others = (3..).zip(OTHERS);
    let mut tenants: Vec<Tenant> = others
        .map(|(number, name)| Tenant::new(name, stream(seed, number), SUBMIT_PERCENT))
        .collect();
    if kind != Kind::Idle && (kind, role) != (Kind::Barred, Role::Honest) {
        let mut rival = Tenant::new(RIVAL, stream(seed, 5), SUBMIT_PERCENT);
        rival.overruns = acts_of(kind).contains(&Act::Overrun);
        rival.only_lone = matches!(kind, Kind::Refusals | Kind::Barred);
        rival.priority = (kind == Kind::Barred).then_some(LAST);
        tenants.push(rival);
    }
    // A pod of the next wave that finds its slot gone is placed once more in the same step. Beside
    // refused pods that happens only after the step.
    let has_waves = match kind {
        Kind::Overruns => acts_of(kind).contains(&Act::Waves),
        _ => kind != Kind::Barred,
    };
    for tenant in &mut tenants {
        tenant.has_waves = has_waves;
    }
    tenants
}

/// Returns the acts of a run: those that the environment names, or all that work today.
fn acts_of(kind: Kind) -> Vec<Act> {
    let chosen = std::env::var(ACTS).ok();
    let is_chosen = |act: &Act| match &chosen {
        Some(names) => names.split(',').any(|name| act.name() == format!("act: {name}")),
        None => NOT_YET.iter().all(|(not_yet, _)| not_yet != act),
    };
    let is_of_kind = |act: &Act| match kind {
        Kind::Idle => *act < Act::LieAboutOwner,
        Kind::Lies => *act < Act::Overrun,
        Kind::Overruns => (Act::Overrun..Act::RefuseConditions).contains(act),
        Kind::Refusals => *act == Act::RefuseConditions,
        Kind::Barred => false,
        Kind::Refused => *act > Act::RefuseConditions,
    };
    acts::ALL.into_iter().filter(|act| is_of_kind(act) && is_chosen(act)).collect()
}
