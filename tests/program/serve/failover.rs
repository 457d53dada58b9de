//! Clusters and Sentinels on real ports: they fail over on their own, and clients are redirected.

use std::io::Write;

use crate::serve::served::{Client, Served};
use crate::serve::until;

/// Serves the nodes of a scenario with this topology.
fn serve(topology: &str) -> Served {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let text = format!(
        "name = 'served'\nask = 'Is it served?'\n[topology]\n{topology}\n\
         [lock]\nalgorithm = 'token-lua'\nttl = '10s'\n"
    );
    file.write_all(text.as_bytes()).unwrap();
    Served::new(&[file.path().to_str().unwrap()])
}

/// Sends a request to a node of a cluster, and follows a redirect, as clients do.
fn follow(port: u16, line: &str) -> String {
    let answer = Client::to(port).request(line);
    match answer.trim_end().rsplit_once(':') {
        Some((moved, port)) if moved.starts_with("-MOVED") => {
            Client::to(port.parse().unwrap()).request(line)
        }
        _ => answer,
    }
}

#[test]
fn a_cluster_sends_clients_to_the_right_node_and_fails_over() {
    let served = serve("kind = 'cluster'\nnode_timeout = '500ms'");
    let (first, owner, heir) = (served.nodes[0], served.nodes[1], served.nodes[4]);
    assert!(served.greeting.contains("n5  127.0.0.1:"), "{}", served.greeting);
    let moved = format!("-MOVED 8718 127.0.0.1:{owner}\r\n");
    assert_eq!(Client::to(first).request("SET lock a NX PX 60000"), moved);
    let mut client = Client::to(owner);
    until(":1\r\n", || {
        client.request("SET lock a NX PX 60000");
        client.request("WAIT 1 100")
    });
    assert!(served.order("FAULT CRASH n2").starts_with("+OK"));
    let moved = format!("-MOVED 8718 127.0.0.1:{heir}\r\n");
    until(&moved, || Client::to(first).request("GET lock"));
    until("$1\r\na\r\n", || follow(first, "GET lock"));
    assert_eq!(follow(first, "SET lock b NX PX 60000"), "$-1\r\n");
    assert!(served.order("FAULT RESTART n2").starts_with("+OK"));
    let moved = format!("-MOVED 8718 127.0.0.1:{heir}\r\n");
    until(&moved, || match std::net::TcpStream::connect(("127.0.0.1", owner)) {
        Ok(stream) => Client(stream).request("GET lock"),
        Err(_) => String::new(),
    });
    until("$1\r\na\r\n", || follow(owner, "GET lock"));
}

#[test]
fn links_between_served_nodes_carry_the_bus_of_the_cluster() {
    let served = serve("kind = 'cluster'\nnode_timeout = '500ms'");
    // Cut off from the other masters, though not from clients, n2 loses the majority.
    for other in ["n1", "n3", "n4", "n5", "n6"] {
        assert!(served.order(&format!("LINK CUT n2 <-> {other}")).starts_with("+OK"));
    }
    let mut client = Client::to(served.nodes[1]);
    until("-CLUSTERDOWN The cluster is down\r\n", || client.request("SET lock a NX PX 60000"));
    let moved = format!("-MOVED 8718 127.0.0.1:{}\r\n", served.nodes[4]);
    until(&moved, || Client::to(served.nodes[0]).request("GET lock"));
    assert!(served.order("LINK HEAL").starts_with("+OK"));
    until(&moved, || client.request("GET lock"));
}

#[test]
fn sentinels_tell_where_the_master_is_and_fail_over() {
    let served = serve("kind = 'sentinel'\ndown_after = '300ms'");
    assert_eq!(served.sentinels.len(), 3);
    assert!(served.greeting.contains("sentinel of mymaster"), "{}", served.greeting);
    let master = |port: u16| {
        let digits = port.to_string();
        format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{digits}\r\n", digits.len())
    };
    let mut sentinel = Client::to(served.sentinels[0]);
    let ask = "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster";
    assert_eq!(sentinel.request(ask), master(served.nodes[0]));
    // Sentinels discover replicas and other Sentinels through the master.
    until(":2\r\n", || others(&sentinel.request("SENTINEL SENTINELS mymaster")));
    until(":1\r\n", || others(&sentinel.request("SENTINEL REPLICAS mymaster")));
    assert!(served.order("STATUS").contains("sentinel  up"));
    assert!(served.order("FAILOVER n2").contains("promote replicas themselves"));
    assert!(served.order("FAULT CRASH n1").starts_with("+OK"));
    until(&master(served.nodes[1]), || sentinel.request(ask));
    assert_eq!(Client::to(served.nodes[1]).request("SET lock a NX PX 60000"), "+OK\r\n");
}

/// The number of entries in a Sentinel's reply.
fn others(answer: &str) -> String {
    format!(":{}\r\n", answer.matches("\r\nname\r\n").count())
}
