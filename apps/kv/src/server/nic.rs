//! A server thread on a queue pair of a ccnic NIC: it polls its stack, and sleeps when nothing has come for some time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use ccnic_client::{Design, FlowMatch, FlowRule, FlowTarget};
use ccnic_tcp::{Conn, Event, Listener, Network, Stack};

use super::chores::{Chores, DISCONNECTED};
use super::client::{Client, Stay, Stream};
use super::nic_datagrams::Inbox;
use super::spent::Spent;
use super::worker::Mailbox;
use super::{Options, unix_time};
use crate::protocol::{Endpoint, Output, Server};
use crate::store::Store;

/// The longest sleep: after that it looks whether it is to stop.
const NAP: Duration = Duration::from_millis(100);
/// Polls after which the clock is read again while there is no pause: it counts seconds, and each reading may keep a request waiting.
const CLOCK: usize = 1024;

/// Opens a stack for each thread.
pub(crate) fn open(options: &Options) -> anyhow::Result<Vec<Stack>> {
    let Some(socket) = &options.ccnic else { return Ok(Vec::new()) };
    let mut stack_options = stack_options(options)?;
    let threads = u16::try_from(options.threads).context("-t")?;
    // One thread has every queue; others get what is for their shard by the port.
    for queue in (0..threads).filter(|_| threads > 1 && options.rpc_port != 0) {
        let dst_port = Some(options.rpc_port.checked_add(queue).with_context(|| too_high(options))?);
        let matches = FlowMatch { protocol: Some(17), dst_port, ..FlowMatch::default() };
        stack_options.flows.push(FlowRule { priority: 0, matches, to: FlowTarget::Queue(queue), mark: None });
    }
    Stack::open_many(socket, &stack_options, threads).with_context(|| format!("--ccnic {}", socket.display()))
}

/// What is listened to there.
pub(crate) fn endpoints(options: &Options) -> anyhow::Result<Vec<Endpoint>> {
    let mut all = Vec::new();
    for text in &options.address {
        let ip = text.parse::<Network>().context("--address")?.address;
        let at = |port| SocketAddr::new(ip, port);
        all.extend((options.port != 0).then(|| Endpoint::Tcp(at(options.port))));
        all.extend((options.udp_port != 0).then(|| Endpoint::Udp(at(options.udp_port))));
        all.extend(rpc_ports(options)?.map(|port| Endpoint::Udp(at(port))));
    }
    Ok(all)
}

fn too_high(options: &Options) -> String {
    let most = usize::from(u16::MAX).saturating_sub(options.threads);
    format!("--rpc-port {}: with -t {} it is at most {most}", options.rpc_port, options.threads)
}

/// The ports of --rpc-port.
fn rpc_ports(options: &Options) -> anyhow::Result<impl Iterator<Item = u16> + use<>> {
    let (first, count) = (options.rpc_port, if options.rpc_port == 0 { 0 } else { options.threads });
    let last = u16::try_from(usize::from(first) + count).with_context(|| too_high(options))?;
    Ok(first..last)
}

fn stack_options(options: &Options) -> anyhow::Result<ccnic_tcp::Options> {
    let mut networks = Vec::new();
    for text in &options.address {
        networks.push(text.parse::<Network>().context("--address")?);
    }
    let first = networks.first().context("--ccnic needs --address, for example 10.9.0.2/24")?;
    let mut all = ccnic_tcp::Options::new(*first);
    for network in networks.iter().skip(1) {
        let place = if network.address.is_ipv4() { &mut all.ipv4 } else { &mut all.ipv6 };
        if let Some(before) = place.replace(*network) {
            bail!(
                "--address: {} and {} are of the same version of IP; leave one of them out",
                before.address,
                network.address
            );
        }
    }
    all.name = Some("ccnic-kv".to_owned());
    all.set_gateways(options.gateway.iter().copied()).context("--gateway")?;
    all.mtu = options.mtu;
    all.config.design = options.design;
    // The E810 design has no shared pool.
    all.config.shared_pool = options.design != Design::Doorbell;
    all.sleep_after = Duration::from_micros(options.sleep_after);
    all.kept = options.kept_memory();
    all.connections = options.conn_limit.max(1) + usize::from(options.listen_backlog);
    Ok(all)
}

