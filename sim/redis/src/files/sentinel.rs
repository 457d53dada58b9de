//! The file of a running Sentinel.

use crate::sentinel::file::FILE;
use crate::server::Server;

/// Writes the file of a Sentinel whose state has changed and waits until it is synced, which
/// must precede every message about the change. What the Sentinel has seen goes to the trace.
pub async fn save(server: &Server) {
    let sights = server.node.borrow_mut().take_sights();
    for event in sights {
        server.host.record(event);
    }
    // Repeated, because the state may change again during the sync.
    loop {
        let text = server.node.borrow_mut().take_file();
        let Some(text) = text else { return };
        // With a full disk it continues without its file, as Redis does.
        if server.host.disk().replace(FILE, text.as_bytes()).is_ok() {
            server.host.disk().sync(FILE).await;
        }
    }
}
