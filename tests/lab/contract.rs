//! A user's lock never brings the lab down. Each case is a small lock with one odd behaviour:
//! behaviour that the contract allows is run and judged normally; a breach is a finding with the
//! line of the contract.

use std::process::Command;
use std::time::Duration;

use async_trait::async_trait;
use lockstorm::check::verdict::{Kind, Verdict};
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::explore::examine;
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::algorithm::token_lua::TokenLua;
use lockstorm::lock::{Acquired, Extended, Grant, Lock, Notice, Released, Setting};
use lockstorm::plan::TopologyKind;
use lockstorm::plan::base_plan::base_plan_of;
use lockstorm::promise::contract::Clause;
use lockstorm::report::{page, text};
use lockstorm::run::Lab;
use lockstorm_platform::time::{Clock, MILLISECOND, SECOND};
use lockstorm_platform::trace::Event;

use crate::amount::sample;

/// token-lua with one odd behaviour.
struct Odd {
    lock: TokenLua,
    setting: Setting,
    does: Oddity,
    last: Option<Grant>,
}

/// The odd behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Oddity {
    PanicsInAcquire,
    PanicsInRelease,
    PanicsInTask,
    PanicsInTaskWithANumber,
    PanicsWhenDropped,
    SleepsForNoTime,
    SleepsForMicroseconds,
    StepsWithoutEnd,
    YieldsWithoutEnd,
    LooksAtTheClock,
    SpawnsWithoutEnd,
    SpinsInTask,
    SpinsInNotices,
    LosesAfterRelease,
    LosesWhileAcquiring,
    LosesAnotherWhileAcquiring,
    LosesWhatIsRefused,
    LosesTwice,
    LosesWhenDropped,
    LosesWhatNobodyHas,
    ExtendsWhatNobodyHas,
    EndsWhatHasNotBegun,
    DropsWhatHasNotBegun,
    EndsTwice,
    EndsAnAcquire,
    DropsItsRenewal,
    OneToken,
    EmptyToken,
    GiantToken,
    LastFence,
    FirstFence,
    DeadlineNever(Clock),
    DeadlineLongAgo(Clock),
    KeptForEver,
    DepthOfMany,
    ManyTasks,
    UnknownForEver,
    NeverAnswers,
    RecordsRubbish,
    LoopsWithoutAwait,
    DropsARequest,
}

impl Odd {
    fn make(setting: Setting, does: Oddity) -> Box<dyn Lock> {
        Box::new(Odd { lock: TokenLua::new(setting.clone()), setting, does, last: None })
    }

    fn notify(&self, notice: Notice) -> u32 {
        (self.setting.notify)(notice).op
    }

