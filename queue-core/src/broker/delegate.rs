//! Delegation of broker methods, for wrappers of a broker.
//!
//! The traits `Broker` and `Inspect` have no default methods, because a wrapper without an
//! implementation would then bypass the wrapped broker. A wrapper implements the methods that it
//! changes, and delegates each other one in one line. A method that is neither implemented nor
//! delegated does not compile, and neither does one that is both.
//!
//! A new method of a trait gets a line in its table here, and one in `__delegate_listed!`. All
//! wrappers then delegate it.

/// Hands methods of the trait `Broker` on to a field, inside an `impl` of the trait.
///
/// ```
/// use queue_core::{Result, broker::*, delegate_broker, delegate_inspect};
/// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// #[derive(Debug)]
/// struct CountsTurns {
///     inner: DynBroker,
///     turns: AtomicU64,
/// }
///
/// #[async_trait::async_trait]
/// impl Broker for CountsTurns {
///     delegate_broker!(self.inner, except turn);
///
///     async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
///         self.turns.fetch_add(1, Relaxed);
///         self.inner.turn(turn).await
///     }
/// }
///
/// #[async_trait::async_trait]
/// impl Inspect for CountsTurns {
///     delegate_inspect!(self.inner);
/// }
/// ```
///
/// - `delegate_broker!(self.inner)` hands on every method, `except a, b` every method but these, and `only a, b` these.
/// - `delegate_broker!(self.inner, through self.around, …)` passes each async call to a method of the wrapper, with the name of the verb:
///   `async fn around<T>(&self, verb: &'static str, call: impl Future<Output = Result<T>> + Send) -> Result<T>`. The method has to await
///   `call`, or nothing is carried out. A verb that does not answer with a `Result` has to be excepted, unless `around` takes its answer.
/// - `delegate_broker!(verbs)` is an array of the names of all async methods.
///
/// A method that is excepted has to be written:
///
/// ```compile_fail
/// # use queue_core::{Result, broker::*, delegate_broker, delegate_inspect};
/// # #[derive(Debug)]
/// # struct CountsTurns { inner: DynBroker }
/// # #[async_trait::async_trait]
/// # impl Inspect for CountsTurns { delegate_inspect!(self.inner); }
/// impl Broker for CountsTurns {
///     delegate_broker!(self.inner, except turn);
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! delegate_broker {
    ($($how:tt)*) => {
        $crate::__delegate! { [$($how)*]
            fn info[]() -> $crate::broker::BrokerInfo;
            fn spawn[](task: $crate::BoxFuture<'static, ()>) -> ();
            fn alarm[]() -> $crate::alarm::Alarm;
            fn clock[]() -> $crate::clock::Clock;
            async check[]() -> $crate::Result<()>;
            async register['a](request: &'a $crate::broker::Register) -> $crate::Result<$crate::broker::Registered>;
            async enqueue['a](request: &'a $crate::broker::Enqueue) -> $crate::Result<Vec<$crate::broker::Enqueued>>;
            async enqueue_confirmed['a, 'b](request: &'a $crate::broker::Enqueue, confirm: &'b $crate::broker::Confirm)
                -> $crate::Result<(Vec<$crate::broker::Enqueued>, $crate::broker::Confirmed)>;
            async durability[]() -> $crate::Result<$crate::broker::Durability>;
            async condition[]() -> $crate::Result<$crate::broker::Condition>;
            async turn['a](turn: &'a $crate::broker::Turn) -> $crate::Result<$crate::broker::TurnAnswer>;
            async has_work['a](queue: &'a str) -> $crate::Result<bool>;
            async extend['a](lanes: &'a [$crate::broker::Extend]) -> Vec<$crate::Result<$crate::broker::Extended>>;
            async overdue['a](queue: &'a str, limit: usize) -> $crate::Result<$crate::broker::OverdueLanes>;
            async fence['a, 'b](queue: &'a str, lanes: &'b [$crate::broker::OverdueLane]) -> $crate::Result<Vec<bool>>;
            async reclaim['a, 'b](queue: &'a str, rule: &'b $crate::broker::CrashRule) -> $crate::Result<$crate::broker::Reclaimed>;
            async sweep['a, 'b](queue: &'a str, limits: &'b $crate::broker::SweepLimits) -> $crate::Result<$crate::broker::Swept>;
            async report['a](report: &'a $crate::broker::history::Report) -> $crate::Result<()>;
            async due_schedules['a](queue: &'a str, limit: usize) -> $crate::Result<$crate::broker::DueSchedules>;
            async set_schedule['a](request: &'a $crate::broker::SetSchedule) -> $crate::Result<$crate::broker::ScheduleAnswer>;
            fn hints['a](queue: &'a str) -> $crate::broker::Hints;
            fn tick_hints['a](queue: &'a str) -> $crate::broker::Hints;
            async watch['a, 'b](queue: &'a str, id: &'b $crate::JobId) -> $crate::Result<Option<$crate::broker::StoredJob>>;
            fn ending_hints['a, 'b](queue: &'a str, id: &'b $crate::JobId) -> $crate::broker::Hints;
            fn watch_hints['a](queue: &'a str) -> $crate::broker::Hints;
            async remark['a](remarks: &'a $crate::broker::Remarks) -> $crate::Result<Vec<bool>>;
            fn remark_hints['a, 'b](queue: &'a str, id: &'b $crate::JobId) -> $crate::broker::Hints;
            async follow['a](queue: &'a str, stands: std::time::Duration) -> $crate::Result<$crate::broker::Followed>;
            async subscribe['a](request: &'a $crate::broker::Subscribe) -> $crate::Result<bool>;
            async trim_topic['a](topic: &'a str) -> $crate::Result<$crate::broker::Trimmed>;
            fn __sealed[](seal: $crate::broker::sealed::Seal) -> ();
        }
    };
}

/// Hands methods of the trait `Inspect` on to a field, as [`delegate_broker!`](crate::delegate_broker) does.
#[doc(hidden)]
#[macro_export]
macro_rules! delegate_inspect {
    ($($how:tt)*) => {
        $crate::__delegate! { [$($how)*]
            async queues[]() -> $crate::Result<Vec<String>>;
            async workers['a](queue: &'a str) -> $crate::Result<Vec<$crate::broker::WorkerRecord>>;
            async ask_worker['a](request: &'a $crate::broker::AskWorker) -> $crate::Result<$crate::broker::WorkerAsked>;
            async stats['a](queue: &'a str) -> $crate::Result<$crate::broker::QueueStats>;
            async history['a](queue: &'a str, span: $crate::broker::history::HistorySpan)
                -> $crate::Result<$crate::broker::history::History>;
            async failures['a](queue: &'a str) -> $crate::Result<Vec<$crate::broker::history::FailureKind>>;
            async list['a](queue: &'a str, state: $crate::broker::JobState, offset: u64, limit: usize) -> $crate::Result<$crate::broker::StoredPage>;
            async scan['a](request: &'a $crate::broker::Scan) -> $crate::Result<$crate::broker::Scanned>;
            async show['a, 'b](queue: &'a str, id: &'b $crate::JobId) -> $crate::Result<Option<$crate::broker::StoredJob>>;
            async standing['a, 'b](queue: &'a str, ids: &'b [$crate::JobId]) -> $crate::Result<Vec<Option<$crate::broker::Standing>>>;
            async remarks['a, 'b](queue: &'a str, id: &'b $crate::JobId, from: u64) -> $crate::Result<Option<$crate::broker::StoredRemarks>>;
            async schedules['a, 'b](queue: &'a str, which: &'b $crate::broker::ScheduleList) -> $crate::Result<$crate::broker::SchedulePage>;
            async change['a, 'b, 'c](queue: &'a str, change: $crate::broker::Change, reason: Option<&'b str>, ids: &'c [$crate::JobId])
                -> $crate::Result<Vec<$crate::broker::Changed>>;
            async edit['a](request: &'a $crate::broker::EditJob) -> $crate::Result<$crate::broker::EditedJob>;
            async key_holder['a, 'b](queue: &'a str, key: &'b $crate::broker::UniqueKey) -> $crate::Result<Option<$crate::broker::KeyHolder>>;
            async release_key['a, 'b](queue: &'a str, key: &'b $crate::broker::UniqueKey) -> $crate::Result<Option<$crate::broker::KeyHolder>>;
            async groups['a, 'b](queue: &'a str, which: &'b $crate::broker::GroupList) -> $crate::Result<$crate::broker::GroupPage>;
            async set_group['a](request: &'a $crate::broker::SetGroup) -> $crate::Result<$crate::broker::GroupSet>;
            async limits['a, 'b](queue: &'a str, name: Option<&'b str>) -> $crate::Result<Vec<$crate::broker::StoredLimit>>;
            async limit_keys['a, 'b](queue: &'a str, which: &'b $crate::broker::LimitKeys) -> $crate::Result<Vec<$crate::broker::StoredLimitKey>>;
            async set_limit['a](request: &'a $crate::broker::SetLimit) -> $crate::Result<$crate::broker::LimitSet>;
            async set_aging['a](request: &'a $crate::broker::SetAging) -> $crate::Result<$crate::broker::AgingSet>;
            async topics[]() -> $crate::Result<Vec<String>>;
            async topic['a](topic: &'a str) -> $crate::Result<Option<$crate::broker::StoredTopic>>;
            async read_topic['a, 'b](topic: &'a str, after: Option<&'b str>, limit: usize) -> $crate::Result<Vec<$crate::broker::StoredEvent>>;
            async set_retention['a](topic: &'a str, retention: $crate::broker::Retention) -> $crate::Result<()>;
            async unsubscribe['a, 'b](topic: &'a str, subscription: &'b str) -> $crate::Result<bool>;
            async rewind['a](request: &'a $crate::broker::Rewind) -> $crate::Result<$crate::broker::Rewound>;
            async pauses['a](queue: &'a str) -> $crate::Result<$crate::broker::Pauses>;
            async set_pause['a](request: &'a $crate::broker::SetPause) -> $crate::Result<()>;
            async transitions['a](queue: &'a str, after: u64, limit: usize) -> $crate::Result<$crate::broker::Transitions>;
            async operations['a](queue: &'a str) -> $crate::Result<Vec<$crate::broker::Operation>>;
            async operate['a](request: &'a $crate::broker::Operate) -> $crate::Result<$crate::broker::Operated>;
            async audit['a](queue: &'a str, how: $crate::broker::Audit) -> $crate::Result<Vec<$crate::broker::Damage>>;
            async audit_queues[](repair: bool) -> $crate::Result<Vec<$crate::broker::Damage>>;
        }
    };
}

/// Reads how to hand on, and goes through a table. A line of it is a method: `fn` or `async`, its name, the lifetimes of its arguments,
/// the arguments and the answer.
#[doc(hidden)]
#[macro_export]
macro_rules! __delegate {
    ([verbs] $($table:tt)*) => { $crate::__delegate! { @verbs [] $($table)* } };
    (@verbs [$($verb:expr),*]) => { [$($verb),*] };
    (@verbs [$($verb:expr),*] async $name:ident[$($_of:tt)*]($($_arguments:tt)*) -> $_answer:ty; $($rest:tt)*) => {
        $crate::__delegate! { @verbs [$($verb,)* stringify!($name)] $($rest)* }
    };
    (@verbs [$($verb:expr),*] fn $name:ident[$($_of:tt)*]($($_arguments:tt)*) -> $_answer:ty; $($rest:tt)*) => {
        $crate::__delegate! { @verbs [$($verb),*] $($rest)* }
    };
    ([$self:ident.$inner:ident $(, through $_self:ident.$around:ident)?, only $($name:ident),+ $(,)?] $($table:tt)*) => {
        $crate::__delegate! { @all ($self.$inner $(through $around)?) only [$($name)+] $($table)* }
    };
    ([$self:ident.$inner:ident $(, through $_self:ident.$around:ident)? $(, except $($name:ident),+)? $(,)?] $($table:tt)*) => {
        $crate::__delegate! { @all ($self.$inner $(through $around)?) except [$($($name)+)?] $($table)* }
    };
    (@all $to:tt $how:ident $names:tt
        $($kind:ident $name:ident[$($lifetime:lifetime),*]($($argument:ident: $type:ty),*) -> $answer:ty;)*
    ) => {
        $($crate::__delegate_listed! {
            $how $name $names { $to $kind $name[$($lifetime),*]($($argument: $type),*) -> $answer }
        })*
    };
}

/// Hands a method on if it is among the names (`only`), or if it is not (`except`).
#[doc(hidden)]
#[macro_export]
macro_rules! __delegate_listed {
    (@listed only { $($method:tt)* }) => { $crate::__delegate_method! { $($method)* } };
    (@listed except $method:tt) => {};
    // A macro of this kind cannot compare two names: each method has a line of its own.
    ($how:ident info [info $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident spawn [spawn $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident alarm [alarm $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident clock [clock $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident check [check $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident register [register $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident enqueue [enqueue $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident enqueue_confirmed [enqueue_confirmed $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident durability [durability $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident condition [condition $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident turn [turn $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident has_work [has_work $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident extend [extend $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident overdue [overdue $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident fence [fence $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident reclaim [reclaim $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident sweep [sweep $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident report [report $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident due_schedules [due_schedules $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident set_schedule [set_schedule $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident hints [hints $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident tick_hints [tick_hints $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident watch [watch $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident ending_hints [ending_hints $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident watch_hints [watch_hints $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident remark [remark $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident remark_hints [remark_hints $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident follow [follow $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident subscribe [subscribe $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident trim_topic [trim_topic $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident __sealed [__sealed $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident queues [queues $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident workers [workers $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident ask_worker [ask_worker $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident stats [stats $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident history [history $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident failures [failures $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident list [list $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident scan [scan $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident show [show $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident standing [standing $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident remarks [remarks $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident schedules [schedules $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident change [change $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident edit [edit $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident key_holder [key_holder $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident release_key [release_key $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident groups [groups $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident set_group [set_group $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident limits [limits $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident limit_keys [limit_keys $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident set_limit [set_limit $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident set_aging [set_aging $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident topics [topics $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident topic [topic $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident read_topic [read_topic $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident set_retention [set_retention $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident unsubscribe [unsubscribe $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident rewind [rewind $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident pauses [pauses $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident set_pause [set_pause $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident transitions [transitions $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident operations [operations $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident operate [operate $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident audit [audit $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident audit_queues [audit_queues $($_rest:ident)*] $method:tt) => { $crate::__delegate_listed!(@listed $how $method); };
    ($how:ident $name:ident [$_other:ident $($rest:ident)*] $method:tt) => {
        $crate::__delegate_listed! { $how $name [$($rest)*] $method }
    };
    (except $name:ident [] { $($method:tt)* }) => { $crate::__delegate_method! { $($method)* } };
    (only $name:ident [] $method:tt) => {};
}

/// A method that hands its call on. An `async` one has the form that `async_trait` gives it, and returns the future of the inner
/// broker in the box in which it comes.
#[doc(hidden)]
#[macro_export]
macro_rules! __delegate_method {
    (($self:ident.$inner:ident $(through $_around:ident)?) fn
        $name:ident[$($lifetime:lifetime),*]($($argument:ident: $type:ty),*) -> $answer:ty
    ) => {
        fn $name<$($lifetime),*>(&$self, $($argument: $type),*) -> $answer {
            $self.$inner.$name($($argument),*)
        }
    };
    (($self:ident.$inner:ident $(through $around:ident)?) async
        $name:ident[$($lifetime:lifetime),*]($($argument:ident: $type:ty),*) -> $answer:ty
    ) => {
        fn $name<'this, $($lifetime,)* 'async_trait>(&'this $self, $($argument: $type),*) -> $crate::BoxFuture<'async_trait, $answer>
        where
            'this: 'async_trait,
            $($lifetime: 'async_trait,)*
            Self: 'async_trait,
        {
            $crate::__delegate_method! { @call $name ($self.$inner.$name($($argument),*)) $($self.$around)? }
        }
    };
    (@call $name:ident ($($call:tt)*)) => { $($call)* };
    (@call $name:ident ($($call:tt)*) $self:ident.$around:ident) => {
        Box::pin(async move { $self.$around(stringify!($name), $($call)*).await })
    };
}
