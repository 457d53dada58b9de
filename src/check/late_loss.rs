//! Late loss: a lock that promises to report a loss notified a running caller too late, or never.

use crate::check::case::Case;
use crate::check::verdict::{Kind, Violation};
use crate::reading::moment::Moment;
use crate::reading::tenure::Tenure;

/// One violation for each tenure that outlived its lease while its caller ran. The deadline of a
/// single grant does not matter while another grant covers the caller, nor while the deadline of a
/// re-entry lies ahead that the caller has released meanwhile: it had prolonged the lease of the
/// whole tenure, and the release of an inner grant does not end that. A gap that an extend closes
/// is no loss: the caller has the lock again. If another caller had it in between, the overlap
/// check shows that.
pub fn violations(case: &Case) -> Vec<Violation> {
    if !case.terms.reports_loss {
        return Vec::new();
    }
    case.tenures.iter().filter_map(|tenure| violation(case, tenure)).collect()
}

fn violation(case: &Case, tenure: &Tenure) -> Option<Violation> {
    let hold = &tenure.whole;
    let process = case.op(hold.grant)?.process.as_str();
    let from = running_from(case, process, tenure.lease_end);
    let late = hold.end.at.saturating_sub(from.at);
    if hold.end <= from || late == 0 {
        return None;
    }
    let (from, to) = (from.instant(case.history), hold.end.instant(case.history));
    Some(Violation {
        ops: vec![hold.grant],
        late: Some(late),
        ..Violation::new(Kind::LateLoss, from, to)
    })
}

/// The moment, or the end of the halts of the process that include it.
fn running_from(case: &Case, process: &str, moment: Moment) -> Moment {
    let mut from = moment;
    // Halts are in order of their beginning, so one pass chains those that overlap. Only times are
    // compared, not trace positions: a caller that halts in the same nanosecond has not run.
    for halt in case.halts(process) {
        if halt.from.at <= from.at && from.at < halt.to.at {
            from = halt.to;
        }
    }
    from
}
