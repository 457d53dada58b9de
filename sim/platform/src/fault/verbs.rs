//! The verbs of faults, one row each of one table: the word, the figure, the targets, what the verb
//! needs, what it strains, and its sentence. What a verb is called, takes and may strike is read
//! from its row.
//!
//! What it does, which assumption that disturbs and how a story tells it is code that matches
//! verbs: CONTRIBUTING lists where.

use crate::fault::Verb;
use crate::time::Nanos;

/// What a verb is called, what it takes, and what it may strike.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The verb with an empty figure: zero, or no name.
    pub plain: fn() -> Verb,
    /// The word for it in scenarios and on the command line.
    pub word: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// The key of its figure in a scenario; `None` if it has no figure.
    pub figure: Option<&'static str>,
    /// What it can act on.
    pub acts_on: ActsOn,
    /// Whether it acts at one instant and needs no heal.
    pub(crate) is_momentary: bool,
    /// What the nodes must have for the verb to have an effect.
    pub needs: Needs,
    /// The property of the world that it strains.
    pub strains: Strains,
    /// The sentence for it, in the present tense; `{who}`, `{figure}` and `{until}` are filled in.
    pub said: &'static str,
    /// Whether a hunt draws it when the user names no verbs.
    pub is_drawn: bool,
}

/// What a verb can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActsOn {
    /// Links between hosts.
    Links,
    /// Any host.
    Host,
    /// A Redis node.
    Node,
    /// A replica.
    Replica,
}

/// What the nodes must have for a verb to have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Replicas.
    Replica,
    /// Replicas that are promoted by an operator's command only.
    FailoverByHand,
    /// Data that is written to a disk.
    File,
    /// An append-only file.
    AppendOnlyFile,
}

/// The property of the world that a verb strains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strains {
    /// Whether and when messages arrive.
    Messages,
    /// Whether connections stay open.
    Connections,
    /// Whether a process is scheduled.
    Schedule,
    /// Whether a process is alive.
    Life,
    /// The reading of a wall clock.
    WallClock,
    /// The rate of a host's clocks.
    Rate,
    /// How long a node takes for a command.
    Speed,
    /// How far a replica lags behind.
    Replication,
    /// Which node is the master.
    Lead,
    /// Which keys exist.
    Keys,
    /// What a disk keeps.
    Disk,
}

/// The figure of a verb, with its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// No figure.
    None,
    /// A length, ns.
    Length(Nanos),
    /// A share, in a million.
    Share(u32),
    /// A shift forward (negative: back), ns.
    Shift(i64),
    /// A rate, parts per million fast (negative: slow).
    Rate(i32),
    /// The name of a key.
    Key(String),
}

const NAMELESS: &str = "";

/// The defaults of a row.
const PLAIN: Row = Row {
    plain: || Verb::Partition,
    word: NAMELESS,
    about: NAMELESS,
    figure: None,
    acts_on: ActsOn::Host,
    is_momentary: false,
    needs: Needs::Nothing,
    strains: Strains::Messages,
    said: NAMELESS,
    is_drawn: false,
};

