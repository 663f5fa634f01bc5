//! Gangs of several roles: shapes, node sets, host ports, labels and walltimes of their own, so
//! that no role can be placed without a thought for the others.

use std::sync::Arc;

use fluxqueue_workload::Shape;
use fluxqueue_workload::constraints::{HostPort, NodeSelectorTerm, Operator, Requirement};

use crate::objects::{self, HOST, Template};
use crate::rng::Rng;

/// Roles of one gang at most.
const ROLES_MAX: u64 = 3;

/// The templates of so many members. What a gang has in common they share with `base`: gates and
/// priority.
pub(crate) fn several(base: &Template, members: u64, rng: &mut Rng) -> Vec<Template> {
    let port = rng.chance(30).then(|| objects::host_port(rng));
    let first_host = rng.below(5);
    let count = rng.between(2, ROLES_MAX.min(members));
    let roles: Vec<Template> =
        (0..count).map(|role| one(base, first_host, role, port.as_ref(), rng)).collect();
    // Each role has a member, the rest fall as they may.
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
    // Most ask for so much that few of them share a node: else any order of placing them finds
    // room.
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

/// Lets the pod use these nodes only: sets of two roles that overlap, so that one may take what
/// only the other can use.
fn use_hosts(shape: &mut Shape, hosts: &[usize]) {
    let values = hosts.iter().map(|host| Arc::from(format!("node-{host}"))).collect();
    let requirement = Requirement { key: Arc::from(HOST), operator: Operator::In, values };
    shape.constraints.required =
        Some(vec![NodeSelectorTerm { labels: vec![requirement], fields: Vec::new() }]);
}