    async fn spin(&self) {
        let host = &self.setting.host;
        match self.does {
            Oddity::SleepsForNoTime => loop {
                host.sleep(0).await;
            },
            Oddity::SleepsForMicroseconds => loop {
                host.sleep(1_000).await;
            },
            Oddity::StepsWithoutEnd => loop {
                host.step("again").await;
            },
            Oddity::YieldsWithoutEnd => loop {
                let mut yielded = false;
                std::future::poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::replace(&mut yielded, true) {
                        return std::task::Poll::Ready(());
                    }
                    std::task::Poll::Pending
                })
                .await;
            },
            Oddity::LooksAtTheClock => while host.now(Clock::Monotonic) < u64::MAX {},
            Oddity::SpawnsWithoutEnd => loop {
                host.spawn(async {});
            },
            Oddity::SpinsInNotices => loop {
                let token = self.last.as_ref().map_or(String::new(), |grant| grant.token.clone());
                self.notify(Notice::Lost { token });
            },
            Oddity::LoopsWithoutAwait => loop {
                std::hint::spin_loop();
            },
            _ => {}
        }
    }

    /// The odd behaviour once it has the lock.
    async fn granted(&mut self, mut grant: Grant) -> Grant {
        let host = self.setting.host.clone();
        match self.does {
            Oddity::PanicsInTask => host.spawn(async { panic!("a task of the lock") }),
            Oddity::PanicsInTaskWithANumber => {
                host.spawn(async { std::panic::panic_any(7_u8) });
            }
            Oddity::SpinsInTask => {
                let own = host.clone();
                host.spawn(async move {
                    loop {
                        own.sleep(0).await;
                    }
                });
            }
            Oddity::ManyTasks => {
                for _ in 0..5_000 {
                    let own = host.clone();
                    host.spawn(async move { own.sleep(SECOND).await });
                }
            }
            Oddity::LosesWhileAcquiring => {
                self.notify(Notice::Lost { token: grant.token.clone() });
            }
            Oddity::LosesAnotherWhileAcquiring => {
                self.notify(Notice::Lost { token: "ghost".into() });
            }
            Oddity::DropsItsRenewal => {
                let (setting, token) = (self.setting.clone(), grant.token.clone());
                host.clone().spawn(async move {
                    let never = setting.extending(&token, async |_| std::future::pending().await);
                    host.timeout(50 * MILLISECOND, never).await;
                });
            }
            Oddity::EndsTwice => {
                let op = self.notify(Notice::Extending { token: grant.token.clone() });
                self.notify(Notice::Extended { op, result: Extended::Unknown });
                self.notify(Notice::Extended { op, result: Extended::Kept(None) });
            }
            Oddity::EndsAnAcquire => {
                let op = self.setting.call.get().op;
                self.notify(Notice::Extended { op, result: Extended::Lost });
            }
            Oddity::LastFence => grant.fence = Some(u64::MAX),
            Oddity::FirstFence => grant.fence = Some(0),
            Oddity::DeadlineNever(clock) => grant.deadline = Some((clock, u64::MAX)),
            Oddity::DeadlineLongAgo(clock) => grant.deadline = Some((clock, 0)),
            Oddity::DepthOfMany => grant.depth = u32::MAX,
            Oddity::RecordsRubbish => {
                host.record(Event::Outcome { op: u32::MAX, what: "acquired" });
                let to = host.resolve("n1").expect("a node");
                host.record(Event::Unreached { to, command: "SET", op: u32::MAX });
                host.record(Event::Fault { id: 99, edge: lockstorm_platform::trace::Edge::Start });
            }
            _ => {}
        }
        self.last = Some(grant.clone());
        self.outward(grant)
    }

    /// The grant as its caller receives it: the node knows another token.
    fn outward(&self, grant: Grant) -> Grant {
        let token = match self.does {
            Oddity::OneToken => "always".to_owned(),
            Oddity::EmptyToken => String::new(),
            Oddity::GiantToken => "x".repeat(1 << 20),
            _ => return grant,
        };
        Grant { token, ..grant }
    }
}

#[async_trait(?Send)]
impl Lock for Odd {
    async fn acquire(&mut self) -> Acquired {
        assert!(self.does != Oddity::PanicsInAcquire, "an acquire of the lock");
        match self.does {
            Oddity::EndsWhatHasNotBegun => {
                self.notify(Notice::Extended { op: 4_000_000_000, result: Extended::Unknown });
            }
            Oddity::DropsWhatHasNotBegun => {
                self.notify(Notice::Abandoned { op: 4_000_000_000 });
            }
            Oddity::NeverAnswers => std::future::pending().await,
            _ => {}
        }
        self.spin().await;
        match self.lock.acquire().await {
            Acquired::Granted(grant) if self.does == Oddity::UnknownForEver => {
                self.last = Some(grant.clone());
                Acquired::Unknown(grant)
            }
            Acquired::Granted(grant) => Acquired::Granted(self.granted(grant).await),
            Acquired::Refused(why) if self.does == Oddity::LosesWhatIsRefused => {
                self.notify(Notice::Lost { token: "ghost".into() });
                Acquired::Refused(why)
            }
            other => other,
        }
    }

    async fn extend(&mut self, _: &Grant) -> Extended {
        Extended::Kept(None)
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        assert!(self.does != Oddity::PanicsInRelease, "a release of the lock");
        let known = self.last.clone().unwrap_or_default();
        if self.does == Oddity::DropsARequest {
            let host = self.setting.host.clone();
            host.timeout(MILLISECOND, self.lock.extend(&known)).await;
        }
        let released = self.lock.release(&known).await;
        let lost = Notice::Lost { token: grant.token.clone() };
        match self.does {
            Oddity::LosesAfterRelease => {
                let (host, notify) = (self.setting.host.clone(), self.setting.notify.clone());
                host.clone().spawn(async move {
                    host.sleep(MILLISECOND).await;
                    notify(lost);
                });
            }
            Oddity::LosesWhatNobodyHas => {
                self.notify(Notice::Lost { token: "ghost".into() });
            }
            Oddity::ExtendsWhatNobodyHas => {
                self.notify(Notice::Extending { token: "ghost".into() });
            }
            Oddity::LosesTwice => {
                self.notify(lost.clone());
                self.notify(lost);
            }
            _ => {}
        }
        released
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        match (self.does, &self.last) {
            (Oddity::PanicsWhenDropped, _) => panic!("the lock is dropped"),
            (Oddity::LosesWhenDropped, Some(grant)) => {
                self.notify(Notice::Lost { token: grant.token.clone() });
            }
            _ => {}
        }
    }
}

