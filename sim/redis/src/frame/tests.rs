//! Tests of `frame`: requests complete and in pieces, Redis's errors, replies encoded and decoded.

use bytes::{Bytes, BytesMut};
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};

use super::decode::{ReplyReader, decode_reply};
use super::request::RequestReader;
use super::{ProtocolError, Reply, encode_request, integer};

type Requests = (Vec<Vec<Vec<u8>>>, Option<Vec<u8>>);

/// Reads all requests of `bytes`, which arrive cut at `cuts`.
fn read(bytes: &[u8], cuts: &[usize]) -> Requests {
    let mut reader = RequestReader::default();
    let mut buffer = BytesMut::new();
    let mut requests = Vec::new();
    let mut from = 0;
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        let cut = cut.clamp(from, bytes.len());
        buffer.extend_from_slice(&bytes[from..cut]);
        from = cut;
        loop {
            match reader.next(&mut buffer) {
                Ok(Some(request)) => requests.push(request.iter().map(|a| a.to_vec()).collect()),
                Ok(None) => break,
                Err(ProtocolError(text)) => return (requests, Some(text.to_vec())),
            }
        }
    }
    (requests, None)
}

fn check(bytes: &[u8], expected: &[&[&str]], error: Option<&str>) {
    let (requests, refused) = read(bytes, &[]);
    let expected: Vec<Vec<Vec<u8>>> =
        expected.iter().map(|r| r.iter().map(|a| a.as_bytes().to_vec()).collect()).collect();
    assert_eq!(requests, expected, "{}", bytes.escape_ascii());
    assert_eq!(refused.as_deref(), error.map(str::as_bytes), "{}", bytes.escape_ascii());
    let one_by_one: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(read(bytes, &one_by_one), (requests, refused), "{}", bytes.escape_ascii());
}

