//! Joint behaviour of cluster nodes: failures, elections, slots, votes.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::cluster::election::Urgency;
use crate::cluster::message::{Message, MessageKind};
use crate::cluster::peer::{ClusterNode, ClusterRole, Health};
use crate::cluster::slots::SlotSet;
use crate::cluster::stage::{RULES, Stage, TIMEOUT, address, read};
use crate::cluster::{Cluster, ClusterAction, name_of};

#[test]
fn a_dead_master_is_suspected_after_the_time_out_and_failed_by_a_majority_soon_after() {
    let mut stage = Stage::new(&[0, 1, 2]);
    stage.cut.insert(1);
    let suspected = stage.until(|stage| stage.peer(0, 1).health != Health::Up);
    assert!((TIMEOUT..=TIMEOUT * 3 / 2 + 200).contains(&suspected), "{suspected}");
    let failed =
        stage.until(|stage| stage.peer(0, 1).has_failed() && stage.peer(2, 1).has_failed());
    assert!(failed <= TIMEOUT * 2, "{failed}");
    assert!(stage.peer(4, 1).has_failed(), "a replica is told so");
}

#[test]
fn a_replica_takes_the_slots_with_a_higher_epoch_half_a_second_after_the_failure() {
    let mut stage = Stage::new(&[0, 1, 2]);
    stage.cut.insert(1);
    stage.until(|stage| stage.peer(4, 1).has_failed());
    let elected = stage.until(|stage| stage.is_master(4));
    assert!((500..=1_200).contains(&elected), "{elected}");
    let winner = stage.nodes[4].myself();
    assert_eq!(winner.slots, SlotSet::range((5461, 10921)));
    assert_eq!((winner.config_epoch, stage.nodes[4].current_epoch), (4, 4));
    stage.pass(500);
    assert_eq!(stage.peer(0, 4).slots, SlotSet::range((5461, 10921)), "all take it over");
    assert!(stage.peer(0, 1).slots.is_empty());
    assert!(stage.nodes[0].is_up, "and the cluster is up again");
    assert_eq!(stage.deeds[4], [ClusterAction::Follow(None)]);
}

#[test]
fn an_old_master_that_comes_back_follows_who_has_its_slots() {
    let mut stage = Stage::new(&[0, 1, 2]);
    stage.cut.insert(1);
    stage.until(|stage| stage.is_master(4));
    assert!(stage.is_master(1), "nobody tells it");
    stage.cut.clear();
    let back = stage.until(|stage| !stage.is_master(1));
    assert!(back <= 1_500, "{back}");
    assert_eq!(stage.nodes[1].myself().part, ClusterRole::Replica(name_of(address(4))));
    assert_eq!(stage.deeds[1], [ClusterAction::Follow(Some(address(4)))]);
    stage.pass(5_000);
    assert_eq!(stage.peer(0, 1).part, ClusterRole::Replica(name_of(address(4))));
    assert_eq!(stage.peer(0, 1).health, Health::Up, "a replica is taken back at once");
}

#[test]
fn a_master_without_a_majority_stops_after_the_time_out_and_waits_to_rejoin() {
    let mut stage = Stage::new(&[0]);
    stage.cut.insert(1);
    let stops = stage.until(|stage| !stage.nodes[1].is_up);
    assert!((TIMEOUT..=TIMEOUT * 3 / 2 + 200).contains(&stops), "{stops}");
    stage.pass(1_000);
    stage.cut.clear();
    let back = stage.until(|stage| stage.nodes[1].is_up);
    assert!(back >= TIMEOUT, "it waits for a time-out: {back}");
}

#[test]
fn without_replicas_the_slots_stay_uncovered_and_the_failed_master_gets_them_back() {
    let mut stage = Stage::new(&[0]);
    stage.cut.insert(1);
    stage.until(|stage| stage.peer(0, 1).has_failed());
    assert!(!stage.nodes[0].is_up, "full coverage is asked for");
    stage.cut.clear();
    let back = stage.until(|stage| !stage.peer(0, 1).has_failed());
    assert!(back > TIMEOUT, "a master with slots is pardoned late: {back}");
    stage.until(|stage| stage.nodes.iter().all(|node| node.is_up));
}

