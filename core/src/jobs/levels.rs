//! What jobs ask of levels of the machine: that all pods are in one rack, say.
//!
//! Here it is said which rules count for a pod, by the levels that there are; where its job is
//! already, for those who join it; and whether it is still so before the first Binding. Keeping the
//! rules is the graph's matter, from `plan` on.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::text;

use crate::Core;
use crate::jobs::job::{Job, Member, Style};
use crate::parts::{Refresh, Sight, Slots};
use crate::sound::{Lookup, Sound};
use fluxqueue_machine::cluster::{Node, readable};
use fluxqueue_machine::fluxion::Within;
use fluxqueue_machine::ledger::{Allocation, LevelWant, LevelWants, Role};
use fluxqueue_planner::plan::Attempt;
use fluxqueue_planner::queue::{ClassId, JobId, PendingRequest, Place, QueueId};
use fluxqueue_workload::levels::{LevelBound, LevelRule, LevelRules, RuleScope, Spread};
use fluxqueue_workload::{Pod, Shape, Uid, Unsupported};

/// What is known of the pods of one job while it is looked at.
pub(crate) struct Asked {
    /// Some object that makes its pods asks for levels. Most pods need no more than this to be told
    /// that they ask for nothing.
    by_makers: bool,
    /// What pods want, by what they ask for, their shape and their role: many have these in common.
    wants: Vec<(Asks, LevelWants)>,
}

/// Rules, a shape and a role, if that matters.
type Asks = (Arc<[LevelRule]>, Arc<Shape>, Option<Role>);

