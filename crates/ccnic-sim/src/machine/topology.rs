//! Which sockets there are, what each direction of a link between two of them costs, and the route from each to each.

use super::ids::{SOCKETS_MAX, SocketId};
use crate::kernel::time::{Ps, ps};
use crate::platform::Platform;

/// One direction of a link between two sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// Home agent to home agent, unloaded.
    pub one_way: Ps,
    /// Time that a line with its header takes of the link.
    pub line: Ps,
    /// Time that a control message takes when no line's header has room for it.
    pub control: Ps,
    /// Control messages that ride in each line's header.
    pub spare: u32,
}

/// The sockets of a machine and the links between them.
///
/// ```
/// use ccnic_sim::{Link, Topology};
///
/// // Three sockets in a row: from 0 to 2 by way of 1.
/// let link = Link { one_way: 20_000, line: 500, control: 125, spare: 2 }; // picoseconds
/// let row = Topology::new(3).ok_or("too many")?.with_links(0, 1, link).with_links(1, 2, link);
/// assert_eq!((row.next(0, 2), row.latency(0, 2)), (1, Some(40_000)));
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone)]
pub struct Topology {
    sockets: usize,
    /// For each pair (from, to) the link that connects them directly.
    links: Vec<Option<Link>>,
    /// For each pair (from, to) the next socket on the shortest route; `from` itself where there is none.
    next: Vec<SocketId>,
    /// For each pair the unloaded latency of the route.
    latency: Vec<Ps>,
}

impl Topology {
    /// So many sockets, not connected yet. `None` for none, or for more than 64.
    pub fn new(sockets: usize) -> Option<Topology> {
        if !(1..=SOCKETS_MAX).contains(&sockets) {
            return None;
        }
        let mut topology = Topology {
            sockets,
            links: vec![None; sockets * sockets],
            next: vec![0; sockets * sockets],
            latency: vec![0; sockets * sockets],
        };
        topology.route();
        Some(topology)
    }

    /// A platform's: one socket, or two with a link that is the same in both directions.
    pub fn of(platform: &Platform) -> Topology {
        let Some(link) = platform.link.as_ref().filter(|_| !platform.topology.same_socket.get()) else {
            return Topology { sockets: 1, links: vec![None], next: vec![0], latency: vec![0] };
        };
        let flit = 1.0 / link.rate.get();
        let direction = Link {
            one_way: ps(link.one_way.get()),
            line: ps(flit * f64::from(link.data_flits.get())),
            control: ps(flit),
            spare: link.spare_slots.get(),
        };
        let both = Some(direction);
        let latency = vec![0, direction.one_way, direction.one_way, 0];
        Topology { sockets: 2, links: vec![None, both, both, None], next: vec![0, 1, 0, 1], latency }
    }

    /// Connects one socket to another, in one direction. Routes follow the links with the least latency.
    #[must_use]
    pub fn with_link(mut self, from: SocketId, to: SocketId, link: Link) -> Topology {
        let pair = self.pair(from, to);
        self.links[pair] = Some(link);
        self.route();
        self
    }

    /// The same, in both directions.
    #[must_use]
    pub fn with_links(self, a: SocketId, b: SocketId, link: Link) -> Topology {
        self.with_link(a, b, link).with_link(b, a, link)
    }

    /// How many sockets there are.
    pub fn sockets(&self) -> usize {
        self.sockets
    }

    /// The number of an ordered pair of sockets.
    #[inline]
    pub fn pair(&self, from: SocketId, to: SocketId) -> usize {
        from as usize * self.sockets + to as usize
    }

    /// The link that connects two sockets directly; one that costs nothing where there is none.
    #[inline]
    pub fn link(&self, pair: usize) -> Link {
        self.links[pair].unwrap_or_default()
    }

    /// The next socket on the route; `from` itself where there is no route, or at its end.
    #[inline]
    pub fn next(&self, from: SocketId, to: SocketId) -> SocketId {
        self.next[self.pair(from, to)]
    }

    /// The unloaded one-way latency from one socket to another; none where there is no route.
    pub fn latency(&self, from: SocketId, to: SocketId) -> Option<Ps> {
        Some(self.latency[self.pair(from, to)]).filter(|latency| *latency != Ps::MAX)
    }

