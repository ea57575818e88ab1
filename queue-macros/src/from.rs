//! The differences between the options of `#[subscribe(...)]` and those of tasks: the start of a
//! subscription, and the options that it does not have.

use std::time::UNIX_EPOCH;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{
    Error, LitStr, Result,
    parse::{ParseStream, Parser},
};

use crate::options::Options;

/// The start of a subscription.
#[derive(Clone, Copy)]
pub(crate) enum From {
    Now,
    Start,
    /// Milliseconds since 1970.
    AtMs(i64),
}

/// Options that the publisher of an event sets, or that an event does not have.
const NOT_OF_SUBSCRIPTIONS: [(&str, &str); 7] = [
    ("queue", "the queue of a subscription is its name and the topic of its event; leave it out"),
    ("alias", "the type of the event has the name; leave it out"),
    ("priority", "events have no priority; leave it out"),
    ("unique", "events are unique by their id: publish the event with `.id(..)`"),
    ("tag", "the publisher gives an event its tags: `#[event(topic = \"orders\", tag(order))]`, or `.tag(..)`"),
    ("limit", "events have no limits of their own; `group(cap = 2)` and the concurrency of the worker bound what runs at once"),
    ("schedule", "a subscription has no schedule; a task with one may publish events"),
];

impl Options {
    /// Reads the options between the parentheses of `#[subscribe(...)]`.
    pub(crate) fn parse_subscription(tokens: TokenStream) -> Result<Self> {
        let options = (|input: ParseStream| Options::of_subscription().read(input)).parse2(tokens)?;
        let problem = match (&options.name, &options.from) {
            (None, _) => "the subscription needs a name: write `name = \"billing\"`",
            (_, None) => "a new subscription needs a start: write `from = \"start\"`, `from = \"now\"` or a time",
            _ => return Ok(options),
        };
        Err(Error::new(Span::call_site(), problem))
    }

    /// The start of a subscription, as a value of queue-core.
    pub(crate) fn begin(&self, core: &TokenStream) -> TokenStream {
        match self.from {
            Some(From::Now) => quote!(#core::broker::Begin::Now),
            Some(From::AtMs(at)) => quote!(#core::broker::Begin::AtMs(#at)),
            Some(From::Start) | None => quote!(#core::broker::Begin::Start),
        }
    }
}

impl Options {
    /// The handling of events of unknown types, as a value of queue-core.
    pub(crate) fn unknown(&self, core: &TokenStream) -> TokenStream {
        if self.skips { quote!(#core::broker::Unknown::Skip) } else { quote!(#core::broker::Unknown::Park) }
    }
}

impl From {
    /// The error for an option that a subscription does not have.
    pub(crate) fn refuse(key: &Ident, option: &str) -> Result<()> {
        match NOT_OF_SUBSCRIPTIONS.iter().find(|(other, _)| *other == option) {
            Some((_, problem)) => Err(Error::new(key.span(), problem)),
            None => Ok(()),
        }
    }

    /// `skip` or `park`.
    pub(crate) fn skips(text: &LitStr) -> Result<bool> {
        match &*text.value() {
            "skip" => Ok(true),
            "park" => Ok(false),
            other => {
                let problem = format!("`{other}` is not valid for events of an unknown type; write \"park\" or \"skip\"");
                Err(Error::new(text.span(), problem))
            }
        }
    }

    /// `now`, `start`, or a time.
    pub(crate) fn parse(text: &LitStr) -> Result<Self> {
        let value = text.value();
        match &*value {
            "now" => return Ok(From::Now),
            "start" => return Ok(From::Start),
            _ => {}
        }
        let whole = if value.len() == 10 { format!("{value}T00:00:00Z") } else { value.clone() };
        let since = humantime::parse_rfc3339_weak(&whole).ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        match since.and_then(|since| i64::try_from(since.as_millis()).ok()) {
            Some(at) => Ok(From::AtMs(at)),
            None => {
                let problem = format!("`{value}` is not a time; write \"start\", \"now\", or a time in UTC as \"2026-01-31T12:00:00Z\"");
                Err(Error::new(text.span(), problem))
            }
        }
    }
}
