//! What a program and its queues hold together, and how it is released.

use std::sync::Arc;

use ccnic::Layout;
use ccnic_control::{Connection, Teardown};
use ccnic_shm::Region;

use crate::shared::{Client, Registry};

/// What is held of a program until it is released.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) client: Arc<Client>,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) layout: Layout,
    pub(crate) region: Arc<Region>,
    pub(crate) connection: Arc<Connection>,
    /// The NIC's list of programs, which this one leaves when it is released.
    pub(crate) registry: Registry,
    /// Last: the thread of the program's connection lets go of what the others refer to after this.
    pub(crate) _teardown: Teardown,
}

impl Drop for Attached {
    /// Ends the connection, so that a program that is still running sees its NIC go, and leaves the NIC's list.
    fn drop(&mut self) {
        self.connection.hang_up();
        self.registry.remove(self.client.id);
    }
}
