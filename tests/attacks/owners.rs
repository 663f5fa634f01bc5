//! Pods, Jobs, claims and FluxJobs that name owners of another namespace, or of none.