impl Sight<'_> {
    // --- what cannot be honoured ---

    /// A rule of these that names no level, or that the library in use cannot keep.
    pub(crate) fn level_trouble(&self, rules: &LevelRules) -> Option<Unsupported> {
        rules.iter().flat_map(|rules| rules.iter()).find_map(|rule| {
            if !self.planner.ledger.has_levels() {
                let message = "this Fluxion library knows no levels above nodes";
                return (rule.bound != LevelBound::Preferred)
                    .then(|| rule.refused(message.to_owned()));
            }
            let topology = &self.settings.topology;
            if topology.find(&rule.level).is_some() {
                return None;
            }
            let known: Vec<&str> = topology.levels().map(|level| &*level.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Some(rule.refused(format!(
                "{} is no level of this machine; there are: {known}",
                text::quoted(&rule.level)
            )))
        })
    }

    /// Annotations of these rules that are wishes, and not honoured by the library in use.
    pub(crate) fn ignored_levels<'b>(
        &self,
        rules: &'b LevelRules,
    ) -> impl Iterator<Item = &'static str> + use<'b> {
        let has_levels = self.planner.ledger.has_levels();
        let rules = rules.iter().flat_map(|rules| rules.iter());
        rules
            .filter(move |rule| !has_levels && rule.bound == LevelBound::Preferred)
            .map(|rule| rule.annotation)
    }

    // --- what is wanted ---

    /// Begins to ask what pods of a job want.
    pub(crate) fn ask_for_levels(&self, id: JobId) -> Asked {
        let mut makers = self.jobs.all.get(&id).into_iter().flat_map(|job| self.jobs.makers(job));
        Asked {
            by_makers: makers.any(|made_by| !matches!(made_by.levels, Ok(None))),
            wants: Vec::new(),
        }
    }

    /// What a pod wants of levels. Who joins others that ask for the same is to be where they are.
    pub(crate) fn level_wants(
        &self,
        id: JobId,
        pod: &Arc<Pod>,
        joins: bool,
        asked: &mut Asked,
    ) -> LevelWants {
        if pod.levels.is_none() && !asked.by_makers {
            return None;
        }
        let rules = self.jobs.level_rules(pod).filter(|_| self.planner.ledger.has_levels())?;
        let job = self.jobs.all.get(&id)?;
        let is_of_role =
            |rule: &LevelRule| matches!(rule.of, RuleScope::Role | RuleScope::Slice(_));
        let role = if rules.iter().any(is_of_role) { self.jobs.role(job, pod) } else { None };
        let is_known = |((of, shape, known), _): &&(Asks, LevelWants)| {
            of == rules && *shape == pod.shape && *known == role
        };
        // Those who join are where their slice is.
        let is_like_others = !joins || slice_size(rules).is_none();
        if let Some((_, wants)) = asked.wants.iter().find(is_known).filter(|_| is_like_others) {
            return wants.clone();
        }
        let want = |rule: &LevelRule| {
            let level = Arc::clone(&self.settings.topology.find(&rule.level)?.name);
            let within = match rule.bound {
                LevelBound::Preferred => Within::Fewest,
                LevelBound::Required => {
                    let part = if joins { self.part_of(job, pod, rule, &level) } else { None };
                    part.map_or(Within::One, |part| Within::Part(part.into()))
                }
                LevelBound::Spread(spread) if joins => {
                    let parts = self.parts_of(job, pod, rule, &level).into_iter();
                    let count = |(part, count)| (part, u32::try_from(count).unwrap_or(u32::MAX));
                    Within::Beside(spread, parts.map(count).collect())
                }
                LevelBound::Spread(spread) => Within::Spread(spread),
            };
            // A pod that stays alone leads nobody. A group that starts with fewer pods than it asks
            // for is followed by the others.
            let asked = pod.group.as_ref().and_then(|group| group.size.as_ref().ok());
            let is_followed = asked.is_some_and(|asked| job.start_size < *asked as usize);
            let leads =
                within == Within::One && if joins { job.style != Style::Lone } else { is_followed };
            let role = role.clone().filter(|_| is_of_role(rule));
            Some(LevelWant { level, within, of: rule.of.clone(), role, leads })
        };
        let wants: Arc<[LevelWant]> = rules.iter().filter_map(want).collect();
        let wants = Some(wants).filter(|wants| !wants.is_empty());
        asked.wants.push(((Arc::clone(rules), Arc::clone(&pod.shape), role), wants.clone()));
        wants
    }

    /// The part of a level in which most of those are that ask for the same as this pod of the job.
    fn part_of(&self, job: &Job, pod: &Pod, rule: &LevelRule, level: &str) -> Option<String> {
        self.parts_of(job, pod, rule, level)
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(part, _)| part)
    }

    /// The parts of a level in which such are, and how many.
    fn parts_of(
        &self,
        job: &Job,
        pod: &Pod,
        rule: &LevelRule,
        level: &str,
    ) -> BTreeMap<String, usize> {
        let asks_for_it = |other: &Pod| {
            let rules = self.jobs.level_rules(other);
            let is_same = |known: &LevelRule| {
                (&known.level, known.bound, &known.of) == (&rule.level, rule.bound, &rule.of)
            };
            rules.is_some_and(|rules| rules.iter().any(is_same))
                && self.jobs.are_together(&rule.of, job, pod, other)
        };
        let members = self.jobs.counted(job).into_iter().filter(|member| asks_for_it(&member.pod));
        let of_members = members.filter_map(|member| member.allocation());
        // Of a slot without a pod it is not known what that asked for, but by its shape, or if all
        // pods are of one template.
        let is_of_one = !job.retained.is_empty() && self.jobs.role(job, pod) == Some(Role::Only);
        let is_alike = |slot: &&Allocation| is_of_one || slot.shape == pod.shape;
        let of_slots = job.retained.iter().map(|slot| &slot.allocation).filter(is_alike);
        let of_slots = of_slots.filter(|_| !matches!(rule.of, RuleScope::Slice(_)));
        let mut parts: BTreeMap<String, usize> = BTreeMap::new();
        for allocation in of_members.chain(of_slots) {
            let node = self
                .planner
                .cluster
                .rank(&allocation.node)
                .and_then(|rank| self.planner.cluster.node(rank));
            if let Some(part) = node.and_then(|node| self.settings.topology.part(level, node)) {
                *parts.entry(part).or_default() += 1;
            }
        }
        parts
    }
}

