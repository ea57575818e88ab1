//! Expands the list of verbs: the traits of a broker, and a trait for wrappers around one.

/// A verb of a broker: a method of [`Broker`](super::Broker) or [`Inspect`](super::Inspect) that
/// sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verb {
    /// The name of the method.
    pub name: &'static str,
    /// The callers of the verb; the one with the fewest rights comes first.
    pub callers: &'static [Caller],
    /// False if it only reads.
    pub changes: bool,
}

/// The callers of verbs. `docs/acl` has the rights of each on Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// A program that enqueues jobs and waits for their results.
    Producer,
    /// A worker.
    Worker,
    /// The command line or the dashboard of an operator with write access.
    Operator,
    /// A command line or a dashboard that only reads.
    Viewer,
}

/// Declares the traits [`Broker`](super::Broker), [`Inspect`](super::Inspect) and
/// [`Wrapper`](super::Wrapper), and the list [`VERBS`](super::VERBS).
///
/// The input is one block for each of the first two traits: the name of the trait and its
/// supertrait, methods without a request (`local`), and verbs. `&self` and `async` are left out.
macro_rules! contract {
    ($(
        $(#[$about_trait:meta])*
        trait $trait:ident: $parent:ident;

        local { $(
            $(#[$about_local:meta])*
            fn $local:ident($($given:ident: $of_given:ty),*) $(-> $gives:ty)?;
        )* }
        verbs { $(
            $(#[$about_verb:meta])*
            $($caller:ident)|+ $effect:ident fn $verb:ident($($argument:ident: $type:ty),*) -> $answer:ident<$content:ty>;
        )* }
    )*) => {
        $(
            $(#[$about_trait])*
            #[async_trait::async_trait]
            pub trait $trait: $parent + Send + Sync + 'static {
                $(
                    $(#[$about_local])*
                    fn $local(&self, $($given: $of_given),*) $(-> $gives)?;
                )*
                $(
                    $(#[$about_verb])*
                    async fn $verb(&self, $($argument: $type),*) -> $answer<$content>;
                )*
            }

            #[async_trait::async_trait]
            impl<W: Wrapper> $trait for W {
                $(
                    fn $local(&self, $($given: $of_given),*) $(-> $gives)? {
                        Wrapper::$local(self, $($given),*)
                    }
                )*
                $(
                    async fn $verb(&self, $($argument: $type),*) -> $answer<$content> {
                        Wrapper::$verb(self, $($argument),*).await
                    }
                )*
            }
        )*

        /// A broker around another one. A type that implements this trait implements [`Broker`] and
        /// [`Inspect`], too.
        ///
        /// The trait has every method of these two, and forwards it to the inner broker. A wrapper
        /// implements [`inner`](Self::inner), [`around`](Self::around) if it acts on each call, and
        /// the verbs that it changes:
        ///
        /// ```
        /// use queue_core::{Result, broker::*};
        /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        ///
        /// #[derive(Debug)]
        /// struct CountsTurns {
        ///     inner: DynBroker,
        ///     turns: AtomicU64,
        /// }
        ///
        /// impl Wrapper for CountsTurns {
        ///     fn inner(&self) -> &dyn Broker {
        ///         &*self.inner
        ///     }
        ///
        ///     async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        ///         self.turns.fetch_add(1, Relaxed);
        ///         self.inner.turn(turn).await
        ///     }
        /// }
        /// ```
        pub trait Wrapper: Debug + Send + Sync + 'static {
            /// The broker inside.
            fn inner(&self) -> &dyn Broker;

            /// The broker that gets the calls of this verb.
            fn route(&self, verb: &'static str) -> &dyn Broker {
                let _ = verb;
                self.inner()
            }

            /// Carries out the call of a verb by awaiting `call`. All verbs that the wrapper does
            /// not implement pass here, except for [`extend`](Broker::extend), which returns one
            /// result for each lane.
            fn around<T: Send>(&self, verb: &'static str, call: impl Future<Output = Result<T>> + Send) -> impl Future<Output = Result<T>> + Send {
                let _ = verb;
                call
            }

            $(
                $(
                    #[doc = concat!("See [`", stringify!($trait), "::", stringify!($local), "`].")]
                    fn $local(&self, $($given: $of_given),*) $(-> $gives)? {
                        self.inner().$local($($given),*)
                    }
                )*
                $(
                    #[doc = concat!("See [`", stringify!($trait), "::", stringify!($verb), "`].")]
                    fn $verb(&self, $($argument: $type),*) -> impl Future<Output = $answer<$content>> + Send {
                        async move {
                            let call = self.route(stringify!($verb)).$verb($($argument),*);
                            $crate::broker::wrapper::passed!($answer self $verb call)
                        }
                    }
                )*
            )*
        }

        /// All verbs.
        pub const VERBS: &[Verb] = &[$($(
            Verb {
                name: stringify!($verb),
                callers: &[$($crate::broker::wrapper::word!($caller)),+],
                changes: $crate::broker::wrapper::word!($effect),
            },
        )*)*];
    };
}

/// The future of a call on its way through a wrapper.
macro_rules! passed {
    (Result $self:ident $verb:ident $call:ident) => {
        $self.around(stringify!($verb), $call).await
    };
    // A second verb with such an answer would pass no wrapper's hook: it does not compile.
    (Vec $self:ident extend $call:ident) => {
        $call.await
    };
}

/// A word of the list of verbs.
macro_rules! word {
    (producer) => {
        Caller::Producer
    };
    (worker) => {
        Caller::Worker
    };
    (operator) => {
        Caller::Operator
    };
    (viewer) => {
        Caller::Viewer
    };
    (read) => {
        false
    };
    (change) => {
        true
    };
}

pub(super) use {contract, passed, word};

#[cfg(test)]
mod tests {
    use crate::broker::{Caller, VERBS};

    #[test]
    fn a_viewer_changes_nothing() {
        let changing: Vec<_> = VERBS.iter().filter(|verb| verb.changes && verb.callers.contains(&Caller::Viewer)).collect();
        assert!(changing.is_empty(), "{changing:?}");
    }
}
