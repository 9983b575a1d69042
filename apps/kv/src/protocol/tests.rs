//! What the comparison with memcached cannot show: streams cut anywhere, hostile bytes, bounds, datagrams.

use proptest::prelude::*;

use super::udp::{Frames, HEADER, LEAST, LONGEST, LONGEST_REPLY, REPLY_TOO_LARGE};
use super::*;
use crate::store::{Limits, Store, TURN, Update, work};

const NOW: u32 = 1_700_000_000;

fn store() -> Store {
    Store::new(2, &Limits { memory: 8 << 20, ..Limits::default() }, NOW - 10)
}

/// The answers to a stream that arrives in these pieces.
fn answers(store: &Store, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let server = Server::default();
    let (mut connection, mut out, mut answer) = (Connection::new(), Output::new(), Vec::new());
    let mut input = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let mut session = store.session(NOW);
            let used = connection.advance(&input, &mut session, &server, &mut out);
            assert!(used <= input.len());
            input.drain(..used);
            answer.extend(out.segments().flatten());
            let went_on = used > 0 || !out.is_empty();
            out.clear();
            session.check();
            if !went_on {
                break;
            }
        }
    }
    let closed = connection.is_closed();
    connection.end(&store.session(NOW));
    (answer, closed)
}

fn ask(request: &[u8]) -> String {
    String::from_utf8(answers(&store(), &[request]).0).unwrap()
}

/// Some bytes that look like commands, mostly.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => prop::sample::select(vec![
            "set a 0 0 5\r\nhello\r\n", "get a b a\r\n", "ms a 3 c T0\r\nabc\r\n", "mg a v t\r\n", "set a 0 0 5\r\n", "incr n 1\r\n",
            "set n 0 0 1\r\n5\r\n", "set big 0 0 3000\r\n", "get big\r\n", "md a q\r\n", "ma n N0 J5 v\r\n", "stats items\r\n", "quit\r\n",
            "set x 0 0 2000000\r\n", "me a\r\n", "append a 0 0 2\r\nxy\r\n",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..30),
        1 => prop::collection::vec(prop::sample::select(b"abgmstv 0159\r\n".to_vec()), 0..60),
        1 => Just(vec![b'z'; 2990]),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

#[test]
fn a_get_of_many_keys_is_answered_in_parts() {
    let store = store();
    let value = [b'v'; 2000];
    let set = [b"set a 0 0 2000\r\n", &value[..], b"\r\n"].concat();
    assert_eq!(answers(&store, &[&set]).0, b"STORED\r\n");
    let server = Server::default();
    let (mut connection, mut out) = (Connection::new(), Output::new());
    let request = [b"get b".to_vec(), b" a".repeat(5000), b"\r\nmn\r\n".to_vec()].concat();
    let (mut used, mut lines) = (0, 0);
    loop {
        let mut session = store.session(NOW);
        used += connection.advance(&request[used..], &mut session, &server, &mut out);
        assert!(out.len() < ENOUGH_OUTPUT + (64 << 10), "{}", out.len());
        if out.is_empty() {
            break;
        }
        let part: Vec<u8> = out.segments().flatten().copied().collect();
        lines += part.iter().filter(|byte| **byte == b'\n').count();
        out.clear();
    }
    assert_eq!((used, lines), (request.len(), 10_000 + 2));
    for before in [30, 1000] {
        let long = [b"get".to_vec(), b" a".repeat(before), b" ".to_vec(), vec![b'k'; 251], b"\r\n".to_vec()]
            .concat();
        assert_eq!(answers(&store, &[&long]).0, format!("{BAD_FORMAT}\r\n").into_bytes());
    }
}

