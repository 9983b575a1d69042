//! The key-value store of `apps/kv`: streams of memcached's protocol, datagrams, snapshots.

use ccnic_kv::protocol::udp::{self, Frames};
use ccnic_kv::protocol::{Connection, ENOUGH_OUTPUT, Output, Server};
use ccnic_kv::rpc;
use ccnic_kv::store::{Limits, Store, snapshot};

const NOW: u32 = 1_700_000_000;

/// What a shard holds at least: little, so that inputs of some hundred bytes fill it; some of the largest items all the same.
const TIGHT: usize = 24 << 10;
/// No input fills a shard of this size: it has at most 20,000 bytes, and a command that stores something has 16.
const AMPLE: usize = 1250 * (ITEM + 200);
/// Larger than what a reply copies: replies refer to the longest values.
const ITEM: usize = 3 << 10;

fn store(shards: u8, shard: usize) -> Store {
    let count = 1 + usize::from(shards % 3);
    let limits = Limits { memory: count * shard, item: ITEM, evict: shards & 4 == 0, ..Limits::default() };
    Store::new(count, &limits, NOW - 10)
}

/// Text and meta commands: whole in a store that they fill, where what replies refer to cannot be freed for others; in one with room for
/// everything also cut where the first bytes say.
pub fn kv_stream(bytes: &[u8]) {
    let Some(([shards, first, second], stream)) = bytes.split_first_chunk::<3>() else { return };
    // Long values and many commands from few bytes: 0xff stands for a run of letters, 0xfe for what was before it.
    let mut long = Vec::new();
    for byte in stream {
        match byte {
            0xff => long.extend([b'x'; 200]),
            0xfe => long.extend_from_within(..long.len().min(4000)),
            byte => long.push(*byte),
        }
        long.truncate(20_000);
    }
    let cut = |place: u8| long.len() * usize::from(place) / 256;
    let (from, to) = (cut(*first).min(cut(*second)), cut(*first).max(cut(*second)));
    answers(&store(*shards, TIGHT), &[&long]);
    let whole = answers(&store(*shards, AMPLE), &[&long]);
    let cut = answers(&store(*shards, AMPLE), &[&long[..from], &long[from..to], &long[to..]]);
    assert!(whole == cut, "a stream is answered differently when it is cut at {from} and {to}");
}

/// The answers to a stream that arrives in pieces, and whether it is over.
fn answers(store: &Store, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let server = Server::default();
    let (mut connection, mut out, mut answer, mut input) =
        (Connection::new(), Output::new(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let mut session = store.session(NOW);
            let used = connection.advance(&input, &mut session, &server, &mut out);
            session.check();
            input.drain(..used);
            // A get may name any number of keys: it stops after some of them.
            assert!(out.len() < ENOUGH_OUTPUT + (128 << 10));
            let put = out.len();
            answer.extend(out.segments().flatten());
            out.clear();
            if used == 0 && put == 0 {
                break;
            }
        }
    }
    connection.end(&store.session(NOW));
    // What is in flight is counted: all of it can be taken back.
    store.session(NOW).sweep(0, 1000);
    store.session(NOW).check();
    (answer, connection.is_closed())
}

/// Datagrams of text and of the binary get and set, over one store. Each begins with its kind and its length.
pub fn kv_datagrams(bytes: &[u8]) {
    let Some((shards, mut rest)) = bytes.split_first() else { return };
    let (store, server, mut frames) = (store(*shards, TIGHT), Server::default(), Frames::new(udp::LONGEST));
    while let Some(([kind, len], more)) = rest.split_first_chunk::<2>() {
        let (datagram, behind) = more.split_at(usize::from(*len).min(more.len()));
        rest = behind;
        let mut session = store.session(NOW);
        if kind & 1 == 0 {
            frames.answer(datagram, &mut session, &server, |answer| {
                assert!((udp::HEADER..=udp::LONGEST).contains(&answer.len()));
                assert_eq!(answer[..2], datagram[..2], "the number of the request");
                assert!(datagram[udp::HEADER].is_ascii_lowercase(), "an answer is not answered");
                let short = |at: usize| u16::from_be_bytes([answer[at], answer[at + 1]]);
                assert!(short(2) < short(4), "datagram {} of {}", short(2), short(4));
            });
        } else {
            let longest = usize::from(*kind) * 8;
            let answered = rpc::answer(datagram, None, &mut session, longest, |header, value, _| {
                let mut len = 0;
                value.lend(|bytes| len += bytes.len());
                assert!(len <= longest && header[1] <= 4);
                assert_eq!(
                    (header[0], &header[8..]),
                    (datagram[0], &datagram[8..16]),
                    "the request's number"
                );
                assert_eq!(header[4..8], (len as u32).to_le_bytes());
            });
            let is_request = datagram.len() >= rpc::HEADER && datagram[2..4] != [0; 2];
            assert_eq!(answered.is_some(), is_request, "an answer has no key, and is not answered");
        }
        session.check();
    }
}

/// A snapshot: refused, or loaded; what was loaded is written and loaded again, the same.
pub fn kv_snapshot(bytes: &[u8]) {
    let first = store(bytes.len() as u8, TIGHT);
    let result = snapshot::read(&mut first.session(NOW), bytes);
    first.session(NOW).check();
    if result.is_err() {
        // What is behind the checksum is reached by inputs with a right one.
        let mut sealed = bytes.to_vec();
        snapshot::seal(&mut sealed);
        let again = store(0, TIGHT);
        if snapshot::read(&mut again.session(NOW), &sealed[..]).is_ok() {
            survives(&again);
        }
        again.session(NOW).check();
        return;
    }
    survives(&first);
}

fn survives(store: &Store) {
    let mut written = Vec::new();
    let items = snapshot::write_to(&mut store.session(NOW), &mut written).expect("memory takes it");
    // With the same shards, whose items follow each other in the file.
    let again = Store::new(store.shards(), &Limits::default(), NOW);
    assert_eq!(snapshot::read(&mut again.session(NOW), &written[..]).expect("it is whole"), items);
    let mut twice = Vec::new();
    snapshot::write_to(&mut again.session(NOW), &mut twice).expect("memory takes it");
    assert!(written == twice, "a snapshot of a snapshot is the same");
}
