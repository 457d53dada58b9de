//! What a lock promises in words, and why it assumes what it does.

use crate::promise::{Bounded, Model, Promise};
use crate::quantity::length;

/// More holders than this are any number.
const MAX_HOLDERS: u32 = 1_000_000;

/// What a lock promises, one sentence each.
pub fn sentences(promise: &Promise) -> Vec<String> {
    let Promise { holders, unguarded, reports_loss, model, kept, queue, .. } = promise;
    if *unguarded {
        return vec!["It lets everybody in, and promises nothing.".to_owned()];
    }
    let holders = match holders {
        1 => "One caller holds it at a time.".to_owned(),
        some if *some > MAX_HOLDERS => "Any number of callers may hold it at once.".to_owned(),
        some => format!("At most {some} callers hold it at once."),
    };
    let model = match model {
        Model::None => "It promises no order of its grants and releases.",
        Model::Mutex => "A grant is valid until it is released: its key has no time to live.",
        Model::Lease => "A grant is valid until it is released, or until its lease is over.",
    };
    let loss = match (reports_loss, promise.model) {
        (true, _) => "It notifies a running caller that the lock is lost.",
        (false, Model::Lease) => {
            "It notifies no caller that the lock is lost: a caller has to watch its deadline."
        }
        (false, _) => "It notifies no caller that the lock is lost.",
    };
    let order = match queue {
        Some(key) => format!("Waiters get it in the order in which they joined its queue '{key}'."),
        None => "It promises no order among those who wait for it.".to_owned(),
    };
    let kept = (*kept > 0).then(|| {
        let longest = length(*kept);
        format!("Its key may keep others out for {longest} after the grant, released or not.")
    });
    let all = [holders, model.to_owned(), loss.to_owned(), order];
    all.into_iter().chain(kept).collect()
}

/// Why a lock assumes a bound on this.
pub fn reason(what: Bounded) -> &'static str {
    match what {
        Bounded::ClientPause | Bounded::HoldPause => {
            "a paused client neither watches its lease nor extends it, and the lease ends all the \
             same"
        }
        Bounded::ClientCrash => "nobody else releases what a dead client held",
        Bounded::NodeClockStep => "a node ends a lease by its wall clock, which a step moves",
        Bounded::ClientClockStep => {
            "the client measures time by its wall clock, which a step moves"
        }
        Bounded::Skew => "clients compare times that different clocks show",
        Bounded::Drift => "node and client measure the same lease, each by its own clock",
        Bounded::AmnesiacRestart => "a node that has forgotten a key grants the lock again",
        Bounded::Failover => {
            "a replica may lack a key that its master has acknowledged: replication does not wait"
        }
        Bounded::KeyRemoval => {
            "the key is the lock: without it the next caller is granted the lock"
        }
        Bounded::Work => "a lease ends whether or not the work under it has ended",
        Bounded::Leaderless => "without a master nobody can acquire a lock",
        Bounded::Unreplicated => "a master that counts too few replicas refuses to write",
        Bounded::Misuse => "a lock only answers: it stops no caller that does not heed it",
        Bounded::AccessDelay => {
            "an access that is on its way when the lease ends reaches the resource after it"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sentences;
    use crate::promise::{Model, Promise, exclusive};

    #[test]
    fn what_is_promised_is_said_and_nothing_else() {
        let said = |promise: Promise| sentences(&promise).join(" ");
        let lease = exclusive(Model::Lease, Vec::new());
        let text = said(lease.clone());
        for part in ["One caller", "its lease is over", "watch its deadline", "no order among"] {
            assert!(text.contains(part), "'{part}' is not in '{text}'");
        }
        let none = said(Promise { unguarded: true, ..lease.clone() });
        assert_eq!(none, "It lets everybody in, and promises nothing.");
        let queue = Some("line".to_owned());
        let other = Promise { holders: 4, reports_loss: true, queue, kept: 5_000_000_000, ..lease };
        let text = said(Promise { model: Model::Mutex, ..other.clone() });
        for part in ["At most 4", "no time to live", "notifies a running", "'line'", "for 5 s"] {
            assert!(text.contains(part), "'{part}' is not in '{text}'");
        }
        assert!(said(Promise { holders: u32::MAX, ..other }).contains("Any number"));
    }
}
