//! The changes of the members of a collection: the differences between what a node reports of it.
//!
//! A command may change several members, or rewrite the collection: only its result counts. A
//! member that a node loaded belongs to the operation that had added it, on whichever node. An
//! element of a list has also changed if a command moved it behind another one.

use std::collections::BTreeMap;

use bytes::Bytes;
use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{Entry, Event, HostId, KeyChange, KeyName, Origin};

use crate::history::OpId;
use crate::reading::provenance::CausedChange;

/// The members of a collection with their values.
type Content = BTreeMap<Bytes, Bytes>;

/// What happened to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChange {
    /// The node.
    pub host: HostId,
    /// The collection.
    pub key: KeyName,
    /// The member.
    pub member: Bytes,
    /// When.
    pub at: Instant,
    /// What happened to it.
    pub change: KeyChange,
    /// The operation that caused it.
    pub by: Option<OpId>,
    /// Whether it is as it was, behind another that was behind it.
    pub is_moved: bool,
}

/// The cause of the members' changes that are to be reported.
#[derive(Clone, Copy, Debug)]
struct Trigger {
    at: Instant,
    /// What happened to the collection.
    change: KeyChange,
    by: Option<OpId>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Members {
    known: BTreeMap<(HostId, KeyName), Content>,
    /// The members in the order in which the node reported them last.
    orders: BTreeMap<(HostId, KeyName), Vec<Bytes>>,
    /// The changes of keys that were recorded just before.
    causes: BTreeMap<(HostId, KeyName), Trigger>,
    /// What members that are gone after a load have suffered.
    lost_as: BTreeMap<HostId, KeyChange>,
    /// The operation that added a member last.
    adders: BTreeMap<(KeyName, Bytes), OpId>,
}

impl Members {
    /// Processes the next entry, which implies these changes of keys. Returns the changes of
    /// members that are now known, in order.
    pub fn take(&mut self, entry: &Entry, changes: &[CausedChange<OpId>]) -> Vec<MemberChange> {
        let (host, at) = (entry.host, entry.stamp.instant());
        match &entry.event {
            Event::Key { key, origin, .. } => self.note(host, (key, *origin), at, changes),
            Event::Members { key, members, is_loaded } => {
                let place = (host, key.clone());
                let lost = self.lost_as.get(&host).copied().filter(|_| *is_loaded);
                let by_load = |change| Trigger { at, change, by: None };
                let cause = self.causes.remove(&place).or_else(|| lost.map(by_load));
                let Some(cause) = cause else { return Vec::new() };
                let moved = self.moved(&place, members).into_iter().filter(|_| !is_loaded);
                let moved = moved.map(|member| MemberChange {
                    is_moved: true,
                    ..change(&place, member, cause, (KeyChange::Changed, cause.by))
                });
                let moved: Vec<MemberChange> = moved.collect();
                let now = members.iter().cloned().collect();
                self.replace(place, now, cause, *is_loaded).into_iter().chain(moved).collect()
            }
            Event::Loaded { keys, resync, .. } => {
                let lost = match resync {
                    Some(_) => KeyChange::LostAtFailover,
                    None => KeyChange::LostAtRestart,
                };
                self.lost_as.insert(host, lost);
                self.causes.clear();
                let known = self.known.keys();
                let gone = known.filter(|(there, key)| *there == host && !keys.contains(key));
                let gone: Vec<_> = gone.cloned().collect();
                let cause = Trigger { at, change: lost, by: None };
                gone.into_iter().flat_map(|place| self.remove(place, cause)).collect()
            }
            // What one of the changed keys holds stands before the members of the next.
            Event::Content { .. } => Vec::new(),
            _ => self.settle(),
        }
    }

    /// The changes of members whose collection was removed last.
    pub fn settle(&mut self) -> Vec<MemberChange> {
        // So with nearly every entry.
        if self.causes.is_empty() {
            return Vec::new();
        }
        let causes = std::mem::take(&mut self.causes).into_iter();
        let removed = causes.filter(|(_, cause)| cause.change == KeyChange::Deleted);
        removed.flat_map(|(place, cause)| self.remove(place, cause)).collect()
    }

    /// Notes the cause of changes of members. If the node itself has removed the collection, they
    /// are known at once; a command that deletes it may go on to fill it again.
    fn note(
        &mut self,
        host: HostId,
        (key, origin): (&KeyName, Origin),
        at: Instant,
        changes: &[CausedChange<OpId>],
    ) -> Vec<MemberChange> {
        let Some(CausedChange { change, by, .. }) = changes.first() else { return Vec::new() };
        let (place, cause) = ((host, key.clone()), Trigger { at, change: *change, by: *by });
        let removes = matches!(change, KeyChange::Expired | KeyChange::Evicted)
            || *change == KeyChange::Deleted && origin == Origin::Node;
        if removes {
            return self.remove(place, cause);
        }
        self.causes.insert(place, cause);
        Vec::new()
    }

