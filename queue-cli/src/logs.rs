//! `jobs logs`: the log of a job, and new lines as they arrive.

use std::time::SystemTime;

use queue_core::{
    Client, Progress,
    inspect::{JobLog, LogLine},
};

use super::{
    args::Format,
    exit::{Failure, note},
    output::{plain, print, print_json, relative_time, utc},
};

pub(super) async fn logs(client: &Client, job: &str, follow: bool, format: &Format) -> Result<(), Failure> {
    let inspector = client.inspector();
    let job = inspector.find(job).await?;
    if !follow {
        let log = inspector.log(&job, 0).await?;
        if format.json {
            return Ok(print_json(&log)?);
        }
        return Ok(Printed::default().print(&log, false)?);
    }
    let (mut news, mut printed) = (inspector.follow(&job, 0), Printed::default());
    while let Some(log) = news.next().await? {
        if format.json {
            print(&serde_json::to_string(&log).map_err(std::io::Error::from)?)?;
        } else {
            printed.print(&log, true)?;
        }
    }
    Ok(())
}

/// The lines that were already printed.
#[derive(Default)]
struct Printed {
    attempt: u32,
    dropped: u64,
    progress: Option<Progress>,
    any: bool,
}

impl Printed {
    fn print(&mut self, log: &JobLog, follows: bool) -> std::io::Result<()> {
        let dropped = log.dropped.saturating_sub(self.dropped);
        if dropped > 0 {
            note(&format!(
                "{dropped} {} dropped: a log keeps its last 1,000 lines and 64 KiB",
                if dropped == 1 { "line was" } else { "lines were" }
            ));
        }
        self.dropped = log.dropped;
        for line in &log.lines {
            if line.attempt != self.attempt && (self.any || line.attempt > 1) {
                print(&format!("-- attempt {}", line.attempt))?;
            }
            self.attempt = line.attempt;
            self.any = true;
            print(&text(line))?;
        }
        if follows && log.progress != self.progress {
            self.progress.clone_from(&log.progress);
            if let Some(progress) = &self.progress {
                print(&format!("{} {}", utc(progress.at).unwrap_or_default(), describe_progress(progress)))?;
            }
        }
        if !follows && !self.any {
            note("its handler has logged nothing");
        }
        Ok(())
    }
}

fn text(line: &LogLine) -> String {
    let at = utc(line.at).unwrap_or_default();
    format!("{at} {:<5} {}", line.level.name(), plain(&line.text.replace('\n', " ")))
}

/// The progress as text.
pub(super) fn describe_progress(progress: &Progress) -> String {
    let parts = [
        progress.fraction.map(|fraction| format!("{:.0} %", (fraction * 100.0).floor())),
        Some(plain(&progress.message)).filter(|message| !message.is_empty()),
        progress.value_json().unwrap_or_else(|error| Some(format!("({error})"))).map(|value| plain(&value)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The same for `jobs show`.
pub(super) fn progress(progress: &Progress, now: SystemTime) -> String {
    format!("{}, {} (attempt {})", describe_progress(progress), relative_time(progress.at, now), progress.attempt)
}
