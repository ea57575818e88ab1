//! The log of a command on standard error, and the export of its spans.
//!
//! Standard error may block: a terminal after Ctrl-S, a full pipe, a log driver that waits. A write
//! may then block forever, so only a dedicated log thread writes. Its buffer is bounded. Further
//! lines are dropped and counted.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    ffi::OsStr,
    io::{self, IsTerminal, Write},
    panic::{self, PanicHookInfo},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use queue_core::__private::DROPPED_LINES;
use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    fmt::{self, MakeWriter},
    prelude::*,
    registry::LookupSpan,
};

use super::exit::{Exit, Failure};
#[cfg(feature = "otel")]
use super::traces::Traces;

/// The maximum number of lines, and of their bytes, that wait for standard error.
const WAITING: usize = 8192;
const WAITING_BYTES: usize = 16 << 20;

/// The time for writing the remaining lines at the end of a command.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The innermost layer.
pub type AllEvents = Box<dyn Layer<Registry> + Send + Sync>;

/// The log of a command, until it ends.
#[derive(Debug)]
pub struct Log {
    lines: Lines,
    #[cfg(feature = "otel")]
    traces: Option<Traces>,
}

impl Log {
    /// Logs at level `info`, or at the level of `RUST_LOG`, unless the application has set up its
    /// own logging. Spans are then exported by the application. `jobs` also receives all events.
    ///
    /// # Errors
    /// An invalid `RUST_LOG`, or an exporter of spans that cannot be set up.
    pub fn begin(jobs: Option<AllEvents>) -> Result<Log, Failure> {
        let filter = filter()?;
        let lines = Lines::to(io::stderr())?;
        #[cfg(not(feature = "otel"))]
        {
            if tracing_subscriber::registry().with(jobs).with(layer(lines.clone(), filter)).try_init().is_ok() {
                panic::set_hook(Box::new(log_panic));
            }
            Ok(Log { lines })
        }
        #[cfg(feature = "otel")]
        {
            let (traces, spans) = Traces::begin()?.unzip();
            let is_ours = tracing_subscriber::registry().with(jobs).with(spans).with(layer(lines.clone(), filter)).try_init().is_ok();
            if is_ours {
                panic::set_hook(Box::new(log_panic));
            }
            Ok(Log { lines, traces: traces.filter(|_| is_ours) })
        }
    }

    /// Exports the spans and writes the remaining lines.
    #[cfg_attr(not(feature = "otel"), allow(clippy::unused_async, reason = "there is nothing to wait for"))]
    pub async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = self.traces {
            traces.end().await;
        }
        self.lines.wait_for_flush(LAST_LINES);
    }
}

/// The hook of the standard library writes to standard error directly. A blocked write would hold
/// the lock that the next panic needs.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let text = panic.payload().downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message");
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| tracing::field::display(backtrace));
    let (thread, at) = (thread::current(), panic.location().map(tracing::field::display));
    tracing::error!(thread = thread.name(), at, backtrace, "panicked: {text}");
}

/// A message to the log thread.
#[derive(Debug)]
enum Next {
    Line(Vec<u8>),
    /// Answered when all earlier messages are written.
    Flush(SyncSender<()>),
}

/// Accepts lines without blocking.
#[derive(Clone, Debug)]
struct Lines {
    next: SyncSender<Next>,
    /// The number of dropped lines that were not reported yet.
    dropped: Arc<AtomicU64>,
    /// The bytes of the waiting lines.
    bytes: Arc<AtomicUsize>,
}

impl Lines {
    fn to(file: impl Write + Send + 'static) -> io::Result<Self> {
        let (next, lines) = sync_channel(WAITING);
        let ours = Lines { next, dropped: Arc::default(), bytes: Arc::default() };
        let (dropped, bytes) = (ours.dropped.clone(), ours.bytes.clone());
        thread::Builder::new().name("queue-log".to_owned()).spawn(move || write_lines(file, &lines, &dropped, &bytes))?;
        Ok(ours)
    }

    /// Waits until all earlier lines are written.
    fn wait_for_flush(&self, time: Duration) {
        let (written, flushed) = sync_channel(1);
        if self.next.try_send(Next::Flush(written)).is_ok() {
            let _ = flushed.recv_timeout(time);
        }
    }
}

