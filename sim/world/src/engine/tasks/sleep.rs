//! Sleeps by a machine's clock, on tokio's timers.

use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use lockstorm_platform::time::{Clock, Nanos};
use lockstorm_platform::trace::HostId;

use crate::engine::tasks::Tasks;

/// The maximum length of a tokio timer; a longer sleep checks the clock and sleeps again.
const MAX_TIMER: Duration = Duration::from_secs(24 * 3600);

/// Sleeps until a clock reads at least `reading`, and checks again whenever the clock is changed.
#[expect(clippy::disallowed_methods, reason = "tokio's timers follow the engine's true time")]
pub async fn sleep(tasks: Rc<Tasks>, host: HostId, clock: Clock, reading: Nanos) {
    let changed = Rc::clone(&tasks.lives.borrow()[usize::from(host.0)].clock_changed);
    loop {
        // Created before the clock is read, so that no change after the reading is missed.
        let mut changed = pin!(changed.notified());
        let (now, due) = {
            let mut state = tasks.state();
            let line = state.machine(host).clocks.line(clock);
            if line.at(state.now) >= reading {
                return;
            }
            state.note_sleep(host, clock);
            (state.now, line.reaches(reading).map(|due| state.on_grain(due)))
        };
        let Some(due) = due else {
            changed.await;
            continue;
        };
        let wait = Duration::from_nanos(due - now).min(MAX_TIMER);
        let mut alarm = pin!(tokio::time::sleep(wait));
        std::future::poll_fn(|cx| match changed.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => alarm.as_mut().poll(cx),
        })
        .await;
    }
}