    fn remove(&mut self, place: (HostId, KeyName), cause: Trigger) -> Vec<MemberChange> {
        self.orders.remove(&place);
        let gone = self.known.remove(&place).unwrap_or_default();
        let change = |member| change(&place, member, cause, (cause.change, cause.by));
        gone.into_keys().map(change).collect()
    }

    /// The elements of a list that stand behind one that stood behind them before. A member with a
    /// value has no position of its own.
    fn moved(&mut self, place: &(HostId, KeyName), members: &[(Bytes, Bytes)]) -> Vec<Bytes> {
        let is_list = members.iter().all(|(_, value)| value.is_empty());
        let now: Vec<Bytes> = members.iter().map(|(member, _)| member.clone()).collect();
        let before = self.orders.insert(place.clone(), now).unwrap_or_default();
        let now = &self.orders[place];
        if !is_list || now.starts_with(&before) || before.ends_with(now) {
            return Vec::new();
        }
        let known: BTreeMap<&Bytes, usize> =
            before.iter().enumerate().rev().map(|(position, member)| (member, position)).collect();
        let mut last = 0;
        let is_behind = |member: &&Bytes| {
            let Some(position) = known.get(*member) else { return false };
            last = last.max(*position);
            *position < last
        };
        now.iter().filter(is_behind).cloned().collect()
    }

