//! Members in replies.

use bytes::Bytes;

use crate::frame::{Protocol, Reply};

/// Members in a reply: alternating with their scores, in RESP3 as pairs.
pub fn listed(
    protocol: Protocol,
    members: impl Iterator<Item = (Bytes, f64)>,
    with_scores: bool,
) -> Reply {
    let nested = with_scores && protocol == Protocol::Three;
    Reply::Array(match (with_scores, nested) {
        (_, true) => members.map(pair).collect(),
        (true, _) => {
            members.flat_map(|(m, score)| [Reply::Bulk(m), Reply::Double(score)]).collect()
        }
        _ => members.map(|(member, _)| Reply::Bulk(member)).collect(),
    })
}

/// A member with its score.
pub fn pair((member, score): (Bytes, f64)) -> Reply {
    Reply::Array(vec![Reply::Bulk(member), Reply::Double(score)])
}
