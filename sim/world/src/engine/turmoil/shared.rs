//! What tasks, streams and timers of the turmoil engine share.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use lockstorm_platform::trace::HostId;

use crate::engine::state::State;
use crate::engine::tasks::Tasks;
use crate::engine::tasks::supervisor::supervise;
use crate::engine::turmoil::network::Network;

/// See the head of this file.
pub(crate) struct TurmoilShared {
    pub(crate) tasks: Rc<Tasks>,
    /// The plan's network; `None` if the network is the user's own.
    pub(crate) network: Option<RefCell<Network>>,
}

impl TurmoilShared {
    pub(crate) fn new(tasks: Tasks, network: Option<Network>) -> TurmoilShared {
        TurmoilShared { tasks: Rc::new(tasks), network: network.map(RefCell::new) }
    }

    pub(crate) fn state(&self) -> RefMut<'_, State> {
        self.tasks.state()
    }

    /// Calls `act` on the plan's network, if there is one.
    pub(crate) fn in_network<T>(
        &self,
        act: impl FnOnce(&mut Network, &mut State) -> T,
    ) -> Option<T> {
        let network = self.network.as_ref()?;
        Some(act(&mut network.borrow_mut(), &mut self.state()))
    }
}

/// Runs a host of turmoil, forever.
pub(crate) async fn run_host(tasks: Rc<Tasks>, host: HostId) -> turmoil::Result {
    supervise(tasks, host).await
}
