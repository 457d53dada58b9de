//! The running world of a service: it executes orders, and reads the nodes' records.

use std::cmp::Ordering;
use std::collections::VecDeque;

use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::Leg;
use lockstorm_redis::frame::Reply;
use lockstorm_world::engine::live::{self, LiveEngine, ports::Ports};
use lockstorm_world::world::World;

use crate::custody::finding::CustodyJudgement;
use crate::custody::state::{Custody, CustodyTerms};
use crate::custody::{line, text};
use crate::length;
use crate::refusal::Refusal;
use crate::serve::desk::{self, Desk};
use crate::serve::order::{self, HELP, Order};
use crate::serve::setup::{Addresses, CLIENTS, Setup, suits};

/// How long the world runs between two checks for orders and records.
const BEAT: Nanos = 10 * MILLISECOND;
/// How long it continues after SHUTDOWN, so that the reply is sent.
const FAREWELL: Nanos = 50 * MILLISECOND;
/// The maximum number of locks that STATUS shows.
const MAX_SHOWN: usize = 20;
/// The maximum number of lives of keys that HISTORY keeps.
const MAX_REMEMBERED: usize = 1_000;

/// See the module documentation.
pub struct Service {
    setup: Setup,
    addresses: Addresses,
    world: World,
    desk: Desk,
    custody: Custody,
    /// The last lives of keys that ended, as lines.
    remembered: VecDeque<String>,
    /// Lines of JSON that were not taken yet.
    lines: Vec<String>,
    next_fault: u32,
    is_over: bool,
}

impl Service {
    /// Starts the nodes on ports that are already bound.
    pub fn start(setup: Setup, addresses: Addresses, ports: Ports) -> Service {
        let desk = Desk::default();
        let engine = LiveEngine::new(live::state(setup.seed), ports);
        let world = World::on(Box::new(engine), setup.world(&addresses, &desk));
        let next_fault = setup.faults.iter().map(|fault| fault.id).max().unwrap_or(0) + 1;
        let custody = Custody::new(terms(&setup, &addresses, &world));
        let mut service = Service {
            setup,
            addresses,
            world,
            desk,
            custody,
            remembered: VecDeque::new(),
            lines: Vec::new(),
            next_fault,
            is_over: false,
        };
        for fault in service.setup.faults.clone() {
            service.world.inject(fault);
        }
        service
    }

    /// True time since the start.
    pub fn now(&self) -> Nanos {
        self.world.now()
    }

    /// Runs the world for one interval, then replies to the orders received. Returns whether the
    /// service continues.
    pub fn beat(&mut self) -> bool {
        self.world.run_until(self.world.now().saturating_add(BEAT));
        // Records come first, so that a reply to an order includes what this interval recorded.
        self.hear();
        while let Some(slip) = self.desk.next() {
            let reply = self.obey(&slip.words);
            slip.answer(reply);
        }
        !self.is_over && !self.desk.is_interrupted.get()
    }

    /// Processes the new records of the nodes.
    fn hear(&mut self) {
        let mut entries = Vec::new();
        self.world.drain(&mut entries);
        for entry in entries {
            self.custody.take(entry);
        }
        for life in self.custody.drain() {
            self.lines.push(line::owned(&life));
            self.remembered.push_back(text::life(&life));
        }
        let surplus = self.remembered.len().saturating_sub(MAX_REMEMBERED);
        self.remembered.drain(..surplus);
    }

    /// The lines of JSON since the last call.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// The judgement so far.
    pub fn judge(&mut self) -> CustodyJudgement {
        self.hear();
        self.custody.judge(self.now())
    }

    /// Shuts down; returns the judgement and the remaining lines, including the locks still held.
    pub fn conclude(mut self) -> (CustodyJudgement, Vec<String>) {
        let end = self.now().saturating_add(FAREWELL);
        while self.is_over && self.now() < end {
            self.world.run_until(end);
            self.hear();
        }
        let judgement = self.judge();
        let mut lines = self.take_lines();
        lines.extend(self.custody.living().map(line::owned));
        lines.extend(line::judgement(&judgement));
        (judgement, lines)
    }