/// A thread's stack and what it serves with it.
pub(crate) struct NicWorker {
    number: usize,
    stack: Stack,
    store: Arc<Store>,
    server: Arc<Server>,
    mailbox: Arc<Mailbox>,
    clients: Clients,
    /// Clients that have more to do than one turn permits.
    again: Vec<Conn>,
    inbox: Inbox,
    spent: Spent,
}

/// The clients of a stack's connections. Their numbers are small, so that none is looked for.
#[derive(Default)]
struct Clients(Vec<Option<(Conn, Client)>>);

impl Clients {
    fn place(&mut self, conn: Conn) -> Option<&mut Option<(Conn, Client)>> {
        self.0.get_mut(conn.index()).filter(|place| place.as_ref().is_some_and(|(of, _)| *of == conn))
    }

    fn get_mut(&mut self, conn: Conn) -> Option<&mut Client> {
        self.place(conn)?.as_mut().map(|(_, client)| client)
    }

    fn insert(&mut self, conn: Conn, client: Client) {
        let most = self.0.len().max(conn.index() + 1);
        self.0.resize_with(most, || None);
        self.0[conn.index()] = Some((conn, client));
    }

    fn remove(&mut self, conn: Conn) -> Option<Client> {
        self.place(conn)?.take().map(|(_, client)| client)
    }

    /// The connections whose clients are such.
    fn which(&self, is: impl Fn(&Client) -> bool) -> Vec<Conn> {
        self.0.iter().flatten().filter(|(_, client)| is(client)).map(|(conn, _)| *conn).collect()
    }
}

/// A connection of a stack.
struct Tcp<'a> {
    stack: &'a mut Stack,
    conn: Conn,
}

