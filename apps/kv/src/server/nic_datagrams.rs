//! Datagrams of a queue pair. Requests that have come together are answered together, so that the store's cache misses for all of them
//! overlap ([`Session::fetch_ahead`]); answers are written where they are sent from. A request waits here until there is room for its answer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ccnic_tcp::{Datagrams, Later, Reply, Stack};

use super::spent::Spent;
use crate::protocol::Server;
use crate::protocol::udp::{self, Frames, LONGEST};
use crate::rpc;
use crate::store::kept::KeptValue;
use crate::store::{Content, GROUP, Place, Session, Store, TURN};

/// While so many requests wait, or so many bytes of them, no more are received: they stay in the ring. It is more than a ring has, so that
/// requests in the ring never hold all the buffers that answers need.
const MOST_REQUESTS: usize = 1024;
const MOST_BYTES: usize = 1 << 20;
/// Datagrams of long replies that may wait until there is room for them.
const MOST_LATER: usize = 4096;
/// Bytes of the headers of IPv6 and UDP.
const HEADERS: usize = 40 + 8;

/// A request that waits.
#[derive(Debug)]
struct Request {
    from: Later,
    /// It came to the port of text commands; others are for the binary get and set.
    text: bool,
    /// Bytes of the longest answer in one datagram.
    room: usize,
    /// Where it ends among the bytes of all.
    end: usize,
    /// The place of its key, if it has one.
    place: Option<Place>,
}

/// The requests of a thread, and what is sent in answer to them later.
#[derive(Debug)]
pub(crate) struct Inbox {
    store: Arc<Store>,
    /// The port of text commands.
    text_port: u16,
    frames: Frames,
    requests: Vec<Request>,
    /// The bytes of the requests, one behind the other.
    bytes: Vec<u8>,
    /// How many of the requests have been answered, and where the next one begins.
    answered: usize,
    begin: usize,
    /// Datagrams of replies that wait, first come first sent.
    later: VecDeque<(Later, Vec<u8>)>,
    places: Vec<Place>,
    /// The shard whose values this thread keeps, and from how many bytes on.
    keeps: Option<(usize, usize)>,
    /// A value that another thread keeps.
    copy: Vec<u8>,
}

/// What a burst of answers is made with.
struct Desk<'a> {
    stack: &'a mut Stack,
    spent: &'a mut Spent,
    written: usize,
    dropped: usize,
    /// Replies whose value was not copied.
    uncopied: usize,
}

impl Desk<'_> {
    /// Whether there is room for a datagram, now or after those that wait have been handed to the NIC.
    fn has_room(&mut self) -> bool {
        if !self.stack.can_send() {
            self.stack.flush_datagrams();
        }
        self.stack.can_send()
    }

    /// Sends a datagram; false when there is no room for it.
    fn send(&mut self, to: &Later, pieces: &[&[u8]]) -> bool {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        self.hand_over(len, |stack| stack.answer(to, pieces))
    }

    /// As [`Desk::send`], with a value that the NIC reads where it is kept.
    fn send_kept(&mut self, to: &Later, header: &[u8], value: &KeptValue) -> bool {
        let len = value.kept().len();
        let sent = self.hand_over(header.len() + len, |stack| {
            let mut reply = stack.answer_to(to);
            let put = reply.put(header) && reply.put_kept(value.kept(), 0..len);
            reply.send() && put
        });
        self.uncopied += usize::from(sent);
        sent
    }

    /// Has `send` send a datagram of `len` bytes, or not. The time is not the store's.
    fn hand_over(&mut self, len: usize, send: impl FnOnce(&mut Stack) -> bool) -> bool {
        self.spent.leave();
        let sent = send(self.stack);
        self.written += if sent { len } else { 0 };
        self.spent.enter();
        sent
    }

    /// Sends a value from where it lies.
    fn answer(&mut self, to: &Later, header: &[u8], value: Content<'_>, copy: &mut Vec<u8>) -> bool {
        match value {
            Content::Heap(bytes) => self.send(to, &[header, bytes]),
            Content::Kept(value) if self.stack.kept().owns(value.kept()) => self.send_kept(to, header, value),
            Content::Kept(value) => {
                // Another thread's.
                copy.clear();
                value.lend(|part| copy.extend_from_slice(part));
                self.send(to, &[header, copy])
            }
        }
    }
}

impl Datagrams for Inbox {
    fn datagram(&mut self, _: SocketAddr, to: SocketAddr, request: &[u8], reply: &mut Reply<'_>) {
        self.bytes.extend_from_slice(request);
        let text = to.port() == self.text_port;
        let key = if text { udp::key(request) } else { rpc::key(request) };
        self.requests.push(Request {
            from: reply.later(),
            text,
            room: reply.room(),
            end: self.bytes.len(),
            place: key.map(|key| self.store.place(key)),
        });
    }