#[test]
fn long_lines_take_of_the_memory_for_what_arrives() {
    // Half of 8 MiB: four lines may be under way.
    let store = store();
    let server = Server::default();
    let line = [b"get ".to_vec(), b"a ".repeat(50_000)].concat();
    let begin = |connection: &mut Connection| {
        let mut out = Output::new();
        connection.advance(&line, &mut store.session(NOW), &server, &mut out);
        out.segments().flatten().copied().collect::<Vec<u8>>()
    };
    let mut clients: Vec<Connection> = (0..5).map(|_| Connection::new()).collect();
    let said: Vec<Vec<u8>> = clients.iter_mut().map(begin).collect();
    assert!(said[..4].iter().all(Vec::is_empty));
    assert_eq!(said[4], format!("{NO_MEMORY_TO_READ}\r\n").into_bytes());
    clients[0].end(&store.session(NOW));
    assert_eq!(begin(&mut Connection::new()), b"");
}

proptest! {
    #[test]
    fn it_does_not_matter_where_a_stream_is_cut(stream in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..6)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([stream.len()]) {
            pieces.push(&stream[from..cut]);
            from = cut;
        }
        prop_assert_eq!(answers(&store(), &[&stream]), answers(&store(), &pieces));
    }
}

#[test]
fn each_byte_alone_gives_the_same_answers() {
    let stream = b"set a 1 0 5\r\nhello\r\nget a\r\nms a 3 c k\r\nabc\r\nmg a v\r\nset b 0 0 2\r\nabc\r\nget b\r\nmn\r\n";
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(answers(&store(), &[stream]), answers(&store(), &bytes));
}

#[test]
fn an_endless_line_ends_the_connection() {
    let (answer, closed) = answers(&store(), &[&vec![b'x'; 5000]]);
    assert_eq!((&answer[..], closed), (&b"CLIENT_ERROR line too long\r\n"[..], true));
    let keys = " key".repeat(20_000);
    assert_eq!(ask(format!("get{keys}\r\n").as_bytes()), "END\r\n");
    assert!(answers(&store(), &[format!("get {}", "x".repeat(2 << 20)).as_bytes()]).1);
}

#[test]
fn the_binary_protocol_is_refused_in_its_own_words() {
    let mut request = [0; 24];
    (request[0], request[1]) = (0x80, 0x0a);
    let (answer, closed) = answers(&store(), &[&request[..10], &request[10..]]);
    assert_eq!((answer[0], answer[1], &answer[6..8], closed), (0x81, 0x0a, &[0, 0x81][..], true));
}

#[test]
fn explicit_cas_ids_are_kept() {
    assert_eq!(
        ask(b"ms a 1 E123 c\r\nx\r\nmg a c\r\nma n N0 E9 c\r\nma n E77 c\r\nms a 1 C123 E200 c\r\ny\r\nmg a c v\r\nmd a I E300\r\nmg a c\r\n"),
        "HD c123\r\nHD c123\r\nHD c9\r\nHD c77\r\nHD c200\r\nVA 1 c200\r\ny\r\nHD\r\nHD c300 X W\r\n"
    );
}

#[test]
fn values_that_arrive_slowly_take_no_more_than_half_the_memory() {
    let store = store();
    let server = Server::default();
    let mut waiting = Vec::new();
    let mut refused = 0;
    for _ in 0..20 {
        let (mut connection, mut out) = (Connection::new(), Output::new());
        let mut session = store.session(NOW);
        connection.advance(b"set a 0 0 1000000\r\nabc", &mut session, &server, &mut out);
        let said: Vec<u8> = out.segments().flatten().copied().collect();
        refused += usize::from(said == b"SERVER_ERROR out of memory storing object\r\n");
        waiting.push(connection);
    }
    assert_eq!(refused, 16);
    for mut connection in waiting {
        connection.end(&store.session(NOW));
    }
    assert!(store.reserve(4 << 20), "all is given back");
}

#[test]
fn output_is_bounded() {
    let store = store();
    let server = Server::default();
    let mut session = store.session(NOW);
    let (mut connection, mut out) = (Connection::new(), Output::new());
    let set = [b"set a 0 0 100000\r\n", &vec![b'x'; 100_000][..], b"\r\n"].concat();
    assert_eq!(connection.advance(&set, &mut session, &server, &mut out), set.len());
    let gets = b"get a\r\n".repeat(1000);
    let used = connection.advance(&gets, &mut session, &server, &mut out);
    assert!(used < 100 && out.len() < 400_000, "{used} bytes used, {} wait", out.len());
}