impl Refresh<'_> {
    /// What is wrong with what the objects that made a job's pods ask of levels.
    pub(crate) fn bad_levels(&self, job: &Job) -> Option<String> {
        let mut made_by = self.jobs.makers(job);
        made_by.find_map(|made_by| {
            let wrong = match &made_by.levels {
                Err(wrong) => wrong.clone(),
                Ok(None) => return None,
                Ok(rules) => self.sight().level_trouble(rules)?,
            };
            Some(format!(
                "{} {}: {}: {}",
                made_by.kind.as_str(),
                made_by.id,
                wrong.field,
                wrong.message
            ))
        })
    }
}

impl Slots<'_> {
    /// Pods that start one by one (of an elastic job, or who join a gang), without those who are to
    /// be where another of them will be: the first says where that is, and the others wait for it,
    /// unless it holds nobody up. They are told so once it is known to wait.
    pub(crate) fn without_followers(&mut self, id: JobId, ready: &[Uid]) -> Sound<Vec<Uid>> {
        let mut asked = self.sight().ask_for_levels(id);
        let mut first: Vec<(LevelWant, &Member, LevelWants)> = Vec::new();
        let (mut leaders, mut followers) = (Vec::new(), Vec::new());
        for uid in ready {
            let member = self.jobs.members.known(uid)?;
            let wants = self.sight().level_wants(id, &member.pod, true, &mut asked);
            let open = open_wants(&wants);
            let leads = |(known, leader, asked): &&(LevelWant, &Member, LevelWants),
                         want: &LevelWant| {
                known == want && self.may_lead(want, (leader, asked), (member, &wants))
            };
            let is_first = |want: &LevelWant| first.iter().all(|known| !leads(&known, want));
            if open.is_empty() || open.iter().any(is_first) {
                leaders.push(uid.clone());
                if self.is_waited_for(id, uid) {
                    first.extend(open.into_iter().map(|want| (want, member, wants.clone())));
                }
            } else if let Some((_, leader, _)) =
                first.iter().find(|known| open.iter().any(|want| leads(known, want)))
            {
                followers.push((uid.clone(), leader.pod.id.uid.clone()));
            }
        }
        for (uid, leader) in followers {
            self.tell_who_follows(id, &uid, &leader)?;
        }
        Ok(leaders)
    }

    /// Others of its job wait for the place of a pod: it may start some day, as far as is known.
    fn is_waited_for(&self, id: JobId, uid: &Uid) -> bool {
        let pending = PendingRequest::Member(id, uid.clone());
        let holds_nobody_up =
            self.planner.queue.last_attempt_of(&pending).is_some_and(Attempt::holds_nobody_up);
        !holds_nobody_up || self.planner.promises.reservation(&pending).is_some()
    }

    /// Where one pod will be says where another one of its job may be: of slices in the same one.
    /// Who is to be spread counts the other, but waits for it only if what keeps that one keeps it
    /// as well.
    fn may_lead(
        &self,
        want: &LevelWant,
        (leader, asks): (&Member, &LevelWants),
        (member, wants): (&Member, &LevelWants),
    ) -> bool {
        match (&want.within, &want.of) {
            (Within::Beside(..), _) => {
                asks == wants
                    && leader.pod.shape == member.pod.shape
                    && leader.volumes == member.volumes
            }
            (_, RuleScope::Slice(size)) => {
                self.jobs.slice_of(&leader.pod, *size) == self.jobs.slice_of(&member.pod, *size)
            }
            (_, RuleScope::Role) => want.role.is_some() || leader.pod.shape == member.pod.shape,
            _ => true,
        }
    }

    fn tell_who_follows(&mut self, id: JobId, uid: &Uid, leader: &Uid) -> Sound {
        let of_leader = PendingRequest::Member(id, leader.clone());
        if self.planner.queue.last_attempt_of(&of_leader).is_none() {
            return Ok(());
        }
        let name = self.jobs.members.known(leader)?.pod.id.key.name.clone();
        let text = format!(
            "Waits for pod {name} of its job: where this one may be depends on where that one is."
        );
        self.notices().report_unscheduled(uid, "Unschedulable", &text)?;
        Ok(())
    }

    /// What came of an attempt at a class has changed who waits for whom, if the pods of its jobs
    /// wait for each other at all.
    pub(crate) fn look_at_followers(&mut self, class: ClassId) {
        let Some(attempt) = self.planner.queue.last_attempt(class) else { return };
        if attempt.request.groups.iter().any(|group| !open_wants(&group.levels).is_empty()) {
            let members = self.planner.queue.of_class(class, None).map(Place::request);
            let members = members.filter(|pending| matches!(pending, PendingRequest::Member(..)));
            self.agenda.touched.extend(members.map(PendingRequest::job));
        }
    }

    // --- whether it is so ---

    /// Why a gang may not begin on the nodes that it has: some that are to be in one part of a
    /// level are not any more, or they are not spread as they ask.
    pub(crate) fn torn_apart(&mut self, id: JobId, pods: &[Uid]) -> Option<String> {
        let by_makers = self.sight().ask_for_levels(id).by_makers;
        let job = self.jobs.all.get(&id)?;
        let queue = job.queue.id;
        let mut spreads: Vec<Spreading> = Vec::new();
        let mut places: Vec<(&LevelRule, &Pod, String)> = Vec::new();
        for member in pods.iter().filter_map(|uid| self.jobs.members.get(uid)) {
            if member.pod.levels.is_none() && !by_makers {
                continue;
            }
            let rules = self.jobs.level_rules(&member.pod).map_or(&[][..], |rules| rules);
            let Some(allocation) = member.allocation() else { continue };
            let node = self
                .planner
                .cluster
                .rank(&allocation.node)
                .and_then(|rank| self.planner.cluster.node(rank));
            let part_of =
                |level: &str| node.and_then(|node| self.settings.topology.part(level, node));
            // The parts of other levels that it has to be in.
            let mut inside = Parts::new();
            for rule in rules.iter().filter(|rule| rule.bound != LevelBound::Preferred) {
                let Some(level) = self.settings.topology.find(&rule.level) else { continue };
                let Some(part) = part_of(&level.name) else {
                    return Some(format!("{} is in no {} any more", allocation.node, level.name));
                };
                let pod = &*member.pod;
                if let LevelBound::Spread(spread) = rule.bound {
                    let is_same = |known: &Spreading| {
                        (&known.level, known.spread, &known.of) == (&level.name, spread, &rule.of)
                            && self.jobs.are_together(&rule.of, job, &known.first, pod)
                    };
                    let at = spreads.iter().position(is_same).unwrap_or_else(|| {
                        spreads.push(Spreading::new(&level.name, spread, (&rule.of, &member.pod)));
                        spreads.len() - 1
                    });
                    spreads[at].count(part, pod, &inside);
                    continue;
                }
                if !matches!(rule.of, RuleScope::Slice(_)) {
                    inside.push((Arc::clone(&level.name), part.clone()));
                }
                let is_same = |known: &LevelRule, other: &Pod| {
                    (&known.level, &known.of) == (&rule.level, &rule.of)
                        && self.jobs.are_together(&rule.of, job, pod, other)
                };
                match places.iter().find(|(known, other, _)| is_same(known, other)) {
                    None => places.push((rule, pod, part)),
                    Some((.., other)) if *other == part => {}
                    Some((.., other)) => {
                        let (node, level, part, other) =
                            (&allocation.node, &level.name, readable(&part), readable(other));
                        return Some(format!(
                            "{node} is in {level} {part} now, and others are in {other}"
                        ));
                    }
                }
            }
        }
        spreads.into_iter().find_map(|spreading| self.not_spread(queue, spreading))
    }

    /// Why pods are not spread as they ask.
    fn not_spread(&mut self, queue: QueueId, spreading: Spreading) -> Option<String> {
        let Spreading { level, spread, mut counts, asked, .. } = spreading;
        if let Some(most) = spread.max_per_part
            && let Some((part, _)) = counts.iter().find(|(_, count)| **count > most)
        {
            return Some(format!(
                "{level} {} has more than {most} of its pods now",
                readable(part)
            ));
        }
        let skew = spread.max_skew?;
        for (shape, inside) in &asked {
            let admitted =
                self.planner.cluster.admitted(&shape.constraints, self.queues.nodes(queue));
            let topology = &self.settings.topology;
            for node in admitted.iter().filter_map(|rank| self.planner.cluster.node(rank)) {
                let is_inside = inside
                    .iter()
                    .all(|(level, part)| topology.part(level, node).as_ref() == Some(part));
                if let Some(part) = topology.part(&level, node).filter(|_| is_inside) {
                    counts.entry(part).or_default();
                }
            }
        }
        let (fewest, least) = counts.iter().min_by_key(|(_, count)| **count)?;
        let (fullest, most) = counts.iter().max_by_key(|(_, count)| **count)?;
        (most - least > skew).then(|| {
            let (fullest, fewest) = (readable(fullest), readable(fewest));
            format!("{level} {fullest} has {most} of its pods now and {fewest} has {least}, which may differ by {skew}")
        })
    }
}

