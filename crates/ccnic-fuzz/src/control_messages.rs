//! Control messages and region headers, as a listener and a program read them from the other side: decoded,
//! then checked, before anything is done with them.

use ccnic::heap::HeapMemory;
use ccnic::layout::{Layout, MAGIC, RingLayout, VERSION};
use ccnic::rss::Spreader;
use ccnic::{Config, Design, SharedMemory, Tuning};
use ccnic_control::flow::{FlowMatch, FlowRequest, FlowRule, FlowTarget};
use ccnic_control::messages::{Cursor, Hello, Reply, Request};
use ccnic_control::rss::RssMessage;
use ccnic_control::{Page, printable};

/// The fuzz target. The first byte says what the others are.
pub fn control_messages(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 5 {
        0 => request(rest),
        1 => reply(rest),
        2 => header(rest),
        3 => text(rest),
        _ => pages(rest),
    }
}

/// What is printed of the other side's text contains nothing that a terminal acts on.
fn text(bytes: &[u8]) {
    let shown = printable(&String::from_utf8_lossy(bytes));
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!shown.contains(acts), "{shown:?}");
}

/// The pages of a status from any place on: they end, go forward, and show each queue behind that place once.
fn pages(bytes: &[u8]) {
    let (words, _) = bytes.as_chunks::<2>();
    let mut words = words.iter().map(|word| u16::from_le_bytes(*word));
    let mut word = || words.next().unwrap_or(0);
    let start = Cursor { program: u64::from(word() % 64), queue: word() };
    let queues: Vec<u16> = (0..word() % 64).map(|_| word() % (Config::MAX_QUEUES + 1)).collect();
    let programs = || (0..).zip(&queues).map(|(id, queues)| (id, *queues));
    let (mut from, mut shown) = (Some(start), Vec::new());
    while let Some(cursor) = from {
        let page = Page::new(cursor, programs());
        for (id, range) in page.programs {
            shown.extend(range.map(|queue| (id, queue)));
        }
        assert!(page.next.is_none_or(|next| next > cursor), "{:?} after {cursor:?}", page.next);
        from = page.next;
    }
    let behind = |(id, queue): &(u64, u16)| (*id, *queue) >= (start.program, start.queue);
    let all = programs().flat_map(|(id, queues)| (0..queues).map(move |queue| (id, queue)));
    assert!(all.filter(behind).eq(shown), "from {start:?}, programs of {queues:?} queues");
}

/// A message that was decoded says the same when it is encoded and decoded again.
fn request(bytes: &[u8]) {
    let Ok(request) = serde_json::from_slice::<Request>(bytes) else { return };
    let again = serde_json::to_vec(&request).expect("a request can be encoded");
    assert_eq!(serde_json::from_slice::<Request>(&again).expect("and decoded"), request);
    if let Request::Attach { rss: Some(rss), .. } | Request::Rss(Some(rss)) = &request {
        check_rss(rss, bytes);
    }
    if let Request::Flow(FlowRequest::Create { rule, .. }) = &request {
        check_flow(rule);
    }
}

/// A rule that has passed its check names queues that there are, and fields that packets can have together.
fn check_flow(rule: &FlowRule) {
    for queues in [0, 1, 3, Config::MAX_QUEUES, u16::MAX] {
        if rule.check(queues).is_err() {
            continue;
        }
        assert!(!matches!(rule.to, FlowTarget::Queue(queue) if queue >= queues), "a queue beyond {queues}");
        let FlowMatch { src_ip, dst_ip, protocol, src_port, dst_port, vlan, .. } = rule.matches;
        assert!(src_ip.zip(dst_ip).is_none_or(|(src, dst)| src.is_ipv4() == dst.is_ipv4()));
        assert!(src_port.or(dst_port).is_none() || protocol.is_some());
        assert!(vlan.is_none_or(|vlan| vlan < 4095));
    }
    assert!(printable(&rule.matches.to_string()) == rule.matches.to_string(), "it is fit to print");
}