    /// Executes a typed order; returns the lines of the reply.
    pub fn typed(&mut self, line: &str) -> Vec<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Vec::new();
        }
        match self.obey(&words) {
            Reply::Array(lines) => lines.iter().map(plain).collect(),
            reply => vec![plain(&reply)],
        }
    }

    fn obey(&mut self, words: &[String]) -> Reply {
        match order::read(words, &self.setup.hosts()).and_then(|order| self.execute(order)) {
            Ok(lines) => desk::lines(lines),
            Err(Refusal { what, instead, .. }) => {
                Reply::Error(format!("ERR {what}: {instead}").into())
            }
        }
    }

    fn execute(&mut self, order: Order) -> Result<Vec<String>, Refusal> {
        let one = |line: &str| Ok(vec![line.to_owned()]);
        match order {
            Order::Help => Ok(HELP.map(str::to_owned).to_vec()),
            Order::Ping => one("PONG"),
            Order::Commands => Ok(Vec::new()),
            Order::Status => Ok(self.status()),
            Order::Strike { verb, target, length } => self.strike(verb, target, length),
            Order::CutNext { node, command } => Ok(self.cut_next(node, command)),
            Order::Failover { node } => self.fail_over(node),
            Order::Unfreeze { node } => {
                let target = Target::Host(node);
                let ended = self.world.end_faults(|fault| {
                    fault.target == target && matches!(fault.verb, Verb::ClockFreeze)
                });
                Ok(vec![format!("OK {ended} faults are over")])
            }
            Order::HealLinks { target } => {
                let ended = self.world.end_faults(|fault| {
                    fault.verb.acts_on_links()
                        && target.as_ref().is_none_or(|target| meet(&fault.target, target))
                });
                Ok(vec![format!("OK {ended} faults are over")])
            }
            Order::Heal => {
                // Pending faults are cancelled first: one that is anchored to the end of another
                // could strike after the heal.
                self.world.disarm();
                self.world.end_faults(|_| true);
                self.world.start_nodes();
                one("OK all faults end, all nodes start")
            }
            Order::History { count } => Ok(self.history(count)),
            Order::Judge => Ok(text::judgement(&self.judge())),
            Order::Shutdown => {
                self.is_over = true;
                one("OK")
            }
        }
    }

    fn strike(
        &mut self,
        verb: Verb,
        target: Target,
        length: Option<Nanos>,
    ) -> Result<Vec<String>, Refusal> {
        suits(&self.setup.topology, &verb)?;
        let what = described(&verb, &target, length);
        let id = self.suffer(Anchor::At(0), verb, target, length);
        Ok(vec![format!("OK fault {id}: {what}")])
    }

    fn suffer(&mut self, anchor: Anchor, verb: Verb, target: Target, length: Option<Nanos>) -> u32 {
        let id = self.next_fault;
        self.next_fault += 1;
        self.world.inject(Fault { id, verb, target, anchor, length });
        id
    }

    fn cut_next(&mut self, node: String, command: Option<String>) -> Vec<String> {
        let what = command.clone().unwrap_or_else(|| "command".to_owned());
        let effect = format!("the next {what} on {node} is applied and not answered");
        let target =
            Target::Links { from: vec![CLIENTS.to_owned()], to: vec![node.clone()], both: false };
        let event =
            Pattern::Message { from: CLIENTS.to_owned(), to: node, command, leg: Leg::Applied };
        let anchor = Anchor::After { event, nth: 1, plus: 0 };
        let id = self.suffer(anchor, Verb::CutReply, target, None);
        vec![format!("OK fault {id}: {effect}")]
    }

    fn fail_over(&mut self, node: Option<String>) -> Result<Vec<String>, Refusal> {
        let node = node.unwrap_or_else(|| "n2".to_owned());
        self.strike(Verb::Failover, Target::Host(node), None)
    }

    fn history(&mut self, count: usize) -> Vec<String> {
        self.hear();
        let mut lines: Vec<String> = self.remembered.iter().cloned().collect();
        lines.extend(self.custody.living().map(text::life));
        if lines.is_empty() {
            return vec!["no lock was seen".to_owned()];
        }
        lines.split_off(lines.len().saturating_sub(count))
    }

    fn status(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let real = self.world.status(CLIENTS).readings.wall;
        let Addresses { nodes, sentinels, .. } = &self.addresses;
        for (node, address) in self.setup.hosts().iter().zip(nodes.iter().chain(sentinels)) {
            let interval = self.world.status(node);
            let how = match (interval.is_up, interval.is_halted) {
                (false, _) => "down",
                (true, true) => "halted",
                (true, false) => "up",
            };
            let role = match self.custody.is_replica(self.world.number(node)) {
                _ if sentinels.contains(address) => "sentinel",
                true => "replica",
                false => "master",
            };
            let clock = ahead(interval.readings.wall, real);
            lines.push(format!("{node}  {address}  {role}  {how}  {clock}"));
        }
        for (fault, from) in self.world.active_faults() {
            let since =
                length::write(self.now().saturating_sub(from.at) / MILLISECOND * MILLISECOND);
            let what = described(&fault.verb, &fault.target, fault.length);
            lines.push(format!("fault {}: {what}, since {since} ago", fault.id));
        }
        lines.extend(self.custody.living().take(MAX_SHOWN).map(text::life));
        let more = self.custody.living().count().saturating_sub(MAX_SHOWN);
        if more > 0 {
            lines.push(format!("and {more} more locks"));
        }
        lines
    }
}

fn terms(setup: &Setup, addresses: &Addresses, world: &World) -> CustodyTerms {
    let nodes = setup.nodes().into_iter().zip(&addresses.nodes);
    let nodes = nodes.map(|(name, address)| (world.number(&name), name, *address));
    CustodyTerms { nodes: nodes.collect(), quorum: setup.quorum() }
}

/// The offset of a clock from the real time of day.
fn ahead(wall: Nanos, real: Nanos) -> String {
    let off = length::write(wall.abs_diff(real) / MILLISECOND * MILLISECOND);
    match wall.cmp(&real) {
        _ if off == "0s" => "clock right".to_owned(),
        Ordering::Less => format!("clock {off} behind"),
        _ => format!("clock {off} ahead"),
    }
}

fn plain(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) | Reply::Error(text) | Reply::Bulk(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        other => format!("{other:?}"),
    }
}

fn described(verb: &Verb, target: &Target, length: Option<Nanos>) -> String {
    let how_long = match length {
        Some(length) => format!(" for {}", length::write(length)),
        None if verb.is_momentary() => String::new(),
        None => " until HEAL".to_owned(),
    };
    format!("{} {target}{how_long}", verb.word())
}

/// Whether two links share a node.
fn meet(one: &Target, other: &Target) -> bool {
    let nodes = |target: &Target| -> Vec<String> {
        target.hosts().iter().filter(|host| **host != CLIENTS).map(|h| (*h).to_owned()).collect()
    };
    let of_other = nodes(other);
    nodes(one).iter().any(|node| of_other.contains(node))
}
