//! What a fault that acts by command asks for, and who carries it out.
//!
//! A world does not know what its nodes understand. Whoever builds it knows, and gives it an
//! [`Operator`].

use std::net::SocketAddrV4;
use std::rc::Rc;

use crate::fault::Verb;
use crate::host::{Host, LocalFuture};

/// Carries out orders. It gives up nothing: a node that is down gets the command once it is back.
pub type Operator = Rc<dyn Fn(Order) -> LocalFuture<'static, ()>>;

/// Moves a name to an address, as an operator's DNS change does.
pub type Naming = Rc<dyn Fn(&str, SocketAddrV4)>;

/// A fault that acts by command has struck.
pub struct Order {
    /// The operator's own machine: requests come from there.
    pub host: Host,
    /// What is to be done.
    pub verb: Verb,
    /// The node to which it is to be done.
    pub node: SocketAddrV4,
    /// The other nodes of the world.
    pub others: Vec<SocketAddrV4>,
    /// The names of masters, which a failover moves.
    pub masters: Vec<String>,
    /// Moves them.
    pub move_name: Naming,
}
