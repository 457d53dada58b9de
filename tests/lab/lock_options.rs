//! What each option of the token family and the quorum family does in single calls.

use lockstorm::lock::config::{
    AcquireShape, AfterExtend, AfterTry, AskOrder, LeaseUnit, LockConfig, NoReply, QuorumOf,
    TokenScope,
};
use lockstorm::lock::library::find;
use lockstorm::lock::{Acquired, Extended, Released};
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::{Clock, MILLISECOND, SECOND};
use lockstorm_platform::trace::Leg;
use lockstorm_redis::frame::Reply;

use crate::lock_calls::{Desk, TTL, pause, play};

/// A fault that strikes when the first node has carried out the caller's first command.
fn at_first_command(verb: Verb, target: &str, length: Option<u64>) -> Vec<Fault> {
    let event = Pattern::Message {
        from: "c".to_owned(),
        to: "n1".to_owned(),
        command: None,
        leg: Leg::Applied,
    };
    let target = Target::try_from(target.to_owned()).expect("a target");
    vec![Fault { id: 1, verb, target, anchor: Anchor::After { event, nth: 1, plus: 0 }, length }]
}

#[test]
fn the_scope_of_a_token_says_which_acquires_share_it() {
    // Whether two tries, two acquires of a caller, and two callers of a process have one token.
    let shared = [
        (TokenScope::Try, [false, false]),
        (TokenScope::Acquisition, [false, false]),
        (TokenScope::Thread, [true, false]),
        (TokenScope::ThreadId, [true, true]),
        (TokenScope::Process, [true, true]),
        (TokenScope::Constant, [true, true]),
    ];
    for (scope, [of_caller, of_process]) in shared {
        play(1, vec![], move |desk| async move {
            let change = |config: &mut LockConfig| config.token = Some(scope);
            let mut one = desk.lock("token-lua", change);
            let mut other = desk.lock("token-lua", change);
            let mut tokens = Vec::new();
            for lock in [&mut one, &mut other] {
                for _ in 0..2 {
                    let grant = lock.granted().await;
                    assert_eq!(lock.release(&grant).await, Released::Released, "{scope:?}");
                    tokens.push(grant.token);
                }
            }
            assert_eq!(tokens[0] == tokens[1], of_caller, "{scope:?}: {tokens:?}");
            assert_eq!(tokens[1] == tokens[2], of_process, "{scope:?}: {tokens:?}");
        });
    }
}

/// One that has the lock by an earlier try is granted it only if it asks whose key is there.
#[test]
fn a_request_that_is_sent_again_meets_its_own_key() {
    for (acquire, is_granted) in [(AcquireShape::Absent, false), (AcquireShape::AbsentOrOwn, true)]
    {
        let cut = at_first_command(Verb::CutReply, "c -> n1", None);
        play(1, cut, move |desk| async move {
            let mut lock = desk.lock("token-lua", |config| {
                (config.resend, config.acquire) = (1, acquire);
            });
            let acquired = lock.acquire().await;
            assert_eq!(matches!(acquired, Acquired::Granted(_)), is_granted, "{acquired:?}");
            assert_eq!(desk.query_all("EXISTS lock").await, [Reply::Integer(1)]);
        });
    }
}

#[test]
fn who_sent_once_and_reached_nobody_again_does_not_know() {
    play(1, at_first_command(Verb::PowerLoss, "n1", Some(20 * SECOND)), |desk| async move {
        let mut lock = desk.lock("token-lua", |config| config.resend = 1);
        let acquired = lock.acquire().await;
        assert!(matches!(acquired, Acquired::Unknown(_)), "{acquired:?}");
    });
}

#[test]
fn nodes_that_are_asked_in_turn_take_as_long_as_all_of_them() {
    let took = |order: AskOrder| {
        let took = std::rc::Rc::new(std::cell::Cell::new(0));
        let out = std::rc::Rc::clone(&took);
        play(5, vec![], move |desk| {
            let out = std::rc::Rc::clone(&out);
            async move {
                let mut lock = desk.lock("redlock", |config| config.order = Some(order));
                let from = desk.host.now(Clock::Monotonic);
                lock.granted().await;
                out.set(desk.host.now(Clock::Monotonic) - from);
            }
        });
        took.get()
    };
    assert_eq!(took(AskOrder::Sequential), 5 * took(AskOrder::Parallel));
}

