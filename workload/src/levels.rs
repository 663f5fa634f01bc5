//! The rules of pods about levels of the machine, by annotations: such as that all of them are
//! within one rack.
//!
//! Annotations stand on pods, or on the object that makes them. This module does not know which
//! levels there are: the rules name them. Kueue's annotations about topology have the same meaning
//! as in Kueue.

use std::sync::Arc;

use fluxqueue_api::names::{
    LEVEL_SCOPE, MAX_PER_PART, MAX_SKEW, PREFERRED_LEVEL, REQUIRED_LEVEL, SLICE_LEVEL, SLICE_SIZE,
    SPREAD_LEVEL,
};
use fluxqueue_api::text::{self, KEY_BYTES_MAX, NAME_BYTES_MAX};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::metadata::annotation;
use crate::unsupported::Unsupported;

/// Kueue's annotation: all pods of a pod set, which is a role here, are within one domain of the
/// level with this node label.
const KUEUE_REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
/// Kueue's annotation: the same if possible.
const KUEUE_PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
/// Kueue's annotation: pod sets of one job with the same value are placed as one.
const KUEUE_GROUP: &str = "kueue.x-k8s.io/podset-group-name";

/// Kueue's annotation: each slice of a pod set is within one domain of this level; and the number
/// of pods in a slice.
const KUEUE_SLICE: &str = "kueue.x-k8s.io/podset-slice-required-topology";
const KUEUE_SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
/// Kueue's annotation: slices of slices, each in a domain of a level of its own.
const KUEUE_SLICE_LAYERS: &str = "kueue.x-k8s.io/podset-slice-required-topology-constraints";

/// A rule about one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelRule {
    /// The level's name, or a node label that makes it.
    pub level: Arc<str>,
    /// The demand.
    pub bound: LevelBound,
    /// The pods that the rule is about.
    pub of: RuleScope,
    /// The annotation from which it was read.
    pub annotation: &'static str,
}

/// The demand of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelBound {
    /// All pods are in one part.
    Required,
    /// All pods are in one part if that is possible now, else in as few as possible.
    Preferred,
    /// The pods are spread over the parts.
    Spread(Spread),
}

/// The spread of pods over the parts of a level. It has at least one of these bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spread {
    /// The most pods in any part.
    pub max_per_part: Option<u32>,
    /// The most by which the numbers of pods in any two parts may differ. All parts count that have
    /// a node to which the pods are admitted.
    pub max_skew: Option<u32>,
}

/// The pods that a rule applies to together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RuleScope {
    /// All pods of the job with the same rule.
    Job,
    /// The pods of one role; the rule applies to each role separately.
    Role,
    /// The pods of all roles of this group.
    Group(Arc<str>),
    /// Slices of this many pods of one role: by their numbers if they have some, else in their
    /// order.
    Slice(u32),
}

/// The rules of an object; most objects have none.
pub type LevelRules = Option<Arc<[LevelRule]>>;

/// Returns the rules in an object's annotations; the error is about an unusable annotation.
pub fn of_object(metadata: &ObjectMeta) -> Result<LevelRules, Unsupported> {
    const KNOWN: [(&str, LevelBound, bool); 4] = [
        (REQUIRED_LEVEL, LevelBound::Required, true),
        (PREFERRED_LEVEL, LevelBound::Preferred, true),
        (KUEUE_REQUIRED, LevelBound::Required, false),
        (KUEUE_PREFERRED, LevelBound::Preferred, false),
    ];
    if metadata.annotations.is_none() {
        return Ok(None);
    }
    let own_scope = own_scope(metadata)?;
    let mut found: Vec<LevelRule> = Vec::new();
    let given = KNOWN.into_iter().filter_map(|it| Some((it, annotation(metadata, it.0)?)));
    for ((name, bound, is_ours), value) in given {
        if let Some(other) = found.first() {
            return Err(refused(
                name,
                format!(
                    "{} is present too, and only one of them can be honoured",
                    other.annotation
                ),
            ));
        }
        check_level(name, value)?;
        let of = match annotation(metadata, KUEUE_GROUP) {
            _ if is_ours => own_scope.clone(),
            Some(group) if group.len() > NAME_BYTES_MAX => {
                let text = format!(
                    "{} is not a name: it is longer than {NAME_BYTES_MAX} bytes",
                    text::quoted(group)
                );
                return Err(refused(KUEUE_GROUP, text));
            }
            Some(group) => RuleScope::Group(group.into()),
            None => RuleScope::Role,
        };
        found.push(LevelRule { level: value.into(), bound, of, annotation: name });
    }
    if annotation(metadata, KUEUE_SLICE_LAYERS).is_some() {
        return Err(refused(
            KUEUE_SLICE_LAYERS,
            "slices of several levels cannot be honoured".to_owned(),
        ));
    }
    found.extend(slices(metadata, SLICE_LEVEL, SLICE_SIZE)?);
    let of_kueue = slices(metadata, KUEUE_SLICE, KUEUE_SLICE_SIZE)?;
    if let (Some(of_kueue), Some(other)) =
        (&of_kueue, found.iter().find(|rule| rule.annotation == SLICE_LEVEL))
    {
        let text =
            format!("{} is present too, and only one of them can be honoured", other.annotation);
        return Err(of_kueue.refused(text));
    }
    found.extend(of_kueue);
    found.extend(spread(metadata, own_scope)?);
    Ok((!found.is_empty()).then(|| Arc::from(found)))
}

