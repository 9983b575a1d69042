//! What agents share besides caches: links between sockets, and memory controllers. Messages go hop by hop along the topology's
//! route; each link and each memory is a server with a rate.

use super::costs::Costs;
use super::ids::SocketId;
use super::topology::Topology;
use crate::kernel::server::Server;
use crate::kernel::time::Ps;
use crate::observe::counters::Traffic;

/// Headers of lines with room for control messages that a direction of a link saves up, at most.
const SPARE_MAX: u32 = 64;

/// One direction of a link.
#[derive(Debug, Default)]
struct Direction {
    server: Server,
    /// Control messages that still fit in the headers of lines sent.
    spare: u32,
}

/// A socket's memory controller.
#[derive(Debug, Default)]
struct Memory {
    server: Server,
    /// Takes non-temporal stores from other sockets.
    non_temporal: Server,
}

/// Links and memory.
#[derive(Debug)]
pub struct Fabric {
    pub topology: Topology,
    /// For each pair of sockets, if a link connects them.
    directions: Vec<Option<Box<Direction>>>,
    memory: Vec<Memory>,
    /// By the socket that sends, or whose memory it is.
    traffic: Vec<Traffic>,
}

impl Fabric {
    /// Idle links and memory.
    pub fn new(topology: Topology) -> Fabric {
        let n = topology.sockets();
        let linked = |pair: usize| topology.next((pair / n) as SocketId, (pair % n) as SocketId);
        let directions = (0..n * n)
            .map(|pair| (pair / n != pair % n && linked(pair) as usize == pair % n).then(Box::default))
            .collect();
        Fabric {
            directions,
            memory: (0..n).map(|_| Memory::default()).collect(),
            traffic: vec![Traffic::default(); n],
            topology,
        }
    }

    /// The traffic that leaves a socket, and that of its memory.
    pub fn traffic(&self, socket: SocketId) -> Traffic {
        let s = socket as usize;
        Traffic {
            link_busy: self.link_busy(socket),
            memory_busy: self.memory[s].server.busy(),
            ..self.traffic[s]
        }
    }

    /// Time that the links which leave a socket have been taken.
    pub fn link_busy(&self, socket: SocketId) -> Ps {
        let n = self.topology.sockets();
        let from = socket as usize * n;
        self.directions[from..from + n].iter().flatten().map(|d| d.server.busy()).sum()
    }

    /// Sends a line at `at`; returns when it is there.
    #[inline]
    pub fn send_line(&mut self, from: SocketId, to: SocketId, at: Ps) -> Ps {
        self.send(from, to, at, |link, direction, traffic, at| {
            traffic.lines += 1;
            direction.spare = (direction.spare + link.spare).min(SPARE_MAX);
            direction.server.serve(at, link.line) + link.one_way
        })
    }

    /// Sends a control message at `at`, in the header of a line where there is room, in a flit of its own otherwise; returns when it
    /// is there.
    #[inline]
    pub fn send_control(&mut self, from: SocketId, to: SocketId, at: Ps) -> Ps {
        self.send(from, to, at, |link, direction, traffic, at| {
            traffic.controls += 1;
            if direction.spare > 0 {
                direction.spare -= 1;
                return at + link.one_way;
            }
            direction.server.serve(at, link.control) + link.one_way
        })
    }

    #[inline]
    fn send(
        &mut self,
        from: SocketId,
        to: SocketId,
        mut at: Ps,
        mut hop: impl FnMut(super::topology::Link, &mut Direction, &mut Traffic, Ps) -> Ps,
    ) -> Ps {
        let mut here = from;
        while here != to {
            let next = self.topology.next(here, to);
            let pair = self.topology.pair(here, next);
            let Some(direction) = &mut self.directions[pair] else { return at };
            at = hop(self.topology.link(pair), direction, &mut self.traffic[here as usize], at);
            here = next;
        }
        at
    }

    /// Reads a line from a socket's memory; returns when the data is at its home agent.
    pub fn read_memory(&mut self, socket: SocketId, at: Ps, costs: &Costs) -> Ps {
        self.traffic[socket as usize].memory_reads += 1;
        let server = &mut self.memory[socket as usize].server;
        let load = server.load(at);
        server.serve(at, costs.memory_line) + costs.memory + loaded_latency(&costs.curve, load)
    }

    /// Writes a line that has reached its home agent to memory.
    pub fn write_memory(&mut self, socket: SocketId, at: Ps, costs: &Costs) {
        self.traffic[socket as usize].memory_writes += 1;
        self.memory[socket as usize].server.serve(at, costs.memory_line);
    }

    /// Takes a non-temporal store from another socket; returns when the home agent has it.
    pub fn take_non_temporal(&mut self, socket: SocketId, at: Ps, costs: &Costs) -> Ps {
        self.memory[socket as usize].non_temporal.serve(at, costs.non_temporal_line)
    }
}

/// What memory takes longer at a share of its rate than when it is idle: interpolated between the points of the curve.
fn loaded_latency(curve: &[(f64, Ps)], load: f64) -> Ps {
    let above = curve.iter().position(|(share, _)| *share > load);
    match above {
        None => curve.last().map_or(0, |p| p.1),
        Some(0) => 0,
        Some(i) => {
            let ((x0, y0), (x1, y1)) = (curve[i - 1], curve[i]);
            y0 + ((load - x0) / (x1 - x0) * (y1 - y0) as f64) as Ps
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::Link;
    use super::*;

    fn ring() -> Fabric {
        let link = |one_way| Link { one_way, line: 500, control: 100, spare: 2 };
        let mut ring = Topology::new(4).unwrap();
        for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
            ring = ring.with_links(a, b, link(20_000 + 1000 * u64::from(a)));
        }
        Fabric::new(ring)
    }

    #[test]
    fn a_line_goes_hop_by_hop() {
        let mut f = ring();
        assert_eq!(f.send_line(0, 2, 1_600_000), 1_600_000 + 2 * 500 + 20_000 + 21_000);
        let lines = |f: &Fabric| [0, 1, 2, 3].map(|s| f.traffic(s).lines);
        assert_eq!(lines(&f), [1, 1, 0, 0]);
        assert_eq!(f.send_line(3, 3, 5), 5, "within a socket nothing crosses a link");
        // The other direction is another server; the same one queues.
        assert_eq!(f.send_line(1, 0, 1_600_000), 1_620_500);
        assert_eq!(f.send_line(0, 1, 1_600_000), 1_621_000);
        assert_eq!((f.link_busy(0), f.link_busy(1), f.link_busy(2)), (1000, 1000, 0));
    }

    #[test]
    fn control_messages_ride_in_the_headers_of_lines() {
        let mut f = ring();
        assert_eq!(f.send_control(0, 1, 0), 20_100);
        f.send_line(0, 1, 1_000_000);
        let sent: Vec<Ps> = (0..3).map(|_| f.send_control(0, 1, 2_000_000) - 2_000_000).collect();
        assert_eq!(sent, [20_000, 20_000, 20_100]);
        assert_eq!(f.traffic(0).controls, 4);
    }

    #[test]
    fn latency_under_load_follows_the_curve() {
        let curve = [(0.0, 0), (0.5, 10_000), (1.0, 90_000)];
        let at = |load| loaded_latency(&curve, load);
        assert_eq!([at(0.0), at(0.25), at(0.5), at(0.75), at(1.0)], [0, 5000, 10_000, 50_000, 90_000]);
    }
}
