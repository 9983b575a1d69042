// A loopback NIC on a thread: of a unit test, or of an example in the documentation, which includes this file.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ccnic::Layout;
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::rss::Rss;
use ccnic_control::flow::{FLOW_VERSION, FlowAbility, FlowEntry, FlowPage, FlowReply, FlowRequest, FlowRule};
use ccnic_control::messages::{Cursor, Hello, Status};
use ccnic_control::offloads::Offloads;
use ccnic_control::{AttachRequest, ClientId, Handler, Limits, Listener, Notifier, Teardown};
use ccnic_frame::Takes;
use ccnic_shm::{NativeMemory, Region};
use ccnic_testing::RegionMemory;

/// Longer than any machine needs; only a hang gets here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A NIC that polls until it is dropped. It leaves its programs as a NIC does that is killed.
pub(crate) struct TestNic {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl TestNic {
    /// Listens at `socket`. Does receive-side scaling, or says so, with `rss`.
    pub(crate) fn start(socket: &Path, rss: bool) -> TestNic {
        TestNic::start_with(socket, rss, None, true, None)
    }

    /// As `start`, and tells programs this tuning.
    #[allow(dead_code, reason = "examples in the documentation have no use for it")]
    pub(crate) fn start_tuned(socket: &Path, tuning: u32) -> TestNic {
        TestNic::start_with(socket, false, Some(tuning), true, None)
    }

    /// As `start`, and does not know kept segments.
    #[allow(dead_code, reason = "examples in the documentation have no use for it")]
    pub(crate) fn start_older(socket: &Path) -> TestNic {
        TestNic::start_with(socket, false, None, false, None)
    }

    /// As `start`, and takes all requests of metadata, which a loopback need not look at. Knows kept segments, or does not.
    #[allow(dead_code, reason = "examples in the documentation have no use for it")]
    pub(crate) fn start_taking(socket: &Path, kept: bool) -> TestNic {
        TestNic::start_with(socket, false, None, kept, Some(Offloads::completed(Takes::ALL)))
    }

    fn start_with(
        socket: &Path,
        rss: bool,
        tuning: Option<u32>,
        kept: bool,
        offloads: Option<Offloads>,
    ) -> TestNic {
        let limits = Limits::new(u32::MAX, u64::MAX);
        let mut listener = Listener::new(socket, limits).unwrap();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let mut nic =
                Clients { rss, tuning, kept, offloads, clients: Vec::new(), flows: BTreeMap::new() };
            let turn = Some(Duration::from_micros(50));
            while !listener.poll(&mut nic, Some(stopped.as_fd()), turn) {
                nic.clients.iter_mut().for_each(|(_, client, _)| client.poll());
            }
        });
        TestNic { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for TestNic {
    fn drop(&mut self) {
        self.stop = None; // its other end can be read now
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Clients {
    rss: bool,
    tuning: Option<u32>,
    kept: bool,
    offloads: Option<Offloads>,
    /// The teardown goes last.
    clients: Vec<(ClientId, Box<dyn Client>, Teardown)>,
    /// Flow rules of clients, by number. It keeps them; no packet is compared with them.
    flows: BTreeMap<(ClientId, u32), FlowRule>,
}

impl Handler for Clients {
    fn hello(&self) -> Hello {
        let flow = Some(FlowAbility { version: FLOW_VERSION, rules: 16, field_sets: 4 });
        let (version, rss, tuning) = ("test".to_owned(), self.rss, self.tuning);
        let (kept, offloads) = (self.kept, self.offloads.clone());
        Hello { version, rss, tuning, flow, kept, offloads, ..Hello::default() }
    }

    fn status(&self, _: Cursor) -> Status {
        let (version, wire) = ("test".to_owned(), "loopback".to_owned());
        let (cores, programs) = (Vec::new(), Vec::new());
        let busy_ns = vec![0; cores.len()];
        Status { version, pid: 0, uptime_s: 0.0, wire, cores, busy_ns, programs, ..Status::default() }
    }

    fn attach(&mut self, request: AttachRequest) -> Result<(), String> {
        let AttachRequest { id, layout, region, teardown, .. } = request;
        let queues = layout.config().design.dispatch(Queues { region, layout });
        self.clients.push((id, queues, teardown));
        Ok(())
    }

    fn set_rss(&mut self, _: ClientId, _: Option<Rss>) -> Result<(), String> {
        Ok(())
    }

    fn flow(&mut self, of: ClientId, request: FlowRequest) -> Result<FlowReply, String> {
        match request {
            FlowRequest::Create { id, rule, .. } => {
                let id = id.ok_or("a program gives its rules their numbers")?;
                self.flows.insert((of, id), rule);
                Ok(FlowReply::Created(id))
            }
            FlowRequest::Destroy { id, .. } => {
                self.flows.remove(&(of, id)).map(|_| FlowReply::Done).ok_or("no such rule".to_owned())
            }
            FlowRequest::Flush { .. } => {
                self.flows.retain(|(whose, _), _| *whose != of);
                Ok(FlowReply::Done)
            }
            FlowRequest::Query { id, .. } => {
                let rule = *self.flows.get(&(of, id)).ok_or("no such rule")?;
                let rules = vec![FlowEntry { id, rule, packets: 0, bytes: 0 }];
                Ok(FlowReply::Rules(FlowPage { rules, next: None }))
            }
            FlowRequest::List { .. } => Err("the tests list none".to_owned()),
        }
    }

    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String> {
        let client = self.clients.iter_mut().find(|(other, ..)| *other == id);
        client.ok_or("no such client")?.1.notify(queue, notifier);
        Ok(())
    }

    fn detach(&mut self, id: ClientId) {
        self.clients.retain(|(other, ..)| *other != id);
        self.flows.retain(|(whose, _), _| *whose != id);
    }
}

/// The queue pairs of a program.
trait Client {
    fn poll(&mut self);
    fn notify(&mut self, queue: u16, notifier: Notifier);
}

struct Queue<R: Ring> {
    queue: NicQueue<NativeMemory, R>,
    pipeline: Pipeline,
    notifier: Option<Notifier>,
}

impl<R: Ring> Client for Vec<Queue<R>> {
    fn poll(&mut self) {
        for Queue { queue, pipeline, notifier } in self {
            let mem = queue.memory().clone();
            loopback(queue, pipeline, &mem, false);
            if let Some(notifier) = notifier {
                notifier.notify_if_armed(queue);
            }
        }
    }

    fn notify(&mut self, queue: u16, notifier: Notifier) {
        self[usize::from(queue)].notifier = Some(notifier);
    }
}

struct Queues {
    region: Arc<Region>,
    layout: Layout,
}

impl RingVisitor for Queues {
    type Output = Box<dyn Client>;

    fn visit<R: Ring>(self) -> Box<dyn Client> {
        let queues = (0..self.layout.config().queues).map(|number| Queue::<R> {
            queue: NicQueue::new(self.region.memory(), &self.layout, number).unwrap(),
            pipeline: Pipeline::default(),
            notifier: None,
        });
        Box::new(queues.collect::<Vec<_>>())
    }
}