/// Every verb.
pub static ROWS: [Row; 23] = [
    Row {
        plain: || Verb::Partition,
        word: "partition",
        about: "no message passes the target links",
        acts_on: ActsOn::Links,
        said: "No message passes {who}{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Delay { extra: 0 },
        word: "delay",
        about: "messages on the target links take longer",
        figure: Some("extra"),
        acts_on: ActsOn::Links,
        said: "Messages {who} take {figure} longer{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Jitter { extra: 0 },
        word: "jitter",
        about: "messages on the target links are delayed by a random time up to `extra`",
        figure: Some("extra"),
        acts_on: ActsOn::Links,
        said: "Messages {who} take up to {figure} longer{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Loss { per_million: 0 },
        word: "loss",
        about: "messages on the target links are lost and sent again",
        figure: Some("loss"),
        acts_on: ActsOn::Links,
        said: "{figure} of all messages {who} are lost{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::CutReply,
        word: "cut-reply",
        about: "a reply under way is lost, and its connection breaks: anchor it to `applied`",
        acts_on: ActsOn::Links,
        is_momentary: true,
        strains: Strains::Connections,
        said: "Connections {who} break.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Reset,
        word: "reset",
        about: "connections on the target links are reset",
        acts_on: ActsOn::Links,
        is_momentary: true,
        strains: Strains::Connections,
        said: "Connections {who} are reset.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Pause,
        word: "pause",
        about: "the process is not scheduled; its kernel goes on",
        strains: Strains::Schedule,
        said: "{who} is paused{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Suspend,
        word: "suspend",
        about: "the machine is suspended; its monotonic clock stops",
        strains: Strains::Schedule,
        said: "{who}'s machine sleeps{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Crash,
        word: "crash",
        about: "the process dies; the machine lives",
        strains: Strains::Life,
        said: "{who}'s process dies, and is down{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::PowerLoss,
        word: "power-loss",
        about: "the machine dies; what was not synced is gone",
        strains: Strains::Life,
        said: "{who} loses power: what was not synced is gone; down{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Restart,
        word: "restart",
        about: "the process dies and starts again at once",
        is_momentary: true,
        strains: Strains::Life,
        said: "{who} is started again.",
        ..PLAIN
    },
    Row {
        plain: || Verb::ClockStep { by: 0 },
        word: "clock-step",
        about: "the wall clock jumps",
        figure: Some("by"),
        is_momentary: true,
        strains: Strains::WallClock,
        said: "{who}'s wall clock steps by {figure}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::ClockRate { ppm: 0 },
        word: "clock-rate",
        about: "all clocks of the host run at another rate",
        figure: Some("ppm"),
        strains: Strains::Rate,
        said: "{who}'s clocks run {figure} fast{until}.",
        ..PLAIN
    },
    Row {
        plain: || Verb::ClockFreeze,
        word: "clock-freeze",
        about: "the wall clock stands still",
        strains: Strains::WallClock,
        said: "{who}'s wall clock stands still{until}.",
        ..PLAIN
    },
    Row {
        plain: || Verb::SlowNode { extra: 0 },
        word: "slow-node",
        about: "each command on the node takes longer",
        figure: Some("extra"),
        acts_on: ActsOn::Node,
        strains: Strains::Speed,
        said: "Each command on {who} takes {figure} longer{until}.",
        ..PLAIN
    },
    Row {
        plain: || Verb::SlowScript { extra: 0 },
        word: "slow-script",
        about: "each script on the node takes longer and blocks it",
        figure: Some("extra"),
        acts_on: ActsOn::Node,
        strains: Strains::Speed,
        said: "Each script on {who} takes {figure} longer{until}.",
        ..PLAIN
    },
    Row {
        plain: || Verb::ReplicaLag { extra: 0 },
        word: "replica-lag",
        about: "messages from other nodes reach the replica later, even after its promotion",
        figure: Some("extra"),
        acts_on: ActsOn::Replica,
        needs: Needs::Replica,
        strains: Strains::Replication,
        said: "Replication to {who} lags by {figure}{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Failover,
        word: "failover",
        about: "the replica is made master by command",
        acts_on: ActsOn::Replica,
        is_momentary: true,
        needs: Needs::FailoverByHand,
        strains: Strains::Lead,
        said: "{who} is made master.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::Evict { key: String::new() },
        word: "evict",
        about: "the node drops a key as if memory had run out",
        figure: Some("key"),
        acts_on: ActsOn::Node,
        is_momentary: true,
        strains: Strains::Keys,
        said: "{who} evicts a key.",
        ..PLAIN
    },
    Row {
        plain: || Verb::Flush,
        word: "flush",
        about: "FLUSHALL on the node",
        acts_on: ActsOn::Node,
        is_momentary: true,
        strains: Strains::Keys,
        said: "{who} is flushed.",
        ..PLAIN
    },
    Row {
        plain: || Verb::LyingDisk,
        word: "lying-disk",
        about: "fsync answers at once and does nothing",
        acts_on: ActsOn::Node,
        needs: Needs::File,
        strains: Strains::Disk,
        said: "{who}'s disk lies about fsync{until}.",
        ..PLAIN
    },
    Row {
        plain: || Verb::TearingDisk,
        word: "tearing-disk",
        about: "a loss of power leaves half of the last write",
        acts_on: ActsOn::Node,
        needs: Needs::AppendOnlyFile,
        strains: Strains::Disk,
        said: "A loss of power would tear what {who} wrote last{until}.",
        is_drawn: true,
        ..PLAIN
    },
    Row {
        plain: || Verb::FullDisk,
        word: "full-disk",
        about: "the disk accepts no more writes",
        acts_on: ActsOn::Node,
        needs: Needs::File,
        strains: Strains::Disk,
        said: "{who}'s disk is full{until}.",
        is_drawn: true,
        ..PLAIN
    },
];

