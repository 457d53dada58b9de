//! The changes of keys that a history keeps: what each command did as a whole.
//!
//! A node records every step of a command. Nobody ever sees what comes between the steps, so only
//! the difference counts between a key before the command and after it. A command that leaves a key
//! as it was changed nothing, and one after which only the expiry differs extended it. There is one
//! exception: an acquire that gets the lock takes the key over, even if it writes the same value.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::trace::KeyChange;

use crate::history::{Key, Op, OpId, OpKind, Outcome};
use crate::name::Name;

/// Changes of keys, in order.
#[derive(Debug, Default)]
pub struct KeyChanges {
    changes: Vec<Change>,
}

/// A change of a key, or of a member.
#[derive(Clone, Debug)]
struct Change {
    key: Key,
    /// Whether a command made it, here or on the master that is followed.
    is_command: bool,
    /// A digest of what the key holds after the command, if it is known.
    content: Option<u64>,
    /// Whether the key is a collection with the members that it had before the command.
    keeps_members: bool,
}

impl Change {
    /// Whether it is one of this key on this node, and of none of its members.
    fn is_of(&self, (key, node): (&Name, &Name)) -> bool {
        self.key.key == *key && self.key.node == *node && self.key.of.is_none()
    }

    /// Whether one command made both.
    fn is_one_command_with(&self, other: &Change) -> bool {
        let are_commands = self.is_command && other.is_command && self.key.by.is_some();
        are_commands && self.key.is_one_command_with(&other.key)
    }

    /// Whether a command of the operation of another change made it.
    fn is_command_of(&self, other: &Change) -> bool {
        self.is_command && self.key.by == other.key.by
    }
}

impl KeyChanges {
    /// Adds the change of a key or of a member, by a command or by a load.
    pub fn push(&mut self, key: Key, is_command: bool) {
        self.changes.push(Change { key, is_command, content: None, keeps_members: false });
    }

    /// Notes what a key holds on a node after its last change.
    pub fn note_content(&mut self, name: (&Name, &Name), digest: u64) {
        if let Some(last) = self.last(name) {
            last.content = Some(digest);
        }
    }

    /// Notes that the last command that changed a collection on a node left it with the members it
    /// had before.
    pub fn note_same_members(&mut self, name: (&Name, &Name)) {
        if let Some(last) = self.last(name) {
            last.keeps_members = true;
        }
    }

    fn last(&mut self, name: (&Name, &Name)) -> Option<&mut Change> {
        self.changes.iter_mut().rev().find(|change| change.is_of(name))
    }

    /// All changes, in order: of each command what it did as a whole, as far as the operations tell
    /// whether it took the key over.
    pub fn end(self, ops: &[Op]) -> Vec<Key> {
        let mut of_keys: BTreeMap<(Name, Name), Vec<usize>> = BTreeMap::new();
        for (place, change) in self.changes.iter().enumerate() {
            if change.key.of.is_none() {
                let name = (change.key.node.clone(), change.key.key.clone());
                of_keys.entry(name).or_default().push(place);
            }
        }
        let mut kept: Vec<Option<Change>> = self.changes.into_iter().map(Some).collect();
        let takers = Takers { ops, constants: constants(&kept, &of_keys, ops) };
        let mut owners = Owners::default();
        for places in of_keys.values() {
            settle(&mut kept, places, &takers, &mut owners);
        }
        kept.into_iter().flatten().map(|change| change.key).collect()
    }
}

/// Whose a key was when an operation wrote it again as it was, by the key and the operation: a node
/// that loads the key knows it as that operation's.
type Owners = BTreeMap<(Name, OpId), Option<OpId>>;

/// What tells whether an operation took a key over by writing the same value.
struct Takers<'a> {
    ops: &'a [Op],
    /// Digests of what several callers have set where there was no key: it names none of them.
    constants: BTreeSet<u64>,
}

