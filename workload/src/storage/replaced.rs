//! Volumes of plugins that were part of Kubernetes once, as the drivers know them that have
//! replaced these plugins: the driver, the handle, and the nodes on which they can be used, of
//! those where the driver has taken over.
//!
//! The rules are those of Kubernetes' csi-translation-lib, which kube-scheduler uses.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::constraints::terms::{NodeSelectorTerm, Operator, Requirement};
use crate::metadata::Labels;
use crate::object::ObjectKey;

/// The separator between the zones of a volume that is in several.
pub(super) const ZONES_BETWEEN: &str = "__";

/// Something that a driver attaches to a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attachable {
    /// The CSI driver.
    pub driver: Arc<str>,
    /// The name by which the driver knows it.
    pub handle: Arc<str>,
    /// The plugin of Kubernetes itself, if it is written as a volume of one that the driver has
    /// replaced.
    pub replaces: Option<&'static str>,
}

/// A plugin that a driver has replaced.
struct Replaced {
    plugin: &'static str,
    driver: &'static str,
    /// The label by which the driver distinguishes zones, if volumes are moved to it.
    zone: Option<&'static str>,
}

/// The plugins whose volumes kube-scheduler counts.
const REPLACED: [Replaced; 5] = [
    Replaced {
        plugin: AWS_EBS,
        driver: "ebs.csi.aws.com",
        zone: Some("topology.ebs.csi.aws.com/zone"),
    },
    Replaced { plugin: AZURE_DISK, driver: "disk.csi.azure.com", zone: None },
    Replaced {
        plugin: CINDER,
        driver: "cinder.csi.openstack.org",
        zone: Some("topology.cinder.csi.openstack.org/zone"),
    },
    Replaced {
        plugin: GCE_PD,
        driver: "pd.csi.storage.gke.io",
        zone: Some("topology.gke.io/zone"),
    },
    Replaced { plugin: PORTWORX, driver: "pxd.portworx.com", zone: None },
];

pub(crate) const AWS_EBS: &str = "kubernetes.io/aws-ebs";
pub(crate) const AZURE_DISK: &str = "kubernetes.io/azure-disk";
pub(crate) const CINDER: &str = "kubernetes.io/cinder";
pub(crate) const GCE_PD: &str = "kubernetes.io/gce-pd";
pub(crate) const PORTWORX: &str = "kubernetes.io/portworx-volume";

/// The labels of zones, each with the matching one of regions. The newer ones go first.
const ZONES_AND_REGIONS: [(&str, &str); 2] = [
    ("topology.kubernetes.io/zone", NEW_REGION),
    ("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
];
const NEW_REGION: &str = "topology.kubernetes.io/region";

/// The placeholder for an unknown part of a handle.
const UNSPECIFIED: &str = "UNSPECIFIED";

/// The nodes on which a volume can be used, of those where a driver has taken over from its plugin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TakenOver {
    /// The plugin.
    pub plugin: &'static str,
    /// Its node affinity there; `None` for every node.
    pub affinity: Option<Vec<NodeSelectorTerm>>,
}

fn find(plugin: &str) -> Option<&'static Replaced> {
    REPLACED.iter().find(|known| known.plugin == plugin)
}

impl Attachable {
    /// Returns a volume of a plugin, by the handle that its driver has for it.
    pub(crate) fn of_plugin(plugin: &str, handle: &str) -> Option<Self> {
        let replaced = find(plugin)?;
        Some(Attachable {
            driver: replaced.driver.into(),
            handle: handle.into(),
            replaces: Some(replaced.plugin),
        })
    }

