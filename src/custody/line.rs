//! The nodes' records as lines of JSON: for each life of a key, each finding, and the judgement.

use lockstorm_platform::time::Nanos;
use serde::Serialize;

use crate::custody::finding::{
    Certainty, CustodyCounts, CustodyFinding, CustodyJudgement, CustodyKind, CustodyVerdict,
};
use crate::custody::life::{CustodyEnd, CustodyLife, ReplyState};

/// One line.
#[derive(Serialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum CustodyLine<'a> {
    /// One life of a key.
    Owned(Owned<'a>),
    /// A violation.
    Finding { kind: CustodyKind, certainty: Certainty, at: Nanos, what: &'a str, owner: Owned<'a> },
    /// The overall result.
    Judgement {
        verdict: &'static str,
        why: Option<&'static str>,
        is_pooled: bool,
        counts: CustodyCounts,
    },
}

#[derive(Serialize)]
struct Owned<'a> {
    node: &'a str,
    key: String,
    token: Option<String>,
    by: Option<By<'a>>,
    from: Nanos,
    lease_until: Option<Nanos>,
    #[serde(rename = "told")]
    reply: ReplyState,
    refused_others: u64,
    to: Option<Nanos>,
    end: Option<CustodyEnd>,
}

#[derive(Serialize)]
struct By<'a> {
    connection: String,
    nth: u32,
    command: &'a str,
}

impl<'a> Owned<'a> {
    fn of(life: &'a CustodyLife) -> Owned<'a> {
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
            reply: life.reply,
            refused_others: life.refused,
            to: life.end.map(|(at, _)| at),
            end: life.end.map(|(_, end)| end),
        }
    }
}

/// The line of a life.
pub fn owned(life: &CustodyLife) -> String {
    render(&CustodyLine::Owned(Owned::of(life)))
}

/// The lines of the findings and of the judgement.
pub fn judgement(judgement: &CustodyJudgement) -> Vec<String> {
    let mut lines: Vec<String> = judgement.findings.iter().map(finding).collect();
    let (verdict, why) = match judgement.verdict {
        CustodyVerdict::Holds => ("holds", None),
        CustodyVerdict::Violated => ("violated", None),
        CustodyVerdict::Unknown(why) => ("unknown", Some(why)),
    };
    let (is_pooled, counts) = (judgement.is_pooled, judgement.counts);
    lines.push(render(&CustodyLine::Judgement { verdict, why, is_pooled, counts }));
    lines
}

fn finding(finding: &CustodyFinding) -> String {
    let CustodyFinding { kind, certainty, at, owner, what } = finding;
    let (kind, certainty, at, owner) = (*kind, *certainty, *at, Owned::of(owner));
    render(&CustodyLine::Finding { kind, certainty, at, what, owner })
}

fn render(line: &CustodyLine) -> String {
    serde_json::to_string(line).expect("plain data can be written as JSON")
}
