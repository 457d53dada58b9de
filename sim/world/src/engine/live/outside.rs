//! Connections from a live world's processes to servers outside it. No link lies between them, so
//! no fault acts on them.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::pin::Pin;
use std::task::{Context, Poll};

use lockstorm_platform::host::{Duplex, Stream};
use lockstorm_platform::trace::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::engine::live::socket::v4;

/// See the head of this file.
struct Outside(TcpStream);

/// Connects to a server outside the world. A task of a live world must await it.
///
/// # Errors
/// Those of the system.
pub async fn connect(server: SocketAddrV4) -> io::Result<Stream> {
    let stream = TcpStream::connect(SocketAddr::V4(server)).await?;
    stream.set_nodelay(true)?;
    let client = v4(stream.local_addr()?)?;
    Ok(Stream::new(Box::pin(Outside(stream)), Connection { client, server }))
}

impl AsyncRead for Outside {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Outside {
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

impl Duplex for Outside {
    fn tag(&self, _: u32) {}
}