    fn ready(&self) -> bool {
        self.requests.len() < MOST_REQUESTS && self.bytes.len() < MOST_BYTES
    }
}

impl Inbox {
    /// Nothing yet, for a link of this MTU.
    pub(crate) fn new(store: Arc<Store>, text_port: u16, mtu: usize, keeps: Option<(usize, usize)>) -> Inbox {
        Inbox {
            store,
            text_port,
            frames: Frames::new(LONGEST.min(mtu.saturating_sub(HEADERS))),
            requests: Vec::new(),
            bytes: Vec::new(),
            answered: 0,
            begin: 0,
            later: VecDeque::new(),
            places: Vec::with_capacity(GROUP),
            keeps,
            copy: Vec::new(),
        }
    }

    /// Whether anything waits for room.
    pub(crate) fn waits(&self) -> bool {
        !self.requests.is_empty() || !self.later.is_empty()
    }

    /// Answers what has come, as far as there is room. The store's shard is held until that is done, so that the keys that belong to this
    /// thread cost one lock together.
    pub(crate) fn answer(
        &mut self,
        stack: &mut Stack,
        store: &Store,
        server: &Server,
        spent: &mut Spent,
        now: u32,
    ) {
        if !self.waits() {
            return;
        }
        let read = self.begin;
        let mut desk = Desk { stack, spent, written: 0, dropped: 0, uncopied: 0 };
        self.send_later(&mut desk);
        let mut session = store.session(now);
        if let Some((shard, _)) = self.keeps {
            session.free_gone(shard, desk.stack.kept());
        }
        while self.answered < self.requests.len()
            && self.later.is_empty()
            && session.spent() + desk.written < TURN
            && desk.has_room()
        {
            self.answer_group(&mut desk, &mut session, server);
        }
        drop(session);
        desk.stack.flush_datagrams();
        let counters = &server.counters;
        if self.begin > read {
            counters.bytes_read.fetch_add(self.begin - read, Ordering::Relaxed);
        }
        if desk.written > 0 {
            counters.bytes_written.fetch_add(desk.written, Ordering::Relaxed);
        }
        if desk.dropped > 0 {
            counters.udp_replies_dropped.fetch_add(desk.dropped, Ordering::Relaxed);
        }
        if desk.uncopied > 0 {
            counters.interface.uncopied.fetch_add(desk.uncopied, Ordering::Relaxed);
        }
        if self.answered == self.requests.len() {
            (self.answered, self.begin) = (0, 0);
            self.requests.clear();
            self.bytes.clear();
        }
    }

    fn send_later(&mut self, desk: &mut Desk<'_>) {
        desk.spent.enter();
        while let Some((to, datagram)) = self.later.front() {
            if !desk.has_room() || !desk.send(to, &[datagram]) {
                break;
            }
            self.later.pop_front();
        }
        desk.spent.leave();
    }

    /// Answers the next requests, at most [`GROUP`], and less when there is no room.
    fn answer_group(&mut self, desk: &mut Desk<'_>, session: &mut Session<'_>, server: &Server) {
        let Inbox { frames, requests, bytes, answered, begin, later, places, keeps, copy, .. } = self;
        let group = requests.iter().skip(*answered).take(GROUP);
        desk.spent.enter();
        if group.len() > 1 {
            places.clear();
            places.extend(group.clone().filter_map(|request| request.place));
            session.fetch_ahead(places);
        }
        for Request { from, text, room, end, place } in group {
            desk.spent.leave();
            if !later.is_empty() || session.spent() + desk.written >= TURN || !desk.has_room() {
                return;
            }
            desk.spent.request();
            let request = &bytes[*begin..*end];
            if *text {
                frames.answer(request, session, server, |datagram| {
                    if later.is_empty() && desk.send(from, &[datagram]) {
                        // It is on its way.
                    } else if later.len() < MOST_LATER {
                        later.push_back((*from, datagram.to_vec()));
                    } else {
                        desk.dropped += 1;
                    }
                });
            } else {
                let longest = room.saturating_sub(rpc::HEADER);
                let mut keep = None;
                let sent = rpc::answer(request, *place, session, longest, |header, value, again| {
                    keep = keeps.filter(|(_, least)| again && value.heap_len() >= *least);
                    desk.answer(from, header, value, copy)
                });
                desk.dropped += usize::from(sent == Some(false));
                if let (Some((shard, _)), Some(key)) = (keep, rpc::key(request))
                    && place.is_some_and(|place| place.shard() == shard)
                {
                    session.keep(key, desk.stack.kept());
                }
            }
            *answered += 1;
            *begin = *end;
        }
        desk.spent.leave();
    }
}