/// Returns the pods that our own annotations are about, except those of slices.
fn own_scope(metadata: &ObjectMeta) -> Result<RuleScope, Unsupported> {
    let scope = match annotation(metadata, LEVEL_SCOPE) {
        None => return Ok(RuleScope::Job),
        Some("job") => RuleScope::Job,
        Some("role") => RuleScope::Role,
        Some(other) => {
            return Err(refused(
                LEVEL_SCOPE,
                format!("{} is neither \"job\" nor \"role\"", text::quoted(other)),
            ));
        }
    };
    let asks = [REQUIRED_LEVEL, PREFERRED_LEVEL, SPREAD_LEVEL];
    if asks.iter().all(|name| annotation(metadata, name).is_none()) {
        let text = format!("says for which pods a rule is, but {} is missing", asks.join(" or "));
        return Err(refused(LEVEL_SCOPE, text));
    }
    Ok(scope)
}

/// Reads a rule about slices, by a level and a size.
fn slices(
    metadata: &ObjectMeta,
    level: &'static str,
    size: &'static str,
) -> Result<Option<LevelRule>, Unsupported> {
    let numbers = [(size, "says how many pods a slice has")];
    let found = level_and_pods(metadata, (level, "asks for slices"), numbers)?;
    Ok(found.and_then(|(value, [pods])| {
        let of = RuleScope::Slice(pods?);
        Some(LevelRule { level: value.into(), bound: LevelBound::Required, of, annotation: level })
    }))
}

/// Reads a rule about a spread, by a level and its bounds.
fn spread(metadata: &ObjectMeta, of: RuleScope) -> Result<Option<LevelRule>, Unsupported> {
    let numbers = [
        (MAX_PER_PART, "says how many pods may be in one part"),
        (MAX_SKEW, "says by how many pods two parts may differ"),
    ];
    let found = level_and_pods(metadata, (SPREAD_LEVEL, "asks for a spread"), numbers)?;
    Ok(found.map(|(value, [max_per_part, max_skew])| LevelRule {
        level: value.into(),
        bound: LevelBound::Spread(Spread { max_per_part, max_skew }),
        of,
        annotation: SPREAD_LEVEL,
    }))
}

/// Checks that a value can name a level: this module does not know if there is such a level.
fn check_level(annotation: &'static str, value: &str) -> Result<(), Unsupported> {
    match value.len() {
        0 => Err(refused(annotation, "names no level".to_owned())),
        1..=KEY_BYTES_MAX => Ok(()),
        _ => {
            let text = format!(
                "{} is not a level: it is longer than {KEY_BYTES_MAX} bytes",
                text::quoted(value)
            );
            Err(refused(annotation, text))
        }
    }
}

/// The name of a level, and the numbers of pods beside it.
type Numbers<'a, const N: usize> = (&'a str, [Option<u32>; N]);

