//! Wakers of tasks, through `std::task::Wake` without unsafe.
//!
//! A waker only notes its task in a list of this thread; the executor takes the list.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// A task in one world: its slot, and how many tasks used the slot before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    pub slot: u32,
    pub generation: u32,
}

/// The waker of a task: it notes the task once until [`TaskWaker::reset`].
pub struct TaskWaker {
    world: u64,
    task: TaskId,
    noted: AtomicBool,
}

impl TaskWaker {
    pub fn new(world: u64, task: TaskId) -> Arc<TaskWaker> {
        Arc::new(TaskWaker { world, task, noted: AtomicBool::new(false) })
    }

    /// The task is about to run: the next wake is noted again.
    pub fn reset(&self) {
        self.noted.store(false, Ordering::Relaxed);
    }
}

thread_local! {
    /// Tasks woken since the last collection, with their world, because a waker may outlive it.
    static WOKEN: RefCell<Vec<(u64, TaskId)>> = const { RefCell::new(Vec::new()) };
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.noted.swap(true, Ordering::Relaxed) {
            WOKEN.with(|woken| woken.borrow_mut().push((self.world, self.task)));
        }
    }
}

/// Swaps the list of tasks that were woken on this thread, with their worlds, for an empty list.
/// Returns whether there is any.
pub fn swap_woken(empty: &mut Vec<(u64, TaskId)>) -> bool {
    WOKEN.with(|woken| {
        let mut woken = woken.borrow_mut();
        // So before most events.
        if woken.is_empty() {
            return false;
        }
        std::mem::swap(empty, &mut woken);
        true
    })
}

/// Discards the wake-ups that other worlds left on this thread.
pub fn forget_woken() {
    WOKEN.with(|woken| woken.borrow_mut().clear());
}
