//! A fake Redis node in a `turmoil::Sim` of the user's own, beside his services.

use std::rc::Rc;

use lockstorm_redis::node::NodeConfig;
use lockstorm_redis::process::serve;
use lockstorm_world::engine::turmoil::guest::{Guest, add_guest};
use turmoil::Sim;

/// Adds a fake Redis node to a simulation, as the host `name`, and starts it.
///
/// Clients reach it by that name and the port of its configuration (6379), with any Redis client
/// that speaks over `turmoil::net::TcpStream`. Its wall clock, by which keys expire, begins at
/// [`lockstorm_platform::time::EPOCH`] and follows the simulation's time until a fault moves it.
/// `seed` is where its draws come from, such as ids and the sampling of Redis's expiry cycle.
///
/// ```
/// use lockstorm::guest::add_node;
/// use lockstorm_redis::node::NodeConfig;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let mut sim = turmoil::Builder::new().build();
/// let redis = add_node(&mut sim, "redis", NodeConfig::default(), 1);
/// sim.client("service", async move {
///     let mut stream = turmoil::net::TcpStream::connect("redis:6379").await?;
///     stream.write_all(b"SET k v PX 10000\r\n").await?;
///     let mut reply = [0; 5];
///     stream.read_exact(&mut reply).await?;
///     assert_eq!(&reply, b"+OK\r\n");
///     redis.step_clock(11_000_000_000); // an operator sets the node's clock: the key is gone
///     stream.write_all(b"GET k\r\n").await?;
///     stream.read_exact(&mut reply).await?;
///     assert_eq!(&reply, b"$-1\r\n");
///     Ok(())
/// });
/// sim.run().unwrap();
/// ```
///
/// # Panics
/// If the simulation gives its hosts IPv6 addresses.
pub fn add_node(sim: &mut Sim<'_>, name: &str, config: NodeConfig, seed: u64) -> Guest {
    add_guest(sim, name, Rc::new(move |host| Box::pin(serve(host, config.clone()))), seed)
}
