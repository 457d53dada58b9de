//! A lock of one's own that takes several keys at once, each on a node of its own: all or none. The
//! correct one keeps its promise; one that leaves what a failed acquire had got, one that is content
//! with a part, and one whose callers wait for each other are found.

use lockstorm::check::verdict::Kind;
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::explain::mechanism::how::How;
use lockstorm::explore::examine;
use lockstorm::history::OpKind;
use lockstorm::own::{
    Acquired, Algorithm, Choices, Client, Extended, Grant, HuntTest, LEASE, Lock, LockConfig,
    MILLISECOND, Nodes, Promise, Released, Setting, TopologyKind, Work, answer, assumptions,
    async_trait, base_plan_of, hunt_own, milliseconds, scripts, token,
};
use lockstorm::run::Lab;

use crate::amount::amount;
use crate::found::{how, is_in_model, kinds};

/// What a lock of groups does if it does not get a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnRefusal {
    /// It gives back what it has got.
    GivesBack,
    /// It leaves what it has got.
    Leaves,
    /// It goes on without the key.
    GoesOn,
    /// It waits for the key.
    Waits,
}

struct Multi {
    clients: Vec<Client>,
    setting: Setting,
    choices: Choices,
    on_refusal: OnRefusal,
}

impl Multi {
    fn boxed(setting: Setting, on_refusal: OnRefusal) -> Box<dyn Lock> {
        let clients = setting.nodes.iter().map(|node| Client::of(&setting, node)).collect();
        Box::new(Multi { clients, choices: LEASE.settle(&setting.config), setting, on_refusal })
    }

    /// The client of the node on which a key lives.
    fn client(&mut self, key: &str) -> &mut Client {
        let sum = key.bytes().map(usize::from).sum::<usize>();
        let place = sum % self.clients.len();
        &mut self.clients[place]
    }

    async fn set(&mut self, key: &str, token: &str) -> answer::Answer {
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        let ttl = milliseconds(self.choices.ttl);
        let args = [key.as_bytes(), token.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        // A mutex has no time to live.
        let count = if self.setting.config.ttl.is_some() { 5 } else { 3 };
        self.client(key).request(call, timeout, "SET", &args[..count]).await
    }

    async fn delete(&mut self, keys: &[String], token: &str) -> Vec<Released> {
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        let mut released = Vec::new();
        for key in keys {
            let (script, own, args) =
                (scripts::COMPARE_AND_DELETE, [key.as_bytes()], [token.as_bytes()]);
            let answer = self.client(key).eval(call, timeout, script, &own, &args).await;
            released.push(answer::released(&answer));
        }
        released
    }
}

#[async_trait(?Send)]
impl Lock for Multi {
    async fn acquire(&mut self) -> Acquired {
        unreachable!("a lock of groups is acquired with its keys")
    }

    async fn acquire_all(&mut self, keys: &[String]) -> Acquired {
        let host = self.setting.host.clone();
        let lease = self.choices.lease(&self.setting.config);
        let (token, sent) =
            (token::fresh(&host, self.setting.call.get(), 0), host.now(lease.clock));
        let deadline = self.setting.config.ttl.map(|_| lease.deadline(&host, sent));
        let grant = Grant::new(token, deadline);
        for (nth, key) in keys.iter().enumerate() {
            loop {
                match answer::acquired(&self.set(key, &grant.token).await, grant.clone()) {
                    Acquired::Granted(_) => break,
                    Acquired::Unknown(grant) => return Acquired::Unknown(grant),
                    Acquired::Refused(why) => match self.on_refusal {
                        OnRefusal::GoesOn if nth > 0 => break,
                        OnRefusal::Waits => host.sleep(50 * MILLISECOND).await,
                        OnRefusal::Leaves => return Acquired::Refused(why),
                        OnRefusal::GivesBack | OnRefusal::GoesOn => {
                            let released = self.delete(&keys[..nth], &grant.token).await;
                            return match released.contains(&Released::Unknown) {
                                true => Acquired::Unknown(grant),
                                false => Acquired::Refused(why),
                            };
                        }
                    },
                }
            }
        }
        Acquired::Granted(grant)
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        if self.setting.config.ttl.is_none() {
            return Extended::Kept(None);
        }
        let host = self.setting.host.clone();
        let lease = self.choices.lease(&self.setting.config);
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        let (ttl, sent) = (milliseconds(self.choices.ttl), host.now(lease.clock));
        let args = [grant.token.as_bytes(), ttl.as_bytes()];
        for key in &grant.keys {
            let (script, own) = (scripts::COMPARE_AND_PEXPIRE, [key.as_bytes()]);
            let answer = self.client(key).eval(call, timeout, script, &own, &args).await;
            match answer::extended(&answer, lease.deadline(&host, sent)) {
                Extended::Kept(_) => {}
                other => return other,
            }
        }
        Extended::Kept(Some(lease.deadline(&host, sent)))
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        let released = self.delete(&grant.keys, &grant.token).await;
        let all = |result| released.iter().all(|one| *one == result);
        match released.contains(&Released::Unknown) {
            true => Released::Unknown,
            false if all(Released::Released) => Released::Released,
            false => Released::NotMine,
        }
    }
}

/// An acquire takes a request for each key, one after the other.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let calls = work.calls + config.group_keys().len() as u64 - 1;
    assumptions::lease(config, Work { calls, ..work })
}

