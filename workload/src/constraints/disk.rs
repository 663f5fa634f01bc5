//! Disks that pods name themselves: by the rules of kube-scheduler's VolumeRestrictions, some
//! cannot be used by two pods on one node, and some count against the limits of nodes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Volume;

use crate::storage::replaced::{self, Attachable};

/// A disk that a pod names itself, without a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Disk {
    /// `gcePersistentDisk`
    Gce {
        /// `pdName`
        name: Arc<str>,
        /// True if mounted for reading alone.
        read_only: bool,
    },
    /// `awsElasticBlockStore`
    Aws {
        /// `volumeID`
        id: Arc<str>,
    },
    /// `azureDisk`
    Azure {
        /// `diskURI`
        uri: Arc<str>,
    },
    /// `cinder`
    Cinder {
        /// `volumeID`
        id: Arc<str>,
    },
    /// `portworxVolume`
    Portworx {
        /// `volumeID`
        id: Arc<str>,
    },
    /// `iscsi`
    Iscsi {
        /// The qualified name of the target.
        iqn: Arc<str>,
        /// True if mounted for reading alone.
        read_only: bool,
    },
    /// `rbd`
    Rbd {
        /// Ceph's monitors: two disks that share one are in the same Ceph.
        monitors: Vec<Arc<str>>,
        /// The pool of the image.
        pool: Arc<str>,
        /// The image.
        image: Arc<str>,
        /// True if mounted for reading alone.
        read_only: bool,
    },
}

/// The pool of an image that names none, as the API server fills it in.
const RBD_POOL: &str = "rbd";

impl Disk {
    /// Returns the disk of a volume, if it is one of these.
    pub fn of_volume(volume: &Volume) -> Option<Self> {
        if let Some(disk) = &volume.gce_persistent_disk {
            return Some(Disk::Gce {
                name: disk.pd_name.as_str().into(),
                read_only: disk.read_only == Some(true),
            });
        }
        if let Some(disk) = &volume.aws_elastic_block_store {
            return Some(Disk::Aws { id: disk.volume_id.as_str().into() });
        }
        if let Some(disk) = &volume.azure_disk {
            return Some(Disk::Azure { uri: disk.disk_uri.as_str().into() });
        }
        if let Some(disk) = &volume.cinder {
            return Some(Disk::Cinder { id: disk.volume_id.as_str().into() });
        }
        if let Some(disk) = &volume.portworx_volume {
            return Some(Disk::Portworx { id: disk.volume_id.as_str().into() });
        }
        if let Some(disk) = &volume.iscsi {
            return Some(Disk::Iscsi {
                iqn: disk.iqn.as_str().into(),
                read_only: disk.read_only == Some(true),
            });
        }
        let disk = volume.rbd.as_ref()?;
        Some(Disk::Rbd {
            monitors: disk.monitors.iter().map(|monitor| monitor.as_str().into()).collect(),
            pool: disk.pool.as_deref().filter(|pool| !pool.is_empty()).unwrap_or(RBD_POOL).into(),
            image: disk.image.as_str().into(),
            read_only: disk.read_only == Some(true),
        })
    }

    /// Returns the attachment by which it counts against the limit of a node: a driver has replaced
    /// the plugin for such disks.
    pub fn attachable(&self) -> Option<Attachable> {
        match self {
            Disk::Gce { name, .. } => Attachable::of_gce(name, &[]),
            Disk::Aws { id } => Attachable::of_aws(id),
            Disk::Azure { uri } => Attachable::of_plugin(replaced::AZURE_DISK, uri),
            Disk::Cinder { id } => Attachable::of_plugin(replaced::CINDER, id),
            Disk::Portworx { id } => Attachable::of_plugin(replaced::PORTWORX, id),
            Disk::Iscsi { .. } | Disk::Rbd { .. } => None,
        }
    }

    /// True if VolumeRestrictions considers it: two pods on one node may be unable to both have it.
    pub fn is_restricted(&self) -> bool {
        matches!(self, Disk::Gce { .. } | Disk::Aws { .. } | Disk::Iscsi { .. } | Disk::Rbd { .. })
    }

