//! Waiting for the ends of child processes and threads.

use std::{
    io::{self, BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Late, wait};

/// Runs a program to its end, as [`Command::output`] does, and kills it when that takes too long.
///
/// # Errors
/// When the program cannot be started.
///
/// # Panics
/// When it does not end in time: with the verdict, which looks at what it has printed.
#[track_caller]
pub fn output(command: &mut Command) -> io::Result<Output> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    Ok(finished(child))
}

/// Waits for the end of a child and of its output, as [`Child::wait_with_output`] does, and kills
/// it when that takes too long.
///
/// # Panics
/// When it does not end in time: with the verdict, which looks at what it has printed.
#[track_caller]
pub fn finished(mut child: Child) -> Output {
    drop(child.stdin.take());
    let (printed, complained) = (Heard::of(child.stdout.take()), Heard::of(child.stderr.take()));
    let seen = || format!("{}{}", lossy(&printed.so_far()), lossy(&complained.so_far()));
    let waiting = wait(format!("process {} to end", child.id())).every(Duration::from_millis(2)).seeing(seen);
    // A process that it has started may still print.
    let ended = waiting.try_block_some(|| {
        let status = child.try_wait().expect("a child of ours can be asked for")?;
        (printed.is_over() && complained.is_over()).then_some(status)
    });
    match ended {
        Ok(status) => Output { status, stdout: printed.so_far(), stderr: complained.so_far() },
        Err(late) => killed(&mut child, &late),
    }
}

/// Waits for the end of a child, and kills it when that takes too long.
///
/// # Panics
/// When it does not end in time: with the verdict.
#[track_caller]
pub fn exit(child: &mut Child) -> ExitStatus {
    let waiting = wait(format!("process {} to end", child.id()));
    let ended = waiting.try_block_some(|| child.try_wait().expect("a child of ours can be asked for"));
    ended.unwrap_or_else(|late| killed(child, &late))
}

fn killed(child: &mut Child, late: &Late) -> ! {
    let _ = child.kill();
    let _ = child.wait();
    panic!("{late}");
}

/// Waits for the end of a thread, and gives what it returned.
///
/// # Panics
/// When it does not end in time, or has panicked.
#[track_caller]
pub fn joined<T>(thread: JoinHandle<T>) -> T {
    wait("a thread to end").block_until(|| thread.is_finished());
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The lines that a program prints, such as the address on which it listens.
#[derive(Debug)]
pub struct Lines(mpsc::Receiver<String>);

impl Lines {
    /// Reads them from now on.
    pub fn of(pipe: impl Read + Send + 'static) -> Lines {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || BufReader::new(pipe).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Lines(lines)
    }

    /// The next one, without its end.
    ///
    /// # Panics
    /// When none comes in time.
    #[track_caller]
    pub fn next(&self) -> String {
        let line = wait("a line that a program prints").block_some(|| match self.0.try_recv() {
            Err(mpsc::TryRecvError::Empty) => None,
            line => Some(line.ok()),
        });
        line.expect("the program has not closed its output")
    }
}

/// What comes out of a pipe.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Heard {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Heard {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let read = bytes.clone();
        let reader = pipe.map(|mut pipe| {
            thread::spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(size @ 1..) = pipe.read(&mut buffer) {
                    read.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..size]);
                }
            })
        });
        Heard { bytes, reader }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_over(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gives_what_it_has_printed_and_how_it_ended() {
        let output = output(Command::new("sh").args(["-c", "head -c 300000 /dev/zero; echo late >&2; exit 3"])).unwrap();
        assert_eq!((output.status.code(), output.stdout.len(), &output.stderr[..]), (Some(3), 300_000, &b"late\n"[..]));
        assert!(super::output(&mut Command::new("/no/such/program")).is_err());
        let mut child = Command::new("sh").args(["-c", "exit 4"]).spawn().unwrap();
        assert_eq!(exit(&mut child).code(), Some(4));
        assert_eq!(joined(thread::spawn(|| 5)), 5);
        let mut child = Command::new("sh").args(["-c", "echo one; echo two"]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        assert_eq!((lines.next(), lines.next()), ("one".to_owned(), "two".to_owned()));
        exit(&mut child);
    }
}
