//! Random scripts on both sides at once, many requests in one write.

use crate::corpus::{Words, line, with_times, words};
use crate::fake::Fake;
use crate::item::{escape, items};
use crate::real::{Real, encode, now_ms, of, sleep_ms};
use crate::rules::Rules;
use crate::shapes::{Dice, Shapes};

/// Requests in one script.
const LENGTH: usize = 500;
/// The number of bytes that redis-server reads at once, with a margin.
const MAX_BYTES: usize = 12_000;
/// Requests in one write.
const MAX_REQUESTS: usize = 60;
/// The length of a pause in scripts that let time pass; keys expire before it ends, at `<now+400>`.
const PAUSE_MS: u64 = 405;
/// A script that has waited for this long stops there: near expiries are close.
const ENOUGH_MS: u64 = 200;
/// A script that took longer on the real server would show timing differences, so it is repeated.
const MAX_MS: u64 = 300;
/// The names of the connections.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// One step of a random script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// A request of a connection.
    Ask(&'static str, Words),
    /// A pause after which all keys with a near expiry have expired.
    Pause,
}

/// A difference: the step, and the replies.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The step's number.
    pub at: usize,
    /// Both replies.
    pub text: String,
}

/// A random script.
pub fn script(shapes: &Shapes, dice: &mut Dice) -> Vec<Move> {
    let pause_at = dice.one_in(40).then_some(LENGTH / 2);
    let (mut name, mut listens) = (NAMES[0], [false; NAMES.len()]);
    let ask = |nth| {
        if pause_at == Some(nth) {
            return Move::Pause;
        }
        if dice.one_in(15) {
            name = NAMES[dice.roll(NAMES.len())];
        }
        // A subscribed connection can do little else, so it resets soon.
        let own = NAMES.iter().position(|known| *known == name).unwrap_or(0);
        let stops = listens[own] && dice.one_in(8);
        let words = if stops { vec![b"RESET".to_vec()] } else { shapes.draw(dice) };
        listens[own] = !stops && (listens[own] || listens_then(&words));
        Move::Ask(name, words)
    };
    (0..LENGTH).map(ask).collect()
}

/// Whether a request may subscribe its connection.
fn listens_then(words: &Words) -> bool {
    let first = words[0].to_ascii_uppercase();
    first.ends_with(b"SUBSCRIBE") && !first.ends_with(b"UNSUBSCRIBE")
}

/// Plays a script on both sides from an empty state; returns the number of steps, and the first
/// difference. A run that takes too long on a busy machine is repeated.
pub fn play(real: &mut Real, moves: &[Move]) -> (usize, Option<Difference>) {
    let mut last = None;
    for _ in 0..20 {
        let (done, difference, ms) = play_once(real, moves);
        if ms < MAX_MS {
            return (done, difference);
        }
        last = difference;
    }
    panic!(
        "this machine is too busy for {} requests, or an answer is missing: {last:?}",
        moves.len()
    );
}

/// One such run, with its duration in milliseconds.
fn play_once(real: &mut Real, moves: &[Move]) -> (usize, Option<Difference>, u64) {
    real.forget();
    let start_ms = now_ms();
    let mut both = Both {
        real,
        fake: Fake::start(&[], start_ms),
        rules: [Rules::read_once(), Rules::read_once()],
        start_ms,
    };
    let (mut at, mut waited) = (0, 0);
    let mut found = None;
    while at < moves.len() && found.is_none() && now_ms() - start_ms - waited < ENOUGH_MS {
        if moves[at] == Move::Pause {
            let left = (start_ms + PAUSE_MS).saturating_sub(now_ms());
            sleep_ms(left);
            waited = left;
            both.fake.set_time(now_ms());
            at += 1;
            continue;
        }
        let end = at + both.burst_length(&moves[at..]);
        let (done, difference) = both.burst(at, &moves[at..end]);
        found = difference;
        at += done;
    }
    (at, found, now_ms() - start_ms - waited)
}

struct Both<'a> {
    real: &'a mut Real,
    fake: Fake,
    rules: [Rules; 2],
    start_ms: u64,
}

/// A request, and the fake node's reply.
struct SentRequest {
    words: Words,
    ours: Vec<u8>,
}