/// Runs the lock with and without a crash and a pause of its client, a debug build only with them,
/// and renders all reports.
fn run(lock: Algorithm) -> Vec<Finding> {
    let lab = Lab::default().with_lock(lock);
    let base = base_plan_of(&lock, TopologyKind::Single);
    let fault = |id, kind: &str, at: u64| {
        format!(
            r#"{{"id":{id},"verb":"{kind}","target":"c1","anchor":{{"at":{at}}},"length":500000000}}"#
        )
    };
    let faults = [fault(1, "pause", 300_000_000), fault(2, "crash", 2_000_000_000)];
    let struck = faults.map(|fault| serde_json::from_str(&fault).expect("a fault"));
    let with = lockstorm::plan::Plan { faults: struck.to_vec(), ..base.clone() };
    let plans = sample([with, base]);
    let findings: Vec<_> = plans.iter().map(|plan| examine::classified(&lab, plan)).collect();
    for finding in &findings {
        assert!(page::of_finding(finding).iter().all(|page| !page.text.is_empty()));
        let again = lab.run(&finding.plan).trace.to_string();
        assert_eq!(again, finding.trace_hash, "{}", lock.name);
    }
    findings
}

/// The lock breaks this line of the contract, and the finding says so; or it breaks none.
#[track_caller]
fn check(does: &str, build: fn(Setting) -> Box<dyn Lock>, broken: Option<(Clause, &str)>) {
    let lock = Algorithm { fences: true, ..Algorithm::lease("odd", build) };
    check_lock(does, lock, broken);
}

#[track_caller]
fn check_lock(does: &str, lock: Algorithm, broken: Option<(Clause, &str)>) {
    for finding in run(lock) {
        let page = text::page(&finding, &explain(&finding), false);
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let breaches = &finding.history.breaches;
        let Some((clause, details)) = broken else {
            assert_eq!(breaches, &[], "{does}");
            let verdict = &finding.judgement.verdict;
            assert!(!page.contains("contract"), "{does}: {verdict:?}\n{page}");
            continue;
        };
        let Verdict::Violated(violations) = &finding.judgement.verdict else {
            panic!("{does}: {page}")
        };
        assert_eq!(violations[0].kind, Kind::BrokenContract, "{does}");
        assert!(finding.class.is_some_and(|class| class.is_in_model()), "{does}");
        assert!(breaches.iter().all(|breach| breach.clause == clause), "{does}: {breaches:?}");
        assert!(page.contains(clause.line()) && page.contains(details), "{does}:\n{page}");
    }
}

macro_rules! cases {
    ($($does:expr => $broken:expr;)*) => {
        $(check(stringify!($does), |setting| Odd::make(setting, $does), $broken);)*
    };
}

#[test]
fn a_lock_that_panics_is_a_finding() {
    let broken = |details| Some((Clause::NoPanic, details));
    cases! {
        Oddity::PanicsInAcquire => broken("it panicked: an acquire of the lock");
        Oddity::PanicsInRelease => broken("it panicked: a release of the lock");
        Oddity::PanicsInTask => broken("it panicked: a task of the lock");
        Oddity::PanicsInTaskWithANumber => broken("it panicked: no text");
        // The system drops the remains of a process; no observer is left.
        Oddity::PanicsWhenDropped => None;
    }
    check("PanicsBeforeItsFuture", |_| panic!("no lock is made"), broken("no lock is made"));
}

