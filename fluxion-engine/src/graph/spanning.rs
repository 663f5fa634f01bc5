//! Which edges of a document form the tree.
//!
//! Documents may have edges both ways: down to the vertices that a vertex holds ("contains"), and
//! back up to the one that holds it ("in"). Upstream reads all of them alike; its walks go down by
//! each edge that does not lead to where they are or have been. So the tree is made of the edges by
//! which a walk from the root, with the edges of each vertex in their order, comes to a vertex
//! first. What leads back up is never walked.

/// What an edge is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// By it a vertex has its parent.
    Tree,
    /// It leads back to what holds the vertex.
    Back,
    /// It leads to a vertex that has another parent.
    Beside,
    /// No walk comes to it.
    Unreached,
}

/// The roles of edges between `count` vertices, as pairs of positions, in order. Walks begin at
/// `starts`, and then where none has come to.
pub(super) fn roles(count: usize, edges: &[(usize, usize)], starts: &[usize]) -> Vec<Role> {
    let (mut from, mut sorted) = (vec![0_usize; count + 1], vec![0_usize; edges.len()]);
    for (source, _) in edges {
        from[source + 1] += 1;
    }
    for at in 0..count {
        from[at + 1] += from[at];
    }
    let mut next = from.clone();
    for (at, (source, _)) in edges.iter().enumerate() {
        sorted[next[*source]] = at;
        next[*source] += 1;
    }
    next.copy_from_slice(&from);
    let mut roles = vec![Role::Unreached; edges.len()];
    let (mut is_seen, mut is_open) = (vec![false; count], vec![false; count]);
    for (nth, start) in starts.iter().copied().chain(0..count).enumerate() {
        if std::mem::replace(&mut is_seen[start], true) {
            continue;
        }
        let mut way = vec![start];
        is_open[start] = true;
        while let Some(vertex) = way.last().copied() {
            if next[vertex] == from[vertex + 1] {
                is_open[vertex] = false;
                way.pop();
                continue;
            }
            let edge = sorted[next[vertex]];
            next[vertex] += 1;
            let target = edges[edge].1;
            if !std::mem::replace(&mut is_seen[target], true) {
                roles[edge] = Role::Tree;
                is_open[target] = true;
                way.push(target);
            } else if is_open[target] {
                roles[edge] = Role::Back;
            } else if nth < starts.len() {
                roles[edge] = Role::Beside;
            }
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_what_a_walk_comes_to_first() {
        use Role::{Back, Beside, Tree, Unreached};
        // Both ways, the way up first.
        assert_eq!(roles(3, &[(2, 1), (1, 0), (0, 1), (1, 2)], &[0]), [Back, Back, Tree, Tree]);
        // The second vertex that holds 3 is come to by way of it, as upstream's walks do.
        let diamond = [(0, 1), (0, 2), (1, 3), (2, 3)];
        assert_eq!(roles(4, &diamond, &[0]), [Tree, Tree, Tree, Beside]);
        let both = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 1), (3, 2)];
        assert_eq!(roles(4, &both, &[0]), [Tree, Beside, Tree, Back, Back, Tree]);
        // Vertices that the root does not lead to, and itself.
        assert_eq!(
            roles(4, &[(2, 3), (3, 2), (3, 1), (1, 1), (2, 0)], &[0]),
            [Tree, Back, Unreached, Back, Unreached]
        );
    }
}
