//! Pods that stop slowly, restart, or are made again under their names.
