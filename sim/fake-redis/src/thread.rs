//! The thread of a live server. Other threads send it jobs, which it runs between two steps of the
//! world.

#![expect(clippy::disallowed_types, reason = "a test runs beside the server")]

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Builder as ThreadBuilder, JoinHandle};

use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use tokio::sync::{Notify, oneshot};

use crate::builder::Builder;
use crate::live::{Access, Live};

/// How long the world runs between two polls of a pending job.
const BEAT: Nanos = MILLISECOND;
/// How long it runs without a pending job; the bell ends that early.
const REST: Nanos = 3_600 * SECOND;

/// A job on the servers; returns whether it is done.
type Job = Box<dyn FnMut(&mut Live) -> bool + Send>;

/// The thread of the servers. Dropping it stops the servers and closes their sockets.
pub struct Thread {
    jobs: Option<Sender<Job>>,
    bell: Arc<Notify>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts servers on their own thread.
    ///
    /// # Errors
    /// If no thread or no port is available.
    pub async fn start(builder: Builder) -> io::Result<(Thread, Access)> {
        let (jobs, inbox) = channel();
        let (ready, started) = oneshot::channel();
        let drive = move || match Live::start(&builder) {
            Ok(live) => {
                let _ = ready.send(Ok(live.access.clone()));
                drive(live, &inbox);
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let handle = ThreadBuilder::new().name("fake-redis".to_owned()).spawn(drive)?;
        let access = started.await.expect("the server's thread says how it started")?;
        let bell = Arc::clone(&access.bell);
        Ok((Thread { jobs: Some(jobs), bell, handle: Some(handle) }, access))
    }

    /// Runs `act` on the servers.
    pub async fn call<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Live) -> T + Send + 'static,
    ) -> T {
        let mut act = Some(act);
        self.until(move |live| act.take().map(|act| act(live))).await
    }

    /// Polls `check` until it returns a value, or until the caller drops this future.
    ///
    /// # Panics
    /// If the server's thread has panicked.
    pub async fn until<T: Send + 'static>(
        &self,
        mut check: impl FnMut(&mut Live) -> Option<T> + Send + 'static,
    ) -> T {
        let (answer, answered) = oneshot::channel();
        let mut answer = Some(answer);
        let job = move |live: &mut Live| {
            // The caller has dropped its future: a job without a reader must not act any more.
            if answer.as_ref().is_none_or(oneshot::Sender::is_closed) {
                return true;
            }
            let Some(found) = check(live) else { return false };
            let _ = answer.take().map(|answer| answer.send(found));
            true
        };
        let jobs = self.jobs.as_ref().expect("the servers end with this value");
        let _ = jobs.send(Box::new(job));
        // The bell rings after the send, so that the world returns to a job that is already there.
        self.bell.notify_one();
        answered.await.expect("the thread of the fake server has panicked: its message is above")
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // The channel closes before the bell rings: the thread wakes, finds it closed and returns.
        drop(self.jobs.take());
        self.bell.notify_one();
        // A panic of the thread was already printed, and this drop may itself run during an
        // unwinding.
        let _ = self.handle.take().map(JoinHandle::join);
    }
}

/// Runs the servers until the sender of jobs is dropped.
fn drive(mut live: Live, inbox: &Receiver<Job>) {
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        loop {
            match inbox.try_recv() {
                Ok(job) => jobs.push(job),
                Err(TryRecvError::Empty) => break,
                // No caller waits for the jobs that are left: each borrows the dropped sender.
                Err(TryRecvError::Disconnected) => return,
            }
        }
        jobs.retain_mut(|job| !job(&mut live));
        live.run(if jobs.is_empty() { REST } else { BEAT });
    }
}
