//! Gangs of several roles, with shapes, node sets, host ports, labels and walltimes of their own,
//! so that the placement of each role has to respect the others.

use std::sync::Arc;

use fluxqueue_workload::Shape;
use fluxqueue_workload::constraints::{HostPort, NodeSelectorTerm, Operator, Requirement};

use crate::objects::{self, HOST, Template};
use crate::rng::Rng;

/// Most roles of one gang.
const ROLES_MAX: u64 = 3;

/// Makes the templates of this number of members. They share the common properties of the gang with
/// `base`: gates and priority.
pub(crate) fn several(base: &Template, members: u64, rng: &mut Rng) -> Vec<Template> {
    let port = rng.chance(30).then(|| objects::host_port(rng));
    let first_host = rng.below(5);
    let count = rng.between(2, ROLES_MAX.min(members));
    let roles: Vec<Template> =
        (0..count).map(|role| one(base, first_host, role, port.as_ref(), rng)).collect();
    // Each role has a member, and the others get random ones.
    let draw = |member: u64, rng: &mut Rng| {
        if member < count { member } else { rng.between(0, count - 1) }
    };
    (0..members)
        .map(|member| roles[usize::try_from(draw(member, rng)).expect("a few")].clone())
        .collect()
}

fn one(
    base: &Template,
    first_host: usize,
    role: u64,
    port: Option<&HostPort>,
    rng: &mut Rng,
) -> Template {
    let mut shape = objects::shape(rng);
    // Most roles request so much that few of their pods share a node: otherwise any order of
    // placing them finds room.
    if rng.chance(70) {
        shape.requests.set("cpu", rng.between(1, 5) * 1000);
    }
    if rng.chance(60) {
        use_hosts(
            &mut shape,
            &[first_host, first_host + 1, first_host + 2 + usize::try_from(role).expect("a few")],
        );
    }
    if let Some(port) = port {
        shape.constraints.host_ports = vec![port.clone()];
    }
    let (lifetime, seconds) = objects::lifetime(rng);
    let mut template = base.clone();
    template.shape = Arc::new(shape);
    template.lifetime = lifetime;
    template.run.seconds = seconds;
    template.labels = objects::labels(rng);
    template
}

/// Lets the pod use only these nodes: sets of two roles that overlap, so that one may take the
/// nodes that only the other can use.
fn use_hosts(shape: &mut Shape, hosts: &[usize]) {
    let values = hosts.iter().map(|host| Arc::from(format!("node-{host}"))).collect();
    let requirement = Requirement { key: Arc::from(HOST), operator: Operator::In, values };
    shape.constraints.required =
        Some(vec![NodeSelectorTerm { labels: vec![requirement], fields: Vec::new() }]);
}