impl Takers<'_> {
    /// Whether the command that made these changes took over a key of the same value. An acquire
    /// without an answer may have put back the value of another caller, unless that is everybody's,
    /// or unless it only set it.
    fn took(&self, all: &[&Change]) -> bool {
        let last = all[all.len() - 1];
        let op = last.key.by.and_then(|by| self.ops.get(by as usize));
        let Some(op) = op.filter(|op| op.kind == OpKind::Acquire) else { return false };
        let writes = all.iter().filter(|change| change.key.change != KeyChange::Extended).count();
        let is_everybodys = last.content.is_some_and(|content| self.constants.contains(&content));
        match op.outcome {
            Outcome::Granted { .. } => true,
            _ => op.has_no_answer() && (is_everybodys || writes == 1),
        }
    }
}

/// See [`Takers::constants`].
fn constants(
    changes: &[Option<Change>],
    of_keys: &BTreeMap<(Name, Name), Vec<usize>>,
    ops: &[Op],
) -> BTreeSet<u64> {
    let mut callers: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for places in of_keys.values() {
        let mut is_there = false;
        for change in places.iter().filter_map(|place| changes[*place].as_ref()) {
            // What a node loads is no caller's write: the last one may have put it back.
            let is_new = !is_there && change.is_command && change.key.change == KeyChange::Set;
            let op = change.key.by.and_then(|by| ops.get(by as usize));
            if let (true, Some(content), Some(op)) = (is_new, change.content, op) {
                callers.entry(content).or_default().insert(&op.caller);
            }
            is_there = change.key.change.leaves_key();
        }
    }
    callers.into_iter().filter(|(_, of)| of.len() > 1).map(|(content, _)| content).collect()
}

/// Reduces the changes at these places, of one key on one node, to what each command did.
fn settle(kept: &mut [Option<Change>], places: &[usize], takers: &Takers, owners: &mut Owners) {
    let (mut before, mut owner): (Option<Change>, Option<OpId>) = (None, None);
    let mut rest = places;
    while !rest.is_empty() {
        let change = |place: &usize| kept[*place].as_ref().expect("each place is settled once");
        let first = change(&rest[0]);
        let is_more = |place: &&usize| first.is_one_command_with(change(place));
        let (command, later) = rest.split_at(1 + rest[1..].iter().take_while(is_more).count());
        let all: Vec<&Change> = command.iter().map(change).collect();
        let after = all[all.len() - 1].clone();
        let sets = |change: &Change| change.key.change == KeyChange::Set;
        let sets_again = |place: &usize| sets(change(place)) && change(place).is_command_of(first);
        let is_take = || takers.took(&all) && !later.iter().any(sets_again);
        let whole = Whole::of(before.as_ref(), &all, is_take);
        let is_set = all.iter().any(|change| sets(change));
        if whole == Whole::AsRecorded && is_set {
            owner = after.key.by;
        } else if let Some(by) = after.key.by.filter(|_| is_set) {
            owners.insert((after.key.key.clone(), by), owner);
        }
        whole.leave(kept, command);
        for place in command {
            let Some(loaded) = kept[*place].as_mut().filter(|change| !change.is_command) else {
                continue;
            };
            let name = loaded.key.by.map(|by| (loaded.key.key.clone(), by));
            if let Some(own) = name.and_then(|name| owners.get(&name)) {
                (loaded.key.by, owner) = (*own, *own);
            }
        }
        before = Some(after);
        rest = later;
    }
}

/// What a command did to a key as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    /// What it did last; a key that it deleted and set again is overwritten.
    AsRecorded,
    /// Nothing: the key is as it was before.
    Nothing,
    /// It changed the expiry alone.
    Extended,
}

impl Whole {
    /// What a command did that made these changes of a key, the last of which was `before`.
    fn of(before: Option<&Change>, all: &[&Change], is_take: impl Fn() -> bool) -> Whole {
        let after = all[all.len() - 1];
        let Some(before) = before.filter(|_| after.is_command) else { return Whole::AsRecorded };
        let is_there = before.key.change.leaves_key() && after.key.change.leaves_key();
        let same_content = after.content.is_some() && after.content == before.content;
        let writes = all.iter().any(|change| change.key.change != KeyChange::Extended);
        let is_same = same_content || after.keeps_members || !writes;
        let is_set = all.iter().any(|change| change.key.change == KeyChange::Set);
        match before.key.until_ms == after.key.until_ms {
            _ if !is_there || !is_same => Whole::AsRecorded,
            // Who gets the lock is a member then, and not another one's.
            _ if is_set && !after.keeps_members && is_take() => Whole::AsRecorded,
            true if writes => Whole::Nothing,
            _ => Whole::Extended,
        }
    }

