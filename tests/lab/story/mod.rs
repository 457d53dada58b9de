//! Hand-written histories: a TOML file with terms, the expected judgement, and a story with one
//! line per event. Times are milliseconds; events of one millisecond happen in the order of lines.
//!
//! ```text
//! op 0 c1 0..10 acquire granted until=mono:10000 fence=7      call..return; `5..` never returned; token=a
//! op 1 c1 20..22 write(0,1) accepted                          read(G) write(G,V) append(G)
//! op 2 c1 30..31 release(0) released                          extend(G) lost(G); G may be `-`
//! op 3 c1 20..22 read(0) value=1 segment=2                    of a resource in segments
//! access 21 op=1 accepted                                     what the resource saw
//! key 5 n1 set by=0 until=10000                               until: wall ms after the epoch
//! request op=0 c1->n1 SET sent=1 applied=5 delivered=9        `declined`, or `declined=LOADING`
//! fault 0 pause c1 100..200                                   an instant: `fault 0 crash c1 100`
//! breach 40 c1 no-panic op=1                                  a line of the contract of locks
//! fault 1 delay=250 c1,c2<->n1 100..200                       figure; links: hosts and commas
//! leads 0 n1                                                  or `follows 0 n2 n1`
//! clock 100 c1 wall 5000 ppm=-20                              reads 5000 ms from 100 ms on
//! healed 1000
//! end 5000
//! ```

use std::collections::BTreeMap;

use lockstorm::check::judge::judge;
use lockstorm::check::terms::{Invariant, Terms};
use lockstorm::explain::finding::Finding;
use lockstorm::history::{
    Access, AccessKind, ClockPiece, ContractBreach, FaultInterval, History, Key, Legs, Op, OpKind,
    Outcome, Request, Seen, Sighting, segment,
};
use lockstorm::ledger::site::Site;
use lockstorm::plan::TopologyKind;
use lockstorm::plan::base_plan::base_plan;
use lockstorm::promise::{Assumption, Bounded, Model, Promise};
use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::fault::{Target, Verb, verbs};
use lockstorm_platform::time::{
    Clock, EPOCH, Instant, Line, MILLISECOND, Nanos, Readings, SECOND, Stamp,
};
use lockstorm_platform::trace::{KeyChange, Leg};
use serde::Deserialize;

/// A history file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Story {
    /// The exact kinds that must be found; empty: it holds.
    #[serde(default)]
    pub expect: Vec<String>,
    /// Part of the expected reason if the verdict is unknown.
    pub unknown: Option<String>,
    /// The expected breaches in the ledger, in order: the name of an assumption, its figure (ms or
    /// a count) and the faults, as `client-pause 2000 1 2`.
    pub broken: Option<Vec<String>>,
    /// The operations of each violation, in order.
    pub ops: Option<Vec<Vec<u32>>>,
    /// The cause of each corruption, in order.
    pub cause: Option<Vec<String>>,
    /// What ends the turn of each grant if there is no legal order: `0 released by 4`.
    pub turns: Option<Vec<String>>,
    /// How late each loss was reported, ms.
    pub late: Option<Vec<u64>>,
    /// The nearest miss, ms.
    pub nearest_miss: Option<i64>,
    /// The longest time without the lock, ms, and its reason: `8000 dead-holder`.
    pub unavailable: Option<String>,
    /// Contended acquires.
    pub contended: Option<u32>,
    /// Faults that struck in a hold.
    pub struck_in_hold: Option<u32>,
    /// Part of the sentence about its mechanism. The sentences of its story are checked as well.
    pub how: Option<String>,
    /// Parts of sentences of its story.
    #[serde(default)]
    pub says: Vec<String>,
    /// Words that no sentence of its story has.
    #[serde(default)]
    pub never: Vec<String>,
    #[serde(default)]
    terms: StoryTerms,
    story: String,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StoryTerms {
    holders: u32,
    reports_loss: bool,
    model: Model,
    quorum: u32,
    ttl: u64,
    longest_ttl: u64,
    kept: u64,
    invariant: Invariant,
    contends: bool,
    faults: Vec<u32>,
    nodes: Vec<String>,
    sentinels: Vec<String>,
    /// The maximum time of a message, in milliseconds.
    message: u64,
    reenters: bool,
    /// If absent: the number of nodes of which the quorum is the smallest majority.
    queried: Option<u32>,
    /// Milliseconds or counts, by the name of the bounded quantity.
    assumes: BTreeMap<String, u64>,
    grants_without_faults: Option<u32>,
    is_drawn: bool,
    queue: Option<String>,
    fences: bool,
    /// The keys of a group, or of segments: `a,b`.
    keys: String,
    /// The items of each segment.
    segments: Vec<i64>,
}

