//! The requests sent to a server on each connection. They join what the tap reports about a
//! connection to the request that caused it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::Request;
use lockstorm_redis::signal::Signal;

/// The maximum time that a reply waits for the tap's report of its request.
const PATIENCE: Nanos = 50 * MILLISECOND;

/// The requests of every connection to one server, by the client address of the connection.
#[derive(Default)]
pub struct PendingRequests {
    lines: RefCell<BTreeMap<SocketAddrV4, PendingConnection>>,
    reported: Signal,
    /// The number of gaps: events that the server may not have reported.
    unmatched: Cell<u32>,
}

#[derive(Default)]
struct PendingConnection {
    /// Requests that were not reported yet, with their commands.
    waiting: VecDeque<(Request, String)>,
    /// The number that follows that of the last reported request.
    past: u32,
}

impl PendingRequests {
    /// Adds a request that is about to be sent to the server.
    pub fn sent(&self, by: SocketAddrV4, request: Request, command: String) {
        let mut lines = self.lines.borrow_mut();
        lines.entry(by).or_default().waiting.push_back((request, command));
    }

    /// The request of a command that the server has reported. Earlier pending requests were refused
    /// without being executed.
    pub fn reported(&self, by: SocketAddrV4, command: &str) -> Option<Request> {
        let mut lines = self.lines.borrow_mut();
        let line = lines.get_mut(&by)?;
        let place = line.waiting.iter().position(|(_, known)| known == command)?;
        let (request, _) = line.waiting.drain(..=place).next_back()?;
        line.past = request.nth + 1;
        Some(request)
    }

    /// Signals that all reports so far are in the trace.
    pub fn settle(&self) {
        self.reported.raise();
    }

    /// Waits until the effects of a request, whose reply has come, are in the trace.
    pub async fn until_reported(&self, host: &Host, by: SocketAddrV4, request: Request) {
        let is_reported =
            || self.lines.borrow().get(&by).is_some_and(|line| line.past > request.nth);
        let wait = async {
            while !is_reported() {
                self.reported.past(self.reported.count()).await;
            }
        };
        if host.timeout(PATIENCE, wait).await.is_none() {
            self.miss();
        }
    }

    /// Counts a gap: something may have happened that no report covers.
    pub fn miss(&self) {
        self.unmatched.set(self.unmatched.get() + 1);
    }

    /// Removes a closed connection.
    pub fn forget(&self, by: SocketAddrV4) {
        // Pending requests stay: the server may execute and report them after the connection is
        // closed.
        let mut lines = self.lines.borrow_mut();
        if lines.get(&by).is_some_and(|line| line.waiting.is_empty()) {
            lines.remove(&by);
        }
    }

    /// The number of gaps in the evidence.
    pub fn unmatched(&self) -> u32 {
        self.unmatched.get()
    }
}

#[cfg(test)]
mod tests {
    use super::PendingRequests;
    use lockstorm_platform::trace::{Connection, Request};

    #[test]
    fn a_command_finds_its_request_past_those_that_were_refused() {
        let (client, server) = ("127.1.1.1:1".parse().unwrap(), "127.1.0.1:2".parse().unwrap());
        let connection = Connection { client, server };
        let pending = PendingRequests::default();
        for (nth, command) in [(0, "SET"), (1, "GET"), (2, "SET")] {
            pending.sent(client, Request { connection, nth }, command.to_owned());
        }
        let reported = |by, command| pending.reported(by, command).map(|request| request.nth);
        assert_eq!(reported(server, "GET"), None);
        assert_eq!(reported(client, "GET"), Some(1));
        assert_eq!(reported(client, "DEL"), None);
        assert_eq!(reported(client, "SET"), Some(2));
        assert_eq!(reported(client, "SET"), None);
    }
}