#[test]
fn of_two_replicas_the_one_that_has_more_wins() {
    let mut stage = Stage::new(&[1, 1]);
    stage.streams[4] = (200, None);
    stage.pass(TIMEOUT);
    stage.cut.insert(1);
    stage.until(|stage| stage.is_master(3) || stage.is_master(4));
    assert!(stage.is_master(4) && !stage.is_master(3));
    stage.pass(2_000);
    assert_eq!(stage.nodes[3].myself().part, ClusterRole::Replica(name_of(address(4))));
}

#[test]
fn a_replica_that_has_not_heard_its_master_for_too_long_does_not_stand() {
    let mut stage = Stage::new(&[1]);
    stage.streams[3].1 = Some(stage.now);
    stage.pass(10_000 + TIMEOUT * 11 + 1_000);
    stage.cut.insert(1);
    stage.pass(20_000);
    assert!(!stage.is_master(3));
    let factor = |cluster: &mut Cluster| cluster.rules.validity_factor = 0;
    factor(&mut stage.nodes[3]);
    stage.until(|stage| stage.is_master(3));
}

#[test]
fn a_minority_elects_nobody() {
    let mut stage = Stage::new(&[0, 1, 2]);
    stage.cut.extend([1, 2, 5]);
    stage.pass(60_000);
    assert!(!stage.is_master(4), "one master of three votes");
    assert_eq!(stage.peer(0, 1).health, Health::Suspect, "and none has failed");
}

/// A replica's vote request to master 0; whether it gets the vote.
fn grants_vote(
    stage: &mut Stage,
    replica: usize,
    epoch: u64,
    config_epoch: u64,
    force: bool,
) -> bool {
    let mut head = stage.nodes[replica].head();
    (head.current_epoch, head.config_epoch) = (epoch, config_epoch);
    let moment = stage.moment(0);
    let message = Message { head, kind: MessageKind::AuthRequest { force } };
    stage.nodes[0].take(moment, None, &message);
    let sent = stage.nodes[0].actions.iter().filter_map(|action| match action {
        ClusterAction::Send(_, bytes) => Some(read(bytes)),
        _ => None,
    });
    let given = sent.map(|message| message.kind).any(|kind| kind == MessageKind::AuthAck);
    stage.nodes[0].actions.clear();
    given
}

#[test]
fn a_vote_is_given_once_an_epoch_and_only_for_good_reasons() {
    let mut stage = Stage::new(&[1, 1, 2]);
    assert!(!grants_vote(&mut stage, 3, 9, 2, false), "the master has not failed");
    assert!(grants_vote(&mut stage, 3, 9, 2, true), "but the replica was told to");
    assert_eq!(stage.nodes[0].last_vote_epoch, 9);
    assert!(!grants_vote(&mut stage, 5, 9, 3, true), "one vote an epoch");
    assert!(!grants_vote(&mut stage, 4, 10, 2, true), "one vote a master in two time-outs");
    assert!(!grants_vote(&mut stage, 5, 8, 3, true), "an epoch of the past");
    assert!(!grants_vote(&mut stage, 5, 11, 2, true), "it knows less of the slots than the voter");
    assert!(grants_vote(&mut stage, 5, 11, 3, true));
    stage.now += 2 * TIMEOUT;
    assert!(grants_vote(&mut stage, 4, 12, 2, true));
}

#[test]
fn votes_and_slots_outlive_the_process() {
    let mut stage = Stage::new(&[0, 1, 2]);
    assert!(grants_vote(&mut stage, 4, 9, 2, true));
    let (to, from) = (name_of(address(1)), name_of(address(2)));
    stage.nodes[0].migrating.insert(5, to);
    stage.nodes[0].importing.insert(16_000, from);
    let now = stage.now;
    stage.nodes[0].peer_mut(&name_of(address(2)), |peer| peer.health = Health::Failed(now));
    let text = stage.nodes[0].write_file();
    let mut back = Cluster::new(address(0), RULES, stage.moment(0));
    back.read_file(&text);
    assert_eq!((back.last_vote_epoch, back.current_epoch), (9, 9));
    assert_eq!((&back.migrating, &back.importing), {
        let old = &stage.nodes[0];
        (&old.migrating, &old.importing)
    });
    for (id, peer) in &back.nodes {
        let old = &stage.nodes[0].nodes[id];
        assert_eq!((&peer.part, &peer.slots), (&old.part, &old.slots));
        assert_eq!(peer.has_failed(), old.has_failed());
    }
    assert!(!back.is_up, "a master that has just started waits");
    let own = back.me.clone();
    back.read_file("nonsense\n");
    assert_eq!(back.me, own, "a node knows itself whatever the file says");
}

