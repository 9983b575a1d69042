//! The NIC side over a region that its program changes between any two accesses.
//!
//! Checked: no panic, no access outside the region or the buffers, a bound on the accesses of each call, and
//! counters: no more packets are delivered than were fetched, and none is longer than the MTU.

use std::rc::Rc;

use ccnic::host::QueuePair;
use ccnic::nic::{FETCH, Fetched, NicCounters, NicQueue, Pipeline, loopback, spread};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::rss::{Rss, Spreader};
use ccnic::{Burst, Desc, Layout, testing};

use crate::input::Input;
use crate::memory::{Region, View};
use crate::setup::{Setup, bounded, call, len, poll};

/// The fuzz target.
pub fn nic_region(bytes: &[u8]) {
    let setup = Setup::new(bytes, |_, _| false);
    setup.layout.config().design.dispatch(Sides(setup));
}

struct Sides(Setup);

impl RingVisitor for Sides {
    type Output = ();

    fn visit<R: Ring>(self) {
        let Setup { region, layout, input, .. } = self.0;
        let mut run = Run::<R>::new(region, layout, input);
        run.region.set_calm(false);
        while !run.input.is_used_up() {
            run.step();
            run.check();
        }
    }
}

struct Run<R: Ring> {
    region: Rc<Region>,
    layout: Layout,
    input: Rc<Input>,
    mem: View,
    nics: Vec<NicQueue<View, R>>,
    pipelines: Vec<Pipeline>,
    /// The program, as far as it follows the rules.
    hosts: Vec<QueuePair<View, R>>,
    spreader: Spreader,
    /// Packets fetched by queues that have a successor.
    past_fetched: u64,
    /// Packets delivered by them, and packets that the NIC made itself.
    past_delivered: u64,
    own: u64,
    /// The counters at the last check.
    last: Vec<NicCounters>,
}

impl<R: Ring> Run<R> {
    fn new(region: Rc<Region>, layout: Layout, input: Rc<Input>) -> Run<R> {
        let mem = region.view(true);
        let queues = layout.config().queues;
        let hosts = (0..queues).map(|q| testing::pair(region.view(false), &layout, q));
        let nics = (0..queues).map(|q| testing::nic(mem.clone(), &layout, q));
        let mut table = Rss::new(queues);
        table.hash = true;
        Run {
            hosts: hosts.collect::<Result<_, _>>().expect("the region has these queues"),
            nics: nics.collect::<Result<_, _>>().expect("the region has these queues"),
            pipelines: (0..queues).map(|_| Pipeline::default()).collect(),
            spreader: Spreader::new(table),
            past_fetched: 0,
            past_delivered: 0,
            own: 0,
            last: vec![NicCounters::default(); usize::from(queues)],
            region,
            layout,
            input,
            mem,
        }
    }

    fn step(&mut self) {
        let (op, q) = (self.input.byte(), self.input.below(self.nics.len()));
        let reflect = op & 0x80 != 0 && self.layout.config().shared_pool;
        let (region, config) = (Rc::clone(&self.region), *self.layout.config());
        let (most, of_program) = (poll(&config), call(&config));
        match op % 16 {
            0..3 => bounded(&region, 4 * of_program, "the program", || self.send(q)),
            3 => bounded(&region, 4 * of_program, "the program", || self.receive(q)),
            4 => bounded(&region, 4 * of_program, "the program", || self.small(q)),
            5..8 => {
                _ = bounded(&region, most, "loopback", || {
                    loopback(&mut self.nics[q], &mut self.pipelines[q], &self.mem, reflect)
                })
            }
            8..10 => {
                _ = bounded(&region, 2 * most, "spread", || {
                    spread(&mut self.nics, q, &mut self.pipelines[q], &self.mem, &self.spreader, reflect)
                })
            }
            10 => bounded(&region, most, "deliver", || self.across(q)),
            11 => bounded(&region, most, "the NIC's own packets", || self.own_packets(q)),
            12 => bounded(&region, of_program, "notification", || self.notify(q)),
            13 => bounded(&region, 2 * of_program, "a successor", || self.succeed(q, reflect)),
            14 => self.region.change(0),
            _ => bounded(&region, most, "flush", || self.nics[q].flush()),
        }
    }

    fn send(&mut self, q: usize) {
        let mut burst = Burst::new();
        let (len, max) = (len(&self.input, self.layout.config()), self.input.below(40));
        self.hosts[q].alloc(len, max, &mut burst);
        self.hosts[q].tx_burst(&mut burst);
        self.hosts[q].free(&mut burst);
    }

