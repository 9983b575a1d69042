//! The 64 bits of metadata.

use ccnic_frame::{Checksum, Meta, SegmentKind, Segmentation, Tci};
use proptest::prelude::*;

/// The bits that have a meaning, by the picture of the module.
const KNOWN: u64 = 0xffff_01ff_ffff_ffff;

fn kind() -> impl Strategy<Value = SegmentKind> {
    prop_oneof![Just(SegmentKind::TcpIpv4), Just(SegmentKind::TcpIpv6), Just(SegmentKind::Udp)]
}

fn checksum() -> impl Strategy<Value = Checksum> {
    prop_oneof![Just(Checksum::Unknown), Just(Checksum::Requested), Just(Checksum::Good)]
}

#[test]
fn zero_says_nothing() {
    let meta = Meta::from_word(0);
    assert_eq!((meta, meta.word()), (Meta::default(), 0));
    assert_eq!((meta.ip_checksum(), meta.l4_checksum()), (Checksum::Unknown, Checksum::Unknown));
    assert_eq!((meta.segmentation(), meta.vlan(), meta.hash()), (None, None, None));
    assert!(meta.is_complete());
}

#[test]
fn the_bits_are_those_of_the_picture() {
    let meta = Meta::default();
    for (meta, word) in [
        (meta.with_hash(0xdead_beef), 0x1_dead_beef),
        (meta.with_ip_checksum(Checksum::Requested), 1 << 35),
        (meta.with_ip_checksum(Checksum::Good), 2 << 35),
        (meta.with_l4_checksum(Checksum::Requested), 1 << 37),
        (meta.with_l4_checksum(Checksum::Good), 2 << 37),
        (meta.with_segmentation(Segmentation::tcp_ipv4(1448)), 1 << 37 | 1 << 33 | 1448),
        (meta.with_segmentation(Segmentation::tcp_ipv6(1428)), 1 << 37 | 2 << 33 | 1428),
        (meta.with_segmentation(Segmentation::udp(1200)), 1 << 37 | 3 << 33 | 1200),
        (meta.with_mark(0xbeef), 1 << 40 | 0xbeef << 16),
        (
            meta.with_segmentation(Segmentation::udp(1200)).with_mark(7),
            1 << 40 | 1 << 37 | 3 << 33 | 7 << 16 | 1200,
        ),
        (meta.with_vlan(Tci::new(0)), 1 << 39),
        (meta.with_vlan(Tci::new(0xe00f)), 0xe00f << 48 | 1 << 39),
    ] {
        assert_eq!(meta.word(), word, "{meta:?}");
        assert_eq!(Meta::from_word(word), meta);
    }
}

#[test]
fn a_hash_is_what_receive_side_scaling_writes() {
    assert_eq!((Meta::HASHED, Meta::MARKED), (ccnic::rss::HASHED, ccnic::rss::MARKED));
    let meta = Meta::from_word(ccnic::rss::HASHED | 0x51cc_c178);
    assert_eq!(meta, Meta::default().with_hash(0x51cc_c178));
    assert_eq!(meta.hash(), Some(0x51cc_c178));
}

#[test]
fn a_super_packet_has_no_hash_and_no_checksum() {
    let cut = Segmentation::udp(1200);
    let meta = Meta::default().with_hash(5).with_l4_checksum(Checksum::Good).with_segmentation(cut);
    assert_eq!(
        (meta.hash(), meta.l4_checksum(), meta.segmentation()),
        (None, Checksum::Requested, Some(cut))
    );
    assert_eq!(meta.with_hash(5), meta);
    assert_eq!(meta.with_l4_checksum(Checksum::Unknown), meta);
    let said = 1 << 33 | 2 << 37 | Meta::HASHED | 0xabcd_05a8;
    assert_eq!(Meta::from_word(said), Meta::default().with_segmentation(Segmentation::tcp_ipv4(0x5a8)));
}

