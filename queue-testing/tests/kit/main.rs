//! The test kit, as an application uses it. The cases of other kits have the names that they have
//! there.

mod clock;
mod features;
mod messages;
mod oban;
mod on_redis;
mod rivertest;
mod tasks;
