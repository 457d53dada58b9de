//! An order typed at a running service, as a value; or a refusal with what to type instead.

use lockstorm_platform::fault::verbs::{self, ActsOn, Figure, Row, Strains};
use lockstorm_platform::fault::{MAX_LENGTH, Target, Verb};
use lockstorm_platform::time::Nanos;

use crate::length;
use crate::plan::contradiction::MAX_LOSS;
use crate::refusal::{Refusal, nearest};
use crate::serve::setup::CLIENTS;

/// A parsed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// List the orders.
    Help,
    /// Reply that the service runs.
    Ping,
    /// Reply to the COMMAND request that redis-cli sends when it connects.
    Commands,
    /// Show the state of nodes, clocks, faults and locks.
    Status,
    /// Start a fault now.
    Strike {
        /// The verb.
        verb: Verb,
        /// The target.
        target: Target,
        /// How long it lasts; `None`: until the heal.
        length: Option<Nanos>,
    },
    /// Do not send the reply to the next request with this command.
    CutNext {
        /// The node.
        node: String,
        /// The command in upper case; `None` matches any.
        command: Option<String>,
    },
    /// Promote the replica, or the first one.
    Failover {
        /// The replica.
        node: Option<String>,
    },
    /// Let the wall clock of a node run again.
    Unfreeze {
        /// The node.
        node: String,
    },
    /// Undo every fault on the links of a node, or on all links.
    HealLinks {
        /// The links.
        target: Option<Target>,
    },
    /// End every fault and start every node.
    Heal,
    /// Show the last events of locks that nodes recorded.
    History {
        /// The number of events.
        count: usize,
    },
    /// Judge what has happened so far.
    Judge,
    /// Stop the service.
    Shutdown,
}

/// The help text, one entry a line.
pub const HELP: [&str; 22] = [
    "STATUS                          nodes, clocks, faults that last, locks that are held",
    "FAULT PAUSE n1 15s              the process is not scheduled; its sockets stay open",
    "FAULT SUSPEND n1 [15s]          the machine is suspended; its monotonic clock stops",
    "FAULT CRASH n1 [5s]             the process dies; with a length it starts again after it",
    "FAULT POWER-LOSS n1 [5s]        the machine dies; what was not synced is gone",
    "FAULT RESTART n1                the process dies and starts again; a dead one starts",
    "FAULT PARTITION n1 [10s]        no byte passes; LINK CUT does the same",
    "FAULT RESET n1                  connections are reset",
    "FAULT EVICT n1 KEY | FLUSH n1   a key, or every key, is dropped",
    "FAULT SLOW-NODE n1 50ms [10s]   each command takes longer; SLOW-SCRIPT: each script",
    "FAULT REPLICA-LAG n2 1s [10s]   what other nodes send to the replica arrives later",
    "FAULT LYING-DISK n1 [10s]       fsync answers and does nothing",
    "CLOCK STEP n2 +10s | RATE n2 500 [10s] | FREEZE n2 [10s] | UNFREEZE n2   (rate in ppm)",
    "LINK DELAY n1 200ms [10s]       each way; 'LINK DELAY clients -> n1 200ms' is one way",
    "LINK JITTER n1 50ms | LOSS n1 5% | CUT n1 | HEAL [n1]   also 'n1 -> clients', 'n1 <-> n2'",
    "CUT REPLY n1 NEXT [SET]         the next such command is applied and not answered",
    "FAILOVER [n2]                   a replica is made master by command",
    "HEAL                            all faults end, all nodes start",
    "HISTORY [50]                    the last events of locks",
    "JUDGE                           the verdict so far",
    "SHUTDOWN                        judge and end",
    "lengths are '15s', '500ms', '1m30s'; a fault without one lasts until HEAL",
];

/// The first words of orders.
const WORDS: [&str; 13] = [
    "help", "status", "fault", "clock", "link", "cut", "failover", "heal", "history", "judge",
    "shutdown", "ping", "quit",
];

type Read<T> = Result<T, Refusal>;

/// Reads an order. `nodes` are the names of the nodes.
pub fn read(words: &[String], nodes: &[String]) -> Read<Order> {
    let mut words = Words { left: words.iter().map(String::as_str).collect(), nodes };
    let first = words.next("an order", "type HELP")?.to_lowercase();
    let order = match &first[..] {
        "help" => Order::Help,
        "ping" => Order::Ping,
        "command" => {
            words.left.clear();
            Order::Commands
        }
        "status" => Order::Status,
        "fault" => words.fault()?,
        "clock" => words.clock()?,
        "link" => words.link()?,
        "cut" => words.cut()?,
        "failover" => Order::Failover { node: words.optional_node()? },
        "heal" => Order::Heal,
        "history" => Order::History { count: words.count()? },
        "judge" => Order::Judge,
        "shutdown" => Order::Shutdown,
        _ => return Err(no_word(&first, "order", &WORDS)),
    };
    words.end()?;
    Ok(order)
}