    /// Leaves only that of the changes at these places.
    fn leave(self, kept: &mut [Option<Change>], command: &[usize]) {
        let (last, earlier) = command.split_last().expect("a command changed something");
        let is = |place: &usize, what| {
            kept[*place].as_ref().is_some_and(|change| change.key.change == what)
        };
        match self {
            Whole::AsRecorded => {
                let set = command.iter().rposition(|place| is(place, KeyChange::Set)).unwrap_or(0);
                let gone = command[..set].iter().filter(|place| is(place, KeyChange::Deleted));
                for place in gone.copied().collect::<Vec<_>>() {
                    kept[place] = None;
                }
            }
            Whole::Nothing => command.iter().for_each(|place| kept[*place] = None),
            Whole::Extended => {
                earlier.iter().for_each(|place| kept[*place] = None);
                if let Some(last) = &mut kept[*last] {
                    last.key.change = KeyChange::Extended;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::{Instant, Readings, Stamp};

    use super::*;
    use KeyChange::{Changed, Deleted, Expired, Extended, LostAtRestart, Set};

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

    /// The operations 0 to 5: an acquire that is granted the lock, one that is refused, an extend,
    /// a release, another acquire that is granted the lock, and one without an answer.
    fn ops() -> Vec<Op> {
        let granted = || Outcome::Granted { token: String::new(), fence: None, deadline: None };
        let all = [
            (OpKind::Acquire, granted()),
            (OpKind::Acquire, Outcome::Refused { why: String::new() }),
            (OpKind::Extend { grant: 0, background: false }, Outcome::Kept { deadline: None }),
            (OpKind::Release { grant: 0 }, Outcome::Released),
            (OpKind::Acquire, granted()),
            (OpKind::Acquire, Outcome::Unknown),
        ];
        let op = |(id, (kind, outcome)): (usize, (OpKind, Outcome))| Op {
            id: u32::try_from(id).expect("few"),
            process: "c1".to_owned(),
            caller: "c1".to_owned(),
            object: "lock".to_owned(),
            call: Stamp::new(Instant::default(), Readings::default()),
            ret: None,
            kind,
            outcome,
            tried_with: None,
            shared: false,
            keys: Vec::new(),
        };
        all.into_iter().enumerate().map(op).collect()
    }

    /// What is kept of changes, each with what the key holds then.
    #[track_caller]
    fn check(changes: &[(Key, u64)], expected: &[(KeyChange, u32)]) {
        let (mut kept, key, node) = (KeyChanges::default(), "lock".into(), "n1".into());
        for (change, content) in changes {
            kept.push(change.clone(), true);
            kept.note_content((&key, &node), *content);
        }
        let found = kept.end(&ops()).into_iter().map(|key| (key.change, key.by.expect("an op")));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_command_that_deletes_and_sets_a_key_overwrites_it() {
        let first = (change(0, Set, 50), 7);
        let gone = (change(4, Deleted, 0), 7);
        let again = (change(4, Set, 90), 8);
        check(&[first.clone(), gone.clone(), again], &[(Set, 0), (Set, 4)]);
        let by_two = [first, gone, (change(3, Set, 50), 7)];
        check(&by_two, &[(Set, 0), (Deleted, 4), (Set, 3)]);
    }

    #[test]
    fn a_command_that_leaves_a_key_as_it_was_did_nothing() {
        let first = (change(0, Set, 50), 7);
        for by in [1, 2, 3] {
            let step = |what, until, content| (change(by, what, until), content);
            let all = [
                vec![step(Deleted, 0, 0), step(Set, 50, 7)],
                vec![step(Set, 60, 9), step(Set, 50, 7)],
                vec![step(Set, 50, 7)],
                vec![step(Changed, 50, 8), step(Changed, 50, 7)],
                vec![step(Deleted, 0, 0), step(Set, 90, 7), step(Extended, 50, 7)],
            ];
            for command in all {
                check(&[&[first.clone()][..], &command].concat(), &[(Set, 0)]);
            }
            // A single one is judged by the expiry that it set.
            let twice = [first.clone(), step(Extended, 60, 7), step(Extended, 50, 7)];
            check(&twice, &[(Set, 0), (Extended, by)]);
        }
    }

    #[test]
    fn a_command_that_leaves_a_value_as_it_was_changes_the_expiry() {
        let first = (change(0, Set, 50), 7);
        check(&[first.clone(), (change(2, Set, 90), 7)], &[(Set, 0), (Extended, 2)]);
        let anew = [(change(3, Deleted, 0), 0), (change(3, Set, 90), 7)];
        check(&[&[first.clone()][..], &anew].concat(), &[(Set, 0), (Extended, 3)]);
        check(&[first, (change(3, Set, 90), 8)], &[(Set, 0), (Set, 3)]);
    }

    #[test]
    fn who_gets_the_lock_takes_over_a_key_of_the_same_value() {
        let first = (change(0, Set, 50), 7);
        check(&[first.clone(), (change(4, Set, 50), 7)], &[(Set, 0), (Set, 4)]);
        let anew = [first.clone(), (change(4, Deleted, 0), 0), (change(4, Set, 50), 7)];
        check(&anew, &[(Set, 0), (Set, 4)]);
        let unknown = [first.clone(), (change(5, Deleted, 0), 0), (change(5, Set, 50), 7)];
        check(&unknown, &[(Set, 0)]);
        check(&[first.clone(), (change(5, Set, 50), 7)], &[(Set, 0), (Set, 5)]);
        // Its first try put the key back.
        let mut later = change(4, Set, 50);
        later.at.at = 90;
        let gone = (change(1, Expired, 0), 0);
        let tries = [first, (change(4, Set, 50), 7), gone, (later, 7)];
        check(&tries, &[(Set, 0), (Expired, 1), (Set, 4)]);
    }

    #[test]
    fn what_a_node_loads_is_the_key_of_whom_it_was_put_back_for() {
        let (mut kept, key, node) = (KeyChanges::default(), "lock".into(), "n1".into());
        let swapped = [change(1, Deleted, 0), change(1, Set, 50)];
        let all = [&[change(0, Set, 50)][..], &swapped, &[change(3, LostAtRestart, 0)]].concat();
        for change in all {
            kept.push(change, true);
            kept.note_content((&key, &node), 7);
        }
        kept.push(change(1, Set, 50), false);
        let found: Vec<_> = kept.end(&ops()).into_iter().map(|key| (key.change, key.by)).collect();
        assert_eq!(found, [(Set, Some(0)), (LostAtRestart, Some(3)), (Set, Some(0))]);
    }

    #[test]
    fn what_a_node_loads_is_no_value_of_everybody() {
        let (mut kept, key, node) = (KeyChanges::default(), "lock".into(), "n1".into());
        let swapped = [(change(5, Set, 60), 9), (change(5, Set, 50), 7)];
        for (change, content) in [&[(change(0, Set, 50), 7)][..], &swapped].concat() {
            kept.push(change, true);
            kept.note_content((&key, &node), content);
        }
        kept.push(Key { by: None, ..change(5, LostAtRestart, 0) }, true);
        kept.push(change(5, Set, 50), false);
        kept.note_content((&key, &node), 7);
        let mut ops = ops();
        ops[5].caller = "c2".to_owned();
        let found: Vec<_> = kept.end(&ops).into_iter().map(|key| (key.change, key.by)).collect();
        assert_eq!(found, [(Set, Some(0)), (LostAtRestart, None), (Set, Some(0))]);
    }

    #[test]
    fn a_collection_that_is_written_anew_as_it_was_is_not_changed() {
        let (mut kept, key, node) = (KeyChanges::default(), "lock".into(), "n1".into());
        for change in [change(0, Set, 50), change(3, Deleted, 0), change(3, Set, 50)] {
            kept.push(change, true);
        }
        kept.note_same_members((&key, &node));
        assert_eq!(kept.end(&ops()).len(), 1);
    }
}
