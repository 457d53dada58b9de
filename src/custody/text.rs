//! The results for a person.

use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::custody::finding::{Certainty, CustodyFinding, CustodyJudgement, CustodyVerdict};
use crate::custody::life::{CustodyLife, ReplyState};
use crate::length;

/// The maximum number of findings that are listed one by one.
const MAX_LISTED: usize = 20;

/// A judgement as lines: the verdict first, then the findings, then the counts.
pub fn judgement(judgement: &CustodyJudgement) -> Vec<String> {
    let CustodyJudgement { verdict, findings, counts, is_pooled } = judgement;
    let mut lines = vec![match verdict {
        CustodyVerdict::Holds => "holds: nothing wrong was found".to_owned(),
        CustodyVerdict::Violated => format!("violated: {}", kinds(findings)),
        CustodyVerdict::Unknown(why) => format!("unknown: {why}"),
    }];
    lines.extend(findings.iter().take(MAX_LISTED).map(finding));
    let further = findings.len().saturating_sub(MAX_LISTED) as u64 + counts.further;
    if further > 0 {
        lines.push(format!("and {further} more"));
    }
    if findings.iter().any(|finding| finding.certainty == Certainty::ByConnection) {
        lines.push("by connection: so it is if every owner keeps to one connection".to_owned());
    }
    if *is_pooled {
        let why = "owners were seen to use several connections: a connection proves nothing";
        lines.push(why.to_owned());
    }
    lines.push(format!(
        "seen: {} locks taken, {} tries refused, {} faults",
        counts.locks, counts.refused, counts.faults
    ));
    lines
}

fn kinds(findings: &[CustodyFinding]) -> String {
    let sure = findings.iter().filter(|finding| finding.certainty != Certainty::Unproven);
    let mut kinds: Vec<_> = sure.map(|finding| finding.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
}

fn finding(finding: &CustodyFinding) -> String {
    let sure = match finding.certainty {
        Certainty::Proven => "",
        Certainty::ByConnection => " (by connection)",
        Certainty::Unproven => " (unproven)",
    };
    let (kind, at, owner) = (finding.kind.word(), moment(finding.at), owner(&finding.owner));
    format!("{kind}{sure} at {at}: {owner} {}", finding.what)
}

/// A life of a key as the subject of a sentence.
fn owner(life: &CustodyLife) -> String {
    let token = match &life.token {
        Some(token) => format!(" with token '{}'", String::from_utf8_lossy(token)),
        None => String::new(),
    };
    let by = match &life.by {
        Some(by) => format!(
            ", created at {} by {} from {},",
            moment(life.from),
            by.command,
            by.request.connection.client
        ),
        None => String::new(),
    };
    format!("{} '{}'{token}{by}", life.node, life.key)
}

/// A life of a key as one line.
pub fn life(life: &CustodyLife) -> String {
    let lease = match life.ttl {
        Some(ttl) => format!("lease {}", length::write(ttl)),
        None => "no time to live".to_owned(),
    };
    let reply = match life.reply {
        ReplyState::Yes => "",
        ReplyState::Pending => ", creator not answered yet",
        ReplyState::Never => ", creator never answered",
    };
    let end = match life.end {
        Some((at, end)) => format!("{} at {}", end.words(), moment(at)),
        None => "held".to_owned(),
    };
    let refused = match life.refused {
        0 => String::new(),
        count => format!(", {count} tries of others refused"),
    };
    format!("{} {lease}{reply}{refused}: {end}", owner(life))
}

/// A true time since the start, in whole milliseconds.
fn moment(at: Nanos) -> String {
    length::write(at / MILLISECOND * MILLISECOND)
}
