//! Keys that their lock keeps after a release, as it promises: see [`crate::check::leak`].

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};

use crate::check::case::Case;
use crate::check::leak::leftover::changes;
use crate::history::{Key, OpId};
use crate::reading::key_life::KeyLife;
use crate::reading::moment::Moment;

/// Until when the key of a released grant stays as its lock promises: for as long as its node's
/// clock says, if the release left it no more than the rest of the promised time. That time counts
/// from the grant, on whichever clock of its caller is behind most.
pub fn kept_until(case: &Case, key: &KeyLife, owner: OpId) -> Moment {
    let Some(granted) = case.op(owner).filter(|_| case.terms.kept > 0).and_then(|op| op.ret) else {
        return Moment::default();
    };
    let release = |id: OpId| case.releases(owner).find(|release| release.id == id);
    let changes = changes(case, key);
    let kept = changes.iter().rev().find_map(|change| Some((change, release(change.by?)?)));
    let Some((change, release)) = kept else { return Moment::default() };
    let (from, to) = (granted.readings(), release.call.readings());
    let passed = |clock| to.of(clock).saturating_sub(from.of(clock));
    let passed = [Clock::Wall, Clock::Monotonic, Clock::Boot].map(passed).into_iter().min();
    let rest = case.terms.kept.saturating_sub(passed.unwrap_or(0));
    match lasts(case, change) <= rest.saturating_add(MILLISECOND) {
        true => Moment::NEVER,
        false => Moment::default(),
    }
}

/// The time to live that a change left to a key, by the clock of its node.
fn lasts(case: &Case, change: &Key) -> Nanos {
    let now = case.clocks.line(&change.node, Clock::Wall, change.at.into());
    let until = change.until_ms.map_or(Nanos::MAX, |until| until.saturating_mul(MILLISECOND));
    now.map_or(Nanos::MAX, |now| until.saturating_sub(now.at(change.at.at)))
}
