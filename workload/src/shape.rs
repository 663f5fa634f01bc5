//! One [`Shape`] for all pods of a template.
//!
//! Thousands of pods have equal requests: they share one value, which saves memory and lets the
//! core compare shapes by address first.

use crate::constraints::Constraints;
use crate::resources::Resources;
use std::collections::HashSet;
use std::sync::Arc;

/// The requests and constraints of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The resources that it takes of a node, `pods: 1` included.
    pub requests: Resources,
    /// The nodes that it may use, and those that it prefers.
    pub constraints: Constraints,
}

/// The most shapes that are remembered, by default.
pub const SHAPES_MAX: usize = 10_000;

/// Returns equal shapes as one shared value.
///
/// It is bounded: when it is full, it forgets shapes that no pod uses any more. If those in use
/// still fill it, it returns new ones without remembering them, so they are correct but not shared,
/// until a later sweep finds room.
#[derive(Debug)]
pub struct ShapeInterner {
    shapes: HashSet<Arc<Shape>>,
    capacity: usize,
    /// The shapes returned since the last sweep without being remembered: a sweep walks all shapes,
    /// so it must not come for each.
    passed_by: usize,
}

impl ShapeInterner {
    /// Creates an interner that remembers at most [`SHAPES_MAX`] shapes.
    pub fn new() -> Self {
        Self::with_capacity(SHAPES_MAX)
    }

    /// Creates an interner that remembers at most `capacity` shapes.
    pub fn with_capacity(capacity: usize) -> Self {
        ShapeInterner { shapes: HashSet::new(), capacity, passed_by: 0 }
    }

    /// Returns the shared value that equals `shape`.
    pub fn intern(&mut self, shape: Shape) -> Arc<Shape> {
        if let Some(known) = self.shapes.get(&shape) {
            return Arc::clone(known);
        }
        let shape = Arc::new(shape);
        if self.shapes.len() >= self.capacity && !self.sweep() {
            return shape;
        }
        self.shapes.insert(Arc::clone(&shape));
        shape
    }

    /// Returns how many shapes are remembered.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// True if nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Forgets shapes that are not in use; true if there is room now. Runs once per quarter of the
    /// capacity while that frees nothing.
    fn sweep(&mut self) -> bool {
        if self.passed_by > 0 {
            self.passed_by =
                if self.passed_by > self.capacity / 4 { 0 } else { self.passed_by + 1 };
            return false;
        }
        self.shapes.retain(|shape| Arc::strong_count(shape) > 1);
        let room = self.shapes.len() < self.capacity;
        if !room {
            self.passed_by = 1;
        }
        room
    }
}

impl Default for ShapeInterner {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraints::Constraints;

    fn shape(cpu: u64) -> Shape {
        Shape {
            requests: [("cpu", cpu)].into_iter().collect(),
            constraints: Constraints::default(),
        }
    }

    #[test]
    fn equal_shapes_are_one_value() {
        let mut interner = ShapeInterner::new();
        let (a, b, c) =
            (interner.intern(shape(1)), interner.intern(shape(1)), interner.intern(shape(2)));
        assert!(Arc::ptr_eq(&a, &b) && !Arc::ptr_eq(&a, &c));
        assert_eq!(interner.len(), 2);
    }

    #[test]
    fn at_the_bound_unused_shapes_make_room() {
        let mut interner = ShapeInterner::with_capacity(4);
        let kept = interner.intern(shape(0));
        for cpu in 1..100 {
            assert_eq!(interner.intern(shape(cpu)).requests.get("cpu"), cpu);
            assert!(interner.len() <= 4);
        }
        assert!(Arc::ptr_eq(&kept, &interner.intern(shape(0))), "a used shape is never forgotten");
    }

    #[test]
    fn when_all_are_used_new_ones_are_given_unshared_until_there_is_room() {
        let mut interner = ShapeInterner::with_capacity(100);
        let used: Vec<_> = (0..100).map(|cpu| interner.intern(shape(cpu))).collect();
        let (a, b) = (interner.intern(shape(1000)), interner.intern(shape(1000)));
        assert!(a == b && !Arc::ptr_eq(&a, &b) && interner.len() == 100);
        drop(used);
        // A sweep walks everything, so the next one does not come before a quarter of the capacity
        // has passed by.
        let passed_by = (0..100).take_while(|cpu| {
            interner.intern(shape(2000 + cpu));
            interner.len() == 100
        });
        assert_eq!(passed_by.count(), 25);
        assert!(Arc::ptr_eq(&interner.intern(shape(7)), &interner.intern(shape(7))));
    }
}