impl Core {
    /// A pod that is to be where another of its job is comes by the same plan as that one, or is
    /// promised a start by it, which did not know of it.
    pub(crate) fn knows_not_where(
        &self,
        pending: &PendingRequest,
        others: &mut Vec<(JobId, LevelWant)>,
    ) -> bool {
        let PendingRequest::Member(id, uid) = pending else { return false };
        let open =
            self.jobs.members.get(uid).map_or_else(Vec::new, |member| open_wants(&member.levels));
        let is_known =
            open.iter().any(|want| others.iter().any(|(job, known)| (job, known) == (id, want)));
        others.extend(open.into_iter().map(|want| (*id, want)));
        is_known
    }

    /// A node that is known will be in other parts of levels.
    pub(crate) fn is_moved(&self, node: &Node) -> bool {
        let known =
            self.planner.cluster.rank(&node.name).and_then(|rank| self.planner.cluster.node(rank));
        let topology = &self.settings.topology;
        known.is_some_and(|known| {
            known.labels != node.labels && topology.parts(known).ne(topology.parts(node))
        })
    }
}

/// Pods that are spread over a level together, and where they are.
struct Spreading {
    level: Arc<str>,
    spread: Spread,
    of: RuleScope,
    /// The first of them.
    first: Arc<Pod>,
    counts: BTreeMap<String, u32>,
    /// What they ask of nodes, and in which parts of other levels they have to be.
    asked: Vec<(Arc<Shape>, Parts)>,
}

