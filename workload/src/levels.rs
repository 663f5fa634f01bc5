//! What pods ask of the levels of the machine, by annotations: that all of them are within one rack, say.
//!
//! Annotations stand on pods, or on the object that makes them. Which levels there are is not known here: they are named.
//! Kueue's annotations about topology mean what they mean there.

use std::sync::Arc;

use fluxqueue_api::names::{PREFERRED_LEVEL, REQUIRED_LEVEL};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Unsupported;
use super::metadata::annotation;

/// Kueue's: all pods of a pod set within one domain of the level whose node label this is.
const KUEUE_REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
/// Kueue's: so if possible.
const KUEUE_PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
/// Kueue's: pod sets of one job with the same value are placed as one.
const KUEUE_GROUP: &str = "kueue.x-k8s.io/podset-group-name";

/// What pods ask of one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelRule {
    /// A level's name, or a node label that makes it.
    pub level: Arc<str>,
    /// What is to be so.
    pub bound: LevelBound,
    /// Of which pods.
    pub of: RuleScope,
    /// Where it was read.
    pub annotation: &'static str,
}

/// What is asked of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelBound {
    /// All are in one part.
    Required,
    /// All are in one part if that is possible now, else in as few as possible.
    Preferred,
}

/// Whose places count together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RuleScope {
    /// All pods of the job that ask for the same.
    Job,
    /// Those of one pod set: each for itself.
    PodSet,
    /// Those of all pod sets of this group.
    Group(Arc<str>),
}

/// The rules of an object; of most there are none.
pub type LevelRules = Option<Arc<[LevelRule]>>;

/// What an object's annotations ask of levels, or what is wrong with them.
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
    let mut found: Option<LevelRule> = None;
    for (name, bound, is_ours) in KNOWN {
        let Some(value) = annotation(metadata, name) else { continue };
        if let Some(other) = &found {
            return Err(refused(name, format!("{} is there too: only one of them can be honoured", other.annotation)));
        }
        if value.is_empty() {
            return Err(refused(name, "names no level".to_owned()));
        }
        let of = match annotation(metadata, KUEUE_GROUP) {
            _ if is_ours => RuleScope::Job,
            Some(group) => RuleScope::Group(group.into()),
            None => RuleScope::PodSet,
        };
        found = Some(LevelRule { level: value.into(), bound, of, annotation: name });
    }
    Ok(found.map(|rule| Arc::from([rule])))
}

impl LevelRule {
    /// Why it cannot be honoured: names the annotation.
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
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let rules = of_object(&ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() });
        let rules = rules.map_err(|refused| format!("{}: {}", refused.field, refused.message))?;
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
    fn kueues_annotations_are_about_pod_sets() {
        let rack = |bound, of| Ok(vec![("example.com/rack".to_owned(), bound, of)]);
        let required = (KUEUE_REQUIRED, "example.com/rack");
        assert_eq!(read(&[required]), rack(LevelBound::Required, RuleScope::PodSet));
        assert_eq!(read(&[(KUEUE_PREFERRED, "example.com/rack")]), rack(LevelBound::Preferred, RuleScope::PodSet));
        let group = RuleScope::Group("mpi".into());
        assert_eq!(read(&[required, (KUEUE_GROUP, "mpi")]), rack(LevelBound::Required, group));
        assert_eq!(read(&[("kueue.x-k8s.io/podset-unconstrained-topology", "true")]), Ok(vec![]));
    }

    #[test]
    fn what_says_nothing_or_two_things_is_refused_by_name() {
        assert_eq!(
            read(&[(REQUIRED_LEVEL, "")]),
            Err("metadata.annotations[fluxqueue/required-level]: names no level".to_owned())
        );
        for other in [PREFERRED_LEVEL, KUEUE_REQUIRED, KUEUE_PREFERRED] {
            let error = read(&[(REQUIRED_LEVEL, "rack"), (other, "rack")]).unwrap_err();
            assert!(
                error.starts_with(&format!("metadata.annotations[{other}]: fluxqueue/required-level is there too")),
                "{error}"
            );
        }
    }
}
