//! How each event enters the hash of a trace: field by field.

use std::net::SocketAddrV4;

use crate::time::Nanos;
use crate::trace::{Connection, Event, HostId, Origin, Request, Trace};

impl Event {
    /// Whether it only explains other records: it has no number of its own and enters no hash.
    pub(crate) fn is_remark(&self) -> bool {
        let observed = matches!(self, Event::Saw { .. } | Event::Declined { .. });
        let meant = matches!(self, Event::Names { .. } | Event::Ordered { .. });
        let said = matches!(self, Event::Exchanged(..));
        let became = matches!(self, Event::Unreplicated | Event::Exited | Event::Tilted);
        let kept = matches!(self, Event::Dumped { .. } | Event::Continued { .. });
        let held = matches!(self, Event::Members { .. } | Event::Content { .. });
        observed || meant || said || became || kept || held
    }
}

impl Trace {
    /// Writes every field of every event behind a kind byte, 16 or higher. Ids of histories and
    /// places in files are left out, because they follow from other records.
    pub(crate) fn write_event(&mut self, at: Nanos, host: HostId, event: &Event) {
        let host = u32::from(host.0);
        match event {
            Event::Step { label } => self.write(at, 16, host, 0, label.as_bytes()),
            Event::Outcome { op, what } => self.write(at, 17, host, *op, what.as_bytes()),
            Event::Message { request, leg, command, op } => {
                let legs = (op.unwrap_or(u32::MAX) << 3) | *leg as u32;
                self.write(at, 18, host, legs, command.as_bytes());
                self.write_request(*request);
            }
            Event::Unreached { to, command, op } => {
                self.write(at, 25, host, *op, command.as_bytes());
                self.write_address(*to);
            }
            Event::Key { key, change, origin, until_ms } => {
                let what = *change as u32 | u32::from(key.db) << 8;
                self.write(at, 19, host, what, &key.name);
                self.buffer.extend_from_slice(&until_ms.unwrap_or(u64::MAX).to_le_bytes());
                self.write_origin(*origin);
            }
            Event::Propagated { offset, origin, .. } => {
                self.write(at, 20, host, 0, &offset.to_le_bytes());
                self.write_origin(*origin);
            }
            Event::Loaded { keys, resync, .. } => {
                let count = (keys.len() as u64).to_le_bytes();
                self.write(at, 21, host, u32::from(resync.is_some()), &count);
                if let Some(connection) = resync {
                    self.write_connection(*connection);
                }
                for key in keys {
                    self.write(at, 21, host, 2 | u32::from(key.db) << 8, &key.name);
                }
            }
            Event::Snapshot { connection } => {
                self.write(at, 26, host, 0, &[]);
                self.write_connection(*connection);
            }
            Event::Role { master } => {
                self.write(at, 22, host, u32::from(master.is_some()), &[]);
                if let Some(master) = master {
                    self.write_address(*master);
                }
            }
            Event::Fault { id, edge } => self.write(at, 23, host, *id, &[*edge as u8]),
            Event::Note { text } => self.write(at, 24, host, 0, text.as_bytes()),
            Event::Words { request, db, words, .. } => {
                self.write(at, 27, host, u32::from(*db), &words.concat());
                self.write_request(*request);
            }
            Event::Ended { connection } => {
                self.write(at, 28, host, 0, &[]);
                self.write_connection(*connection);
            }
            Event::Saw { .. }
            | Event::Declined { .. }
            | Event::Names { .. }
            | Event::Exchanged(..)
            | Event::Members { .. }
            | Event::Content { .. }
            | Event::Ordered { .. }
            | Event::Unreplicated
            | Event::Exited
            | Event::Tilted
            | Event::Dumped { .. }
            | Event::Continued { .. } => {}
        }
    }

    /// Fixed width, little-endian, length-prefixed: no address, no Debug text.
    pub(super) fn write(&mut self, at: Nanos, kind: u8, a: u32, b: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("a record is under 4 GiB");
        let mut head = [0_u8; 21];
        head[..8].copy_from_slice(&at.to_le_bytes());
        head[8] = kind;
        head[9..13].copy_from_slice(&a.to_le_bytes());
        head[13..17].copy_from_slice(&b.to_le_bytes());
        head[17..].copy_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(&head);
        self.buffer.extend_from_slice(payload);
    }

    fn write_origin(&mut self, origin: Origin) {
        match origin {
            Origin::Request(request) => self.write_request(request),
            Origin::Replication { offset, .. } => {
                self.buffer.extend_from_slice(&offset.to_le_bytes());
            }
            Origin::Node => self.buffer.push(0),
        }
    }

    fn write_request(&mut self, request: Request) {
        // In one piece: most events name a request.
        let mut bytes = [0; 16];
        bytes[..12].copy_from_slice(&connection_bytes(request.connection));
        bytes[12..].copy_from_slice(&request.nth.to_le_bytes());
        self.buffer.extend_from_slice(&bytes);
    }

    fn write_connection(&mut self, connection: Connection) {
        self.buffer.extend_from_slice(&connection_bytes(connection));
    }

    fn write_address(&mut self, address: SocketAddrV4) {
        self.buffer.extend_from_slice(&address_bytes(address));
    }
}

fn connection_bytes(connection: Connection) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..6].copy_from_slice(&address_bytes(connection.client));
    bytes[6..].copy_from_slice(&address_bytes(connection.server));
    bytes
}

fn address_bytes(address: SocketAddrV4) -> [u8; 6] {
    let ([a, b, c, d], [low, high]) = (address.ip().octets(), address.port().to_le_bytes());
    [a, b, c, d, low, high]
}
