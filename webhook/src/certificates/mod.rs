//! Certificates of its own: an authority that the API server trusts, and the certificate that it
//! signs for this server.
//!
//! [`authority`] decides what is due, and makes it. [`keeper`] keeps it in a Secret that all
//! replicas share, and what the API server trusts in step with it.

pub mod authority;
pub mod keeper;