/// A line that cannot be written is lost.
fn write_lines(mut file: impl Write, lines: &Receiver<Next>, dropped: &AtomicU64, bytes: &AtomicUsize) {
    for next in lines {
        match next {
            Next::Line(line) => {
                let dropped = dropped.swap(0, Ordering::Relaxed);
                if dropped > 0 {
                    let _ = writeln!(file, "{dropped} log lines were dropped: standard error was not read in time");
                }
                let _ = file.write_all(&line);
                bytes.fetch_sub(line.len(), Ordering::Relaxed);
            }
            Next::Flush(written) => {
                let _ = file.flush();
                let _ = written.try_send(());
            }
        }
    }
}

impl Write for Lines {
    /// Each event is one write.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let waiting = self.bytes.fetch_add(line.len(), Ordering::Relaxed);
        // A single line is never too long.
        if waiting > 0 && waiting + line.len() > WAITING_BYTES || self.next.try_send(Next::Line(line.to_vec())).is_err() {
            self.bytes.fetch_sub(line.len(), Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            DROPPED_LINES.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Lines;

    fn make_writer(&self) -> Lines {
        self.clone()
    }
}

/// The filter of `RUST_LOG`, or `info`.
fn filter() -> Result<EnvFilter, Failure> {
    const VARIABLE: &str = EnvFilter::DEFAULT_ENV;
    let wrong =
        |problem: String| Failure::new(Exit::Usage, format!("{VARIABLE}: {problem}; use a level as `info`, or `queue_worker=debug,info`"));
    // The application has its own log.
    if tracing::dispatcher::has_been_set() {
        return Ok(EnvFilter::default());
    }
    match std::env::var(VARIABLE) {
        Err(std::env::VarError::NotPresent) => Ok("info".into()),
        Err(error) => Err(wrong(error.to_string())),
        Ok(text) if text.trim().is_empty() => Err(wrong("is empty".to_owned())),
        Ok(text) => text.parse().map_err(|error| wrong(format!("`{text}`: {error}"))),
    }
}

/// The lines on standard error.
fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(lines: Lines, filter: EnvFilter) -> impl Layer<S> {
    let is_colored = is_colored(io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    fmt::layer().with_ansi(is_colored).with_writer(lines).with_target(false).with_filter(filter)
}

/// Whether lines are colored: on a terminal, unless `NO_COLOR` has a value.
fn is_colored(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn no_color_turns_colors_off() {
        let colored = [(true, None), (true, Some("")), (true, Some("1")), (false, None)]
            .map(|(is_terminal, no_color)| is_colored(is_terminal, no_color.map(OsStr::new)));
        assert_eq!(colored, [true, true, false, false]);
    }

    /// Writes a line only when it is allowed to.
    struct Slow(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // If the sender was dropped, all lines pass.
            let _ = self.0.recv();
            self.1.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn long_lines_that_nobody_reads_take_a_bounded_number_of_bytes() {
        let (read, reads) = sync_channel(1);
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let mut lines = Lines::to(Slow(reads, written.clone())).unwrap();
        let long = vec![b'#'; 1 << 20];
        for _ in 0..20 {
            lines.write_all(&long).unwrap();
        }
        assert_eq!(lines.bytes.load(Ordering::Relaxed), WAITING_BYTES);
        drop(read);
        lines.wait_for_flush(Duration::from_secs(30));
        let text = written.lock().unwrap();
        assert_eq!(text.iter().filter(|byte| **byte == b'#').count(), WAITING_BYTES);
    }

    #[test]
    fn lines_that_nobody_reads_are_dropped_and_counted_and_hold_nobody_up() {
        let (read, reads) = sync_channel(1);
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let mut lines = Lines::to(Slow(reads, written.clone())).unwrap();
        for _ in 0..WAITING + 1000 {
            lines.write_all(b"a line\n").unwrap();
        }
        drop(read);
        while lines.bytes.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        // The next line reports the dropped lines.
        lines.write_all(b"the end\n").unwrap();
        lines.wait_for_flush(Duration::from_secs(30));
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let dropped = text.lines().filter_map(|line| line.split_once(" log lines were dropped")?.0.parse::<usize>().ok()).sum::<usize>();
        // At most one line more than the buffer was being written.
        assert!((999..=1000).contains(&dropped), "{dropped}");
        assert_eq!(text.matches("a line\n").count(), WAITING + 1000 - dropped);
    }
}
