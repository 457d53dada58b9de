//! The deadlines that a holder knew, and the fault behind a clock that went wrong.

use lockstorm_platform::time::{Clock, Line, Nanos};
use lockstorm_platform::trace::KeyChange;

use crate::explain::evidence::Evidence;
use crate::explain::hold::StoryHold;
use crate::explain::witness::Witness;
use crate::history::{FaultInterval, Op, OpId, Outcome};
use crate::reading::moment::Moment;

/// What disturbed the clocks of a host between two moments.
pub fn disturbed(
    witness: &Witness<'_>,
    host: &str,
    (from, to): (Moment, Moment),
) -> Option<Evidence> {
    let fault_intervals = witness.history().fault_intervals.iter().enumerate();
    let is_between = |interval: &FaultInterval| {
        Moment::from(interval.from) < to
            && interval.to.is_none_or(|over| Moment::from(over) >= from)
    };
    let mut own = fault_intervals.filter(|(_, c)| c.strikes(host) && c.verb.disturbs_clocks());
    own.find(|(_, interval)| is_between(interval)).map(|(index, _)| Evidence::FaultInterval(index))
}

/// The extends, releases and losses of a tenure.
pub fn ops<'a>(witness: &Witness<'a>, hold: &StoryHold<'_>) -> Vec<&'a Op> {
    let all = witness.reading.together(hold.grant.id);
    all.into_iter().flat_map(|grant| witness.reading.ops_of(grant)).collect()
}

/// A grant or a renewal whose reply the holder of a tenure received, and its deadline if it names
/// one.
pub struct KnownDeadline {
    pub ret: Moment,
    pub call: Moment,
    pub deadline: Option<(Clock, Nanos)>,
}

/// The grants and renewals that the holder of a tenure knew of at a moment, and that concern a key
/// which was gone by `gone`: a nested grant that set its key later has another one.
pub fn deadlines(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    (gone, at): (Moment, Moment),
) -> Vec<KnownDeadline> {
    let mut grants = witness.reading.together(hold.grant.id);
    let is_of_key = |grant: OpId| {
        let (keys, lock_key) = (&witness.history().keys, witness.reading.lock_key);
        let mut set = keys.iter().filter(|key| {
            key.by == Some(grant) && key.key == lock_key && key.change == KeyChange::Set
        });
        let is_own = gone == Moment::default() || grant == hold.grant.id;
        is_own || !set.any(|key| Moment::from(key.at) >= gone)
    };
    grants.retain(|grant| is_of_key(*grant));
    let ops = grants.iter().flat_map(|grant| witness.reading.ops_of(*grant));
    let mut all: Vec<&Op> = ops.collect();
    all.extend(grants.into_iter().filter_map(|grant| witness.reading.op(grant)));
    let deadlines = all.into_iter().filter_map(|op| match op.outcome {
        Outcome::Granted { deadline, .. } | Outcome::Kept { deadline } => {
            Some(KnownDeadline { ret: op.ret?.into(), call: op.call.into(), deadline })
        }
        _ => None,
    });
    deadlines.filter(|deadlines| deadlines.ret <= at).collect()
}

/// A deadline that a holder knew of, and the holder's clock at the call that brought it.
pub struct Known {
    pub call: Moment,
    line: Line,
    deadline: Nanos,
}

impl Known {
    /// When a clock at its true rate and without steps would have reached the deadline.
    pub fn over(&self) -> Nanos {
        let lasts = self.deadline.saturating_sub(self.line.at(self.call.at));
        self.call.at.saturating_add(lasts)
    }

    /// Whether the holder's clock, had it gone on as at the call, would have reached the deadline
    /// by a moment. False unless this other clock goes at the same rate.
    pub fn is_over_beside(&self, other: Option<Line>, at: Moment) -> bool {
        let goes_alike = other.is_some_and(|other| other.rate_ppm == self.line.rate_ppm);
        goes_alike && self.line.reaches(self.deadline).is_some_and(|end| end <= at.at)
    }
}

/// The deadlines that the holder of a tenure knew of at a moment, for a key that was gone by
/// `gone`. `None` if a grant or a renewal named no deadline.
pub fn known(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    (gone, at): (Moment, Moment),
) -> Option<Vec<Known>> {
    let process = &hold.grant.process;
    let known = deadlines(witness, hold, (gone, at)).into_iter().map(|deadlines| {
        let (clock, deadline) = deadlines.deadline?;
        let line = witness.reading.clocks.line(process, clock, deadlines.call)?;
        Some(Known { call: deadlines.call, line, deadline })
    });
    known.collect()
}