fn datagrams(request: &[u8]) -> Vec<Vec<u8>> {
    let (store, server) = (store(), Server::default());
    let mut sent = Vec::new();
    let mut session = store.session(NOW);
    Frames::new(LONGEST).answer(request, &mut session, &server, |datagram| sent.push(datagram.to_vec()));
    sent
}

#[test]
fn a_long_reply_is_several_datagrams() {
    let value = vec![b'v'; 5000];
    let request =
        [&[0xab, 0xcd, 0, 0, 0, 1, 0, 0][..], b"set a 0 0 5000\r\n", &value, b"\r\nget a\r\n"].concat();
    let sent = datagrams(&request);
    let (stored, sent) = sent.split_first().unwrap();
    assert_eq!(stored[..], *b"\xab\xcd\0\0\0\x01\0\0STORED\r\n");
    let text: Vec<u8> = sent.iter().flat_map(|datagram| datagram[HEADER..].to_vec()).collect();
    assert_eq!(text, [b"VALUE a 0 5000\r\n", &value[..], b"\r\nEND\r\n"].concat());
    for (number, datagram) in sent.iter().enumerate() {
        assert_eq!(datagram[..HEADER], [0xab, 0xcd, 0, number as u8, 0, sent.len() as u8, 0, 0]);
        assert!(datagram.len() == LONGEST || number == sent.len() - 1);
    }
}

/// What memcached 1.6.18 sends, byte for byte; `tests/datagrams.rs` asks it.
#[test]
fn each_command_is_answered_by_a_message_of_its_own() {
    let replies = |commands: &[u8]| {
        let sent = datagrams(&[b"\x12\x34\0\0\0\x01\0\0", commands].concat());
        let text = |datagram: &Vec<u8>| {
            assert_eq!(datagram[..HEADER], *b"\x12\x34\0\0\0\x01\0\0");
            String::from_utf8(datagram[HEADER..].to_vec()).unwrap()
        };
        sent.iter().map(text).collect::<Vec<String>>()
    };
    let value = "VALUE a 0 1\r\nz\r\nEND\r\n";
    let set = "set a 0 0 1\r\nz\r\n";
    let all = |commands: &str| replies(format!("{set}{commands}").as_bytes()).split_off(1);
    assert_eq!(all("get a\r\nget a\r\n"), [value, value]);
    assert_eq!(all("get b\r\nget a\r\nmn\r\n"), ["END\r\n", value, "MN\r\n"]);
    assert_eq!(all("mg a v q\r\nmg b v q\r\nmn\r\n"), ["VA 1\r\nz\r\n", "MN\r\n"]);
    assert_eq!(all("set a 0 0 1 noreply\r\ny\r\nget a\r\n"), ["VALUE a 0 1\r\ny\r\nEND\r\n"]);
    assert_eq!(all("bogus\r\nget a\r\n"), ["ERROR\r\n", value]);
    assert_eq!(all("get a\r\nget"), [value], "a line without its end");
    assert_eq!(all("get a\r\nquit\r\nget a\r\n"), [value]);
    let bad = "CLIENT_ERROR bad data chunk\r\n";
    for (cut, expected) in [
        ("set a 0 0 10\r\nabc", &[bad][..]),
        ("set a 0 0 10\r\nabc\r\n", &[bad]),
        ("set a 0 0 10\r\n", &[bad]),
        ("set a 0 0 3\r\nabc", &[bad]),
        ("set a 0 0 3\r\nabc\r", &[bad]),
        ("set a 0 0 10 noreply\r\nabc", &[]),
        ("add b 0 0 900000\r\nabc", &[bad]),
        ("cas a 0 0 10 1\r\nabc", &[bad]),
        ("ms a 10\r\nabc", &[bad]),
        ("ms a 10 q\r\nabc", &[bad]),
        ("get a\r\nset a 0 0 10\r\nabc", &[value, bad]),
        ("set a 0 0 3\r\nabcdefgh\r\nget a\r\n", &[bad, "ERROR\r\n", value]),
        ("ms a 2\r\nabcd\r\nmn\r\n", &[bad, "ERROR\r\n", "MN\r\n"]),
    ] {
        assert_eq!(all(cut), expected, "{cut:?}");
        assert_eq!(all(&format!("{cut}\0")).len(), expected.len(), "{cut:?}");
    }
}

