//! Topics: events on their way, subscriptions, and the log of a topic. An application declares both
//! with [`#[derive(Event)]`](crate::Event) and [`#[subscribe]`](crate::subscribe).

#[doc(inline)]
pub use crate::broker::{Begin, Retention, RewindTarget, Trimmed, Unknown};
pub use crate::{
    client::{PublishAllError, Published},
    event::Publication,
    inspector::{EventInfo, RewindPreview, Rewinding, SubscriptionInfo, TopicInfo},
};
