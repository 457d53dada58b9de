//! `list`: the words that scenarios may use, each with its meaning.

use comfy_table::{ContentArrangement, Table, presets};
use lockstorm_platform::fault::verbs::{ROWS, Row};
use lockstorm_redis::compat::{Compat, DIVERGENCES, Divergence, Evidence};

use crate::check::verdict::Kind;
use crate::cli::args::Listed;
use crate::cli::args::SCENARIOS;
use crate::edge::ending::Exit;
use crate::edge::input;
use crate::edge::terminal::say;
use crate::field::Takes;
use crate::lock::catalogue::ALGORITHMS;
use crate::lock::library::{KnownFrom, LIBRARIES, Library};
use crate::lock::options::{LockOption, OPTIONS};
use crate::refusal::Refusal;

/// The workloads.
const WORKLOADS: [(&str, &str); 14] = [
    ("counter", "read, work, write back plus one: no update may be lost"),
    ("stock", "read, work, write back minus one: never below zero, nothing sold twice"),
    ("stock-get-decr", "read, work, DECR: the read may no longer be true"),
    ("stock-decr", "DECR, and INCR if that was one too many: needs no lock"),
    ("stock-script", "DECR if any are left, in one step: needs no lock"),
    ("stock-segments", "a lock and items for each segment: who finds one empty tries the next"),
    ("check-then-incr", "read, work, INCR: the count may pass its limit, items"),
    ("rate-limit", "INCR, then compare with the limit, items, in one step: needs no lock"),
    ("rate-limit-test-first", "compare, then INCR, in one step: lets one too many pass"),
    ("rate-limit-three-steps", "GET, INCR, EXPIRE: a counter without an end may be left"),
    ("append-log", "append, work, append: no entry of an earlier grant after a later one's"),
    ("semaphore", "enter, work, leave: no more inside at once than the lock has permits"),
    ("latch", "go on: nobody before all parties of the latch have counted down"),
    ("schedule", "once a period by each client's wall clock: no job runs twice in a period"),
];

/// The topologies.
const TOPOLOGIES: [(&str, &str); 5] = [
    ("single", "one node"),
    ("replicated", "n1 is the master, the others its replicas; failover by command"),
    ("sentinel", "n1 is the first master; Sentinels s1, s2, ... fail over, and clients query them"),
    ("cluster", "masters that share the slots, then their replicas, which fail over by themselves"),
    ("independent", "masters that know nothing of each other"),
];

/// The models of locks.
const MODELS: [(&str, &str); 3] = [
    ("none", "no order is promised"),
    ("mutex", "held until released"),
    ("lease", "held until released, or until the time to live is over"),
];

/// Prints a list.
pub fn list(what: Listed) -> Result<Exit, Refusal> {
    let own = |(word, about): (&str, &str)| [word.to_owned(), about.to_owned()];
    let rows: Vec<[String; 2]> = match what {
        Listed::Locks => ALGORITHMS.map(|lock| own((lock.name, lock.about))).to_vec(),
        Listed::Options => OPTIONS.iter().map(option).collect(),
        Listed::Libraries => LIBRARIES.iter().map(library).collect(),
        Listed::Faults => ROWS.iter().map(fault).collect(),
        Listed::Workloads => WORKLOADS.map(own).to_vec(),
        Listed::Topologies => TOPOLOGIES.map(own).to_vec(),
        Listed::Models => MODELS.map(own).to_vec(),
        Listed::Verdicts => Kind::ALL.map(|kind| own((kind.word(), meaning(kind)))).to_vec(),
        Listed::Scenarios => input::scenarios(&[SCENARIOS.into()])?
            .into_iter()
            .map(|scenario| [scenario.name, scenario.ask])
            .collect(),
        Listed::Compat => DIVERGENCES.iter().map(divergence).collect(),
    };
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    for row in rows {
        table.add_row(row);
    }
    say(&table.trim_fmt());
    Ok(Exit::Held)
}

/// An option with its values, and its meaning.
fn option(option: &LockOption) -> [String; 2] {
    let values = match option.field.takes {
        Takes::Word(words) => words.join(" | "),
        Takes::Flag => "true | false".to_owned(),
        Takes::Count | Takes::Number => "a number".to_owned(),
        Takes::Length => "a length".to_owned(),
        Takes::Text => "a text".to_owned(),
    };
    [format!("{} = {values}", option.field.key), option.about.to_owned()]
}

/// A library with its version; its lock, its options, and what they leave out.
fn library(library: &Library) -> [String; 2] {
    let options = library.options.iter().map(|(key, value)| format!("{key} = {value}"));
    let options: Vec<String> = [library.lock.to_owned()].into_iter().chain(options).collect();
    let known = match library.known {
        KnownFrom::Source(commit) => format!("its source was read at {commit}"),
        KnownFrom::Wire => "its requests were recorded".to_owned(),
    };
    [library.title(), format!("{}\n{known}; {}", options.join(", "), library.note)]
}

/// The servers with this difference and the evidence for it, one line each; and the difference.
fn divergence(divergence: &Divergence) -> [String; 2] {
    let line = |(compat, evidence): &(Compat, Evidence)| {
        let word = compat.word();
        match evidence {
            Evidence::Ran(server) => format!("{word}: {server} was run"),
            Evidence::Document(document) => format!("{word}: {document}; no server was run"),
            Evidence::Before(server) => format!("{word}: as {server}; not checked again"),
        }
    };
    let lines: Vec<String> = divergence.holds.iter().map(line).collect();
    [lines.join("\n"), divergence.what.to_owned()]
}

fn fault(row: &Row) -> [String; 2] {
    let figure = row.figure.map_or(String::new(), |figure| format!(" (with {figure})"));
    [row.word.to_owned(), format!("{}{figure}", row.about)]
}

fn meaning(kind: Kind) -> &'static str {
    match kind {
        Kind::BrokenContract => "the lock did what the contract of locks forbids",
        Kind::DoubleGrant => {
            "more holders than allowed, all covered, or one whose lease was over at its grant"
        }
        Kind::StaleHolder => "more holders than allowed, one past its deadline",
        Kind::Corruption => "what the lock guards was damaged",
        Kind::ForeignRelease => "one caller's release or overwrite hit another's key",
        Kind::ForeignExtend => "one caller's extend prolonged another's key",
        Kind::Leak => "a key that nobody owns made an acquire fail",
        Kind::RenewalAfterRelease => {
            "a renewal took effect after the release had returned, or set the key again"
        }
        Kind::Stuck => "after the heal nobody gets the lock in time",
        Kind::NeverSettles => "an operation is still pending at the end",
        Kind::LateLoss => "the caller learned too late that the lock is lost",
        Kind::FenceRegress => "a grant's number is not above that of one before it",
        Kind::LostEarly => {
            "the key of a covered hold went before its lease had ended; nobody got in, and no \
             broken assumption explains it"
        }
        Kind::NotLinearizable => "no legal order under what the lock promises",
        Kind::Overtaken => "an acquire got the lock before one that stood in the queue ahead of it",
        Kind::OwnCheck => "a check that a test added found something",
    }
}

#[cfg(test)]
mod tests {
    use crate::lock::catalogue;
    use crate::scenario::tables;

    #[test]
    fn the_lists_are_those_of_scenarios() {
        assert_eq!(super::WORKLOADS.map(|(word, _)| word), catalogue::WORKLOADS);
        let known = tables::TOPOLOGIES.map(|(word, _)| word);
        assert_eq!(super::TOPOLOGIES.map(|(word, _)| word), known);
    }
}
