//! The queue of a lock's waiters, as the nodes have it: which acquire joined it when, and when its
//! place was removed. A place belongs to the acquire that added the member. Its order is that of
//! joining.
//!
//! A waiter *stands* in the queue while its place is there. It also stands there if the acquire or
//! the release of another caller removed the place although the node had *just heard* of the
//! waiter: no longer ago than the fastest exchange of a request between the two takes. A queue may
//! skip a waiter that was silent for some time, but no time that a queue may wait is shorter than
//! that. A waiter whose place was removed by the command that handed the key to it had its turn.

use std::collections::BTreeMap;

use lockstorm_platform::time::{Instant, Nanos};
use lockstorm_platform::trace::Leg;

use crate::history::{Key, Op, OpId, OpKind, Outcome, Request};
use crate::reading::history::Reading;
use crate::reading::key_life::{KeyLife, LifeEnd};
use crate::reading::moment::Moment;

/// A place in the queue on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlace<'a> {
    /// The acquire that took it.
    pub waiter: &'a Op,
    /// The node.
    pub node: &'a str,
    /// Index of the change that added it.
    pub born: usize,
    /// When it was taken.
    pub from: Moment,
    /// Since when it has its position: a start brings a place back to where it was.
    pub joined: Moment,
    /// When it was removed: [`Moment::NEVER`] if it stayed to the end of the run.
    pub to: Moment,
    /// What removed it.
    pub ended: Option<LifeEnd>,
}

/// What becomes of the acquire to which a place belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits, or its outcome is unknown and not released yet, or its caller has the lock.
    Waits,
    /// Its process is halted.
    Halted,
    /// Its process died while it waited.
    Dead,
    /// It has returned, and its caller neither has the lock nor can have it.
    Over,
}

