//! What was wrong, how certain that is, and the verdict.

use lockstorm_platform::time::Nanos;
use serde::Serialize;

use crate::custody::life::CustodyLife;

/// The kinds of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CustodyKind {
    /// Two leases of one key ran at the same time.
    DoubleGrant,
    /// A request removed or overwrote a key that another client had created.
    ForeignRelease,
    /// A request changed the time to live of a key that another client had created.
    ForeignExtend,
    /// A key without a known owner or without an expiry blocks other callers.
    Leak,
}

impl CustodyKind {
    /// The name of the kind.
    pub fn word(self) -> &'static str {
        match self {
            CustodyKind::DoubleGrant => "double-grant",
            CustodyKind::ForeignRelease => "foreign-release",
            CustodyKind::ForeignExtend => "foreign-extend",
            CustodyKind::Leak => "leak",
        }
    }
}

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// The evidence allows no other explanation.
    Proven,
    /// The finding is true if every owner uses only one connection.
    ByConnection,
    /// The request may be innocent.
    Unproven,
}

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustodyFinding {
    /// The kind.
    pub kind: CustodyKind,
    /// How certain it is.
    pub certainty: Certainty,
    /// When it happened, in nanoseconds of true time.
    pub at: Nanos,
    /// The key's life that was harmed, or that harms others.
    pub owner: CustodyLife,
    /// What happened to it, in a sentence without its subject.
    pub what: String,
}

/// The overall result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustodyVerdict {
    /// Nothing wrong was found.
    Holds,
    /// At least one finding is certain.
    Violated,
    /// No conclusion is possible, with the reason.
    Unknown(&'static str),
}

/// How much was observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CustodyCounts {
    /// Keys' lives that were created as locks.
    pub locks: u64,
    /// Attempts refused because another client held the lock.
    pub refused: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Findings beyond those that are kept.
    pub further: u64,
}

/// The verdict, with its evidence and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustodyJudgement {
    /// The verdict.
    pub verdict: CustodyVerdict,
    /// What was wrong, in the order of observation.
    pub findings: Vec<CustodyFinding>,
    /// How much was observed.
    pub counts: CustodyCounts,
    /// Whether an owner was observed to use more than one connection.
    pub is_pooled: bool,
}

impl CustodyJudgement {
    /// Derives the verdict. If owners use several connections, a connection proves nothing.
    pub fn of(
        mut findings: Vec<CustodyFinding>,
        counts: CustodyCounts,
        is_pooled: bool,
    ) -> CustodyJudgement {
        if is_pooled {
            for finding in &mut findings {
                if finding.certainty == Certainty::ByConnection {
                    finding.certainty = Certainty::Unproven;
                }
            }
        }
        let worst = findings.iter().map(|finding| finding.certainty).min();
        let verdict = match worst {
            Some(Certainty::Proven | Certainty::ByConnection) => CustodyVerdict::Violated,
            Some(Certainty::Unproven) => CustodyVerdict::Unknown("what was found may be innocent"),
            None if counts.locks == 0 => {
                CustodyVerdict::Unknown("no lock was seen: nothing was tested")
            }
            None => CustodyVerdict::Holds,
        };
        CustodyJudgement { verdict, findings, counts, is_pooled }
    }
}
