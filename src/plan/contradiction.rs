//! The checks that several parts of a plan share.

use lockstorm_platform::fault::MAX_LENGTH;
use lockstorm_platform::time::Nanos;

use crate::length;
use crate::plan::Plan;
use crate::refusal::{Place, Refusal, nearest};

/// The result of every check here.
pub type Checked = Result<(), Refusal>;

/// The maximum number of rounds of a client, and of tries of an acquire.
pub const MAX_ROUNDS: u32 = 1_000_000;
/// The maximum rate error of a clock, ppm: 50 % too fast or too slow.
const MAX_PPM: i32 = 500_000;
/// The maximum number of lost tries per million: a message must arrive eventually.
pub const MAX_LOSS: u32 = 900_000;

/// Refuses the value at `place` if `wrong`.
pub fn refuse_if(wrong: bool, place: &str, what: impl Into<String>, instead: &str) -> Checked {
    if !wrong {
        return Ok(());
    }
    Err(Refusal::new(what, instead).on(Place::Field(place.to_owned())))
}

/// Refuses a host that does not exist.
pub fn known_host(plan: &Plan, place: &str, host: &str) -> Checked {
    let hosts = plan.hosts();
    if hosts.iter().any(|known| known == host) {
        return Ok(());
    }
    let known: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let instead = match nearest(host, &known) {
        _ if host == "master" => "the first master is 'n1'; name the node".to_owned(),
        Some(near) => format!("did you mean '{near}'? {}", who_is_there(plan)),
        None => who_is_there(plan),
    };
    refuse_if(true, place, format!("there is no host '{host}'"), &instead)
}

/// Refuses a length above the maximum.
pub fn in_reach(place: &str, length: Nanos) -> Checked {
    let instead = format!("at most {}", length::write(MAX_LENGTH));
    refuse_if(length > MAX_LENGTH, place, "this is too long", &instead)
}

fn who_is_there(plan: &Plan) -> String {
    let range = |letter, count| match count {
        1 => format!("{letter}1"),
        2 => format!("{letter}1, {letter}2"),
        _ => format!("{letter}1 to {letter}{count}"),
    };
    let (nodes, clients) = (plan.topology.nodes, plan.workload.clients);
    let sentinels = match plan.sentinels().len() {
        0 => String::new(),
        count => format!("{}, ", range('s', u32::try_from(count).unwrap_or(u32::MAX))),
    };
    format!("there are {}, {sentinels}{} and resource", range('n', nodes), range('c', clients))
}

/// Refuses a clock with an extreme rate.
pub fn rate(place: &str, ppm: i32) -> Checked {
    let what = format!("no clock runs {ppm} ppm fast");
    let instead = format!("from -{MAX_PPM} to {MAX_PPM}");
    refuse_if(!(-MAX_PPM..=MAX_PPM).contains(&ppm), place, what, &instead)
}
