//! How well callers were served, as a table of what the checks measured.

use lockstorm_platform::time::Nanos;

use crate::check::availability::reason::{Reason, Share};
use crate::check::availability::{CallerWaits, Unavailable, Waits};
use crate::explain::finding::Finding;
use crate::plan::TopologyKind;
use crate::quantity::{count, length, list, moment, thousandths};
use crate::report::content::Table;

/// The maximum number of callers that are named.
const NAMED: usize = 3;

/// Grants, waits, and the longest time in which no caller acquired the lock.
pub fn table(finding: &Finding) -> Table {
    let served = &finding.judgement.availability;
    let calm = served.grants_per_minute_without_faults;
    let calm = calm.map_or_else(String::new, |calm| format!(", without faults {calm}"));
    let out = served.unavailable.as_ref();
    let each = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), thousandths);
    let share = |number: u32| format!("{} %", thousandths(u64::from(number) * 100));
    let rows = [
        ("grants a minute", format!("{}{calm}", served.grants_per_minute)),
        ("longest time unavailable", out.map_or_else(never, |out| stretch(finding, out))),
        ("time from the first try to the grant", waits(&served.waits)),
        ("longest waits", longest(&served.waits)),
        ("acquires refused", share(served.refused)),
        ("acquires with unknown outcome", share(served.unknown)),
        ("tries for each grant", each(served.tries_per_grant)),
        ("requests for each grant", each(served.requests_per_grant)),
    ];
    let row = |(what, value): (&str, String)| vec![what.to_owned(), value];
    let key =
        served.key.as_ref().map(|key| format!("{key}, the one that was unavailable for longest"));
    let rows = key.map(|key| ("of the locks", key)).into_iter().chain(rows).map(row);
    Table { head: vec!["until the faults were healed", ""], rows: rows.collect() }
}

fn never() -> String {
    "never: each caller that wanted the lock got it, or another held it".to_owned()
}

fn stretch(finding: &Finding, out: &Unavailable) -> String {
    let (from, to) = (moment(out.from.at), moment(out.to.at));
    format!("{}, from {from} to {to}: {}", length(out.length()), why(finding, out))
}

/// Why no caller acquired the lock, in words: each reason that took a thousandth of the callers'
/// time.
fn why(finding: &Finding, out: &Unavailable) -> String {
    let all: Nanos = out.reasons.iter().map(|share| share.spent).sum();
    let each = out.reasons.iter().filter_map(|share| {
        let words = words(finding, share);
        // Rounded down, so that only a reason that took all of the time has the whole share.
        match u128::from(share.spent) * 1_000 / u128::from(all.max(1)) {
            0 => None,
            1_000 => Some(words),
            part => Some(format!("{words} ({} %)", thousandths(part as u64 * 100))),
        }
    });
    let said = each.collect::<Vec<_>>().join("; ");
    if out.reasons.len() > 1 { format!("{said}, in shares of the callers' time") } else { said }
}

fn words(finding: &Finding, share: &Share) -> String {
    let owner = share.owner.and_then(|owner| finding.history.ops.get(owner as usize));
    let owner = owner.map(|op| op.caller.as_str());
    match (share.reason, owner) {
        (Reason::DeadHolder, Some(who)) => format!("the key of {who}, whose process had died"),
        (Reason::DeadHolder, None) => "the key of a process that had died".to_owned(),
        (Reason::Unowned, Some(who)) => format!("a key that {who} had set and no longer owned"),
        (Reason::Unowned, None) => "a key that nobody owned".to_owned(),
        (Reason::Releasing, Some(who)) => format!("the key of {who}, whose release was under way"),
        (Reason::Releasing, None) => "a key whose release was under way".to_owned(),
        (Reason::NoMaster, _) => match finding.plan.topology.kind {
            TopologyKind::Independent => "fewer nodes led than a quorum".to_owned(),
            TopologyKind::Cluster => "no node led the slot of the lock".to_owned(),
            _ => "no node led".to_owned(),
        },
        (Reason::Declined, _) => "nodes answered with an error".to_owned(),
        (Reason::NoQuorum, _) if finding.plan.topology.kind != TopologyKind::Independent => {
            "requests were not answered".to_owned()
        }
        (Reason::NoQuorum, _) => "too few nodes answered".to_owned(),
        (Reason::DeadWaiter, who) => {
            format!("the head of the queue, {}, whose process had died", named(who))
        }
        (Reason::LeftPlace, who) => {
            format!("the head of the queue, a place that {} had left there", named(who))
        }
        (Reason::HaltedWaiter, who) => {
            format!("the head of the queue, {}, which stood still", named(who))
        }
        (Reason::CutOffWaiter, who) => {
            format!("the head of the queue, {}, which was cut off", named(who))
        }
        (Reason::Deadlock, _) => "callers that waited for each other's keys".to_owned(),
        (Reason::SplitVotes, Some(who)) => {
            format!("keys of tries that were under way, as {who}'s: split votes")
        }
        (Reason::SplitVotes, None) => "keys of tries that were under way: split votes".to_owned(),
        (Reason::HaltedOwner, Some(who)) => format!("the key of {who}'s try, which stood still"),
        (Reason::HaltedOwner, None) => "the key of a try whose caller stood still".to_owned(),
        (Reason::Pending, Some(who)) => format!("the key of {who}'s try, which was under way"),
        (Reason::Pending, None) => "the key of a try that was under way".to_owned(),
        (Reason::Unacknowledged, _) => "too few replicas acknowledged".to_owned(),
        (Reason::Halted, _) => "the callers that wanted it stood still".to_owned(),
        (Reason::Waiting, _) => {
            "callers waited for an answer, or before they tried again".to_owned()
        }
    }
}

fn named(who: Option<&str>) -> &str {
    who.unwrap_or("one caller after another")
}

fn waits(waits: &Waits) -> String {
    if waits.count == 0 {
        return "nobody wanted the lock".to_owned();
    }
    let ungranted = match waits.ungranted {
        0 => String::new(),
        some => format!(", {some} of them without a grant"),
    };
    format!(
        "median {}, 99th percentile {}, longest {} ({}{ungranted})",
        length(waits.median),
        length(waits.percentile_99),
        length(waits.longest),
        count(waits.count.into(), "wait"),
    )
}

/// The callers with the longest waits, and the caller whose longest wait was the shortest.
fn longest(waits: &Waits) -> String {
    let name = |caller: &CallerWaits| {
        let grants = count(caller.grants.into(), "grant");
        format!("{} {} ({grants})", caller.caller, length(caller.longest))
    };
    let (first, others) = waits.callers.split_at(waits.callers.len().min(NAMED));
    let named = list(&first.iter().map(name).collect::<Vec<_>>());
    match others {
        [.., least] => {
            format!("{named}; the least of {} callers: {}", waits.callers.len(), name(least))
        }
        [] => named,
    }
}
