//! The address table: room, age, limits; generated steps beside a model.

use std::collections::BTreeMap;

use super::super::MAX_PORTS;
use super::super::frame::Mac;
use super::*;
use proptest::prelude::*;

/// Station `n`, each third one in a VLAN.
fn mac(n: u32) -> Station {
    let [a, b, c, d] = n.to_be_bytes();
    Station::new(Mac::new([2, 0, a, b, c, d]), if n.is_multiple_of(3) { 7 } else { 0 })
}

/// With keys that are always the same: with others two buckets may be full of neighbours, if rarely.
fn table(addresses: usize, per_port: u32) -> MacTable {
    let keys = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
    MacTable { keys, ..MacTable::new(MAX_PORTS, TableLimits { addresses, per_port, ageing: 300 }) }
}

fn learns(table: &mut MacTable, n: u32, port: PortId) -> bool {
    table.learn(mac(n), port) != Learned::Refused
}

/// As many ticks as it takes to look at everything.
fn pass_to(table: &mut MacTable, now: u32) {
    (0..table.buckets.len()).for_each(|_| table.tick(now));
}

fn all(table: &MacTable) -> Vec<Known> {
    let (mut all, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let (page, next) = table.page(at, 7);
        assert!(page.len() <= 7 * WAYS);
        all.extend(page);
        from = next;
    }
    all.sort_unstable();
    all
}

#[test]
fn a_bucket_is_a_cache_line() {
    assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
}

#[test]
fn a_fixed_entry_neither_ages_nor_moves_and_goes_with_its_port() {
    let mut table = table(2, 1);
    assert!(learns(&mut table, 1, 4) && learns(&mut table, 2, 5));
    assert_ne!(table.fix(mac(1), 6), Learned::Refused, "it was learned elsewhere");
    assert_ne!(table.fix(mac(3), 6), Learned::Refused, "beyond all limits");
    assert_eq!(table.fix(mac(3), 7), Learned::Refused, "it is fixed already");
    assert!(!learns(&mut table, 1, 4), "no frame moves it");
    assert!(learns(&mut table, 1, 6) && learns(&mut table, 8, 4), "and 4 may learn another");
    pass_to(&mut table, 1000);
    let fixed = |n: u32| Known { station: mac(n), port: 6, age: 0, fixed: true };
    let mut left = all(&table);
    left.sort_unstable_by_key(|known| known.station.mac());
    assert_eq!(left, [fixed(1), fixed(3)]);
    table.forget(6);
    assert!(table.is_empty() && learns(&mut table, 1, 4));
}

#[test]
fn the_same_address_in_two_vlans_is_two_stations() {
    let mut table = table(10, 10);
    let at = |vlan| Station::new(Mac::new([2, 0, 0, 0, 0, 9]), vlan);
    table.learn(at(0), 1);
    table.learn(at(10), 2);
    table.learn(at(4094), 3);
    assert_eq!([0, 10, 4094, 11].map(|vlan| table.port_of(at(vlan))), [Some(1), Some(2), Some(3), None]);
}

#[test]
fn addresses_age_from_when_they_were_last_seen() {
    let mut table = table(100, 10);
    pass_to(&mut table, 1000);
    assert!(learns(&mut table, 1, 4) && learns(&mut table, 2, 5));
    pass_to(&mut table, 1200);
    assert!(learns(&mut table, 1, 4));
    pass_to(&mut table, 1299);
    assert_eq!(all(&table).iter().map(|known| known.age).collect::<Vec<_>>(), [99, 299]);
    pass_to(&mut table, 1300);
    assert_eq!((table.port_of(mac(1)), table.port_of(mac(2)), table.len()), (Some(4), None, 1));
    let Learned::At(place) = table.learn(mac(1), 4) else { panic!() };
    pass_to(&mut table, 1500);
    table.seen(place);
    pass_to(&mut table, 1799);
    assert_eq!(table.port_of(mac(1)), Some(4));
    pass_to(&mut table, 1800);
    assert!(table.is_empty());
}

