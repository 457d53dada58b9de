//! The effects of faults on the network: closed links, broken and lost connections.

use std::io;

use lockstorm_platform::trace::HostId;

use crate::engine::event::connection::{CLIENT, ConnectionChange, SERVER, Side, TcpState};
use crate::engine::event::kernel::Kernel;
use crate::engine::event::queue::Due;

impl Kernel {
    /// See [`crate::engine::interface::Engine::block`].
    pub fn block(&mut self, from: HostId, to: HostId, blocked: bool) {
        if self.state.links.link(from, to).block(blocked) {
            self.retry_held(from, to);
        }
    }

    /// Retries held segments to and from a host that is up again.
    pub fn retry_all(&mut self, host: HostId) {
        for other in self.state.names.ids() {
            self.retry_held(host, other);
            self.retry_held(other, host);
        }
    }

    fn retry_held(&mut self, from: HostId, to: HostId) {
        // Another fault, or a machine that is down or suspended, may still close the way.
        if self.state.is_cut((from, to)) {
            return;
        }
        let count = u32::try_from(self.connections.pairs.len()).expect("under 2^32 connections");
        for connection in 0..count {
            for side in [CLIENT, SERVER] {
                let pair = &self.connections.pairs[connection as usize];
                let ends = (&pair.sides[usize::from(1 - side)], &pair.sides[usize::from(side)]);
                if ends.1.flow.is_held() && (ends.0.host, ends.1.host) == (from, to) {
                    self.send_again(connection, side, (from, to));
                }
            }
        }
    }

    fn send_again(&mut self, connection: u32, side: u8, hosts: (HostId, HostId)) {
        let tag = self.connections.pairs[connection as usize].tag;
        let ordinal = self.connections.side(connection, side).flow.ordinal_again(tag);
        let latency = self.state.delay(hosts, ordinal);
        let flow = &mut self.connections.side(connection, side).flow;
        for at in flow.send_again(self.state.now, latency) {
            self.schedule(at, Due::Arrival { connection, side });
        }
    }

    /// Resets every connection between two hosts at once, on both sides. Returns how many of them
    /// were alive.
    pub fn reset_between(&mut self, one: HostId, other: HostId) -> u64 {
        let mut alive = 0;
        for connection in 0..self.connections.pairs.len() {
            let pair = &mut self.connections.pairs[connection];
            let hosts = (pair.sides[0].host, pair.sides[1].host);
            if hosts != (one, other) && hosts != (other, one) {
                continue;
            }
            let lives = |side: &Side| !side.closed && !matches!(side.state, TcpState::Broken(_));
            alive += u64::from(pair.sides.iter().any(lives));
            for side in &mut pair.sides {
                side.flow.clear();
                side.drop_flight();
                // Bytes that are not read yet are lost too: the reader gets the error at once.
                if side.state != TcpState::Connecting {
                    side.drop_unread();
                }
                side.break_off(io::ErrorKind::ConnectionReset);
            }
            let connection = u32::try_from(connection).expect("under 2^32 connections");
            self.note_connection(connection, ConnectionChange::Reset);
        }
        alive
    }

    /// A machine loses power: its sides of all connections are lost silently. Its segments in
    /// flight continue, unless they need retransmission.
    pub fn forget_connections(&mut self, host: HostId) {
        for pair in &mut self.connections.pairs {
            for side in [usize::from(CLIENT), usize::from(SERVER)] {
                if pair.sides[side].host == host {
                    pair.sides[side].forgotten = true;
                    pair.sides[1 - side].flow.drop_held();
                    pair.sides[1 - side].drop_flight();
                }
            }
        }
    }
}
