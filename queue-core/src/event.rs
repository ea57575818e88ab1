//! Events, which are published to topics and handled by subscriptions.

use std::fmt;

use crate::{
    codec::ParamDef,
    draft::Options,
    error::Result,
    outcome::Outcome,
    payload::{self, Fields, OfEvent, PayloadWriter},
};

/// A type of event of this program. The derive submits it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct DeclaredEvent {
    /// Its topic.
    pub topic: &'static str,
    /// The name of the type.
    pub name: &'static str,
}

inventory::collect!(DeclaredEvent);

/// All types of events of this program.
#[doc(hidden)]
pub fn declared_events() -> impl Iterator<Item = DeclaredEvent> {
    inventory::iter::<DeclaredEvent>.into_iter().copied()
}

/// A type of event. `#[derive(Event)]` implements it.
///
/// ```
/// use queue_core::prelude::*;
///
/// #[derive(Event)]
/// #[event(topic = "orders")]
/// struct OrderPaid {
///     order: u64,
///     customer: String,
/// }
///
/// # async fn example() -> queue_core::Result<()> {
/// # let queue = Client::connect("sqlite://:memory:").await?;
/// queue.publish(OrderPaid { order: 17, customer: "ada".to_owned() }).await?;
/// OrderPaid { order: 18, customer: "ada".to_owned() }.event().group("ada").header("tenant", "7").publish(&queue).await?;
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    note = "put `#[derive(Event)]` and `#[event(topic = \"...\")]` on a struct with named fields"
)]
pub trait Event: Fields<OfEvent> + Send + 'static {
    /// The topic to which it is published.
    const TOPIC: &'static str;

    /// The name of its type, which the entries of the log carry.
    const TYPE: &'static str;

    /// Its fields.
    #[doc(hidden)]
    const PARAMS: &'static [ParamDef] = <Self as Fields<OfEvent>>::PARAMS;

    /// Its tags: the name of each, and the field whose value it has.
    #[doc(hidden)]
    const TAGS: &'static [(&'static str, &'static str)] = &[];

    /// Decodes its fields.
    #[doc(hidden)]
    fn decode(payload: &[u8]) -> std::result::Result<Self, Outcome> {
        payload::read_fields(payload)
    }

    /// Encodes a JSON object with its fields.
    #[doc(hidden)]
    fn payload_from_json(json: &str) -> Result<Vec<u8>> {
        payload::fields_from_json::<Self, OfEvent>(Self::TYPE, json)
    }

    /// Checks that an encoded payload has its fields, and no others.
    #[doc(hidden)]
    fn check_payload(payload: &[u8]) -> Result<()> {
        payload::check_fields::<Self, OfEvent>(Self::TYPE, payload)
    }

    /// The event with options, to be [published](Publication::publish).
    fn event(self) -> Publication {
        Publication {
            topic: Self::TOPIC.to_owned(),
            event: Self::TYPE.to_owned(),
            payload: PayloadWriter::of(&self).finish(Self::TYPE),
            options: Options::default(),
            tags: Self::TAGS,
        }
    }
}

/// An event on its way to its topic: made by [`Event::event`], adjusted here, appended to the log
/// by [`publish`](Self::publish).
#[must_use = "an event is published by `.publish(&client).await`"]
pub struct Publication {
    pub(crate) topic: String,
    pub(crate) event: String,
    pub(crate) payload: Result<Vec<u8>>,
    pub(crate) options: Options,
    pub(crate) tags: &'static [(&'static str, &'static str)],
}

impl Publication {
    /// An event whose type is known only by its name, with this payload: a MessagePack map by
    /// field.
    pub fn raw(topic: impl Into<String>, event: impl Into<String>, payload: Vec<u8>) -> Self {
        Publication { topic: topic.into(), event: event.into(), payload: Ok(payload), options: Options::default(), tags: &[] }
    }

    /// The same from a JSON object with its fields.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if it is not a JSON object;
    /// [`Error::Encode`](crate::Error::Encode) naming the field that cannot be stored.
    pub fn from_json(topic: impl Into<String>, event: impl Into<String>, json: &str) -> Result<Self> {
        let event = event.into();
        let encoded = payload::map_from_json(&event, "payload", json)?;
        Ok(Publication::raw(topic, event, encoded))
    }

    /// Puts the event into a group, of 1 to 256 bytes: an order, a customer. Subscriptions that are
    /// `ordered` handle the events of one group in the order in which they were published, one at a
    /// time.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.options.group = Some(group.into());
        self
    }

    /// Adds a header, which handlers read with `ctx.header(name)`.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.headers.insert(name.into(), value.into());
        self
    }

    /// Adds a tag to the jobs that subscriptions make of the event, as
    /// [`Job::tag`](crate::Job::tag) does.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.tags.insert(name.into(), value.into());
        self
    }

    /// Gives the event an id that the application chooses. Each subscription gets it once, even if
    /// it is published several times, until 24 hours after it was handled there.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.options.id = Some(id.into());
        self
    }
}

impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publication").field("topic", &self.topic).field("event", &self.event).finish_non_exhaustive()
    }
}
