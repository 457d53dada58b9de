//! CLIENT: properties of a connection, and effects on others.
//!
//! CLIENT TRACKING is refused: a node sends no invalidation messages.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome, container};
use crate::clients::Pause;
use crate::command::introspection::{help, unknown_form};
use crate::errors::{NOT_INTEGER, SYNTAX};
use crate::frame::{Reply, integer};
use crate::node::client::{ClientKind, line};
use crate::session::{Closing, ReplyMode, Session};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("client", container),
    ("client|caching", caching),
    ("client|getname", getname),
    ("client|getredir", getredir),
    ("client|help", help),
    ("client|id", id),
    ("client|info", info),
    ("client|kill", kill),
    ("client|list", list),
    ("client|no-evict", no_evict),
    ("client|pause", pause),
    ("client|reply", reply),
    ("client|setinfo", setinfo),
    ("client|setname", setname),
    ("client|tracking", tracking),
    ("client|trackinginfo", trackinginfo),
    ("client|unblock", unblock),
    ("client|unpause", unpause),
];

/// CLIENT SETNAME name
pub fn setname(call: &mut Call) -> Outcome {
    name_session(call, &call.args[2])?;
    Ok(Reply::OK)
}

/// Sets the session's name, or removes it if the new one is empty.
pub fn name_session(call: &mut Call, name: &[u8]) -> Result<(), Reply> {
    check_name(name)?;
    call.session.client.name = Bytes::copy_from_slice(name);
    Ok(())
}

/// Refuses a name that cannot appear in CLIENT LIST.
pub fn check_name(name: &[u8]) -> Result<(), Reply> {
    if is_plain(name) {
        return Ok(());
    }
    Err(Reply::error("ERR Client names cannot contain spaces, newlines or special characters."))
}

/// Whether a text can appear in CLIENT LIST.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// CLIENT GETNAME
pub fn getname(call: &mut Call) -> Outcome {
    if call.session.client.name.is_empty() {
        return Ok(Reply::Nil);
    }
    Ok(Reply::Bulk(call.session.client.name.clone()))
}

/// CLIENT SETINFO LIB-NAME | LIB-VER text: name and version of a client library.
pub fn setinfo(call: &mut Call) -> Outcome {
    let text = Bytes::copy_from_slice(&call.args[3]);
    let option = call.word(2);
    let place = match &option[..] {
        b"LIB-NAME" => &mut call.session.client.library[0],
        b"LIB-VER" => &mut call.session.client.library[1],
        _ => {
            let text = [&b"ERR Unrecognized option '"[..], &call.args[2], b"'"].concat();
            return Err(Reply::Error(text.into()));
        }
    };
    if !is_plain(&text) {
        let end = &b" cannot contain spaces, newlines or special characters."[..];
        return Err(Reply::Error([b"ERR ", &option[..], end].concat().into()));
    }
    *place = text;
    Ok(Reply::OK)
}

/// CLIENT ID
pub fn id(call: &mut Call) -> Outcome {
    Ok(Reply::Integer(i64::try_from(call.session.id).unwrap_or(i64::MAX)))
}

/// CLIENT INFO
pub fn info(call: &mut Call) -> Outcome {
    Ok(text(line(call.node, call.session) + "\n"))
}

fn text(text: String) -> Reply {
    Reply::Verbatim(*b"txt", Bytes::from(text))
}

/// CLIENT LIST [TYPE type | ID id ...]
pub fn list(call: &mut Call) -> Outcome {
    let wanted = match call.from(2) {
        [] => None,
        [word, name] if word.eq_ignore_ascii_case(b"TYPE") => {
            Some(ClientKind::of_name(name).ok_or_else(|| unknown_kind(name))?)
        }
        [word, ids @ ..] if word.eq_ignore_ascii_case(b"ID") && !ids.is_empty() => {
            return list_by_id(call, ids);
        }
        _ => return Err(Reply::error(SYNTAX)),
    };
    let mut lines: Vec<(u64, String)> = Vec::new();
    for session in call.node.clients.iter().chain([&*call.session]) {
        if wanted.is_none_or(|kind| ClientKind::of(call.node, session) == kind) {
            lines.push((session.id, line(call.node, session) + "\n"));
        }
    }
    lines.sort();
    Ok(text(lines.into_iter().map(|(_, line)| line).collect()))
}

