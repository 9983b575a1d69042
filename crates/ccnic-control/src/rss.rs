//! Receive-side scaling in messages. What comes from the other side is checked before it becomes an [`Rss`].

use ccnic::rss::{FlowType, KEY, Rss, TABLE};
use serde::{Deserialize, Serialize};

/// An [`Rss`] in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RssMessage {
    /// The key of the hash.
    pub key: Vec<u8>,
    /// Names of the flow types that are hashed.
    pub types: Vec<String>,
    /// The queue for each value of the hash's low bits.
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
    /// Checks every field, for a program with so many queues.
    ///
    /// # Errors
    /// The first field that is wrong, and what it may be.
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

/// Checks that every entry of the table is one of so many queues.
///
/// # Errors
/// The first entry that is not.
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
        // The name is the program's: only its beginning goes into the log.
        format!("types names {:?}; choose among {known}", name.chars().take(32).collect::<String>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rss_survives_as_a_message() {
        let rss = Rss {
            types: [FlowType::Ipv4, FlowType::Ipv6Tcp].into_iter().collect(),
            hash: true,
            ..Rss::new(3)
        };
        let message = RssMessage::from(&rss);
        let text = serde_json::to_string(&message).unwrap();
        let back: RssMessage = serde_json::from_str(&text).unwrap();
        assert_eq!((&back, back.check(3)), (&message, Ok(rss)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = RssMessage::from(&Rss::new(4));
        let why = |message: RssMessage| message.check(4).unwrap_err();
        assert_eq!(why(RssMessage { key: vec![0; 52], ..good.clone() }), "key has 52 bytes; give 40");
        assert_eq!(why(RssMessage { table: vec![0; 2], ..good.clone() }), "table has 2 entries; give 128");
        let mut table = good.table.clone();
        table[9] = 4;
        assert_eq!(
            why(RssMessage { table, ..good.clone() }),
            "table[9] is queue 4; the program has queues 0 to 3"
        );
        let long = "x".repeat(1000);
        let why = why(RssMessage { types: vec!["ipv4".into(), long], ..good });
        assert!(why.starts_with("types names \"xxx") && why.contains("choose among ipv4, ipv4-tcp"), "{why}");
        assert!(why.len() < 200, "{why}");
    }
}
