//! Pods that follow other pods of their job to a part of a level.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::jobs::levels::{Parts, open_wants};
use crate::jobs::member::Member;
use crate::jobs::roles;
use crate::parts::Slots;
use crate::sound::{Lookup, Sound};
use fluxqueue_machine::cluster::readable;
use fluxqueue_machine::fluxion::Within;
use fluxqueue_machine::ledger::{LevelWant, LevelWants};
use fluxqueue_planner::plan::Attempt;
use fluxqueue_planner::queue::{ClassId, JobId, PendingRequest, Place, QueueId};
use fluxqueue_workload::levels::{LevelBound, LevelRule, RuleScope, Spread};
use fluxqueue_workload::{Pod, Shape, Uid};

impl Slots<'_> {
    /// Returns the pods to queue of those that start one by one (pods of an elastic job, or pods
    /// that join a gang). A pod that has to be in the same part as another one is left out: the
    /// place of the first decides, and the others wait for it, unless the first delays no other
    /// request. Their condition states that once the first is known to wait.
    pub(crate) fn without_followers(&mut self, id: JobId, ready: &[Uid]) -> Sound<Vec<Uid>> {
        let mut survey = self.sight().survey_levels(id);
        let mut first: Vec<(LevelWant, &Member, LevelWants)> = Vec::new();
        let (mut leaders, mut followers) = (Vec::new(), Vec::new());
        for uid in ready {
            let member = self.jobs.members.known(uid)?;
            let wants = self.sight().level_wants(id, &member.pod, true, &mut survey);
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
            self.tell_followers(id, &uid, &leader)?;
        }
        Ok(leaders)
    }

    /// True if other pods of its job wait for the place of a pod: it may start some day, as far as
    /// is known.
    pub(crate) fn is_waited_for(&self, id: JobId, uid: &Uid) -> bool {
        let pending = PendingRequest::Member(id, uid.clone());
        let holds_up_no_other =
            self.planner.queue.last_attempt_of(&pending).is_some_and(Attempt::holds_up_no_other);
        !holds_up_no_other || self.planner.promises.reservation(&pending).is_some()
    }

    /// True if the place of one pod decides where another pod of its job may be; for slices, both
    /// have to be in the same one. A pod that is to be spread counts the other, but waits for it
    /// only if both have the same obstacles.
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
                    && leader.terms.volumes == member.terms.volumes
            }
            (_, RuleScope::Slice(size)) => {
                roles::slice_of(self.jobs, &leader.pod, *size)
                    == roles::slice_of(self.jobs, &member.pod, *size)
            }
            (_, RuleScope::Role) => want.role.is_some() || leader.pod.shape == member.pod.shape,
            _ => true,
        }
    }

    fn tell_followers(&mut self, id: JobId, uid: &Uid, leader: &Uid) -> Sound {
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

    /// Touches the jobs of a class after an attempt, if their pods wait for each other: the outcome
    /// may have changed which pods wait.
    pub(crate) fn look_at_followers(&mut self, class: ClassId) {
        if let Some(attempt) = self.planner.queue.last_attempt(class)
            && attempt
                .request
                .groups
                .iter()
                .any(|group| !open_wants(&group.terms.levels).is_empty())
        {
            let members = self.planner.queue.of_class(class, None).map(Place::request);
            let members = members.filter(|pending| matches!(pending, PendingRequest::Member(..)));
            self.agenda.touched.extend(members.map(PendingRequest::job));
        }
    }

    // --- whether the rules still hold ---

    /// Returns why a gang may not begin on its nodes: pods that are to be in one part of a level
    /// are not any more, or pods are not spread as they ask.
    pub(crate) fn torn_apart(&mut self, id: JobId, pods: &[Uid]) -> Option<String> {
        let by_makers = self.sight().survey_levels(id).by_makers;
        let job = self.jobs.all.get(&id)?;
        let queue = job.queue.id;
        let mut spreads: Vec<Spreading> = Vec::new();
        let mut places: Vec<(&LevelRule, &Pod, String)> = Vec::new();
        let members = pods.iter().filter_map(|uid| self.jobs.members.get(uid));
        for (member, allocation) in members.filter_map(|m| Some((m, m.allocation()?))) {
            if member.pod.levels.is_none() && !by_makers {
                continue;
            }
            let rules = self.jobs.level_rules(&member.pod).map_or(&[][..], |rules| rules);
            let node = self.planner.cluster.node_named(&allocation.node);
            let part_of =
                |level: &str| node.and_then(|node| self.settings.topology.part(level, node));
            // The parts of other levels that the pod has to be in.
            let mut inside = Parts::new();
            let bound = rules.iter().filter(|rule| rule.bound != LevelBound::Preferred);
            let level_of = |rule: &LevelRule| self.settings.topology.find(&rule.level);
            for (rule, level) in bound.filter_map(|rule| Some((rule, level_of(rule)?))) {
                let Some(part) = part_of(&level.name) else {
                    return Some(format!("{} is in no {} any more", allocation.node, level.name));
                };
                let pod = &*member.pod;
                if let LevelBound::Spread(spread) = rule.bound {
                    let is_same = |known: &Spreading| {
                        (&known.level, known.spread, &known.of) == (&level.name, spread, &rule.of)
                            && roles::are_together(self.jobs, &rule.of, job, &known.first, pod)
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
                        && roles::are_together(self.jobs, &rule.of, job, pod, other)
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

    /// Returns why pods are not spread as they ask.
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
            format!(
                "{level} {fullest} has {most} of its pods now and {fewest} has {least}, which \
                may differ by {skew}"
            )
        })
    }
}

/// Pods that are spread over a level together, and their places.
struct Spreading {
    level: Arc<str>,
    spread: Spread,
    of: RuleScope,
    /// The first of them.
    first: Arc<Pod>,
    counts: BTreeMap<String, u32>,
    /// Their requirements on nodes, and the parts of other levels that they have to be in.
    asked: Vec<(Arc<Shape>, Parts)>,
}

impl Spreading {
    fn new(level: &Arc<str>, spread: Spread, (of, first): (&RuleScope, &Arc<Pod>)) -> Self {
        let (level, of, first) = (Arc::clone(level), of.clone(), Arc::clone(first));
        Spreading { level, spread, of, first, counts: BTreeMap::new(), asked: Vec::new() }
    }

    /// Counts one more pod in a part.
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
