//! The addresses of hosts in a simulated world.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::workload::RESOURCE_PORT;

/// The port of nodes.
const NODE_PORT: u16 = 6379;
/// The port of Sentinels.
const SENTINEL_PORT: u16 = 26_379;

/// The number of clients with an address in the first network of clients.
const FULL: u32 = 255;
/// The first of the additional networks of clients, and the number of clients in each.
const MORE_CLIENTS: u8 = 16;
const PER_NET: u32 = 254;

/// The address of the `n`th node in a simulated world, counted from 1.
pub fn node_address(n: u32) -> SocketAddrV4 {
    address(0, n, NODE_PORT)
}

/// The address of the `n`th Sentinel in a simulated world, counted from 1.
pub fn sentinel_address(n: u32) -> SocketAddrV4 {
    address(3, n, SENTINEL_PORT)
}

/// The address of the resource in a simulated world.
pub fn resource_address() -> SocketAddrV4 {
    address(2, 1, RESOURCE_PORT)
}

/// The address of the probe in a simulated world.
pub fn probe_address() -> SocketAddrV4 {
    address(2, 2, NODE_PORT)
}

/// Nodes are in 10.0.0.0/24, clients in 10.0.1.0/24, the resource and the probe in 10.0.2.0/24,
/// Sentinels in 10.0.3.0/24.
fn address(net: u8, n: u32, port: u16) -> SocketAddrV4 {
    let n = u8::try_from(n).expect("a valid plan has under 256 hosts of a kind");
    SocketAddrV4::new(Ipv4Addr::new(10, 0, net, n), port)
}

/// The address of the `n`th client, counted from 1. Clients beyond 10.0.1.0/24 start at 10.0.16.1,
/// with 254 in each network.
pub fn client_address(n: u32) -> SocketAddrV4 {
    let Some(above) = n.checked_sub(FULL + 1) else { return address(1, n, NODE_PORT) };
    let net = u8::try_from(above / PER_NET).expect("a valid plan has at most 1,000 clients");
    address(MORE_CLIENTS + net, above % PER_NET + 1, NODE_PORT)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::{client_address, node_address, resource_address, sentinel_address};

    #[test]
    fn every_host_of_the_largest_plan_has_an_address_of_its_own() {
        let clients = (1..=1_000).map(client_address);
        let others = (1..=99).flat_map(|n| [node_address(n), sentinel_address(n)]);
        let hosts = clients.chain(others).chain([resource_address()]);
        let addresses: BTreeSet<Ipv4Addr> = hosts.map(|address| *address.ip()).collect();
        assert_eq!(addresses.len(), 1_000 + 2 * 99 + 1);
        for (n, ip) in [(1, "10.0.1.1"), (255, "10.0.1.255"), (256, "10.0.16.1")] {
            assert_eq!(client_address(n).ip().to_string(), ip, "plans keep their traces");
        }
        assert_eq!(client_address(1_000).ip().to_string(), "10.0.18.237");
    }
}
