//! Segmentation as Linux does it: `linux_gso.txt` has recorded what a kernel made of super-packets.
#![allow(clippy::unwrap_used, reason = "a test")]

use ccnic_frame::vnet::SHORT_BYTES;
use ccnic_frame::{Headers, Segmenter, Sum, VnetHeader};

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// The payload that was recorded.
fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn segments_are_those_of_linux() {
    let text = include_str!("linux_gso.txt");
    let records: Vec<&str> = text.split("\nsuper ").skip(1).collect();
    assert!(records.len() >= 10);
    for record in records {
        let mut lines = record.lines().filter(|line| !line.is_empty());
        let name = lines.next().unwrap();
        let vnet = bytes(lines.next().unwrap().strip_prefix("vnet ").unwrap());
        let (headers, len) = lines.next().unwrap().strip_prefix("headers ").unwrap().split_once(' ').unwrap();
        let payload = payload(len.parse().unwrap());
        let frame = [bytes(headers), payload.clone()].concat();

        let headers = Headers::parse(&frame, frame.len());
        let said = VnetHeader::from_bytes(&vnet).unwrap().offloads(&headers, frame.len()).unwrap();
        let cut = said.meta.segmentation().unwrap();
        // What Linux took is what is written for it: the header, and the checksum's field.
        let mut prepared = frame.clone();
        let header = VnetHeader::prepare(said.meta, &mut prepared, &headers).unwrap();
        assert_eq!((&header.to_bytes()[..SHORT_BYTES], prepared == frame), (&vnet[..], true), "{name}");

        let mut segmenter = Segmenter::new(cut, &frame, &headers).unwrap();
        let ours: Vec<(Vec<u8>, usize)> = segmenter
            .segments()
            .map(|segment| {
                let bytes = &frame[segment.payload.clone()];
                (segmenter.header(&segment, Sum::of(bytes)).to_vec(), bytes.len())
            })
            .collect();
        let theirs: Vec<(Vec<u8>, usize)> = lines
            .map(|line| line.strip_prefix("segment ").unwrap().split_once(' ').unwrap())
            .map(|(header, len)| (bytes(header), len.parse().unwrap()))
            .collect();
        assert_eq!(ours, theirs, "{name}");
    }
}
