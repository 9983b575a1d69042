//! The store against a model that is a map, its memory bound, eviction, expiry, replies in flight, snapshots.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const NOW: u32 = 1_700_000_000;

fn store(shards: usize, memory: usize) -> Store {
    Store::new(shards, &Limits { memory, ..Limits::default() }, NOW - 10)
}

/// Value and when it expires.
type Model = HashMap<Vec<u8>, (Vec<u8>, u32)>;

#[derive(Clone, Debug)]
enum Step {
    Update(u8, Mode, Vec<u8>, u32),
    Delete(u8),
    Get(u8),
    Wait(u32),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let modes = vec![Mode::Set, Mode::Add, Mode::Replace, Mode::Append, Mode::Prepend];
    let value = prop::collection::vec(any::<u8>(), 0..40);
    let update = (0u8..8, prop::sample::select(modes), value, 0u32..4);
    prop_oneof![
        6 => update.prop_map(|(key, mode, value, ttl)| Step::Update(key, mode, value, ttl)),
        2 => (0u8..8).prop_map(Step::Delete),
        4 => (0u8..8).prop_map(Step::Get),
        1 => (0u32..3).prop_map(Step::Wait),
        1 => Just(Step::Flush),
    ]
}

fn update_model(model: &mut Model, key: Vec<u8>, mode: Mode, value: &[u8], expires: u32) -> bool {
    let old = model.get(&key).cloned();
    let new = match (mode, old) {
        (Mode::Set, _) | (Mode::Add, None) | (Mode::Replace, Some(_)) => (value.to_vec(), expires),
        (Mode::Append, Some((old, expires))) => ([&old[..], value].concat(), expires),
        (Mode::Prepend, Some((old, expires))) => ([value, &old[..]].concat(), expires),
        _ => return false,
    };
    model.insert(key, new);
    true
}

fn check_against_model(shards: usize, steps: Vec<Step>) {
    let store = store(shards, 1 << 20);
    let (mut model, mut now) = (Model::new(), NOW);
    for step in steps {
        let mut session = store.session(now);
        model.retain(|_, (_, expires)| *expires == 0 || *expires > now);
        match step {
            Step::Update(key, mode, value, ttl) => {
                let expires = if ttl == 0 { 0 } else { now + ttl };
                let key = vec![key];
                let stored = session.update(&Update { mode, expires, ..Update::set(&key, &value) });
                let expected = update_model(&mut model, key, mode, &value, expires);
                assert_eq!(matches!(stored, Stored::Yes(_)), expected);
            }
            Step::Delete(key) => assert_eq!(session.delete(&[key]), model.remove(&[key][..]).is_some()),
            Step::Get(key) => {
                let found = session.get(&[key]).map(|value| value.bytes().to_vec());
                let expected = model.get(&[key][..]).map(|(value, _)| [value, &b"\r\n"[..]].concat());
                assert_eq!(found, expected);
            }
            Step::Wait(seconds) => now += seconds,
            Step::Flush => {
                session.flush(now);
                model.clear();
            }
        }
        session.sweep(0, 3);
        session.check();
    }
}

proptest! {
    #[test]
    fn a_store_is_a_map(steps in prop::collection::vec(step(), 1..200), shards in 1usize..4) {
        check_against_model(shards, steps);
    }
}

#[test]
fn memory_is_bounded_and_the_item_used_longest_ago_goes() {
    let store = store(1, 100 << 10);
    let mut session = store.session(NOW);
    session.update(&Update::set(b"canary", b"alive"));
    for number in 0..5000 {
        session.update(&Update::set(format!("key{number}").as_bytes(), &[b'x'; 100]));
        assert!(session.get(b"canary").is_some(), "an item in use stays, round {number}");
        session.check();
    }
    assert!(session.get(b"key4999").is_some() && session.get(b"key0").is_none());
    let totals = session.totals();
    assert_eq!(totals.all_classes().evicted + totals.items, 5001);
}