const fn multi(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
    Algorithm { groups: true, nodes: Nodes::Chosen, promise, ..Algorithm::lease(name, build) }
}

const CORRECT: Algorithm = multi("multi", |setting| Multi::boxed(setting, OnRefusal::GivesBack));

fn hunt(lock: Algorithm, kind: TopologyKind) -> HuntTest {
    hunt_own(lock, kind).within_assumptions().clients(4)
}

/// `LOCKSTORM_SHAPES` sets the number of plans.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_group_keeps_its_promise() {
    let plans = amount("LOCKSTORM_SHAPES", 1_000) as u64;
    for kind in [TopologyKind::Independent, TopologyKind::Single] {
        let tally = hunt(CORRECT, kind).seeds(1..=plans).holds();
        assert!(tally.struck_in_hold > plans / 8, "{tally:?}");
    }
}

/// Groups of a run overlap, are of several sizes, and come in opposite orders.
#[test]
fn callers_take_groups_that_overlap_in_any_order() {
    let plan = base_plan_of(&CORRECT, TopologyKind::Independent);
    let history = Lab::default().with_lock(CORRECT).run(&plan).history;
    let acquires = history.ops.iter().filter(|op| op.kind == OpKind::Acquire);
    let groups: Vec<Vec<String>> = acquires.map(|op| op.keys.clone()).collect();
    let has = |is: &dyn Fn(&Vec<String>) -> bool| groups.iter().any(is);
    assert!((1..=3).all(|size| has(&|group| group.len() == size)), "{groups:?}");
    assert!(has(&|group| group[..].is_sorted() && group.len() > 1), "{groups:?}");
    assert!(has(&|group| !group[..].is_sorted()), "{groups:?}");
    let back = |group: &Vec<String>| group.iter().rev().cloned().collect::<Vec<_>>();
    assert!(has(&|group| group.len() == 2 && groups.contains(&back(group))), "{groups:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_part_that_a_failed_acquire_left_is_found() {
    let lock = multi("leaving-a-part", |setting| Multi::boxed(setting, OnRefusal::Leaves));
    let finding = hunt(lock, TopologyKind::Independent).seeds(1..=200).finds();
    assert!(kinds(&finding).contains(&Kind::Leak), "{:?}", kinds(&finding));
    let (how, sentence) = how(&finding);
    assert_eq!(how, How::LeftByRefused, "{sentence}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_grant_of_a_part_is_found() {
    let lock = multi("content-with-a-part", |setting| Multi::boxed(setting, OnRefusal::GoesOn));
    let finding = hunt(lock, TopologyKind::Independent).seeds(1..=200).finds();
    assert!(kinds(&finding).contains(&Kind::DoubleGrant), "{:?}", kinds(&finding));
    let (how, sentence) = how(&finding);
    assert_eq!(how, How::PartOnly, "{sentence}");
    assert!(sentence.contains(", and never had lock:"), "{sentence}");
}

#[test]
fn callers_that_wait_for_each_other_are_found() {
    const WAITING: Algorithm = Algorithm {
        groups: true,
        nodes: Nodes::Chosen,
        ..Algorithm::mutex("waiting", |setting| Multi::boxed(setting, OnRefusal::Waits))
    };
    let finding = hunt(WAITING, TopologyKind::Independent).seeds(1..=200).finds();
    let (how, sentence) = how(&finding);
    assert_eq!(how, How::Deadlock, "{sentence}");
    let parts = [" wait for each other: c", " has lock:", " and waits for lock:"];
    assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
    assert!(tells_who_waits(&finding));
}

/// Leases end the wait: the acquires go on with what is left of those of their first keys.
#[test]
fn callers_that_waited_for_each_other_until_a_lease_ended_are_found() {
    let lock = multi("waiting-with-leases", |setting| Multi::boxed(setting, OnRefusal::Waits));
    let lab = Lab::default().with_lock(lock);
    let plans = (1..=20).map(|seed| {
        let mut plan = base_plan_of(&lock, TopologyKind::Single);
        (plan.seed, plan.workload.clients) = (seed, 4);
        plan
    });
    // A grant may also come too late because its acquire waited for one that held a key for long.
    let told = |finding: &Finding| {
        let mechanism = explain(finding).mechanism;
        mechanism.filter(|found| found.how == How::Deadlock).map(|found| found.sentence)
    };
    let mut findings = plans.map(|plan| examine::classified(&lab, &plan));
    let found = findings.find_map(|finding| told(&finding).map(|sentence| (finding, sentence)));
    let (finding, sentence) = found.expect("some wait for each other");
    let parts = [" wait for each other: c", ", until lock:", " expires at "];
    assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
    assert!(tells_who_waits(&finding));
    assert!(is_in_model(&finding));
}

fn tells_who_waits(finding: &Finding) -> bool {
    let story = explain(finding).story;
    story.lines.iter().any(|line| line.text.contains(" waits for lock:"))
}
