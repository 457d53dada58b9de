//! How callers waited for the lock, try by try.

use std::collections::BTreeMap;

use lockstorm_platform::time::Nanos;

use crate::check::case::Case;
use crate::history::{Op, PROBE};
use crate::reading::hold::Hold;
use crate::reading::moment::Moment;

/// One caller's wait.
pub struct Wait<'a> {
    /// The tries, in the order of their calls.
    pub tries: Vec<&'a Op>,
    /// The call of the first try.
    pub from: Moment,
    /// The grant, the death of the process, or the heal.
    pub to: Moment,
    /// Whether it was granted.
    pub granted: bool,
}

impl Wait<'_> {
    /// How long it lasted, ns.
    pub fn length(&self) -> Nanos {
        self.to.at.saturating_sub(self.from.at)
    }
}

/// Every wait that began before `until`.
pub fn waits<'a>(case: &Case<'a>, until: Moment) -> Vec<Wait<'a>> {
    let mut holds: BTreeMap<usize, Vec<&Hold>> = BTreeMap::new();
    for hold in &case.holds {
        holds.entry(hold.owner).or_default().push(hold);
    }
    let mut open: BTreeMap<usize, Wait> = BTreeMap::new();
    let mut over = Vec::new();
    for op in clients_acquires(case).filter(|op| Moment::from(op.call) < until) {
        let (caller, call) = (case.caller(op.id), Moment::from(op.call));
        let own = holds.get(&caller).into_iter().flatten();
        if own.into_iter().any(|hold| hold.start <= call && call < hold.end) {
            continue;
        }
        if open.get(&caller).is_some_and(|wait| wait.to <= call) {
            over.extend(open.remove(&caller));
        }
        let wait = open.entry(caller).or_insert_with(|| {
            let death = case.death_after(&op.process, call).map(|death| death.at);
            let to = death.unwrap_or(Moment::NEVER).min(until);
            Wait { tries: Vec::new(), from: call, to, granted: false }
        });
        wait.tries.push(op);
        let granted = op.ret.map(Moment::from).filter(|_| case.is_granted(op.id));
        if let Some(granted) = granted.filter(|granted| *granted < wait.to) {
            (wait.to, wait.granted) = (granted, true);
            over.extend(open.remove(&caller));
        }
    }
    over.extend(open.into_values());
    over.sort_by_key(|wait| wait.from);
    over
}

/// Every acquire, without those of the probe.
pub fn clients_acquires<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a Op> {
    case.acquires().filter(|op| op.process != PROBE).collect::<Vec<_>>().into_iter()
}
