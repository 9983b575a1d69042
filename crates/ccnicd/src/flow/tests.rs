//! Tables against a linear search, in packets of every kind; limits of a book; tables that grow.

use std::net::IpAddr;

use ccnic::rss::{Fate, FlowRules, START};
use ccnic_control::flow::{FIRST_OF_OPERATOR, FlowMatch, FlowRule, FlowTarget, SCTP, TCP, UDP};
use ccnic_frame::{Checksum, Meta, Segmentation, Tci};
use proptest::prelude::*;

use super::table::REACH;
use super::*;

/// What lies in an IP packet.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Inside {
    /// Of TCP, UDP or SCTP.
    Ports(u8, u16, u16),
    Other(u8),
    Fragment,
}

/// A packet. Addresses and so on are a few numbers, so that rules and packets meet.
#[derive(Debug, Clone)]
struct Packet {
    macs: [u8; 2],
    tag: Option<u16>,
    beside: Option<u16>,
    ip: Option<(bool, [u8; 2], Inside)>,
}

fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

fn ip(six: bool, n: u8) -> IpAddr {
    if six {
        IpAddr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n])
    } else {
        IpAddr::from([10, 0, 0, n])
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [mac(self.macs[0]), mac(self.macs[1])].concat();
        self.tag.into_iter().for_each(|tag| bytes.extend([0x81, 0, 0x20 | (tag >> 8) as u8, tag as u8]));
        let Some((six, [src, dst], inside)) = self.ip else {
            bytes.extend([0x88, 0xb5]);
            return [bytes, vec![0; 40]].concat();
        };
        let (protocol, payload) = match inside {
            Inside::Ports(protocol, source, destination) => {
                let mut payload = [source.to_be_bytes(), destination.to_be_bytes()].concat();
                payload.extend(if protocol == UDP { [0, 24] } else { [0, 0] });
                payload.resize(24, 0x50); // the length of a TCP header, too
                (protocol, payload)
            }
            Inside::Other(protocol) => (protocol, vec![0; 24]),
            Inside::Fragment => (UDP, vec![0; 24]),
        };
        if six {
            let fragment = inside == Inside::Fragment;
            let next = if fragment { 44 } else { protocol };
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24 + 8 * u8::from(fragment), next, 64]);
            [src, dst].into_iter().for_each(|n| bytes.extend(octets(ip(true, n))));
            bytes.extend(if fragment { vec![UDP, 0, 0, 1, 0, 0, 0, 9] } else { vec![] });
        } else {
            let flags = if inside == Inside::Fragment { 0x20 } else { 0x40 };
            bytes.extend([8, 0, 0x45, 0, 0, 44, 0, 1, flags, 0, 64, protocol, 0, 0]);
            [src, dst].into_iter().for_each(|n| bytes.extend(octets(ip(false, n))));
        }
        bytes.extend(payload);
        bytes
    }

    fn meta(&self) -> u64 {
        let meta = self.beside.map_or(Meta::default(), |tag| Meta::default().with_vlan(Tci::new(tag)));
        meta.with_ip_checksum(Checksum::Requested).word()
    }

    /// The reference: field by field, of what the packet was made of.
    fn is_matched(&self, by: &FlowMatch) -> bool {
        fn says<T: PartialEq>(rule: Option<T>, packet: Option<T>) -> bool {
            rule.is_none() || rule == packet
        }
        let (mut addresses, mut protocol, mut ports, mut kind) = ([None; 2], None, [None; 2], 0x88b5);
        if let Some((six, [src, dst], inside)) = self.ip {
            kind = if six { 0x86dd } else { 0x0800 };
            addresses = [src, dst].map(|n| Some(ip(six, n)));
            match inside {
                Inside::Ports(of, source, destination) => {
                    (protocol, ports) = (Some(of), [Some(source), Some(destination)]);
                }
                Inside::Other(of) => protocol = Some(of),
                Inside::Fragment => {}
            }
        }
        says(by.dst_mac, Some(mac(self.macs[0])))
            && says(by.src_mac, Some(mac(self.macs[1])))
            && says(by.vlan, self.beside.or(self.tag))
            && says(by.ether_type, Some(kind))
            && says(by.protocol, protocol)
            && says(by.src_ip, addresses[0])
            && says(by.dst_ip, addresses[1])
            && says(by.src_port, ports[0])
            && says(by.dst_port, ports[1])
    }
}