    /// True if two pods on one node cannot both have it: it is the same disk, and not both only
    /// read it. An EBS volume can be used by one pod of a node in any case.
    pub fn conflicts(&self, other: &Disk) -> bool {
        match (self, other) {
            (
                Disk::Gce { name: a, read_only: a_reads },
                Disk::Gce { name: b, read_only: b_reads },
            )
            | (
                Disk::Iscsi { iqn: a, read_only: a_reads },
                Disk::Iscsi { iqn: b, read_only: b_reads },
            ) => a == b && !(*a_reads && *b_reads),
            (Disk::Aws { id: a }, Disk::Aws { id: b }) => a == b,
            (
                Disk::Rbd {
                    monitors: a_monitors,
                    pool: a_pool,
                    image: a_image,
                    read_only: a_reads,
                },
                Disk::Rbd {
                    monitors: b_monitors,
                    pool: b_pool,
                    image: b_image,
                    read_only: b_reads,
                },
            ) => {
                let is_one_ceph = a_monitors.iter().any(|monitor| b_monitors.contains(monitor));
                is_one_ceph && a_pool == b_pool && a_image == b_image && !(*a_reads && *b_reads)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn disk(volume: serde_json::Value) -> Option<Disk> {
        Disk::of_volume(&serde_json::from_value(volume).unwrap())
    }

    fn both(a: serde_json::Value, b: serde_json::Value) -> bool {
        let (a, b) = (disk(a).unwrap(), disk(b).unwrap());
        assert_eq!(a.conflicts(&b), b.conflicts(&a), "{a:?} {b:?}");
        a.conflicts(&b)
    }

    #[test]
    fn a_disk_is_shared_for_reading_alone() {
        for (kind, name) in [("gcePersistentDisk", "pdName"), ("iscsi", "iqn")] {
            let volume = |id: &str, reads: bool| {
                let mut disk = json!({ name: id, "readOnly": reads });
                if kind == "iscsi" {
                    disk["targetPortal"] = "10.0.0.1".into();
                    disk["lun"] = 0.into();
                }
                json!({ "name": "v", kind: disk })
            };
            assert!(both(volume("a", false), volume("a", false)), "{kind}");
            assert!(both(volume("a", true), volume("a", false)), "{kind}");
            assert!(!both(volume("a", true), volume("a", true)), "{kind}");
            assert!(!both(volume("a", false), volume("b", false)), "{kind}");
        }
    }

    #[test]
    fn no_two_pods_share_an_ebs_volume() {
        let volume = |id: &str| {
            json!({
                "name": "v", "awsElasticBlockStore": { "volumeID": id, "readOnly": true },
            })
        };
        assert!(both(volume("a"), volume("a")) && !both(volume("a"), volume("b")));
    }

    #[test]
    fn an_image_of_ceph_is_the_same_where_a_monitor_is() {
        let volume = |monitors: &[&str], pool: Option<&str>, reads: bool| {
            json!({ "name": "v", "rbd": {
                "monitors": monitors, "image": "i", "pool": pool, "readOnly": reads,
            } })
        };
        assert!(both(volume(&["a", "b"], None, false), volume(&["b", "c"], Some("rbd"), true)));
        assert!(!both(volume(&["a", "b"], None, false), volume(&["c"], None, false)));
        assert!(!both(volume(&["a"], None, false), volume(&["a"], Some("other"), false)));
        assert!(!both(volume(&["a"], None, true), volume(&["a"], None, true)));
    }

    #[test]
    fn disks_of_clouds_are_attached_and_those_of_networks_are_not() {
        for (kind, id, handle) in [
            ("gcePersistentDisk", "pdName", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
            ("awsElasticBlockStore", "volumeID", "d"),
            ("cinder", "volumeID", "d"),
            ("portworxVolume", "volumeID", "d"),
        ] {
            let attached =
                disk(json!({ "name": "v", kind: { id: "d" } })).and_then(|disk| disk.attachable());
            assert_eq!(
                attached.map(|disk| disk.handle.to_string()).as_deref(),
                Some(handle),
                "{kind}"
            );
        }
        let azure =
            disk(json!({ "name": "v", "azureDisk": { "diskName": "n", "diskURI": "u" } })).unwrap();
        assert_eq!(&*azure.attachable().unwrap().handle, "u");
        let network =
            disk(json!({ "name": "v", "rbd": { "monitors": ["m"], "image": "i" } })).unwrap();
        assert_eq!(network.attachable(), None);
    }

    #[test]
    fn other_volumes_are_no_disks() {
        assert_eq!(disk(json!({ "name": "v", "emptyDir": {} })), None);
    }
}
