//! What the lock of one caller does on its own: numbers its renewals, and passes deadlines and
//! losses on to the grants that they are about.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use tokio::sync::watch::Sender;

use crate::lock::{Call, Extended, Grant, Notice};
use crate::production::held::GrantStatus;

/// The receiver of a lock's notices.
#[derive(Default)]
pub(crate) struct Notices {
    /// The last operation: acquires, extends and releases, also those of renewals.
    last: Cell<u32>,
    /// The caller's current operation.
    pub(crate) call: Rc<Cell<Call>>,
    /// The renewals under way, and the tokens that they are for.
    renewals: RefCell<BTreeMap<u32, String>>,
    /// The grants of the caller, with their tokens. Several may have one token.
    grants: RefCell<Vec<(String, Weak<Sender<GrantStatus>>)>>,
    /// Tokens whose loss was reported before any grant had them.
    lost_early: RefCell<BTreeSet<String>>,
}

impl Notices {
    /// Begins an operation of the caller.
    pub(crate) fn begin(&self) {
        self.call.set(self.next());
    }

    /// Begins an acquire.
    pub(crate) fn begin_acquire(&self) {
        self.begin();
        self.lost_early.borrow_mut().clear();
    }

    /// No operation has the number 0: it means that there was none.
    fn next(&self) -> Call {
        let number = self.last.get().checked_add(1).unwrap_or(1);
        self.last.set(number);
        Call { op: number, nth: number }
    }

    /// Adds a grant, which was possibly lost before its acquire returned.
    pub(crate) fn give(&self, grant: &Grant) -> Rc<Sender<GrantStatus>> {
        let is_lost = self.lost_early.borrow().contains(&grant.token);
        let status = Rc::new(Sender::new(GrantStatus { deadline: grant.deadline, is_lost }));
        let mut grants = self.grants.borrow_mut();
        grants.retain(|(_, status)| status.strong_count() > 0);
        grants.push((grant.token.clone(), Rc::downgrade(&status)));
        status
    }

    /// Whether the caller has a grant.
    pub(crate) fn has_grants(&self) -> bool {
        self.grants.borrow().iter().any(|(_, status)| status.strong_count() > 0)
    }

    /// Receives a notice. It returns the number of a renewal that begins.
    pub(crate) fn hear(&self, notice: Notice) -> Call {
        match notice {
            Notice::Extending { token } => {
                let call = self.next();
                self.renewals.borrow_mut().insert(call.op, token);
                return call;
            }
            Notice::Extended { op, result } => {
                let token = self.renewals.borrow_mut().remove(&op);
                if let (Some(token), Extended::Kept(Some(deadline))) = (token, result) {
                    self.change(&token, |status| status.deadline = Some(deadline));
                }
            }
            Notice::Abandoned { op } => drop(self.renewals.borrow_mut().remove(&op)),
            Notice::Lost { token } => self.lose(token),
        }
        Call::default()
    }

    fn lose(&self, token: String) {
        if self.change(&token, |status| status.is_lost = true) == 0 {
            self.lost_early.borrow_mut().insert(token);
        }
    }

    /// Changes what is known of the grants with a token. Returns how many there are.
    fn change(&self, token: &str, change: impl Fn(&mut GrantStatus)) -> usize {
        let grants = self.grants.borrow();
        let meant = grants.iter().filter(|(of, _)| of == token);
        let meant = meant.filter_map(|(_, status)| status.upgrade());
        meant.map(|status| status.send_modify(&change)).count()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use lockstorm_platform::time::Clock;

    use super::Notices;
    use crate::lock::{Call, Extended, Grant, Notice};

    fn grant(token: &str) -> Grant {
        Grant::new(token.to_owned(), Some((Clock::Monotonic, 1_000)))
    }

    #[test]
    fn a_renewal_moves_the_deadline_of_its_own_grant() {
        let notices = Notices::default();
        notices.begin_acquire();
        let (own, other) = (notices.give(&grant("a")), notices.give(&grant("b")));
        let call = notices.hear(Notice::Extending { token: "a".to_owned() });
        assert_ne!(call.op, notices.call.get().op, "a renewal is an operation of its own");
        let result = Extended::Kept(Some((Clock::Monotonic, 2_000)));
        notices.hear(Notice::Extended { op: call.op, result });
        assert_eq!(own.borrow().deadline, Some((Clock::Monotonic, 2_000)));
        assert_eq!(other.borrow().deadline, Some((Clock::Monotonic, 1_000)));
    }

    #[test]
    fn a_renewal_without_a_reply_moves_nothing() {
        let notices = Notices::default();
        let own = notices.give(&grant("a"));
        let first = notices.hear(Notice::Extending { token: "a".to_owned() });
        notices.hear(Notice::Abandoned { op: first.op });
        let late = Extended::Kept(Some((Clock::Monotonic, 2_000)));
        notices.hear(Notice::Extended { op: first.op, result: late });
        assert_eq!(own.borrow().deadline, Some((Clock::Monotonic, 1_000)));
        assert!(!own.borrow().is_lost);
    }

    #[test]
    fn a_loss_reaches_every_grant_of_its_token_also_one_that_is_not_returned_yet() {
        let notices = Notices::default();
        let lost = || Notice::Lost { token: "a".to_owned() };
        let held = [notices.give(&grant("a")), notices.give(&grant("a"))];
        let other = notices.give(&grant("b"));
        notices.hear(lost());
        assert!(held.iter().all(|status| status.borrow().is_lost));
        assert!(!other.borrow().is_lost);
        drop(held);
        notices.begin_acquire();
        notices.hear(lost());
        assert!(notices.give(&grant("a")).borrow().is_lost);
        notices.begin_acquire();
        assert!(!notices.give(&grant("a")).borrow().is_lost);
    }

    #[test]
    fn grants_that_have_ended_are_forgotten() {
        let notices = Notices::default();
        let held = notices.give(&grant("a"));
        assert!(notices.has_grants());
        drop(held);
        assert!(!notices.has_grants());
        let _held: Rc<_> = notices.give(&grant("b"));
        assert_eq!(notices.grants.borrow().len(), 1);
    }

    #[test]
    fn no_operation_has_the_number_that_means_none() {
        let notices = Notices::default();
        assert_eq!(notices.call.get(), Call::default());
        notices.last.set(u32::MAX);
        notices.begin();
        assert_eq!(notices.call.get().operation(), Some(1));
    }
}