impl Default for StoryTerms {
    fn default() -> StoryTerms {
        StoryTerms {
            holders: 1,
            reports_loss: false,
            model: Model::None,
            quorum: 1,
            ttl: 10_000,
            longest_ttl: 10_000,
            kept: 0,
            invariant: Invariant::None,
            contends: false,
            faults: Vec::new(),
            nodes: (1..=5).map(|n| format!("n{n}")).collect(),
            sentinels: Vec::new(),
            message: 0,
            reenters: false,
            queried: None,
            assumes: BTreeMap::new(),
            grants_without_faults: None,
            is_drawn: false,
            queue: None,
            fences: false,
            keys: String::new(),
            segments: Vec::new(),
        }
    }
}

impl Story {
    /// The terms by which the history is judged.
    pub fn terms(&self) -> Terms {
        let terms = &self.terms;
        Terms {
            lock_key: "lock".to_owned(),
            holders: terms.holders,
            reports_loss: terms.reports_loss,
            model: terms.model,
            ttl: Some(terms.ttl * MILLISECOND),
            longest_ttl: terms.longest_ttl * MILLISECOND,
            kept: terms.kept * MILLISECOND,
            invariant: terms.invariant,
            contends: terms.contends,
            faults: terms.faults.clone(),
            reenters: terms.reenters,
            site: Site {
                nodes: terms.nodes.clone(),
                sentinels: terms.sentinels.clone(),
                quorum: terms.quorum,
                queried: terms.queried.unwrap_or(2 * terms.quorum - 1),
                message: terms.message * MILLISECOND,
                works: 0,
                misuses: false,
                assumes: terms.assumes.iter().map(assumption).collect(),
            },
            grants_without_faults: terms.grants_without_faults,
            is_drawn: terms.is_drawn,
            queue: terms.queue.clone(),
            fences: terms.fences,
            keys: names(&terms.keys),
            segments: terms.segments.clone(),
        }
    }

    /// The judged history as a finding, as if a lock with a lease had run.
    pub fn finding(&self, name: &str) -> Finding {
        let (history, terms) = (self.history(), self.terms());
        let kind = match terms.site.queried {
            0 | 1 if history.sightings.is_empty() => TopologyKind::Single,
            0 | 1 => TopologyKind::Replicated,
            _ => TopologyKind::Independent,
        };
        let mut plan = base_plan("token-lua", kind);
        plan.name = name.to_owned();
        plan.lock.key.clone_from(&terms.lock_key);
        plan.workload.reenter = terms.reenters;
        Finding {
            scenario: name.to_owned(),
            file: String::new(),
            ask: String::new(),
            note: String::new(),
            seed: 1,
            strategy: String::new(),
            is_shrunk: false,
            plan,
            plan_hash: String::new(),
            trace_hash: String::new(),
            records: 0,
            engine: String::new(),
            judgement: judge(&history, &terms),
            promise: Promise {
                holders: terms.holders,
                unguarded: false,
                reports_loss: terms.reports_loss,
                model: terms.model,
                assumes: terms.site.assumes.clone(),
                kept: terms.kept,
                queue: terms.queue.clone(),
            },
            timeout: SECOND,
            history,
            breaches: Vec::new(),
            class: None,
            signature: None,
            experiments: None,
            expected: None,
        }
    }

    /// The history of the story. Panics with the line that it cannot parse.
    pub fn history(&self) -> History {
        let mut parser = StoryParser::default();
        for line in self.story.lines() {
            let words = line.split('#').next().unwrap_or_default();
            let words = words.split_whitespace().collect::<Vec<_>>();
            if !words.is_empty() {
                parser.parse(&words).unwrap_or_else(|| panic!("cannot read the line '{line}'"));
            }
        }
        parser.finish()
    }
}

