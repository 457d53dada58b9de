//! The admin port: it speaks RESP, so that any Redis client can send orders.
//!
//! It interprets nothing: words go into a queue, and the service that runs the world replies.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};

use bytes::{Bytes, BytesMut};
use lockstorm_platform::host::{Host, Stream};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::frame::request::RequestReader;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The state shared by the port and the service.
#[derive(Clone, Default)]
pub struct Desk {
    tray: Rc<RefCell<VecDeque<Slip>>>,
    /// Whether a signal has requested the shutdown.
    pub is_interrupted: Rc<Cell<bool>>,
}

/// The words of an order, and the place for its reply.
pub struct Slip {
    /// The words.
    pub words: Vec<String>,
    answer: Rc<RefCell<OrderAnswer>>,
}

#[derive(Default)]
struct OrderAnswer {
    reply: Option<Reply>,
    waker: Option<Waker>,
}

impl Desk {
    /// The next pending order.
    pub fn next(&self) -> Option<Slip> {
        self.tray.borrow_mut().pop_front()
    }
}

impl Slip {
    /// Replies to the order.
    pub fn answer(self, reply: Reply) {
        let mut answer = self.answer.borrow_mut();
        answer.reply = Some(reply);
        answer.waker.take().into_iter().for_each(Waker::wake);
    }
}

/// Receives orders until its process ends.
pub async fn attend(host: Host, port: u16, desk: Desk) {
    let mut listener = host.listen(port).expect("the port was bound before");
    let interrupted = Rc::clone(&desk.is_interrupted);
    host.spawn(async move {
        lockstorm_world::engine::live::stop::requested().await;
        interrupted.set(true);
    });
    while let Ok(stream) = listener.accept().await {
        host.spawn(listen(stream, desk.clone()));
    }
}

async fn listen(mut stream: Stream, desk: Desk) {
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    let mut reader = RequestReader::default();
    loop {
        match reader.next(&mut input) {
            Ok(Some(words)) => {
                let words: Vec<String> =
                    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                let leaves = words[0].eq_ignore_ascii_case("quit");
                let reply = if leaves { Reply::OK } else { execute(&desk, words).await };
                reply.encode(&mut output);
                if stream.write_all(&output.split()).await.is_err() || leaves {
                    return;
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => {
                error.reply().encode(&mut output);
                let _ = stream.write_all(&output).await;
                return;
            }
        }
        match stream.read_buf(&mut input).await {
            Ok(1..) => {}
            _ => return,
        }
    }
}

async fn execute(desk: &Desk, words: Vec<String>) -> Reply {
    let answer = Rc::<RefCell<OrderAnswer>>::default();
    desk.tray.borrow_mut().push_back(Slip { words, answer: Rc::clone(&answer) });
    std::future::poll_fn(|cx| {
        let mut answer = answer.borrow_mut();
        match answer.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                answer.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

/// The lines as one reply; a single line is a simple string.
pub fn lines(lines: Vec<String>) -> Reply {
    let simple = |line: String| Reply::Simple(Bytes::from(line));
    match <[String; 1]>::try_from(lines) {
        Ok([line]) => simple(line),
        Err(lines) => Reply::Array(lines.into_iter().map(simple).collect()),
    }
}