/// Parts, each with its level.
type Parts = Vec<(Arc<str>, String)>;

impl Spreading {
    fn new(level: &Arc<str>, spread: Spread, (of, first): (&RuleScope, &Arc<Pod>)) -> Self {
        let (level, of, first) = (Arc::clone(level), of.clone(), Arc::clone(first));
        Spreading { level, spread, of, first, counts: BTreeMap::new(), asked: Vec::new() }
    }

    /// A pod more is in a part.
    fn count(&mut self, part: String, pod: &Pod, inside: &[(Arc<str>, String)]) {
        *self.counts.entry(part).or_default() += 1;
        let is_known = |(shape, known): &(Arc<Shape>, Parts)| {
            known == inside
                && (Arc::ptr_eq(shape, &pod.shape) || shape.constraints == pod.shape.constraints)
        };
        if !self.asked.iter().any(is_known) {
            self.asked.push((Arc::clone(&pod.shape), inside.to_vec()));
        }
    }
}

/// What depends on where others of the job will be.
fn open_wants(wants: &LevelWants) -> Vec<LevelWant> {
    let open = wants.iter().flat_map(|wants| wants.iter());
    open.filter(|want| matches!(want.within, Within::One | Within::Beside(..))).cloned().collect()
}

/// How many pods a slice has, by these rules.
fn slice_size(rules: &[LevelRule]) -> Option<u32> {
    rules
        .iter()
        .find_map(|rule| if let RuleScope::Slice(size) = rule.of { Some(size) } else { None })
}
