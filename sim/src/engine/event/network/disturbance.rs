//! What faults do to the network: links close and open, connections break, machines forget.

use std::io;

use crate::engine::event::kernel::Kernel;
use crate::engine::event::network::{CLIENT, Payload, SERVER, State};
use crate::engine::event::queue::Due;
use crate::engine::links::{first_timeout, next_try};
use crate::time::Nanos;
use crate::trace::HostId;

impl Kernel {
    /// See [`crate::engine::Engine::block`].
    pub fn block(&mut self, from: HostId, to: HostId, blocked: bool) {
        let link = self.state.links.link(from, to);
        if blocked {
            link.blocked += 1;
            return;
        }
        link.blocked = link.blocked.saturating_sub(1);
        if link.blocked == 0 {
            self.retry_held(from, to);
        }
    }

    /// Lets held segments towards or from a host travel again, after it came back.
    pub fn retry_all(&mut self, host: HostId) {
        for other in self.state.names.ids() {
            self.retry_held(host, other);
            self.retry_held(other, host);
        }
    }

    fn retry_held(&mut self, from: HostId, to: HostId) {
        if self.state.is_cut((from, to)) {
            return;
        }
        let count = u32::try_from(self.network.pairs.len()).expect("under 2^32 connections");
        for connection in 0..count {
            for side in [CLIENT, SERVER] {
                let pair = &self.network.pairs[connection as usize];
                let ends = (&pair.sides[usize::from(1 - side)], &pair.sides[usize::from(side)]);
                if ends.1.held && (ends.0.host, ends.1.host) == (from, to) {
                    self.send_again(connection, side, (from, to));
                }
            }
        }
    }

    /// The sender's back-off decides when the first held segment is tried again.
    fn send_again(&mut self, connection: u32, side: u8, hosts: (HostId, HostId)) {
        let latency = self.latency(connection, side, hosts, false);
        let now = self.state.now;
        let end = self.network.side(connection, side);
        end.held = false;
        let first = end.under_way.front().expect("a held direction has a segment");
        let timeout = first_timeout(matches!(first.payload, Payload::Syn));
        let again = next_try(first.sent_at, now, timeout).saturating_add(latency);
        for segment in &mut end.under_way {
            segment.arrive_at = segment.arrive_at.max(again);
        }
        end.last_arrival = end.last_arrival.max(again);
        let arrivals: Vec<Nanos> = end.under_way.iter().map(|segment| segment.arrive_at).collect();
        for at in arrivals {
            self.queue.push(at, Due::Arrival { connection, side });
        }
    }

    /// Resets every connection between two hosts at once, on both sides.
    pub fn reset_between(&mut self, one: HostId, other: HostId) {
        for connection in 0..self.network.pairs.len() {
            let pair = &mut self.network.pairs[connection];
            let hosts = (pair.sides[0].host, pair.sides[1].host);
            if hosts != (one, other) && hosts != (other, one) {
                continue;
            }
            for side in &mut pair.sides {
                side.under_way.clear();
                side.held = false;
                if side.state != State::Connecting {
                    side.inbox.clear();
                    side.read = 0;
                }
                side.break_off(io::ErrorKind::ConnectionReset);
            }
            self.note_connection(u32::try_from(connection).expect("under 2^32 connections"), 2);
        }
    }

    /// A machine loses power: its sides of all connections are forgotten, silently.
    pub fn forget_connections(&mut self, host: HostId) {
        let sides = self.network.pairs.iter_mut().flat_map(|pair| &mut pair.sides);
        for side in sides.filter(|side| side.host == host) {
            side.forgotten = true;
        }
    }
}
