//! One direction of a real connection while a fault disturbs its link: the waiting bytes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::HostId;
use tokio::time::Sleep;

use crate::engine::flow::{Flow, Way};
use crate::engine::tasks::Tasks;

/// See the head of this file.
pub(crate) struct Lane {
    /// An empty piece is the end of the stream.
    flow: Flow<Bytes>,
    /// Bytes that have arrived and are not consumed yet.
    pub(crate) front: Bytes,
    pub(crate) waiting: usize,
    alarm: Option<(Nanos, Pin<Box<Sleep>>)>,
    pub(crate) has_ended: bool,
}

impl Lane {
    /// A direction in which nothing has been sent yet.
    pub(crate) fn new(way: Way) -> Lane {
        let (flow, front) = (Flow::new(way), Bytes::new());
        Lane { flow, front, waiting: 0, alarm: None, has_ended: false }
    }

    /// Whether nothing waits in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.flow.is_empty() && self.front.is_empty() && !self.has_ended
    }

    /// Ready when `front` has bytes, or at the end of the stream.
    pub(crate) fn poll_front(
        &mut self,
        cx: &mut Context<'_>,
        tasks: &Tasks,
        way: (HostId, HostId),
    ) -> Poll<()> {
        loop {
            if !self.front.is_empty() || self.has_ended {
                return Poll::Ready(());
            }
            let Some(next) = self.flow.next_arrival() else { return Poll::Pending };
            // A message meets a cut link when it would arrive, as on the other engines.
            let now = tasks.state().now;
            if next > now {
                ready!(self.poll_alarm(cx, next, now));
                tasks.look_at_clock();
            } else if tasks.state().is_barred(way) {
                self.flow.hold(false);
            } else {
                self.front = self.flow.take().expect("something is due");
                self.has_ended = self.front.is_empty();
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "here the world's time is the real one")]
    fn poll_alarm(&mut self, cx: &mut Context<'_>, at: Nanos, now: Nanos) -> Poll<()> {
        if self.alarm.as_ref().is_none_or(|(set, _)| *set != at) {
            let wait = Duration::from_nanos(at - now);
            self.alarm = Some((at, Box::pin(tokio::time::sleep(wait))));
        }
        let (_, alarm) = self.alarm.as_mut().expect("it was just set");
        ready!(alarm.as_mut().poll(cx));
        self.alarm = None;
        Poll::Ready(())
    }

    /// Sends bytes; an empty piece is the end of the stream.
    pub(crate) fn send(&mut self, bytes: Bytes, tasks: &Tasks, way: (HostId, HostId)) {
        let mut state = tasks.state();
        self.waiting += bytes.len();
        let delay = state.delay(way, self.flow.ordinal(0, bytes.len(), false));
        let cut = state.is_cut(way);
        self.flow.send(bytes, state.now, delay, cut, false);
    }

    /// Removes bytes from the front.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.front.len(), "only bytes that have arrived are consumed");
        debug_assert!(self.front.len() <= self.waiting, "bytes that have arrived were sent");
        self.front.advance(count);
        self.waiting -= count;
    }

    /// Retries the messages that are held, if nothing blocks them any more.
    pub(crate) fn retry(&mut self, tasks: &Tasks, way: (HostId, HostId)) {
        let mut state = tasks.state();
        if self.flow.is_held() && !state.is_barred(way) && !self.flow.is_empty() {
            let latency = state.delay(way, self.flow.ordinal_again(0));
            self.flow.send_again(state.now, latency);
            // The arrival times have changed.
            self.alarm = None;
        }
    }
}
