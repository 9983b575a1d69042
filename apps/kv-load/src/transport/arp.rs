//! Ethernet addresses of IPv4 hosts (RFC 826): enough of it to be one of two hosts on a wire.

use std::net::{IpAddr, Ipv4Addr};

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Bytes of a frame.
const FRAME: usize = 42;
/// From the type of the frame on: ARP, Ethernet, IPv4, lengths of their addresses.
const KIND: [u8; 8] = [8, 6, 0, 1, 8, 0, 6, 4];
const REQUEST: u8 = 1;
const ANSWER: u8 = 2;

fn frame(operation: u8, to: Mac, from: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let parts: [&[u8]; 8] =
        [&to, &from.0, &KIND, &[0, operation], &from.0, &from.1.octets(), &target.0, &target.1.octets()];
    for (byte, value) in frame.iter_mut().zip(parts.into_iter().flatten()) {
        *byte = *value;
    }
    frame
}

/// Asks everybody for the address of `target`.
pub(crate) fn request(mac: Mac, own: Ipv4Addr, target: Ipv4Addr) -> [u8; FRAME] {
    frame(REQUEST, [0xff; 6], (mac, own), ([0; 6], target))
}

/// Answers who has asked.
pub(crate) fn answer(mac: Mac, own: Ipv4Addr, to: Mac, asker: Ipv4Addr) -> [u8; FRAME] {
    frame(ANSWER, to, (mac, own), (to, asker))
}

/// Operation, sender and target of a frame that is ARP.
fn read(frame: &[u8]) -> Option<(u8, (Mac, Ipv4Addr), Ipv4Addr)> {
    let rest = frame.get(12..)?.strip_prefix(&KIND)?.first_chunk::<22>()?;
    let [_, operation, a, b, c, d, e, f, i, j, k, l, _, _, _, _, _, _, m, n, o, p] = *rest;
    Some((operation, ([a, b, c, d, e, f], Ipv4Addr::new(i, j, k, l)), Ipv4Addr::new(m, n, o, p)))
}

/// The Ethernet address of `host`, if this frame tells it.
pub(crate) fn answer_of(frame: &[u8], host: Ipv4Addr) -> Option<Mac> {
    let (operation, (mac, sender), _) = read(frame)?;
    (operation == ANSWER && sender == host).then_some(mac)
}

/// Who asks for the address of `own`, if this frame does.
pub(crate) fn asks_for(frame: &[u8], own: IpAddr) -> Option<(Mac, Ipv4Addr)> {
    let (operation, sender, target) = read(frame)?;
    (operation == REQUEST && target == own).then_some(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [2, 0, 0, 0, 0, 1];
    const B: Mac = [2, 0, 0, 0, 0, 2];

    #[test]
    fn who_is_asked_for_answers_who_has_asked() {
        let (a, b) = (Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2));
        let asked = request(A, a, b);
        // As RFC 826 has it, byte by byte.
        let expected = [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
        assert_eq!(asked[..22], expected);
        assert_eq!(asked[22..], [2, 0, 0, 0, 0, 1, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 10, 9, 0, 2]);
        assert_eq!((asks_for(&asked, b.into()), asks_for(&asked, a.into())), (Some((A, a)), None));
        let (mac, ip) = asks_for(&asked, b.into()).unwrap();
        let told = answer(B, b, mac, ip);
        assert_eq!((&told[..6], told[21]), (&A[..], ANSWER));
        assert_eq!((answer_of(&told, b), answer_of(&told, a), answer_of(&asked, a)), (Some(B), None, None));
        assert!(read(&told[..41]).is_none() && read(&[]).is_none());
    }
}