impl Stream for Tcp<'_> {
    const TURNS: usize = usize::MAX;

    fn read(&mut self, take: impl FnOnce(&[u8])) -> io::Result<(usize, bool)> {
        self.stack.read_with(self.conn, |bytes| {
            take(bytes);
            (bytes.len(), (bytes.len(), true))
        })
    }

    fn write(&mut self, output: &Output) -> io::Result<usize> {
        let mut written = 0;
        for segment in output.segments() {
            match self.stack.write(self.conn, segment) {
                Ok(count) => {
                    written += count;
                    if count < segment.len() {
                        break;
                    }
                }
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }
}

impl NicWorker {
    pub(crate) fn new(
        number: usize,
        mut stack: Stack,
        options: &Options,
        store: Arc<Store>,
        server: Arc<Server>,
        mailbox: Arc<Mailbox>,
    ) -> anyhow::Result<NicWorker> {
        if options.port != 0 {
            stack.listen(options.port, options.listen_backlog.into()).context("-p")?;
        }
        if options.udp_port != 0 {
            stack.bind(options.udp_port).context("-U")?;
        }
        for port in rpc_ports(options)? {
            // A request that comes to another thread than that of its port is answered all the same.
            stack.bind(port).context("--rpc-port")?;
        }
        let keeps =
            (number < store.shards() && options.kept_memory() > 0).then_some((number, options.kept_from));
        let (clients, inbox) =
            (Clients::default(), Inbox::new(store.clone(), options.udp_port, options.mtu, keeps));
        let spent = Spent::new();
        Ok(NicWorker { number, stack, store, server, mailbox, clients, again: Vec::new(), inbox, spent })
    }

    /// Serves until it is told to stop.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let mut now = unix_time();
        let mut chores = Chores::new(self.number, now);
        let mut turns = 0;
        while !self.mailbox.stopped() && !self.server.ended.load(Ordering::Relaxed) {
            self.poll(now);
            turns += 1;
            let busy = self.inbox.waits() || !self.again.is_empty() || chores.waits();
            let waited = !busy && self.stack.wait_when_idle(NAP)?;
            if !waited && !chores.waits() && turns % CLOCK != 0 {
                continue;
            }
            if waited {
                self.spent.tell(&self.server.counters.interface);
            }
            now = unix_time();
            if chores.sweep(&self.store, now) {
                let all = self.disconnect_idle(now);
                chores.disconnected(all);
            }
        }
        let all = self.clients.which(|_| true);
        all.into_iter().for_each(|conn| self.remove(conn));
        self.stack.flush();
        Ok(())
    }

    fn poll(&mut self, now: u32) {
        self.spent.begin();
        let frames = self.stack.poll_datagrams(&mut self.inbox);
        self.inbox.answer(&mut self.stack, &self.store, &self.server, &mut self.spent, now);
        if !self.again.is_empty() {
            for conn in std::mem::take(&mut self.again) {
                if let Some(client) = self.clients.get_mut(conn) {
                    client.waits = false;
                    self.turn(conn, now);
                }
            }
        }
        while let Some(event) = self.stack.next_event() {
            match event {
                Event::Accept(listener) => self.accept(listener, now),
                Event::Ready(conn, _) => self.turn(conn, now),
            }
        }
        self.spent.end(frames > 0, self.stack.polled_at(), &self.server.counters.interface);
    }

    fn accept(&mut self, listener: Listener, now: u32) {
        while let Some(conn) = self.stack.accept(listener) {
            let counters = &self.server.counters;
            if counters.current_connections.load(Ordering::Relaxed) >= self.server.settings.connections {
                counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
                let _ = self.stack.write(conn, b"ERROR Too many open connections\r\n");
                self.stack.close(conn);
                continue;
            }
            counters.current_connections.fetch_add(1, Ordering::Relaxed);
            counters.total_connections.fetch_add(1, Ordering::Relaxed);
            let end = |address: io::Result<SocketAddr>| address.map_or(Endpoint::Unnamed, Endpoint::Tcp);
            let (client, server) = (end(self.stack.remote(conn)), end(self.stack.local(conn)));
            let listed = self.server.connections.add(client, Some(server), now);
            self.clients.insert(conn, Client::new(listed, now));
        }
    }

    fn turn(&mut self, conn: Conn, now: u32) {
        let Some(client) = self.clients.get_mut(conn) else { return };
        let mut tcp = Tcp { stack: &mut self.stack, conn };
        match client.turn(&mut tcp, &self.store, &self.server, now) {
            Stay::Yes => {}
            Stay::No => self.remove(conn),
            Stay::Again if std::mem::replace(&mut client.waits, true) => {}
            Stay::Again => self.again.push(conn),
        }
    }

    fn remove(&mut self, conn: Conn) {
        if let Some(mut client) = self.clients.remove(conn) {
            client.end(&self.store);
            self.stack.close(conn);
            self.server.counters.current_connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// False: there are more.
    fn disconnect_idle(&mut self, now: u32) -> bool {
        let limit = self.server.settings.idle_timeout;
        if limit == 0 {
            return true;
        }
        let idle = |client: &Client| now.saturating_sub(client.heard) > limit;
        let mut over = self.clients.which(idle);
        let all = over.len() <= DISCONNECTED;
        over.truncate(DISCONNECTED);
        for conn in over {
            self.remove(conn);
            self.server.counters.idle_kicks.fetch_add(1, Ordering::Relaxed);
        }
        all
    }
}

impl Drop for NicWorker {
    /// Also when it panics: the memory that values lie in ends with the stack, and what is stored is saved afterwards.
    fn drop(&mut self) {
        if self.number < self.store.shards() {
            self.store.session(unix_time()).bring_back(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn each_version_of_ip_has_one_address_and_one_gateway() {
        let options = |words: &[&str]| {
            stack_options(&Options::parse_from([&["ccnic-kv", "--ccnic", "nic.sock"], words].concat()))
        };
        let both = ["--address", "10.9.0.2/24,fd09::2/64", "--gateway", "fe80::1", "--gateway", "10.9.0.1"];
        let both = options(&both).unwrap();
        assert_eq!(both.gateway4.map(|gateway| gateway.to_string()).as_deref(), Some("10.9.0.1"));
        assert_eq!(both.gateway6.map(|gateway| gateway.to_string()).as_deref(), Some("fe80::1"));
        assert!(both.ipv4.is_some() && both.ipv6.is_some());
        for words in [
            &["--address", "10.9.0.2/24", "--gateway", "10.9.0.1,10.9.0.3"][..],
            &["--address", "10.9.0.2/24,10.9.0.3/24"],
        ] {
            let refused = format!("{:#}", options(words).unwrap_err());
            assert!(
                refused.starts_with("--")
                    && refused.ends_with("the same version of IP; leave one of them out")
            );
        }
    }
}
