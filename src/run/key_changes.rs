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
    keys: Vec<Change>,
}

/// A change of a key, or of a member.
#[derive(Debug)]
struct Change {
    key: Key,
    /// Whether its command had deleted the key before it set it.
    overwrites: bool,
    /// A digest of what the key holds after the command, if it is known.
    content: Option<u64>,
}

impl Change {
    /// Whether it is one of this key on this node, and of none of its members.
    fn is_of(&self, (key, node): (&Name, &Name)) -> bool {
        self.key.key == *key && self.key.node == *node && self.key.of.is_none()
    }
}

impl KeyChanges {
    /// All changes, in order.
    pub fn end(self) -> Vec<Key> {
        self.keys.into_iter().map(|change| change.key).collect()
    }

    /// Adds the change of a key or of a member. A command that deletes a key and sets it again
    /// overwrites it: nobody ever finds it gone.
    pub fn push(&mut self, key: Key) {
        let is_set = key.of.is_none() && key.change == KeyChange::Set;
        let overwrites = is_set && self.forget_deletion(&key);
        self.keys.push(Change { key, overwrites, content: None });
    }

    /// Forgets the deletion of a key by the command that now sets it, if there is one.
    fn forget_deletion(&mut self, set: &Key) -> bool {
        let keys = &mut self.keys;
        let of_command = keys.iter().rev().take_while(|last| last.key.at.at == set.at.at);
        let last = of_command.clone().position(|last| last.is_of((&set.key, &set.node)));
        let Some(place) = last.map(|behind| keys.len() - 1 - behind) else { return false };
        let last = &keys[place].key;
        let is_by_command = last.by.is_some() && last.is_one_command_with(set);
        let deletes = last.change == KeyChange::Deleted && is_by_command;
        if deletes {
            keys.remove(place);
        }
        deletes
    }

    /// Notes what a key holds on a node after its last change. A command that replaced its value
    /// and put it back changed at most its expiry.
    pub fn note_content(&mut self, name: (&Name, &Name), digest: u64) {
        let Some((of_command, before)) = self.last_command(name) else { return };
        self.keys[of_command[0]].content = Some(digest);
        let is_as_before = before.is_some_and(|before| self.keys[before].content == Some(digest));
        let replaces = |place: &&usize| self.keys[**place].key.change != KeyChange::Extended;
        let overwrites = || of_command.iter().any(|place| self.keys[*place].overwrites);
        let puts_back = || overwrites() || of_command.iter().filter(replaces).count() > 1;
        if is_as_before && puts_back() {
            self.forget_rewrite(name);
        }
    }

    /// Notes that the last command that changed a collection on a node left it with the members it
    /// had before: if it wrote the collection anew, it changed at most its expiry.
    pub fn forget_rewrite(&mut self, name: (&Name, &Name)) {
        let Some((mut of_command, before)) = self.last_command(name) else { return };
        let last = &self.keys[of_command[0]].key;
        let before = before.map(|before| &self.keys[before].key);
        let was_there = before.filter(|before| before.change.leaves_key());
        let Some(until_ms) = was_there.map(|before| before.until_ms) else { return };
        let lasts = last.until_ms == until_ms;
        let change = |place: &usize| self.keys[*place].key.change;
        let is_set_anew = of_command.iter().any(|place| change(place) == KeyChange::Set);
        if is_set_anew && (lasts || last.change == KeyChange::Extended) {
            of_command.retain(|place| lasts || change(place) != KeyChange::Extended);
            // From the last on: each removal moves what comes behind it.
            of_command.into_iter().for_each(|place| drop(self.keys.remove(place)));
        }
    }

    /// The changes that the last command that changed a key made to it, the last one first, and the
    /// change before them.
    fn last_command(&self, name: (&Name, &Name)) -> Option<(Vec<usize>, Option<usize>)> {
        let own = self.keys.iter().enumerate().rev().filter(|(_, change)| change.is_of(name));
        let mut own = own.map(|(place, change)| (place, &change.key));
        let (place, last) = own.next()?;
        let mut of_command = vec![place];
        let before = own.find(|(place, other)| {
            let is_of_command = other.is_one_command_with(last);
            of_command.extend(is_of_command.then_some(*place));
            !is_of_command
        });
        Some((of_command, before.map(|(place, _)| place)))
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

    fn name() -> (Name, Name) {
        ("lock".into(), "n1".into())
    }

    fn kept(changes: &[Key], is_rewrite: bool) -> Vec<KeyChange> {
        let (mut kept, (key, node)) = (KeyChanges::default(), name());
        changes.iter().cloned().for_each(|change| kept.push(change));
        if is_rewrite {
            kept.forget_rewrite((&key, &node));
        }
        kept.end().into_iter().map(|key| key.change).collect()
    }

    /// The same with what the key holds after the first change and after all.
    fn kept_of(changes: &[Key], contents: [u64; 2]) -> Vec<KeyChange> {
        let (mut kept, (key, node)) = (KeyChanges::default(), name());
        for (nth, change) in changes.iter().enumerate() {
            kept.push(change.clone());
            if nth == 0 || nth == changes.len() - 1 {
                kept.note_content((&key, &node), contents[nth.min(1)]);
            }
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

    #[test]
    fn a_command_that_puts_a_value_back_changes_at_most_the_expiry() {
        use KeyChange::{Deleted, Extended, Set};
        let [first, gone] = [change(1, Set, 50), change(2, Deleted, 0)];
        let restored = |until_ms| [first.clone(), gone.clone(), change(2, Set, until_ms)];
        assert_eq!(kept_of(&restored(50), [7, 7]), [Set]);
        assert_eq!(kept_of(&restored(50), [7, 8]), [Set, Set], "a value of its own");
        assert_eq!(kept_of(&restored(90), [7, 7]), [Set, Set], "a longer time to live");
        let prolonged = [&restored(50)[..], &[change(2, Extended, 90)]].concat();
        assert_eq!(kept_of(&prolonged, [7, 7]), [Set, Extended]);
        let over = [first.clone(), change(2, Set, 60), change(2, Set, 50)];
        assert_eq!(kept_of(&over, [7, 7]), [Set], "it never deleted the key");
        let by_two = [first.clone(), gone, change(3, Set, 50)];
        assert_eq!(kept_of(&by_two, [7, 7]), [Set, Deleted, Set], "others find it gone between");
        let again = [first, change(2, Set, 50)];
        assert_eq!(kept_of(&again, [7, 7]), [Set, Set], "it put nothing back");
    }
}
