//! ACL and AUTH: permissions of users.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome, container};
use crate::command::introspection::help;
use crate::compat::Difference;
use crate::errors::{NOT_INTEGER, SYNTAX, wrong_arity};
use crate::frame::{Reply, integer};
use crate::permission::access::{note_refusal, user_of};
use crate::session::Closing;
use crate::users::rules::{CATEGORIES, members};
use crate::users::{AclLogEntry, DEFAULT, Denial, User, Users};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("acl", container),
    ("acl|cat", cat),
    ("acl|deluser", deluser),
    ("acl|dryrun", dryrun),
    ("acl|genpass", genpass),
    ("acl|getuser", getuser),
    ("acl|help", help),
    ("acl|list", list),
    ("acl|load", no_file),
    ("acl|log", log),
    ("acl|save", no_file),
    ("acl|setuser", setuser),
    ("acl|users", users),
    ("acl|whoami", whoami),
    ("auth", auth),
];

const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// AUTH [username] password
pub fn auth(call: &mut Call) -> Outcome {
    match call.args {
        [_, _] if !call.node.users.requires_password() => Err(Reply::error(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        )),
        [_, password] => authenticate(call, DEFAULT, password),
        [_, user, password] => authenticate(call, user, password),
        _ => Err(Reply::error(SYNTAX)),
    }
}

/// Sets the session's user.
pub fn authenticate(call: &mut Call, user: &[u8], password: &[u8]) -> Outcome {
    if call.node.users.authenticates(user, password) {
        call.session.user = Some(Bytes::copy_from_slice(user));
        return Ok(Reply::OK);
    }
    let what = ("auth", "toplevel", Bytes::from_static(b"AUTH"));
    note_refusal(call.node, call.session, what, user);
    Err(Reply::error(WRONGPASS))
}

/// ACL WHOAMI
pub fn whoami(call: &mut Call) -> Outcome {
    Ok(Reply::bulk(user_of(call.session)))
}

/// ACL USERS
pub fn users(call: &mut Call) -> Outcome {
    let names = call.node.users.iter().map(|(name, _)| Reply::Bulk(name.clone()));
    Ok(Reply::Array(names.collect()))
}

/// ACL LIST
pub fn list(call: &mut Call) -> Outcome {
    let lines = call.node.users.iter().map(|(name, user)| Reply::Bulk(rules_of(name, user).into()));
    Ok(Reply::Array(lines.collect()))
}

/// The rules that recreate a user.
fn rules_of(name: &[u8], user: &User) -> Vec<u8> {
    let mut words = vec![b"user".to_vec(), name.to_vec()];
    words.extend(user.flags().into_iter().map(|flag| flag.as_bytes().to_vec()));
    words.extend(user.passwords.iter().map(|hash| format!("#{hash}").into_bytes()));
    let (keys, channels) = (user.key_rules(), user.channel_rules());
    words.extend((!keys.is_empty()).then_some(keys));
    words.extend((!user.all_channels).then(|| b"resetchannels".to_vec()));
    words.extend((!channels.is_empty()).then_some(channels));
    words.push(user.command_rules().into_bytes());
    words.join(&b' ')
}

/// ACL GETUSER username
pub fn getuser(call: &mut Call) -> Outcome {
    let Some(user) = call.node.users.get(&call.args[2]) else { return Ok(Reply::Nil) };
    let flags = user.flags().into_iter().map(Reply::word).collect();
    let passwords = user.passwords.iter().map(|hash| Reply::bulk(hash.as_bytes())).collect();
    Ok(Reply::Map(vec![
        Reply::word("flags"),
        Reply::Set(flags),
        Reply::word("passwords"),
        Reply::Array(passwords),
        Reply::word("commands"),
        Reply::Bulk(user.command_rules().into()),
        Reply::word("keys"),
        Reply::Bulk(user.key_rules().into()),
        Reply::word("channels"),
        Reply::Bulk(user.channel_rules().into()),
        Reply::word("selectors"),
        Reply::Array(Vec::new()),
    ]))
}

/// ACL SETUSER username [rule ...]: all of the rules, or none.
pub fn setuser(call: &mut Call) -> Outcome {
    let name = &call.args[2];
    if name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        return Err(Reply::error("ERR Usernames can't contain spaces or null characters"));
    }
    let mut user = call.node.users.get(name).cloned().unwrap_or_default();
    for rule in call.from(3) {
        user.apply(rule).map_err(|why| {
            let head = &b"ERR Error in ACL SETUSER modifier '"[..];
            Reply::Error([head, rule, b"': ", why.as_bytes()].concat().into())
        })?;
    }
    call.node.users.set(name, user);
    Ok(Reply::OK)
}

