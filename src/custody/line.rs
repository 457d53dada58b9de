//! The nodes' records as lines of JSON: for each life of a key, each finding, and the judgement.

use lockstorm_platform::time::Nanos;
use serde::Serialize;

use crate::custody::finding::{Certainty, Counts, Finding, Judgement, Kind, Verdict};
use crate::custody::incarnation::{End, Incarnation, ReplyState};

/// One line.
#[derive(Serialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Line<'a> {
    /// One life of a key.
    Owned(Owned<'a>),
    /// A violation.
    Finding { kind: Kind, certainty: Certainty, at: Nanos, what: &'a str, owner: Owned<'a> },
    /// The overall result.
    Judgement { verdict: &'static str, why: Option<&'static str>, is_pooled: bool, counts: Counts },
}

#[derive(Serialize)]
struct Owned<'a> {
    node: &'a str,
    key: String,
    token: Option<String>,
    by: Option<By<'a>>,
    from: Nanos,
    lease_until: Option<Nanos>,
    told: ReplyState,
    refused_others: u64,
    to: Option<Nanos>,
    end: Option<End>,
}

#[derive(Serialize)]
struct By<'a> {
    connection: String,
    nth: u32,
    command: &'a str,
}

impl<'a> Owned<'a> {
    fn of(life: &'a Incarnation) -> Owned<'a> {
        let by = life.by.as_ref().map(|by| By {
            connection: by.request.connection.client.to_string(),
            nth: by.request.nth,
            command: &by.command,
        });
        Owned {
            node: &life.node,
            key: life.key.to_string(),
            token: life.token.as_deref().map(|t| String::from_utf8_lossy(t).into_owned()),
            by,
            from: life.from,
            lease_until: life.lease_until,
            told: life.told,
            refused_others: life.refused,
            to: life.end.map(|(at, _)| at),
            end: life.end.map(|(_, end)| end),
        }
    }
}

/// The line of a life.
pub fn owned(life: &Incarnation) -> String {
    render(&Line::Owned(Owned::of(life)))
}

/// The lines of the findings and of the judgement.
pub fn judgement(judgement: &Judgement) -> Vec<String> {
    let mut lines: Vec<String> = judgement.findings.iter().map(finding).collect();
    let (verdict, why) = match judgement.verdict {
        Verdict::Holds => ("holds", None),
        Verdict::Violated => ("violated", None),
        Verdict::Unknown(why) => ("unknown", Some(why)),
    };
    let (is_pooled, counts) = (judgement.is_pooled, judgement.counts);
    lines.push(render(&Line::Judgement { verdict, why, is_pooled, counts }));
    lines
}

fn finding(finding: &Finding) -> String {
    let Finding { kind, certainty, at, owner, what } = finding;
    let (kind, certainty, at, owner) = (*kind, *certainty, *at, Owned::of(owner));
    render(&Line::Finding { kind, certainty, at, what, owner })
}

fn render(line: &Line) -> String {
    serde_json::to_string(line).expect("plain data can be written as JSON")
}