#[test]
fn a_reply_in_flight_keeps_its_item() {
    let store = store(1, 100 << 10);
    let mut session = store.session(NOW);
    session.update(&Update::set(b"a", &[b'1'; 10_000]));
    let value = session.get(b"a").unwrap();
    let before = session.totals().bytes;
    session.update(&Update::set(b"a", &[b'2'; 10_000]));
    assert_eq!(session.totals().bytes, before, "the client is told what is stored");
    session.delete(b"a");
    for number in 0..200 {
        session.update(&Update::set(format!("key{number}").as_bytes(), &[b'x'; 3000]));
        session.check();
    }
    assert_eq!(value.bytes(), [&[b'1'; 10_000][..], b"\r\n"].concat());
    drop(value);
    session.sweep(0, 0);
    session.check();
}

#[test]
fn replies_that_hold_all_memory_make_a_set_fail() {
    let store = store(1, 64 << 10);
    let mut session = store.session(NOW);
    let mut held = Vec::new();
    for number in 0..20u8 {
        session.update(&Update::set(&[number], &[number; 10_000]));
        held.extend(session.get(&[number]));
        session.check();
    }
    assert_eq!(session.update(&Update::set(b"more", &[0; 10_000])), Stored::OutOfMemory);
    held.clear();
    assert!(matches!(session.update(&Update::set(b"more", &[0; 10_000])), Stored::Yes(_)));
    session.check();
}

#[test]
fn times_are_memcacheds() {
    let store = store(1, 1 << 20);
    let session = store.session(NOW);
    assert_eq!(session.expiry(0), Some(0));
    assert_eq!(session.expiry(-1), Some(1));
    assert_eq!(session.expiry(2_592_000), Some(NOW + 2_592_000));
    assert_eq!(session.expiry(2_592_001), Some(1), "a time before the start is over");
    assert_eq!(session.expiry(i64::from(NOW) + 5), Some(NOW + 5));
    assert_eq!((session.expiry(1 << 31), session.expiry(1 << 32)), (Some(1 << 31), None));
}

#[test]
fn a_delayed_flush_waits() {
    let store = store(2, 1 << 20);
    store.session(NOW).update(&Update::set(b"a", b"1"));
    store.session(NOW).flush(NOW + 5);
    assert!(store.session(NOW + 3).get(b"a").is_some());
    assert!(store.session(NOW + 5).get(b"a").is_none());
    store.session(NOW + 6).update(&Update::set(b"a", b"2"));
    assert!(store.session(NOW + 6).get(b"a").is_some());
}

#[test]
fn expired_items_are_swept() {
    let store = store(1, 1 << 20);
    let mut session = store.session(NOW);
    for number in 0..100u8 {
        session.update(&Update { expires: NOW + 1, ..Update::set(&[number], b"x") });
    }
    drop(session);
    let mut session = store.session(NOW + 2);
    assert_eq!(session.totals().items, 100);
    session.sweep(0, 1000);
    assert_eq!((session.totals().items, session.totals().bytes), (0, 0));
}

fn filled() -> Store {
    let store = store(2, 1 << 20);
    let mut session = store.session(NOW);
    for number in 0..500u32 {
        let (key, value) = (number.to_le_bytes(), vec![number as u8; number as usize]);
        let expires = if number % 7 == 0 { NOW + 100 } else { 0 };
        session.update(&Update { flags: number, expires, ..Update::set(&key, &value) });
    }
    drop(session);
    store
}