fn refused<T>(what: impl Into<String>, instead: impl Into<String>) -> Read<T> {
    Err(Refusal::new(what, instead))
}

fn no_word(word: &str, kind: &str, known: &[&str]) -> Refusal {
    let instead = match nearest(word, known) {
        Some(near) => format!("did you mean '{}'?", near.to_uppercase()),
        None => format!("one of: {}", known.join(", ").to_uppercase()),
    };
    Refusal::new(format!("no {kind} '{word}'"), instead)
}

/// The words that are not read yet.
struct Words<'a> {
    left: Vec<&'a str>,
    nodes: &'a [String],
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str, example: &str) -> Read<&'a str> {
        if self.left.is_empty() {
            return refused(format!("{what} is missing"), example);
        }
        Ok(self.left.remove(0))
    }

    fn end(&self) -> Read<()> {
        match self.left.first() {
            None => Ok(()),
            Some(word) => refused(format!("nothing is expected at '{word}'"), "remove it"),
        }
    }

    fn fault(&mut self) -> Read<Order> {
        let word = self.next("the fault", "like FAULT PAUSE n1 15s")?.to_lowercase();
        let known: Vec<&str> = verbs::words().collect();
        if !known.contains(&&word[..]) {
            return Err(no_word(&word, "fault", &known));
        }
        self.strike(&word)
    }

    fn clock(&mut self) -> Read<Order> {
        let known = ["step", "rate", "freeze", "unfreeze"];
        let word = self.next("what the clock does", "like CLOCK STEP n2 +10s")?.to_lowercase();
        match &word[..] {
            "unfreeze" => Ok(Order::Unfreeze { node: self.node()? }),
            "step" | "rate" | "freeze" => self.strike(&format!("clock-{word}")),
            _ => Err(no_word(&word, "CLOCK", &known)),
        }
    }

    fn link(&mut self) -> Read<Order> {
        let known = ["delay", "jitter", "loss", "cut", "reset", "heal"];
        let word = self.next("what the link does", "like LINK DELAY n1 200ms")?.to_lowercase();
        match &word[..] {
            "heal" if self.left.is_empty() => Ok(Order::HealLinks { target: None }),
            "heal" => Ok(Order::HealLinks { target: Some(self.links()?) }),
            "cut" => self.strike("partition"),
            "delay" | "jitter" | "loss" | "reset" => self.strike(&word),
            _ => Err(no_word(&word, "LINK", &known)),
        }
    }

    fn cut(&mut self) -> Read<Order> {
        let example = "like CUT REPLY n1 NEXT SET";
        let word = self.next("REPLY", example)?;
        if !word.eq_ignore_ascii_case("reply") {
            return Err(no_word(word, "CUT", &["reply"]));
        }
        let node = self.node()?;
        if self.left.is_empty() {
            return Ok(Order::Strike {
                verb: Verb::CutReply,
                target: of_node(&node),
                length: None,
            });
        }
        let word = self.next("NEXT", example)?;
        if !word.eq_ignore_ascii_case("next") {
            return Err(no_word(word, "CUT REPLY", &["next"]));
        }
        let command = (!self.left.is_empty()).then(|| self.left.remove(0).to_uppercase());
        match command.as_deref().map(|name| lockstorm_redis::specification::name(name.as_bytes())) {
            Some(None) => refused(
                format!("no command '{}'", command.unwrap_or_default()),
                "name one that the nodes know, or none for any",
            ),
            _ => Ok(Order::CutNext { node, command }),
        }
    }

    fn strike(&mut self, word: &str) -> Read<Order> {
        let row = verbs::find(word).expect("only words of the table come here");
        let on_links = row.acts_on == ActsOn::Links;
        let target = if on_links { self.links()? } else { Target::Host(self.node()?) };
        let verb = row.verb(self.figure(row)?).expect("a figure of the verb's own kind");
        let length = self.length(&verb)?;
        Ok(Order::Strike { verb, target, length })
    }

    fn figure(&mut self, row: &Row) -> Read<Figure> {
        Ok(match (row.plain)().figure() {
            Figure::None => Figure::None,
            Figure::Length(_) => Figure::Length(self.extra(example(row))?),
            Figure::Share(_) => Figure::Share(self.loss()?),
            Figure::Shift(_) => Figure::Shift(self.shift()?),
            Figure::Rate(_) => Figure::Rate(self.ppm()?),
            Figure::Key(_) => Figure::Key(self.next("the key", "like FAULT EVICT n1 KEY")?.into()),
        })
    }

    fn node(&mut self) -> Read<String> {
        let example = format!("one of: {}", self.nodes.join(", "));
        let word = self.next("the node", &example)?;
        self.known(word, false)
    }

    fn optional_node(&mut self) -> Read<Option<String>> {
        if self.left.is_empty() { Ok(None) } else { self.node().map(Some) }
    }

    fn known(&self, word: &str, clients_too: bool) -> Read<String> {
        if word == CLIENTS && !clients_too {
            let instead = format!("name a node: {}", self.nodes.join(", "));
            return refused("clients are not of this world, only links to them suffer", instead);
        }
        let is_known = self.nodes.iter().any(|node| node == word) || word == CLIENTS;
        if is_known {
            return Ok(word.to_owned());
        }
        let others = if clients_too { format!(", {CLIENTS}") } else { String::new() };
        refused(format!("no host '{word}'"), format!("hosts are {}{others}", self.nodes.join(", ")))
    }

    /// Links as they are typed: `n1` (to and from the clients), `n1 -> n2`, `n1<->clients`.
    fn links(&mut self) -> Read<Target> {
        let first = self.next("the link", "like n1, 'clients -> n1' or 'n1 <-> n2'")?;
        if first.contains("->") && !first.starts_with("->") && !first.starts_with("<->") {
            return self.ends(first);
        }
        if self.left.first().is_some_and(|arrow| ["->", "<->"].contains(arrow)) {
            let arrow = self.left.remove(0);
            let other = self.next("the other end", "like 'clients -> n1'")?;
            return self.ends(&format!("{first}{arrow}{other}"));
        }
        Ok(of_node(&self.known(first, false)?))
    }

    fn ends(&self, text: &str) -> Read<Target> {
        let target = Target::try_from(text.to_owned());
        let target = target.or_else(|what| refused(what, "like 'clients -> n1'"))?;
        for host in target.hosts() {
            self.known(host, true)?;
        }
        if let Target::Links { from, to, .. } = &target
            && from == to
        {
            return refused(format!("'{}' is at both ends", from[0]), "name two hosts");
        }
        Ok(target)
    }

    fn length(&mut self, verb: &Verb) -> Read<Option<Nanos>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        if verb.is_momentary() {
            let what = format!("{} acts in one instant", verb.word());
            return refused(what, format!("remove '{}'", self.left[0]));
        }
        match self.extra("15s")? {
            0 => refused("a fault has to last some time", "above 0s"),
            length => Ok(Some(length)),
        }
    }

    fn extra(&mut self, example: &str) -> Read<Nanos> {
        let word = self.next("a length", &format!("like {example}"))?;
        length::read(word)
    }

    fn shift(&mut self) -> Read<i64> {
        let word = self.next("by how much", "like +10s or -10s")?;
        let word = word.strip_prefix('+').unwrap_or(word);
        length::read_shift(word)
    }

    fn ppm(&mut self) -> Read<i32> {
        let word = self.next("the rate", "parts per million fast, like 500 or -500")?;
        let number = word.strip_prefix('+').unwrap_or(word).parse::<i32>();
        match number {
            Ok(ppm) if crate::plan::contradiction::rate("", ppm).is_ok() => Ok(ppm),
            Ok(_) => refused(format!("no clock runs {word} ppm fast"), "at most 500000"),
            Err(_) => refused(format!("'{word}' is not a rate"), "a whole number of ppm, like 500"),
        }
    }

    fn loss(&mut self) -> Read<u32> {
        let word = self.next("the share", "like 5%")?;
        match crate::scenario::tables::percent(word) {
            Some(share) if share <= MAX_LOSS => Ok(share),
            Some(_) => refused("nothing would ever arrive", "at most 90%; LINK CUT lets none pass"),
            None => refused(format!("'{word}' is not a share"), "like 5% or 0.5%"),
        }
    }

    fn count(&mut self) -> Read<usize> {
        if self.left.is_empty() {
            return Ok(50);
        }
        let word = self.left.remove(0);
        word.parse().or_else(|_| refused(format!("'{word}' is not a number"), "like HISTORY 50"))
    }
}

/// An example of a length for a verb.
fn example(row: &Row) -> &'static str {
    match row.strains {
        Strains::Replication => "1s",
        Strains::Messages => "200ms",
        _ => "50ms",
    }
}

/// The links between a node and the clients.
fn of_node(node: &str) -> Target {
    Target::Links { from: vec![CLIENTS.to_owned()], to: vec![node.to_owned()], both: true }
}

const _: () = assert!(MAX_LENGTH > 0);
