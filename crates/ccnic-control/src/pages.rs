//! The status in pages: each fits a message, however many programs and queues there are.

use std::ops::Range;

use crate::ClientId;
use crate::connection::MESSAGE_MAX;
use crate::counters::COUNTERS;
use crate::messages::Cursor;

/// What a page may weigh: bytes of JSON, with room for what does not depend on programs.
const PAGE: usize = MESSAGE_MAX - (16 << 10);
/// The most bytes that a program takes beside its queues: a name of 255 characters that JSON escapes by six each, RSS, latencies, memory.
const PROGRAM: usize = 15 << 8;
/// The most bytes that a queue takes: its number, its CPU, and counters of twenty digits, each with its name, quotes, colon and comma.
const QUEUE: usize = {
    let mut bytes = r#"{"queue":65535,"core":18446744073709551615},"#.len();
    let mut at = 0;
    while at < COUNTERS.len() {
        bytes += COUNTERS[at].name.len() + 24;
        at += 1;
    }
    bytes
};

/// What one page shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Programs, in ascending order, each with those of its queues that the page shows.
    pub programs: Vec<(ClientId, Range<u16>)>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

impl Page {
    /// The page that begins at `from`, of programs with so many queues each, in ascending order.
    pub fn new(from: Cursor, programs: impl IntoIterator<Item = (ClientId, u16)>) -> Page {
        let mut page = Page::default();
        let mut left = PAGE;
        for (id, queues) in programs.into_iter().filter(|(id, _)| *id >= from.program) {
            let first = if id == from.program { from.queue.min(queues) } else { 0 };
            let fit = left.saturating_sub(PROGRAM) / QUEUE;
            let end = first.saturating_add(u16::try_from(fit).unwrap_or(u16::MAX)).min(queues);
            if end > first || (left >= PROGRAM && first == queues) {
                page.programs.push((id, first..end));
                left = left.saturating_sub(PROGRAM + QUEUE * usize::from(end - first));
            }
            if end < queues {
                page.next = Some(Cursor { program: id, queue: end });
                break;
            }
        }
        page
    }

    /// The queues of a program that the page shows, if it shows the program.
    pub fn queues_of(&self, id: ClientId) -> Option<Range<u16>> {
        let at = self.programs.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.programs.get(at).map(|(_, queues)| queues.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{CLASSES, LatencyStatus};
    use crate::messages::{
        MemoryStatus, NAME_MAX, ProgramStatus, QueueStatus, Reply, SandboxStatus, Share, Status, TuningStatus,
    };
    use crate::rss::RssMessage;
    use ccnic::Tuning;
    use ccnic::rss::Rss;

    const ALL: Share = Share { used: u64::MAX, most: u64::MAX };

    /// The page, with everything as long as it can be.
    fn status(page: &Page) -> Status {
        let queue = |queue| QueueStatus::with_values(queue, 8191, [u64::MAX; COUNTERS.len()]);
        let mut rss = RssMessage::from(&Rss::new(256));
        rss.key.fill(255);
        rss.table.fill(255);
        let program = |(id, queues): &(ClientId, Range<u16>)| ProgramStatus {
            id: *id,
            name: "\u{1b}".repeat(NAME_MAX),
            pid: i32::MAX,
            design: "grouped-epoch".into(),
            rss: Some(rss.clone()),
            latency: Some(LatencyStatus { sum_ns: u64::MAX, classes: [u64::MAX; CLASSES] }),
            memory: Some(MemoryStatus { bytes: u64::MAX, uid: u32::MAX, user: ALL, named: Some(ALL) }),
            queues: queues.clone().map(queue).collect(),
        };
        Status {
            version: "0.1.0".into(),
            pid: u32::MAX,
            uptime_s: 1e9,
            wire: "w".repeat(255),
            cores: (0..512).collect(),
            busy_ns: vec![u64::MAX; 512],
            tuning: Some(TuningStatus::new(Tuning { ahead: 8, ..Tuning::default() }, "measured")),
            sandbox: Some(SandboxStatus {
                uid: u32::MAX,
                capabilities: "dropped".into(),
                kept: vec!["cap_checkpoint_restore".into(); 41],
                landlock: "partial".into(),
                seccomp: "none".into(),
            }),
            programs: page.programs.iter().map(program).collect(),
            next: page.next,
        }
    }

    /// All programs are on the pages, each queue once, and no page is too long.
    fn check(programs: &[(ClientId, u16)]) -> usize {
        let mut whole: Option<Status> = None;
        let (mut from, mut pages) = (Cursor::default(), 0);
        loop {
            let page = Page::new(from, programs.iter().copied());
            let status = status(&page);
            let bytes = serde_json::to_string(&Reply::Status(Box::new(status.clone()))).unwrap().len();
            assert!(bytes <= MESSAGE_MAX, "{bytes} bytes");
            pages += 1;
            match &mut whole {
                None => whole = Some(status),
                Some(whole) => whole.append(status).unwrap(),
            }
            let Some(next) = page.next else { break };
            from = next;
        }
        let shown = whole.unwrap().programs;
        let shown: Vec<_> =
            shown.iter().map(|p| (p.id, p.queues.iter().map(|q| q.queue).collect::<Vec<_>>())).collect();
        let there: Vec<_> = programs.iter().map(|(id, queues)| (*id, (0..*queues).collect())).collect();
        assert_eq!(shown, there);
        pages
    }

    #[test]
    fn every_queue_is_shown_once_on_pages_that_fit_a_message() {
        assert_eq!(check(&[]), 1);
        assert_eq!(check(&[(1, 1), (5, 4), (9, 1)]), 1);
        assert!(check(&[(3, 256)]) > 1);
        check(&[(1, 256), (2, 256), (7, 256), (8, 1)]);
        check(&(1..300).map(|id| (id, 1)).collect::<Vec<_>>());
        check(&(1..40).map(|id| (id * 3, (id * 7 % 256) as u16 + 1)).collect::<Vec<_>>());
    }

    #[test]
    fn programs_that_have_gone_are_passed_over() {
        let page = Page::new(Cursor { program: 4, queue: 30 }, [(1, 9), (5, 2), (6, 1)]);
        assert_eq!(page.programs, [(5, 0..2), (6, 0..1)]);
        assert_eq!((page.queues_of(5), page.queues_of(4)), (Some(0..2), None));
        let shrunk = Page::new(Cursor { program: 4, queue: 30 }, [(4, 9)]);
        assert_eq!(shrunk.programs, [(4, 9..9)], "a cursor that another has made up");
    }

    #[test]
    fn a_nic_that_leads_back_is_not_followed() {
        let page = |from, next| {
            let mut status = status(&Page::default());
            status.next = next;
            (status, from)
        };
        let (mut first, _) = page(0, Some(Cursor { program: 2, queue: 0 }));
        let (again, _) = page(0, first.next);
        assert!(first.append(again).is_err());
    }
}
