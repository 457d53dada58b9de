//! The thread that a live server runs on, and how others talk to it: by work that it does between
//! two moments of the world.

#![expect(clippy::disallowed_types, reason = "a test runs beside the server")]

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Builder as ThreadBuilder, JoinHandle};

use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use tokio::sync::{Notify, oneshot};

use crate::builder::Builder;
use crate::live::{Access, Live};

/// How long the world runs between two looks at what somebody waits for.
const BEAT: Nanos = MILLISECOND;
/// How long it runs while nobody waits: the bell ends that.
const REST: Nanos = 3_600 * SECOND;

/// Work on the servers: whether it is done.
type Job = Box<dyn FnMut(&mut Live) -> bool + Send>;

/// See the head of this file. Dropping it ends the servers and closes their sockets.
pub struct Thread {
    jobs: Option<Sender<Job>>,
    bell: Arc<Notify>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts servers on a thread of their own.
    ///
    /// # Errors
    /// If the system gives no thread or no port.
    pub async fn start(builder: Builder) -> io::Result<(Thread, Access)> {
        let (jobs, inbox) = channel();
        let (told, started) = oneshot::channel();
        let drive = move || match Live::start(&builder) {
            Ok(live) => {
                let _ = told.send(Ok(live.access.clone()));
                drive(live, &inbox);
            }
            Err(error) => drop(told.send(Err(error))),
        };
        let handle = ThreadBuilder::new().name("fake-redis".to_owned()).spawn(drive)?;
        let access = started.await.expect("the server's thread says how it started")?;
        let bell = Arc::clone(&access.bell);
        Ok((Thread { jobs: Some(jobs), bell, handle: Some(handle) }, access))
    }

    /// Does something to the servers.
    pub async fn call<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Live) -> T + Send + 'static,
    ) -> T {
        let mut act = Some(act);
        self.until(move |live| act.take().map(|act| act(live))).await
    }

    /// Asks until there is an answer. Who no longer waits for it ends that.
    ///
    /// # Panics
    /// If the server's thread has panicked.
    pub async fn until<T: Send + 'static>(
        &self,
        mut ask: impl FnMut(&mut Live) -> Option<T> + Send + 'static,
    ) -> T {
        let (answer, answered) = oneshot::channel();
        let mut answer = Some(answer);
        let job = move |live: &mut Live| {
            if answer.as_ref().is_none_or(oneshot::Sender::is_closed) {
                return true;
            }
            let Some(found) = ask(live) else { return false };
            let _ = answer.take().map(|answer| answer.send(found));
            true
        };
        let jobs = self.jobs.as_ref().expect("the servers end with this value");
        let _ = jobs.send(Box::new(job));
        self.bell.notify_one();
        answered.await.expect("the thread of the fake server has panicked: its message is above")
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        self.bell.notify_one();
        // A panic of the thread has been printed, and this may be another's unwinding.
        let _ = self.handle.take().map(JoinHandle::join);
    }
}

/// Runs servers until nobody can ask for anything any more.
fn drive(mut live: Live, inbox: &Receiver<Job>) {
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        loop {
            match inbox.try_recv() {
                Ok(job) => jobs.push(job),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        jobs.retain_mut(|job| !job(&mut live));
        live.run(if jobs.is_empty() { REST } else { BEAT });
    }
}
