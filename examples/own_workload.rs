//! A workload and a check of one's own: the lock guards the sale of tickets for one concert, each
//! with a number. What must be true is for the two checks to say: no number is sold twice, and
//! nobody waits longer than five seconds for the lock.

use std::process::ExitCode;

use lockstorm::own::{
    AccessKind, Case, Check, CriticalSection, Findings, Finished, HuntTest, Nanos, OpKind, Outcome,
    Round, SECOND, TopologyKind, Violation, async_trait, base_plan, hunt_from,
};

/// The tickets of the concert.
const TICKETS: i64 = 10;

/// Sells the next ticket, if there is one. The resource keeps the number of the last one sold.
struct SellTicket;

#[async_trait(?Send)]
impl CriticalSection for SellTicket {
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        let Some(sold) = round.read().await else { return Ok(()) };
        if sold < TICKETS {
            round.work().await?;
            round.write(sold + 1, sold).await;
        }
        Ok(())
    }
}

/// No ticket is sold twice. A check without figures of its own is a function.
fn sold_once(case: &Case<'_>) -> Findings {
    let accesses = &case.history.accesses;
    let sales: Vec<usize> = (0..accesses.len())
        .filter(|index| accesses[*index].accepted && accesses[*index].kind == AccessKind::Write)
        .collect();
    let again = sales.iter().enumerate().filter_map(|(nth, second)| {
        let ticket = accesses[*second].value;
        let first = sales[..nth].iter().find(|first| accesses[**first].value == ticket)?;
        let (one, other) = (&accesses[*first], &accesses[*second]);
        let sentence = format!("{} and {} both sold ticket {ticket}", one.caller, other.caller);
        Some(Violation {
            ops: vec![one.op, other.op],
            accesses: vec![*first, *second],
            ..Violation::own(sentence, one.at, other.at)
        })
    });
    again.collect::<Vec<_>>().into()
}

/// No acquire that is granted took longer than this, ns.
struct WaitsAtMost(Nanos);

impl Check for WaitsAtMost {
    fn findings(&self, case: &Case<'_>) -> Findings {
        let granted = case.history.ops.iter().filter(|op| {
            op.kind == OpKind::Acquire && matches!(op.outcome, Outcome::Granted { .. })
        });
        let late = granted.filter_map(|op| {
            let (call, ret) = (op.call.instant(), op.ret?.instant());
            let waited = ret.at - call.at;
            let sentence =
                format!("{} waited for {} ms in one acquire", op.caller, waited / 1_000_000);
            (waited > self.0)
                .then(|| Violation { ops: vec![op.id], ..Violation::own(sentence, call, ret) })
        });
        late.collect::<Vec<_>>().into()
    }
}

/// A lock of the catalogue under this workload; a lock of one's own works in the same way.
fn quarry(lock: &str) -> HuntTest {
    let hunt = hunt_from(base_plan(lock, TopologyKind::Single));
    let hunt = hunt.workload("tickets", SellTicket).check("sold-once", sold_once);
    hunt.check("waits-at-most-5s", WaitsAtMost(5 * SECOND)).seeds(1..=300)
}

fn main() -> ExitCode {
    quarry("setnx-expire").report()
}

#[test]
fn a_correct_lock_sells_no_ticket_twice_within_its_assumptions() {
    assert!(quarry("token-lua").within_assumptions().holds().struck_in_hold > 100);
}

#[test]
fn without_a_lock_a_ticket_is_sold_twice() {
    let finding = quarry("none").finds();
    let signature = finding.signature.expect("it is violated");
    assert_eq!(signature.checks, ["sold-once"]);
}