#[test]
fn codes_without_a_meaning_say_nothing() {
    assert_eq!(Meta::from_word(3 << 35 | 3 << 37), Meta::default());
    assert_eq!(Meta::from_word(!KNOWN), Meta::default());
    assert_eq!(Meta::from_word(77), Meta::default(), "what programs put there before");
    assert_eq!(Meta::from_word(5 << 48), Meta::default(), "a tag that is not valid");
}

#[test]
fn a_sender_requests_and_knows_nothing() {
    let requests = Meta::default().with_ip_checksum(Checksum::Requested).with_vlan(Tci::new(9));
    assert_eq!(requests.with_l4_checksum(Checksum::Good).with_hash(77).requests(), requests);
    let good = Meta::default().with_ip_checksum(Checksum::Good);
    assert_eq!(good.with_l4_checksum(Checksum::Good).requests(), Meta::default());
    let cut = requests.with_segmentation(Segmentation::tcp_ipv6(1000));
    assert_eq!(cut.requests(), cut);
    assert_eq!(Meta::REQUESTS, 0xffff_00ae_0000_ffff, "CCNIC_META_REQUESTS");
}

proptest! {
    #[test]
    fn any_word_is_decoded(word in any::<u64>()) {
        let meta = Meta::from_word(word);
        prop_assert_eq!(Meta::from_word(meta.word()), meta);
        prop_assert_eq!(meta.word() & !KNOWN, 0);
        prop_assert!(meta.hash().is_none() || meta.segmentation().is_none() && meta.mark().is_none());
        prop_assert_eq!(meta.requests().mark(), None);
        prop_assert_eq!(meta.requests().requests(), meta.requests());
        prop_assert_eq!(Meta::from_word(meta.word() & Meta::REQUESTS), meta.requests());
        let cut = Meta::from_word(word & Meta::REQUESTS);
        prop_assert_eq!((cut, cut.hash(), cut.mark()), (cut.requests(), None, None));
        let complete = meta.ip_checksum() != Checksum::Requested && meta.l4_checksum() != Checksum::Requested;
        let complete = complete && meta.segmentation().is_none() && meta.vlan().is_none();
        prop_assert_eq!(meta.is_complete(), complete);
    }

    #[test]
    fn fields_do_not_touch_each_other(
        word: u64, kind in kind(), size: u16, tci: u16, hash: u32, mark: u16, ip in checksum(), l4 in checksum(),
    ) {
        let meta = Meta::from_word(word).with_ip_checksum(ip).with_vlan(Tci::new(tci));
        let (tag, cut) = (Some(Tci::new(tci)), Segmentation { kind, size });
        let whole = Meta::from_word(word & !(3 << 33)).with_hash(hash).with_vlan(Tci::new(tci)).with_l4_checksum(l4);
        prop_assert_eq!((whole.hash(), whole.l4_checksum(), whole.vlan()), (Some(hash), l4, tag));
        let large = meta.with_segmentation(cut);
        prop_assert_eq!((large.segmentation(), large.ip_checksum(), large.vlan()), (Some(cut), ip, tag));
        prop_assert_eq!((large.l4_checksum(), large.hash()), (Checksum::Requested, None));
        for before in [whole, large] {
            let marked = before.with_mark(mark);
            prop_assert_eq!((marked.mark(), marked.hash()), (Some(mark), None));
            prop_assert_eq!((marked.segmentation(), marked.l4_checksum()), (before.segmentation(), before.l4_checksum()));
            prop_assert_eq!((marked.vlan(), marked.ip_checksum()), (before.vlan(), before.ip_checksum()));
            prop_assert_eq!(Meta::from_word(marked.word()), marked);
            prop_assert_eq!(marked.without_mark().mark(), None);
            prop_assert_eq!(marked.without_mark().with_mark(mark), marked);
        }
        prop_assert_eq!(whole.with_mark(mark).with_hash(hash), whole);
        prop_assert_eq!(large.without_vlan().vlan(), None);
        prop_assert_eq!(large.without_vlan().with_vlan(Tci::new(tci)), large);
    }
}
