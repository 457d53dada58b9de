//! What nobody can have been told of: a second reading of it, from the changes of keys and the
//! replies alone.

use lockstorm::history::{History, Key, OpId, Seen};
use lockstorm_platform::time::{Clock, Instant, MILLISECOND};
use lockstorm_platform::trace::{KeyChange, Leg};

/// A key: who set it, and its expiry.
type State = Option<(Option<OpId>, Option<u64>)>;

/// Whether a key is, after a start at the place of a change, as it was when its node last replied
/// to anybody: with that the node undid only what no reply had followed. What came from a master
/// that may have replied is another matter.
pub fn is_as_last_replied(history: &History, start: &Key) -> bool {
    let replied = last_reply(history, &start.node, start.at);
    let own = || {
        let keys = history.keys.iter();
        keys.filter(|key| key.node == start.node && key.key == start.key)
    };
    let state = |until: u64| own().take_while(|key| key.at.seq <= until).fold(None, after);
    let mut since = own().filter(|key| replied < key.at.seq && key.at.seq < start.at.seq);
    if since.any(|key| is_copy(history, key)) {
        return false;
    }
    let (then, now): (State, State) = (state(replied), state(start.at.seq));
    let has_run_out = |until: u64| {
        let mut pieces = history.clocks.iter().rev();
        let wall = pieces.find(|piece| {
            let is_it = piece.host == start.node && piece.clock == Clock::Wall;
            is_it && piece.from.seq <= start.at.seq
        });
        wall.is_some_and(|piece| until < piece.line.at(start.at.at) / MILLISECOND)
    };
    let was_over = then.and_then(|(_, until)| until).is_some_and(has_run_out);
    then == now || was_over && now.is_none()
}

fn after(state: State, key: &Key) -> State {
    match key.change {
        KeyChange::Set => Some((key.by, key.until_ms)),
        KeyChange::Changed | KeyChange::Extended => {
            Some((state.and_then(|(by, _)| by), key.until_ms))
        }
        _ => None,
    }
}

/// When a node last replied before an instant, by the place in the trace. That it is loading tells
/// nobody anything.
fn last_reply(history: &History, node: &str, before: Instant) -> u64 {
    let requests = history.requests.iter().filter(|request| request.to == node);
    let spoke = requests.filter(|request| request.answer.as_deref() != Some("LOADING"));
    let replies = spoke.flat_map(|request| &request.legs);
    let replies = replies.filter(|(leg, at)| *leg == Leg::Replied && at.seq < before.seq);
    replies.map(|(_, at)| at.seq).max().unwrap_or(0)
}

/// Whether a change came from the node's master.
fn is_copy(history: &History, key: &Key) -> bool {
    let mut roles = history.sightings.iter().rev().filter(|seen| seen.by == key.node);
    let role = roles
        .find(|seen| matches!(seen.what, Seen::Leads | Seen::Follows) && seen.at.seq <= key.at.seq);
    role.is_some_and(|seen| seen.what == Seen::Follows)
}