#[test]
fn a_snapshot_brings_everything_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    let before = filled();
    assert_eq!(snapshot::save(&mut before.session(NOW), &path).unwrap(), 500);
    // Into another number of shards.
    let after = store(3, 1 << 20);
    assert_eq!(snapshot::load(&mut after.session(NOW + 50), &path, &|| false).unwrap(), Some(500));
    let mut session = after.session(NOW + 50);
    for number in 0..500u32 {
        let value = session.get(&number.to_le_bytes()).unwrap();
        assert_eq!(value.bytes()[..number as usize], vec![number as u8; number as usize]);
    }
    let later = store(1, 1 << 20);
    let left = snapshot::load(&mut later.session(NOW + 100), &path, &|| false).unwrap().unwrap();
    assert_eq!(left, 500 - 500u64.div_ceil(7), "what has expired meanwhile stays away");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    snapshot::save(&mut filled().session(NOW), &path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let load = |bytes: &[u8]| snapshot::read(&mut store(1, 1 << 20).session(NOW), bytes);
    assert!(load(&whole).is_ok());
    for at in (0..whole.len()).step_by(997).chain([0, 8, 16, 17, whole.len() - 1]) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        // The time of writing is told, not checked before the end.
        assert!(load(&damaged).is_err(), "byte {at}");
        assert!(load(&whole[..at]).is_err(), "cut at {at}");
    }
    std::fs::write(&path, &whole[..1000]).unwrap();
    let error =
        snapshot::load(&mut store(1, 1 << 20).session(NOW), &path, &|| false).unwrap_err().to_string();
    assert!(error.contains("is not a whole snapshot (it ends early)"), "{error}");
}

/// Keys whose unkeyed hash, by which callers find shards, is the same in the bits that an index of `lines` lines once took for the line.
fn keys_of_one_line(lines: u64, count: usize) -> Vec<[u8; 8]> {
    let keys = (0u64..).map(u64::to_le_bytes);
    keys.filter(|key| (shard_hash(key) >> 16) & (lines - 1) == 0).take(count).collect()
}

#[test]
fn keys_that_are_chosen_to_collide_are_spread_over_the_index() {
    // 1024 lines.
    let store = store(1, 7 * 1024 * 256);
    let mut session = store.session(NOW);
    for key in keys_of_one_line(1024, 4000) {
        session.update(&Update::set(&key, b""));
        let before = session.spent();
        assert!(session.get(&key).is_some());
        let lines = 1 + (session.spent() - before - work::KEY) / work::LOOK;
        assert!(lines < 20, "a search reads {lines} lines");
    }
    assert_eq!(session.totals().index_items, 7 * 1024);
    // Nor does what one store does with a key tell what another one does.
    let other = Store::new(1, &Limits::default(), NOW);
    assert!((0..4).any(|key: u64| store.place(&key.to_le_bytes()) != other.place(&key.to_le_bytes())));
}

#[test]
fn a_long_value_makes_room_in_steps() {
    let store = store(1, 4 << 20);
    let mut session = store.session(NOW);
    for number in 0..40_000u32 {
        session.update(&Update::set(&number.to_le_bytes(), &[b'x'; 30]));
    }
    let items = session.totals().items;
    let (place, value) = (store.place(b"long"), vec![b'v'; 1 << 20]);
    let update = Update::set(b"long", &value);
    let mut steps = 0;
    while !session.make_room(place, &update, value.len(), 100 * work::KEY) {
        steps += 1;
        // Each is bounded by the work that it was permitted.
        assert!(items - session.totals().items <= 100 * steps);
        session.check();
    }
    assert!(steps > 20, "{steps}");
    assert!(matches!(session.update(&update), Stored::Yes(_)));
    session.check();
    // One that will not be stored takes nothing away.
    let before = session.totals().items;
    assert_eq!(session.update(&Update { mode: Mode::Add, ..update.clone() }), Stored::No);
    assert_eq!(session.update(&Update { mode: Mode::Replace, key: b"none", ..update }), Stored::No);
    assert_eq!(session.totals().items, before);
}

#[test]
fn a_lowered_limit_is_reached_in_steps() {
    let store = store(2, 8 << 20);
    let mut session = store.session(NOW);
    for number in 0..20_000u32 {
        session.update(&Update::set(&number.to_le_bytes(), &[b'x'; 100]));
    }
    let mut steps = 0;
    while !session.set_memory(1 << 20, 1000 * work::KEY) {
        steps += 1;
        session.check();
    }
    assert!(steps >= 10 && session.totals().bytes <= 1 << 20, "{steps}");
}