/// The words of all verbs, in the order of the table.
pub fn words() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.word)
}

/// The row of the verb with this word.
pub fn find(word: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.word == word)
}

impl Row {
    /// The verb with this figure; `None` if it takes another kind of figure.
    pub fn verb(&self, figure: Figure) -> Option<Verb> {
        Some(match ((self.plain)(), figure) {
            (Verb::Delay { .. }, Figure::Length(extra)) => Verb::Delay { extra },
            (Verb::Jitter { .. }, Figure::Length(extra)) => Verb::Jitter { extra },
            (Verb::Loss { .. }, Figure::Share(per_million)) => Verb::Loss { per_million },
            (Verb::ClockStep { .. }, Figure::Shift(by)) => Verb::ClockStep { by },
            (Verb::ClockRate { .. }, Figure::Rate(ppm)) => Verb::ClockRate { ppm },
            (Verb::SlowNode { .. }, Figure::Length(extra)) => Verb::SlowNode { extra },
            (Verb::SlowScript { .. }, Figure::Length(extra)) => Verb::SlowScript { extra },
            (Verb::ReplicaLag { .. }, Figure::Length(extra)) => Verb::ReplicaLag { extra },
            (Verb::Evict { .. }, Figure::Key(key)) => Verb::Evict { key },
            (verb, Figure::None) if self.figure.is_none() => verb,
            _ => return None,
        })
    }
}

impl Verb {
    /// The verb's row in the table.
    pub fn row(&self) -> &'static Row {
        &ROWS[self.place()]
    }

    /// The verb's index in the table.
    const fn place(&self) -> usize {
        match self {
            Verb::Partition => 0,
            Verb::Delay { .. } => 1,
            Verb::Jitter { .. } => 2,
            Verb::Loss { .. } => 3,
            Verb::CutReply => 4,
            Verb::Reset => 5,
            Verb::Pause => 6,
            Verb::Suspend => 7,
            Verb::Crash => 8,
            Verb::PowerLoss => 9,
            Verb::Restart => 10,
            Verb::ClockStep { .. } => 11,
            Verb::ClockRate { .. } => 12,
            Verb::ClockFreeze => 13,
            Verb::SlowNode { .. } => 14,
            Verb::SlowScript { .. } => 15,
            Verb::ReplicaLag { .. } => 16,
            Verb::Failover => 17,
            Verb::Evict { .. } => 18,
            Verb::Flush => 19,
            Verb::LyingDisk => 20,
            Verb::TearingDisk => 21,
            Verb::FullDisk => 22,
        }
    }

    /// The verb's figure.
    pub fn figure(&self) -> Figure {
        match self {
            Verb::Delay { extra }
            | Verb::Jitter { extra }
            | Verb::SlowNode { extra }
            | Verb::SlowScript { extra }
            | Verb::ReplicaLag { extra } => Figure::Length(*extra),
            Verb::Loss { per_million } => Figure::Share(*per_million),
            Verb::ClockStep { by } => Figure::Shift(*by),
            Verb::ClockRate { ppm } => Figure::Rate(*ppm),
            Verb::Evict { key } => Figure::Key(key.clone()),
            _ => Figure::None,
        }
    }

    /// The word for the verb in scenarios and on the command line.
    pub fn word(&self) -> &'static str {
        self.row().word
    }
}

#[cfg(test)]
mod tests {
    use super::{Figure, ROWS, find};

    #[test]
    fn every_row_is_that_of_its_verb() {
        for row in &ROWS {
            assert_eq!((row.plain)().word(), row.word);
            assert_eq!(find(row.word).map(|found| found.about), Some(row.about));
        }
        assert!(find("gc").is_none());
    }

    #[test]
    fn a_verb_takes_the_figure_that_it_has_and_no_other() {
        for row in &ROWS {
            let verb = (row.plain)();
            assert_eq!(row.verb(verb.figure()), Some(verb.clone()));
            assert_eq!(row.figure.is_none(), verb.figure() == Figure::None);
            assert_eq!(row.said.contains("{figure}"), row.figure.is_some_and(|key| key != "key"));
            assert_eq!(row.said.contains("{until}"), !row.is_momentary, "{}", row.word);
            let other = if row.figure.is_some() { Figure::None } else { Figure::Rate(1) };
            assert_eq!(row.verb(other), None, "{}", row.word);
        }
    }
}