    /// True when every socket reaches every other.
    pub fn is_connected(&self) -> bool {
        self.latency.iter().all(|latency| *latency != Ps::MAX)
    }

    /// The socket nearest to `from` among those of a set, a bit each; the lowest of several.
    #[inline]
    pub fn nearest(&self, from: SocketId, set: u64) -> Option<SocketId> {
        if set.is_power_of_two() {
            return Some(set.trailing_zeros() as SocketId);
        }
        let members = (0..self.sockets as SocketId).filter(|s| set >> s & 1 != 0);
        members.min_by_key(|s| self.latency[self.pair(from, *s)])
    }

    /// Shortest routes, by Floyd and Warshall.
    fn route(&mut self) {
        let n = self.sockets;
        for from in 0..n {
            for to in 0..n {
                let link = self.links[from * n + to].map(|link| (link.one_way, to));
                let (latency, next) = if from == to { (0, to) } else { link.unwrap_or((Ps::MAX, from)) };
                (self.latency[from * n + to], self.next[from * n + to]) = (latency, next as SocketId);
            }
        }
        for by in 0..n {
            for from in 0..n {
                for to in 0..n {
                    let around = self.latency[from * n + by].saturating_add(self.latency[by * n + to]);
                    if around < self.latency[from * n + to] {
                        self.latency[from * n + to] = around;
                        self.next[from * n + to] = self.next[from * n + by];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(one_way: Ps) -> Link {
        Link { one_way, line: 500, control: 125, spare: 2 }
    }

    fn route(t: &Topology, from: SocketId, to: SocketId) -> Vec<SocketId> {
        let mut route = vec![from];
        while route.last() != Some(&to) {
            route.push(t.next(*route.last().unwrap(), to));
        }
        route
    }

    #[test]
    fn a_ring_of_four_goes_the_shorter_way() {
        let mut ring = Topology::new(4).unwrap();
        assert!(!ring.is_connected() && ring.latency(0, 1).is_none() && ring.next(0, 1) == 0);
        for (a, b, one_way) in [(0, 1, 20_000), (1, 2, 20_000), (2, 3, 30_000), (3, 0, 50_000)] {
            ring = ring.with_links(a, b, link(one_way));
        }
        assert!(ring.is_connected());
        assert_eq!(
            (ring.latency(0, 2), ring.latency(2, 0), ring.latency(1, 1)),
            (Some(40_000), Some(40_000), Some(0))
        );
        assert_eq!(route(&ring, 0, 2), [0, 1, 2]);
        // Three short links take 70 ns, the direct one 50.
        assert_eq!((route(&ring, 0, 3), ring.latency(0, 3)), (vec![0, 3], Some(50_000)));
        assert_eq!((route(&ring, 1, 3), ring.latency(1, 3)), (vec![1, 2, 3], Some(50_000)));
        assert_eq!(ring.nearest(0, 0b1100), Some(2));
        assert_eq!(
            (ring.nearest(3, 0b0110), ring.nearest(3, 0b0011), ring.nearest(3, 0)),
            (Some(2), Some(0), None)
        );
    }

    #[test]
    fn directions_can_differ() {
        let t = Topology::new(2).unwrap().with_link(0, 1, link(10_000));
        assert!(!t.is_connected());
        let t = t.with_link(1, 0, link(70_000));
        assert_eq!((t.latency(0, 1), t.latency(1, 0)), (Some(10_000), Some(70_000)));
    }

    #[test]
    fn a_platform_has_one_socket_or_two_alike() {
        let two = Topology::of(&Platform::named("icx").unwrap());
        assert_eq!((two.sockets(), two.latency(0, 1), two.latency(1, 0)), (2, Some(21_500), Some(21_500)));
        assert_eq!((two.link(1), two.next(0, 1), two.next(1, 0), two.next(1, 1)), (two.link(2), 1, 0, 1));
        let one = Topology::of(&Platform::named("spr-one-socket").unwrap());
        assert_eq!((one.sockets(), one.is_connected()), (1, true));
    }

    #[test]
    fn there_are_limits() {
        assert!(Topology::new(0).is_none() && Topology::new(SOCKETS_MAX).is_some());
        assert!(Topology::new(SOCKETS_MAX + 1).is_none());
    }
}
