//! Certificates of the webhook's own: an authority that the API server trusts, and the certificate
//! that it signs for this server.
//!
//! [`authority`] decides when each is due, and makes it. [`keeper`] keeps them in a Secret that all
//! replicas share, and puts the authorities into the webhook configurations.

pub mod authority;
pub mod keeper;
