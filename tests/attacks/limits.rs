//! Limits of queues, and ways around them.

use super::tenants::Tenants;
use crate::harness::{job, pod};

/// The set-up itself: alice may do in team-a what the role edit allows, and nothing in team-b.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_tenant_reaches_no_other_namespace_by_itself() {
    let tenants = Tenants::start("groups: [{namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}]", &[]);
    let (alice, bob) = (tenants.alice(), tenants.bob());
    bob.create(&job("work", 2, "1", "infinity"));
    bob.seen_by_admin().running(2);
    let (ok, _, error) = alice.try_kubectl(&["get", "pods", "--all-namespaces"], "");
    assert!(!ok && error.contains("Forbidden"), "{error}");
    alice.create(&pod("small", "1", "infinity", ""));
    alice.seen_by_admin().running(1);
    let (ok, _, error) = alice.try_kubectl(&["create", "-f", "-"], &pod("large", "4", "1", ""));
    assert!(!ok && error.contains("exceeded quota"), "{error}");
    drop(tenants.fluxqueue);
}