/// In the requested order.
fn list_by_id(call: &Call, ids: &[Bytes]) -> Outcome {
    let mut lines = String::new();
    for id in ids {
        let id = integer(id).ok_or(Reply::error("ERR Invalid client ID"))?;
        let id = u64::try_from(id).unwrap_or(0);
        let own = (call.session.id == id).then_some(&*call.session);
        if let Some(session) = own.or(call.node.clients.get(id)) {
            lines += &line(call.node, session);
            lines.push('\n');
        }
    }
    Ok(text(lines))
}

fn unknown_kind(name: &[u8]) -> Reply {
    Reply::Error([&b"ERR Unknown client type '"[..], name, b"'"].concat().into())
}

/// The filter of CLIENT KILL.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    kind: Option<ClientKind>,
    address: Option<&'a [u8]>,
    own_address: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    spares_itself: bool,
}

impl Filter<'_> {
    fn fits(&self, call: &Call, session: &Session) -> bool {
        let is = |wanted: Option<&[u8]>, place: usize| {
            wanted.is_none_or(|text| session.client.addresses[place].to_string().as_bytes() == text)
        };
        self.id.is_none_or(|id| session.id == id)
            && self.kind.is_none_or(|kind| ClientKind::of(call.node, session) == kind)
            && is(self.address, 0)
            && is(self.own_address, 1)
            && self.user.is_none_or(|user| session.user.as_deref() == Some(user))
            && !(self.spares_itself && session.id == call.session.id)
    }
}

/// CLIENT KILL address | filter value [filter value ...]
pub fn kill(call: &mut Call) -> Outcome {
    if let [address] = call.from(2) {
        let filter = Filter { address: Some(address), ..Filter::default() };
        return match kill_all(call, &filter) {
            0 => Err(Reply::error("ERR No such client")),
            _ => Ok(Reply::OK),
        };
    }
    let filter = read_filter(call)?;
    Ok(Reply::count(kill_all(call, &filter)))
}

fn read_filter<'a>(call: &Call<'a>) -> Result<Filter<'a>, Reply> {
    let mut filter = Filter { spares_itself: true, ..Filter::default() };
    for pair in call.from(2).chunks(2) {
        let [word, value] = pair else { return Err(Reply::error(SYNTAX)) };
        match &word.to_ascii_uppercase()[..] {
            b"ID" => {
                let id = integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                let wrong = Reply::error("ERR client-id should be greater than 0");
                filter.id = Some(id.ok_or(wrong)?);
            }
            b"TYPE" => {
                filter.kind = Some(ClientKind::of_name(value).ok_or_else(|| unknown_kind(value))?);
            }
            b"ADDR" => filter.address = Some(value),
            b"LADDR" => filter.own_address = Some(value),
            b"USER" => {
                if call.node.users.get(value).is_none() {
                    let text = [&b"ERR No such user '"[..], value, b"'"].concat();
                    return Err(Reply::Error(text.into()));
                }
                filter.user = Some(value);
            }
            b"SKIPME" => match &value.to_ascii_lowercase()[..] {
                b"yes" => filter.spares_itself = true,
                b"no" => filter.spares_itself = false,
                _ => return Err(Reply::error(SYNTAX)),
            },
            _ => return Err(Reply::error(SYNTAX)),
        }
    }
    Ok(filter)
}

/// Closes every connection that matches the filter; the caller's own after the reply.
fn kill_all(call: &mut Call, filter: &Filter) -> usize {
    let open = call.node.clients.iter().filter(|session| session.replies.closing.is_none());
    let others = open.filter(|session| filter.fits(call, session));
    let ids: Vec<u64> = others.map(|session| session.id).collect();
    for id in &ids {
        call.node.clients.close(*id, Closing::AtOnce);
    }
    let itself = filter.fits(call, call.session);
    if itself {
        call.session.replies.closing = Some(Closing::AfterOutput);
    }
    ids.len() + usize::from(itself)
}

/// CLIENT REPLY ON | OFF | SKIP
pub fn reply(call: &mut Call) -> Outcome {
    match &call.word(2)[..] {
        b"ON" => {
            call.session.replies.mode = ReplyMode::On;
            return Ok(Reply::OK);
        }
        b"OFF" => call.session.replies.mode = ReplyMode::Off,
        b"SKIP" if call.session.replies.mode == ReplyMode::Off => {}
        b"SKIP" => call.session.replies.mode = ReplyMode::SkipNext,
        _ => return Err(Reply::error(SYNTAX)),
    }
    Ok(Reply::SILENCE)
}

