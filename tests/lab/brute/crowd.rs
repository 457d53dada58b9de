//! Small random histories of a queue in which few acquires join, ask, are thrown out and pass each
//! other, all within a few milliseconds.

use lockstorm::check::terms::Terms;
use lockstorm::history::{FaultInterval, History, Key, Legs, Op, OpKind, Outcome, Request};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Instant, MILLISECOND, Readings, Stamp};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::brute::random::{self, Dice};

const CALLERS: [&str; 4] = ["c1", "c2", "c2/b", "c3"];
const LEGS: [Leg; 4] = [Leg::Sent, Leg::Applied, Leg::Replied, Leg::Delivered];

struct Crowd {
    dice: Dice,
    history: History,
    now: Instant,
}

/// A history with one acquire of each caller, and its terms.
pub fn crowd(seed: u64) -> (History, Terms) {
    let (dice, history) = (Dice(seed ^ 0x4352_4f57), History::default());
    let mut crowd = Crowd { dice, history, now: Instant { seq: 0, at: 0 } };
    for (id, caller) in (0..).zip(CALLERS) {
        let call = crowd.stamp();
        let (process, object) = (caller[..2].to_owned(), "lock".to_owned());
        let (caller, kind, outcome) = (caller.to_owned(), OpKind::Acquire, Outcome::Pending);
        let (ret, tried_with, shared, keys) = (None, None, false, Vec::new());
        let op =
            Op { id, process, caller, object, call, ret, kind, outcome, tried_with, shared, keys };
        crowd.history.ops.push(op);
    }
    for _ in 0..24 + crowd.dice.below(16) {
        crowd.step();
    }
    crowd.history.end = crowd.tick();
    crowd.history.requests.sort_by_key(|request| request.legs[0].1);
    let terms = random::terms(&mut crowd.dice);
    (crowd.history, Terms { holders: 1, queue: Some("queue".to_owned()), ..terms })
}

impl Crowd {
    fn tick(&mut self) -> Instant {
        self.now.seq += 1;
        self.now.at += self.dice.below(3) * MILLISECOND;
        self.now
    }

    fn stamp(&mut self) -> Stamp {
        Stamp::new(self.tick(), Readings::default())
    }

    fn step(&mut self) {
        let id = self.dice.below(CALLERS.len() as u64) as u32;
        match self.dice.below(16) {
            0..=2 => self.place(id, id, KeyChange::Set),
            3..=4 => {
                let whose = self.dice.below(CALLERS.len() as u64) as u32;
                self.place(id, whose, KeyChange::Deleted);
            }
            5..=6 => self.change(id, ("lock", None), KeyChange::Set),
            7 => self.halt(id),
            8 => self.returns(id),
            9 => self.throws_out(id),
            10..=11 => self.hands_on(id),
            _ => self.request(id),
        }
    }

    /// An acquire asks; soon another removes its place and takes the lock.
    fn throws_out(&mut self, id: u32) {
        self.request(id);
        let by = self.dice.below(CALLERS.len() as u64) as u32;
        self.place(by, id, KeyChange::Deleted);
        self.change(by, ("lock", None), KeyChange::Set);
    }

    /// A command of a release, or of an acquire that asks, removes a place or two and sets the key.
    fn hands_on(&mut self, id: u32) {
        let by = if self.dice.one_in(4) { id } else { self.release(id) };
        let whose = [(); 2].map(|()| self.dice.below(CALLERS.len() as u64) as u32);
        self.place(whose[0], whose[0], KeyChange::Set);
        self.request(whose[0]);
        self.place(whose[1], whose[1], KeyChange::Set);
        let first = self.history.keys.len();
        let removed = if self.dice.one_in(2) { &whose[..1] } else { &whose[..] };
        let is_first = self.dice.one_in(2);
        if is_first {
            self.change(by, ("lock", None), KeyChange::Set);
        }
        removed.iter().for_each(|whose| self.place(by, *whose, KeyChange::Deleted));
        if !is_first {
            self.change(by, ("lock", None), KeyChange::Set);
        }
        // All that a command does happens at one time.
        let at = self.history.keys[first].at.at;
        self.history.keys[first..].iter_mut().for_each(|key| key.at.at = at);
        self.now.at = at;
    }

    /// The release of an acquire is called.
    fn release(&mut self, grant: u32) -> u32 {
        let (call, own) = (self.stamp(), self.history.ops[grant as usize].clone());
        let id = self.history.ops.len() as u32;
        let kind = OpKind::Release { grant };
        self.history.ops.push(Op { id, call, ret: None, kind, outcome: Outcome::Pending, ..own });
        id
    }

    /// An acquire joins the queue, or removes a place from it.
    fn place(&mut self, by: u32, whose: u32, change: KeyChange) {
        self.change(by, (CALLERS[whose as usize], Some("queue".to_owned())), change);
    }

    fn change(&mut self, by: u32, (key, of): (&str, Option<String>), change: KeyChange) {
        let (at, node, key) = (self.tick(), "n1".into(), key.into());
        let (until_ms, unacknowledged) = (None, false);
        let by = Some(by);
        self.history.keys.push(Key { node, key, of, at, change, until_ms, by, unacknowledged });
    }

    fn halt(&mut self, id: u32) {
        let from = self.tick();
        let lasts = Instant { at: from.at + self.dice.below(6) * MILLISECOND, ..from };
        let to = (!self.dice.one_in(4)).then_some(lasts);
        let verb = self.dice.pick(&[Verb::Pause, Verb::Suspend, Verb::Suspend, Verb::Crash]);
        let target = Target::Host(CALLERS[id as usize][..2].to_owned());
        let (fault, met, done) = (0, None, Vec::new());
        let interval = FaultInterval { fault, verb, target, from, to, met, done };
        self.history.fault_intervals.push(interval);
    }

    fn returns(&mut self, id: u32) {
        let granted = Outcome::Granted { token: id.to_string(), fence: None, deadline: None };
        let refused = Outcome::Refused { why: String::new() };
        let outcome = self.dice.pick(&[granted.clone(), granted, refused, Outcome::Unknown]);
        let ret = Some(self.stamp());
        let op = &mut self.history.ops[id as usize];
        if op.ret.is_none() {
            (op.ret, op.outcome) = (ret, outcome);
        }
    }

    /// Most requests are answered at once.
    fn request(&mut self, op: u32) {
        let reached = if self.dice.one_in(3) { 1 + self.dice.below(4) as usize } else { 4 };
        let mut legs = Legs::new();
        for leg in &LEGS[..reached] {
            // The way there takes most of the time, so that some things happen soon after it.
            self.now.at += if *leg == Leg::Applied { 4 * MILLISECOND } else { 0 };
            legs.push((*leg, self.tick()));
        }
        if self.dice.one_in(8) {
            legs = [(Leg::Unsent, legs[0].1)].into_iter().collect();
        }
        let from = CALLERS[op as usize][..2].into();
        let to = if self.dice.one_in(8) { "n2" } else { "n1" }.into();
        let (command, declined, answer) = ("EVAL".into(), self.dice.one_in(8), None);
        let other_keys = false;
        let request = Request { op, from, to, command, legs, declined, answer, other_keys };
        self.history.requests.push(request);
    }
}