/// ACL DELUSER username ...: connections of these users are closed.
pub fn deluser(call: &mut Call) -> Outcome {
    let names = call.from(2);
    if names.iter().any(|name| name == DEFAULT) {
        return Err(Reply::error("ERR The 'default' user cannot be removed"));
    }
    let mut gone = 0;
    for name in names {
        if !call.node.users.remove(name) {
            continue;
        }
        gone += 1;
        let theirs = call.node.clients.iter().filter(|session| session.user.as_ref() == Some(name));
        let ids: Vec<u64> = theirs.map(|session| session.id).collect();
        ids.into_iter().for_each(|id| call.node.clients.close(id, Closing::AtOnce));
        if call.session.user.as_ref() == Some(name) {
            call.session.replies.closing = Some(Closing::AfterOutput);
        }
    }
    Ok(Reply::Integer(gone))
}

/// ACL CAT [category]
pub fn cat(call: &mut Call) -> Outcome {
    let [category] = call.from(2) else {
        if call.args.len() > 3 {
            return Err(wrong_form(call));
        }
        return Ok(Reply::Array(CATEGORIES.into_iter().map(Reply::word).collect()));
    };
    let names = std::str::from_utf8(category).ok().and_then(members).ok_or_else(|| {
        Reply::Error([&b"ERR Unknown category '"[..], category, b"'"].concat().into())
    })?;
    Ok(Reply::Array(names.into_iter().map(Reply::word).collect()))
}

fn wrong_form(call: &Call) -> Reply {
    crate::command::introspection::unknown_form("ACL", &call.args[1])
}

/// ACL GENPASS [bits]: from the node's own generator.
pub fn genpass(call: &mut Call) -> Outcome {
    let bits = match call.from(2) {
        [] => 256,
        [bits] => integer(bits).ok_or(Reply::error(NOT_INTEGER))?,
        _ => return Err(wrong_form(call)),
    };
    if !(1..=4096).contains(&bits) {
        return Err(Reply::error(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a \
             positive number up to 4096",
        ));
    }
    let digits = (0..(bits + 3) / 4).map(|_| b"0123456789abcdef"[call.node.dice.draw(16)]);
    Ok(Reply::Bulk(digits.collect()))
}

/// ACL LOAD, ACL SAVE: a node has no file of users.
pub fn no_file(_: &mut Call) -> Outcome {
    Err(Reply::error(
        "ERR This Redis instance is not configured to use an ACL file. You may want to specify \
         users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a \
         Redis configuration file set) in order to store users in the Redis configuration.",
    ))
}

/// ACL LOG [count | RESET]
pub fn log(call: &mut Call) -> Outcome {
    let most = match call.from(2) {
        [] => 10,
        [word] if word.eq_ignore_ascii_case(b"RESET") => {
            call.node.users.log.clear();
            return Ok(Reply::OK);
        }
        [count] => integer(count).ok_or(Reply::error(NOT_INTEGER))?.max(0),
        _ => return Err(wrong_form(call)),
    };
    let Users { log, .. } = &call.node.users;
    let now = call.node.clock.now_ms;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Ok(Reply::Array(log.iter().take(most).map(|refusal| log_entry(refusal, now)).collect()))
}

fn log_entry(refusal: &AclLogEntry, now_ms: u64) -> Reply {
    let age = now_ms.saturating_sub(refusal.at_ms) as f64 / 1000.0;
    Reply::Map(vec![
        Reply::word("count"),
        Reply::Integer(refusal.count),
        Reply::word("reason"),
        Reply::word(refusal.reason),
        Reply::word("context"),
        Reply::word(refusal.context),
        Reply::word("object"),
        Reply::Bulk(refusal.object.clone()),
        Reply::word("username"),
        Reply::Bulk(refusal.user.clone()),
        Reply::word("age-seconds"),
        Reply::Double(age),
        Reply::word("client-info"),
        Reply::Bulk(refusal.client.clone()),
    ])
}

/// ACL DRYRUN username command [arg ...]
pub fn dryrun(call: &mut Call) -> Outcome {
    let Some(user) = call.node.users.get(&call.args[2]) else {
        let text = [&b"ERR User '"[..], &call.args[2], b"' not found"].concat();
        return Err(Reply::Error(text.into()));
    };
    let request = call.from(3);
    let Some(command) = call.node.command_of(request) else {
        let text = [&b"ERR Command '"[..], &request[0], b"' not found"].concat();
        return Err(Reply::Error(text.into()));
    };
    if !command.takes(request.len()) {
        return Err(wrong_arity(command.lower));
    }
    let denial = user.denial(command, request);
    let who = match call.node.differs(Difference::NamesUser) {
        true => [&b"User "[..], &call.args[2]].concat(),
        false => b"This user".to_vec(),
    };
    let text = match denial {
        None => return Ok(Reply::OK),
        Some(Denial::Command) => {
            let name = command.lower.as_bytes();
            [&who, &b" has no permissions to run the '"[..], name, b"' command"].concat()
        }
        Some(Denial::Key(key)) => {
            [&who, &b" has no permissions to access the '"[..], &key, b"' key"].concat()
        }
        Some(Denial::Channel(name)) => {
            [&who, &b" has no permissions to access the '"[..], &name, b"' channel"].concat()
        }
    };
    Ok(Reply::Bulk(text.into()))
}
