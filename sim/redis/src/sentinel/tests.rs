//! The state without a network: simulated nodes and Sentinels with scripted replies.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;
use lockstorm_platform::trace::{Event, Sight};

use crate::frame::Reply;
use crate::sentinel::instance::{MonitoredReplica, State};
use crate::sentinel::known::Known;
use crate::sentinel::{Sentinel, SentinelAction, SentinelConfig, SentinelMoment, sight};
use lockstorm_platform::time::Ms;

const START: Ms = 1_000_000;
const NAME: &str = "mymaster";

fn at(host: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 6379)
}

fn peer_id(n: u8) -> String {
    format!("{n:040x}")
}

/// One Sentinel, its clock, and its simulated peers: node 1 is the master, the others follow it.
struct Town {
    sentinel: Sentinel,
    now: Ms,
    lines: BTreeMap<u64, SocketAddrV4>,
    /// The silent nodes, and the requests to them meanwhile.
    silent: BTreeSet<u8>,
    held: Vec<(u64, Vec<String>)>,
    /// Nodes that report that they are masters.
    masters: BTreeSet<u8>,
    /// Replicas that ignore SLAVEOF, and the master of each replica.
    stubborn: BTreeSet<u8>,
    follows: BTreeMap<u8, String>,
    nodes: u8,
    /// The other Sentinels' opinion about the master, and their vote (`me` is this one).
    opinion: (i64, &'static str),
    events: Vec<String>,
    /// The effects of each SLAVEOF.
    orders: Vec<String>,
}

impl Town {
    fn new(nodes: u8, peers: u8, quorum: u32) -> Town {
        let mut sentinel = Sentinel::new("f".repeat(40), at(200), START);
        let mut config = SentinelConfig::of(at(1), quorum);
        config.down_after_ms = 1_000;
        config.failover_timeout_ms = 20_000;
        sentinel.set_up(&config, START);
        for n in 0..peers {
            let (id, address) = (peer_id(n), at(100 + n));
            let hello =
                format!("{},{},{id},0,{NAME},10.0.0.1,6379,0", address.ip(), address.port());
            sentinel.hear_hello(&hello, START);
        }
        Town {
            sentinel,
            now: START,
            lines: BTreeMap::new(),
            silent: BTreeSet::new(),
            held: Vec::new(),
            masters: BTreeSet::from([1]),
            stubborn: BTreeSet::new(),
            follows: BTreeMap::new(),
            nodes,
            opinion: (0, "*"),
            events: Vec::new(),
            orders: Vec::new(),
        }
    }

    /// Advances time in ticks of a tenth of a second.
    fn pass(&mut self, ms: Ms) {
        for _ in 0..ms / 100 {
            self.now += 100;
            self.sentinel.tick(SentinelMoment { ms: self.now, chance: 0 });
            self.answer();
        }
    }

    /// Makes all nodes reply again, first to the requests received meanwhile.
    fn wake(&mut self) {
        self.silent.clear();
        for (line, words) in std::mem::take(&mut self.held) {
            self.reply(line, &words);
        }
    }

    fn answer(&mut self) {
        while !self.sentinel.actions.is_empty() {
            for action in std::mem::take(&mut self.sentinel.actions) {
                match action {
                    SentinelAction::Open(line, to) => drop(self.lines.insert(line, to)),
                    SentinelAction::Close(line) => drop(self.lines.remove(&line)),
                    SentinelAction::Send(line, words) => self.reply(line, &words),
                }
            }
        }
        let events = std::mem::take(&mut self.sentinel.events);
        self.events.extend(events.into_iter().map(|(event, text)| format!("{event} {text}")));
    }

    fn reply(&mut self, line: u64, words: &[String]) {
        let Some(to) = self.lines.get(&line).copied() else { return };
        let host = to.ip().octets()[3];
        if self.silent.contains(&host) {
            return self.held.push((line, words.to_vec()));
        }
        let reply = match (&words[0][..], words.get(1).map(String::as_str)) {
            ("PING", _) => Reply::simple("PONG"),
            ("INFO", _) => Reply::Bulk(Bytes::from(self.info(host))),
            ("SENTINEL", Some("is-master-down-by-addr")) => {
                let (down, leader) = self.opinion;
                let leader = if leader == "me" { &self.sentinel.id } else { leader };
                let epoch: i64 = words[4].parse().expect("an epoch");
                let leader = if words[5] == "*" { "*" } else { leader };
                let leader = Reply::bulk(leader.as_bytes());
                Reply::Array(vec![Reply::Integer(down), leader, Reply::Integer(epoch)])
            }
            ("SLAVEOF", Some(master)) => {
                self.orders.push(format!("{host} {master}"));
                if master == "NO" {
                    self.masters.insert(host);
                } else {
                    self.follows.insert(host, master.to_owned());
                }
                Reply::OK
            }
            _ => Reply::OK,
        };
        self.sentinel.heard(line, &reply, SentinelMoment { ms: self.now, chance: 0 });
    }