#[test]
fn a_restarted_master_takes_no_requests_for_two_seconds() {
    let mut stage = Stage::new(&[0, 1, 2]);
    let text = stage.nodes[0].write_file();
    let mut back = Cluster::new(address(0), RULES, stage.moment(0));
    back.read_file(&text);
    stage.nodes[0] = back;
    stage.lines[0].clear();
    let up = stage.until(|stage| stage.nodes[0].is_up);
    assert!((2_000..=2_200).contains(&up), "{up}");
}

#[test]
fn a_manual_failover_loses_nothing_at_which_the_master_has_paused() {
    let mut stage = Stage::new(&[0, 1, 2]);
    stage.streams[4].0 = 90;
    stage.nodes[4].fail_over(Urgency::Agreed);
    stage.settle(4);
    assert!(
        matches!(stage.deeds[1][..], [ClusterAction::Pause(Some(_))]),
        "the master holds writes back"
    );
    stage.pass(1_000);
    assert!(!stage.is_master(4), "the replica has not caught up");
    stage.streams[4].0 = 100;
    let done = stage.until(|stage| stage.is_master(4) && !stage.is_master(1));
    assert!(done <= 500, "nothing is waited for: {done}");
    let deeds = [ClusterAction::Follow(Some(address(4))), ClusterAction::Pause(None)];
    assert_eq!(stage.deeds[1][1..], deeds);
    assert_eq!(stage.nodes[1].myself().part, ClusterRole::Replica(name_of(address(4))));
}

#[test]
fn a_failover_that_does_not_come_about_is_given_up_after_five_seconds() {
    let mut stage = Stage::new(&[0, 1, 2]);
    stage.streams[4].0 = 90;
    stage.nodes[4].fail_over(Urgency::Agreed);
    stage.settle(4);
    stage.pass(5_200);
    stage.streams[4].0 = 100;
    stage.pass(3_000);
    assert!(stage.is_master(1) && !stage.is_master(4));
    assert_eq!(stage.deeds[1].last(), Some(&ClusterAction::Pause(None)));
}

#[test]
fn force_needs_votes_and_takeover_needs_nobody() {
    for (urgency, wins) in [(Urgency::Forced, false), (Urgency::Alone, true)] {
        let mut stage = Stage::new(&[0, 1, 2]);
        stage.cut.insert(4);
        stage.nodes[4].fail_over(urgency);
        stage.settle(4);
        stage.pass(3_000);
        assert_eq!(stage.is_master(4), wins, "{urgency:?}");
    }
    let mut stage = Stage::new(&[0, 1, 2]);
    stage.nodes[4].fail_over(Urgency::Forced);
    stage.settle(4);
    stage.pass(500);
    assert!(stage.is_master(4) && !stage.is_master(1), "with votes at once");
}

#[test]
fn two_masters_with_one_epoch_part() {
    let mut stage = Stage::new(&[0]);
    for n in 0..2 {
        let (id, epoch) = (stage.nodes[n].me.clone(), 7);
        stage.nodes[n].peer_mut(&id, |own| own.config_epoch = epoch);
    }
    stage.pass(3_000);
    let epochs: BTreeSet<u64> = (0..3).map(|n| stage.nodes[n].myself().config_epoch).collect();
    assert_eq!(epochs.len(), 3, "{epochs:?}");
}

#[test]
fn a_stranger_is_let_in_by_all_and_kept_out_once_forgotten() {
    let mut stage = Stage::new(&[0]);
    let moment = stage.moment(0);
    stage.nodes.push(Cluster::new(address(4), RULES, moment));
    stage.streams.push((0, Some(0)));
    stage.lines.push(Vec::new());
    stage.deeds.push(Vec::new());
    stage.nodes[0].meet(address(4), true);
    stage.until(|stage| stage.nodes.iter().all(|node| node.nodes.len() == 5));
    stage.pass(2_000);
    assert!(stage.nodes.iter().all(|node| !node.nodes.values().any(ClusterNode::is_stranger)));
    assert!(stage.nodes[4].is_up);
    let gone = name_of(address(4));
    stage.cut.insert(4);
    (0..4).for_each(|n| stage.nodes[n].forget(&gone));
    stage.pass(10_000);
    assert!((0..4).all(|n| !stage.nodes[n].nodes.contains_key(&gone)));
}

