//! Runs without a breach: its parts are removed, and a node that came back early without its keys
//! comes back later instead, or forgets nothing.

use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

use crate::check::verdict::Kind;
use crate::explore::class::Search;
use crate::explore::knob::{Knob, turned};
use crate::explore::rerun::RunOutcome;
use crate::ledger::breach::Breach;
use crate::ledger::part::{Part, Parts, without};
use crate::promise::Bounded;

/// What replaces a node that came back early without its keys.
#[derive(Clone, Copy)]
enum Instead {
    /// Its disk is written before each reply.
    Synced,
    /// It stays down for this much longer than the bound.
    Late(Nanos),
}

/// A downtime just beyond the bound is tried too: a longer one may prevent something else.
fn ways() -> [Instead; 3] {
    [Instead::Late(MILLISECOND), Instead::Late(SECOND), Instead::Synced]
}

impl Search<'_, '_> {
    /// Whether a kind disappears without these breaches.
    pub(super) fn goes(&mut self, breaches: &[Breach], set: &[usize], kind: Kind) -> bool {
        let set: Vec<Breach> = set.iter().map(|index| breaches[*index].clone()).collect();
        let out: Parts = set.iter().flat_map(|breach| breach.parts.iter().copied()).collect();
        // All must agree: a node that is down for long may have nothing left that can be violated.
        let goes_so = ways().into_iter().all(|instead| {
            let outcome = self.outcome_without_forgetting(&set, instead);
            outcome.is_none_or(|outcome| !outcome.kinds.contains(&kind))
        });
        goes_so && !self.outcome(&out).kinds.contains(&kind)
    }

    /// The outcome without these breaches, in which nodes forget nothing but do go down: `None` if
    /// none of them forgot, if that is impossible, or if it breaches what the plan does not, with
    /// or without the plan's other breaches.
    fn outcome_without_forgetting(
        &mut self,
        breaches: &[Breach],
        instead: Instead,
    ) -> Option<RunOutcome> {
        let is_early = |breach: &&Breach| breach.what == Bounded::AmnesiacRestart;
        let (early, others): (Vec<&Breach>, Vec<&Breach>) = breaches.iter().partition(is_early);
        let mine = parts_in(&early);
        let is_shared = |breach: &&Breach| breach.parts.iter().any(|part| mine.contains(part));
        let own = self.breaches.clone();
        let (shared, beside): (Vec<&Breach>, Vec<&Breach>) = own.iter().partition(is_shared);
        let alone = self.remembering(&early, &parts_in(&beside), instead)?;
        let outcome = self.remembering(&early, &parts_in(&others), instead)?;
        let counts = !outcome.is_unknown && adds_nothing(&outcome, &own.iter().collect::<Vec<_>>());
        // A longer outage must not bring back, in another way, what was to be removed.
        let removes_all = |what: Bounded| {
            let mut all = own.iter().filter(|breach| breach.what == what);
            all.all(|breach| others.iter().any(|other| other.parts == breach.parts))
        };
        let brings_back = outcome.breaches.iter().any(|breach| {
            others.iter().any(|other| other.what == breach.what) && removes_all(breach.what)
        });
        (counts && !brings_back && adds_nothing(&alone, &shared)).then_some(outcome)
    }

    /// The outcome without some parts, in which nodes do not come back early without their keys.
    fn remembering(
        &mut self,
        early: &[&Breach],
        out: &Parts,
        instead: Instead,
    ) -> Option<RunOutcome> {
        let Instead::Late(more) = instead else {
            let is_other = !early.is_empty() && self.forgets;
            return is_other.then(|| self.outcome(&(out | &[Part::Persistence].into())).clone());
        };
        let mut plan = without(self.plan, out, &self.struck);
        let mut is_later = false;
        for breach in early {
            for part in breach.parts.iter().filter(|part| !out.contains(part)) {
                let to = breach.bound.saturating_add(more).try_into().ok()?;
                let fault = plan.faults.iter().find(|fault| Some(fault.id) == part.fault())?;
                let (true, Some(_)) = (fault.verb.kills(), fault.length) else { return None };
                let knob = Knob::Lasts(fault.id);
                plan = turned(self.reruns.lab(), (&plan, &self.struck), &knob, to)?;
                is_later = true;
            }
        }
        is_later.then(|| self.reruns.outcome(&plan).clone())
    }

    /// The same if such nodes come back a second later than they must.
    pub(super) fn outcome_with_late_returns(&mut self, breaches: &[Breach]) -> Option<RunOutcome> {
        self.outcome_without_forgetting(breaches, Instead::Late(SECOND))
    }

    /// Whether a run without these breaches, in which nodes forget nothing, keeps every assumption
    /// and violates the kind.
    pub(super) fn is_shown_without(&mut self, breaches: &[Breach], kind: Kind) -> bool {
        let shows =
            |outcome: &RunOutcome| outcome.breaches.is_empty() && outcome.kinds.contains(&kind);
        let out: Parts = breaches.iter().flat_map(|breach| breach.parts.iter().copied()).collect();
        let is_so = |search: &mut Self, instead| {
            search.outcome_without_forgetting(breaches, instead).is_some_and(|found| shows(&found))
        };
        shows(self.outcome(&out)) || ways().into_iter().any(|instead| is_so(self, instead))
    }
}

fn parts_in(breaches: &[&Breach]) -> Parts {
    breaches.iter().flat_map(|breach| breach.parts.iter().copied()).collect()
}

/// Whether in a run no node forgets keys and no breach is new.
fn adds_nothing(outcome: &RunOutcome, known: &[&Breach]) -> bool {
    outcome.breaches.iter().all(|breach| {
        let is_known = known.iter().any(|known| known.what == breach.what);
        breach.what != Bounded::AmnesiacRestart && is_known
    })
}
