//! Users and their permissions.

use std::fmt;

/// The permissions of a user. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Sees everything except [hidden](crate::Dashboard::hide) values.
    View,
    /// Also pauses and resumes queues, schedules and groups, runs and backfills schedules, sets the
    /// rules of groups, and requeues, promotes and cancels jobs.
    Operate,
    /// Also deletes jobs.
    Admin,
}

impl Role {
    /// The name of the role in the log.
    pub fn name(self) -> &'static str {
        match self {
            Role::View => "view",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The author of a request, with a role. The name appears in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    name: String,
    role: Role,
}

impl Person {
    /// A person with this name and role.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Person { name: name.into(), role }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.role
    }
}

impl From<Role> for Person {
    /// A person without a name: the audit log has `-`.
    fn from(role: Role) -> Self {
        Person::new("-", role)
    }
}