#[test]
fn a_stranger_that_does_not_answer_is_forgotten() {
    let mut stage = Stage::new(&[0]);
    stage.nodes[0].meet(address(50), true);
    assert_eq!(stage.nodes[0].nodes.len(), 5);
    stage.pass(TIMEOUT + 200);
    assert_eq!(stage.nodes[0].nodes.len(), 4);
}

#[test]
fn a_claim_of_slots_with_another_owner_is_corrected() {
    let mut stage = Stage::new(&[0]);
    let one = name_of(address(1));
    stage.nodes[0].assign(10, Some(&one));
    stage.nodes[1].assign(10, Some(&one));
    stage.nodes[1].bump_epoch();
    stage.pass(3_000);
    assert!(stage.nodes[2].nodes[&one].slots.contains(10), "the higher epoch is right");
    let mut old = stage.nodes[0].head();
    old.slots = SlotSet::range((0, 5460));
    let ping = Message { head: old, kind: MessageKind::Ping(Vec::new()) };
    let moment = stage.moment(2);
    stage.nodes[2].take(moment, None, &ping);
    let update = stage.nodes[2].actions.iter().any(|action| match action {
        ClusterAction::Send(_, bytes) => matches!(read(bytes).kind, MessageKind::Update { .. }),
        _ => false,
    });
    assert!(update);
    assert!(stage.nodes[2].nodes[&one].slots.contains(10));
}

#[test]
fn keys_of_lost_slots_are_deleted_and_the_last_slot_makes_a_replica() {
    let mut stage = Stage::new(&[0]);
    let one = name_of(address(1));
    stage.nodes[0].take_slots(&one, 9, &SlotSet::range((10, 11)));
    assert_eq!(stage.nodes[0].actions, [ClusterAction::Clear(SlotSet::range((10, 11)))]);
    stage.nodes[0].take_slots(&one, 9, &SlotSet::range((0, 5460)));
    assert_eq!(stage.nodes[0].myself().part, ClusterRole::Replica(one));
}

#[test]
fn what_is_published_reaches_everybody_and_shard_channels_their_shard() {
    let mut stage = Stage::new(&[0, 1, 2]);
    for (shard, heard) in [(false, [1, 2, 3, 4, 5].as_slice()), (true, &[3])] {
        let (channel, message) = (Bytes::from("c"), Bytes::from("m"));
        stage.nodes[0].spread(&channel, &message, shard);
        stage.settle(0);
        let publish = ClusterAction::Publish { channel, message, shard };
        let who: Vec<usize> = (0..6).filter(|n| stage.deeds[*n].contains(&publish)).collect();
        assert_eq!(who, heard);
    }
}

#[test]
fn every_message_is_read_as_it_is_written() {
    let stage = Stage::new(&[0, 1, 2]);
    let node = &stage.nodes[3];
    let id = node.me.clone();
    let text = |text: &'static str| Bytes::from(text);
    let kinds = [
        MessageKind::Ping(node.rumours()),
        MessageKind::Pong(Vec::new()),
        MessageKind::Meet(node.rumours()),
        MessageKind::Fail(id.clone()),
        MessageKind::AuthRequest { force: true },
        MessageKind::AuthRequest { force: false },
        MessageKind::AuthAck,
        MessageKind::Update { id, epoch: 5, slots: SlotSet::range((1, 2)) },
        MessageKind::FailoverStart,
        MessageKind::Publish { channel: text("a b"), message: text("\r\n"), shard: false },
        MessageKind::Publish { channel: text(""), message: text("x"), shard: true },
    ];
    for kind in kinds {
        let message = Message { head: node.head(), kind };
        assert_eq!(read(&message.encode()), message);
    }
    assert_eq!(Message::decode(&[Bytes::from("ping")]), None);
}
