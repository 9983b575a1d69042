//! Attaching: a program's region is accounted for, checked and mapped, in this order, before the handler sees it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use ccnic::{HEADER_BYTES, Layout};
use ccnic_shm::{OfferedRegion, Region, Sealing};

use super::AttachRequest;
use super::client::{Client, Stop};
use crate::account::{Amounts, Lease, UserMemory};
use crate::connection::Peer;
use crate::inbox::Event;
use crate::limits::Limits;
use crate::messages::{NAME_MAX, Reply};
use crate::notifier::Budget;
use crate::rss::RssMessage;
use crate::teardown::{Jobs, teardown};
use crate::text::printable;

/// What a program says of itself in a request to attach.
pub(super) struct ClientInfo {
    pub(super) name: String,
    pub(super) mac: Option<[u8; 6]>,
    pub(super) rss: Option<RssMessage>,
}

/// What the thread of a connection keeps of an attached program.
pub(super) struct AttachedClient {
    name: String,
    peer: Peer,
    /// By queue: the socket of its notifier.
    pub(super) sockets: Vec<Option<Arc<OwnedFd>>>,
    pub(super) budget: Arc<Budget>,
    region: Arc<Region>,
    /// What the NIC has left to do at the end.
    jobs: Jobs,
    /// For the region, the program and its queues.
    leases: Lease,
}

impl AttachedClient {
    pub(super) fn queues(&self) -> u16 {
        self.sockets.len() as u16 // one for each
    }

    /// The end: the NIC's parts go, the region is unmapped, and only then counts no longer. Closing the program's sockets comes last: it
    /// may take for ever, and then holds nothing else up.
    pub(super) fn let_go(self) {
        let AttachedClient { sockets, region, jobs, leases, .. } = self;
        jobs.run();
        drop(region);
        drop(leases);
        drop(sockets);
    }
}

/// A region that has been looked at and accounted for, not mapped.
struct Accounted {
    offered: OfferedRegion,
    layout: Layout,
    leases: Lease,
}

impl Client {
    /// Checks and maps a program's region, and hands it to the NIC.
    pub(super) fn attach(&mut self, info: ClientInfo, fd: Option<OwnedFd>) -> Result<Reply, Stop> {
        if self.attached.is_some() {
            return Err("this connection has a region already; open another one".into());
        }
        let ClientInfo { name, mac, rss } = info;
        if name.len() > NAME_MAX {
            return Err(format!("name has {} bytes; choose one of at most {NAME_MAX}", name.len()).into());
        }
        let fd = fd.ok_or("no descriptor came with the request to attach")?;
        self.shared.account.check_file(&fd)?;
        let account_name = Arc::from(name.as_str());
        let Accounted { offered, layout, leases } = self.account_for(fd, &account_name)?;
        let queues = layout.config().queues;
        let rss = self.check_rss(rss.as_ref(), queues)?;
        let flows = self.take_flows(queues)?;
        let sealing = self.shared.account.limits().sealing(self.peer.uid);
        let region = Arc::new(offered.map(sealing).map_err(|e| e.to_string())?);
        let (teardown, jobs) = teardown();
        let attached = AttachedClient {
            name: name.clone(),
            peer: self.peer,
            sockets: (0..queues).map(|_| None).collect(),
            budget: Arc::default(),
            region: Arc::clone(&region),
            jobs,
            leases,
        };
        let request = AttachRequest {
            id: self.id,
            name,
            mac,
            rss,
            flows,
            pid: self.peer.pid,
            layout,
            region,
            memory: UserMemory::new(&self.shared.account, self.peer.uid, account_name),
            connection: Arc::clone(&self.connection),
            teardown,
        };
        match self.ask(Event::Attach(Box::new(request))) {
            Ok(reply) => {
                self.info("attached", &attached);
                self.attached = Some(attached);
                Ok(reply)
            }
            Err(stop) => {
                attached.let_go();
                Err(stop)
            }
        }
    }

    /// Looks at a region and accounts for it. Nothing of it is mapped, and no page of it read but by a copy.
    fn account_for(&self, fd: OwnedFd, name: &Arc<str>) -> Result<Accounted, Stop> {
        let account = &self.shared.account;
        let offered = OfferedRegion::new(fd).map_err(|e| e.to_string())?;
        let (size, most) = (offered.size(), account.limits().region_max);
        if size > most {
            return Err(ccnic_shm::Error::TooMuch { size, most }.to_string().into());
        }
        let header = offered.read_header::<HEADER_BYTES>().map_err(|e| e.to_string())?;
        let layout = Layout::from_header(&header, size).map_err(|e| e.to_string())?;
        if layout.config().mempool {
            return Err(MEMPOOL.to_string().into());
        }
        let queues = usize::from(layout.config().queues);
        let what = Amounts { connections: 0, programs: 1, queues, memory: u64::from(size) };
        let leases = account.take_for(self.peer.uid, name, what)?;
        Ok(Accounted { offered, layout, leases })
    }

    pub(super) fn info(&self, what: &str, attached: &AttachedClient) {
        if let Some(left_out) = self.log.line() {
            let AttachedClient { name, peer: Peer { pid, uid }, region, .. } = attached;
            let (queues, bytes) = (attached.queues(), region.size());
            let (name, left_out) = (printable(name), left_out.0);
            tracing::info!(name, pid, uid, queues, bytes, left_out, "{what}");
        }
    }
}

/// Why a region with this pool is refused: one agent at a time changes an end of its ring, and the others wait for it.
const MEMPOOL: &str = "mempool is 1; choose 0, because a program that stops while it changes that pool's ring makes the NIC wait";

impl Limits {
    /// How the regions of a user are sealed.
    fn sealing(&self, uid: u32) -> Sealing {
        if self.trusted_users.contains(&uid) { Sealing::Trusted } else { Sealing::Required }
    }
}