fn check_rss(message: &RssMessage, packet: &[u8]) {
    for queues in [0, 1, 3, Config::MAX_QUEUES, u16::MAX] {
        let Ok(rss) = message.check(queues) else { continue };
        assert!(rss.table.iter().all(|queue| *queue < queues), "a queue beyond {queues}");
        assert_eq!(RssMessage::from(&rss).check(queues).as_ref(), Ok(&rss), "it survives a message");
        let spreader = Spreader::new(rss);
        assert!(spreader.queue(spreader.hash(packet)) < queues);
    }
}

fn reply(bytes: &[u8]) {
    let Ok(reply) = serde_json::from_slice::<Reply>(bytes) else { return };
    let again = serde_json::to_vec(&reply).expect("a reply can be encoded");
    serde_json::from_slice::<Reply>(&again).expect("and decoded");
    if let Reply::Hello(Hello { tuning: Some(word), .. }) = reply {
        tuning(word);
    }
}

/// The tuning that a NIC tells is one that this build knows, or none: whatever the NIC says.
fn tuning(word: u32) {
    let Some(tuning) = Tuning::from_word(word) else { return };
    assert_eq!(tuning.word(), word, "no bit is left out");
    assert_eq!(tuning.to_string().parse(), Ok(tuning), "it survives as text");
    assert!(tuning.ahead <= Tuning::MAX_AHEAD);
    for design in Design::ALL {
        let within = tuning.within(&Config { design, ..Config::default() });
        assert_eq!(within.within(&Config { design, ..Config::default() }), within);
    }
}

/// The configuration words of a region's header, and the region's size.
fn header(bytes: &[u8]) {
    let mem = HeapMemory::new(4096);
    mem.store(0, MAGIC);
    mem.store(8, VERSION);
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in (16..64).step_by(8).zip(words) {
        mem.store(at, u64::from_le_bytes(*word));
    }
    let size = rest.iter().fold(u32::MAX, |size, byte| size / 2 + u32::from(*byte));
    let Ok(layout) = Layout::load(&mem, size) else { return };
    assert!(layout.size() <= size, "a region of {} bytes needs {}", size, layout.size());
    check_layout(&layout);
    let again = HeapMemory::new(4096);
    layout.store(&again);
    assert_eq!(Layout::load(&again, size), Ok(layout), "it survives a header");
}

/// No two purposes share a byte, and all of them lie in the region.
fn check_layout(layout: &Layout) {
    let (config, pool) = (layout.config(), layout.pool());
    let lines = |at: u32| (at, 8);
    let mut ranges = vec![(0, 4096), lines(pool.small), lines(pool.large), lines(pool.split)];
    ranges.push((pool.links, config.buffers * 32 * 8));
    ranges.push((pool.kinds, config.buffers * 8));
    ranges.push((pool.buffers, pool.end - pool.buffers));
    for queue in 0..config.queues {
        let rings = layout.queue(queue).expect("the number is below the number of queues");
        let units = |ring: RingLayout| (ring.units, ring.count * config.design.unit());
        ranges.extend([units(rings.tx), units(rings.rx)]);
        if !config.shared_pool && config.design != Design::Doorbell {
            ranges.push(units(rings.fill));
        }
        for ring in [rings.tx, rings.rx, rings.fill] {
            assert!(ring.count.is_power_of_two());
            ranges.extend([ring.tail, ring.head, ring.taken].map(lines));
        }
        ranges.extend([rings.rx_dropped, rings.rx_event, rings.tx_event].map(lines));
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(u64::from(pair[0].0) + u64::from(pair[0].1) <= u64::from(pair[1].0), "{pair:?} overlap");
    }
    let (at, len) = ranges[ranges.len() - 1];
    assert!(u64::from(at) + u64::from(len) <= u64::from(layout.size()), "a range leaves the region");
    assert!(layout.queue(config.queues).is_none());
}