#[test]
fn requests_are_read_as_redis_reads_them() {
    check(b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n", &[&["PING"], &["GET", ""]], None);
    check(b"PING\r\nSET  a 'b c'\n\r\n", &[&["PING"], &["SET", "a", "b c"]], None);
    check(b"SET a \"\\x41\\n\\\"\"\r\n", &[&["SET", "a", "A\n\""]], None);
    check(b"*0\r\n*-5\r\nPING\r\n", &[&["PING"]], None);
    check(b"*1\r\n$4\r\nPINGxyPING\r\n", &[&["PING"], &["PING"]], None);
    check(b"*1\r\n$4\r\nPI", &[], None);
}

#[test]
fn refusals_have_the_words_of_redis() {
    check(b"*x\r\n", &[], Some("invalid multibulk length"));
    check(b"*2147483648\r\n", &[], Some("invalid multibulk length"));
    check(b"*1\r\n!4\r\n", &[], Some("expected '$', got '!'"));
    check(b"*1\r\n$-1\r\n", &[], Some("invalid bulk length"));
    check(b"*1\r\n$+4\r\n", &[], Some("invalid bulk length"));
    check(b"*1\r\n$536870913\r\n", &[], Some("invalid bulk length"));
    check(b"SET a 'b\r\n", &[], Some("unbalanced quotes in request"));
    check(b"SET a \"b\"c\r\n", &[], Some("unbalanced quotes in request"));
    let long = vec![b'a'; 70_000];
    assert_eq!(read(&long, &[]).1.as_deref(), Some(&b"too big inline request"[..]));
    let long = [b"*1\r\n$", &[b'1'; 70_000][..]].concat();
    assert_eq!(read(&long, &[]).1.as_deref(), Some(&b"too big bulk count string"[..]));
}

#[test]
fn integers_are_read_strictly() {
    for (text, value) in [
        ("0", Some(0)),
        ("-1", Some(-1)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("-0", None),
        ("01", None),
        ("+1", None),
        (" 1", None),
        ("", None),
        ("-", None),
    ] {
        assert_eq!(integer(text.as_bytes()), value, "{text}");
    }
}

#[test]
fn replies_come_back_as_they_went() {
    let replies = Reply::Array(vec![
        Reply::OK,
        Reply::simple("PONG"),
        Reply::error("ERR no"),
        Reply::Integer(-7),
        Reply::bulk(b"a\r\nb"),
        Reply::Nil,
        Reply::Array(vec![Reply::Array(Vec::new()), Reply::Integer(1)]),
    ]);
    let mut bytes = BytesMut::new();
    replies.encode(&mut bytes);
    Reply::NilArray.encode(&mut bytes);
    let whole = bytes.clone();
    let first = decode_reply(&mut bytes).unwrap().unwrap();
    assert_eq!((first, decode_reply(&mut bytes)), (replies, Ok(Some(Reply::NilArray))));
    assert!(bytes.is_empty());
    for cut in 0..whole.len() - b"*-1\r\n".len() {
        assert_eq!(decode_reply(&mut BytesMut::from(&whole[..cut])), Ok(None));
    }
}

#[test]
fn a_deep_reply_is_refused_before_anything_recurses() {
    let mut bytes = BytesMut::from(&b"*1\r\n".repeat(100_000)[..]);
    assert!(decode_reply(&mut bytes).is_err());
}

#[test]
fn what_is_no_reply_is_refused() {
    for bytes in ["\r\n", "x", ":1x\r\n", "$-2\r\n", "*-2\r\n", "*2147483648\r\n", "*1\r\nx"] {
        assert!(decode_reply(&mut BytesMut::from(bytes)).is_err(), "{}", bytes.escape_debug());
    }
}

#[test]
fn an_error_stays_on_its_line() {
    let mut bytes = BytesMut::new();
    Reply::Error(Bytes::from_static(b"ERR a\r\nb\xff")).encode(&mut bytes);
    assert_eq!(&bytes[..], b"-ERR a  b\xff\r\n");
}

/// Bytes of the protocol, and sometimes any byte.
fn garbage() -> impl Strategy<Value = u8> {
    let known = || proptest::sample::select(&b"*$+-:\r\n0123\"'\\ a"[..]);
    proptest::prop_oneof![known(), known(), known(), any::<u8>()]
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_requests(
        requests: Vec<Vec<Vec<u8>>>, mut cuts: Vec<u8>,
    ) {
        let mut bytes = BytesMut::new();
        for request in &requests {
            let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            encode_request(&mut bytes, &arguments);
        }
        cuts.sort_unstable();
        let cuts: Vec<usize> = cuts.into_iter().map(usize::from).collect();
        let expected: Vec<Vec<Vec<u8>>> = requests.into_iter().filter(|r| !r.is_empty()).collect();
        prop_assert_eq!(read(&bytes, &cuts), (expected, None));
    }

    #[test]
    fn garbage_never_panics_and_pieces_do_not_matter(
        bytes in proptest::collection::vec(garbage(), 0..200),
        mut cuts: Vec<u8>,
    ) {
        cuts.sort_unstable();
        let cuts: Vec<usize> = cuts.into_iter().map(usize::from).collect();
        prop_assert_eq!(read(&bytes, &cuts), read(&bytes, &[]));
        let _ = decode_reply(&mut BytesMut::from(&bytes[..]));
    }
}

/// For bytes that arrive one by one: how many bytes the search for line ends inspects.
#[test]
fn what_trickles_in_is_read_once() {
    let elements = b"$1\r\na\r\n".repeat(20_000);
    let nested = [&b"*1\r\n".repeat(100)[..], b"*20000\r\n", &elements].concat();
    let line = [&b"+"[..], &vec![b'x'; 60_000], b"\r\n"].concat();
    let bulk = [&b"$200000\r\n"[..], &vec![b'\r'; 200_000], b"\r\n"].concat();
    for bytes in [&nested, &line, &bulk] {
        let (mut reader, mut buffer) = (ReplyReader::default(), BytesMut::new());
        let mut found = 0;
        for byte in &bytes[..] {
            buffer.extend_from_slice(&[*byte]);
            found += usize::from(reader.next(&mut buffer).unwrap().is_some());
        }
        assert_eq!(found, 1);
        assert!(reader.looked <= 3 * bytes.len(), "{} for {}", reader.looked, bytes.len());
    }
    let request = [&b"*20001\r\n"[..], &elements, b"$200000\r\n", &vec![b'\n'; 200_000]].concat();
    let inline = vec![b'x'; 60_000];
    for bytes in [[&request[..], b"\r\n"].concat(), [&inline[..], b"\n"].concat()] {
        let (mut reader, mut buffer) = (RequestReader::default(), BytesMut::new());
        let mut found = 0;
        for byte in &bytes {
            buffer.extend_from_slice(&[*byte]);
            found += usize::from(reader.next(&mut buffer).unwrap().is_some());
        }
        assert_eq!(found, 1);
        assert!(reader.looked <= bytes.len(), "{} for {}", reader.looked, bytes.len());
    }
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_replies(
        bytes in proptest::collection::vec(garbage(), 0..200),
        size in 1_usize..20,
    ) {
        let all = |size: usize| {
            let (mut reader, mut buffer) = (ReplyReader::default(), BytesMut::new());
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                buffer.extend_from_slice(piece);
                loop {
                    match reader.next(&mut buffer) {
                        Ok(Some(reply)) => found.push(Ok(reply)),
                        Ok(None) => break,
                        Err(error) => {
                            found.push(Err(error));
                            return found;
                        }
                    }
                }
            }
            found
        };
        prop_assert_eq!(all(size), all(usize::MAX));
    }
}
