//! Levels of the machine that jobs ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::text;

use crate::jobs::job::{Job, Style};
use crate::jobs::levels::{Asks, Survey};
use crate::jobs::roles;
use crate::parts::Sight;
use fluxqueue_machine::fluxion::Within;
use fluxqueue_machine::ledger::{Allocation, LevelWant, LevelWants, Role};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::levels::{LevelBound, LevelRule, LevelRules, RuleScope};
use fluxqueue_workload::{Pod, Unsupported};

impl Sight<'_> {
    // --- what cannot be honoured ---

    /// Returns the trouble with the first of these rules that names no level, or that the library
    /// in use cannot keep.
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

    /// Returns the annotations of those of these rules that are mere wishes and that the library in
    /// use does not honour.
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

    // --- wanted levels ---

    /// Begins a survey of the levels that pods of a job want.
    pub(crate) fn survey_levels(&self, id: JobId) -> Survey {
        let mut makers = self.jobs.all.get(&id).into_iter().flat_map(|job| self.jobs.makers(job));
        Survey {
            by_makers: makers.any(|made_by| !matches!(made_by.levels, Ok(None))),
            wants: Vec::new(),
        }
    }

    /// Returns the levels that a pod wants. A pod that joins others with the same wish has to be
    /// where they are.
    pub(crate) fn level_wants(
        &self,
        id: JobId,
        pod: &Arc<Pod>,
        joins: bool,
        survey: &mut Survey,
    ) -> LevelWants {
        if pod.levels.is_none() && !survey.by_makers {
            return None;
        }
        let rules = self.jobs.level_rules(pod).filter(|_| self.planner.ledger.has_levels())?;
        let job = self.jobs.all.get(&id)?;
        let is_of_role =
            |rule: &LevelRule| matches!(rule.of, RuleScope::Role | RuleScope::Slice(_));
        let role =
            if rules.iter().any(is_of_role) { roles::role(self.jobs, job, pod) } else { None };
        let is_known = |((of, shape, known), _): &&(Asks, LevelWants)| {
            of == rules && *shape == pod.shape && *known == role
        };
        // Pods that join are placed where their slice is.
        let is_like_others = !joins || slice_size(rules).is_none();
        if let Some((_, wants)) = survey.wants.iter().find(is_known).filter(|_| is_like_others) {
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
            // A pod that stays alone leads no others. If a group starts with fewer pods than it
            // asks for, the others follow it.
            let asked = pod.group.as_ref().and_then(|group| group.size.as_ref().ok());
            let is_followed = asked.is_some_and(|asked| job.start.size < *asked as usize);
            let leads =
                within == Within::One && if joins { job.style != Style::Lone } else { is_followed };
            let role = role.clone().filter(|_| is_of_role(rule));
            Some(LevelWant { level, within, of: rule.of.clone(), role, leads })
        };
        let wants: Arc<[LevelWant]> = rules.iter().filter_map(want).collect();
        let wants = Some(wants).filter(|wants| !wants.is_empty());
        survey.wants.push(((Arc::clone(rules), Arc::clone(&pod.shape), role), wants.clone()));
        wants
    }

    /// Returns the part of a level that has most of the pods with the same wish as this pod of the
    /// job.
    pub(crate) fn part_of(
        &self,
        job: &Job,
        pod: &Pod,
        rule: &LevelRule,
        level: &str,
    ) -> Option<String> {
        self.parts_of(job, pod, rule, level)
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(part, _)| part)
    }

    /// Returns the parts of a level that have such pods, and the number in each.
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
                && roles::are_together(self.jobs, &rule.of, job, pod, other)
        };
        let members = self.jobs.counted(job).into_iter().filter(|member| asks_for_it(&member.pod));
        let of_members = members.filter_map(|member| member.allocation());
        // The wish of a slot without a pod is not known, unless its shape tells, or all pods are of
        // one template.
        let is_of_one =
            !job.start.retained.is_empty() && roles::role(self.jobs, job, pod) == Some(Role::Only);
        let is_alike = |slot: &&Allocation| is_of_one || slot.shape == pod.shape;
        let of_slots = job.start.retained.iter().map(|slot| &slot.allocation).filter(is_alike);
        let of_slots = of_slots.filter(|_| !matches!(rule.of, RuleScope::Slice(_)));
        let mut parts: BTreeMap<String, usize> = BTreeMap::new();
        for allocation in of_members.chain(of_slots) {
            let node = self.planner.cluster.node_named(&allocation.node);
            if let Some(part) = node.and_then(|node| self.settings.topology.part(level, node)) {
                *parts.entry(part).or_default() += 1;
            }
        }
        parts
    }
}

/// Returns the number of pods in a slice, by these rules.
fn slice_size(rules: &[LevelRule]) -> Option<u32> {
    rules
        .iter()
        .find_map(|rule| if let RuleScope::Slice(size) = rule.of { Some(size) } else { None })
}
