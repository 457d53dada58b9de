//! Epochs and votes: which Sentinel may fail a master over.

use std::collections::BTreeMap;

use lockstorm_platform::time::Ms;

use crate::sentinel::{Sentinel, SentinelMoment};

/// Starts are delayed by less than this, so that not all Sentinels begin together.
const MAX_DESYNC: u64 = 1_000;

/// A drawn fraction of a second.
pub fn desync(chance: u64) -> Ms {
    Ms::try_from(chance % MAX_DESYNC).unwrap_or(0)
}

impl Sentinel {
    /// Votes for `candidate` in `epoch`, unless it voted in that epoch or a later one: the first
    /// candidate gets the vote. Returns the last vote with its epoch. The file must be written
    /// before any Sentinel learns of the vote, otherwise a restarted process could vote twice.
    pub fn vote(
        &mut self,
        name: &str,
        epoch: u64,
        candidate: &str,
        now: SentinelMoment,
    ) -> Option<(String, u64)> {
        // First, so that the vote below is cast in the candidate's epoch.
        if epoch > self.epoch && self.masters.contains_key(name) {
            self.raise_epoch(epoch);
        }
        let is_own = candidate.eq_ignore_ascii_case(&self.id);
        let master = self.masters.get_mut(name)?;
        if master.leader_epoch < epoch && self.epoch <= epoch {
            debug_assert_eq!(self.epoch, epoch, "a vote is cast in the candidate's epoch");
            debug_assert!(master.leader_epoch < self.epoch, "one vote an epoch");
            master.leader = Some(candidate.to_owned());
            master.leader_epoch = self.epoch;
            if !is_own {
                // Delays this Sentinel's own attempt, so that the candidate has time for its
                // failover.
                master.failover.started_at = now.ms + desync(now.chance);
            }
            self.unsaved = true;
            self.events.push(("+vote-for-leader", format!("{candidate} {}", self.epoch)));
        }
        let master = self.masters.get(name)?;
        Some((master.leader.clone()?, master.leader_epoch))
    }

    /// The leader of the failover of `epoch`, if there is one: it needs the votes of more than half
    /// of all known Sentinels, down ones included, and of the quorum. This Sentinel votes last, for
    /// the candidate with most votes or for itself.
    pub fn leader(&mut self, name: &str, epoch: u64, now: SentinelMoment) -> Option<String> {
        let current = self.epoch;
        let master = self.masters.get(name)?;
        let mut votes: BTreeMap<String, usize> = BTreeMap::new();
        for peer in master.sentinels.values().filter(|peer| peer.leader_epoch == current) {
            if let Some(leader) = &peer.leader {
                *votes.entry(leader.clone()).or_default() += 1;
            }
        }
        let voters = master.sentinels.len() + 1;
        let quorum = usize::try_from(master.quorum).unwrap_or(usize::MAX);
        let candidate = most_voted(&votes).map_or(self.id.clone(), |(leader, _)| leader);
        if let Some((own, at)) = self.vote(name, epoch, &candidate, now)
            && at == epoch
        {
            *votes.entry(own).or_default() += 1;
        }
        debug_assert!(votes.values().sum::<usize>() <= voters, "every Sentinel has one vote");
        let (winner, count) = most_voted(&votes)?;
        (count > voters / 2 && count >= quorum).then_some(winner)
    }
}

fn most_voted(votes: &BTreeMap<String, usize>) -> Option<(String, usize)> {
    let most = votes.values().max()?;
    let found = votes.iter().find(|(_, count)| *count == most);
    found.map(|(leader, count)| (leader.clone(), *count))
}
