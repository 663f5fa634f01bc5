//! Which slots share nodes: slots of a tenant that has its nodes alone, and guests, which no
//! slots are kept away from.
//!
//! For slots that share with all that share, a node that a tenant has alone is like one that a job
//! has whole: the columns count it so. For a tenant's own slots, and for guests, the free units are
//! worked out from the claims of a row.

/// With which other slots a slot may be on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tenancy {
    /// With all others that share.
    #[default]
    Shared,
    /// With slots of the same tenant.
    Alone(u64),
    /// With all slots, also with those of a tenant that has the node alone.
    Guest,
}

impl Tenancy {
    /// What `tenant` and `guest` of a document mean together; `None`: they exclude each other.
    pub(crate) fn of(tenant: Option<u64>, guest: bool) -> Option<Self> {
        match (tenant, guest) {
            (None, false) => Some(Tenancy::Shared),
            (Some(tenant), false) => Some(Tenancy::Alone(tenant)),
            (None, true) => Some(Tenancy::Guest),
            (Some(_), true) => None,
        }
    }

    /// Whether slots of both may be on a node at once.
    pub(crate) fn suits(self, other: Tenancy) -> bool {
        match (self, other) {
            (Tenancy::Guest, _) | (_, Tenancy::Guest) | (Tenancy::Shared, Tenancy::Shared) => true,
            (Tenancy::Alone(one), Tenancy::Alone(other)) => one == other,
            (Tenancy::Shared, Tenancy::Alone(_)) | (Tenancy::Alone(_), Tenancy::Shared) => false,
        }
    }
}
