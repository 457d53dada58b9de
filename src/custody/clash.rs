//! Leases of one key that run at the same time.
//!
//! With a quorum of one, a key's life clashes with any earlier life whose lease still runs without
//! a release: the key was lost, dropped, overwritten, or expired on a clock that stepped. With a
//! larger quorum, two tokens clash if each had a majority.

use std::collections::BTreeMap;

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::{HostId, KeyName, Request};

use crate::custody::finding::{Certainty, CustodyFinding, CustodyKind};
use crate::custody::life::{CustodyEnd, CustodyLife, ReplyState};
use crate::custody::state::Custody;
use crate::length;

impl Custody {
    /// Checks whether another lease runs when the creator of a life has just received its reply.
    pub(super) fn look_for_clash(
        &mut self,
        host: HostId,
        key: &KeyName,
        birth: Request,
        at: Nanos,
    ) {
        let life = self.nodes.get(&host).and_then(|book| book.living.get(key));
        let Some(life) = life.filter(|life| life.birth() == Some(birth)).cloned() else { return };
        if self.terms.quorum > 1 {
            self.look_for_majorities(key, &life, at);
            return;
        }
        let earlier: Vec<CustodyLife> =
            self.others(key, &life).into_iter().filter(|other| clashes(other, &life)).collect();
        for other in earlier {
            let certainty = certainty(&other, &life);
            let what = overlap(&other, &life);
            self.find(CustodyFinding {
                kind: CustodyKind::DoubleGrant,
                certainty,
                at,
                owner: other,
                what,
            });
        }
    }

    /// Lives of the same key that ended too early, or that exist on another node.
    fn others(&self, key: &KeyName, life: &CustodyLife) -> Vec<CustodyLife> {
        let past = self.pasts.get(key).map(|past| past.running.clone()).unwrap_or_default();
        let elsewhere = self.nodes.values().filter_map(|book| book.living.get(key));
        let mut others = past;
        others.extend(elsewhere.cloned());
        others.retain(|other| other.birth() != life.birth());
        others.sort_by_key(|other| other.from);
        others.dedup_by_key(|other| other.birth());
        others
    }

    /// Checks whether the token of `life` has just reached a majority while another token has one.
    fn look_for_majorities(&mut self, key: &KeyName, life: &CustodyLife, at: Nanos) {
        let quorum = self.terms.quorum;
        let Some(token) = life.token.clone() else { return };
        let mut by_token: BTreeMap<Vec<u8>, Vec<CustodyLife>> = BTreeMap::new();
        let past = self.pasts.get(key).map(|past| past.running.clone()).unwrap_or_default();
        let living = self.nodes.values().filter_map(|book| book.living.get(key)).cloned();
        for one in past.into_iter().chain(living) {
            let granted = one.reply == ReplyState::Yes && one.runs(at);
            if let (true, Some(token)) = (granted, one.token.clone()) {
                by_token.entry(token).or_default().push(one);
            }
        }
        let nodes = |lives: &[CustodyLife]| {
            lives.iter().map(|life| &life.node).collect::<std::collections::BTreeSet<_>>().len()
        };
        let mine = by_token.remove(&token).unwrap_or_default();
        // Equal to the quorum and not above it: a majority that grows further was already checked.
        if nodes(&mine) != quorum {
            return;
        }
        for lives in by_token.into_values() {
            let given_up = lives.iter().any(|life| life.is_released);
            if given_up || nodes(&lives) < quorum {
                continue;
            }
            let owner = lives.iter().find(|life| life.end.is_some()).unwrap_or(&lives[0]).clone();
            let what = format!("has a majority that was not given up: {}", overlap(&owner, life));
            let certainty = Certainty::Proven;
            self.find(CustodyFinding {
                kind: CustodyKind::DoubleGrant,
                certainty,
                at,
                owner,
                what,
            });
        }
    }
}

/// Whether the earlier lease still runs when the later one begins, without having been released.
fn clashes(earlier: &CustodyLife, later: &CustodyLife) -> bool {
    let given_up = earlier.is_released
        || matches!(earlier.end, Some((_, CustodyEnd::Released | CustodyEnd::Removed)));
    earlier.reply == ReplyState::Yes
        && !given_up
        && earlier.from < later.from
        && earlier.runs(later.from)
        && earlier.connection() != later.connection()
}

/// Different tokens prove a clash; equal tokens prove it only if they come from two open
/// connections.
fn certainty(earlier: &CustodyLife, later: &CustodyLife) -> Certainty {
    let rests_on_connection = matches!(earlier.end, Some((_, CustodyEnd::ForeignRelease)));
    let differ = earlier.token.is_some() && later.token.is_some() && earlier.token != later.token;
    match (differ, earlier.is_alone || earlier.by.is_none()) {
        (true, _) if !rests_on_connection => Certainty::Proven,
        (true, _) | (false, false) => Certainty::ByConnection,
        (false, true) => Certainty::Unproven,
    }
}

fn overlap(earlier: &CustodyLife, later: &CustodyLife) -> String {
    let left = match earlier.left(later.from) {
        Some(left) => format!("with at least {} left of its lease", length::write(whole_ms(left))),
        None => "with a lease that has no end".to_owned(),
    };
    let how = earlier.end.map_or("not on that node", |(_, end)| end.words());
    let token = later.token.as_deref().map(|token| String::from_utf8_lossy(token).into_owned());
    format!(
        "was {how} {left}, when '{}' was granted on {} to {}",
        token.unwrap_or_default(),
        later.node,
        later.connection().map_or(String::new(), |c| c.client.to_string()),
    )
}

fn whole_ms(length: Nanos) -> Nanos {
    length / 1_000_000 * 1_000_000
}
