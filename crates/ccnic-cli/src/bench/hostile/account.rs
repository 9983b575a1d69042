//! What the NIC has counted at the ports of the good programs.

use std::path::Path;

use ccnic_control::Connection;
use ccnic_control::counters::{COUNTERS, Kind};
use serde::Serialize;

use super::good::{NAME, SENDING};

/// At all ports of good programs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Account {
    /// Packets delivered to them.
    pub delivered: u64,
    /// Packets dropped at those of them that packets of good programs go to, for whatever reason.
    pub dropped: u64,
}

impl Account {
    /// Asks the NIC at `socket`; none when it does not answer.
    pub fn read(socket: &Path) -> Option<Account> {
        let status = Connection::open(socket).and_then(|connection| connection.status()).ok()?;
        let mut account = Account::default();
        for port in status.programs.iter().filter(|port| [NAME, SENDING].contains(&port.name.as_str())) {
            account.delivered += port.queues.iter().map(|queue| queue.rx_packets).sum::<u64>();
            if port.name == NAME {
                let drops = COUNTERS.iter().filter(|counter| counter.kind == Kind::Drop);
                account.dropped += drops.map(|counter| counter.sum(&port.queues)).sum::<u64>();
            }
        }
        Some(account)
    }
}