fn maybe<T: std::fmt::Debug + Clone + 'static>(
    of: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Option<T>> {
    prop_oneof![2 => Just(None), 1 => of.prop_map(Some)].boxed()
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), Just(1), Just(53)]
}

fn packet() -> impl Strategy<Value = Packet> {
    let inside = prop_oneof![
        4 => (prop_oneof![Just(TCP), Just(UDP), Just(SCTP)], port(), port()).prop_map(|(of, a, b)| Inside::Ports(of, a, b)),
        1 => prop_oneof![Just(89), Just(0xfe)].prop_map(Inside::Other),
        1 => Just(Inside::Fragment),
    ];
    let ip = prop_oneof![1 => Just(None), 5 => (any::<bool>(), [0..2u8, 0..2u8], inside).prop_map(Some)];
    ([0..2u8, 0..2u8], maybe(0..3u16), maybe(0..3u16), ip).prop_map(|(macs, tag, beside, ip)| Packet {
        macs,
        tag,
        beside,
        ip,
    })
}

fn matches() -> impl Strategy<Value = FlowMatch> {
    let macs = (maybe((0..2u8).prop_map(mac)), maybe((0..2u8).prop_map(mac)), maybe(0..3u16));
    let address = || maybe((any::<bool>(), 0..2u8).prop_map(|(six, n)| ip(six, n)));
    let kind = maybe(prop_oneof![Just(0x0800), Just(0x86dd), Just(0x88b5)]);
    let protocol = maybe(prop_oneof![Just(TCP), Just(UDP), Just(SCTP), Just(89)]);
    (macs, kind, protocol, address(), address(), maybe(port()), maybe(port())).prop_map(
        |((dst_mac, src_mac, vlan), ether_type, protocol, src_ip, dst_ip, src_port, dst_port)| FlowMatch {
            dst_mac,
            src_mac,
            vlan,
            ether_type,
            protocol,
            src_ip,
            dst_ip,
            src_port,
            dst_port,
        },
    )
}

fn rule() -> impl Strategy<Value = FlowRule> {
    let to =
        prop_oneof![Just(FlowTarget::Rss), (0..4u16).prop_map(FlowTarget::Queue), Just(FlowTarget::Drop)];
    let rule = (0..3u32, matches(), to, maybe(any::<u16>()));
    rule.prop_map(|(priority, matches, to, mark)| FlowRule { priority, matches, to, mark })
        .prop_filter("a rule that may be", |rule| rule.check(4).is_ok())
}

/// What is decided about a packet: where it goes, its mark, by which rule.
type Decision = (Fate, Option<u16>, Option<u32>);

/// Looks at all rules.
fn by_search(rules: &[(u32, FlowRule)], packet: &Packet) -> Decision {
    let about = rules.iter().filter(|(_, rule)| packet.is_matched(&rule.matches));
    let first = about.min_by_key(|(id, rule)| (*id < FIRST_OF_OPERATOR, rule.priority, *id));
    first.map_or((Fate::Default, None, None), |(id, rule)| {
        let fate = match rule.to {
            FlowTarget::Rss => Fate::Default,
            FlowTarget::Queue(queue) => Fate::Queue(queue),
            FlowTarget::Drop => Fate::Drop,
        };
        (fate, rule.mark, Some(*id))
    })
}