    /// Returns a persistent disk of Google, of a volume with these labels or without any.
    pub(crate) fn of_gce(name: &str, labels: &[(Arc<str>, Arc<str>)]) -> Option<Self> {
        let zones = ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];
        let zones = zones
            .into_iter()
            .find_map(|label| value(labels, label).filter(|zones| !zones.is_empty()));
        let place = match zones {
            None => format!("zones/{UNSPECIFIED}"),
            Some(zones) if zones.contains(ZONES_BETWEEN) => {
                format!("regions/{}", region_of(zones)?)
            }
            Some(zone) => format!("zones/{zone}"),
        };
        Self::of_plugin(GCE_PD, &format!("projects/{UNSPECIFIED}/{place}/disks/{name}"))
    }

    /// Returns a volume of Amazon, which may be written with its zone: `aws://zone/vol-1`.
    pub(crate) fn of_aws(id: &str) -> Option<Self> {
        let Some(rest) = id.strip_prefix("aws://") else { return Self::of_plugin(AWS_EBS, id) };
        let path = rest.split_once('/').map_or("", |(_, path)| path).trim_matches('/');
        let is_volume = path.starts_with("vol-") && !path.contains('/');
        if is_volume { Self::of_plugin(AWS_EBS, path) } else { None }
    }

    /// Returns a volume that a provisioner has still to make for a claim.
    pub fn to_be_made(provisioner: &Arc<str>, claim: &ObjectKey) -> Self {
        let handle = format!("claim {claim}");
        Self::of_plugin(provisioner, &handle).unwrap_or_else(|| Attachable {
            driver: Arc::clone(provisioner),
            handle: handle.into(),
            replaces: None,
        })
    }
}

/// Returns the region of zones that are named after it: `europe-west1-b` and `europe-west1-c` are
/// in `europe-west1`.
fn region_of(zones: &str) -> Option<String> {
    let region = |zone: &str| match zone.split('-').collect::<Vec<_>>()[..] {
        [locale, region, _] => Some(format!("{locale}-{region}")),
        _ => None,
    };
    let regions: Option<BTreeSet<String>> = zones.split(ZONES_BETWEEN).map(region).collect();
    regions.filter(|regions| regions.len() == 1)?.pop_first()
}

fn value<'a>(labels: &'a [(Arc<str>, Arc<str>)], label: &str) -> Option<&'a str> {
    let at = labels.binary_search_by(|(name, _)| (**name).cmp(label)).ok()?;
    Some(&labels[at].1)
}

impl TakenOver {
    /// Translates a volume with this affinity and these labels: the driver's own label takes the
    /// place of Kubernetes' labels of zones, and where the affinity names no zone, the zones in the
    /// volume's labels count.
    pub(super) fn of(
        plugin: &str,
        affinity: Option<&[NodeSelectorTerm]>,
        labels: &Labels,
    ) -> Option<Self> {
        let replaced = find(plugin)?;
        let mut terms = affinity.unwrap_or_default().to_vec();
        if let Some(label) = replaced.zone {
            translate(&mut terms, labels, label);
        }
        Some(TakenOver {
            plugin: replaced.plugin,
            affinity: (affinity.is_some() || !terms.is_empty()).then_some(terms),
        })
    }
}

fn translate(terms: &mut Vec<NodeSelectorTerm>, labels: &Labels, label: &'static str) {
    let is_named = |zone: &str| {
        terms.iter().flat_map(|term| &term.labels).any(|of_term| &*of_term.key == zone)
    };
    let by_terms = ZONES_AND_REGIONS.into_iter().find(|(zone, _)| is_named(zone));
    let by_labels =
        || ZONES_AND_REGIONS.into_iter().find(|(zone, _)| value(labels, zone).is_some());
    let (zone, region) = by_terms.or_else(by_labels).unwrap_or(ZONES_AND_REGIONS[0]);
    if values(terms, zone) > 0 {
        rename(terms, zone, label);
    } else if let Some(zones) = value(labels, zone) {
        let zones: BTreeSet<Arc<str>> =
            zones.split(ZONES_BETWEEN).map(str::trim).map(Arc::from).collect();
        let zones: Vec<Arc<str>> = zones.into_iter().filter(|zone| !zone.is_empty()).collect();
        if !zones.is_empty() {
            if terms.is_empty() {
                terms.push(NodeSelectorTerm { labels: Vec::new(), fields: Vec::new() });
            }
            for term in terms.iter_mut() {
                term.labels.push(Requirement {
                    key: label.into(),
                    operator: Operator::In,
                    values: zones.clone(),
                });
            }
        }
    }
    if region != NEW_REGION && values(terms, region) > 0 {
        rename(terms, region, NEW_REGION);
    }
}