/// Names between commas.
fn names(text: &str) -> Vec<String> {
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// An assumption from its name and its bound: lengths in milliseconds.
fn assumption((word, bound): (&String, &u64)) -> Assumption {
    let word = serde_json::Value::String(word.clone());
    let what = serde_json::from_value(word).expect("the word of an assumption");
    Assumption { what, bound: bound * unit(what) }
}

/// The unit of a bound: one for a count, a millisecond for a length.
pub fn unit(what: Bounded) -> u64 {
    let counts = [Bounded::ClientCrash, Bounded::Drift, Bounded::Failover, Bounded::KeyRemoval];
    if counts.contains(&what) { 1 } else { MILLISECOND }
}

/// Parses lines; positions are first numbered in order of mention, and finally by time.
#[derive(Default)]
struct StoryParser {
    history: History,
    mentioned: Vec<Nanos>,
}

impl StoryParser {
    fn parse(&mut self, words: &[&str]) -> Option<()> {
        match *words {
            ["op", id, who, when, what, ref rest @ ..] => self.op(id, who, when, what, rest),
            ["access", at, ref rest @ ..] => self.access(at, rest),
            ["key", at, node, change, ref rest @ ..] => self.key(at, node, change, rest),
            ["request", ref rest @ ..] => self.request(rest),
            ["fault", id, what, who, when, ref rest @ ..] => self.fault(id, what, who, when, rest),
            ["leads", at, node] => self.role(at, node, Seen::Leads, node),
            ["follows", at, node, master] => self.role(at, node, Seen::Follows, master),
            ["exited", at, node] => self.role(at, node, Seen::Exited, node),
            ["unreplicated", at, node] => self.role(at, node, Seen::Unreplicated, node),
            ["breach", at, who, clause, ref rest @ ..] => self.breach(at, who, clause, rest),
            ["clock", at, host, clock, reading, ref rest @ ..] => {
                self.clock(at, host, clock, reading, rest)
            }
            ["shares"] => {
                self.history.shares = true;
                Some(())
            }
            ["healed", at] => {
                self.history.healed = Some(self.instant(at)?);
                Some(())
            }
            ["end", at] => {
                self.history.end = self.instant(at)?;
                Some(())
            }
            _ => None,
        }
    }

    fn role(&mut self, at: &str, node: &str, what: Seen, master: &str) -> Option<()> {
        let at = self.instant(at)?;
        let (by, master) = (node.to_owned(), master.to_owned());
        self.history.sightings.push(Sighting { at, by, what, master });
        Some(())
    }

    fn instant(&mut self, ms: &str) -> Option<Instant> {
        let at = nanos(ms)?;
        self.mentioned.push(at);
        Some(Instant { seq: self.mentioned.len() as u64 - 1, at })
    }

    fn stamp(&mut self, ms: &str) -> Option<Stamp> {
        Some(Stamp::new(self.instant(ms)?, Readings::default()))
    }

    fn op(&mut self, id: &str, who: &str, when: &str, what: &str, rest: &[&str]) -> Option<()> {
        let id = id.parse().ok()?;
        assert_eq!(self.history.ops.len(), id as usize, "operations are numbered from 0 on");
        let kind = kind(what)?;
        let guards = kind.is_access();
        let (call, ret) = when.split_once("..").unwrap_or((when, when));
        let call = self.stamp(call)?;
        let ret = if ret.is_empty() { None } else { Some(self.stamp(ret)?) };
        self.history.ops.push(Op {
            id,
            process: who.split('/').next()?.to_owned(),
            caller: who.to_owned(),
            object: match value(rest, "segment") {
                Some(nth) => segment(nth.parse().ok()?),
                None => if guards { "resource" } else { "lock" }.to_owned(),
            },
            call,
            ret,
            kind,
            outcome: outcome(rest)?,
            tried_with: value(rest, "tried-with").map(str::to_owned),
            shared: rest.contains(&"shared"),
            keys: value(rest, "keys").map_or(Vec::new(), names),
        });
        Some(())
    }

    fn access(&mut self, at: &str, rest: &[&str]) -> Option<()> {
        let at = self.instant(at)?;
        let op = self.history.ops.get(value(rest, "op")?.parse::<usize>().ok()?)?;
        let (kind, grant, written) = match op.kind {
            OpKind::Read { grant } => (AccessKind::Read, grant, 0),
            OpKind::Write { grant, value } => (AccessKind::Write, grant, value),
            OpKind::Append { grant } => (AccessKind::Append, grant, 0),
            OpKind::Add { grant, .. } => (AccessKind::Add, grant, 0),
            OpKind::Expire { grant } => (AccessKind::Expire, grant, 0),
            _ => return None,
        };
        let value = value(rest, "value").map_or(Some(written), |value| value.parse().ok())?;
        let (op, caller) = (op.id, op.caller.clone());
        let accepted = rest.contains(&"accepted");
        self.history.accesses.push(Access {
            at,
            op,
            caller,
            grant,
            kind,
            fence: None,
            value,
            accepted,
        });
        Some(())
    }

    fn key(&mut self, at: &str, node: &str, change: &str, rest: &[&str]) -> Option<()> {
        let at = self.instant(at)?;
        let change = match change {
            "set" => KeyChange::Set,
            "changed" => KeyChange::Changed,
            "extended" => KeyChange::Extended,
            "deleted" => KeyChange::Deleted,
            "expired" => KeyChange::Expired,
            "evicted" => KeyChange::Evicted,
            "lost-at-restart" => KeyChange::LostAtRestart,
            "lost-at-failover" => KeyChange::LostAtFailover,
            _ => return None,
        };
        let until_ms = value(rest, "until").map(|until| until.parse::<u64>().expect("a number"));
        let until_ms = until_ms.map(|until| until + EPOCH / MILLISECOND);
        let by = value(rest, "by").map(|by| by.parse().expect("an operation"));
        let unacknowledged = rest.contains(&"unacknowledged");
        let (node, lock) = (node.into(), "lock".to_owned());
        let (key, of) = match value(rest, "member") {
            Some(member) => (member.into(), Some(lock)),
            None => (value(rest, "key").unwrap_or("lock").into(), None),
        };
        // A place in the queue is a member of a key of its own.
        let place = value(rest, "place").map(|place| (place.into(), Some("queue".to_owned())));
        let (key, of) = place.unwrap_or((key, of));
        self.history.keys.push(Key { node, key, of, at, change, until_ms, by, unacknowledged });
        Some(())
    }

    fn request(&mut self, rest: &[&str]) -> Option<()> {
        let op = value(rest, "op")?.parse().ok()?;
        let (from, to) = rest.iter().find_map(|word| word.split_once("->"))?;
        let command = rest.iter().find(|word| word.chars().all(|c| c.is_ascii_uppercase()))?;
        let first = match value(rest, "unsent") {
            Some(unsent) => (Leg::Unsent, self.instant(unsent)?),
            None => (Leg::Sent, self.instant(value(rest, "sent")?)?),
        };
        let mut legs: Legs = [first].into_iter().collect();
        if let Some(applied) = value(rest, "applied") {
            legs.push((Leg::Applied, self.instant(applied)?));
        }
        if let Some(replied) = value(rest, "replied") {
            legs.push((Leg::Replied, self.instant(replied)?));
        }
        if let Some(delivered) = value(rest, "delivered") {
            legs.push((Leg::Delivered, self.instant(delivered)?));
        }
        let (from, to, command) = (from.into(), to.into(), (*command).into());
        let answer = rest.iter().find_map(|word| word.strip_prefix("declined="));
        let declined = answer.is_some() || rest.contains(&"declined");
        let answer = answer.map(Into::into);
        let other_keys = rest.contains(&"other-keys");
        if let Some(keys) = value(rest, "keys") {
            self.history.named.insert(self.history.requests.len(), names(keys));
        }
        let request = Request { op, from, to, command, legs, declined, answer, other_keys };
        self.history.requests.push(request);
        Some(())
    }

    fn fault(&mut self, id: &str, what: &str, who: &str, when: &str, rest: &[&str]) -> Option<()> {
        let (from, to) = when.split_once("..").unwrap_or((when, ""));
        let momentary = !when.contains("..");
        let from = self.instant(from)?;
        let to = if momentary {
            Some(from)
        } else if to.is_empty() {
            None
        } else {
            Some(self.instant(to)?)
        };
        let (verb, target) = (verb(what)?, Target::try_from(who.replace(',', " ")).ok()?);
        let fault = id.parse().ok()?;
        let met = value(rest, "met").map(|met| met.parse().expect("a number"));
        let done = match value(rest, "done") {
            Some(done) => {
                let at = |at| Some(Instant { seq: 0, at: nanos(at)? });
                done.split(',').map(at).collect::<Option<_>>()?
            }
            None => Vec::new(),
        };
        self.history.fault_intervals.push(FaultInterval {
            fault,
            verb,
            target,
            from,
            to,
            met,
            done,
        });
        Some(())
    }

    fn breach(&mut self, at: &str, who: &str, clause: &str, rest: &[&str]) -> Option<()> {
        let at = self.instant(at)?;
        let clause = serde_json::from_value(clause.into()).ok()?;
        let op = value(rest, "op").map(|op| op.parse().expect("an operation"));
        let (process, details) = (who.to_owned(), "as told".to_owned());
        self.history.breaches.push(ContractBreach { at, process, op, clause, details });
        Some(())
    }

    fn clock(
        &mut self,
        at: &str,
        host: &str,
        clock: &str,
        reading: &str,
        rest: &[&str],
    ) -> Option<()> {
        let from = self.instant(at)?;
        let clock = clock_named(clock)?;
        let rate_ppm = value(rest, "ppm").map_or(Some(0), |ppm| ppm.parse().ok())?;
        let reading = nanos(reading)? + base(clock);
        let line = Line { since: from.at, reading, rate_ppm };
        self.history.clocks.push(ClockPiece { host: host.to_owned(), clock, from, line });
        Some(())
    }

    /// Numbers the positions by time, from 1 on, and gives every host clocks that run true.
    fn finish(mut self) -> History {
        let mut order = (0..self.mentioned.len()).collect::<Vec<_>>();
        order.sort_by_key(|mention| self.mentioned[*mention]);
        let mut place = vec![0; order.len()];
        for (position, mention) in order.into_iter().enumerate() {
            place[mention] = position as u64 + 1;
        }
        let history = &mut self.history;
        for op in &mut history.ops {
            op.call.seq = place[op.call.seq as usize];
            if let Some(ret) = &mut op.ret {
                ret.seq = place[ret.seq as usize];
            }
        }
        let keys = history.keys.iter_mut().map(|key| &mut key.at);
        let keys = keys.chain(history.sightings.iter_mut().map(|sighting| &mut sighting.at));
        let accesses = history.accesses.iter_mut().map(|access| &mut access.at);
        let faults = history.fault_intervals.iter_mut();
        let faults = faults.flat_map(|fault| [Some(&mut fault.from), fault.to.as_mut()]).flatten();
        let legs = history.requests.iter_mut().flat_map(|request| &mut request.legs);
        let legs = legs.map(|(_, at)| at);
        let clocks = history.clocks.iter_mut().map(|piece| &mut piece.from);
        let clocks = clocks.chain(history.breaches.iter_mut().map(|breach| &mut breach.at));
        let marks = history.healed.iter_mut().chain([&mut history.end]);
        for instant in keys.chain(accesses).chain(faults).chain(legs).chain(clocks).chain(marks) {
            instant.seq = place[instant.seq as usize];
        }
        carry_out(history);
        history.keys.sort_by_key(|key| key.at);
        history.sightings.sort_by_key(|sighting| sighting.at);
        history.accesses.sort_by_key(|access| access.at);
        history.fault_intervals.sort_by_key(|fault| fault.from);
        history.requests.sort_by_key(|request| request.legs[0].1);
        true_clocks(history);
        self.history
    }
}

/// Gives each command the instants of its effects: what the times in `done` stand for.
fn carry_out(history: &mut History) {
    for command in &mut history.fault_intervals {
        let keys = history.keys.iter().map(|key| (key.node.as_str(), key.at));
        let roles = history.sightings.iter().map(|role| (role.by.as_str(), role.at));
        let effects: Vec<Instant> = keys
            .chain(roles)
            .filter(|(node, at)| {
                command.strikes(node) && command.done.iter().any(|d| d.at == at.at)
            })
            .map(|(_, at)| at)
            .collect();
        assert!(effects.len() >= command.done.len(), "a command does something at each time");
        command.done = effects;
    }
}

/// A verb with its figure: `pause`, `delay=200` (ms), `clock-step=-500` (ms), `clock-rate=100`.
fn verb(text: &str) -> Option<Verb> {
    let (word, figure) = text.split_once('=').unwrap_or((text, ""));
    let row = verbs::find(word)?;
    let number = || if figure.is_empty() { Some(0) } else { figure.parse::<i64>().ok() };
    let key = if figure.is_empty() { "lock" } else { figure };
    row.verb(match (row.plain)().figure() {
        Figure::None => Figure::None,
        Figure::Length(_) => Figure::Length(u64::try_from(number()?).ok()? * MILLISECOND),
        Figure::Share(_) => Figure::Share(u32::try_from(number()?).ok()?),
        Figure::Shift(_) => Figure::Shift(number()? * 1_000_000),
        Figure::Rate(_) => Figure::Rate(i32::try_from(number()?).ok()?),
        Figure::Key(_) => Figure::Key(key.to_owned()),
    })
}

fn true_clocks(history: &mut History) {
    let mut hosts = history.ops.iter().map(|op| op.process.clone()).collect::<Vec<_>>();
    hosts.extend(history.keys.iter().map(|key| key.node.to_string()));
    hosts.sort();
    hosts.dedup();
    for host in hosts {
        for clock in [Clock::Wall, Clock::Monotonic, Clock::Boot] {
            let line = Line { since: 0, reading: base(clock), rate_ppm: 0 };
            let from = Instant::default();
            history.clocks.push(ClockPiece { host: host.clone(), clock, from, line });
        }
    }
    history.clocks.sort_by_key(|piece| piece.from);
}

fn kind(what: &str) -> Option<OpKind> {
    if what == "acquire" {
        return Some(OpKind::Acquire);
    }
    let (name, arguments) = what.strip_suffix(')')?.split_once('(')?;
    let mut arguments = arguments.split(',');
    let grant = arguments.next()?.parse().ok();
    match name {
        "extend" => Some(OpKind::Extend { grant: grant?, background: false }),
        "renew" => Some(OpKind::Extend { grant: grant?, background: true }),
        "release" => Some(OpKind::Release { grant: grant? }),
        "lost" => Some(OpKind::Lost { grant: grant? }),
        "read" => Some(OpKind::Read { grant }),
        "write" => Some(OpKind::Write { grant, value: arguments.next()?.parse().ok()? }),
        "append" => Some(OpKind::Append { grant }),
        "add" => Some(OpKind::Add { grant, by: arguments.next()?.parse().ok()? }),
        "expire" => Some(OpKind::Expire { grant }),
        _ => None,
    }
}

fn outcome(words: &[&str]) -> Option<Outcome> {
    let deadline = value(words, "until").map(|until| {
        let (clock, ms) = until.split_once(':').expect("until=CLOCK:MS");
        let clock = clock_named(clock).expect("wall, mono or boot");
        (clock, nanos(ms).expect("milliseconds") + base(clock))
    });
    Some(match *words.first()? {
        "pending" => Outcome::Pending,
        "unknown" => Outcome::Unknown,
        "granted" => Outcome::Granted {
            token: value(words, "token").unwrap_or_default().to_owned(),
            fence: value(words, "fence").map(|fence| fence.parse().expect("a number")),
            deadline,
        },
        "refused" => Outcome::Refused { why: String::new() },
        "kept" => Outcome::Kept { deadline },
        "lost" => Outcome::Lost,
        "released" => Outcome::Released,
        "not-mine" => Outcome::NotMine,
        "accepted" => Outcome::Accepted,
        word => Outcome::Value { value: word.strip_prefix("value=")?.parse().ok()? },
    })
}

fn value<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn clock_named(name: &str) -> Option<Clock> {
    match name {
        "wall" => Some(Clock::Wall),
        "mono" => Some(Clock::Monotonic),
        "boot" => Some(Clock::Boot),
        _ => None,
    }
}

fn base(clock: Clock) -> Nanos {
    if clock == Clock::Wall { EPOCH } else { 0 }
}

fn nanos(ms: &str) -> Option<Nanos> {
    Some(ms.parse::<u64>().ok()? * MILLISECOND)
}
