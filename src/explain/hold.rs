//! Holds for presentation: with their acquires, in trace positions and true times. The reading
//! defines what holds are and what covers them.

use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Clock, Instant, MILLISECOND, Nanos};
use lockstorm_platform::trace::Leg;

use crate::history::{History, Op, OpId, Outcome, Request};
use crate::reading::history::Reading;
use crate::reading::hold::{self, HoldEnd};

/// A caller's belief that it owns the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryHold<'a> {
    /// The acquire that was granted.
    pub grant: &'a Op,
    /// When the acquire returned.
    pub from: Instant,
    /// When the belief ended.
    pub until: Instant,
    /// What ended it.
    pub end: HoldEnd,
    /// When its clock reaches the granted deadline, whatever happens to the clock.
    pub lease: Option<Nanos>,
    /// Stretches of true time in which its clock had not reached its deadline.
    pub covered: Vec<(Nanos, Nanos)>,
}

impl StoryHold<'_> {
    /// When it last ceased to be covered, if that was before it ended.
    pub fn bare_from(&self) -> Option<Nanos> {
        let last = self.covered.last().map_or(self.from.at, |(_, end)| *end);
        (last < self.until.at).then_some(last)
    }

    /// When the lease that its caller knew of at an instant ends: the longest of the granted one
    /// and of those of the extends that had returned as kept. An extend of a re-entry counts too.
    pub fn known_lease(&self, reading: &Reading<'_>, at: Instant) -> Option<Nanos> {
        let grants = reading.together(self.grant.id);
        let ops = grants.into_iter().flat_map(|grant| reading.ops_of(grant));
        let returned = ops.filter(|op| op.ret.is_some_and(|ret| ret.instant() <= at));
        let leases = returned.filter_map(|op| match op.outcome {
            Outcome::Kept { deadline } => reaches(reading, op, deadline?),
            _ => None,
        });
        leases.max().max(self.lease)
    }
}

/// When the caller of an operation reaches a deadline by its clock, from the call on.
fn reaches(reading: &Reading<'_>, op: &Op, (clock, deadline): (Clock, Nanos)) -> Option<Nanos> {
    let over = reading.clocks.reaches(&op.process, clock, op.call.into(), deadline);
    over.map(|over| over.at)
}

/// A command that takes at least this long to reach its node is called late.
const LATE: Nanos = 100 * MILLISECOND;

/// How long a command was on its way to its node, if it was late.
pub fn late_by(request: &Request) -> Option<Nanos> {
    let (sent, applied) = (request.at(Leg::Sent)?, request.at(Leg::Applied)?);
    Some(applied.at.saturating_sub(sent.at)).filter(|took| *took >= LATE)
}

/// When the link of a request was whole again, if the request was sent while a partition cut that
/// link, and came afterwards: it was sent again then.
pub fn sent_again(history: &History, request: &Request) -> Option<Instant> {
    let (sent, applied) = (request.at(Leg::Sent)?, request.at(Leg::Applied)?);
    let is_on = |target: &Target| match target {
        Target::Host(_) => false,
        Target::Links { from, to, both } => {
            let has = |hosts: &[String], host: &str| hosts.iter().any(|own| own == host);
            let (one, other) = (request.from.as_str(), request.to.as_str());
            has(from, one) && has(to, other) || *both && has(to, one) && has(from, other)
        }
    };
    let cuts = history.fault_intervals.iter().filter(|c| c.verb == Verb::Partition);
    let cuts = cuts.filter(|cut| is_on(&cut.target) && cut.from <= sent);
    let whole = cuts.filter_map(|cut| cut.to).filter(|whole| sent < *whole && *whole <= applied);
    whole.max()
}

/// Every hold, in order of its beginning.
pub fn holds<'a>(reading: &Reading<'a>) -> Vec<StoryHold<'a>> {
    reading.holds.iter().filter_map(|hold| shown(reading, hold)).collect()
}

/// Every tenure as one hold, in order of its beginning.
pub fn tenures<'a>(reading: &Reading<'a>) -> Vec<StoryHold<'a>> {
    reading.tenures.iter().filter_map(|tenure| shown(reading, &tenure.whole)).collect()
}

fn shown<'a>(reading: &Reading<'a>, hold: &hold::Hold) -> Option<StoryHold<'a>> {
    let (history, grant) = (reading.history, reading.op(hold.grant)?);
    Some(StoryHold {
        grant,
        from: hold.start.instant(history),
        until: hold.end.instant(history),
        end: hold.ended,
        lease: deadline(grant).and_then(|deadline| reaches(reading, grant, deadline)),
        covered: hold.covered.iter().map(|(from, to)| (from.at, to.at)).collect(),
    })
}

fn deadline(grant: &Op) -> Option<(Clock, Nanos)> {
    match grant.outcome {
        Outcome::Granted { deadline, .. } => deadline,
        _ => None,
    }
}

/// The operation with this number.
pub fn op(history: &History, id: OpId) -> Option<&Op> {
    history.ops.binary_search_by_key(&id, |op| op.id).ok().map(|index| &history.ops[index])
}
