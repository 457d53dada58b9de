//! Shows an outside observer with a clock which plans are running, and whether the locks in them
//! return. The observation of a run does not change it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::plan::Plan;

/// Counts the polls of locks in one run: once when a poll begins, once when it ends. So it is odd
/// during a poll, and an odd value that no longer changes is a poll that does not return.
pub type Pulse = Arc<AtomicU64>;

/// A board of runs, or none. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RunProgress(Option<Arc<Board>>);

/// The active runs.
#[derive(Debug, Default)]
pub struct Board(Mutex<Runs>);

#[derive(Debug, Default)]
struct Runs {
    entered: u64,
    under_way: BTreeMap<u64, (Arc<Plan>, Pulse)>,
}

/// A run that is active until this is dropped.
pub struct RunningPlan {
    board: Option<(Arc<Board>, u64)>,
    pulse: Pulse,
}

impl RunProgress {
    /// A new board, and a handle to observe it as long as plans are run.
    pub fn new() -> (RunProgress, Weak<Board>) {
        let board = Arc::new(Board::default());
        let seen = Arc::downgrade(&board);
        (RunProgress(Some(board)), seen)
    }

    /// Adds a run to the board.
    pub fn enter(&self, plan: &Plan) -> RunningPlan {
        let pulse = Pulse::default();
        let board = self.0.as_ref().map(|board| {
            let mut runs = board.0.lock().unwrap_or_else(PoisonError::into_inner);
            runs.entered += 1;
            let number = runs.entered;
            runs.under_way.insert(number, (Arc::new(plan.clone()), Arc::clone(&pulse)));
            (Arc::clone(board), number)
        });
        RunningPlan { board, pulse }
    }
}

impl Board {
    /// Every run that is currently within a poll of a lock: its number, its pulse and its plan.
    pub fn within_polls(&self) -> Vec<(u64, u64, Arc<Plan>)> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = runs.under_way.iter().map(|(number, (plan, pulse))| {
            (*number, pulse.load(Ordering::Relaxed), Arc::clone(plan))
        });
        each.filter(|(_, pulse, _)| pulse % 2 == 1).collect()
    }
}

impl RunningPlan {
    /// The counter for the run's locks.
    pub fn pulse(&self) -> Pulse {
        Arc::clone(&self.pulse)
    }
}

impl Drop for RunningPlan {
    fn drop(&mut self) {
        if let Some((board, number)) = &self.board {
            let mut runs = board.0.lock().unwrap_or_else(PoisonError::into_inner);
            runs.under_way.remove(number);
        }
    }
}