#[test]
fn a_value_that_is_cut_changes_nothing_and_keeps_nothing() {
    let (store, server, mut frames) = (store(), Server::default(), Frames::new(LONGEST));
    let mut send = |commands: &str| {
        let mut sent = Vec::new();
        let request = [b"\0\x01\0\0\0\x01\0\0", commands.as_bytes()].concat();
        frames.answer(&request, &mut store.session(NOW), &server, |datagram| sent.push(datagram.to_vec()));
        sent
    };
    send("set a 0 0 1\r\nz\r\n");
    // More than the store has room for at once, if that were reserved.
    for _ in 0..100 {
        assert_eq!(send("set a 0 0 1000000\r\nabc").len(), 1);
    }
    assert!(store.reserve(1_000_000));
    assert_eq!(send("get a\r\n"), [b"\0\x01\0\0\0\x01\0\0VALUE a 0 1\r\nz\r\nEND\r\n"]);
}

#[test]
fn datagrams_that_are_no_requests_are_dropped() {
    assert!(datagrams(&[0; 7]).is_empty());
    assert!(datagrams(b"\0\0\0\0\0\x01\0\0").is_empty());
    assert!(datagrams(b"\0\0\0\0\0\x02\0\0get a\r\n").is_empty(), "a request in two datagrams");
    assert!(datagrams(b"\0\0\0\0\0\x01\0\0get a").is_empty(), "a line without its end");
    assert!(datagrams(b"\0\0\0\0\0\x01\0\0\x80\0").is_empty(), "the binary protocol");
}

