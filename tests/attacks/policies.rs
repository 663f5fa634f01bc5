//! Holds, records and schedulers that belong to somebody else.