/// CLIENT PAUSE timeout [WRITE | ALL]: of two pauses the longer time and the stricter mode apply.
pub fn pause(call: &mut Call) -> Outcome {
    let all = match call.from(3) {
        [] => true,
        [word] if word.eq_ignore_ascii_case(b"ALL") => true,
        [word] if word.eq_ignore_ascii_case(b"WRITE") => false,
        [_] => return Err(Reply::error("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(unknown_form("CLIENT", &call.args[1])),
    };
    let time = integer(&call.args[2])
        .ok_or(Reply::error("ERR timeout is not an integer or out of range"))?;
    let time = u64::try_from(time).map_err(|_| Reply::error("ERR timeout is negative"))?;
    // A time beyond the range of the clock is over at once, as in Redis.
    let until_ms = call.node.clock.now_ms.saturating_add(time);
    let until_ms = if i64::try_from(until_ms).is_ok() { until_ms } else { call.node.clock.now_ms };
    let old = call.node.clients.pause().filter(|old| old.until_ms > call.node.clock.now_ms);
    let pause = Pause {
        until_ms: old.map_or(until_ms, |old| old.until_ms.max(until_ms)),
        all: all || old.is_some_and(|old| old.all),
    };
    call.node.clients.set_pause(Some(pause));
    Ok(Reply::OK)
}

/// CLIENT UNPAUSE: delayed requests run after this reply.
pub fn unpause(call: &mut Call) -> Outcome {
    if call.node.clients.pause().is_some() {
        // `end_pause` ends this pause after the reply, and then runs the delayed requests.
        let until_ms = call.node.clock.now_ms;
        call.node.clients.set_pause(Some(Pause { until_ms, all: false }));
    }
    Ok(Reply::OK)
}

/// CLIENT UNBLOCK id [TIMEOUT | ERROR]: whether it was blocked on keys or on replicas.
pub fn unblock(call: &mut Call) -> Outcome {
    let fails = match call.from(3) {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"TIMEOUT") => false,
        [word] if word.eq_ignore_ascii_case(b"ERROR") => true,
        [_] => {
            return Err(Reply::error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
        _ => return Err(unknown_form("CLIENT", &call.args[1])),
    };
    let id = integer(&call.args[2]).ok_or(Reply::error(NOT_INTEGER))?;
    let id = u64::try_from(id).unwrap_or(0);
    let ended = if fails {
        let reply = Reply::error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
        call.node.clients.answer_blocked(id, &reply)
    } else {
        call.node.end_wait(id)
    };
    Ok(Reply::Integer(i64::from(ended)))
}

/// CLIENT NO-EVICT ON | OFF
pub fn no_evict(call: &mut Call) -> Outcome {
    match &call.word(2)[..] {
        b"ON" => call.session.stays = true,
        b"OFF" => call.session.stays = false,
        _ => return Err(Reply::error(SYNTAX)),
    }
    Ok(Reply::OK)
}

/// CLIENT TRACKING ON | OFF: see the head of this file.
pub fn tracking(call: &mut Call) -> Outcome {
    match &call.word(2)[..] {
        b"OFF" => Ok(Reply::OK),
        b"ON" => Err(Reply::error("ERR CLIENT TRACKING is not supported by this node")),
        _ => Err(Reply::error(SYNTAX)),
    }
}

/// CLIENT TRACKINGINFO
pub fn trackinginfo(_: &mut Call) -> Outcome {
    Ok(Reply::Map(vec![
        Reply::word("flags"),
        Reply::Set(vec![Reply::word("off")]),
        Reply::word("redirect"),
        Reply::Integer(-1),
        Reply::word("prefixes"),
        Reply::Array(Vec::new()),
    ]))
}

/// CLIENT GETREDIR
pub fn getredir(_: &mut Call) -> Outcome {
    Ok(Reply::Integer(-1))
}

/// CLIENT CACHING YES | NO
pub fn caching(_: &mut Call) -> Outcome {
    Err(Reply::error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
         OPTOUT mode enabled",
    ))
}
