//! The results of single calls of locks in the relevant states: the key is gone or another's, the
//! reply is late, too few nodes grant. One caller on whole nodes, without checkers.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use lockstorm::lock::catalogue::find;
use lockstorm::lock::config::{LockConfig, RepliesShape};
use lockstorm::lock::{Acquired, Call, Extended, Grant, Lock, Notice, Released, Setting, lease};
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::host::{Host, HostMutex};
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::node::NodeConfig;
use lockstorm_redis::process::serve;
use lockstorm_redis::resp_client::RespClient;
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};

const KEY: &str = "lock";
pub const TTL: Nanos = 5 * SECOND;

/// The environment of one caller.
#[derive(Clone)]
pub struct Desk {
    pub host: Host,
    nodes: u8,
    calls: Rc<Cell<u32>>,
    told: Rc<RefCell<Vec<Notice>>>,
}

/// A lock whose calls are numbered.
pub struct Numbered {
    lock: Box<dyn Lock>,
    call: Rc<Cell<Call>>,
    desk: Desk,
}

impl Desk {
    fn next_call(&self) -> Call {
        self.calls.set(self.calls.get() + 1);
        Call { op: self.calls.get(), nth: self.calls.get() }
    }

    pub fn lock(&self, algorithm: &str, change: impl FnOnce(&mut LockConfig)) -> Numbered {
        self.lock_on(algorithm, HostMutex::default(), change)
    }

    /// The lock of a host that has this mutex.
    fn local(&self, mutex: &HostMutex) -> Numbered {
        self.lock_on("host-local", mutex.clone(), |_| {})
    }

    fn lock_on(
        &self,
        algorithm: &str,
        mutex: HostMutex,
        change: impl FnOnce(&mut LockConfig),
    ) -> Numbered {
        let mut config = LockConfig {
            algorithm: algorithm.to_owned(),
            key: KEY.to_owned(),
            ttl: Some(TTL),
            tries: Some(1),
            wait_for: Some(0),
            ..LockConfig::default()
        };
        change(&mut config);
        let algorithm = find(algorithm).expect("a lock");
        let (call, desk) = (Rc::<Cell<Call>>::default(), self.clone());
        let notify = move |notice| {
            desk.told.borrow_mut().push(notice);
            desk.next_call()
        };
        let setting = Setting {
            thread: 1,
            host: self.host.clone(),
            nodes: (1..=self.nodes).map(|n| format!("n{n}")).collect(),
            config: algorithm.filled(&config),
            call: Rc::clone(&call),
            notify: Rc::new(notify),
            mutex,
        };
        Numbered { lock: (algorithm.build)(setting), call, desk: self.clone() }
    }

    /// The reply of a node to a request.
    pub async fn query_one(&self, node: &str, line: &str) -> Reply {
        let words: Vec<&str> = line.split(' ').collect();
        let to = self.host.resolve(node).expect("a node");
        let stream = self.host.connect(to).await.expect("it is up");
        RespClient::new(stream).request(&words).await.expect("it answers")
    }

    /// The reply of every node to a request.
    pub async fn query_all(&self, line: &str) -> Vec<Reply> {
        let mut replies = Vec::new();
        for n in 1..=self.nodes {
            replies.push(self.query_one(&format!("n{n}"), line).await);
        }
        replies
    }

    async fn sleep_until(&self, (clock, reading): (Clock, Nanos)) {
        self.host.sleep_until(clock, reading).await;
    }
}

impl Numbered {
    pub async fn acquire(&mut self) -> Acquired {
        self.call.set(self.desk.next_call());
        self.lock.acquire().await
    }

    pub async fn acquire_shared(&mut self) -> Acquired {
        self.call.set(self.desk.next_call());
        self.lock.acquire_shared().await
    }

