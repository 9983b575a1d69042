//! What can be said about packets before they are sent: which of them are whole and short enough.

use ccnic::desc::CHAIN_MAX;

use crate::abi::CcnicBuf;
use crate::errno::{Failure, NO_END, TOO_LONG};

/// How many of the first buffers make packets that can be sent, and why the next packet cannot. `last`: no buffers follow
/// these, so a packet that is not finished is an error.
#[cold]
#[inline(never)]
pub(crate) fn whole_packets(bufs: &[CcnicBuf], mtu: u16, last: bool) -> (usize, Option<Failure>) {
    let (mut whole, mut segments, mut bytes) = (0, 0, 0u32);
    for (i, buf) in bufs.iter().enumerate() {
        segments += 1;
        bytes += u32::from(buf.len());
        if segments > CHAIN_MAX || bytes > u32::from(mtu) {
            return (whole, Some(TOO_LONG));
        }
        if !buf.more() {
            (whole, segments, bytes) = (i + 1, 0, 0);
        }
    }
    (whole, (whole < bufs.len() && last).then_some(NO_END))
}

/// An upper bound of some lengths, below twice the longest; `u16::MAX` when one of them is zero. The exact maximum would cost
/// more: the baseline x86-64 has no vector maximum of unsigned 16-bit words.
#[inline(always)]
pub(crate) fn length_bound(lens: &[u16]) -> u16 {
    lens.iter().fold(0u16, |any, len| any | len.wrapping_sub(1)).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::Desc;
    use ccnic::desc::FLAG_MORE;

    fn bufs(packets: &[(u16, bool)]) -> Vec<CcnicBuf> {
        let flags = |more| if more { FLAG_MORE } else { 0 };
        packets.iter().map(|&(len, more)| Desc::new(0, len, flags(more)).into()).collect()
    }

    #[test]
    fn a_packet_that_can_never_be_sent_ends_the_burst_before_it() {
        let good = [(64, false), (1000, true), (500, false)];
        assert_eq!(whole_packets(&bufs(&good), 1500, true), (3, None));
        assert_eq!(whole_packets(&bufs(&good), 1499, true), (1, Some(TOO_LONG)));
        assert_eq!(whole_packets(&bufs(&good[..2]), 1500, true), (1, Some(NO_END)));
        assert_eq!(whole_packets(&bufs(&good[..2]), 1500, false), (1, None), "its end may follow");
        let longest = [vec![(1, true); CHAIN_MAX - 1], vec![(1, false)]].concat();
        assert_eq!(whole_packets(&bufs(&longest), 1500, true), (CHAIN_MAX, None));
        let longer = [vec![(1, true); CHAIN_MAX], vec![(1, false)]].concat();
        assert_eq!(whole_packets(&bufs(&longer), 1500, true), (0, Some(TOO_LONG)));
        assert_eq!(whole_packets(&[], 1500, true), (0, None));
    }

    #[test]
    fn a_bound_is_never_below_the_longest_and_below_twice_of_it() {
        for longest in 1..=600u16 {
            for other in [1, longest / 2 + 1, longest] {
                let bound = length_bound(&[other, longest]);
                assert!(
                    bound >= longest && u32::from(bound) < 2 * u32::from(longest) + 1,
                    "{other} {longest}: {bound}"
                );
            }
        }
        assert_eq!(length_bound(&[64; 32]), 64);
        assert_eq!(length_bound(&[64, 0, 64]), u16::MAX);
    }
}