impl Both<'_> {
    /// How many of the moves go into one write: those of one connection.
    fn burst_length(&self, moves: &[Move]) -> usize {
        let Move::Ask(first, _) = &moves[0] else { return 1 };
        let same = |step: &&Move| matches!(step, Move::Ask(name, _) if name == first);
        moves.iter().take(MAX_REQUESTS).take_while(same).count()
    }

    /// The words with the times of this run.
    fn timed(&self, words: &Words) -> Words {
        let timed = |word: &Vec<u8>| match word.strip_prefix(b"<now+") {
            Some(_) => with_times(&String::from_utf8_lossy(word), self.start_ms).into_bytes(),
            None => word.clone(),
        };
        words.iter().map(timed).collect()
    }

    /// Sends on one connection until it waits or is closed; returns the number of moves taken.
    fn burst(&mut self, from: usize, moves: &[Move]) -> (usize, Option<Difference>) {
        let Move::Ask(name, _) = &moves[0] else { return (1, None) };
        if self.fake.is_waiting(name) {
            self.give_way(name);
            return (1, None);
        }
        let (mut sent, mut asked) = (Vec::new(), Vec::new());
        let mut ours = crate::corpus::Echo::new();
        for step in moves {
            let Move::Ask(_, words) = step else { continue };
            let words = self.timed(words);
            if sent.len() + encode(&words).len() > MAX_BYTES && !sent.is_empty() {
                break;
            }
            sent.extend(encode(&words));
            self.fake.request(name, &words);
            let waits = self.fake.is_waiting(name);
            self.fake.be_patient(name);
            let mut echo = self.fake.heard();
            let own = echo.remove(*name).unwrap_or_default();
            asked.push(SentRequest { words, ours: own.bytes });
            for (other, heard) in echo {
                ours.entry(other).or_default().bytes.extend(heard.bytes);
            }
            if own.closed {
                ours.entry((*name).to_owned()).or_default().closed = true;
            }
            if own.closed || waits {
                break;
            }
        }
        (asked.len(), self.compare(from, name, &sent, &asked, ours))
    }

    /// Closes a connection that would wait forever, once no connection is left to wake it.
    fn give_way(&mut self, name: &str) {
        if NAMES.iter().all(|name| self.fake.is_waiting(name)) {
            self.fake.close(name);
            self.real.close(name);
            self.real.fence();
        }
    }

    fn compare(
        &mut self,
        from: usize,
        name: &str,
        sent: &[u8],
        asked: &[SentRequest],
        mut ours: crate::corpus::Echo,
    ) -> Option<Difference> {
        self.real.send(name, sent);
        let all: Vec<u8> = asked.iter().flat_map(|asked| asked.ours.clone()).collect();
        let last_answers = asked.last().is_some_and(|last| !last.ours.is_empty());
        let mut theirs = self.real.heard();
        if last_answers && items(&of(&theirs, name).bytes).0.len() < items(&all).0.len() {
            self.real.be_patient(name);
            for (other, heard) in self.real.heard() {
                let known = theirs.entry(other).or_default();
                known.bytes.extend(heard.bytes);
                known.closed |= heard.closed;
            }
        }
        let answered = theirs.remove(name).unwrap_or_default();
        let closed = ours.remove(name).is_some_and(|heard| heard.closed);
        if let Some(difference) = self.first_difference(from, name, asked, &answered.bytes) {
            return Some(difference);
        }
        ours.retain(|_, heard| *heard != crate::corpus::Heard::default());
        if ours != theirs || closed != answered.closed {
            let text = format!("others: redis {theirs:?} ours {ours:?} closed {closed}");
            return Some(Difference { at: from + asked.len() - 1, text });
        }
        None
    }

    fn first_difference(
        &mut self,
        from: usize,
        name: &str,
        asked: &[SentRequest],
        answered: &[u8],
    ) -> Option<Difference> {
        let mut rest = answered;
        for (nth, SentRequest { words, ours }) in asked.iter().enumerate() {
            let count = items(ours).0.len();
            let theirs = match rest.strip_prefix(&ours[..]) {
                Some(_) => &rest[..ours.len()],
                None => front(rest, count),
            };
            rest = &rest[theirs.len()..];
            let [left, right] = &mut self.rules;
            let (theirs, _) = left.apply(name, words, theirs, b"");
            let (ours, _) = right.apply(name, words, ours, &theirs);
            if theirs != ours {
                let (theirs, ours) = (escape(&theirs), escape(&ours));
                let text = format!("{}\n  redis {theirs}\n  ours  {ours}", line(words));
                return Some(Difference { at: from + nth, text });
            }
        }
        let text = || format!("more was answered: {}", escape(rest));
        let at = from + asked.len().saturating_sub(1);
        (!rest.is_empty()).then(|| Difference { at, text: text() })
    }
}

/// The bytes of the first items.
fn front(bytes: &[u8], count: usize) -> &[u8] {
    let (found, rest) = items(bytes);
    let mut left = Vec::new();
    found.iter().take(count).for_each(|item| item.write(&mut left));
    &bytes[..left.len().min(bytes.len() - rest.len())]
}

/// The words of a request as in a file of cases.
pub fn said(step: &Move) -> String {
    match step {
        Move::Ask(name, words) => format!("{name}> {}", line(words)),
        Move::Pause => format!("@ +{PAUSE_MS}"),
    }
}

#[test]
fn times_are_words_of_their_own() {
    assert_eq!(words("SET a b PXAT <now+400>")[4], b"<now+400>");
}
