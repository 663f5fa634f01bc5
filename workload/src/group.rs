//! The group labels: pods that carry the same name start together.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::names::GROUP_LABELS;
use fluxqueue_api::text;

use crate::metadata::label_value;
use crate::pod::{GroupLabels, Pod};

/// The largest group. More pods than a cluster can run is a typing error.
pub const GROUP_SIZE_MAX: u32 = 100_000;

/// The group that labels name: the first pair of [`GROUP_LABELS`] of which both are there.
pub(super) fn of_labels(labels: Option<&BTreeMap<String, String>>) -> Option<GroupLabels> {
    let labels = labels?;
    let (name_label, name, size_label, size) =
        GROUP_LABELS.iter().find_map(|(name_label, size_label)| {
            Some((name_label, labels.get(*name_label)?, size_label, labels.get(*size_label)?))
        })?;
    let size = if name.is_empty() {
        Err(format!("label {name_label} is empty"))
    } else {
        parse_size(size)
            .map_err(|reason| format!("label {size_label}: {} {reason}", text::quoted(size)))
    };
    Some(GroupLabels { name: label_value(name).into(), size })
}

impl Pod {
    /// Describes a fault in its group labels, if it has some and they form no pair: it starts by
    /// itself, which its author may not expect. The text does not name the pod.
    pub fn half_group_label(&self) -> Option<String> {
        // Most pods have none of them, and there are more of these than pods have labels.
        let is_one = |(label, _): &(Arc<str>, Arc<str>)| {
            GROUP_LABELS.iter().any(|(name, size)| **label == **name || **label == **size)
        };
        if self.group.is_some() || !self.labels.iter().any(is_one) {
            return None;
        }
        let has = |label: &str| self.label(label).is_some();
        let sizes_of = |name: &str| {
            let sizes =
                GROUP_LABELS.iter().filter(|(label, _)| *label == name).map(|(_, size)| *size);
            sizes.collect::<Vec<_>>().join(" or ")
        };
        if let Some((name, _)) = GROUP_LABELS.iter().find(|(name, _)| has(name)) {
            let sizes = sizes_of(name);
            return Some(format!(
                "label {name} names a group, but label {sizes} is missing: its pods start one by \
                     one"
            ));
        }
        let (_, size) = GROUP_LABELS.iter().find(|(_, size)| has(size))?;
        let names: Vec<&str> =
            GROUP_LABELS.iter().filter(|(_, label)| label == size).map(|(name, _)| *name).collect();
        let names = names.join(" or ");
        Some(format!(
            "label {size} says how many start together, but label {names} is missing: its \
                     pods start one by one"
        ))
    }
}

/// Reads the number of pods that start together; the error continues a sentence that begins with
/// the text.
fn parse_size(text: &str) -> Result<u32, &'static str> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("is not a whole number");
    }
    match digits.parse::<u32>() {
        Ok(0) => Err("is not a size: a group has at least 1 pod"),
        _ if negative => Err("is negative"),
        Ok(size) if size <= GROUP_SIZE_MAX => Ok(size),
        // All digits, so the number is only too large for its type.
        _ => Err("is more than 100000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn size(text: &str) -> Result<u32, String> {
        of_labels(Some(&labels(&[("fluxqueue.pod-group", "g"), ("fluxqueue.group-size", text)])))
            .unwrap()
            .size
    }

    #[test]
    fn each_pair_of_the_seeds_forms_a_group() {
        for (name_label, size_label) in GROUP_LABELS {
            let group =
                of_labels(Some(&labels(&[(name_label, "ring"), (size_label, "4")]))).unwrap();
            assert_eq!((&*group.name, group.size), ("ring", Ok(4)));
        }
    }

    #[test]
    fn half_a_pair_is_no_group() {
        assert_eq!(of_labels(None), None);
        assert_eq!(of_labels(Some(&labels(&[]))), None);
        assert_eq!(of_labels(Some(&labels(&[("fluxqueue.pod-group", "g")]))), None);
        assert_eq!(of_labels(Some(&labels(&[("fluxqueue.group-size", "2")]))), None);
        assert_eq!(
            of_labels(Some(&labels(&[("fluxqueue.pod-group", "g"), ("fluence.group-size", "2")]))),
            None
        );
    }

    #[test]
    fn the_first_whole_pair_counts() {
        let both = labels(&[
            ("fluxqueue.pod-group", "half"),
            ("fluxnetes.group-name", "whole"),
            ("fluxnetes.group-size", "2"),
            ("fluence.pod-group", "later"),
            ("fluence.group-size", "3"),
        ]);
        let group = of_labels(Some(&both)).unwrap();
        assert_eq!((&*group.name, group.size), ("whole", Ok(2)));
    }

    #[test]
    fn a_bad_size_names_label_and_value() {
        assert_eq!(size("1"), Ok(1));
        assert_eq!(size("100000"), Ok(100_000));
        let cases = [
            ("four", "is not a whole number"),
            ("", "is not a whole number"),
            ("2.5", "is not a whole number"),
            ("+2", "is not a whole number"),
            (" 2", "is not a whole number"),
            ("0", "is not a size: a group has at least 1 pod"),
            ("-0", "is not a size: a group has at least 1 pod"),
            ("-3", "is negative"),
            ("100001", "is more than 100000"),
            ("99999999999999999999", "is more than 100000"),
        ];
        for (text, reason) in cases {
            assert_eq!(size(text), Err(format!("label fluxqueue.group-size: {text:?} {reason}")));
        }
    }

    #[test]
    fn an_empty_name_is_reported_not_shared() {
        let group =
            of_labels(Some(&labels(&[("fluxqueue.pod-group", ""), ("fluxqueue.group-size", "2")])))
                .unwrap();
        assert_eq!(group.size, Err("label fluxqueue.pod-group is empty".to_owned()));
    }
}
