//! Threads for blocking tasks, separate from those of the runtime. Handlers use the threads of the
//! runtime for files and `spawn_blocking`, and blocking handlers that occupied all of them would
//! deadlock. There is one thread per running blocking job, at most one per slot of the worker.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, ThreadId},
    time::Duration,
};

use tokio::sync::oneshot;

/// How long a thread waits for the next job before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

/// The idle threads, in the order in which they became idle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads(Arc<Mutex<Vec<Idle>>>);

#[derive(Debug)]
struct Idle {
    thread: ThreadId,
    next: mpsc::Sender<Work>,
}

impl Threads {
    /// Runs the work at once on a thread that no other work uses.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<oneshot::Receiver<T>> {
        let (ended, end) = oneshot::channel();
        let mut work: Work = Box::new(move || drop(ended.send(work())));
        loop {
            let Some(idle) = self.idle().pop() else { break };
            match idle.next.send(work) {
                Ok(()) => return Ok(end),
                // The thread has just ended.
                Err(mpsc::SendError(unsent)) => work = unsent,
            }
        }
        let threads = self.clone();
        thread::Builder::new().name("queue-blocking".to_owned()).spawn(move || threads.serve(work))?;
        Ok(end)
    }

    fn serve(&self, mut work: Work) {
        let (next, works) = mpsc::channel();
        let thread = thread::current().id();
        loop {
            work();
            self.idle().push(Idle { thread, next: next.clone() });
            let Some(next) = works.recv_timeout(IDLE).ok().or_else(|| self.last_work(thread, &works)) else { return };
            work = next;
        }
    }

    /// The work of a thread that is about to end. It has work if it is no longer in the list of
    /// idle threads.
    fn last_work(&self, thread: ThreadId, works: &mpsc::Receiver<Work>) -> Option<Work> {
        let mut idle = self.idle();
        match idle.iter().position(|idle| idle.thread == thread) {
            Some(at) => {
                idle.remove(at);
                None
            }
            None => {
                drop(idle);
                works.recv().ok()
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_has_nothing_to_do_takes_the_next_job() {
        let threads = Threads::default();
        let thread = async || threads.run(|| thread::current().id()).unwrap().await.unwrap();
        let first = thread().await;
        while threads.idle().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(thread().await, first);
        assert_ne!(first, thread::current().id());
    }

    #[test]
    fn a_thread_that_is_chosen_when_it_wants_to_end_waits_for_its_work() {
        let threads = Threads::default();
        let (thread, (next, works)) = (thread::current().id(), mpsc::channel());
        threads.idle().push(Idle { thread, next: next.clone() });
        assert!(threads.last_work(thread, &works).is_none() && threads.idle().is_empty(), "nobody has chosen it");
        threads.idle().push(Idle { thread, next });
        let chosen = threads.idle().pop().unwrap();
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            chosen.next.send(Box::new(|| ())).unwrap();
        });
        assert!(threads.last_work(thread, &works).is_some());
        late.join().unwrap();
    }

    #[tokio::test]
    async fn jobs_that_wait_for_each_other_all_get_a_thread() {
        let threads = Threads::default();
        let meet = Arc::new(std::sync::Barrier::new(8));
        let ends: Vec<_> = (0..8)
            .map(|_| {
                let meet = meet.clone();
                threads
                    .run(move || {
                        meet.wait();
                    })
                    .unwrap()
            })
            .collect();
        for end in ends {
            end.await.unwrap();
        }
    }
}