/// Packets and bytes that each rule counts.
fn counts(book: &FlowBook) -> Vec<(u32, u64, u64)> {
    book.page(0).rules.iter().map(|entry| (entry.id, entry.packets, entry.bytes)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_table_decides_as_a_search_does(
        rules in prop::collection::vec((any::<bool>(), rule()), 0..24),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        packets in prop::collection::vec(packet(), 1..40),
    ) {
        let mut book = FlowBook::new(2, &[]).unwrap();
        let owner = |operator: bool| if operator { Owner::Operator } else { Owner::Program };
        let mut known: Vec<_> = rules.iter().filter_map(|(operator, rule)| Some((book.create(None, owner(*operator), *rule).ok()?, *rule))).collect();
        for index in removed.iter().filter(|_| !known.is_empty()).collect::<Vec<_>>() {
            if known.is_empty() { break; }
            let (id, _) = known.remove(index.index(known.len()));
            book.destroy(id, id >= FIRST_OF_OPERATOR).unwrap();
        }
        let tables = [0, 1].map(|worker| book.table(worker).unwrap());
        prop_assert_eq!(tables[0].is_none(), known.is_empty());
        let mut expected: Vec<_> = book.page(0).rules.iter().map(|entry| (entry.id, 0, 0)).collect();
        for (n, packet) in packets.iter().enumerate() {
            let Some(table) = &tables[n % 2] else { break };
            let (bytes, sent) = (packet.bytes(), packet.meta());
            let start = &bytes[..bytes.len().min(START)];
            let (fate, meta) = table.decide(start, bytes.len() as u32, sent, sent);
            let (right, mark, id) = by_search(&known, packet);
            prop_assert_eq!((fate, Meta::from_word(meta).mark()), (right, mark), "{:?}", packet);
            prop_assert_eq!(Meta::from_word(meta).without_mark().word(), sent);
            expected.iter_mut().filter(|(of, ..)| Some(*of) == id).for_each(|(_, packets, total)| {
                (*packets, *total) = (*packets + 1, *total + bytes.len() as u64);
            });
        }
        prop_assert_eq!(counts(&book), expected);
    }

    #[test]
    fn any_bytes_are_decided_about(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..128usize, sent: u64, packet in packet()) {
        let mut book = FlowBook::new(1, &[]).unwrap();
        for (n, (matches, to)) in [
            (FlowMatch { dst_port: Some(0), protocol: Some(UDP), ..FlowMatch::default() }, FlowTarget::Queue(1)),
            (FlowMatch { vlan: Some(0), ..FlowMatch::default() }, FlowTarget::Queue(2)),
            (FlowMatch { dst_ip: Some(ip(false, 0)), ..FlowMatch::default() }, FlowTarget::Queue(3)),
        ].into_iter().enumerate() {
            book.create(Some(n as u32), Owner::Program, FlowRule { priority: 0, matches, to, mark: Some(1) }).unwrap();
        }
        let table = book.table(0).unwrap().unwrap();
        for bytes in [bytes, packet.bytes()] {
            let start = &bytes[..bytes.len().min(cut)];
            let (fate, meta) = table.decide(start, bytes.len() as u32, sent, sent);
            prop_assert!(fate != Fate::Drop);
            prop_assert_eq!(Meta::from_word(meta).mark(), if fate == Fate::Default { None } else { Some(1) });
        }
    }
}

fn rule_of(matches: FlowMatch, to: FlowTarget) -> FlowRule {
    FlowRule { matches, to, ..FlowRule::default() }
}

fn udp_to(port: u16) -> FlowMatch {
    FlowMatch { protocol: Some(UDP), dst_port: Some(port), ..FlowMatch::default() }
}

#[test]
fn as_many_rules_as_there_may_be_are_all_found_within_reach() {
    let mut book = FlowBook::new(1, &[]).unwrap();
    for n in 0..256 {
        book.create(None, Owner::Program, rule_of(udp_to(n), FlowTarget::Queue(n))).unwrap();
    }
    let why = book.create(None, Owner::Program, rule_of(udp_to(999), FlowTarget::Drop)).unwrap_err();
    assert_eq!(why, "a program may have 256 flow rules; destroy another one first");
    book.create(None, Owner::Operator, rule_of(udp_to(300), FlowTarget::Drop)).unwrap();
    let packet = |port| {
        let inside = Inside::Ports(UDP, 7, port);
        Packet { macs: [0; 2], tag: None, beside: None, ip: Some((false, [0; 2], inside)) }.bytes()
    };
    for _ in 0..50 {
        // Hash functions are chosen by chance: each of them must do.
        let table = book.table(0).unwrap().unwrap();
        for port in 0..300 {
            let bytes = packet(port);
            let fate = if port < 256 { Fate::Queue(port) } else { Fate::Default };
            assert_eq!(
                table.decide(&bytes, bytes.len() as u32, 0, 0),
                (fate, 0),
                "port {port}, reach {REACH}"
            );
        }
        let bytes = packet(300);
        assert_eq!(table.decide(&bytes, bytes.len() as u32, 0, 0).0, Fate::Drop);
    }
    let page = book.page(0);
    assert_eq!((page.rules.len(), page.next), (128, Some(128)));
    let last = book.page(256);
    assert_eq!((last.rules[0].id, last.rules[0].packets, last.next), (FIRST_OF_OPERATOR, 50, None));
}

#[test]
fn limits_and_owners() {
    let mut book = FlowBook::new(1, &[(7, rule_of(udp_to(1), FlowTarget::Drop))]).unwrap();
    let error = |outcome: Result<u32, String>| outcome.unwrap_err();
    assert!(
        error(book.create(Some(7), Owner::Program, rule_of(udp_to(2), FlowTarget::Rss)))
            .starts_with("id is 7, which")
    );
    let same = error(book.create(None, Owner::Program, rule_of(udp_to(1), FlowTarget::Queue(1))));
    assert!(same.starts_with("flow rule 7 has the same match and priority"), "{same}");
    let later = FlowRule { priority: 1, ..rule_of(udp_to(1), FlowTarget::Queue(1)) };
    assert_eq!(book.create(None, Owner::Program, later), Ok(0));
    assert_eq!(
        book.create(None, Owner::Operator, rule_of(udp_to(1), FlowTarget::Queue(2))),
        Ok(FIRST_OF_OPERATOR)
    );
    // Seven further sets of fields, and no eighth.
    let some = [
        FlowMatch { vlan: Some(1), ..FlowMatch::default() },
        FlowMatch { dst_mac: Some(mac(1)), ..FlowMatch::default() },
        FlowMatch { src_mac: Some(mac(1)), ..FlowMatch::default() },
        FlowMatch { ether_type: Some(0x0806), ..FlowMatch::default() },
        FlowMatch { src_ip: Some(ip(false, 1)), ..FlowMatch::default() },
        FlowMatch { dst_ip: Some(ip(true, 1)), ..FlowMatch::default() },
        FlowMatch { protocol: Some(1), ..FlowMatch::default() },
    ];
    for matches in some {
        book.create(None, Owner::Program, rule_of(matches, FlowTarget::Rss)).unwrap();
    }
    let why = error(book.create(None, Owner::Program, rule_of(FlowMatch::default(), FlowTarget::Rss)));
    assert!(
        why.starts_with("match names a 9th set of fields, and the flow rules of a program may name 8"),
        "{why}"
    );
    book.create(None, Owner::Operator, rule_of(FlowMatch::default(), FlowTarget::Rss)).unwrap();
    // Who may destroy what.
    assert!(book.destroy(FIRST_OF_OPERATOR, false).unwrap_err().contains("is the operator's"));
    assert!(book.destroy(7, true).unwrap_err().contains("is the program's own"));
    assert!(book.destroy(99, false).unwrap_err().contains("there is no flow rule 99"));
    assert!(book.query(99).is_err() && book.query(7).is_ok());
    book.destroy(7, false).unwrap();
    book.flush(false);
    let left: Vec<_> = book.page(0).rules.iter().map(|entry| entry.id).collect();
    assert_eq!(left, [FIRST_OF_OPERATOR, FIRST_OF_OPERATOR + 1]);
    book.flush(true);
    assert!(book.is_empty() && book.table(0).unwrap().is_none());
}

#[test]
fn a_mark_takes_the_place_of_a_hash_and_a_senders_mark_is_none() {
    let marked = FlowRule {
        mark: Some(0xbeef),
        ..rule_of(FlowMatch { vlan: Some(5), ..FlowMatch::default() }, FlowTarget::Rss)
    };
    let book = FlowBook::new(1, &[(0, marked)]).unwrap();
    let table = book.table(0).unwrap().unwrap();
    let cut = Meta::default().with_segmentation(Segmentation::tcp_ipv4(1000)).with_vlan(Tci::new(5));
    let decide =
        |sent: Meta, meta: Meta| Meta::from_word(table.decide(&[0; 60], 60, sent.word(), meta.word()).1);
    assert_eq!(decide(cut, cut), cut.with_mark(0xbeef));
    let hash = Meta::default().with_hash(77);
    assert_eq!(decide(cut, hash), Meta::default().with_mark(0xbeef), "the tag counts that it was sent with");
    assert_eq!(decide(hash, hash), hash);
    assert_eq!(decide(Meta::default().with_mark(3), Meta::default().with_mark(3)), Meta::default());
}

#[test]
fn counters_go_on_when_other_rules_change() {
    let mut book = FlowBook::new(2, &[(0, rule_of(FlowMatch::default(), FlowTarget::Drop))]).unwrap();
    let mut total = 0;
    for round in 1..10u32 {
        for worker in [0, 1] {
            let table = book.table(worker).unwrap().unwrap();
            (0..round).for_each(|_| assert_eq!(table.decide(&[0; 60], 60, 0, 0).0, Fate::Drop));
            total += u64::from(round);
        }
        book = book.clone();
        book.create(
            Some(round),
            Owner::Program,
            FlowRule { priority: round, ..rule_of(udp_to(1), FlowTarget::Rss) },
        )
        .unwrap();
        let entry = book.query(0).unwrap().rules[0];
        assert_eq!((entry.packets, entry.bytes), (total, 60 * total));
    }
}

#[test]
fn rules_of_the_configuration_are_the_operators_and_stay_with_their_counters() {
    use ccnic_control::flow::FIRST_OF_CONFIGURATION as FIRST;
    let (one, two) = (rule_of(udp_to(1), FlowTarget::Drop), rule_of(udp_to(2), FlowTarget::Queue(1)));
    let mut book = FlowBook::new(1, &[(0, rule_of(udp_to(1), FlowTarget::Queue(3)))]).unwrap();
    book.create(None, Owner::Operator, rule_of(udp_to(3), FlowTarget::Rss)).unwrap();
    let book = book.configured(&[(FIRST, one), (FIRST + 1, two)]).unwrap();
    assert!(book.is_configured(&[(FIRST, one), (FIRST + 1, two)]) && !book.is_configured(&[(FIRST, two)]));
    let ip = Some((false, [0, 1], Inside::Ports(UDP, 9, 1)));
    let to_one = Packet { macs: [0, 1], tag: None, beside: None, ip }.bytes();
    assert_eq!(
        book.table(0).unwrap().unwrap().decide(&to_one, 60, 0, 0).0,
        Fate::Drop,
        "before the program's"
    );
    // The same rule under another number counts on; the operator's other rule and the program's are untouched.
    let later = book.configured(&[(FIRST, two), (FIRST + 1, one)]).unwrap();
    let hits: Vec<_> = counts(&later).into_iter().map(|(id, packets, _)| (id, packets)).collect();
    assert_eq!(hits, [(0, 0), (FIRST_OF_OPERATOR, 0), (FIRST, 0), (FIRST + 1, 1)]);
    let mut none = later.configured(&[]).unwrap();
    assert!(none.is_configured(&[]) && counts(&none).len() == 2);
    // Nobody takes them away by a request, and both kinds of the operator's have one limit.
    let mut later = later;
    assert!(
        later
            .destroy(FIRST, true)
            .unwrap_err()
            .contains("number 1 of the configuration's flow rules; take it out")
    );
    assert!(later.destroy(FIRST, false).unwrap_err().contains("is the operator's"));
    later.flush(true);
    assert_eq!(counts(&later).iter().map(|(id, ..)| *id).collect::<Vec<_>>(), [0, FIRST, FIRST + 1]);
    let same = later.create(None, Owner::Operator, one).unwrap_err();
    assert!(same.starts_with("number 2 of the configuration's flow rules has the same match"), "{same}");
    let taken = none.create(Some(FIRST), Owner::Operator, one).unwrap_err();
    assert!(taken.starts_with("id is 3221225472"), "{taken}");
    let most: Vec<_> =
        (0..65).map(|n| (FIRST + n, rule_of(udp_to(100 + n as u16), FlowTarget::Drop))).collect();
    assert!(none.configured(&most).unwrap_err().contains("64 flow rules"));
    none.create(None, Owner::Operator, rule_of(udp_to(99), FlowTarget::Drop)).unwrap();
    assert!(none.configured(&most[..63]).is_err() && none.configured(&most[..62]).is_ok());
}
