//! What each worker gets of a port of the switch: one polls it, the others have a guest of it.

use std::sync::Arc;

use anyhow::Context;
use ccnic_control::ClientId;
use ccnic_control::messages::QueueStatus;

use super::DaemonOptions;
use super::attach::NO_MEMORY;
use crate::dataplane::DataplaneKind;
use crate::poll::client::Part;
use crate::poll::core::Rest;
use crate::poll::sleep::Caller;
use crate::poll::worker::Worker;
use crate::switch::lanes::lanes;
use crate::switch::places::Place;
use crate::switch::policy::{Policy, Rules};
use crate::switch::{Guest, Member, Switch, news};

fn no_memory(error: ccnic_shm::Error) -> std::io::Error {
    std::io::Error::other(error)
}

/// Starts a worker on each core, with a switch each, if there is one.
///
/// # Errors
/// When the system can start no thread, or has no descriptor or memory left.
pub(super) fn start_workers(options: &DaemonOptions) -> std::io::Result<Vec<Worker>> {
    let rest = Rest::new(options.dedicated_cores, options.tuning.tuning.idle);
    let callers = options.cores.iter().map(|_| Caller::new()).collect::<Result<Vec<_>, _>>()?;
    if callers.len() > 1 {
        ccnic_shm::take_part_in_barriers(); // they wake each other
    }
    let switches: Vec<_> = match options.dataplane {
        DataplaneKind::Switch(limits) if callers.len() > 1 => {
            let beside = |news| Switch::beside(limits, news);
            news::between(&callers).into_iter().map(beside).collect::<Result<_, _>>().map_err(no_memory)?
        }
        DataplaneKind::Switch(limits) => vec![Switch::new(limits).map_err(no_memory)?],
        DataplaneKind::Loopback | DataplaneKind::Reflect => callers.iter().map(|_| Switch::none()).collect(),
    };
    let start = |((cpu, caller), switch): ((&usize, Caller), Switch)| {
        let switch = switch.with_reserved(options.reserved);
        Worker::start(*cpu, rest, options.sleep_after, caller, switch)
    };
    options.cores.iter().zip(callers).zip(switches).map(start).collect()
}

/// The worker that polls a new port: the one that polls the fewest queues.
pub(super) fn home(workers: &[Worker]) -> usize {
    let least = workers.iter().enumerate().min_by_key(|(_, worker)| worker.queues);
    least.map_or(0, |(at, _)| at)
}

/// What each worker gets of a port that worker `home` polls, that one last: when it begins, all others know the port.
///
/// # Errors
/// When there is no memory for what the policy needs.
pub(super) fn members(
    workers: &[Worker],
    home: usize,
    port: Part,
    policy: &Policy,
    place: &Arc<Place>,
) -> anyhow::Result<Vec<(usize, Part)>> {
    let (at, port) = match port {
        Part::Joined(at, Member::Home(port, _)) if workers.len() > 1 => (at, port),
        alone => return Ok(vec![(home, alone)]),
    };
    let callers: Vec<_> = workers.iter().map(|worker| worker.caller().clone()).collect();
    let (lanes, ends) = lanes(home, &callers);
    let mut parts = Vec::new();
    for (worker, end) in ends {
        let rules = Rules::new(policy).context(NO_MEMORY)?;
        let guest = Guest::new(home, &*port, end, Arc::clone(place)).with_rules(rules);
        parts.push((worker, Part::Joined(at, Member::Guest(Box::new(guest)))));
    }
    parts.push((home, Part::Joined(at, Member::Home(port, Some(Box::new(lanes))))));
    Ok(parts)
}

/// The counters of each queue, where a queue has some at several workers: added up. The first to report of a queue polls it.
pub(super) fn merged(reports: Vec<(ClientId, QueueStatus)>) -> Vec<(ClientId, QueueStatus)> {
    let mut merged: Vec<(ClientId, QueueStatus)> = Vec::new();
    for (id, queue) in reports {
        let same = |(of, known): &&mut (ClientId, QueueStatus)| *of == id && known.queue == queue.queue;
        match merged.iter_mut().find(same) {
            Some((_, known)) => known.add(&queue),
            None => merged.push((id, queue)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_workers_count_of_a_queue_is_added_up() {
        let queue = |queue, core, flooded| QueueStatus { queue, core, flooded, ..QueueStatus::default() };
        let reports =
            vec![(1, queue(0, 2, 5)), (1, queue(1, 2, 1)), (1, queue(0, 3, 4)), (2, queue(0, 3, 7))];
        assert_eq!(merged(reports), [(1, queue(0, 2, 9)), (1, queue(1, 2, 1)), (2, queue(0, 3, 7))]);
    }
}
