//! Which accesses a guarded resource accepts: the four fence modes, as a function of values.

use crate::history::AccessKind;
use crate::plan::{FenceMode, FenceOn};

/// The state of the resource's fence check.
#[derive(Clone, Debug)]
pub struct FenceGuard {
    mode: FenceMode,
    on: FenceOn,
    /// The largest fence of an accepted access. If reads are checked, they raise it too.
    mark: u64,
    /// The fence of the last accepted write.
    written: Option<u64>,
}

/// A requested access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedAccess {
    /// Its kind.
    pub kind: AccessKind,
    /// Its fence; none counts as 0.
    pub fence: Option<u64>,
    /// The value that its caller has read, if any.
    pub read: Option<i64>,
}

impl FenceGuard {
    /// A guard in its initial state.
    pub fn new(mode: FenceMode, on: FenceOn) -> FenceGuard {
        FenceGuard { mode, on, mark: 0, written: None }
    }

    /// Accepts the access to a resource with this `value`, or returns the reason for the refusal.
    ///
    /// # Errors
    /// The text of the refusal.
    pub fn admit(&mut self, access: RequestedAccess, value: i64) -> Result<(), &'static str> {
        match self.mode {
            FenceMode::None => Ok(()),
            FenceMode::CompareAndSet => compare(access, value),
            FenceMode::RejectSmaller => self.check(access, false),
            FenceMode::RejectSmallerOrEqual => self.check(access, true),
        }
    }

    /// An access with a fence below the mark is too late. With `once`, so is a write with the same
    /// fence as the previous write.
    fn check(&mut self, access: RequestedAccess, once: bool) -> Result<(), &'static str> {
        let writes = access.kind != AccessKind::Read;
        if !writes && self.on == FenceOn::Writes {
            return Ok(());
        }
        let fence = access.fence.unwrap_or(0);
        if fence < self.mark {
            return Err("the fence is smaller than one seen before");
        }
        if once && writes && self.written.is_some_and(|written| fence <= written) {
            return Err("the fence is not larger than that of the last write");
        }
        self.mark = fence;
        if writes {
            self.written = Some(fence);
        }
        Ok(())
    }
}

/// A write is accepted only if the value is still the one that its caller read; an append has none.
fn compare(access: RequestedAccess, value: i64) -> Result<(), &'static str> {
    match (access.kind, access.read) {
        (AccessKind::Write, read) if read != Some(value) => {
            Err("the value is not the one that was read")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{FenceGuard, RequestedAccess};
    use crate::history::AccessKind;
    use crate::history::AccessKind::{Append, Read, Write};
    use crate::plan::{FenceMode, FenceOn};

    /// Accesses with their fences, in order, and whether each is accepted.
    fn check(mode: FenceMode, on: FenceOn, accesses: &[(AccessKind, u64, bool)]) {
        let mut guard = FenceGuard::new(mode, on);
        for (index, (kind, fence, taken)) in accesses.iter().enumerate() {
            let access = RequestedAccess { kind: *kind, fence: Some(*fence), read: Some(0) };
            assert_eq!(guard.admit(access, 0).is_ok(), *taken, "{mode:?} {on:?} access {index}");
        }
    }

    #[test]
    fn without_a_mode_everything_is_taken() {
        check(FenceMode::None, FenceOn::All, &[(Write, 2, true), (Write, 1, true)]);
    }

    #[test]
    fn a_read_raises_the_mark_where_reads_are_checked() {
        let smaller = FenceMode::RejectSmaller;
        let accesses = [(Read, 1, true), (Read, 2, true), (Write, 1, false), (Write, 2, true)];
        check(smaller, FenceOn::All, &accesses);
        let accesses = [(Read, 1, true), (Read, 2, true), (Write, 1, true), (Write, 2, true)];
        check(smaller, FenceOn::Writes, &accesses);
        check(smaller, FenceOn::All, &[(Write, 2, true), (Write, 2, true), (Read, 1, false)]);
        check(smaller, FenceOn::Writes, &[(Write, 2, true), (Read, 1, true), (Write, 1, false)]);
    }

    #[test]
    fn one_write_a_grant_where_equal_fences_are_refused() {
        let mode = FenceMode::RejectSmallerOrEqual;
        check(mode, FenceOn::All, &[(Read, 1, true), (Write, 1, true), (Write, 1, false)]);
        check(mode, FenceOn::All, &[(Append, 1, true), (Append, 2, true), (Append, 2, false)]);
        check(mode, FenceOn::All, &[(Read, 1, true), (Read, 2, true), (Write, 1, false)]);
    }

    #[test]
    fn compare_and_set_looks_at_the_value_alone() {
        let mut guard = FenceGuard::new(FenceMode::CompareAndSet, FenceOn::All);
        let write = |read| RequestedAccess { kind: Write, fence: None, read };
        assert!(guard.admit(write(Some(7)), 7).is_ok());
        assert!(guard.admit(write(Some(6)), 7).is_err());
        assert!(guard.admit(write(None), 7).is_err());
        assert!(guard.admit(RequestedAccess { kind: Append, fence: None, read: None }, 7).is_ok());
    }
}
