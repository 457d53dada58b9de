//! A re-entrant lock of one's own: its caller takes it again, and gives it back as often. The
//! correct ones keep their promise; one that the first release frees is found.

use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::Kind;
use lockstorm::explain::explanation::explain;
use lockstorm::explain::mechanism::how::How;
use lockstorm::history::{OpKind, Outcome};
use lockstorm::own::{
    Acquired, Algorithm, Choices, Client, Extended, Grant, HuntTest, LEASE, Lock, Released,
    Setting, TopologyKind, answer, async_trait, base_plan_of, hunt_own, milliseconds, scripts,
    token,
};
use lockstorm::run::Lab;

use crate::amount::amount;

/// What an inner release does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inner {
    /// It only counts.
    Counts,
    /// It frees the lock.
    Frees,
}

/// A key with its owner's token; the owner counts how often it has it.
struct Counted {
    client: Client,
    setting: Setting,
    choices: Choices,
    /// The token of its key, and how often the caller has it.
    held: Option<(String, u32)>,
    inner: Inner,
}

impl Counted {
    fn boxed(setting: Setting, inner: Inner) -> Box<dyn Lock> {
        let client = Client::of(&setting, &setting.nodes[0]);
        let choices = LEASE.settle(&setting.config);
        Box::new(Counted { client, setting, choices, held: None, inner })
    }

    async fn run(&mut self, script: &'static str, token: &str) -> answer::Answer {
        let Counted { client, setting, choices, .. } = self;
        let (key, ttl) = (setting.config.key.as_bytes(), milliseconds(choices.ttl));
        let args = [token.as_bytes(), ttl.as_bytes()];
        client.eval(setting.call.get(), choices.timeout, script, &[key], &args).await
    }

    async fn set(&mut self, token: &str) -> answer::Answer {
        let Counted { client, setting, choices, .. } = self;
        let (key, ttl) = (setting.config.key.as_bytes(), milliseconds(choices.ttl));
        let args: [&[u8]; 5] = [key, token.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        client.request(setting.call.get(), choices.timeout, "SET", &args).await
    }
}

#[async_trait(?Send)]
impl Lock for Counted {
    async fn acquire(&mut self) -> Acquired {
        let host = self.setting.host.clone();
        let lease = self.choices.lease(&self.setting.config);
        let sent = host.now(lease.clock);
        let (token, depth, answer) = match self.held.clone() {
            Some((token, held)) => {
                let answer = self.run(scripts::COMPARE_AND_PEXPIRE, &token).await;
                (token, held + 1, answer)
            }
            None => {
                let token = token::fresh(&host, self.setting.call.get(), 0);
                let answer = self.set(&token).await;
                (token, 1, answer)
            }
        };
        let deadline = Some(lease.deadline(&host, sent));
        let acquired =
            answer::acquired(&answer, Grant { token, deadline, depth, ..Grant::default() });
        if let Acquired::Granted(grant) = &acquired {
            self.held = Some((grant.token.clone(), grant.depth));
        }
        acquired
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let host = self.setting.host.clone();
        let lease = self.choices.lease(&self.setting.config);
        let sent = host.now(lease.clock);
        let answer = self.run(scripts::COMPARE_AND_PEXPIRE, &grant.token).await;
        answer::extended(&answer, lease.deadline(&host, sent))
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        match &mut self.held {
            // A re-entry with an unknown outcome added nothing that could be given back.
            Some((token, depth)) if *token == grant.token && grant.depth > *depth => {
                return Released::NotMine;
            }
            Some((token, depth)) if *token == grant.token && *depth > 1 => {
                *depth -= 1;
                if self.inner == Inner::Counts {
                    return Released::Released;
                }
            }
            _ => self.held = None,
        }
        answer::released(&self.run(scripts::COMPARE_AND_DELETE, &grant.token).await)
    }
}

const CORRECT: Algorithm =
    Algorithm::lease("counted", |setting| Counted::boxed(setting, Inner::Counts));

const BROKEN: Algorithm =
    Algorithm::lease("freed-by-the-first", |setting| Counted::boxed(setting, Inner::Frees));

fn hunt(lock: Algorithm) -> HuntTest {
    hunt_own(lock, TopologyKind::Single).reenter(true).within_assumptions()
}

/// `LOCKSTORM_SHAPES` sets the number of plans.
#[test]
fn a_reentrant_lock_keeps_its_promise() {
    let plans = amount("LOCKSTORM_SHAPES", 2_000) as u64;
    let tally = hunt(CORRECT).seeds(1..=plans).holds();
    assert!(tally.struck_in_hold > plans / 4, "{tally:?}");
}

/// The callers of a run take the lock again while they have it, and release it as often.
#[test]
fn callers_take_the_lock_twice_and_release_it_twice() {
    let mut plan = base_plan_of(&CORRECT, TopologyKind::Single);
    plan.workload.reenter = true;
    let history = Lab::default().with_lock(CORRECT).run(&plan).history;
    let clients = || history.ops.iter().filter(|op| op.process != "probe");
    let granted = clients().filter(|op| matches!(op.outcome, Outcome::Granted { .. })).count();
    let released = clients().filter(|op| op.outcome == Outcome::Released).count();
    let releases = clients().filter(|op| matches!(op.kind, OpKind::Release { .. })).count();
    assert!(granted > 20 && granted % 2 == 0, "{granted}");
    assert_eq!((released, releases), (granted, granted));
}

#[test]
fn a_lock_that_its_first_release_frees_is_found() {
    let finding = hunt(BROKEN).seeds(1..=200).finds();
    let kinds = Signature::of(&finding.judgement.verdict).kinds;
    assert!(kinds.contains(&Kind::DoubleGrant), "{kinds:?}");
    assert!(finding.class.as_ref().is_some_and(|class| class.is_in_model()));
    let found = explain(&finding).mechanism.expect("it is violated");
    assert_eq!(found.how, How::DeletedByOwner, "{}", found.sentence);
    let parts =
        ["'s release at ", " of its acquire at ", " deleted the key on n1, which its acquire "];
    assert!(parts.iter().all(|part| found.sentence.contains(part)), "{}", found.sentence);
}