#[test]
fn a_lease_in_seconds_is_as_long_as_one_in_milliseconds() {
    for unit in [LeaseUnit::Seconds, LeaseUnit::Milliseconds] {
        play(1, vec![], move |desk| async move {
            desk.lock("token-lua", |config| config.unit = Some(unit)).granted().await;
            let left = desk.query_all("PTTL lock").await;
            let [Reply::Integer(left)] = left[..] else { panic!("{left:?}") };
            assert!((4_900..=5_000).contains(&left), "{left} ms");
        });
    }
}

#[test]
fn an_acquire_without_a_reply_leaves_what_the_option_says() {
    for (no_reply, leaves_token) in [(NoReply::Token, true), (NoReply::Nothing, false)] {
        play(1, at_first_command(Verb::Pause, "n1", Some(30 * SECOND)), move |desk| async move {
            let mut lock = desk.lock("token-lua", |config| config.no_reply = no_reply);
            let acquired = lock.acquire().await;
            let has_token = matches!(acquired, Acquired::Unknown(_));
            assert_eq!(has_token, leaves_token, "{acquired:?}");
            assert!(has_token || matches!(acquired, Acquired::Refused(_)), "{acquired:?}");
        });
    }
}

#[test]
fn a_try_that_failed_keeps_or_releases_its_keys() {
    for (after, kept) in [(AfterTry::Keep, 2), (AfterTry::Release, 0), (AfterTry::ReleaseAtEnd, 0)]
    {
        play(5, vec![], move |desk| async move {
            desk.query("n1 n2 n3", "SET lock another").await;
            desk.lock("redlock", |config| config.failed_try = Some(after)).acquire().await;
            let replies = desk.query("n4 n5", "EXISTS lock").await;
            let there = replies.iter().filter(|reply| **reply == Reply::Integer(1)).count();
            assert_eq!(there, kept, "{after:?}");
        });
    }
}

/// The second try of an acquire meets the key of the first one, unless that was released.
#[test]
fn a_release_at_the_end_comes_after_the_last_try() {
    for (after, changes) in [(AfterTry::Release, "4"), (AfterTry::ReleaseAtEnd, "2")] {
        play(3, vec![], move |desk| async move {
            desk.query("n1 n2", "SET lock another").await;
            let mut lock = desk.lock("redlock", |config| {
                (config.failed_try, config.tries) = (Some(after), Some(2));
                config.token = Some(TokenScope::Acquisition);
            });
            lock.acquire().await;
            let replies = desk.query("n3", "INFO persistence").await;
            let [Reply::Bulk(text)] = &replies[..] else { panic!("{replies:?}") };
            let text = String::from_utf8_lossy(text);
            let mut lines = text.lines();
            let counted = lines.find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
            assert_eq!(counted, Some(changes), "{after:?}");
        });
    }
}

#[test]
fn an_extend_that_failed_keeps_or_releases_the_keys() {
    for (after, kept) in [(AfterExtend::Keep, 2), (AfterExtend::Release, 0)] {
        play(5, vec![], move |desk| async move {
            let mut lock = desk.lock("redlock", |config| config.failed_extend = Some(after));
            let grant = lock.granted().await;
            desk.query("n1 n2 n3", "DEL lock").await;
            assert_eq!(lock.extend(&grant).await, Extended::Lost);
            let replies = desk.query("n4 n5", "EXISTS lock").await;
            let there = replies.iter().filter(|reply| **reply == Reply::Integer(1)).count();
            assert_eq!(there, kept, "{after:?}");
        });
    }
}

