//! VLAN tags.

mod common;

use ccnic_frame::{Tci, vlan};
use common::{Shape, noise, parse};

#[test]
fn a_tag_has_three_fields() {
    let tci = Tci::new(0xb00c); // priority 5, drop eligible
    assert_eq!((tci.vid(), tci.priority(), tci.get()), (12, 5, 0xb00c));
    assert_eq!(tci.with_vid(0xf_fff), Tci::new(0xbfff));
}

#[test]
fn what_is_inserted_is_stripped() {
    for tags in 0..=2 {
        let shape = Shape { tags, ..Shape::TCP6 };
        let frame = shape.frame(&noise(100));
        let mut room = [vec![0xee; vlan::TAG], frame.clone()].concat();
        assert!(vlan::insert(&mut room, Tci::new(0x2005)));
        assert_eq!(vlan::outer(&room), Some(Tci::new(0x2005)));
        assert_eq!((&room[..12], &room[16..]), (&frame[..12], &frame[12..]));
        if tags < 2 {
            let headers = parse(&room);
            assert_eq!((headers.tags, headers.l4_at), (tags + 1, shape.l4_at() + 4));
        }
        assert_eq!(vlan::strip(&mut room), Some(Tci::new(0x2005)));
        assert_eq!(room[vlan::TAG..], frame);
    }
}

#[test]
fn only_tags_of_8021q_are_stripped() {
    let mut service = Shape { tags: 2, ..Shape::UDP4 }.frame(&[1, 2, 3]); // the outer one is of 802.1ad
    let before = service.clone();
    assert_eq!((vlan::outer(&service), vlan::strip(&mut service)), (None, None));
    assert_eq!(service, before);
    let mut plain = Shape::UDP4.frame(&[1, 2, 3]);
    assert_eq!(vlan::strip(&mut plain), None);
}

#[test]
fn what_is_no_frame_stays_as_it_is() {
    for len in 0..18 {
        let mut short = vec![0x81; len];
        assert!(!vlan::insert(&mut short, Tci::new(1)), "{len}");
        let tagged = [&[3; 12][..], &[0x81, 0, 0, 5, 8, 0]].concat();
        let mut cut = tagged[..len].to_vec();
        assert_eq!(vlan::strip(&mut cut), None, "{len}");
        assert_eq!((short, cut), (vec![0x81; len], tagged[..len].to_vec()));
    }
}
