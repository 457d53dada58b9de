//! How a client that is blocked on keys is served when one of them was created.

use crate::call::Call;
use crate::command::blocking;
use crate::command::sorted_set::wait;
use crate::frame::Reply;
use crate::keyspace::Key;
use crate::session::Wanted;

/// Retries a blocked command for one key; `None` if the key is still not ready.
pub fn serve(call: &mut Call, key: &Key, wanted: Wanted) -> Option<Reply> {
    match wanted {
        Wanted::Element => blocking::serve_element(call, key),
        Wanted::Elements => blocking::serve_elements(call, key),
        Wanted::Moved => blocking::serve_moved(call),
        Wanted::Member => wait::serve_member(call, key),
        Wanted::Members => wait::serve_members(call, key),
    }
}