#[test]
fn without_the_check_of_validity_a_grant_may_be_over() {
    for validity in [true, false] {
        play(1, pause("granted", 1, 2 * TTL), move |desk| async move {
            let mut lock = desk.lock("token-lua", |config| config.validity = Some(validity));
            let acquired = lock.acquire().await;
            assert_eq!(matches!(acquired, Acquired::Refused(_)), validity, "{acquired:?}");
        });
    }
}

#[test]
fn the_deduction_for_drift_shortens_the_grant() {
    for name in ["token-lua", "redlock"] {
        play(5, vec![], move |desk| async move {
            let drift = Some(700 * MILLISECOND);
            let mut lock = desk.lock(name, |config| config.drift = drift);
            let sent = desk.host.now(Clock::Monotonic);
            let deadline = lock.granted().await.deadline;
            assert_eq!(deadline, Some((Clock::Monotonic, sent + TTL - 700 * MILLISECOND)));
        });
    }
}

#[test]
fn tries_are_as_far_apart_as_the_least_back_off() {
    play(1, vec![], |desk| async move {
        desk.lock("token-lua", |_| {}).granted().await;
        let mut lock = desk.lock("token-lua", |config| {
            config.tries = Some(3);
            (config.retry_from, config.retry) = (Some(300 * MILLISECOND), Some(400 * MILLISECOND));
        });
        let from = desk.host.now(Clock::Monotonic);
        let acquired = lock.acquire().await;
        assert!(matches!(acquired, Acquired::Refused(_)), "{acquired:?}");
        let took = desk.host.now(Clock::Monotonic) - from;
        assert!((600 * MILLISECOND..900 * MILLISECOND).contains(&took), "{took} ns");
    });
}

#[test]
fn a_quorum_of_those_that_were_reached_stays_one_of_them() {
    for (of, is_granted) in [(QuorumOf::All, false), (QuorumOf::Connected, true)] {
        let event = Pattern::Step { who: "c".to_owned(), label: "before".to_owned() };
        let target = Target::try_from("c <-> n1 n2 n3".to_owned()).expect("a target");
        let anchor = Anchor::After { event, nth: 1, plus: 0 };
        let length = Some(3 * SECOND);
        let cut = Fault { id: 1, verb: Verb::Partition, target, anchor, length };
        play(5, vec![cut], move |desk| async move {
            desk.host.step("before").await;
            let mut lock = desk.lock("redlock", |config| config.quorum_of = of);
            let first = lock.acquire().await;
            assert_eq!(matches!(first, Acquired::Granted(_)), is_granted, "{of:?}: {first:?}");
            desk.host.sleep(10 * SECOND).await;
            // It never asks the others again.
            desk.query("n4 n5", "SET lock another").await;
            let again = lock.acquire().await;
            assert_eq!(matches!(again, Acquired::Granted(_)), !is_granted, "{of:?}: {again:?}");
        });
    }
}

/// It may be another's permit.
#[test]
fn a_counter_of_permits_gives_nothing_back_in_doubt() {
    let deaf = at_first_command(Verb::Partition, "n1 -> c", Some(2 * SECOND));
    play(1, deaf, |desk| async move {
        let mut lock = desk.lock("semaphore-counter", |_| {});
        let acquired = lock.acquire().await;
        let Acquired::Unknown(grant) = acquired else { panic!("{acquired:?}") };
        desk.host.sleep(10 * SECOND).await;
        lock.release(&grant).await;
        assert_eq!(desk.query_all("GET lock").await, [Reply::Bulk("1".into())]);
    });
}

#[test]
fn a_library_has_its_options() {
    let redsync = find("redsync").expect("a library").of(LockConfig::default());
    assert_eq!(redsync.token, Some(TokenScope::Acquisition));
    assert_eq!((redsync.tries, redsync.retry_from), (Some(32), Some(50 * MILLISECOND)));
    assert_eq!(redsync.algorithm, "redlock");
}

impl Desk {
    /// The replies of these nodes to a request.
    async fn query(&self, nodes: &str, line: &str) -> Vec<Reply> {
        let mut replies = Vec::new();
        for node in nodes.split(' ') {
            replies.push(self.query_one(node, line).await);
        }
        replies
    }
}
