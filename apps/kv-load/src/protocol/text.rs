//! Memcached's text protocol: `get` and `set` (protocol.txt of memcached), over streams, and over UDP behind a frame header of 8 bytes.

use std::io::Write;

use super::{Broken, Reply, Request};

/// A line of a reply is at most so long: `VALUE`, a key of 250 bytes, three numbers. What goes on longer is no such reply.
const LONGEST_LINE: usize = 2048;
/// No value that was stored is longer. A store that says more would have its reply kept until memory is used up.
const LONGEST_VALUE: usize = 1 << 20;

/// Appends a request.
pub fn write(request: Request<'_>, out: &mut Vec<u8>) {
    // Writing to a vector does not fail.
    match request {
        Request::Get(key) => {
            out.extend_from_slice(b"get ");
            out.extend_from_slice(key);
        }
        Request::Set(key, value) => {
            out.extend_from_slice(b"set ");
            out.extend_from_slice(key);
            let _ = write!(out, " 0 0 {}\r\n", value.len());
            out.extend_from_slice(value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// A line, without its end, and what follows it.
type Line<'a> = (&'a [u8], &'a [u8]);

/// The first line; nothing when it is not complete.
fn line(bytes: &[u8]) -> Result<Option<Line<'_>>, Broken> {
    let within = &bytes[..bytes.len().min(LONGEST_LINE)];
    match within.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = &bytes[..end];
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), &bytes[end + 1..])))
        }
        None if within.len() == LONGEST_LINE => Err(Broken("a line that does not end")),
        None => Ok(None),
    }
}

/// The first reply in `bytes` and its length; nothing when it is not complete yet.
///
/// # Errors
/// When the bytes are no reply.
pub fn read(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Broken> {
    let Some((first, rest)) = line(bytes)? else { return Ok(None) };
    let used = bytes.len() - rest.len();
    let reply = match first {
        b"END" => Reply::Miss,
        b"STORED" => Reply::Stored,
        _ => match first.strip_prefix(b"VALUE ") {
            Some(value) => return read_value(value, rest, used),
            None => Reply::Refused(first),
        },
    };
    Ok(Some((reply, used)))
}

/// The rest of a reply to `get` that has a value: `line` is what follows `VALUE`, `rest` what follows that line, `used` all before.
fn read_value<'a>(line: &'a [u8], rest: &'a [u8], used: usize) -> Result<Option<(Reply<'a>, usize)>, Broken> {
    const NO_NUMBER: Broken = Broken("a VALUE line without key and length");
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(key), Some(_flags), Some(length)) = (words.next(), words.next(), words.next()) else {
        return Err(NO_NUMBER);
    };
    let length = std::str::from_utf8(length).ok().and_then(|text| text.parse::<u32>().ok());
    let length = length.ok_or(NO_NUMBER)? as usize;
    if length > LONGEST_VALUE {
        return Err(Broken("a value that is longer than any that is stored"));
    }
    const END: &[u8] = b"\r\nEND\r\n";
    let Some(data) = rest.get(..length) else { return Ok(None) };
    let after = &rest[length..];
    if after.len() < END.len() {
        let begins = END.starts_with(after);
        return if begins { Ok(None) } else { Err(Broken("a value that is longer than its length")) };
    }
    if !after.starts_with(END) {
        return Err(Broken("a value that is longer than its length"));
    }
    Ok(Some((Reply::Value { key: Some(key), data }, used + length + END.len())))
}

/// The frame header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The request's, repeated in each datagram of its reply.
    pub id: u16,
    /// Which datagram of the message this is.
    pub part: u16,
    /// How many there are.
    pub parts: u16,
}

impl Frame {
    /// Bytes of the header.
    pub const LENGTH: usize = 8;

    /// The header of a request, which is one datagram.
    pub fn of_request(id: u16) -> [u8; Frame::LENGTH] {
        let [a, b] = id.to_be_bytes();
        [a, b, 0, 0, 0, 1, 0, 0]
    }

    /// The header and what follows it; nothing when there is none, or one that says what cannot be.
    pub fn read(datagram: &[u8]) -> Option<(Frame, &[u8])> {
        let (header, rest) = datagram.split_first_chunk::<{ Frame::LENGTH }>()?;
        let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let frame = Frame { id: number(0), part: number(2), parts: number(4) };
        (frame.part < frame.parts).then_some((frame, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8; 16] = b"0123456789abcdef";

    #[test]
    fn requests_are_as_protocol_txt_has_them() {
        let mut out = Vec::new();
        write(Request::Get(KEY), &mut out);
        write(Request::Set(KEY, b"abc"), &mut out);
        assert_eq!(out, b"get 0123456789abcdef\r\nset 0123456789abcdef 0 0 3\r\nabc\r\n");
    }

    #[test]
    fn replies_are_read_however_they_are_cut() {
        let bytes = b"VALUE 0123456789abcdef 0 7\r\n\r\nEND\r\n\r\nEND\r\nEND\r\nSTORED\r\nSERVER_ERROR out of memory\r\n";
        let whole = [
            Reply::Value { key: Some(KEY), data: b"\r\nEND\r\n" },
            Reply::Miss,
            Reply::Stored,
            Reply::Refused(b"SERVER_ERROR out of memory"),
        ];
        let mut rest = &bytes[..];
        for expected in whole {
            let (reply, used) = read(rest).unwrap().unwrap();
            assert_eq!(reply, expected);
            for less in 0..used {
                assert_eq!(read(&rest[..less]), Ok(None), "{less} bytes of {expected:?}");
            }
            rest = &rest[used..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_no_reply_is_found_out() {
        for bytes in [
            &b"VALUE k 0\r\n"[..],
            b"VALUE k 0 -1\r\n",
            b"VALUE k 0 99999999999\r\n",
            b"VALUE k 0 4294967295\r\n",
            b"VALUE k 0 1048577\r\n",
            b"VALUE k 0 1\r\nxyEND\r\n",
            &[b'x'; 3000],
        ] {
            assert!(read(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn frames_of_udp() {
        let mut datagram = Frame::of_request(0x1234).to_vec();
        assert_eq!(datagram, [0x12, 0x34, 0, 0, 0, 1, 0, 0]);
        datagram.push(9);
        let frame = Frame { id: 0x1234, part: 0, parts: 1 };
        assert_eq!(Frame::read(&datagram), Some((frame, &[9][..])));
        datagram[3] = 1;
        assert_eq!(Frame::read(&datagram), None, "part 1 of 1");
        assert_eq!(Frame::read(&datagram[..7]), None);
    }
}
