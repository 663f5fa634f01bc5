//! The walk over the queue: who starts, who waits for what, who holds back whom.
//!
//! First come, first served within priority. An ask that does not fit holds the nodes that it could use once everything
//! with an end has ended, against all that come later, if it could start then at all; otherwise (services are in the
//! way, or no node is large enough) it is passed over. Between two changes of the cluster or the queue an answer is not
//! asked for twice: capacity only shrinks within a pass, so what failed fails again.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use std::sync::Arc;

use fluxqueue_api::{BlockedBy, names};

use super::job::{Lifecycle, Seating, Stage};
use super::ledger::{Allotment, Claim, Party, Want};
use super::report::Attempts;
use super::{ActionKind, Core, EventKind, InFlight, Subject};
use crate::cluster::filters::Rejection;
use crate::cluster::summary;
use crate::fluxion::{Forecast, RankSet};
use crate::queue::{Ask, JobId};
use fluxqueue_workload::{Lifetime, Pod, Shape, Time, Uid};

/// A changed text about the same pod is not written more often than this.
const TELL_MILLIS: i64 = 30_000;

/// How often the numbers in a text about a waiting job are brought up to date, and its place in the queue.
const EXPLAIN_MILLIS: i64 = 1_000;
const POSITION_MILLIS: i64 = 10_000;

/// What the last try of an ask came to.
#[derive(Debug, Default)]
pub(super) struct Memo {
    verdict: Option<Verdict>,
    explained: Option<Time>,
    /// The state of the nodes at which it was found to fit the idle cluster.
    satisfiable_at: Option<u64>,
}

/// Why an ask was not given slots.
#[derive(Debug, Clone)]
enum Verdict {
    /// It could start one day: it holds these nodes.
    Waits { hold: Arc<RankSet>, at: Option<Time> },
    /// It would fit, but an earlier job holds the nodes.
    Behind { hold: Arc<RankSet>, job: JobId },
    /// Work without an end is in the way: it holds nothing.
    PassedOver,
    /// The search for a place gave up, and nothing proves that there is none: it holds nothing.
    NotFound,
    /// The nodes that could hold it are cordoned or not ready: it holds nothing.
    NodesAway,
    /// No node may be used at all.
    NoNodes,
    /// It does not fit the idle cluster.
    Never,
    /// Not tried: a failed write is to be repeated later.
    Later,
}

/// What a try came to.
enum Try {
    Placed,
    Not(Verdict),
}

/// Pods of one ask that may use the same nodes, and for as long.
struct Section {
    party: Party,
    /// Per want, the pods.
    pods: Vec<Vec<Uid>>,
    /// Nodes they may use now, held ones included.
    open: RankSet,
}

/// State of one pass.
#[derive(Default)]
struct Walk {
    held: RankSet,
    holders: Vec<(Arc<RankSet>, JobId)>,
    /// Single pods that failed in this pass, by shape and lifetime: others like them fail too.
    failed: HashMap<(usize, Lifetime), Verdict>,
    positions: BTreeMap<JobId, usize>,
}

impl Memo {
    /// It has been tried since it came to its place.
    pub(super) fn was_tried(&self) -> bool {
        self.verdict.is_some()
    }

    /// More nodes, or larger ones, are needed.
    pub(super) fn is_hopeless(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Never | Verdict::NoNodes))
    }
}

impl Core {
    pub(super) fn run_pass(&mut self) {
        let seen = (self.ledger.freed, self.ledger.hardened);
        let full = self.queue_changed || seen != self.seen;
        if !full && !self.new_asks {
            return;
        }
        self.queue_changed = false;
        self.new_asks = false;
        self.gauges.passes += 1;
        let asks: Vec<Ask> = self.queue.iter().map(|(ask, _)| ask.clone()).collect();
        let mut walk = Walk::default();
        let mut waiting = 0;
        for ask in asks {
            // What was given for ever in this very pass may make one hopeless that could start one day.
            let stale = full || self.ledger.hardened != seen.1;
            let known = if stale { None } else { self.queue.get(&ask).and_then(|memo| memo.verdict.clone()) };
            let tried = known.map_or_else(|| self.attempt(&ask, &mut walk), Try::Not);
            match tried {
                Try::Placed => {}
                Try::Not(verdict) => {
                    waiting += 1;
                    walk.positions.entry(ask.job()).or_insert(waiting);
                    self.remember(&ask, verdict, &mut walk);
                }
            }
        }
        self.seen = (seen.0, self.ledger.hardened);
        self.note_positions(&walk.positions);
    }

