//! The frames of both sides: Ethernet, IPv4 and UDP without options, tags or fragments. Nobody resolves addresses: the two ends of a port
//! know each other. Drivers differ in the checksums that they compute, so both sides compute those of IPv4 here and send no checksum of UDP,
//! as RFC 768 permits.

use ccnic_frame::{Headers, L3, L4, checksum};

/// Bytes of the headers.
pub const HEADERS: usize = 14 + 20 + 8;

/// The headers of a datagram.
pub type Head = [u8; HEADERS];

/// The headers and the payload of a datagram to this port; `None` for every other frame.
#[inline]
pub fn datagram(frame: &[u8], to: u16) -> Option<(&Head, &[u8])> {
    let headers = Headers::parse(frame, frame.len());
    let plain = headers.l3 == L3::Ipv4 && headers.l4 == L4::Udp && headers.payload_at == HEADERS;
    if !plain || headers.malformed.is_some() || checksum::verify_ipv4(frame, &headers) != Ok(true) {
        return None;
    }
    let head = frame.first_chunk::<HEADERS>()?;
    let meant = head[36..38] == to.to_be_bytes();
    let unspoilt = head[40..42] == [0, 0] || checksum::verify_l4(frame, &headers, []) == Ok(true);
    // IPv4's length has a checksum, UDP's need not have one.
    let length = |at: usize| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
    let whole = length(16) == 20 + length(38);
    let payload = frame.get(HEADERS..headers.l4_end)?;
    (meant && unspoilt && whole).then_some((head, payload))
}

/// The headers of an answer to a datagram with these headers, but for what [`finish`] fills in.
pub fn turned(head: &Head) -> Head {
    let mut answer = *head;
    answer[..6].copy_from_slice(&head[6..12]);
    answer[6..12].copy_from_slice(&head[..6]);
    answer[22] = 64;
    answer[26..30].copy_from_slice(&head[30..34]);
    answer[30..34].copy_from_slice(&head[26..30]);
    answer[34..36].copy_from_slice(&head[36..38]);
    answer[36..38].copy_from_slice(&head[34..36]);
    answer
}

/// Fills in lengths and checksums for so many bytes of payload.
pub fn finish(head: &mut Head, payload: usize) {
    head[16..18].copy_from_slice(&((28 + payload) as u16).to_be_bytes());
    head[38..40].copy_from_slice(&((8 + payload) as u16).to_be_bytes());
    head[40..42].fill(0);
    head[24..26].fill(0);
    let words = head[14..34].as_chunks::<2>().0;
    let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    head[24..26].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use ccnic_tcp::udp::{Template, ends};

    fn frame(payload: &[u8]) -> Vec<u8> {
        let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
        let ends = ["10.9.0.1:5", "10.9.0.2:6"].map(|end| end.parse().unwrap());
        let mut head: Head = Template::new(macs, ends[0], ends[1]).unwrap().headers(0).try_into().unwrap();
        finish(&mut head, payload.len());
        [&head[..], payload].concat()
    }

    #[test]
    fn an_answer_goes_back_where_the_request_came_from() {
        let request = frame(b"hello");
        let (head, payload) = datagram(&request, 6).unwrap();
        assert_eq!(payload, b"hello");
        let mut head = turned(head);
        finish(&mut head, 3);
        let answer = [&head[..], b"yes"].concat();
        assert_eq!(datagram(&answer, 5).unwrap().1, b"yes");
        let headers = Headers::parse(&answer, answer.len());
        let found = ends(&answer, &headers).map(|(from, to)| (from.to_string(), to.to_string()));
        assert_eq!(found, Some(("10.9.0.2:6".to_owned(), "10.9.0.1:5".to_owned())));
        assert_eq!((&answer[..6], &answer[6..12]), (&[2, 0, 0, 0, 0, 1][..], &[2, 0, 0, 0, 0, 2][..]));
    }

    #[test]
    fn other_frames_are_none() {
        let good = frame(b"hello");
        assert!(datagram(&good, 7).is_none(), "another port");
        for at in 12..HEADERS - 2 {
            let mut spoilt = good.clone();
            spoilt[at] ^= 1;
            // Source ports are nobody's concern here; all else is noticed.
            assert_eq!(datagram(&spoilt, 6).is_some(), at == 34 || at == 35, "byte {at}");
        }
        for len in 0..good.len() {
            assert!(datagram(&good[..len], 6).is_none(), "{len} bytes");
        }
        let mut summed = good;
        summed[40..42].copy_from_slice(&[1, 2]);
        assert!(datagram(&summed, 6).is_none(), "a wrong checksum");
    }
}