    fn replace(
        &mut self,
        place: (HostId, KeyName),
        now: Content,
        cause: Trigger,
        is_loaded: bool,
    ) -> Vec<MemberChange> {
        let before = self.known.remove(&place).unwrap_or_default();
        let mut found = Vec::new();
        let gone = before.keys().filter(|member| !now.contains_key(*member));
        let removed = if is_loaded { cause.change } else { KeyChange::Deleted };
        found.extend(gone.map(|member| change(&place, member.clone(), cause, (removed, cause.by))));
        for (member, value) in &now {
            let what = match before.get(member) {
                Some(earlier) if earlier == value => continue,
                Some(_) => KeyChange::Changed,
                None => KeyChange::Set,
            };
            let adder = (place.1.clone(), member.clone());
            let by = if is_loaded { self.adders.get(&adder).copied() } else { cause.by };
            if let (KeyChange::Set, Some(by)) = (what, by) {
                self.adders.insert(adder, by);
            }
            found.push(change(&place, member.clone(), cause, (what, by)));
        }
        self.known.insert(place, now);
        found
    }
}

fn change(
    (host, key): &(HostId, KeyName),
    member: Bytes,
    cause: Trigger,
    (change, by): (KeyChange, Option<OpId>),
) -> MemberChange {
    let (host, key, at) = (*host, key.clone(), cause.at);
    MemberChange { host, key, member, at, change, by, is_moved: false }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use bytes::Bytes;
    use lockstorm_platform::time::{Instant, Readings, Stamp};
    use lockstorm_platform::trace::{Connection, Entry, Event, HostId, KeyChange, KeyName, Origin};

    use super::Members;
    use crate::history::OpId;
    use crate::reading::provenance::CausedChange;

    /// A node's entries, one after the other.
    #[derive(Default)]
    struct Node(Members, u64);

    impl Node {
        /// What an entry and the changes of keys that it implies reveal: `a set 1`.
        fn take(&mut self, event: Event, changes: &[CausedChange<OpId>]) -> Vec<String> {
            self.1 += 1;
            let stamp = Stamp::new(Instant { seq: self.1, at: self.1 }, Readings::default());
            let found = self.0.take(&Entry { stamp, host: HostId(1), event }, changes);
            let text = |it: super::MemberChange| {
                let (name, by) = (String::from_utf8_lossy(&it.member).into_owned(), it.by);
                let change = format!("{:?}", it.change).to_lowercase();
                format!("{name} {change} {}", by.map_or("-".to_owned(), |by| by.to_string()))
            };
            found.into_iter().map(text).collect()
        }

        /// The lock's key changes, by an operation or by the node.
        fn key(&mut self, change: KeyChange, by: Option<OpId>) -> Vec<String> {
            let (key, until_ms) = (lock(), None);
            let request = Origin::Replication { history: 1, offset: 1 };
            let origin = if by.is_some() { request } else { Origin::Node };
            let caused = CausedChange { key: lock(), change, until_ms, by, unacknowledged: false };
            self.take(Event::Key { key, change, origin, until_ms }, &[caused])
        }

        /// The node reports members as `name=value`.
        fn report(&mut self, members: &[&str], is_loaded: bool) -> Vec<String> {
            let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
            let pair = |member: &&str| {
                let (name, value) = member.split_once('=').unwrap_or((member, ""));
                (bytes(name), bytes(value))
            };
            let members = members.iter().map(pair).collect();
            self.take(Event::Members { key: lock(), members, is_loaded }, &[])
        }

        fn other(&mut self) -> Vec<String> {
            self.take(Event::Unreplicated, &[])
        }

        fn load(&mut self, keys: Vec<KeyName>) -> Vec<String> {
            self.take(Event::Loaded { keys, resync: None, file: None }, &[])
        }

        /// The node takes over what its master has.
        fn resynchronise(&mut self, keys: Vec<KeyName>) -> Vec<String> {
            let end = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
            let resync = Some(Connection { client: end(1), server: end(2) });
            self.take(Event::Loaded { keys, resync, file: None }, &[])
        }
    }

    fn lock() -> KeyName {
        KeyName::new(0, b"lock"[..].into())
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn a_command_changes_what_differs_after_it() {
        let mut node = Node::default();
        assert_eq!(node.key(KeyChange::Set, Some(1)), NONE);
        assert_eq!(node.report(&["a=5"], false), ["a set 1"]);
        node.key(KeyChange::Changed, Some(2));
        assert_eq!(node.report(&["a=5", "b=6"], false), ["b set 2"]);
        node.key(KeyChange::Changed, Some(3));
        assert_eq!(node.report(&["b=7"], false), ["a deleted 3", "b changed 3"]);
        assert_eq!(node.report(&["c=1"], false), NONE, "no change of the key came before");
    }

    #[test]
    fn an_element_that_a_command_moved_behind_another_has_changed() {
        let mut node = Node::default();
        node.key(KeyChange::Set, Some(1));
        node.report(&["a", "b", "c"], false);
        node.key(KeyChange::Changed, Some(2));
        assert_eq!(node.report(&["b", "c", "a"], false), ["a changed 2"]);
        node.key(KeyChange::Changed, Some(3));
        assert_eq!(node.report(&["c", "a", "d"], false), ["b deleted 3", "d set 3"]);
        node.key(KeyChange::Changed, Some(4));
        assert_eq!(node.report(&["d", "c", "a"], false), ["c changed 4", "a changed 4"]);
        assert_eq!(node.report(&["a", "c", "d"], true), NONE, "it was loaded so");
    }

    #[test]
    fn a_collection_that_is_gone_takes_its_members_with_it() {
        let mut node = Node::default();
        node.key(KeyChange::Set, Some(1));
        node.report(&["a", "b"], false);
        node.key(KeyChange::Deleted, Some(2));
        node.key(KeyChange::Set, Some(2));
        assert_eq!(node.report(&["b"], false), ["a deleted 2"], "it was filled again");
        assert_eq!(node.key(KeyChange::Deleted, Some(3)), NONE);
        assert_eq!(node.other(), ["b deleted 3"]);
        node.key(KeyChange::Set, Some(4));
        node.report(&["c"], false);
        assert_eq!(node.key(KeyChange::Expired, None), ["c expired -"]);
        assert_eq!(node.other(), NONE);
    }

    #[test]
    fn a_start_loses_members_and_restores_others() {
        let mut node = Node::default();
        node.key(KeyChange::Set, Some(1));
        node.report(&["a"], false);
        node.key(KeyChange::Changed, Some(2));
        node.report(&["a", "b"], false);
        node.key(KeyChange::Changed, Some(3));
        node.report(&["b"], false);
        node.load(vec![lock()]);
        assert_eq!(node.report(&["a"], true), ["b lostatrestart -", "a set 1"]);
        assert_eq!(node.load(vec![]), ["a lostatrestart -"]);
    }

    #[test]
    fn a_resynchronisation_loses_members_to_the_failover() {
        let mut node = Node::default();
        node.key(KeyChange::Set, Some(1));
        node.report(&["a", "b"], false);
        node.resynchronise(vec![lock()]);
        assert_eq!(node.report(&["b"], true), ["a lostatfailover -"]);
        assert_eq!(node.resynchronise(vec![]), ["b lostatfailover -"]);
    }
}
