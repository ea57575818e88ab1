//! What a command says on standard error while it runs, and the spans that it exports.

use std::io::IsTerminal;

use queue_core::LogLevel;
use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, Layer, fmt, prelude::*, registry::LookupSpan};

use super::exit::Failure;
#[cfg(feature = "otel")]
use super::traces::Traces;
use crate::JobLogLayer;

/// The log of a command, until it ends.
pub(super) struct Log {
    #[cfg(feature = "otel")]
    traces: Option<Traces>,
}

impl Log {
    /// Puts what handlers log, at this level and above, into the logs of their jobs, if that is wanted. Logs at level `info`, or as `RUST_LOG` says, unless the application has set up its own logging. Spans are exported then as the
    /// application does it.
    pub(super) fn begin(of_jobs: Option<LogLevel>) -> Result<Log, Failure> {
        let jobs = of_jobs.map(|level| JobLogLayer::new().level(level));
        #[cfg(not(feature = "otel"))]
        {
            let _ = tracing_subscriber::registry().with(jobs).with(lines()).try_init();
            Ok(Log {})
        }
        #[cfg(feature = "otel")]
        {
            let (traces, layer) = Traces::begin()?.unzip();
            let is_ours = tracing_subscriber::registry().with(layer).with(jobs).with(lines()).try_init().is_ok();
            Ok(Log { traces: traces.filter(|_| is_ours) })
        }
    }

    /// Exports the spans that are left.
    #[cfg_attr(not(feature = "otel"), allow(clippy::unused_async, reason = "there is nothing to wait for"))]
    pub(super) async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = self.traces {
            traces.end().await;
        }
    }
}

/// The lines on standard error.
fn lines<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    fmt::layer().with_ansi(colours).with_writer(std::io::stderr).with_target(false).with_filter(filter)
}
