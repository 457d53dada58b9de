//! Watches runs from outside, in real time: a lock that loops without an await blocks the only
//! thread of its world, and nothing inside can stop it.
//!
//! The limit applies to one poll of the lock that does not return. How long a plan takes does not
//! matter.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Weak;
use std::time::{Duration, Instant};

use crate::edge::ending::Exit;
use crate::edge::output;
use crate::edge::terminal::complain;
use crate::plan::Plan;
use crate::report::page::Page;
use crate::run::Lab;
use crate::workload::progress::{Board, RunProgress};

/// The maximum time of one poll.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The number of checks within this time.
const LOOKS: u32 = 20;

/// The same lab with a watchdog. When a poll takes longer than `patience`, the watchdog writes the
/// plan into `folder` and exits the process with code 70. It stops with the lab.
#[expect(clippy::disallowed_methods, reason = "it looks at runs from outside, in real time")]
pub fn over(lab: Lab, folder: &Path, patience: Duration) -> Lab {
    let (progress, board) = RunProgress::new();
    let folder = folder.to_owned();
    std::thread::spawn(move || watch(&board, &folder, patience));
    Lab { progress, ..lab }
}

#[expect(clippy::disallowed_methods, reason = "it looks at runs from outside, in real time")]
fn watch(board: &Weak<Board>, folder: &Path, patience: Duration) {
    let mut seen: BTreeMap<u64, (u64, Instant)> = BTreeMap::new();
    loop {
        std::thread::sleep(patience / LOOKS);
        let Some(board) = board.upgrade() else { return };
        let mut still = BTreeMap::new();
        for (number, pulse, plan) in board.within_polls() {
            let known = seen.get(&number).filter(|(known, _)| *known == pulse);
            let since = known.map_or_else(Instant::now, |(_, since)| *since);
            if since.elapsed() > patience {
                give_up(&plan, folder, patience);
            }
            still.insert(number, (pulse, since));
        }
        seen = still;
    }
}

fn give_up(plan: &Plan, folder: &Path, patience: Duration) -> ! {
    let name = format!("{}-{}.stuck.plan.json", plan.name, plan.seed);
    let page = Page { name: name.clone(), text: plan.to_json() };
    let place = match output::write(folder, &[page]) {
        Ok(()) => format!("the plan is {}", folder.join(&name).display()),
        Err(_) => format!("the plan could not be written to {}", folder.display()),
    };
    complain(&format!(
        "lockstorm: the lock '{}' has not come back from one poll for {} s: a loop without an \
         await?\nplan '{}', seed {}, {}: {place}\n",
        plan.lock.algorithm,
        patience.as_secs_f32(),
        plan.name,
        plan.seed,
        plan.digest(),
    ));
    std::process::exit(i32::from(Exit::Diverged as u8));
}
