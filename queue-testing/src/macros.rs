//! The assertions.

/// Asserts that a job waits in the queue, and returns its
/// [`JobRecord`](queue_core::inspect::JobRecord).
///
/// The pattern names parameters of the task with their expected values. With `..` at its end, the
/// job may have others; without it, all have to be named. A task alone matches any parameters. Jobs
/// that wait for any reason count, and jobs that run; with `state`, the jobs in that state alone.
///
/// | option | the job |
/// |---|---|
/// | `queue = "mail"` | is in this queue |
/// | `delay = "10m"` | was enqueued with this delay, give or take a second; a text or a `Duration` |
/// | `at = time` | is due at this time, give or take a second |
/// | `priority = Priority::High`, `group = "acme"`, `max_attempts = 3`, `id = "order-17"` | has this |
/// | `unique_key = r#"user_id=17"#` | has this key, as the command line shows it |
/// | `tag = ("order", "17")`, `header = ("tenant", "7")` | has this tag, this header |
/// | `state = JobState::Retry` | is in this state |
/// | `count = 2` | is one of exactly so many |
///
/// ```standalone_crate
/// use queue_core::prelude::*;
/// use queue_testing::{TestQueue, assert_enqueued};
///
/// #[task(queue = "mail")]
/// async fn send_mail(to: String, urgent: bool) {}
///
/// # queue_testing::block_on(async {
/// let queue = TestQueue::new();
/// send_mail::job("ada".to_owned(), true).tag("order", "17").enqueue(queue.client()).await.unwrap();
///
/// assert_enqueued!(queue, send_mail);
/// assert_enqueued!(queue, send_mail { to: "ada", .. }, queue = "mail", tag = ("order", "17"));
/// assert_enqueued!(queue, send_mail { to: "ada", urgent: true }, count = 1);
/// # });
/// ```
///
/// # Panics
/// If no job matches, or another number of jobs than `count`. The message shows the nearest job,
/// field by field. Also for a parameter that the task does not have.
#[macro_export]
macro_rules! assert_enqueued {
    ($queue:expr, $task:path { $($pattern:tt)* } $(, $option:ident = $value:expr)* $(,)?) => {
        $crate::__assert_enqueued(&$queue, &$crate::__expected!($task { $($pattern)* } $($option = $value),*))
    };
    ($queue:expr, $task:path $(, $option:ident = $value:expr)* $(,)?) => {
        $crate::__assert_enqueued(&$queue, &$crate::__expected!($task { .. } $($option = $value),*))
    };
}

/// Asserts that no waiting job matches, as [`assert_enqueued!`] describes it; without a task, that
/// no job waits at all.
///
/// ```standalone_crate
/// # use queue_core::prelude::*;
/// # use queue_testing::{TestQueue, refute_enqueued};
/// # #[task] async fn send_mail(to: String) {}
/// let queue = TestQueue::new();
/// refute_enqueued!(queue, send_mail { to: "ada" });
/// refute_enqueued!(queue);
/// ```
///
/// # Panics
/// If a job matches: the message shows it.
#[macro_export]
macro_rules! refute_enqueued {
    ($queue:expr $(,)?) => {
        $crate::__refute_any(&$queue)
    };
    ($queue:expr, $task:path { $($pattern:tt)* } $(, $option:ident = $value:expr)* $(,)?) => {
        $crate::__refute_enqueued(&$queue, &$crate::__expected!($task { $($pattern)* } $($option = $value),*))
    };
    ($queue:expr, $task:path $(, $option:ident = $value:expr)* $(,)?) => {
        $crate::__refute_enqueued(&$queue, &$crate::__expected!($task { .. } $($option = $value),*))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __expected {
    ($task:path { $($pattern:tt)* } $($option:ident = $value:expr),*) => {{
        #[allow(unused_mut, reason = "a task alone needs nothing more")]
        let mut expected = $crate::Expected::of::<$task>();
        $crate::__fields!(expected; $($pattern)*);
        $(expected.$option($value);)*
        expected
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __fields {
    ($expected:ident;) => {
        $expected.no_others();
    };
    ($expected:ident; ..) => {};
    ($expected:ident; $field:ident: $value:expr) => {
        $expected.field($crate::__private::stringify!($field), &$value);
        $expected.no_others();
    };
    ($expected:ident; $field:ident: $value:expr, $($rest:tt)*) => {
        $expected.field($crate::__private::stringify!($field), &$value);
        $crate::__fields!($expected; $($rest)*);
    };
    ($expected:ident; $field:ident) => {
        $crate::__fields!($expected; $field: $field);
    };
    ($expected:ident; $field:ident, $($rest:tt)*) => {
        $crate::__fields!($expected; $field: $field, $($rest)*);
    };
}
