//! What frames cost: bytes summed per nanosecond, nanoseconds per parse, per checksum, per segment. One thread, data in its caches, with
//! the registers that every x86-64 has (who calls from within `Vectors::run` of ccnic-shm has wider ones).
//!
//! `cargo bench -p ccnic-frame` prints the minimum of many short rounds, so that what else runs on the machine hardly shows.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::time::Instant;

use ccnic_frame::{Headers, Segmentation, Segmenter, Sum, VnetHeader, checksum};
use etherparse::PacketBuilder;

const ROUNDS: usize = 300;
/// Calls of a round, so that it takes some microseconds.
const CALLS: usize = 200;

/// The least nanoseconds of a call.
fn least(mut call: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / CALLS as f64
    };
    (0..ROUNDS).map(round).fold(f64::MAX, f64::min)
}

fn frame(ipv6: bool, payload: usize) -> Vec<u8> {
    let step = PacketBuilder::ethernet2([1; 6], [2; 6]);
    let step = match ipv6 {
        true => step.ipv6([1; 16], [2; 16], 64),
        false => step.ipv4([1; 4], [2; 4], 64),
    };
    let mut bytes = Vec::new();
    step.tcp(1, 2, 3, 4).write(&mut bytes, &vec![0x5a; payload]).unwrap();
    bytes
}

fn sums() {
    for len in [20, 64, 256, 1460, 9000, 65536] {
        let bytes = vec![0x5a; len];
        let ns = least(|| _ = black_box(Sum::of(black_box(&bytes)).value()));
        println!("sum of {len:5} bytes         {ns:8.2} ns  {:6.1} GB/s", len as f64 / ns);
    }
}

fn headers() {
    for ipv6 in [false, true] {
        let name = if ipv6 { "TCP/IPv6" } else { "TCP/IPv4" };
        let mut bytes = frame(ipv6, 1440);
        let ns = least(|| _ = black_box(Headers::parse(black_box(&bytes), 1500)));
        println!("parse {name}             {ns:8.2} ns");
        let headers = Headers::parse(&bytes, bytes.len());
        let ns = least(|| checksum::fill_l4(black_box(&mut bytes), &headers, []).unwrap());
        println!("fill, 1440 bytes {name}  {ns:8.2} ns");
    }
}

fn segments() {
    for ipv6 in [false, true] {
        let bytes = frame(ipv6, 60_000);
        let headers = Headers::parse(&bytes, bytes.len());
        let cut = if ipv6 { Segmentation::tcp_ipv6(1440) } else { Segmentation::tcp_ipv4(1440) };
        let mut count = 0;
        let ns = least(|| {
            let mut segmenter = Segmenter::new(cut, black_box(&bytes), &headers).unwrap();
            count = 0;
            for segment in segmenter.segments() {
                let payload = Sum::of(&bytes[segment.payload.clone()]);
                black_box(segmenter.header(&segment, payload));
                count += 1;
            }
        });
        let name = if ipv6 { "TCP/IPv6" } else { "TCP/IPv4" };
        println!("segment of 1440 {name}   {:8.2} ns, payload summed", ns / f64::from(count));
    }
}

fn virtio() {
    let mut bytes = frame(false, 60_000);
    let headers = Headers::parse(&bytes, bytes.len());
    let meta = ccnic_frame::Meta::default().with_segmentation(Segmentation::tcp_ipv4(1440));
    let ns = least(|| _ = black_box(VnetHeader::prepare(black_box(meta), &mut bytes, &headers).unwrap()));
    println!("virtio_net_hdr from metadata {ns:6.2} ns");
    let header = VnetHeader::prepare(meta, &mut bytes, &headers).unwrap();
    let ns = least(|| _ = black_box(black_box(header).offloads(&headers, bytes.len()).unwrap()));
    println!("virtio_net_hdr to metadata {ns:8.2} ns");
}

fn main() {
    sums();
    headers();
    segments();
    virtio();
}