    fn remember(&mut self, ask: &Ask, verdict: Verdict, walk: &mut Walk) {
        if let Verdict::Waits { hold, .. } | Verdict::Behind { hold, .. } = &verdict
            && !hold.is_empty()
        {
            walk.held.union_with(hold);
            walk.holders.push((Arc::clone(hold), ask.job()));
        }
        if let Some(memo) = self.queue.get_mut(ask) {
            memo.verdict = Some(verdict);
        }
    }

    fn note_positions(&mut self, positions: &BTreeMap<JobId, usize>) {
        let now = self.now;
        for (id, position) in positions {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            job.position = Some(*position);
            if now >= job.position_at.plus_millis(POSITION_MILLIS) {
                job.position_at = now;
                self.dirty.insert(*id);
            }
        }
    }

    // --- one ask ---

    fn attempt(&mut self, ask: &Ask, walk: &mut Walk) -> Try {
        let Some(pods) = self.pods_of(ask) else { return Try::Not(Verdict::Later) };
        let single = self.single_key(ask, &pods);
        if let Some(verdict) = single.and_then(|key| walk.failed.get(&key)).cloned() {
            self.explain_verdict(ask, &verdict, &[]);
            return Try::Not(verdict);
        }
        let mut sections = self.sections(ask.job(), &pods, walk);
        let tried = self.place(ask, &mut sections, walk);
        match &tried {
            Try::Placed => self.count_attempt(&pods, true),
            Try::Not(verdict) => {
                if let Some(key) = single {
                    walk.failed.insert(key, verdict.clone());
                }
                if !matches!(verdict, Verdict::Behind { .. }) {
                    self.count_attempt(&pods, false);
                }
                self.explain_verdict(ask, verdict, &sections);
            }
        }
        tried
    }

    /// The pods to be placed together; `None` if one of them is to be left alone for a while.
    fn pods_of(&mut self, ask: &Ask) -> Option<Vec<Uid>> {
        match ask {
            Ask::Member(_, uid) => {
                let retry_at = self.members.get(uid)?.retry_at;
                if retry_at > self.now {
                    self.wake(super::Timer::Pod(Arc::clone(uid)), retry_at);
                    return None;
                }
                Some(vec![Arc::clone(uid)])
            }
            Ask::Start(id) => {
                let job = self.jobs.get(id)?;
                if job.backoff_until > self.now {
                    return None;
                }
                let ready = self.live_members(job).into_iter().filter(|member| member.is_ready(names::GATE));
                Some(ready.take(job.start_size).map(|member| Arc::clone(&member.pod.id.uid)).collect())
            }
        }
    }

    /// Pods that get the same answer in one pass. What other pods' anti-affinity says may differ by label, so it is
    /// only used where no such pod is.
    fn single_key(&self, ask: &Ask, pods: &[Uid]) -> Option<(usize, Lifetime)> {
        let [uid] = pods else { return None };
        if self.cluster.has_repellers() {
            return None;
        }
        let pod = &self.members.get(uid)?.pod;
        Some((Arc::as_ptr(&pod.shape) as usize, self.lifetime(pod, ask.job())))
    }