/// A datagram that somebody has sent in another server's name would go to and fro.
#[test]
fn answers_in_datagrams_are_not_answered() {
    let commands = "set n 0 0 1\r\n5\r\nget n\r\nincr n 1\r\nadd n 0 0 1\r\n5\r\ndelete m\r\ntouch n 9\r\nversion\r\nno\r\nset n\r\n\
                    mg n v\r\nmg m v\r\nmn\r\nms n 1\r\n7\r\nmd n\r\nme n\r\nstats\r\nverbosity\r\nget n\r\nset b 0 0 9\r\n";
    let answers = datagrams(&[b"\x12\x34\0\0\0\x01\0\0", commands.as_bytes()].concat());
    assert!(answers.len() > 18, "{}", answers.len());
    for answer in answers {
        let again = datagrams(&[b"\x12\x34\0\0\0\x01\0\0", &answer[HEADER..]].concat());
        assert!(again.is_empty(), "{:?}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(datagrams(b"\x12\x34\0\0\0\x01\0\0nonsense\r\n").len(), 1);
}

#[test]
fn flush_all_may_be_forbidden() {
    let mut server = Server::default();
    server.settings.no_flush = true;
    let (store, mut out) = (store(), Output::new());
    let mut session = store.session(NOW);
    Connection::new().advance(b"set a 0 0 1\r\nx\r\nflush_all\r\nget a\r\n", &mut session, &server, &mut out);
    let said = out.segments().flatten().copied().collect::<Vec<u8>>();
    assert_eq!(said, b"STORED\r\nCLIENT_ERROR flush_all not allowed\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

/// Whatever is wrong with a set, its data are not commands: a proxy in front of the store has read the same length.
#[test]
fn the_data_of_a_refused_set_are_never_commands() {
    let data = "flush_all\r\n";
    let long = "k".repeat(251);
    for line in [
        "set k 0 x LEN",
        "set k x 0 LEN",
        "set k -1 0 LEN",
        "set k 4294967296 0 LEN",
        "set k 0 4294967296 LEN",
        "set k 0 9223372036854775808 LEN",
        "set k 0 0 LEN 1 1",
        "set k 0 0 LEN noreply noreply noreply",
        "set LONG 0 0 LEN",
        "add LONG 0 0 LEN noreply",
        "cas k 0 0 LEN x",
        "cas k 0 0 LEN 18446744073709551616",
        "ms LONG LEN",
        "ms k LEN F4294967296",
        "ms k LEN T4294967296",
        "ms k LEN MX",
        "ms k LEN S S",
        "ms k LEN a b c d e f g h i j k l m n o p q r s t u v w x y z",
        "ms k LEN Oxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ] {
        for spelled in ["9", "+9", "009"] {
            let line = line.replace("LONG", &long).replace("LEN", spelled);
            let answer = ask(format!("{line}\r\n{data}mn\r\n").as_bytes());
            assert!(answer.ends_with("MN\r\n") && !answer.contains("OK"), "{line}: {answer}");
            assert!(answer.lines().count() <= 2, "{line}: {answer}");
        }
    }
}

#[test]
fn no_length_is_cut() {
    // memcached takes 4294967297 for 1. Nobody knows where these data end.
    for line in [
        "set k 0 0 4294967297",
        "ms k 4294967297",
        "set k 0 0 18446744073709551613",
        "ms k 99999999999999999999",
        "set k x 0 99999999999999999999",
    ] {
        let (answer, closed) = answers(&store(), &[format!("{line}\r\nx\r\nflush_all\r\n").as_bytes()]);
        assert_eq!((&answer[..], closed), (format!("{BAD_FORMAT}\r\n").as_bytes(), true), "{line}");
    }
    let (answer, closed) = answers(&store(), &[b"set k 0 0 2147483645\r\nx\r\nflush_all\r\nmn\r\n"]);
    assert_eq!((&answer[..], closed), (format!("{TOO_LARGE}\r\n").as_bytes(), false));
    // A word that memcached takes for no length announces no data, nor does a line with too few words.
    for line in ["set k 0 0 -5", "set k 0 0 5x", "set k 0 0 2147483646", "ms k 4294967295"] {
        assert_eq!(ask(format!("{line}\r\nmn\r\n").as_bytes()), format!("{BAD_FORMAT}\r\nMN\r\n"), "{line}");
    }
    assert_eq!(ask(b"cas k 0 0 2 \r\nmn\r\n"), "ERROR\r\nMN\r\n");
    // Times after 2038 are times.
    assert_eq!(ask(b"set k 0 4000000000 1\r\nx\r\nmg k s\r\n"), "STORED\r\nHD s1\r\n");
    assert_eq!(ask(b"touch k 4294967296\r\n"), format!("{BAD_TIME}\r\n"));
    assert_eq!(ask(b"verbosity 4294967296\r\n"), format!("{BAD_FORMAT}\r\n"));
}

#[test]
fn a_limit_on_memory_is_the_operators() {
    let (store, mut server) = (store(), Server::default());
    let say = |server: &Server| {
        let (mut connection, mut out) = (Connection::new(), Output::new());
        connection.advance(b"cache_memlimit 1000000\r\n", &mut store.session(NOW), server, &mut out);
        (out.segments().flatten().copied().collect::<Vec<u8>>(), store.memory() >> 20)
    };
    assert_eq!(say(&server), (b"CLIENT_ERROR cache_memlimit not allowed\r\n".to_vec(), 8));
    server.settings.memory_limit = true;
    assert_eq!(say(&server), (b"OK\r\n".to_vec(), 1_000_000));
}

/// The turns that a request takes, each of which lets go of the shard, and the answer.
fn turns(store: &Store, server: &Server, request: &[u8]) -> (Vec<usize>, Vec<u8>) {
    let (mut connection, mut out, mut answer) = (Connection::new(), Output::new(), Vec::new());
    let (mut used, mut turns) = (0, Vec::new());
    loop {
        connection.allow(u32::MAX, TURN);
        let mut session = store.session(NOW);
        used += connection.advance(&request[used..], &mut session, server, &mut out);
        turns.push(session.spent());
        answer.extend(out.segments().flatten());
        let more = !out.is_empty() || connection.is_used_up();
        out.clear();
        session.check();
        if !more {
            connection.end(&session);
            return (turns, answer);
        }
    }
}

#[test]
fn a_turn_is_bounded_in_keys_also_in_those_that_are_not_there() {
    let (store, server) = (store(), Server::default());
    let keys = |count: u32| (0..count).map(|n| format!(" k{n}")).collect::<String>();
    let most = TURN + 30 * work::KEY;
    for request in [
        // One line of misses, and many commands without answers.
        format!("get{}\r\n", keys(20_000)),
        format!("gat 0{}\r\n", keys(300)).repeat(60),
        (0..20_000).map(|n| format!("mg k{n} q\r\n")).collect(),
        (0..20_000).map(|n| format!("md k{n} q\r\n")).collect(),
        (0..20_000).map(|n| format!("delete k{n} noreply\r\n")).collect(),
        (0..20_000).map(|n| format!("set k{n} 0 0 1 noreply\r\nx\r\n")).collect(),
        (0..20_000).map(|n| format!("touch k{n} 0 noreply\r\n")).collect(),
        (0..20_000).map(|n| format!("incr k{n} 1 noreply\r\n")).collect(),
    ] {
        let (turns, _) = turns(&store, &server, request.as_bytes());
        assert!(turns.iter().all(|spent| *spent <= most), "{:.20}: {:?}", request, turns.iter().max());
        assert!(turns.len() >= 18 * work::KEY * 1000 / TURN, "{:.20}: {} turns", request, turns.len());
    }
}

#[test]
fn a_turn_is_bounded_in_bytes_also_in_those_that_are_moved_within() {
    let (store, server) = (store(), Server::default());
    let set = [b"set n 0 0 500000\r\n1", " ".repeat(499_999).as_bytes(), b"\r\n"].concat();
    turns(&store, &server, &set);
    // Each copies the value, or looks through it.
    for request in [
        "append n 0 0 0 noreply\r\n\r\n",
        "incr n 1 noreply\r\n",
        "prepend n 0 0 1 noreply\r\nx\r\n",
        "incr n 1 noreply\r\n",
    ] {
        let (turns, _) = turns(&store, &server, request.repeat(50).as_bytes());
        assert!(turns.len() > 12, "{request}: {} turns", turns.len());
        assert!(turns.iter().all(|spent| *spent < TURN + 1_600_000), "{request}: {turns:?}");
    }
    // Long answers to short commands.
    let (turns, answer) = turns(&store, &server, &b"stats\r\n".repeat(500));
    assert!(turns.len() > 8 && answer.len() > 500_000, "{} turns", turns.len());
}

#[test]
fn a_long_set_takes_many_items_away_in_turns() {
    let (store, server) = (store(), Server::default());
    let mut session = store.session(NOW);
    for number in 0..80_000u32 {
        session.update(&Update::set(&number.to_le_bytes(), b"x"));
    }
    drop(session);
    let set = [b"set long 0 0 1000000\r\n", &[b'v'; 1_000_000][..], b"\r\nget long\r\n"].concat();
    let (turns, answer) = turns(&store, &server, &set);
    assert!(turns.len() > 5 && turns.iter().all(|spent| *spent < TURN + 2_100_000), "{turns:?}");
    assert!(answer.starts_with(b"STORED\r\nVALUE long 0 1000000\r\n") && answer.ends_with(b"END\r\n"));
}

#[test]
fn stats_of_many_are_told_in_turns() {
    let (store, server) = (store(), Server::default());
    let listed = |_| server.connections.add(Endpoint::Unnamed, None, NOW);
    let all: Vec<Listed> = (0..5000).map(listed).collect();
    let (turns_of, answer) = turns(&store, &server, b"stats conns\r\nmn\r\n");
    assert!(turns_of.len() > 4, "{turns_of:?}");
    let text = String::from_utf8(answer).unwrap();
    assert_eq!(text.matches(":state ").count(), 5000);
    assert!(text.ends_with("END\r\nMN\r\n"));
    drop(all);
    turns(&store, &server, b"stats sizes_enable\r\n");
    for number in 0..1000usize {
        let key = number.to_le_bytes();
        store.session(NOW).update(&Update::set(&key, &vec![b'x'; 32 * number % 7777]));
    }
    let (_, answer) = turns(&store, &server, b"stats sizes\r\nmn\r\n");
    let text = String::from_utf8(answer).unwrap();
    let counted: usize = text
        .lines()
        .filter_map(|line| line.strip_prefix("STAT ")?.split(' ').nth(1)?.parse::<usize>().ok())
        .sum();
    assert_eq!(counted, 1000, "{text}");
    assert!(text.ends_with("END\r\nMN\r\n"));
}

#[test]
fn replies_in_datagrams_are_bounded() {
    let head: &[u8] = &[0, 1, 0, 0, 0, 1, 0, 0];
    let (store, server, mut frames) = (store(), Server::default(), Frames::new(LONGEST));
    // The text of all datagrams, how many there were, and the work.
    let mut reply = |commands: &[u8]| {
        let (mut session, mut sent, mut count) = (store.session(NOW), Vec::new(), 0);
        frames.answer(&[head, commands].concat(), &mut session, &server, |datagram| {
            sent.extend_from_slice(&datagram[HEADER..]);
            count += 1;
        });
        (String::from_utf8(sent).unwrap(), count, session.spent())
    };
    store.session(NOW).update(&Update::set(b"u", &[b'u'; 60_000]));
    store.session(NOW).update(&Update::set(b"long", &[b'u'; 900_000]));
    let whole = reply(b"get u\r\n").0;
    assert!(whole.len() <= LONGEST_REPLY && whole.ends_with("END\r\n"));
    let refusal = format!("{REPLY_TOO_LARGE}\r\n");
    assert_eq!(reply(b"get long\r\n").0, refusal);
    assert_eq!(reply(&[b"get", &b" u".repeat(85)[..], b"\r\n"].concat()).0, refusal);
    // What has room is answered; then it ends, and no command is executed that is not answered.
    assert_eq!(reply(&b"get u\r\n".repeat(85)).0, format!("{whole}{refusal}"));
    let (stats, ..) = reply(&b"stats\r\n".repeat(60));
    assert!(stats.len() <= LONGEST_REPLY + refusal.len() && stats.ends_with(&refusal));
    assert!(stats.matches("END\r\n").count() > 10);
    reply(b"set n 0 0 1\r\n0\r\n");
    let (counted, count, _) = reply(&b"incr n 1\r\n".repeat(6000));
    assert_eq!(count, LONGEST_REPLY / LEAST);
    let last = counted.strip_suffix(&refusal).unwrap().lines().last().unwrap();
    assert_eq!(reply(b"get n\r\n").0, format!("VALUE n 0 {}\r\n{last}\r\nEND\r\n", last.len()));
    // So is the work, where there is nothing to send: a datagram holds 64 KiB.
    for commands in [[b"get", &b" m".repeat(30_000)[..], b"\r\n"].concat(), b"mg m q\r\n".repeat(7000)] {
        let (answer, _, spent) = reply(&commands);
        assert_eq!(answer, refusal);
        assert!(spent < TURN + 30 * work::KEY, "{spent}");
    }
    assert_eq!(reply(b"get m\r\n").0, "END\r\n");
}
