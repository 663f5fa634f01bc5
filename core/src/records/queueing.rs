//! A job and its queue: which one it is in, what that means for it, and what is on record of
//! queues.
