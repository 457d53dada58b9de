//! The changes of keys that a history keeps: what each command did as a whole.
//!
//! A node records every step of a command. Nobody ever sees what comes between the steps, so a
//! command that overwrites a key is no deletion of it, and one that writes a key again as it was is
//! no change at all.

use lockstorm_platform::trace::KeyChange;

use crate::history::Key;
use crate::name::Name;

/// Changes of keys, in order.
#[derive(Debug, Default)]
pub struct KeyChanges {
    keys: Vec<Key>,
}

impl KeyChanges {
    /// All changes, in order.
    pub fn end(self) -> Vec<Key> {
        self.keys
    }

    /// Adds the change of a key or of a member. A command that deletes a key and sets it again
    /// overwrites it: nobody ever finds it gone.
    pub fn push(&mut self, change: Key) {
        if change.of.is_none() && change.change == KeyChange::Set {
            self.forget_deletion(&change);
        }
        self.keys.push(change);
    }

    fn forget_deletion(&mut self, set: &Key) {
        let keys = &mut self.keys;
        let is_same = |key: &Key| key.key == set.key && key.of.is_none() && key.node == set.node;
        let of_command = keys.iter().rev().take_while(|key| key.at.at == set.at.at);
        let last = of_command.clone().position(is_same);
        let Some(place) = last.map(|behind| keys.len() - 1 - behind) else { return };
        let last = &keys[place];
        let is_by_command = last.by.is_some() && last.is_one_command_with(set);
        if last.change == KeyChange::Deleted && is_by_command {
            keys.remove(place);
        }
    }

    /// Notes that the last command that changed a collection on a node left it with the members it
    /// had before: if it wrote the collection anew, it changed at most its expiry.
    pub fn forget_rewrite(&mut self, (key, node): (&Name, &Name)) {
        let keys = &mut self.keys;
        let own = keys.iter().enumerate().rev();
        let mut own =
            own.filter(|(_, other)| other.key == *key && other.node == *node && other.of.is_none());
        let Some((place, last)) = own.next() else { return };
        let mut of_command = vec![place];
        let before = own.find(|(place, other)| {
            let is_of_command = other.is_one_command_with(last);
            of_command.extend(is_of_command.then_some(*place));
            !is_of_command
        });
        let was_there = before.filter(|(_, before)| before.change.leaves_key());
        let Some(until_ms) = was_there.map(|(_, before)| before.until_ms) else { return };
        let lasts = last.until_ms == until_ms;
        let is_set_anew = of_command.iter().any(|place| keys[*place].change == KeyChange::Set);
        if is_set_anew && (lasts || last.change == KeyChange::Extended) {
            of_command.retain(|place| lasts || keys[*place].change != KeyChange::Extended);
            // From the last on: each removal moves what comes behind it.
            of_command.into_iter().for_each(|place| drop(keys.remove(place)));
        }
    }
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::Instant;

    use super::*;

    /// A change on the only node by the command of an operation, at that operation's time.
    fn change(by: u32, change: KeyChange, until_ms: u64) -> Key {
        Key {
            node: "n1".into(),
            key: "lock".into(),
            of: None,
            at: Instant { at: u64::from(by), seq: u64::from(by) },
            change,
            until_ms: change.leaves_key().then_some(until_ms),
            by: Some(by),
            unacknowledged: false,
        }
    }

    fn kept(changes: &[Key], is_rewrite: bool) -> Vec<KeyChange> {
        let mut kept = KeyChanges::default();
        changes.iter().cloned().for_each(|change| kept.push(change));
        if is_rewrite {
            kept.forget_rewrite((&"lock".into(), &"n1".into()));
        }
        kept.end().into_iter().map(|key| key.change).collect()
    }

    #[test]
    fn a_command_that_deletes_and_sets_a_key_overwrites_it() {
        use KeyChange::{Deleted, Set};
        let [first, gone, again] = [change(1, Set, 50), change(2, Deleted, 0), change(2, Set, 90)];
        assert_eq!(kept(&[first.clone(), gone.clone(), again], false), [Set, Set]);
        assert_eq!(kept(&[first, gone, change(3, Set, 90)], false), [Set, Deleted, Set]);
    }

    #[test]
    fn a_command_that_writes_the_same_anew_changes_at_most_the_expiry() {
        use KeyChange::{Deleted, Extended, Set};
        let gone = change(2, Deleted, 0);
        let all = |until_ms| [change(1, Set, 50), gone.clone(), change(2, Set, until_ms)];
        assert_eq!(kept(&all(50), true), [Set]);
        assert_eq!(kept(&all(90), true), [Set, Set]);
        let extended = [&all(50)[..], &[change(2, Extended, 90)]].concat();
        assert_eq!(kept(&extended, true), [Set, Extended]);
        let as_before = [&all(90)[..], &[change(2, Extended, 50)]].concat();
        assert_eq!(kept(&as_before, true), [Set]);
        assert_eq!(kept(&[change(1, Set, 50), change(2, Extended, 50)], true), [Set, Extended]);
    }
}
