//! Notifications of Sentinels that a master has been replaced.
//!
//! It works like client libraries that keep a subscription at each Sentinel. The client checks the
//! notifications before it sends a request: a request that is pending at the old master keeps
//! waiting.

use std::net::SocketAddrV4;

use lockstorm_platform::host::{Host, LocalFuture};
use lockstorm_platform::trace::Event;
use lockstorm_redis::sentinel::sight;

use crate::lock::client::join;
use crate::lock::client::route::PATIENCE;
use crate::lock::client::subscription::Subscription;

/// The channel on which a Sentinel publishes a master's new address.
const CHANNEL: &str = "+switch-master";

/// Subscriptions at all Sentinels that could be reached.
pub struct SwitchMaster {
    master: String,
    listening: Vec<Subscription>,
}

/// News of the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// It has this address now.
    Switched(SocketAddrV4),
    /// No subscription is left: the Sentinels must be queried.
    Silence,
}

impl SwitchMaster {
    /// Subscribes at each of `sentinels` that replies within its timeout.
    pub async fn listen(host: &Host, tag: u32, sentinels: &[String], master: &str) -> SwitchMaster {
        let one = |at| host.timeout(PATIENCE, Subscription::open(host, at, tag, CHANNEL));
        let at = sentinels.iter().filter_map(|name| host.resolve(name));
        let all = at.map(|at| -> LocalFuture<'_, _> { Box::pin(one(at)) }).collect();
        let listening = join::all(all).await.into_iter().flatten().flatten().collect();
        SwitchMaster { master: master.to_owned(), listening }
    }

    /// The news since the last call; the last if there are several.
    pub async fn news(&mut self) -> News {
        let (mut open, mut switched) = (Vec::new(), None);
        for mut subscription in std::mem::take(&mut self.listening) {
            let mut next = subscription.arrived().await;
            while let Ok(Some(message)) = next {
                switched = new_address(&message, &self.master).or(switched);
                next = subscription.arrived().await;
            }
            if next.is_ok() {
                open.push(subscription);
            }
        }
        self.listening = open;
        match switched {
            Some(to) => News::Switched(to),
            None if self.listening.is_empty() => News::Silence,
            None => News::None,
        }
    }
}

/// Parses `name old-ip old-port new-ip new-port`, if it is about this master.
fn new_address(message: &[u8], master: &str) -> Option<SocketAddrV4> {
    let text = std::str::from_utf8(message).ok()?;
    let (name, _) = text.split_once(' ')?;
    match sight(CHANNEL, text)? {
        Event::Saw { master: address, .. } if name == master => Some(address),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::new_address;

    fn check(message: &str, address: Option<&str>) {
        let address = address.map(|text| text.parse().expect("an address"));
        assert_eq!(new_address(message.as_bytes(), "mymaster"), address, "{message}");
    }

    #[test]
    fn a_message_has_the_new_address_of_its_master() {
        check("mymaster 10.0.0.1 6379 10.0.0.2 6380", Some("10.0.0.2:6380"));
        check("other 10.0.0.1 6379 10.0.0.2 6380", None);
        check("mymaster 10.0.0.1 6379 redis-2 6380", None);
        check("mymaster", None);
    }
}
