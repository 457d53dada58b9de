//! The door of all checks, and what passes through it from outside: a check reads a case and
//! returns what it found. [`crate::check::judge`] lists the built-in ones; a test may add its own.
//!
//! A check of one's own is a mistake of the test if it panics or cites what the history does not
//! have. Then the test panics too, and names the check: such a run has no verdict.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::check::case::Case;
use crate::check::verdict::{Kind, Violation};

/// What a check found in one history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is wrong.
    pub violations: Vec<Violation>,
    /// Why no verdict is possible, if none is.
    pub unknown: Vec<String>,
}

impl From<Vec<Violation>> for Findings {
    fn from(violations: Vec<Violation>) -> Findings {
        Findings { violations, unknown: Vec::new() }
    }
}

/// A check of histories. Every function from a case to findings, or to violations alone, is one; a
/// type that implements this carries its own figures.
///
/// The same history must always have the same findings: runs of a plan are compared by them.
pub trait Check: Send + Sync {
    /// Reads one history, and returns what is wrong with it.
    fn findings(&self, case: &Case<'_>) -> Findings;
}

impl<F, R> Check for F
where
    F: Fn(&Case<'_>) -> R + Send + Sync,
    R: Into<Findings>,
{
    fn findings(&self, case: &Case<'_>) -> Findings {
        self(case).into()
    }
}

/// The checks that a test adds to the built-in ones, by name.
#[derive(Clone, Default)]
pub struct OwnChecks(Vec<(&'static str, Arc<dyn Check>)>);

impl fmt::Debug for OwnChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl OwnChecks {
    /// Adds a check.
    ///
    /// # Panics
    /// If a check or a kind of violation has this name: a finding could be of either.
    #[must_use]
    #[track_caller]
    pub fn with(mut self, name: &'static str, check: impl Check + 'static) -> OwnChecks {
        let is_own = self.0.iter().any(|(other, _)| *other == name);
        let is_kind = Kind::ALL.iter().any(|kind| kind.word() == name);
        assert!(!is_own && !is_kind, "there is a check named '{name}' already");
        assert!(!name.trim().is_empty(), "a check needs a name: .check(\"no-oversell\", ...)");
        self.0.push((name, Arc::new(check)));
        self
    }

    /// What these checks find.
    ///
    /// # Panics
    /// If a check panics, or returns what no finding can be.
    pub fn findings(&self, case: &Case) -> impl Iterator<Item = Findings> {
        self.0.iter().map(|(name, check)| {
            let found = catch_unwind(AssertUnwindSafe(|| check.findings(case)));
            let mut found = found.unwrap_or_else(|panic| {
                panic!("the check '{name}' panicked: {}", message(&*panic));
            });
            for violation in &mut found.violations {
                if let Some(mistake) = mistake(case, violation) {
                    panic!("the check '{name}' {mistake}");
                }
                let own = violation.own.as_mut().expect("looked at by `mistake`");
                own.check = (*name).to_owned();
            }
            found
        })
    }
}

/// Why a violation cannot be the finding of a check of one's own, if it cannot.
fn mistake(case: &Case, violation: &Violation) -> Option<String> {
    let Some(own) = violation.own.as_ref().filter(|_| violation.kind == Kind::OwnCheck) else {
        let kind = violation.kind.word();
        return Some(format!("returned a violation of the kind '{kind}': use Violation::own"));
    };
    if own.sentence.trim().is_empty() || own.sentence.ends_with('.') {
        let shown = &own.sentence;
        return Some(format!("says '{shown}': write a sentence without a full stop"));
    }
    if violation.to < violation.from {
        return Some(format!("says '{}' of a time that ends before it begins", own.sentence));
    }
    let Violation { ops, keys, accesses, .. } = violation;
    if ops.is_empty() && keys.is_empty() && accesses.is_empty() {
        return Some(format!("says '{}' without evidence: set `ops` or `accesses`", own.sentence));
    }
    let history = case.history;
    let op = ops.iter().find(|op| case.op(**op).is_none()).map(|op| ("operation", *op as usize));
    let key = beyond(keys, history.keys.len()).map(|key| ("key change", key));
    let access = beyond(accesses, history.accesses.len()).map(|access| ("access", access));
    let (what, number) = op.or(key).or(access)?;
    Some(format!("cites the {what} {number}, which is not in the history"))
}

fn beyond(indices: &[usize], length: usize) -> Option<usize> {
    indices.iter().copied().find(|index| *index >= length)
}

/// The text of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
