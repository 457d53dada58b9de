//! Decides what enters the trace of a live world, and when the world must drain it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use lockstorm_platform::time::Stamp;
use lockstorm_platform::trace::{Connection, Event, HostId, Leg, Request};

use crate::engine::tasks::Tasks;

/// After this many events the world is called, so that a caller may take them out.
const DRAIN_EVERY: usize = 2048;

/// See the head of this file.
pub(crate) struct Recorder {
    tasks: Rc<Tasks>,
    /// Whether many events were recorded since the last call of the world.
    pub(crate) is_full: Cell<bool>,
    /// Pending requests whose words were recorded.
    unanswered: RefCell<BTreeSet<Request>>,
    /// The connection of the request to which the last strike was anchored.
    pub(crate) waited_for: Cell<Option<Connection>>,
    /// Whether every client belongs to this world: then the progress of each request is recorded.
    keeps_all: bool,
}

impl Recorder {
    /// A recorder without records.
    pub(crate) fn new(tasks: Rc<Tasks>, keeps_all: bool) -> Recorder {
        let (is_full, waited_for) = (Cell::new(false), Cell::new(None));
        Recorder { tasks, is_full, unanswered: RefCell::default(), waited_for, keeps_all }
    }

    /// Records an event of a machine, or of the world itself, in the trace.
    pub(crate) fn record(&self, host: Option<HostId>, event: Event) -> Stamp {
        if !self.is_worth_keeping(&event) {
            let mut state = self.tasks.state();
            let readings = host.map(|host| state.readings(host)).unwrap_or_default();
            return Stamp::new(state.trace.next_instant(state.now), readings);
        }
        let request = match &event {
            Event::Message { request, .. } => Some(request.connection),
            _ => None,
        };
        let stamp = self.tasks.record(host, event);
        let state = self.tasks.state();
        // This record completed an anchor: a reply cut breaks the connection of this request.
        if request.is_some() && !state.strikes.is_empty() {
            self.waited_for.set(request);
        }
        if state.trace.entries().len().is_multiple_of(DRAIN_EVERY) {
            self.is_full.set(true);
            self.tasks.wake_driver();
        }
        stamp
    }

    /// The progress of a request is recorded only if an anchor waits for it or its words were
    /// recorded: most requests of a busy service are neither.
    fn is_worth_keeping(&self, event: &Event) -> bool {
        if self.keeps_all {
            return true;
        }
        let mut unanswered = self.unanswered.borrow_mut();
        match event {
            Event::Words { request, .. } => {
                unanswered.insert(*request);
            }
            Event::Ended { connection } => {
                let mut later = unanswered.split_off(&Request { connection: *connection, nth: 0 });
                later.retain(|request| request.connection != *connection);
                unanswered.append(&mut later);
            }
            Event::Message { request, leg, .. } => {
                let is_known = match leg {
                    Leg::Replied => unanswered.remove(request),
                    _ => unanswered.contains(request),
                };
                return is_known || !self.tasks.state().watches.is_empty();
            }
            _ => {}
        }
        true
    }
}
