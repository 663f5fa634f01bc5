//! Jobs that wait without pods, in large numbers and beyond their quota.