/// Values that replies refer to are looked at some at a time, not all by each command that needs memory.
#[test]
fn a_set_does_not_look_at_all_replies_in_flight() {
    // 3000 values have room, and not much more.
    let store = store(1, 6_660_000);
    let mut session = store.session(NOW);
    let mut held = Vec::new();
    for number in 0..3000u32 {
        let key = (number % 10).to_le_bytes();
        session.update(&Update::set(&key, &[b'x'; 2100]));
        held.extend(session.get(&key));
    }
    let before = session.spent();
    session.update(&Update::set(b"more", &[b'x'; 60_000]));
    assert!(session.spent() - before < 120 * work::KEY, "{}", session.spent() - before);
    drop(held);
    // And are freed, some at a time.
    (0..100).for_each(|_| session.sweep(0, 0));
    assert!(matches!(session.update(&Update::set(b"all", &[b'x'; 1_000_000])), Stored::Yes(_)));
    session.check();
}

#[test]
fn a_snapshot_is_refused_before_its_lengths_take_memory_or_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    let load = |len: u32, stop: bool| {
        let item = [&[1, 1, 0][..], &[0; 8], &len.to_le_bytes(), b"k"].concat();
        std::fs::write(&path, [&b"CCNICKV\0\x01\0\0\0\0\0\0\0"[..], &item].concat()).unwrap();
        // Sparse: it takes no space.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(3 << 30).unwrap();
        snapshot::load(&mut store(1, 1 << 20).session(NOW), &path, &|| stop).unwrap_err().to_string()
    };
    assert!(load(u32::MAX, false).contains("a value of 4294967295 bytes"));
    assert!(load((1 << 30) + 1, false).contains("a value of 1073741825 bytes"));
    // It may be as long as an item can be, but not longer than the file, and goes nowhere where the store holds no such item.
    assert!(load(1 << 20, true).contains("stopped"));
    std::fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let empty = store(1, 1 << 20);
    let session = &mut empty.session(NOW);
    let error = snapshot::load(session, &path, &|| false).unwrap_err().to_string();
    assert!(error.contains("it ends early"), "{error}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(snapshot::load(session, &path, &|| false).unwrap(), None);
}

#[test]
fn a_value_that_the_store_cannot_hold_is_passed_over() {
    let (large, mut bytes) = (Store::new(1, &Limits { item: 2 << 20, ..Limits::default() }, NOW), Vec::new());
    let mut session = large.session(NOW);
    session.update(&Update::set(b"before", b"1"));
    session.update(&Update::set(b"large", &vec![b'x'; 1 << 20]));
    session.update(&Update::set(b"behind", b"2"));
    assert_eq!(snapshot::write_to(&mut session, &mut bytes).unwrap(), 3);
    let small = store(1, 4 << 20);
    assert_eq!(snapshot::read(&mut small.session(NOW), &bytes[..]).unwrap(), 2);
    assert!(small.session(NOW).get(b"behind").is_some() && small.session(NOW).get(b"large").is_none());
}

#[test]
fn a_snapshot_has_what_was_used_longest_ago_first_while_others_change_the_store() {
    let store = store(1, 8 << 20);
    for number in 0..10_000u32 {
        store.session(NOW + number / 100).update(&Update::set(&number.to_be_bytes(), b"x"));
    }
    store.session(NOW + 200).get(&7u32.to_be_bytes());
    let mut bytes = Vec::new();
    // Somebody else changes the store wherever the shard is free.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2000 {
                let mut session = store.session(NOW + 300);
                session.update(&Update::set(b"other", b"y"));
                session.delete(b"other");
            }
        });
        snapshot::write_to(&mut store.session(NOW + 200), &mut bytes).unwrap();
    });
    let again = Store::new(1, &Limits::default(), NOW);
    assert!(snapshot::read(&mut again.session(NOW + 300), &bytes[..]).unwrap() >= 10_000);
    let place = |number: u32| {
        memchr::memmem::find(&bytes, &[&[1, 0, 0, 0][..], &number.to_be_bytes(), b"x"].concat()).unwrap()
    };
    let places = [0, 150, 9999, 7].map(place);
    assert!(places.is_sorted(), "{places:?}");
}