    fn info(&self, host: u8) -> String {
        if self.masters.contains(&host) {
            let is_replica = |n: &u8| *n != host && !self.masters.contains(n);
            let replicas = (1..=self.nodes).filter(is_replica).enumerate();
            let lines = replicas.map(|(n, replica)| {
                format!("slave{n}:ip=10.0.0.{replica},port=6379,state=online,offset=1,lag=0\r\n")
            });
            return format!("run_id:{host:040x}\r\nrole:master\r\n{}", lines.collect::<String>());
        }
        let follows = self.follows.get(&host).filter(|_| !self.stubborn.contains(&host));
        let follows = follows.map_or("10.0.0.1", String::as_str);
        format!(
            "run_id:{host:040x}\r\nrole:slave\r\nmaster_host:{follows}\r\nmaster_port:6379\r\n\
             master_link_status:up\r\nslave_repl_offset:7\r\nslave_priority:100\r\n"
        )
    }

    fn says(&self, event: &str) -> bool {
        self.events.iter().any(|said| said.starts_with(event))
    }

    fn state(&self) -> State {
        self.sentinel.masters[NAME].failover.state
    }
}

/// Facts 20 to 24: the events that a Sentinel has published after a while, and those that it has
/// not.
fn check(mut town: Town, ms: Ms, said: &[&str], unsaid: &[&str]) -> Town {
    town.pass(ms);
    let lacking: Vec<_> = said.iter().filter(|event| !town.says(event)).collect();
    let extra: Vec<_> = unsaid.iter().filter(|event| town.says(event)).collect();
    assert!(lacking.is_empty() && extra.is_empty(), "{lacking:?} {extra:?} {:#?}", town.events);
    town
}

/// A simulation that has run for a while, and whose master falls silent now.
fn dead_master(mut town: Town, opinion: (i64, &'static str)) -> Town {
    town.pass(3_000);
    town.opinion = opinion;
    town.silent.insert(1);
    town
}

#[test]
fn an_event_of_a_master_is_a_sight_and_the_rest_is_none() {
    let saw = |sight, master| Some(Event::Saw { sight, master });
    let odown = "master mymaster 10.0.0.1 6379 #quorum 2/2";
    assert_eq!(sight("+odown", odown), saw(Sight::Down, at(1)));
    let switched = "mymaster 10.0.0.1 6379 10.0.0.2 6379";
    assert_eq!(sight("+switch-master", switched), saw(Sight::Named, at(2)));
    let replica = "slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379";
    assert_eq!(sight("+sdown", replica), None);
    assert_eq!(sight("-odown", odown), None);
    assert_eq!(sight("+tilt", "#tilt mode entered"), Some(Event::Tilted));
    assert_eq!(sight("-tilt", "#tilt mode exited"), None);
}

#[test]
fn fact_20_a_master_is_down_after_the_time_and_odown_with_the_quorum() {
    let town = || Town::new(2, 2, 2);
    check(dead_master(town(), (0, "*")), 900, &["+slave"], &["+sdown"]);
    let sdown = "+sdown master mymaster 10.0.0.1 6379";
    check(dead_master(town(), (0, "*")), 2_500, &[sdown], &["+odown"]);
    let odown = "+odown master mymaster 10.0.0.1 6379 #quorum 3/2";
    check(dead_master(town(), (1, "*")), 2_500, &[sdown, odown, "+try-failover"], &["+elected"]);
    check(dead_master(Town::new(2, 0, 1), (0, "*")), 2_500, &[sdown, "+elected-leader"], &[]);
}

#[test]
fn fact_20_a_leader_needs_a_majority_of_all_known_and_the_quorum() {
    let elected = &["+elected-leader"][..];
    check(dead_master(Town::new(2, 2, 2), (1, "me")), 4_000, elected, &[]);
    let mut four = Town::new(2, 4, 1);
    four.silent.extend([100, 101, 102]);
    let aborted = &["-failover-abort-not-elected"][..];
    check(dead_master(four, (1, "me")), 14_000, aborted, elected);
    let other = "00000000000000000000000000000000000000aa";
    check(dead_master(Town::new(2, 2, 2), (1, other)), 14_000, aborted, elected);
}

#[test]
fn fact_20_one_vote_an_epoch_first_asker_first() {
    let mut sentinel = Town::new(2, 2, 2).sentinel;
    sentinel.unsaved = false;
    let now = SentinelMoment { ms: START, chance: 500 };
    let mut vote = |epoch, who: &str| {
        let (leader, at) = sentinel.vote(NAME, epoch, who, now).expect("a vote");
        format!("{leader} {at}")
    };
    for (epoch, who, voted) in
        [(1, "a", "a 1"), (1, "b", "a 1"), (3, "b", "b 3"), (2, "c", "b 3"), (4, "c", "c 4")]
    {
        assert_eq!(vote(epoch, who), voted);
    }
    assert_eq!(sentinel.masters[NAME].failover.started_at, START + 500, "others go first");
    let mut again = Sentinel::new("e".repeat(40), at(200), START);
    again.read_file(&sentinel.write_file(), START);
    assert!(sentinel.unsaved, "a vote is kept before it goes out");
    assert_eq!((again.epoch, again.masters[NAME].leader_epoch), (4, 4), "and outlives the process");
    assert_eq!(again.write_file(), sentinel.write_file());
}

#[test]
fn fact_21_the_replica_with_priority_then_offset_then_run_id_of_those_that_are_well() {
    let mut town = Town::new(4, 0, 1);
    town.pass(2_000);
    let now = town.now;
    type Edit = fn(&mut MonitoredReplica, Ms);
    let nothing: Edit = |_, _| {};
    let rows: [(&str, u8, Edit, Option<u8>); 9] = [
        ("the smallest run id", 2, nothing, Some(2)),
        ("the largest offset", 4, |r, _| r.instance.report.offset = 9, Some(4)),
        ("the lowest priority first", 3, |r, _| r.instance.report.priority = 1, Some(3)),
        ("no priority, no promotion", 2, |r, _| r.instance.report.priority = 0, Some(3)),
        ("down", 2, |r, _| r.instance.s_down = true, Some(3)),
        ("no connection", 2, |r, _| r.instance.link.disconnected = true, Some(3)),
        ("no answer for 5 s", 2, |r, now| r.instance.link.available_at = now - 5_001, Some(3)),
        ("old INFO", 2, |r, now| r.instance.report.at = now - 30_001, Some(3)),
        ("cut off for long", 2, |r, _| r.instance.report.link_down = 10_001, Some(3)),
    ];
    for (why, node, change, best) in rows {
        let mut sentinel = town.sentinel.clone();
        let master = sentinel.masters.get_mut(NAME).expect("it is watched");
        change(master.replicas.get_mut(&at(node)).expect("a replica"), now);
        assert_eq!(sentinel.best_replica(NAME, now), best.map(at), "{why}");
    }
}

#[test]
fn fact_22_a_returned_master_is_demoted_after_8_s_and_an_info() {
    let mut town = dead_master(Town::new(2, 0, 1), (0, "*"));
    town.pass(6_000);
    assert!(town.says("+switch-master mymaster 10.0.0.1 6379 10.0.0.2 6379"), "{:?}", town.events);
    assert_eq!(town.state(), State::None);
    town.orders.clear();
    town.wake();
    let back = town.now;
    while town.orders.is_empty() && town.now < back + 60_000 {
        town.pass(100);
    }
    assert_eq!(town.orders, ["1 10.0.0.2"]);
    assert!((8_000..12_500).contains(&(town.now - back)), "{}", town.now - back);
    assert!(town.says("+convert-to-slave slave 10.0.0.1:6379 10.0.0.1 6379 @ mymaster 10.0.0.2"));
}

#[test]
fn fact_23_a_clock_that_jumps_stops_a_sentinel_for_30_s() {
    for jump in [-150, 2_001] {
        let mut town = Town::new(2, 0, 1);
        town.pass(3_000);
        town.now += jump;
        town.silent.insert(1);
        let town = check(town, 29_900, &["+tilt #tilt mode entered"], &["+sdown", "-tilt"]);
        check(town, 3_000, &["-tilt #tilt mode exited", "+sdown"], &[]);
    }
}

#[test]
fn fact_24_the_highest_config_epoch_wins_and_replicas_are_reconfigured_one_at_a_time() {
    let mut town = Town::new(2, 1, 2);
    town.pass(3_000);
    let hello = |epoch: u64, master: u8| {
        format!("10.0.0.100,6379,{},{epoch},{NAME},10.0.0.{master},6379,{epoch}", peer_id(0))
    };
    for (epoch, master, now_is) in [(0, 2, 1), (3, 2, 2), (2, 1, 2), (3, 1, 2)] {
        town.sentinel.hear_hello(&hello(epoch, master), town.now);
        assert_eq!(town.sentinel.masters[NAME].instance.address, at(now_is), "{epoch}");
    }
    assert_eq!(town.sentinel.epoch, 3);
    let mut town = dead_master(Town::new(4, 0, 1), (0, "*"));
    town.stubborn.insert(3);
    town.pass(9_000);
    assert_eq!(town.orders, ["2 NO", "3 10.0.0.2"], "the next one waits for the first");
    town.stubborn.clear();
    town.pass(3_000);
    assert_eq!(town.orders, ["2 NO", "3 10.0.0.2", "4 10.0.0.2"]);
    let said = ["+slave-reconf-inprog", "+slave-reconf-done", "+failover-end", "+switch-master"];
    check(town, 100, &said, &["+failover-end-for-timeout"]);
}

/// SENTINEL SIMULATE-FAILURE: the process crashes at the requested point, with what it has written
/// by then.
#[test]
fn a_crash_for_a_trial_strikes_at_the_given_place() {
    for (after_election, said, unsaid, config_epoch) in
        [(true, "+elected-leader", "+selected-slave", 0), (false, "+promoted-slave", "+switch", 1)]
    {
        let mut town = dead_master(Town::new(2, 0, 1), (0, "*"));
        let crashes = &mut town.sentinel.crashes;
        (crashes.after_election, crashes.after_promotion) = (after_election, !after_election);
        while !town.sentinel.crashes.now && town.now < START + 60_000 {
            town.pass(100);
        }
        let town = check(town, 0, &[said], &[unsaid]);
        assert_eq!(town.sentinel.masters[NAME].config_epoch, config_epoch);
    }
}

/// SENTINEL CONFIG: what is announced, with which credentials others are queried, and that it is
/// kept.
#[test]
fn what_is_set_for_all_is_shown_used_and_kept() {
    let mut sentinel = Town::new(1, 1, 1).sentinel;
    let plain = sentinel.hello(NAME);
    assert!(plain.starts_with("10.0.0.200,6379,ffff"), "{plain}");
    let set = [("announce-ip", "1.2.3.4"), ("ANNOUNCE-PORT", "99"), ("sentinel-pass", "p q")];
    for (name, value) in set {
        assert_eq!(sentinel.globals.set(name, value), Ok(()));
    }
    assert!(sentinel.hello(NAME).starts_with("1.2.3.4,99,ffff"));
    sentinel.tick(SentinelMoment { ms: START + 1_000, chance: 0 });
    let queries = |action: &&SentinelAction| match action {
        SentinelAction::Send(_, words) => words[0] == "AUTH",
        _ => false,
    };
    let sent: Vec<_> = sentinel.actions.iter().filter(queries).cloned().collect();
    let peer = sentinel.masters[NAME].sentinels[&peer_id(0)].instance.link.commands.as_ref();
    let words = vec!["AUTH".to_owned(), "p q".to_owned()];
    assert_eq!(sent, [SentinelAction::Send(peer.expect("it is asked").id, words)]);
    let mut again = Sentinel::new("e".repeat(40), at(200), START);
    again.read_file(&sentinel.write_file(), START);
    assert_eq!(again.globals, sentinel.globals);
}

/// As redis-sentinel 7.0.15 does, started with such lines while its master is dead.
#[test]
fn what_a_file_says_is_enough_to_fail_over_a_master_that_is_dead_from_the_start() {
    let peers = (0..2).map(|n| (peer_id(n), at(100 + n))).collect();
    let known = Known { id: "e".repeat(40), replicas: vec![at(2)], sentinels: peers };
    let mut town = Town::new(2, 0, 2);
    town.sentinel = Sentinel::new("f".repeat(40), at(200), START);
    let mut config = SentinelConfig::of(at(1), 2);
    (config.down_after_ms, config.known) = (1_000, Some(known.clone()));
    town.sentinel.set_up(&config, START);
    let file = town.sentinel.write_file();
    assert!(known.lines(NAME).iter().all(|line| file.contains(line.as_str())), "{file}");
    town.silent.insert(1);
    town.opinion = (1, "me");
    let said = ["+sdown master", "+odown", "+selected-slave slave 10.0.0.2:", "+switch-master"];
    check(town, 6_000, &said, &[]);
}