impl QueuePlace<'_> {
    /// Whether it is in the queue at a moment.
    pub fn is_there(&self, at: Moment) -> bool {
        self.from <= at && at < self.to
    }

    /// Whether its waiter stands in the queue, in its place or without it, when a change lets
    /// another in. What the command of that change removed was gone by then.
    pub fn stands(&self, reading: &Reading, entry: &Key) -> bool {
        let at = Moment::from(entry.at);
        let is_taken = || {
            let moments = [self.to, at];
            self.is_taken_away(reading) && moments.iter().all(|at| self.is_just_heard(reading, *at))
        };
        self.from <= at && (!self.is_gone(reading, entry) || is_taken())
    }

    /// Whether it was removed before a change, or by the command of that change.
    pub fn is_gone(&self, reading: &Reading, entry: &Key) -> bool {
        self.to <= entry.at.into() || self.is_removed_with(reading, entry)
    }

    /// Whether the command of a change removed it.
    fn is_removed_with(&self, reading: &Reading, change: &Key) -> bool {
        self.ended.is_some_and(|end| end.is_of_command(reading.history, change))
    }

    /// Whether the acquire or the release of another caller removed it from a waiter that still
    /// wants the lock, and did not hand it the key: one that is refused may have come to the end of
    /// its patience.
    fn is_taken_away(&self, reading: &Reading) -> bool {
        let wants = matches!(self.waiter.outcome, Outcome::Granted { .. } | Outcome::Pending);
        let by = self.ended.and_then(|end| reading.op(end.by?));
        let is_another = |by: &Op| reading.caller(by.id) != reading.caller(self.waiter.id);
        let removes = |by: &Op| matches!(by.kind, OpKind::Acquire | OpKind::Release { .. });
        let removed = by.is_some_and(|by| removes(by) && is_another(by));
        wants && removed && !self.is_handed_the_key(reading)
    }

    /// Whether the command that removed it made the lock's key, or a member of it, that of its
    /// waiter.
    fn is_handed_the_key(&self, reading: &Reading) -> bool {
        let (id, token) = (self.waiter.id, self.waiter.token());
        let is_named = |life: &KeyLife| reading.by_member && token == Some(life.name);
        let lives = reading.lives.lives.iter();
        let mut own = lives.filter(|life| life.by == Some(id) || is_named(life));
        own.any(|life| self.is_removed_with(reading, &reading.history.keys[life.born]))
    }

    /// Whether the node had just carried out a request of its waiter at a moment.
    fn is_just_heard(&self, reading: &Reading, at: Moment) -> bool {
        let Some(fastest) = self.fastest_exchange(reading) else { return false };
        let own = reading.requests_of(self.waiter.id).iter();
        let mut heard = own.filter(|request| request.to == self.node && !request.declined);
        heard.any(|request| {
            let heard = request.at(Leg::Applied);
            heard.is_some_and(|heard| at >= heard.into() && at.at - heard.at <= fastest)
        })
    }

    /// How long the fastest exchange of a request between its waiter's process and the node took.
    fn fastest_exchange(&self, reading: &Reading) -> Option<Nanos> {
        let between =
            |request: &&Request| request.from == *self.waiter.process && request.to == self.node;
        let took =
            |request: &Request| Some(request.at(Leg::Delivered)?.at - request.at(Leg::Sent)?.at);
        reading.history.requests.iter().filter(between).filter_map(took).min()
    }

    /// Its acquire's standing at a moment.
    pub fn standing(&self, reading: &Reading, at: Moment) -> Standing {
        let Op { id, process, call, .. } = self.waiter;
        let over = self.over(reading);
        let died = reading.death_after(process, Moment::from(*call)).map(|death| death.at);
        match died.filter(|died| *died <= at) {
            Some(died) if over.is_none_or(|over| died < over) => return Standing::Dead,
            _ if over.is_some_and(|over| over <= at) => return Standing::Over,
            _ => {}
        }
        let holds = reading.tenure(*id).is_some_and(|tenure| tenure.whole.start <= at);
        match !holds && reading.is_halted(process, at) {
            true => Standing::Halted,
            false => Standing::Waits,
        }
    }

    /// When its acquire had come to an end: its refusal, or the end of its hold, or the return of
    /// the release after an unknown outcome.
    pub fn over(&self, reading: &Reading) -> Option<Moment> {
        let ret = Moment::from(self.waiter.ret?);
        match self.waiter.outcome {
            Outcome::Granted { .. } => reading.tenure(self.waiter.id).map(|own| own.whole.end),
            Outcome::Unknown => {
                let mut releases = reading.ops_of(self.waiter.id);
                let release = releases.find(|op| matches!(op.kind, OpKind::Release { .. }));
                release.map_or(Some(ret), |release| release.ret.map(Moment::from))
            }
            _ => Some(ret),
        }
    }
}

/// Every place in the queue with that key, in order of joining.
pub fn places<'a>(reading: &Reading<'a>, queue: &str) -> Vec<QueuePlace<'a>> {
    let is_in = |life: &&KeyLife| reading.history.keys[life.born].of.as_deref() == Some(queue);
    let mut positions: BTreeMap<(&str, OpId), Moment> = BTreeMap::new();
    let place = |life: &KeyLife<'a>| {
        let waiter = reading.op(life.by?).filter(|op| op.kind == OpKind::Acquire)?;
        let (node, born, from, to) = (life.node, life.born, life.from, life.to);
        let position = positions.entry((node, waiter.id)).or_insert(from);
        if !is_brought_back(reading, life) {
            *position = from;
        }
        Some(QueuePlace { waiter, node, born, from, joined: *position, to, ended: life.ended })
    };
    let mut places: Vec<QueuePlace> =
        reading.places.iter().filter(is_in).filter_map(place).collect();
    places.sort_by_key(|place| place.joined);
    places
}

/// Whether a place exists again since its node was started.
fn is_brought_back(reading: &Reading, life: &KeyLife) -> bool {
    let mut deaths = reading.history.fault_intervals.iter().filter(|c| c.verb.kills());
    let is_start = |to: Instant| to.at == life.from.at;
    deaths.any(|death| death.strikes(life.node) && death.to.is_some_and(is_start))
}

/// The first place in the queue of a node at a moment.
pub fn head<'p, 'a>(
    places: &'p [QueuePlace<'a>],
    node: &str,
    at: Moment,
) -> Option<&'p QueuePlace<'a>> {
    places.iter().find(|place| place.node == node && place.is_there(at))
}
