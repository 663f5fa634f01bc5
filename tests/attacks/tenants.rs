//! The set-up that the attempts share: alice in `team-a`, the attacker, and bob in `team-b`.
//!
//! Both have the ClusterRole `edit` in their namespace, and no rights elsewhere. `team-a` has a
//! small quota, as an administrator would give to a tenant that is not trusted.

use crate::harness::{ControlPlane, Fluxqueue, Namespace, until};

/// The attacker's quota: 4 CPUs, 8 GiB, 20 pods.
const QUOTA: &str = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: small, namespace: team-a}
spec: {hard: {requests.cpu: '4', pods: '20'}}
";

/// A control plane with two tenants and a Fluxqueue.
pub(crate) struct Tenants {
    pub(crate) plane: ControlPlane,
    pub(crate) fluxqueue: Fluxqueue,
}

/// One of the two tenants.
#[derive(Clone, Copy)]
pub(crate) struct Tenant<'a> {
    plane: &'a ControlPlane,
    namespace: &'static str,
    user: &'static str,
}

impl Tenants {
    /// Starts a control plane with these nodes, both tenants, and a Fluxqueue with these flags.
    pub(crate) fn start(nodes: &str, flags: &[&str]) -> Self {
        Tenants::on(ControlPlane::start(nodes, &[]), flags)
    }

    /// Adds both tenants to a control plane, and starts a Fluxqueue with these flags.
    pub(crate) fn on(plane: ControlPlane, flags: &[&str]) -> Self {
        for (namespace, user) in [("team-a", "alice"), ("team-b", "bob")] {
            plane.kubectl(&["create", "namespace", namespace]);
            let role = ["create", "rolebinding", user, "--clusterrole=edit", "-n", namespace];
            plane.kubectl(&[&role[..], &[&format!("--user={user}")]].concat());
            let tenant = Tenant { plane: &plane, namespace, user };
            // The role has its parts only once they are aggregated, and pods need the service
            // account.
            until("the role of the tenant", || {
                tenant.try_kubectl(&["get", "fluxjobs"], "").0.then_some(())
            });
            let account = ["get", "serviceaccount", "default"];
            until("the service account", || tenant.try_kubectl(&account, "").0.then_some(()));
        }
        let (ok, _, error) = plane.try_kubectl(&["create", "-f", "-"], QUOTA);
        assert!(ok, "the quota of team-a: {error}");
        let fluxqueue = plane.fluxqueue(flags);
        Tenants { plane, fluxqueue }
    }

    /// The attacker, in `team-a`.
    pub(crate) fn alice(&self) -> Tenant<'_> {
        Tenant { plane: &self.plane, namespace: "team-a", user: "alice" }
    }

    /// The victim, in `team-b`.
    pub(crate) fn bob(&self) -> Tenant<'_> {
        Tenant { plane: &self.plane, namespace: "team-b", user: "bob" }
    }
}

impl<'a> Tenant<'a> {
    /// Runs kubectl as this user. Returns true if it succeeded, and its output on stdout and
    /// stderr.
    pub(crate) fn try_kubectl(&self, args: &[&str], stdin: &str) -> (bool, String, String) {
        let all = [args, &["-n", self.namespace, "--as", self.user]].concat();
        self.plane.try_kubectl(&all, stdin)
    }

    /// Creates the objects of a manifest as this user.
    pub(crate) fn create(&self, manifest: &str) {
        let (ok, _, error) = self.try_kubectl(&["create", "-f", "-"], manifest);
        assert!(ok, "{} creates: {error}\n{manifest}", self.user);
    }

    /// Returns the tenant's namespace as the administrator sees it, for the waiting functions of
    /// `Namespace`. The namespace is deleted with the control plane, so the value must not be
    /// dropped.
    pub(crate) fn seen_by_admin(&self) -> std::mem::ManuallyDrop<Namespace<'a>> {
        let name = self.namespace.to_owned();
        std::mem::ManuallyDrop::new(Namespace { plane: self.plane, name })
    }
}
