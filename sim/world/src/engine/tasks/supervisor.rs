//! The supervisor of a machine's tasks. It never exits, so that a dead process leaves a live
//! machine that refuses connections.

use std::rc::Rc;

use lockstorm_platform::trace::HostId;

use crate::engine::tasks::Tasks;
use crate::engine::tasks::gate::{Alive, Gate};
use crate::engine::tasks::life::PendingTask;

/// Starts a machine's tasks, forever.
pub async fn supervise(tasks: Rc<Tasks>, host: HostId) -> ! {
    let index = usize::from(host.0);
    loop {
        let inbox = std::future::poll_fn(|cx| {
            let panicked = tasks.fails_in_host && tasks.panic.borrow().is_some();
            tasks.lives.borrow_mut()[index].poll_inbox(panicked, cx.waker())
        });
        for task in inbox.await {
            start(task, &tasks, host);
        }
        // In a user's own simulation, a panic must surface in the host that panicked.
        if tasks.fails_in_host
            && let Some(panic) = tasks.panic.take()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn start(task: PendingTask, tasks: &Rc<Tasks>, host: HostId) {
    let PendingTask { incarnation, future, is_kernels, handle } = task;
    // Its process may have died, or its caller given up, since the task was put into the inbox.
    if incarnation.dead.get() || handle.is_cancelled() {
        return;
    }
    let alive = Alive::new(tasks, host, &incarnation);
    let gate = Gate::new(Rc::clone(tasks), host, future, is_kernels, alive);
    let abort = tokio::task::spawn_local(gate).abort_handle();
    incarnation.keep(abort.clone());
    handle.started(abort);
}