/// Counts the values that the terms name for a label.
fn values(terms: &[NodeSelectorTerm], label: &str) -> usize {
    let of_label =
        terms.iter().flat_map(|term| &term.labels).filter(|requirement| &*requirement.key == label);
    of_label.map(|requirement| requirement.values.len()).sum()
}

fn rename(terms: &mut [NodeSelectorTerm], old: &str, new: &'static str) {
    for requirement in
        terms.iter_mut().flat_map(|term| &mut term.labels).filter(|one| &*one.key == old)
    {
        requirement.key = new.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(all: &[(&str, &str)]) -> Labels {
        all.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect()
    }

    #[test]
    fn disks_have_the_handles_that_their_drivers_give_them() {
        let gce = |zones: &str| {
            let labels = labels(&[("topology.kubernetes.io/zone", zones)]);
            Attachable::of_gce("d", &labels).map(|disk| disk.handle.to_string())
        };
        assert_eq!(
            gce("europe-west1-b").as_deref(),
            Some("projects/UNSPECIFIED/zones/europe-west1-b/disks/d")
        );
        assert_eq!(gce("").as_deref(), Some("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"));
        let both = gce("europe-west1-b__europe-west1-c");
        assert_eq!(both.as_deref(), Some("projects/UNSPECIFIED/regions/europe-west1/disks/d"));
        assert_eq!(gce("europe-west1-b__us-east1-c"), None, "of two regions");
        assert_eq!(gce("east__west"), None);
        let aws = |id: &str| Attachable::of_aws(id).map(|disk| disk.handle.to_string());
        for id in ["vol-1", "aws://zone/vol-1", "aws:///vol-1"] {
            assert_eq!(aws(id).as_deref(), Some("vol-1"), "{id}");
        }
        assert_eq!((aws("aws://zone/disk"), aws("disk").as_deref()), (None, Some("disk")));
    }

    #[test]
    fn a_driver_goes_by_its_own_label_of_zones() {
        let requirement = |key: &str| Requirement {
            key: key.into(),
            operator: Operator::In,
            values: vec!["a".into()],
        };
        let term = |keys: &[&str]| NodeSelectorTerm {
            labels: keys.iter().map(|key| requirement(key)).collect(),
            fields: Vec::new(),
        };
        let taken_over = |plugin, terms: Option<&[NodeSelectorTerm]>, of: &[(&str, &str)]| {
            TakenOver::of(plugin, terms, &labels(of)).unwrap().affinity
        };
        let old = [term(&[
            "failure-domain.beta.kubernetes.io/region",
            "failure-domain.beta.kubernetes.io/zone",
        ])];
        let new = [term(&["topology.kubernetes.io/region", "topology.gke.io/zone"])];
        assert_eq!(taken_over(GCE_PD, Some(&old), &[]).as_deref(), Some(&new[..]));
        assert_eq!(
            taken_over(AZURE_DISK, Some(&old), &[]).as_deref(),
            Some(&old[..]),
            "this one has no other"
        );
        let labelled = [("topology.kubernetes.io/zone", "a")];
        assert_eq!(
            taken_over(AWS_EBS, None, &labelled),
            Some(vec![term(&["topology.ebs.csi.aws.com/zone"])])
        );
        let other = [term(&["disk"])];
        let both = vec![term(&["disk", "topology.ebs.csi.aws.com/zone"])];
        assert_eq!(taken_over(AWS_EBS, Some(&other), &labelled), Some(both));
        assert_eq!(taken_over(AWS_EBS, None, &[]), None);
    }
}
