//! `QUEUE/NAME`: the address of a group, limit, key, task or operation.

use std::{
    fmt::{self, Display},
    str::FromStr,
};

use queue_core::__private::check_queue;

/// A name in a queue: `orders/stripe`.
#[derive(Clone, Debug)]
pub(super) struct Address<T = String> {
    pub(super) queue: String,
    pub(super) name: T,
}

impl<T> Address<T> {
    /// Parses an address. `name` parses its name.
    pub(super) fn read<E: Display>(text: &str, name: impl FnOnce(&str) -> Result<T, E>) -> Result<Self, String> {
        let missing = || "it has no `/`; write the queue and the name as one argument, as in `mail/acme`".to_owned();
        let (queue, rest) = text.split_once('/').ok_or_else(missing)?;
        check_queue(queue).map_err(|error| error.to_string())?;
        Ok(Address { queue: queue.to_owned(), name: name(rest).map_err(|error| error.to_string())? })
    }
}

impl<T: FromStr<Err: Display>> FromStr for Address<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Address::read(text, str::parse)
    }
}

impl<T: Display> Display for Address<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.queue, self.name)
    }
}