#[test]
fn an_address_moves_and_the_table_says_that_it_changed() {
    let mut table = table(100, 2);
    assert!(learns(&mut table, 1, 4));
    let before = table.changes();
    assert!(learns(&mut table, 1, 4));
    assert_eq!(table.changes(), before, "nothing new");
    assert!(learns(&mut table, 1, 6));
    assert_eq!((table.port_of(mac(1)), table.len()), (Some(6), 1));
    assert_ne!(table.changes(), before);
    assert_eq!((table.count(4), table.count(6)), (0, 1));
    assert!(learns(&mut table, 2, 6) && !learns(&mut table, 3, 6), "two a port");
    assert!(learns(&mut table, 3, 4) && !learns(&mut table, 3, 6), "it stays where there is room");
    assert_eq!(table.port_of(mac(3)), Some(4));
    table.forget(6);
    assert_eq!((table.len(), table.port_of(mac(1)), table.port_of(mac(3))), (1, None, Some(4)));
    assert!(learns(&mut table, 9, 6), "there is room again");
}

#[test]
fn ports_that_fill_the_table_leave_room_for_one_address_of_each_other() {
    let mut table = table(512, 256);
    for n in 0..100_000 {
        learns(&mut table, n, (n % 7) as PortId);
    }
    assert!(table.len() >= 500 && table.len() <= 512, "{}", table.len());
    for port in 7..MAX_PORTS as PortId {
        assert!(learns(&mut table, 1_000_000 + u32::from(port), port), "port {port}");
        assert!(!learns(&mut table, 2_000_000 + u32::from(port), port), "one only");
    }
    assert_eq!(table.port_of(mac(1_000_200)), Some(200));
    assert!(table.counts.iter().all(|count| *count <= 256));
}

#[test]
fn all_addresses_find_room_in_a_table_that_is_not_full() {
    let mut table = table(4096, 4096);
    let refused = (0..4096).filter(|n| !learns(&mut table, n * 8, 1)).count();
    assert_eq!(refused, 0, "of 4096");
    assert!((0..4096).all(|n| table.port_of(mac(n * 8)) == Some(1)));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Learn(u32, PortId),
    Forget(PortId),
    Pass(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let port = 0..6 as PortId;
    prop_oneof![
        20 => (0..60u32, port.clone()).prop_map(|(n, port)| Step::Learn(n, port)),
        1 => port.prop_map(Step::Forget),
        2 => (1..200u32).prop_map(Step::Pass),
    ]
}

proptest! {
    /// The table against a map, with limits that are reached.
    #[test]
    fn a_table_is_a_map_with_limits(steps in prop::collection::vec(step(), 1..400)) {
        let (most, per_port) = (30, 8);
        let mut table = table(most, per_port);
        let mut model: BTreeMap<u32, (PortId, u32)> = BTreeMap::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Learn(n, port) => {
                    let of = |port| model.values().filter(|(at, _)| *at == port).count();
                    let room = of(port) < per_port as usize;
                    let fits = match model.get(&n) {
                        Some((at, _)) => *at == port || room,
                        None => room && (model.len() < most || of(port) == 0),
                    };
                    prop_assert_eq!(learns(&mut table, n, port), fits);
                    if fits {
                        model.insert(n, (port, now));
                    }
                }
                Step::Forget(port) => {
                    table.forget(port);
                    model.retain(|_, (at, _)| *at != port);
                }
                Step::Pass(seconds) => {
                    now += seconds;
                    pass_to(&mut table, now);
                    model.retain(|_, (_, seen)| now - *seen < 300);
                }
            }
            let mut expected: Vec<_> = model.iter()
                .map(|(n, (port, seen))| Known { station: mac(*n), port: *port, age: now - seen, fixed: false })
                .collect();
            expected.sort_unstable();
            prop_assert_eq!(all(&table), expected);
            prop_assert!((0..60).all(|n| table.port_of(mac(n)) == model.get(&n).map(|(port, _)| *port)));
            prop_assert_eq!(table.len(), model.len());
        }
    }
}