    fn sections(&mut self, id: JobId, pods: &[Uid], walk: &Walk) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        let suspects = self.suspect_ranks();
        for uid in pods {
            let Some(member) = self.members.get(uid) else { continue };
            let pod = Arc::clone(&member.pod);
            let lifetime = self.lifetime(&pod, id);
            let same_nodes = |section: &&mut Section| {
                let of_constraints = |want: &Want| want.shape.constraints == pod.shape.constraints;
                section.party.lifetime == lifetime && section.party.wants.first().is_some_and(of_constraints)
            };
            // Labels matter only where bound pods repel by them; those of one gang are taken to be alike.
            if let Some(section) = sections.iter_mut().find(same_nodes) {
                section.add(&pod);
                continue;
            }
            let mut open = self.cluster.class(&pod.shape.constraints).now.clone();
            for (closed, _) in self.cluster.repelled(&pod) {
                open.subtract(&closed);
            }
            open.subtract(&suspects);
            let mut free = open.clone();
            free.subtract(&walk.held);
            let ranks = (free.len() < self.cluster.len()).then_some(free);
            let prefer = self.cluster.class(&pod.shape.constraints).tiers();
            let party = Party { wants: Vec::new(), ranks, prefer, lifetime };
            let mut section = Section { party, pods: Vec::new(), open };
            section.add(&pod);
            sections.push(section);
        }
        sections
    }

    fn place(&mut self, ask: &Ask, sections: &mut [Section], walk: &Walk) -> Try {
        if sections.iter().any(|section| section.open.is_empty()) {
            return Try::Not(if self.could_reopen(sections) { Verdict::NodesAway } else { Verdict::NoNodes });
        }
        let shut = |section: &Section| section.party.ranks.as_ref().is_some_and(RankSet::is_empty);
        if sections.iter().any(shut) {
            return Try::Not(self.judge_behind(ask, sections, walk));
        }
        match self.ledger.allocate(&mut self.cluster, &parties(sections)) {
            Allotment::Placed(claims) => {
                self.start(ask, sections, claims);
                Try::Placed
            }
            // What cannot be placed now may well be placed later: the forecast tells.
            Allotment::NotNow | Allotment::NotFound => Try::Not(self.judge(sections, walk)),
        }
    }

    /// Earlier jobs hold all its nodes. What could never fit is told so at once all the same, not when its turn comes.
    fn judge_behind(&mut self, ask: &Ask, sections: &mut [Section], walk: &Walk) -> Verdict {
        let epoch = Some(self.cluster.epoch());
        if self.queue.get(ask).is_none_or(|memo| memo.satisfiable_at != epoch) {
            let verdict = self.judge(sections, walk);
            if matches!(verdict, Verdict::Never | Verdict::NodesAway) {
                return verdict;
            }
            if let Some(memo) = self.queue.get_mut(ask) {
                memo.satisfiable_at = epoch;
            }
        }
        Self::behind(sections, walk, Arc::new(RankSet::new()))
    }

    /// Why it does not fit, and what it holds.
    fn judge(&mut self, sections: &mut [Section], walk: &Walk) -> Verdict {
        // From here on what earlier jobs hold does not matter: the question is what the job itself could use.
        for section in sections.iter_mut() {
            section.party.ranks = (section.open.len() < self.cluster.len()).then(|| section.open.clone());
        }
        let together = parties(sections);
        let forecast = self.ledger.forecast(&together).unwrap_or(Forecast::Blocked);
        let could_start = matches!(forecast, Forecast::Now | Forecast::At(_) | Forecast::Eventually);
        let hold = if could_start { self.ledger.eligible(&together) } else { None }.unwrap_or_default();
        let hold = Arc::new(hold);
        match forecast {
            Forecast::Now if walk.holders.is_empty() => Verdict::Waits { hold, at: None },
            Forecast::Now => Self::behind(sections, walk, hold),
            Forecast::At(seconds) => Verdict::Waits { hold, at: Some(Time::from_seconds(seconds)) },
            Forecast::Eventually => Verdict::Waits { hold, at: None },
            Forecast::Blocked => Verdict::PassedOver,
            Forecast::NotFound => {
                self.gauges.placements_not_found += 1;
                Verdict::NotFound
            }
            Forecast::Never if self.could_reopen(sections) => Verdict::NodesAway,
            Forecast::Never => Verdict::Never,
        }
    }

    /// It would fit if nodes that are cordoned, not ready or left alone for the moment came back.
    fn could_reopen(&mut self, sections: &[Section]) -> bool {
        let mut lasting: Vec<Party> = Vec::with_capacity(sections.len());
        for Section { party, .. } in sections {
            let Some(want) = party.wants.first() else { return false };
            let ranks = Some(self.cluster.class(&want.shape.constraints).lasting.clone());
            let (wants, lifetime) = (party.wants.clone(), party.lifetime);
            lasting.push(Party { wants, ranks, prefer: Vec::new(), lifetime });
        }
        let parties: Vec<&Party> = lasting.iter().collect();
        !matches!(self.ledger.forecast(&parties), Some(Forecast::Never) | None)
    }

    /// The first job in the queue whose nodes are in the way.
    fn behind(sections: &[Section], walk: &Walk, hold: Arc<RankSet>) -> Verdict {
        let in_the_way =
            walk.holders.iter().find(|(held, _)| sections.iter().any(|section| held.intersects(&section.open)));
        let job = in_the_way.or(walk.holders.first()).map_or(0, |(_, job)| *job);
        Verdict::Behind { hold, job }
    }

    fn start(&mut self, ask: &Ask, sections: &[Section], claims: Vec<Vec<Vec<Claim>>>) {
        let id = ask.job();
        self.queue.remove(ask);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.asks.remove(ask);
            job.blocker = None;
            job.unsatisfiable = false;
            job.estimate = None;
            job.position = None;
            if matches!(ask, Ask::Start(_)) {
                job.life = Lifecycle::Placed;
            }
        }
        let mut assigned: BTreeMap<Uid, Claim> = BTreeMap::new();
        for (section, of_section) in sections.iter().zip(claims) {
            for (pods, of_want) in section.pods.iter().zip(of_section) {
                assigned.extend(pods.iter().cloned().zip(of_want));
            }
        }
        // Ranks are given in the order of the pods, not of the nodes.
        let Some(job) = self.jobs.get(&id) else { return };
        let live = self.live_members(job);
        let roles: Vec<Arc<Shape>> = super::record::roles(&live).iter().map(|(shape, _)| Arc::clone(shape)).collect();
        let order: Vec<Uid> = live.iter().map(|member| Arc::clone(&member.pod.id.uid)).collect();
        for uid in order {
            if let Some(claim) = assigned.remove(&uid) {
                let role = roles.iter().position(|shape| *shape == claim.shape).unwrap_or(0);
                self.assign(&uid, claim, Seating::Free { role });
            }
        }
        for claim in assigned.into_values() {
            self.drop_claim(Some(claim));
        }
        self.touched.insert(id);
    }

    fn count_attempt(&mut self, pods: &[Uid], scheduled: bool) {
        for uid in pods {
            let Some(member) = self.members.get(uid) else { continue };
            let profile = Arc::clone(&member.pod.scheduler);
            let known = self.gauges.attempts.iter().position(|attempts| attempts.profile == profile);
            let at = known.unwrap_or_else(|| {
                self.gauges.attempts.push(Attempts { profile, scheduled: 0, unschedulable: 0, error: 0 });
                self.gauges.attempts.len() - 1
            });
            if scheduled {
                self.gauges.attempts[at].scheduled += 1;
            } else {
                self.gauges.attempts[at].unschedulable += 1;
            }
        }
    }

    // --- telling people ---

    fn explain_verdict(&mut self, ask: &Ask, verdict: &Verdict, sections: &[Section]) {
        let id = ask.job();
        let Some(memo) = self.queue.get_mut(ask) else { return };
        let fresh = memo.verdict.as_ref().is_some_and(|old| old.kind() == verdict.kind())
            && memo.explained.is_some_and(|at| self.now < at.plus_millis(EXPLAIN_MILLIS));
        if fresh {
            return;
        }
        memo.explained = Some(self.now);
        let blocker = match verdict {
            Verdict::Later => return,
            Verdict::Behind { job, .. } => self.queued_behind(*job),
            _ if sections.is_empty() => match self.copied_blocker(ask) {
                Some(blocker) => blocker,
                None => return,
            },
            _ => self.short_of(verdict, sections),
        };
        let text = blocker.message.clone();
        let unsatisfiable = matches!(verdict, Verdict::Never | Verdict::NoNodes);
        let estimate = if let Verdict::Waits { at, .. } = verdict { *at } else { None };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.blocker.as_ref() != Some(&blocker) || job.estimate != estimate || job.unsatisfiable != unsatisfiable {
            job.blocker = Some(blocker);
            job.estimate = estimate;
            job.unsatisfiable = unsatisfiable;
            // One that has begun says what is in its way in another place too.
            if job.stalled.is_some() {
                self.touched.insert(id);
            }
            self.dirty.insert(id);
        }
        if matches!(verdict, Verdict::Behind { .. }) {
            return;
        }
        for uid in self.waiting_pods(ask) {
            self.tell(&uid, "Unschedulable", &text);
        }
    }

    /// All pods of the job that wait with this ask.
    fn waiting_pods(&self, ask: &Ask) -> Vec<Uid> {
        match ask {
            Ask::Member(_, uid) => vec![Arc::clone(uid)],
            Ask::Start(id) => self.jobs.get(id).map_or_else(Vec::new, |job| {
                let live = self.live_members(job).into_iter();
                live.filter(|m| m.stage == Stage::Waiting).map(|m| Arc::clone(&m.pod.id.uid)).collect()
            }),
        }
    }

    fn queued_behind(&self, job: JobId) -> BlockedBy {
        let behind = self.jobs.get(&job).map(|job| job.key.to_string());
        BlockedBy {
            reason: "QueuedBehind".to_owned(),
            message: format!("waits behind {}", behind.as_deref().unwrap_or("an earlier job")),
            behind,
            ..BlockedBy::default()
        }
    }

    /// What was found for a pod just like this one, in the same pass.
    fn copied_blocker(&self, ask: &Ask) -> Option<BlockedBy> {
        let Ask::Member(_, uid) = ask else { return None };
        let shape = &self.members.get(uid)?.pod.shape;
        self.queue.iter().find_map(|(other, memo)| {
            let Ask::Member(id, other) = other else { return None };
            let like = &self.members.get(other)?.pod.shape;
            (other != uid && memo.explained.is_some() && Arc::ptr_eq(like, shape))
                .then(|| self.jobs.get(id)?.blocker.clone())?
        })
    }

    /// In kube-scheduler's words why no node will do, and the resource that is short most.
    fn short_of(&mut self, verdict: &Verdict, sections: &[Section]) -> BlockedBy {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut worst: Option<Shortage> = None;
        for section in sections {
            self.count_closed(section, &mut counts);
            let Some(explanation) = self.ledger.explain(&[&section.party]) else { continue };
            for shape in &explanation.shapes {
                // Of what never fits, what the idle cluster lacks counts.
                let supply = if matches!(verdict, Verdict::Never) { &shape.idle } else { &shape.now };
                for pool in &supply.pools {
                    if pool.short_nodes > 0 {
                        let nodes = usize::try_from(pool.short_nodes).unwrap_or(usize::MAX);
                        *counts.entry(insufficient(&pool.resource)).or_default() += nodes;
                    }
                    let requested = pool.per_slot.saturating_mul(shape.wanted);
                    let found = Shortage { resource: pool.resource.clone(), requested, free: pool.free };
                    if worst.as_ref().is_none_or(|known| found.is_worse_than(known)) {
                        worst = Some(found);
                    }
                }
            }
        }
        let mut message = summary::unavailable(self.cluster.len(), &counts);
        let pods: usize = sections.iter().map(|section| section.pods.iter().map(Vec::len).sum::<usize>()).sum();
        if let Some(worst) = worst.as_ref().filter(|_| pods > 1) {
            let idle = if matches!(verdict, Verdict::Never) { "in all" } else { "free" };
            let amount = |amount| super::record::quantity(&worst.resource, amount);
            let _ = write!(
                message,
                " {pods} pods start together and ask for {} {}, {} {idle} on the nodes they may use.",
                amount(worst.requested),
                worst.resource,
                amount(worst.free),
            );
        }
        let reason = match verdict {
            Verdict::Never | Verdict::NoNodes => "Unsatisfiable",
            Verdict::NodesAway => "NoMatchingNodes",
            _ => "InsufficientResources",
        };
        if matches!(verdict, Verdict::PassedOver) {
            message += " Work that has no end is in the way, so later jobs are not held back.";
        }
        if matches!(verdict, Verdict::NotFound) {
            message += " No placement of all of them together was found, and none was proved impossible, so later jobs are \
                        not held back.";
        }
        let quantity = |shortage: &Shortage, amount| super::record::quantity(&shortage.resource, amount);
        BlockedBy {
            reason: reason.to_owned(),
            message,
            resource: worst.as_ref().map(|shortage| shortage.resource.clone()),
            requested: worst.as_ref().map(|shortage| quantity(shortage, shortage.requested)),
            available: worst.as_ref().map(|shortage| quantity(shortage, shortage.free)),
            behind: None,
        }
    }

    fn count_closed(&mut self, section: &Section, counts: &mut BTreeMap<String, usize>) {
        let Some(want) = section.party.wants.first() else { return };
        for (text, nodes) in self.cluster.class(&want.shape.constraints).rejections() {
            *counts.entry(text).or_default() += nodes;
        }
        let pod = section.pods.first().and_then(|pods| self.members.get(pods.first()?)).map(|m| Arc::clone(&m.pod));
        if let Some(pod) = pod {
            for (closed, rejection) in self.cluster.repelled(&pod) {
                *counts.entry(rejection.reason().into_owned()).or_default() += closed.len();
            }
        }
    }

    /// Writes into a pod's condition, and as an event, why it is not scheduled.
    pub(super) fn tell(&mut self, uid: &Uid, reason: &'static str, message: &str) {
        let now = self.now;
        let Some(member) = self.members.get_mut(uid) else { return };
        if member.telling.is_some() || member.pod.deleting {
            return;
        }
        let recently = |at: Time| now < at.plus_millis(TELL_MILLIS);
        if member.told.as_ref().is_some_and(|(text, at)| text == message || recently(*at)) {
            return;
        }
        member.told = Some((message.to_owned(), now));
        let pod = Arc::clone(&member.pod);
        let known = pod.scheduled_condition.as_ref();
        if known.is_some_and(|known| !known.scheduled && known.reason == reason && known.message == message) {
            return;
        }
        let newly = known.is_none_or(|known| known.scheduled);
        let kind = ActionKind::SetPodScheduled {
            pod: pod.id.clone(),
            resource_version: pod.resource_version.clone(),
            reason,
            message: message.to_owned(),
            newly,
        };
        let action = self.act(kind, Some(InFlight::Condition(Arc::clone(uid))));
        if let Some(member) = self.members.get_mut(uid) {
            member.telling = Some(action);
        }
        let subject = Subject::Pod(pod.id.clone());
        self.note(subject, EventKind::Warning, "FailedScheduling", "Scheduling", message.to_owned(), &pod.scheduler);
    }

    /// Says something about a job once: in its conditions, and as an event.
    pub(super) fn say_once(&mut self, id: JobId, reason: &'static str, text: String) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.said.get(reason) == Some(&text) {
            return;
        }
        job.said.insert(reason, text.clone());
        let written = job.record.status.iter().flat_map(|status| &status.conditions);
        let was_said = written.into_iter().any(|said| said.type_ == reason && said.message == text);
        self.dirty.insert(id);
        if was_said {
            // By an earlier process.
            return;
        }
        let reporter = Arc::clone(&job.reporter);
        let first = job.members.iter().find_map(|uid| self.members.get(uid)).map(|member| member.pod.id.clone());
        if let Some(pod) = first {
            self.note(Subject::Pod(pod), EventKind::Warning, reason, "Grouping", text, &reporter);
        }
    }
}

