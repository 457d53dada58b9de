//! A semaphore whose permits are the elements of a list, as the gem `redis-semaphore` has it: LPOP
//! takes one, and a hash keeps since when. Who comes first fills the list, and who takes a caller
//! for dead puts its permit back, in requests of their own: so one permit may have two holders.

use lockstorm::explain::explanation::explain;
use lockstorm::explain::mechanism::by_kind::mechanism;
use lockstorm::explain::mechanism::how::How;
use lockstorm::explain::witness::Witness;
use lockstorm::explore::examine;
use lockstorm::explore::trial::attempt;
use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::strategy::Strategy;
use lockstorm::own::{
    Acquired, Algorithm, Answer, Choices, Client, Clock, Extended, Grant, LEASE, Lock, LockConfig,
    MILLISECOND, Promise, Released, Reply, Said, Setting, TopologyKind, Work, answer, assumptions,
    async_trait, base_plan_of,
};
use lockstorm::run::Lab;

use crate::amount::share;
use crate::true_stories::is_true;

/// How many may hold it at once.
const HOLDERS: u32 = 2;

struct Permits {
    client: Client,
    setting: Setting,
    choices: Choices,
    /// The list of those that nobody has, and the hash of those that somebody has.
    available: String,
    grabbed: String,
}

impl Permits {
    fn boxed(setting: Setting, is_list: bool) -> Box<dyn Lock> {
        let (key, other) = (setting.config.key.clone(), format!("{}:other", setting.config.key));
        let (available, grabbed) = if is_list { (key, other) } else { (other, key) };
        let client = Client::of(&setting, &setting.nodes[0]);
        let choices = LEASE.settle(&setting.config);
        Box::new(Permits { client, setting, choices, available, grabbed })
    }

    async fn ask(&mut self, command: &'static str, args: &[&str]) -> Answer {
        let words: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        self.client.request(call, timeout, command, &words).await
    }

    /// The first request that is not executed ends the others.
    async fn ask_all(&mut self, requests: &[(&'static str, &[&str])]) -> Said {
        let mut last = Said::Yes;
        for (command, args) in requests {
            last = answer::said(&self.ask(command, args).await);
            if !matches!(last, Said::Yes | Said::No) {
                break;
            }
        }
        last
    }

    /// Fills the list if nobody has done so.
    async fn initialise(&mut self) -> Said {
        let (exists, available, grabbed) =
            (format!("{}:exists", self.available), self.available.clone(), self.grabbed.clone());
        match answer::said(&self.ask("GETSET", &[&exists, "1"]).await) {
            Said::No => {}
            other => return other,
        }
        let fill: [(&'static str, &[&str]); 8] = [
            ("EXPIRE", &[&exists, "10"]),
            ("MULTI", &[]),
            ("DEL", &[&grabbed]),
            ("DEL", &[&available]),
            ("RPUSH", &[&available, "0"]),
            ("RPUSH", &[&available, "1"]),
            ("PERSIST", &[&exists]),
            ("EXEC", &[]),
        ];
        self.ask_all(&fill).await
    }

    /// Puts a permit back.
    async fn signal(&mut self, permit: &str) -> Said {
        let (available, grabbed) = (self.available.clone(), self.grabbed.clone());
        let back: [(&'static str, &[&str]); 4] = [
            ("MULTI", &[]),
            ("HDEL", &[&grabbed, permit]),
            ("LPUSH", &[&available, permit]),
            ("EXEC", &[]),
        ];
        self.ask_all(&back).await
    }

    fn now_ms(&self) -> u64 {
        self.setting.host.now(Clock::Wall) / MILLISECOND
    }

    /// Puts back the permits that somebody has had for longer than a lease.
    async fn release_stale(&mut self) {
        let grabbed = self.grabbed.clone();
        let Ok(Reply::Array(all)) = self.ask("HGETALL", &[&grabbed]).await else { return };
        let text = |reply: &Reply| match reply {
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        for pair in all.chunks(2) {
            let [permit, since] = pair else { return };
            let over = text(since).parse().unwrap_or(0) + self.choices.ttl / MILLISECOND;
            if over < self.now_ms() {
                self.signal(&text(permit)).await;
            }
        }
    }
}

#[async_trait(?Send)]
impl Lock for Permits {
    async fn acquire(&mut self) -> Acquired {
        if !matches!(self.initialise().await, Said::Yes | Said::No) {
            return Acquired::Refused("it is not initialised".to_owned());
        }
        self.release_stale().await;
        let host = self.setting.host.clone();
        let lease = self.choices.lease(&self.setting.config);
        let sent = host.now(lease.clock);
        let (available, grabbed) = (self.available.clone(), self.grabbed.clone());
        let permit = match self.ask("LPOP", &[&available]).await {
            Ok(Reply::Bulk(permit)) => String::from_utf8_lossy(&permit).into_owned(),
            Ok(_) => return Acquired::Refused("none is available".to_owned()),
            // Which one is lost is not known.
            Err(_) => return Acquired::Unknown(Grant::new(String::new(), None)),
        };
        let grant = Grant::new(permit.clone(), Some(lease.deadline(&host, sent)));
        let now = self.now_ms().to_string();
        match answer::said(&self.ask("HSET", &[&grabbed, &permit, &now]).await) {
            Said::Yes | Said::No => Acquired::Granted(grant),
            Said::Refused(_) | Said::Unknown => Acquired::Unknown(grant),
        }
    }

    async fn extend(&mut self, _: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        if grant.token.is_empty() {
            return Released::Unknown;
        }
        match self.signal(&grant.token).await {
            Said::Yes => Released::Released,
            Said::No => Released::NotMine,
            Said::Refused(_) | Said::Unknown => Released::Unknown,
        }
    }
}

fn promise(config: &LockConfig, work: Work) -> Promise {
    Promise { holders: HOLDERS, ..assumptions::lease(config, work) }
}

const fn permits(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
    Algorithm { promise, ..Algorithm::lease(name, build) }
}

const LIST: Algorithm = permits("permits-in-a-list", |setting| Permits::boxed(setting, true));

const HASH: Algorithm = permits("permits-in-a-hash", |setting| Permits::boxed(setting, false));

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_permit_with_two_holders_is_told() {
    let mut put_back = 0;
    for lock in [LIST, HASH] {
        let lab = Lab::default().with_lock(lock);
        let base = base_plan_of(&lock, TopologyKind::Single);
        let hunt = Hunt::new(lab.clone(), base, Alphabet::of(lock), 1..=1);
        for seed in 1..=share(400) as u64 {
            let plan = draw(&hunt, seed, Strategy::Random);
            let trial = attempt(&lab, &plan);
            if !trial.is_violated() {
                continue;
            }
            let finding = examine::once(&lab, &plan, trial);
            let found = mechanism(&Witness::of(&finding)).expect("it is violated");
            let story = explain(&finding).story;
            assert!(found.how != How::Unclear, "{} of seed {seed}: {story:#?}", lock.name);
            assert!(found.how != How::TooMany, "{} of seed {seed}: {}", lock.name, found.sentence);
            put_back += u32::from(found.sentence.contains(" put permit "));
            is_true(&finding);
        }
    }
    assert!(put_back > 0, "none was put back while its holder had it");
}
