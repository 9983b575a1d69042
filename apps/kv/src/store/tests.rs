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
    assert_eq!(session.expiry(0), 0);
    assert_eq!(session.expiry(-1), 1);
    assert_eq!(session.expiry(2_592_000), NOW + 2_592_000);
    assert_eq!(session.expiry(2_592_001), 1, "a time before the start is over");
    assert_eq!(session.expiry(NOW as i32 + 5), NOW + 5);
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
    assert_eq!(snapshot::load(&mut after.session(NOW + 50), &path).unwrap(), 500);
    let mut session = after.session(NOW + 50);
    for number in 0..500u32 {
        let value = session.get(&number.to_le_bytes()).unwrap();
        assert_eq!(value.bytes()[..number as usize], vec![number as u8; number as usize]);
    }
    let later = store(1, 1 << 20);
    let left = snapshot::load(&mut later.session(NOW + 100), &path).unwrap();
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
    let error = snapshot::load(&mut store(1, 1 << 20).session(NOW), &path).unwrap_err().to_string();
    assert!(error.contains("is not a whole snapshot (it ends early)"), "{error}");
}
