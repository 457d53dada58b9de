//! What was wrong, how sure that is, and what all of it comes to.

use lockstorm_platform::time::Nanos;
use serde::Serialize;

use crate::custody::incarnation::Incarnation;

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Two leases of one key ran at the same time.
    DoubleGrant,
    /// A request removed or overwrote a key that another had created.
    ForeignRelease,
    /// A request changed the time to live of a key that another had created.
    ForeignExtend,
    /// A key that nobody knows of, or that never ends, keeps others out.
    Leak,
}

impl Kind {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::DoubleGrant => "double-grant",
            Kind::ForeignRelease => "foreign-release",
            Kind::ForeignExtend => "foreign-extend",
            Kind::Leak => "leak",
        }
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// What was seen allows nothing else.
    Proven,
    /// So it is if every owner keeps to one connection.
    ByConnection,
    /// It may be innocent.
    Unproven,
}

/// One thing that was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// How sure that is.
    pub certainty: Certainty,
    /// When, in nanoseconds of true time.
    pub at: Nanos,
    /// The key's life that was hurt, or that hurts.
    pub owner: Incarnation,
    /// What happened to it, in a sentence without its subject.
    pub what: String,
}

/// What everything comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing wrong was found.
    Holds,
    /// Something was wrong for certain.
    Violated,
    /// Nothing can be said, and why.
    Unknown(&'static str),
}

/// How much was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Keys' lives that began as locks'.
    pub locks: u64,
    /// Tries that met somebody else's lock.
    pub refused: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Findings beyond those that are kept.
    pub further: u64,
}

/// What can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// In a word.
    pub verdict: Verdict,
    /// What was wrong, in the order in which it was seen.
    pub findings: Vec<Finding>,
    /// How much was seen.
    pub counts: Counts,
    /// Whether some owner was seen to use more than one connection.
    pub is_pooled: bool,
}

impl Judgement {
    /// Weighs what was found. Where owners use several connections, a connection proves nothing.
    pub fn of(mut findings: Vec<Finding>, counts: Counts, is_pooled: bool) -> Judgement {
        if is_pooled {
            for finding in &mut findings {
                if finding.certainty == Certainty::ByConnection {
                    finding.certainty = Certainty::Unproven;
                }
            }
        }
        let worst = findings.iter().map(|finding| finding.certainty).min();
        let verdict = match worst {
            Some(Certainty::Proven | Certainty::ByConnection) => Verdict::Violated,
            Some(Certainty::Unproven) => Verdict::Unknown("what was found may be innocent"),
            None if counts.locks == 0 => Verdict::Unknown("no lock was seen: nothing was tested"),
            None => Verdict::Holds,
        };
        Judgement { verdict, findings, counts, is_pooled }
    }
}
