//! A hostile program: a region, what it says of it to the NIC, and messages that no library would send.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::memory::RegionMemory;
use anyhow::Context;
use ccnic::{Config, Layout, host};
use ccnic_control::messages::Request;
use ccnic_control::{Connection, Error};
use ccnic_shm::{HUGE_PAGE, Pages, Region};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use crate::Stage;

/// Descriptors that the kernel lets pass with one message.
pub const PASSED_MOST: usize = 253;

/// A region and, once it is attached, the connection that keeps it so.
#[derive(Debug)]
pub struct Program {
    pub region: Region,
    pub layout: Layout,
    pub connection: Option<Connection>,
}

/// A configuration that takes little memory: `queues` with rings of `ring` descriptors, and `buffers`.
pub fn config(queues: u16, ring: u32, buffers: u32) -> Config {
    Config { queues, ring, buffers, ..Config::default() }
}

/// A region of small pages that is all in order, and its layout.
///
/// # Errors
/// A configuration out of range, or no memory.
pub fn region(config: &Config) -> anyhow::Result<(Region, Layout)> {
    let layout = Layout::new(config)?;
    let region = Region::create(layout.size(), Pages::Small)?;
    host::format(&region.memory(), &layout);
    Ok((region, layout))
}

/// A request to attach under a name.
pub fn attach_request(name: &str) -> Request {
    Request::Attach { name: name.to_owned(), mac: None, rss: None }
}

impl Program {
    /// A program with a region of its own that is all in order.
    pub fn new(config: &Config) -> anyhow::Result<Program> {
        let (region, layout) = region(config)?;
        Ok(Program { region, layout, connection: None })
    }

    /// The same on small pages, none of which has been put into a huge one: the library leaves an extent alone whose halves have homes of
    /// their own.
    pub fn plain(config: &Config) -> anyhow::Result<Program> {
        let layout = Layout::new(config)?;
        let node = ccnic_shm::numa::current_node();
        let extents = (0..layout.size()).step_by(HUGE_PAGE as usize);
        let homes: Vec<_> = extents.map(|at| (at..at + HUGE_PAGE / 2, node)).collect();
        let homes = homes.get(..(layout.size() / HUGE_PAGE) as usize).unwrap_or_default();
        let region = Region::create_homed(layout.size(), Pages::Small, homes)?;
        host::format(&region.memory(), &layout);
        Ok(Program { region, layout, connection: None })
    }

    /// Attaches over a new connection. False when the NIC refuses, which is counted; the connection is gone then.
    pub fn attach(&mut self, stage: &Stage<'_>, name: &str) -> bool {
        self.connection = stage.tried(self.connect(stage, name));
        self.connection.is_some()
    }

    /// A connection over which it is attached.
    fn connect(&self, stage: &Stage<'_>, name: &str) -> Result<Connection, Error> {
        let connection = Connection::open(stage.socket)?;
        connection.ask(&attach_request(name), Some(self.region.as_fd()))?;
        Ok(connection)
    }

    /// Up to so many programs that are attached, before the attack begins: they are not counted. Fewer when the NIC refuses one.
    pub fn several(
        stage: &Stage<'_>,
        name: &str,
        config: &Config,
        number: usize,
    ) -> anyhow::Result<Vec<Program>> {
        let mut programs = Vec::new();
        while programs.len() < number && stage.goes_on() {
            let mut program = Program::new(config)?;
            match program.connect(stage, name) {
                Ok(connection) => program.connection = Some(connection),
                Err(e) => {
                    stage.refused(e);
                    break;
                }
            }
            programs.push(program);
        }
        Ok(programs)
    }

    /// A program that is attached, or `None` when the NIC refuses it.
    pub fn attached(stage: &Stage<'_>, name: &str, config: &Config) -> anyhow::Result<Option<Program>> {
        let mut program = Program::new(config)?;
        Ok(program.attach(stage, name).then_some(program))
    }
}

/// Sends `bytes` as one message, with descriptors, without waiting.
pub fn send_raw(to: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// Reads and forgets one message if there is one; false when the connection has ended.
pub fn read_raw(from: impl AsFd, bytes: &mut [u8]) -> bool {
    match recv(from, bytes, RecvFlags::DONTWAIT) {
        Ok((_, n)) => n > 0,
        Err(e) => e == rustix::io::Errno::AGAIN,
    }
}

/// A memfd of so many bytes that has no pages, sealed as a region's.
pub fn sparse(bytes: u64) -> anyhow::Result<OwnedFd> {
    let fd = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .context("could not make a memfd")?;
    ftruncate(&fd, bytes).context("could not size a memfd")?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).context("could not seal a memfd")?;
    Ok(fd)
}

/// The header of a region of this layout, as bytes of a page.
pub fn header(layout: &Layout) -> anyhow::Result<Vec<u8>> {
    use ccnic::SharedMemory;
    let page = Region::create(4096, Pages::Small)?;
    layout.store(&page.memory());
    let mut bytes = vec![0; 4096];
    page.memory().read(0, &mut bytes);
    Ok(bytes)
}
