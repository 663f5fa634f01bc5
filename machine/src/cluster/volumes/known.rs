//! All that a question about volumes rests on.

use super::choices::Choices;
use super::storage::Storage;
use super::users::Users;

/// The objects of storage, the pods that use them, and the choices for these.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) storage: &'a Storage,
    pub(super) users: &'a Users,
    pub(super) choices: &'a Choices,
}
