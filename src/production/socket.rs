//! A TCP connection of the operating system as a stream of the platform.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::pin::Pin;
use std::task::{Context, Poll};

use lockstorm_platform::host::{Duplex, Stream};
use lockstorm_platform::trace::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// See the head of this file.
struct Socket(TcpStream);

/// Opens a connection to `server`. It lasts as long as the operating system tries: the lock has a
/// timeout of its own.
///
/// # Errors
/// Those of the operating system.
pub(crate) async fn connect(server: SocketAddrV4) -> io::Result<Stream> {
    let socket = TcpStream::connect(server).await?;
    // A request is one small write: it must not wait for more.
    socket.set_nodelay(true)?;
    let SocketAddr::V4(client) = socket.local_addr()? else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    Ok(Stream::new(Box::pin(Socket(socket)), Connection { client, server }))
}

impl Duplex for Socket {
    fn tag(&self, _: u32) {}
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