    fn receive(&mut self, q: usize) {
        let mut burst = Burst::new();
        self.hosts[q].rx_burst(&mut burst, FETCH);
        self.hosts[q].free(&mut burst);
    }

    fn small(&mut self, q: usize) {
        let bytes = [self.input.byte(); 128];
        let longest = [1, 64, 65, 128][self.input.below(4)].min(self.hosts[q].small_limit());
        let n = self.input.below(34);
        let packets = (0..n).map(|i| (&bytes[..(1 + i * 3).min(longest.into())], 0));
        self.hosts[q].tx_small(longest, packets.collect::<Vec<_>>().into_iter(), &mut Burst::new());
        self.hosts[q].tx_fill(longest, n, &mut Burst::new(), |_, to| {
            to.fill(bytes[0]);
            0
        });
        let _ = self.hosts[q].rx_small(FETCH, |_, _, _| ());
    }

    /// Delivers one queue's packets to another, as a NIC does that steers.
    fn across(&mut self, q: usize) {
        let to = self.input.below(self.nics.len());
        let mut fetched = Fetched::default();
        self.nics[q].fetch(&mut fetched);
        let lies = |nic: &NicQueue<View, R>, desc: Desc| desc.inline() || nic.names_buffer(desc);
        assert!(fetched.rest().iter().all(|desc| lies(&self.nics[q], *desc)));
        let mut kept = 0;
        if self.input.byte() & 1 == 0 {
            // A NIC that keeps what it has fetched.
            kept = self.nics[q].copy_to_pool(&mut fetched);
            assert!(fetched.rest()[..kept].iter().all(|desc| self.nics[q].names_buffer(*desc)));
        }
        self.nics[to].deliver(&self.mem, fetched.rest(), &[]);
        let (kept, rest) = fetched.rest().split_at(kept);
        self.nics[q].give_back(kept);
        self.nics[q].complete(rest);
        self.nics[q].flush();
        self.nics[to].flush();
    }

    /// A NIC with packets of its own, as a program in C is.
    fn own_packets(&mut self, q: usize) {
        let nic = &mut self.nics[q];
        let (len, mut descs) = (len(&self.input, self.layout.config()), [Desc::default(); FETCH]);
        let n = nic.alloc(len, &mut descs[..self.input.below(33)]);
        assert!(descs[..n].iter().all(|desc| nic.names_buffer(*desc)), "{descs:?}");
        let (whole, bad) = nic.whole_packets(&descs[..n]);
        assert_eq!((whole, bad), (n, None), "what it allocates are packets");
        nic.give_back(&descs[..n]);
        let bytes = vec![self.input.byte(); usize::from(len)];
        let (first, second) = bytes.split_at(self.input.below(256).min(bytes.len()));
        self.own += u64::from(nic.deliver_bytes(&[first, second], 0));
        nic.flush();
    }

    fn notify(&mut self, q: usize) {
        self.hosts[q].arm();
        if let Some(armed) = self.nics[q].needs_notification() {
            self.nics[q].notified(armed);
        }
        self.hosts[q].disarm();
    }

    /// Ends the NIC's side of a queue, in order or not, and opens it again.
    fn succeed(&mut self, q: usize, in_order: bool) {
        if in_order {
            self.nics[q].retire();
        }
        let counters = self.nics[q].counters();
        self.past_fetched += counters.tx_packets;
        self.past_delivered += counters.rx_packets;
        self.nics[q] =
            testing::nic(self.mem.clone(), &self.layout, q as u16).expect("the region has this queue");
        self.pipelines[q] = Pipeline::default();
        self.last[q] = NicCounters::default();
    }

    fn check(&mut self) {
        let (mut fetched, mut delivered) = (self.past_fetched, self.past_delivered);
        for (nic, last) in self.nics.iter().zip(&mut self.last) {
            let now = nic.counters();
            let mtu = u64::from(self.layout.config().mtu);
            assert!(now.rx_bytes <= now.rx_packets * mtu, "a packet longer than {mtu}: {now:?}");
            assert!(now.tx_packets >= last.tx_packets && now.rx_packets >= last.rx_packets, "{now:?}");
            fetched += now.tx_packets;
            delivered += now.rx_packets;
            *last = now;
        }
        assert!(
            delivered <= fetched + self.own,
            "{delivered} delivered, {fetched} fetched, {} made",
            self.own
        );
    }
}
