//! Resources as whole vertices: their kinds, the amount that one stands for, and their names in a
//! library.

use std::borrow::Cow;

use fluxqueue_workload::Resources;

/// The bytes that one vertex of memory stands for.
pub(super) const MEMORY_BYTES: u64 = 1 << 30;

/// A node has no more vertices of a kind than this; vertices beyond are not handed out.
pub(super) const VERTICES_MAX: u64 = 4096;

/// What one vertex stands for; `None` for resources that are not handed out as vertices.
fn unit(resource: &str) -> Option<u64> {
    match resource {
        "cpu" => Some(1000),
        "memory" => Some(MEMORY_BYTES),
        "pods" => Some(1),
        // Extended resources, which come in whole numbers: GPUs and other devices.
        other if other.contains('/') => Some(1),
        _ => None,
    }
}

/// The type of the vertices. A type names a place in paths, so it has no slash.
pub(super) fn vertex_type(resource: &str) -> Cow<'_, str> {
    match resource {
        "cpu" => Cow::Borrowed("core"),
        "pods" => Cow::Borrowed("pod"),
        other if other.contains('/') => Cow::Owned(other.replace('/', "+")),
        other => Cow::Borrowed(other),
    }
}

/// Returns the amount that this number of vertices stands for.
pub(super) fn units(resource: &str, vertices: u64) -> u64 {
    vertices.saturating_mul(unit(resource).unwrap_or(1))
}

/// The vertices that amounts are enough for.
pub(super) fn enough_for(amounts: &Resources) -> Resources {
    let whole =
        |(name, amount): (&_, u64)| Some((std::sync::Arc::clone(name), amount / unit(name)?));
    amounts.iter().filter_map(whole).map(|(name, count)| (name, count.min(VERTICES_MAX))).collect()
}

/// The vertices that are needed for amounts; `None`, with its name, for a resource that has none.
pub(super) fn needed_for(amounts: &Resources) -> Result<Resources, &str> {
    let mut needed = Resources::new();
    for (name, amount) in amounts.iter() {
        needed.set(std::sync::Arc::clone(name), amount.div_ceil(unit(name).ok_or(&**name)?));
    }
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_to_the_safe_side() {
        let amounts: Resources =
            [("cpu", 3920), ("memory", 3 * MEMORY_BYTES / 2), ("nvidia.com/gpu", 8), ("pods", 110)]
                .into_iter()
                .collect();
        let there: Resources =
            [("cpu", 3), ("memory", 1), ("nvidia.com/gpu", 8), ("pods", 110)].into_iter().collect();
        let wanted: Resources =
            [("cpu", 4), ("memory", 2), ("nvidia.com/gpu", 8), ("pods", 110)].into_iter().collect();
        assert_eq!((enough_for(&amounts), needed_for(&amounts)), (there, Ok(wanted)));
        assert_eq!(
            enough_for(&[("example.com/fuse", 1 << 20)].into_iter().collect())
                .get("example.com/fuse"),
            VERTICES_MAX
        );
    }

    #[test]
    fn what_has_no_vertices_is_named() {
        let amounts: Resources = [("cpu", 1), ("ephemeral-storage", 5)].into_iter().collect();
        assert_eq!(needed_for(&amounts), Err("ephemeral-storage"));
        assert_eq!(enough_for(&amounts).get("ephemeral-storage"), 0);
        assert_eq!(vertex_type("nvidia.com/gpu"), "nvidia.com+gpu");
    }
}
