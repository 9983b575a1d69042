//! The paper's RPC: a get or a set without text to parse, one datagram each. `apps/kv/README.md` defines it.

use xxhash_rust::xxh3::xxh3_64;

use super::{Broken, Reply, Request};
use crate::value::Key;

/// Bytes of the header.
pub const HEADER: usize = 16;
const GET: u8 = 1;
const SET: u8 = 2;

/// The server thread that owns a key: its requests go to the base port plus this.
#[inline]
pub fn shard(key: &Key, shards: u16) -> u16 {
    (xxh3_64(key) % u64::from(shards.max(1))) as u16
}

/// Appends a request.
pub fn write(request: Request<'_>, id: u64, out: &mut Vec<u8>) {
    let (op, value) = match request {
        Request::Get(_) => (GET, &[][..]),
        Request::Set(_, value) => (SET, value),
    };
    let key = request.key();
    let mut header = [0; HEADER];
    header[0] = op;
    header[2..4].copy_from_slice(&(key.len() as u16).to_le_bytes());
    header[4..8].copy_from_slice(&(value.len() as u32).to_le_bytes());
    header[8..].copy_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The reply in a datagram, and the request's id.
///
/// # Errors
/// When the datagram is no reply.
pub fn read(datagram: &[u8]) -> Result<(Reply<'_>, u64), Broken> {
    let (header, rest) =
        datagram.split_first_chunk::<HEADER>().ok_or(Broken("a datagram without a header"))?;
    let [op, status, k0, k1, v0, v1, v2, v3, id @ ..] = *header;
    // An answer has no key.
    let (key, length) = (u16::from_le_bytes([k0, k1]), u32::from_le_bytes([v0, v1, v2, v3]));
    if rest.len() != length as usize || key != 0 {
        return Err(Broken("a reply that is not as long as its header says"));
    }
    let reply = match (op, status) {
        (GET, 0) => Reply::Value { key: None, data: rest },
        (GET, 1) => Reply::Miss,
        (SET, 0) => Reply::Stored,
        (_, 2) => Reply::Refused(b"too large"),
        (_, 3) => Reply::Refused(b"malformed"),
        (_, 4) => Reply::Refused(b"out of memory"),
        _ => return Err(Broken("an unknown operation or status")),
    };
    Ok((reply, u64::from_le_bytes(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8; 16] = b"0123456789abcdef";

    #[test]
    fn a_request_has_its_header() {
        let mut out = Vec::new();
        write(Request::Set(KEY, b"abc"), 0x0102_0304_0506_0708, &mut out);
        assert_eq!(out[..HEADER], [2, 0, 16, 0, 3, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(&out[HEADER..], b"0123456789abcdefabc");
    }

    #[test]
    fn replies_are_read() {
        let reply = |op, status, value: &[u8]| {
            let mut bytes = vec![op, status, 0, 0, value.len() as u8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend_from_slice(value);
            bytes
        };
        let bytes = reply(1, 0, b"abc");
        assert_eq!(read(&bytes), Ok((Reply::Value { key: None, data: b"abc" }, 9)));
        assert_eq!(read(&reply(1, 1, b"")), Ok((Reply::Miss, 9)));
        assert_eq!(read(&reply(2, 0, b"")), Ok((Reply::Stored, 9)));
        assert_eq!(read(&reply(2, 2, b"")), Ok((Reply::Refused(b"too large"), 9)));
        assert!(read(&reply(7, 0, b"")).is_err() && read(&reply(1, 9, b"")).is_err());
        assert!(read(&bytes[..18]).is_err() && read(&bytes[..3]).is_err(), "cut");
    }

    #[test]
    fn keys_have_their_threads() {
        assert_eq!(shard(KEY, 1), 0);
        let shards: Vec<u16> = (0..1000).map(|n| shard(&crate::value::key(n), 4)).collect();
        assert!((0..4).all(|shard| shards.iter().filter(|s| **s == shard).count() > 200));
    }
}
