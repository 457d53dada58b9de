//! What runs on a host, told by its name: `n1` is a node, `s1` a Sentinel, `c1` a client. Only this
//! file knows the letters.

/// Whether a Redis node runs on the host.
pub fn is_node(host: &str) -> bool {
    host.starts_with('n')
}

/// Whether a Sentinel runs on the host.
pub fn is_sentinel(host: &str) -> bool {
    host.starts_with('s')
}

/// Whether clients run on the host: `c1`, or all outside clients of served nodes, `clients`.
pub fn is_client(host: &str) -> bool {
    host.starts_with('c')
}

/// The number of a node, counted from 1; `None` for another host.
pub fn node_number(host: &str) -> Option<u32> {
    host.strip_prefix('n').and_then(|number| number.parse().ok())
}

/// The name of the nth caller of a client, counted from 1: that of its host if there is no other.
pub fn caller_name(client: &str, nth: u32, callers: u32) -> String {
    if callers == 1 { client.to_owned() } else { format!("{client}.{nth}") }
}

/// The number of a caller's client, and that of the caller in it, counted from 1: `c2.3` is the
/// third caller of the second client, `c2` its only one.
pub fn caller_number(caller: &str) -> Option<(usize, usize)> {
    let (host, nth) = caller.split_once('.').unwrap_or((caller, "1"));
    let number = host.strip_prefix('c')?.parse().ok()?;
    Some((number, nth.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{caller_name, caller_number, is_client, is_node, is_sentinel, node_number};

    #[test]
    fn a_name_tells_what_runs_there() {
        assert!(is_node("n1") && !is_node("c1") && !is_node("resource"));
        assert!(is_sentinel("s2") && !is_sentinel("n2"));
        assert!(is_client("c3") && is_client("clients") && !is_client("probe"));
        assert_eq!((node_number("n12"), node_number("c1")), (Some(12), None));
        assert_eq!((caller_number("c2"), caller_number("c2.3")), (Some((2, 1)), Some((2, 3))));
        assert_eq!(caller_name("c2", 1, 1), "c2");
        assert_eq!(caller_number(&caller_name("c2", 3, 4)), Some((2, 3)));
        assert_eq!((caller_number("probe"), caller_number("clients")), (None, None));
    }
}