#[test]
fn a_lock_without_the_method_of_its_flag_is_a_finding() {
    const LEASE: Algorithm = Algorithm::lease("odd", |setting| Box::new(TokenLua::new(setting)));
    let shares = "its Algorithm sets `shares: true`, and it does not implement `acquire_shared`";
    let groups = "its Algorithm sets `groups: true`, and it does not implement `acquire_all`";
    for (lock, details) in [
        (Algorithm { shares: true, ..LEASE }, shares),
        (Algorithm { groups: true, ..LEASE }, groups),
    ] {
        check_lock("HasNoMethod", lock, Some((Clause::NoPanic, details)));
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_lock_in_which_no_time_passes_is_a_finding() {
    let broken = Some((Clause::TimePasses, "it took 100001 steps without finishing"));
    cases! {
        Oddity::SleepsForNoTime => broken;
        Oddity::SleepsForMicroseconds => broken;
        Oddity::StepsWithoutEnd => broken;
        Oddity::YieldsWithoutEnd => broken;
        Oddity::LooksAtTheClock => broken;
        Oddity::SpawnsWithoutEnd => broken;
        Oddity::SpinsInTask => broken;
        Oddity::SpinsInNotices => broken;
        Oddity::ManyTasks => None;
        Oddity::NeverAnswers => None;
        Oddity::UnknownForEver => None;
    }
}

#[test]
fn a_notice_of_nothing_is_a_finding_and_a_late_one_is_not() {
    let grant = |details| Some((Clause::KnownGrant, details));
    let renewal = |details| Some((Clause::KnownRenewal, details));
    cases! {
        Oddity::EndsWhatHasNotBegun => renewal("no renewal with the number 4000000000");
        Oddity::DropsWhatHasNotBegun => renewal("no renewal with the number 4000000000");
        Oddity::EndsTwice => renewal("no renewal with the number");
        Oddity::EndsAnAcquire => renewal("no renewal with the number");
        Oddity::LosesAfterRelease => None;
        Oddity::LosesWhileAcquiring => None;
        Oddity::LosesAnotherWhileAcquiring => grant("a notice before the grant names 'ghost'");
        Oddity::LosesWhatIsRefused => grant("a notice before the grant names 'ghost'");
        Oddity::LosesWhatNobodyHas => grant("Lost names 'ghost'");
        Oddity::ExtendsWhatNobodyHas => grant("Extending names 'ghost'");
        Oddity::LosesTwice => None;
        Oddity::LosesWhenDropped => None;
        Oddity::DropsItsRenewal => None;
    }
}

#[test]
fn tokens_fences_and_deadlines_are_the_locks_own_business() {
    cases! {
        Oddity::OneToken => None;
        Oddity::EmptyToken => None;
        Oddity::GiantToken => None;
        Oddity::LastFence => None;
        Oddity::FirstFence => None;
        Oddity::DeadlineNever(Clock::Wall) => None;
        Oddity::DeadlineNever(Clock::Monotonic) => None;
        Oddity::DeadlineNever(Clock::Boot) => None;
        Oddity::DeadlineLongAgo(Clock::Wall) => None;
        Oddity::DeadlineLongAgo(Clock::Boot) => None;
        Oddity::KeptForEver => None;
        Oddity::DepthOfMany => None;
        Oddity::RecordsRubbish => None;
    }
}

#[test]
fn a_request_that_is_dropped_half_way_answers_no_other() {
    const HASTY: Algorithm =
        Algorithm::lease("odd", |setting| Odd::make(setting, Oddity::DropsARequest));
    let finding = &run(HASTY)[0];
    assert_eq!(finding.judgement.verdict, Verdict::Holds);
}

/// The environment variable that makes this test run the lock that loops, in a process of its own.
const CHILD: &str = "LOCKSTORM_STANDS_STILL";

#[test]
fn a_loop_without_an_await_ends_the_process_and_names_the_plan() {
    const STILL: Algorithm =
        Algorithm::lease("still", |setting| Odd::make(setting, Oddity::LoopsWithoutAwait));
    if std::env::var_os(CHILD).is_some() {
        let hunt = lockstorm::test::hunt_own(STILL, TopologyKind::Single);
        hunt.patience(Duration::from_millis(500)).seeds(3..=3).report();
        unreachable!("the watchdog has ended the process");
    }
    let folder = env!("CARGO_TARGET_TMPDIR");
    let name = "contract::a_loop_without_an_await_ends_the_process_and_names_the_plan";
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--nocapture"]).env(CHILD, "yes").current_dir(folder);
    let ended = child.output().unwrap();
    let page = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(70), "{page}");
    let plan = "target/lockstorm/hunt-still-3.stuck.plan.json";
    assert!(page.contains("the lock 'still' has not come back from one poll"), "{page}");
    assert!(page.contains(plan), "{page}");
    let lab = Lab::default().with_lock(STILL);
    let json = std::fs::read_to_string(std::path::Path::new(folder).join(plan)).unwrap();
    assert!(lockstorm::plan::Plan::from_json_with(&lab.locks, plan, &json).is_ok());
}

#[test]
#[cfg(feature = "turmoil")]
fn on_turmoil_too_a_lock_in_which_no_time_passes_is_a_finding() {
    const SLEEPY: Algorithm =
        Algorithm::lease("odd", |setting| Odd::make(setting, Oddity::SleepsForNoTime));
    const YIELDING: Algorithm =
        Algorithm::lease("odd", |setting| Odd::make(setting, Oddity::YieldsWithoutEnd));
    for lock in [SLEEPY, YIELDING] {
        let lab = Lab { locks: Lab::default().with_lock(lock).locks, ..Lab::turmoil() };
        let run = lab.run(&base_plan_of(&lock, TopologyKind::Single));
        assert_eq!(run.history.breaches[0].clause, Clause::TimePasses);
    }
}
