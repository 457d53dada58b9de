//! Pub/sub: subscriptions and published messages.
//!
//! Confirmations and messages are push messages: CLIENT REPLY does not suppress them.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome, container};
use crate::clients::channels::confirmation;
use crate::frame::Reply;
use crate::glob::matches;
use crate::session::Channel;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("psubscribe", psubscribe),
    ("publish", publish),
    ("pubsub", container),
    ("pubsub|channels", channels),
    ("pubsub|help", crate::command::introspection::help),
    ("pubsub|numpat", numpat),
    ("pubsub|numsub", numsub),
    ("pubsub|shardchannels", shardchannels),
    ("pubsub|shardnumsub", shardnumsub),
    ("punsubscribe", punsubscribe),
    ("spublish", spublish),
    ("ssubscribe", ssubscribe),
    ("subscribe", subscribe),
    ("sunsubscribe", sunsubscribe),
    ("unsubscribe", unsubscribe),
];

/// SUBSCRIBE channel ...
pub fn subscribe(call: &mut Call) -> Outcome {
    listen(call, Channel::Plain, "subscribe")
}

/// PSUBSCRIBE pattern ...
pub fn psubscribe(call: &mut Call) -> Outcome {
    listen(call, Channel::Pattern, "psubscribe")
}

/// SSUBSCRIBE shardchannel ...
pub fn ssubscribe(call: &mut Call) -> Outcome {
    if call.session.transaction.is_running() {
        let text = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
        return Err(Reply::error(text));
    }
    listen(call, Channel::Shard, "ssubscribe")
}

/// UNSUBSCRIBE [channel ...]
pub fn unsubscribe(call: &mut Call) -> Outcome {
    unlisten(call, Channel::Plain, "unsubscribe")
}

/// PUNSUBSCRIBE [pattern ...]
pub fn punsubscribe(call: &mut Call) -> Outcome {
    unlisten(call, Channel::Pattern, "punsubscribe")
}

/// SUNSUBSCRIBE [shardchannel ...]
pub fn sunsubscribe(call: &mut Call) -> Outcome {
    unlisten(call, Channel::Shard, "sunsubscribe")
}

fn listen(call: &mut Call, kind: Channel, what: &'static str) -> Outcome {
    for name in call.from(1) {
        call.node.clients.listen(call.session, kind, name);
        let push = confirmation(call.session, what, Some(name));
        call.session.replies.push(&push);
    }
    Ok(Reply::SILENCE)
}

/// Without names all subscriptions of the kind end; a client without any still gets a confirmation.
fn unlisten(call: &mut Call, kind: Channel, what: &'static str) -> Outcome {
    let subscriptions = &call.session.subscriptions;
    let own = match kind {
        Channel::Plain => &subscriptions.channels,
        Channel::Pattern => &subscriptions.patterns,
        Channel::Shard => &subscriptions.shards,
    };
    let names: Vec<Bytes> = match call.from(1) {
        [] => own.iter().cloned().collect(),
        named => named.to_vec(),
    };
    for name in &names {
        call.node.clients.unlisten(call.session, kind, name);
        let push = confirmation(call.session, what, Some(name));
        call.session.replies.push(&push);
    }
    if names.is_empty() {
        let push = confirmation(call.session, what, None);
        call.session.replies.push(&push);
    }
    Ok(Reply::SILENCE)
}

/// PUBLISH channel message: propagated, so that subscribers on replicas receive it too.
pub fn publish(call: &mut Call) -> Outcome {
    say(call, Channel::Plain)
}

/// SPUBLISH shardchannel message
pub fn spublish(call: &mut Call) -> Outcome {
    say(call, Channel::Shard)
}

fn say(call: &mut Call, kind: Channel) -> Outcome {
    let (channel, message) = (&call.args[1], &call.args[2]);
    let receivers = call.node.clients.publish(call.session, kind, channel, message);
    // The bus reaches the replicas as well: replication must not deliver the message twice.
    match call.node.cluster_now() {
        Some(cluster) => cluster.spread(channel, message, kind == Channel::Shard),
        None => call.propagate_verbatim(),
    }
    Ok(Reply::count(receivers))
}

/// PUBSUB CHANNELS [pattern]
pub fn channels(call: &mut Call) -> Outcome {
    list_channels(call, Channel::Plain)
}

/// PUBSUB SHARDCHANNELS [pattern]
pub fn shardchannels(call: &mut Call) -> Outcome {
    list_channels(call, Channel::Shard)
}

fn list_channels(call: &mut Call, kind: Channel) -> Outcome {
    if call.args.len() > 3 {
        return Err(crate::command::introspection::unknown_form("PUBSUB", &call.args[1]));
    }
    let fits = |name: &&Bytes| call.args.get(2).is_none_or(|pattern| matches(pattern, name));
    let names = call.node.clients.listened(kind).map(|(name, _)| name).filter(fits);
    Ok(Reply::Array(names.map(|name| Reply::Bulk(name.clone())).collect()))
}

/// PUBSUB NUMPAT: the number of different patterns, whatever their number of subscribers.
pub fn numpat(call: &mut Call) -> Outcome {
    Ok(Reply::count(call.node.clients.listened(Channel::Pattern).count()))
}

/// PUBSUB NUMSUB [channel ...]
pub fn numsub(call: &mut Call) -> Outcome {
    count_listeners(call, Channel::Plain)
}

/// PUBSUB SHARDNUMSUB [shardchannel ...]
pub fn shardnumsub(call: &mut Call) -> Outcome {
    count_listeners(call, Channel::Shard)
}

fn count_listeners(call: &mut Call, kind: Channel) -> Outcome {
    let clients = &call.node.clients;
    let pair = |name: &Bytes| [Reply::Bulk(name.clone()), Reply::count(clients.heard(kind, name))];
    Ok(Reply::Array(call.from(2).iter().flat_map(pair).collect()))
}