/// Reads a level and numbers of pods, which need each other: one of the numbers at least has to be
/// present. With each annotation comes the text that describes it.
fn level_and_pods<'a, const N: usize>(
    metadata: &'a ObjectMeta,
    (level, asks): (&'static str, &str),
    numbers: [(&'static str, &str); N],
) -> Result<Option<Numbers<'a, N>>, Unsupported> {
    let Some(value) = annotation(metadata, level) else {
        let lone = numbers.iter().find(|(name, _)| annotation(metadata, name).is_some());
        return match lone {
            Some((name, says)) => Err(refused(name, format!("{says}, but {level} is missing"))),
            None => Ok(None),
        };
    };
    check_level(level, value)?;
    let mut found = [None; N];
    for ((name, _), found) in numbers.iter().zip(&mut found) {
        if let Some(text) = annotation(metadata, name) {
            let number = text.parse::<u32>().ok().filter(|number| *number > 0);
            *found = Some(number.ok_or_else(|| {
                refused(name, format!("{} is not a number of pods (1 or more)", text::quoted(text)))
            })?);
        }
    }
    if found.iter().all(Option::is_none) {
        let names = numbers.map(|(name, _)| name).join(" or ");
        return Err(refused(level, format!("{asks}, but {names} is missing")));
    }
    Ok(Some((value, found)))
}

impl LevelRule {
    /// Refuses the rule, by its annotation.
    pub fn refused(&self, message: String) -> Unsupported {
        refused(self.annotation, message)
    }
}

fn refused(annotation: &str, message: String) -> Unsupported {
    Unsupported { field: format!("metadata.annotations[{annotation}]"), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Result<Vec<(String, LevelBound, RuleScope)>, String> {
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let rules =
            of_object(&ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() });
        let rules = rules.map_err(|refused| refused.to_string())?;
        let rules = rules.iter().flat_map(|rules| rules.iter());
        Ok(rules.map(|rule| (rule.level.to_string(), rule.bound, rule.of.clone())).collect())
    }

    #[test]
    fn a_level_is_required_or_preferred() {
        assert_eq!(read(&[]), Ok(vec![]));
        assert_eq!(of_object(&ObjectMeta::default()), Ok(None));
        let rack = |bound, of| Ok(vec![("rack".to_owned(), bound, of)]);
        assert_eq!(read(&[(REQUIRED_LEVEL, "rack")]), rack(LevelBound::Required, RuleScope::Job));
        assert_eq!(read(&[(PREFERRED_LEVEL, "rack")]), rack(LevelBound::Preferred, RuleScope::Job));
    }

    #[test]
    fn kueues_annotations_are_about_roles() {
        let rack = |bound, of| Ok(vec![("example.com/rack".to_owned(), bound, of)]);
        let required = (KUEUE_REQUIRED, "example.com/rack");
        assert_eq!(read(&[required]), rack(LevelBound::Required, RuleScope::Role));
        assert_eq!(
            read(&[(KUEUE_PREFERRED, "example.com/rack")]),
            rack(LevelBound::Preferred, RuleScope::Role)
        );
        let group = RuleScope::Group("mpi".into());
        assert_eq!(read(&[required, (KUEUE_GROUP, "mpi")]), rack(LevelBound::Required, group));
        assert_eq!(read(&[("kueue.x-k8s.io/podset-unconstrained-topology", "true")]), Ok(vec![]));
    }

    #[test]
    fn our_own_rules_are_for_the_job_or_for_each_role() {
        let role = (LEVEL_SCOPE, "role");
        let of_role = |bound| ("rack".to_owned(), bound, RuleScope::Role);
        assert_eq!(
            read(&[(REQUIRED_LEVEL, "rack"), role]),
            Ok(vec![of_role(LevelBound::Required)])
        );
        assert_eq!(
            read(&[(PREFERRED_LEVEL, "rack"), role]),
            Ok(vec![of_role(LevelBound::Preferred)])
        );
        let spread = LevelBound::Spread(Spread { max_per_part: Some(4), max_skew: None });
        assert_eq!(
            read(&[(SPREAD_LEVEL, "rack"), (MAX_PER_PART, "4"), role]),
            Ok(vec![of_role(spread)])
        );
        let job = read(&[(REQUIRED_LEVEL, "rack"), (LEVEL_SCOPE, "job")]);
        assert_eq!(job, read(&[(REQUIRED_LEVEL, "rack")]));
        for (annotations, expected) in [
            (
                &[(REQUIRED_LEVEL, "rack"), (LEVEL_SCOPE, "pod")][..],
                r#""pod" is neither "job" nor "role""#,
            ),
            (
                &[role, (KUEUE_REQUIRED, "rack")][..],
                "says for which pods a rule is, but fluxqueue/required-level or \
                 fluxqueue/preferred-level or \
                 fluxqueue/spread-level is missing",
            ),
        ] {
            assert_eq!(
                read(annotations),
                Err(format!("metadata.annotations[fluxqueue/level-scope]: {expected}"))
            );
        }
    }

    #[test]
    fn slices_have_a_level_and_a_size() {
        let slice =
            |level: &str, pods| (level.to_owned(), LevelBound::Required, RuleScope::Slice(pods));
        assert_eq!(read(&[(SLICE_LEVEL, "rack"), (SLICE_SIZE, "4")]), Ok(vec![slice("rack", 4)]));
        assert_eq!(
            read(&[(KUEUE_SLICE, "example.com/rack"), (KUEUE_SLICE_SIZE, "8")]),
            Ok(vec![slice("example.com/rack", 8)])
        );
        let both = read(&[(REQUIRED_LEVEL, "zone"), (SLICE_LEVEL, "rack"), (SLICE_SIZE, "2")]);
        assert_eq!(
            both,
            Ok(vec![("zone".to_owned(), LevelBound::Required, RuleScope::Job), slice("rack", 2)])
        );
        for (annotations, expected) in [
            (
                &[(SLICE_LEVEL, "rack")][..],
                "[fluxqueue/slice-level]: asks for slices, but fluxqueue/slice-size is missing",
            ),
            (
                &[(SLICE_SIZE, "2")][..],
                "[fluxqueue/slice-size]: says how many pods a slice has, but fluxqueue/slice-level \
                 is missing",
            ),
            (
                &[(SLICE_LEVEL, "rack"), (SLICE_SIZE, "0")][..],
                "[fluxqueue/slice-size]: \"0\" is not a number of pods (1 or more)",
            ),
            (
                &[(SLICE_LEVEL, "rack"), (SLICE_SIZE, "x")][..],
                "[fluxqueue/slice-size]: \"x\" is not a number of pods (1 or more)",
            ),
        ] {
            assert_eq!(read(annotations), Err(format!("metadata.annotations{expected}")));
        }
        let both = [
            (SLICE_LEVEL, "rack"),
            (SLICE_SIZE, "2"),
            (KUEUE_SLICE, "rack"),
            (KUEUE_SLICE_SIZE, "2"),
        ];
        assert!(read(&both).unwrap_err().contains("fluxqueue/slice-level is present too"));
    }

    #[test]
    fn slices_of_several_levels_are_refused_by_name() {
        let layers = (KUEUE_SLICE_LAYERS, r#"[{"topology":"example.com/rack","size":4}]"#);
        let expected = format!(
            "metadata.annotations[{KUEUE_SLICE_LAYERS}]: slices of several levels cannot be \
             honoured"
        );
        assert_eq!(read(&[layers]), Err(expected.clone()));
        assert_eq!(read(&[(KUEUE_REQUIRED, "example.com/block"), layers]), Err(expected));
    }

    #[test]
    fn a_spread_has_a_level_and_a_number() {
        let four = (MAX_PER_PART, "4");
        let spread = |max_per_part, max_skew| {
            (
                "rack".to_owned(),
                LevelBound::Spread(Spread { max_per_part, max_skew }),
                RuleScope::Job,
            )
        };
        assert_eq!(read(&[(SPREAD_LEVEL, "rack"), four]), Ok(vec![spread(Some(4), None)]));
        let skew = (MAX_SKEW, "1");
        assert_eq!(read(&[(SPREAD_LEVEL, "rack"), skew]), Ok(vec![spread(None, Some(1))]));
        assert_eq!(read(&[(SPREAD_LEVEL, "rack"), four, skew]), Ok(vec![spread(Some(4), Some(1))]));
        let within = ("zone".to_owned(), LevelBound::Required, RuleScope::Job);
        assert_eq!(
            read(&[(REQUIRED_LEVEL, "zone"), (SPREAD_LEVEL, "rack"), four]),
            Ok(vec![within, spread(Some(4), None)])
        );
        let slices = ("rack".to_owned(), LevelBound::Required, RuleScope::Slice(2));
        assert_eq!(
            read(&[(SLICE_LEVEL, "rack"), (SLICE_SIZE, "2"), (SPREAD_LEVEL, "rack"), four, skew]),
            Ok(vec![slices, spread(Some(4), Some(1))])
        );
        for (annotations, expected) in [
            (
                &[(SPREAD_LEVEL, "rack")][..],
                "[fluxqueue/spread-level]: asks for a spread, but fluxqueue/max-per-part or \
                 fluxqueue/max-skew is missing",
            ),
            (
                &[four][..],
                "[fluxqueue/max-per-part]: says how many pods may be in one part, but \
                 fluxqueue/spread-level is missing",
            ),
            (
                &[skew][..],
                "[fluxqueue/max-skew]: says by how many pods two parts may differ, but \
                 fluxqueue/spread-level is missing",
            ),
            (
                &[(SPREAD_LEVEL, "rack"), four, (MAX_SKEW, "-1")][..],
                "[fluxqueue/max-skew]: \"-1\" is not a number of pods (1 or more)",
            ),
            (
                &[(SPREAD_LEVEL, "rack"), (MAX_PER_PART, "0")][..],
                "[fluxqueue/max-per-part]: \"0\" is not a number of pods (1 or more)",
            ),
        ] {
            assert_eq!(read(annotations), Err(format!("metadata.annotations{expected}")));
        }
    }

    #[test]
    fn empty_and_contradicting_rules_are_refused_by_name() {
        assert_eq!(
            read(&[(REQUIRED_LEVEL, "")]),
            Err("metadata.annotations[fluxqueue/required-level]: names no level".to_owned())
        );
        for other in [PREFERRED_LEVEL, KUEUE_REQUIRED, KUEUE_PREFERRED] {
            let error = read(&[(REQUIRED_LEVEL, "rack"), (other, "rack")]).unwrap_err();
            assert!(
                error.starts_with(&format!(
                    "metadata.annotations[{other}]: fluxqueue/required-level is present too"
                )),
                "{error}"
            );
        }
    }
}
