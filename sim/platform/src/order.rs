//! Faults that act by command: what is requested, and the operator that carries it out.
//!
//! A world does not know which commands its nodes understand. The code that builds the world does,
//! and provides an [`Operator`].

use std::net::SocketAddrV4;
use std::rc::Rc;

use crate::fault::Verb;
use crate::host::{Host, LocalFuture};

/// Carries out orders. It waits without limit: a node that is down gets the command once it is up.
pub type Operator = Rc<dyn Fn(Order) -> LocalFuture<'static, ()>>;

/// Points a name at an address, as an operator's DNS change does.
pub type Naming = Rc<dyn Fn(&str, SocketAddrV4)>;

/// A strike of a fault that acts by command.
pub struct Order {
    /// The operator's own machine, which sends the requests.
    pub host: Host,
    /// The fault's number in the plan.
    pub fault: u32,
    /// What to do.
    pub verb: Verb,
    /// The node to do it to.
    pub node: SocketAddrV4,
    /// The other nodes of the world.
    pub others: Vec<SocketAddrV4>,
    /// The names of masters; a failover redirects them.
    pub masters: Vec<String>,
    /// Redirects a name of a master.
    pub move_name: Naming,
}
