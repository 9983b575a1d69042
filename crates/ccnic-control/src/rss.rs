//! Receive-side scaling as messages say it. What comes from the other side is checked before it becomes an [`Rss`].

use ccnic::rss::{FlowType, KEY, Rss, TABLE};
use serde::{Deserialize, Serialize};

/// An [`Rss`] in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RssMessage {
    /// Of the hash.
    pub key: Vec<u8>,
    /// Names of what is hashed.
    pub types: Vec<String>,
    /// A queue for each value of the hash's low bits.
    pub table: Vec<u16>,
    /// Received packets have their hash in the metadata.
    #[serde(default)]
    pub hash: bool,
}

impl From<&Rss> for RssMessage {
    fn from(rss: &Rss) -> RssMessage {
        RssMessage {
            key: rss.key.to_vec(),
            types: rss.types.iter().map(|flow| flow.name().to_owned()).collect(),
            table: rss.table.to_vec(),
            hash: rss.hash,
        }
    }
}

impl RssMessage {
    /// What it says, for a program with so many queues.
    ///
    /// # Errors
    /// The first field that cannot be, and what it may be.
    pub fn check(&self, queues: u16) -> Result<Rss, String> {
        let RssMessage { key, types, table, hash } = self;
        let key =
            key.as_slice().try_into().map_err(|_| format!("key has {} bytes; give {KEY}", key.len()))?;
        let table = table
            .as_slice()
            .try_into()
            .map_err(|_| format!("table has {} entries; give {TABLE}", table.len()))?;
        let types = types.iter().map(|name| flow_type(name)).collect::<Result<_, _>>()?;
        let rss = Rss { key, types, table, hash: *hash };
        check_table(&rss, queues)?;
        Ok(rss)
    }
}

/// Every entry of the table is one of so many queues.
pub fn check_table(rss: &Rss, queues: u16) -> Result<(), String> {
    match rss.table.iter().enumerate().find(|(_, queue)| **queue >= queues) {
        None => Ok(()),
        Some((at, queue)) => Err(format!(
            "table[{at}] is queue {queue}; the program has queues 0 to {}",
            queues.saturating_sub(1)
        )),
    }
}

fn flow_type(name: &str) -> Result<FlowType, String> {
    FlowType::ALL.into_iter().find(|flow| flow.name() == name).ok_or_else(|| {
        let known = FlowType::ALL.map(FlowType::name).join(", ");
        // As much of it as a log can bear.
        format!("types names {:?}; choose among {known}", name.chars().take(32).collect::<String>())
    })
}