/// kube-scheduler's words for a node that has too little of a resource.
fn insufficient(resource: &str) -> String {
    match resource {
        "pods" => Rejection::TooManyPods,
        other => Rejection::Insufficient(Arc::from(other)),
    }
    .reason()
    .into_owned()
}

/// A resource that is asked for, and how much there is.
struct Shortage {
    resource: String,
    requested: u64,
    free: u64,
}

impl Shortage {
    /// Less of what is asked for is there.
    fn is_worse_than(&self, other: &Shortage) -> bool {
        let ratio = |a: &Shortage, b: &Shortage| u128::from(a.free) * u128::from(b.requested.max(1));
        ratio(self, other) < ratio(other, self)
    }
}

impl Section {
    fn add(&mut self, pod: &Arc<Pod>) {
        let known =
            self.party.wants.iter().position(|want| Arc::ptr_eq(&want.shape, &pod.shape) || want.shape == pod.shape);
        let at = known.unwrap_or_else(|| {
            let namespace = Arc::clone(&pod.id.key.namespace);
            self.party.wants.push(Want { namespace, shape: Arc::clone(&pod.shape), count: 0 });
            self.pods.push(Vec::new());
            self.pods.len() - 1
        });
        self.party.wants[at].count += 1;
        self.pods[at].push(Arc::clone(&pod.id.uid));
    }
}

impl Verdict {
    fn kind(&self) -> u8 {
        match self {
            Verdict::Waits { .. } => 0,
            Verdict::Behind { .. } => 1,
            Verdict::PassedOver => 2,
            Verdict::NodesAway => 3,
            Verdict::NoNodes => 4,
            Verdict::Never => 5,
            Verdict::Later => 6,
            Verdict::NotFound => 7,
        }
    }
}

/// Everybody, to be placed together.
fn parties(sections: &[Section]) -> Vec<&Party> {
    sections.iter().map(|section| &section.party).collect()
}
