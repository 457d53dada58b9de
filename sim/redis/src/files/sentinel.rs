//! The file of a running Sentinel.

use crate::sentinel::file::FILE;
use crate::server::Server;

/// Writes the file of a Sentinel whose state has changed and waits until the disk has it: to
/// be done before anybody hears of the change. What it has seen goes to the trace.
pub async fn save(server: &Server) {
    let sights = server.node.borrow_mut().take_sights();
    for event in sights {
        server.host.record(event);
    }
    loop {
        let text = server.node.borrow_mut().take_file();
        let Some(text) = text else { return };
        // With a full disk it goes on without its file, as Redis does.
        if server.host.disk().replace(FILE, text.as_bytes()).is_ok() {
            server.host.disk().sync(FILE).await;
        }
    }
}