    pub async fn granted(&mut self) -> Grant {
        match self.acquire().await {
            Acquired::Granted(grant) => grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    pub async fn extend(&mut self, grant: &Grant) -> Extended {
        self.call.set(self.desk.next_call());
        self.lock.extend(grant).await
    }

    pub async fn release(&mut self, grant: &Grant) -> Released {
        self.call.set(self.desk.next_call());
        self.lock.release(grant).await
    }
}

fn machine<F, R>(name: String, ip: [u8; 4], run: F) -> HostSpec
where
    F: Fn(Host) -> R + 'static,
    R: Future<Output = ()> + 'static,
{
    let process: Process = Rc::new(move |host| Box::pin(run(host)));
    HostSpec::new(name, SocketAddrV4::new(Ipv4Addr::from(ip), 6379), Part::Other, process)
}

/// Runs a script as caller `c` with this many nodes.
#[track_caller]
pub fn play<R>(nodes: u8, faults: Vec<Fault>, script: impl Fn(Desk) -> R + 'static)
where
    R: Future<Output = ()> + 'static,
{
    let done = Rc::new(Cell::new(false));
    let mut hosts: Vec<HostSpec> = (1..=nodes)
        .map(|n| machine(format!("n{n}"), [10, 0, 1, n], |host| serve(host, NodeConfig::default())))
        .collect();
    let ended = Rc::clone(&done);
    hosts.push(machine("c".to_owned(), [10, 0, 2, 1], move |host| {
        let (calls, told, ended) = (Rc::default(), Rc::default(), Rc::clone(&ended));
        let script = script(Desk { host, nodes, calls, told });
        async move {
            script.await;
            ended.set(true);
        }
    }));
    let mut world = World::new(WorldSpec {
        latency: Latency::Constant(5 * MILLISECOND),
        faults,
        ..WorldSpec::new(EngineKind::Event, 1, hosts)
    });
    world.run_until(100 * SECOND);
    world.finish();
    assert!(done.get(), "the caller came to its end");
}

/// Pauses the caller for this long when it reaches that step for the nth time.
pub fn pause(label: &str, nth: u32, length: Nanos) -> Vec<Fault> {
    let event = Pattern::Step { who: "c".to_owned(), label: label.to_owned() };
    vec![Fault {
        id: 1,
        verb: Verb::Pause,
        target: Target::Host("c".to_owned()),
        anchor: Anchor::After { event, nth, plus: 0 },
        length: Some(length),
    }]
}

/// Locks that can be extended, and their numbers of nodes.
const PROLONGED: [(&str, u8); 8] = [
    ("token-lua", 1),
    ("token-lua-renewed", 1),
    ("fenced", 1),
    ("redisson", 1),
    ("redisson-fair", 1),
    ("redisson-fenced", 1),
    ("read-write", 1),
    ("redlock", 5),
];

/// Locks whose key is a hash.
const COUNTED: [&str; 4] = ["redisson", "redisson-fair", "redisson-fenced", "read-write"];

#[test]
fn an_extend_of_a_key_that_is_gone_is_lost_and_sets_none() {
    for (name, nodes) in PROLONGED {
        play(nodes, vec![], move |desk| async move {
            let mut lock = desk.lock(name, |_| {});
            let grant = lock.granted().await;
            assert!(matches!(lock.extend(&grant).await, Extended::Kept(_)), "{name}");
            desk.query_all("DEL lock").await;
            assert_eq!(lock.extend(&grant).await, Extended::Lost, "{name}");
            let there = desk.query_all("EXISTS lock").await;
            assert!(there.iter().all(|reply| *reply == Reply::Integer(0)), "{name}: {there:?}");
        });
    }
}

#[test]
fn an_extend_of_anothers_key_is_lost_and_leaves_it_alone() {
    for (name, nodes) in PROLONGED {
        play(nodes, vec![], move |desk| async move {
            let mut lock = desk.lock(name, |_| {});
            let grant = lock.granted().await;
            desk.query_all("DEL lock").await;
            let anothers =
                if COUNTED.contains(&name) { "HSET lock another 1" } else { "SET lock another" };
            desk.query_all(anothers).await;
            desk.query_all("PEXPIRE lock 1000").await;
            assert_eq!(lock.extend(&grant).await, Extended::Lost, "{name}");
            assert_eq!(lock.release(&grant).await, Released::NotMine, "{name}");
            for reply in desk.query_all("PTTL lock").await {
                let Reply::Integer(left) = reply else { panic!("{name}: {reply:?}") };
                assert!((1..=1_000).contains(&left), "{name}: {left}");
            }
        });
    }
}

#[test]
fn a_release_leaves_no_key() {
    for (name, nodes) in PROLONGED {
        play(nodes, vec![], move |desk| async move {
            let mut lock = desk.lock(name, |_| {});
            let grant = lock.granted().await;
            assert_eq!(lock.release(&grant).await, Released::Released, "{name}");
            let there = desk.query_all("EXISTS lock").await;
            assert!(there.iter().all(|reply| *reply == Reply::Integer(0)), "{name}: {there:?}");
        });
    }
}

#[test]
fn a_grant_that_is_over_before_its_caller_has_it_is_refused() {
    for (name, nodes, step) in [
        ("token-lua", 1, "granted"),
        ("fenced", 1, "granted"),
        ("redlock", 5, "replies-in"),
        ("wait-replicas", 1, "granted"),
        ("wait-replicas", 1, "waiting-for-replicas"),
    ] {
        play(nodes, pause(step, 1, 8 * SECOND), move |desk| async move {
            let mut lock = desk.lock(name, |config| config.acks = Some(0));
            let acquired = lock.acquire().await;
            assert!(matches!(acquired, Acquired::Refused(_)), "{name} at {step}: {acquired:?}");
        });
    }
}

#[test]
fn a_deadline_counts_from_before_the_send_on_a_clock_that_nobody_sets() {
    let drift = TTL / 100 + 2 * MILLISECOND;
    for (name, nodes, allowance) in [
        ("px-constant", 1, 0),
        ("token-get-del", 1, 0),
        ("token-lua", 1, 0),
        ("token-lua-renewed", 1, 0),
        ("fenced", 1, 0),
        ("redisson", 1, 0),
        ("redisson-fair", 1, 0),
        ("read-write", 1, 0),
        ("redlock", 5, drift),
    ] {
        play(nodes, vec![], move |desk| async move {
            let mut lock = desk.lock(name, |_| {});
            let is_early = |before: Nanos, (clock, reading): (Clock, Nanos)| {
                assert_ne!(clock, Clock::Wall, "{name}");
                assert_eq!(reading, before + TTL - allowance, "{name}");
            };
            let before = desk.host.now(Clock::Monotonic);
            let grant = lock.granted().await;
            is_early(before, grant.deadline.expect("it is a lease"));
            let before = desk.host.now(Clock::Monotonic);
            if let Extended::Kept(deadline) = lock.extend(&grant).await {
                is_early(before, deadline.expect("it is a lease"));
            }
        });
    }
}

#[test]
fn a_lease_is_over_at_its_deadline() {
    play(1, vec![], |desk| async move {
        let grant = desk.lock("token-lua", |_| {}).granted().await;
        let (clock, reading) = grant.deadline.expect("it is a lease");
        desk.sleep_until((clock, reading - 1)).await;
        assert!(!lease::is_over(&desk.host, grant.deadline));
        desk.sleep_until((clock, reading)).await;
        assert!(lease::is_over(&desk.host, grant.deadline));
    });
}

#[test]
fn a_holder_learns_at_the_next_renewal_that_its_key_is_gone() {
    play(1, vec![], |desk| async move {
        let grant = desk.lock("token-lua-renewed", |_| {}).granted().await;
        desk.query_all("DEL lock").await;
        desk.host.sleep(TTL / 3 * 2 + SECOND / 2).await;
        let lost = Notice::Lost { token: grant.token };
        assert!(desk.told.borrow().contains(&lost), "{:?}", desk.told.borrow());
    });
}

#[test]
fn half_of_the_nodes_are_no_quorum() {
    play(4, vec![], |desk| async move {
        for n in 1..=2 {
            let to = desk.host.resolve(&format!("n{n}")).expect("a node");
            let stream = desk.host.connect(to).await.expect("it is up");
            RespClient::new(stream).request(&["SET", KEY, "another"]).await.expect("it answers");
        }
        let acquired = desk.lock("redlock", |_| {}).acquire().await;
        assert!(matches!(acquired, Acquired::Refused(_)), "{acquired:?}");
    });
}

/// With a slow minority: who waits for all waits for it until the timeout of a request.
#[test]
fn who_goes_on_at_the_first_quorum_waits_for_no_slow_node() {
    let slow_by = |id, n: u32, extra| Fault {
        id,
        verb: Verb::Delay { extra },
        target: Target::try_from(format!("c->n{n}")).expect("a link"),
        anchor: Anchor::At(0),
        length: None,
    };
    let slow = |id, n| slow_by(id, n, SECOND);
    let took = |replies, faults: Vec<Fault>| {
        let took = Rc::new(Cell::new([0, 0]));
        let kept = Rc::clone(&took);
        play(5, faults, move |desk| {
            let took = Rc::clone(&took);
            async move {
                let mut lock = desk.lock("redlock", |config| config.replies = replies);
                let now = || desk.host.now(Clock::Monotonic);
                let before = now();
                let grant = lock.granted().await;
                let granted = now();
                assert!(matches!(lock.extend(&grant).await, Extended::Kept(_)));
                took.set([granted - before, now() - granted].map(|length| length / MILLISECOND));
                assert_eq!(lock.release(&grant).await, Released::Released);
            }
        });
        kept.get()
    };
    let minority = || vec![slow(1, 4), slow(2, 5)];
    assert_eq!(took(RepliesShape::All, vec![]), [20, 10]);
    assert_eq!(took(RepliesShape::Quorum, vec![]), [20, 10]);
    assert_eq!(took(RepliesShape::All, minority()), [50, 50], "its timeout");
    assert_eq!(took(RepliesShape::Quorum, minority()), [20, 10]);
    // One reply after the other: two of them are not enough.
    let one_by_one = || (2..=5).map(|n| slow_by(n, n, u64::from(n) * MILLISECOND)).collect();
    assert_eq!(took(RepliesShape::All, one_by_one()), [30, 15]);
    assert_eq!(took(RepliesShape::Quorum, one_by_one()), [26, 13]);
}

#[test]
fn who_goes_on_at_the_first_quorum_is_refused_without_one() {
    play(5, vec![], |desk| async move {
        for n in 1..=3 {
            let to = desk.host.resolve(&format!("n{n}")).expect("a node");
            let stream = desk.host.connect(to).await.expect("it is up");
            RespClient::new(stream).request(&["SET", KEY, "another"]).await.expect("it answers");
        }
        let quorum = |config: &mut LockConfig| config.replies = RepliesShape::Quorum;
        let acquired = desk.lock("redlock", quorum).acquire().await;
        assert!(matches!(acquired, Acquired::Refused(_)), "{acquired:?}");
        let left = desk.query_all("EXISTS lock").await.into_iter().skip(3);
        assert_eq!(left.collect::<Vec<_>>(), [Reply::Integer(0), Reply::Integer(0)]);
    });
}

#[test]
fn a_grant_with_less_left_than_the_work_needs_is_refused() {
    play(5, pause("replies-in", 1, 3 * SECOND), |desk| async move {
        let acquired =
            desk.lock("redlock", |config| config.needs = Some(2 * SECOND)).acquire().await;
        assert!(matches!(acquired, Acquired::Refused(_)), "{acquired:?}");
    });
}

#[test]
fn an_extend_whose_answers_come_after_the_lease_is_not_kept() {
    play(5, pause("replies-in", 2, 8 * SECOND), |desk| async move {
        let mut lock = desk.lock("redlock", |_| {});
        let grant = lock.granted().await;
        let extended = lock.extend(&grant).await;
        assert!(!matches!(extended, Extended::Kept(_)), "{extended:?}");
    });
}

/// A renewal that is under way when its grant is released ends at once, with an unknown outcome.
#[test]
fn a_release_cancels_the_renewal_that_is_under_way() {
    for (name, every) in [("token-lua-renewed", 2), ("redisson", 1)] {
        // A lease of 3 s; the request of a renewal takes 5 ms to its node.
        play(1, vec![], move |desk| async move {
            let mut lock = desk.lock(name, |config| {
                (config.ttl, config.cancel_renewal) = (Some(3 * SECOND), true);
            });
            let grant = lock.granted().await;
            desk.host.sleep(every * SECOND + MILLISECOND).await;
            let begun = desk.told.borrow().clone();
            assert!(matches!(begun[..], [Notice::Extending { .. }]), "{name}: {begun:?}");
            assert_eq!(lock.release(&grant).await, Released::Released);
            desk.host.sleep(5 * SECOND).await;
            let told = desk.told.borrow().clone();
            assert!(matches!(told[1..], [Notice::Abandoned { .. }]), "{name}: {told:?}");
        });
    }
}

#[test]
fn too_few_acknowledgements_are_a_refusal() {
    play(1, vec![], |desk| async move {
        let acquired = desk.lock("wait-replicas", |config| config.acks = Some(1)).acquire().await;
        assert!(matches!(acquired, Acquired::Refused(_)), "{acquired:?}");
        assert_eq!(desk.query_all("EXISTS lock").await, [Reply::Integer(0)], "it is given back");
    });
}

#[test]
fn an_error_reply_is_no_grant() {
    for (name, nodes) in PROLONGED {
        play(nodes, vec![], move |desk| async move {
            // A node that needs a replica and has none rejects every write.
            desk.query_all("CONFIG SET min-replicas-to-write 1").await;
            let acquired = desk.lock(name, |_| {}).acquire().await;
            assert!(matches!(acquired, Acquired::Refused(_)), "{name}: {acquired:?}");
        });
    }
}

#[test]
fn a_number_comes_with_the_grant_in_one_round_trip() {
    play(1, vec![], |desk| async move {
        let mut lock = desk.lock("fenced", |_| {});
        let mut last = 0;
        for turn in 0..3 {
            let before = desk.host.now(Clock::Monotonic);
            let grant = lock.granted().await;
            let took = desk.host.now(Clock::Monotonic) - before;
            let connects = if turn == 0 { 2 } else { 1 };
            assert_eq!(took, connects * 10 * MILLISECOND, "turn {turn}");
            let fence = grant.fence.expect("it gives numbers");
            assert!(fence > last, "{fence} after {last}");
            last = fence;
            lock.release(&grant).await;
        }
    });
}

/// Otherwise the late clean-up of one try deletes the key of a later one.
#[test]
fn every_try_has_a_token_of_its_own() {
    play(5, vec![], |desk| async move {
        let tokens = Rc::new(RefCell::new(Vec::new()));
        let (seen, watching) = (Rc::clone(&tokens), desk.clone());
        desk.host.spawn(async move {
            for _ in 0..1_000 {
                for reply in watching.query_all("GET lock").await {
                    if let Reply::Bulk(token) = reply
                        && token != "another"
                        && !seen.borrow().contains(&token)
                    {
                        seen.borrow_mut().push(token);
                    }
                }
            }
        });
        // Three of five are another's, so each try is released.
        for n in 1..=3 {
            let to = desk.host.resolve(&format!("n{n}")).expect("a node");
            let stream = desk.host.connect(to).await.expect("it is up");
            RespClient::new(stream).request(&["SET", KEY, "another"]).await.expect("it answers");
        }
        desk.lock("redlock", |config| config.tries = Some(20)).acquire().await;
        let count = tokens.borrow().len();
        assert!(count > 1, "{count} tokens in 20 tries");
    });
}

#[test]
fn what_is_taken_twice_is_held_until_the_last_release() {
    for name in COUNTED {
        play(1, vec![], move |desk| async move {
            let (mut lock, mut other) = (desk.lock(name, |_| {}), desk.lock(name, |_| {}));
            let (grant, again) = (lock.granted().await, lock.granted().await);
            lock.release(&again).await;
            let refused = other.acquire().await;
            assert!(matches!(refused, Acquired::Refused(_)), "{name}: {refused:?}");
            assert_eq!(lock.release(&grant).await, Released::Released, "{name}");
            other.granted().await;
        });
    }
}

#[test]
fn who_waits_is_woken_by_the_release() {
    for name in COUNTED {
        play(1, vec![], move |desk| async move {
            let mut lock = desk.lock(name, |_| {});
            let grant = lock.granted().await;
            let mut other = desk.lock(name, |config| config.wait_for = Some(20 * SECOND));
            let (waited, got) = (desk.clone(), Rc::new(Cell::new(None)));
            let at = Rc::clone(&got);
            desk.host.spawn(async move {
                other.granted().await;
                at.set(Some(waited.host.now(Clock::Monotonic)));
            });
            desk.host.sleep(SECOND).await;
            assert_eq!(lock.release(&grant).await, Released::Released, "{name}");
            let released = desk.host.now(Clock::Monotonic);
            desk.host.sleep(10 * SECOND).await;
            let got = got.get().expect("the other is granted");
            assert!(got < released + SECOND, "{name}: {got} long after {released}");
        });
    }
}

#[test]
fn who_gives_up_leaves_the_queue() {
    play(1, vec![], |desk| async move {
        let mut lock = desk.lock("redisson-fair", |_| {});
        let grant = lock.granted().await;
        let mut other = desk.lock("redisson-fair", |config| config.wait_for = Some(SECOND));
        let refused = other.acquire().await;
        assert!(matches!(refused, Acquired::Refused(_)), "{refused:?}");
        let left = desk.query_all("LLEN redisson_lock_queue:{lock}").await;
        assert_eq!(left, [Reply::Integer(0)]);
        assert_eq!(lock.release(&grant).await, Released::Released);
        lock.granted().await;
    });
}

#[test]
fn readers_share_the_lock_and_a_writer_waits_for_the_last() {
    play(1, vec![], |desk| async move {
        let reader = || desk.lock("read-write", |_| {});
        let (mut one, mut two) = (reader(), reader());
        let mut writer = desk.lock("read-write", |config| config.wait_for = Some(SECOND));
        let (first, second) = (one.acquire_shared().await, two.acquire_shared().await);
        let (Acquired::Granted(first), Acquired::Granted(second)) = (&first, &second) else {
            panic!("{first:?} and {second:?}");
        };
        // Longer than the lease: the watchdogs extend both.
        desk.host.sleep(2 * TTL).await;
        assert_eq!(one.release(first).await, Released::Released);
        let refused = writer.acquire().await;
        assert!(matches!(refused, Acquired::Refused(_)), "{refused:?}");
        assert_eq!(two.release(second).await, Released::Released);
        let grant = writer.granted().await;
        let refused = one.acquire_shared().await;
        assert!(matches!(refused, Acquired::Refused(_)), "{refused:?}");
        assert_eq!(writer.release(&grant).await, Released::Released);
        let left = desk.query_all("KEYS *").await;
        assert_eq!(left, [Reply::Array(vec![])]);
    });
}

/// The lease of 5 s in the unit of each command, and another caller's acquire meanwhile.
#[test]
fn setex_counts_in_seconds_and_psetex_in_milliseconds_and_both_let_everybody_in() {
    for name in ["setex", "psetex"] {
        play(1, vec![], move |desk| async move {
            let (mut lock, mut other) = (desk.lock(name, |_| {}), desk.lock(name, |_| {}));
            lock.granted().await;
            for reply in desk.query_all("PTTL lock").await {
                let Reply::Integer(left) = reply else { panic!("{name}: {reply:?}") };
                assert!((4_900..=5_000).contains(&left), "{name}: {left}");
            }
            let grant = other.granted().await;
            assert_eq!(other.release(&grant).await, Released::Released, "{name}");
            let there = desk.query_all("EXISTS lock").await;
            assert_eq!(there, [Reply::Integer(0)], "{name} deletes what is there");
        });
    }
}

#[test]
fn a_mutex_of_the_host_is_free_after_its_release_and_after_its_callers_end() {
    play(1, vec![], |desk| async move {
        let mutex = HostMutex::default();
        let (mut lock, mut other) = (desk.local(&mutex), desk.local(&mutex));
        let grant = lock.granted().await;
        assert!(matches!(other.acquire().await, Acquired::Refused(_)));
        assert_eq!(lock.extend(&grant).await, Extended::Kept(None));
        assert_eq!(lock.release(&grant).await, Released::Released);
        assert_eq!(lock.extend(&grant).await, Extended::Lost);
        assert_eq!(lock.release(&grant).await, Released::NotMine);
        other.granted().await;
        drop(other);
        lock.granted().await;
    });
}

/// A run keeps its key until at_least, from the acquire on. A grant that the lock did not give, as
/// after an acquire without an answer, keeps nothing, and another's key is left alone.
#[test]
fn a_scheduled_key_stays_for_a_run_alone() {
    play(1, vec![], |desk| async move {
        let mut lock = desk.lock("scheduled", |config| config.at_least = Some(2 * SECOND));
        let grant = lock.granted().await;
        desk.host.sleep(SECOND).await;
        assert_eq!(lock.release(&grant).await, Released::Released);
        let left = desk.query_all("PTTL lock").await;
        let [Reply::Integer(left)] = left[..] else { panic!("{left:?}") };
        assert!((900..=1_000).contains(&left), "{left} ms of 2 s after 1 s");
        let other = Grant::new("another".to_owned(), grant.deadline);
        assert_eq!(lock.release(&other).await, Released::NotMine, "no run of this lock");
        desk.query_all("SET lock another PX 5000").await;
        assert_eq!(lock.release(&grant).await, Released::NotMine);
        assert_eq!(lock.release(&other).await, Released::Released, "deleted, and not kept");
        let again = lock.granted().await;
        desk.host.sleep(2 * SECOND).await;
        assert_eq!(lock.release(&again).await, Released::Released);
        assert_eq!(desk.query_all("EXISTS lock").await, [Reply::Integer(0)], "at_least is over");
    });
}
