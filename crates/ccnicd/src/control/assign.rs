//! Which worker polls which queue of a new client.

/// The worker of each of `queues` queues: the one that polls the fewest, one queue after the other. `loads` are the queues that each
/// worker polls already; at least one worker.
pub(super) fn assign(loads: impl Iterator<Item = usize>, queues: u16) -> Vec<usize> {
    let mut loads: Vec<usize> = loads.collect();
    let least = |loads: &mut Vec<usize>| {
        let (at, load) = loads.iter_mut().enumerate().min_by_key(|(_, load)| **load)?;
        *load += 1;
        Some(at)
    };
    (0..queues).map(|_| least(&mut loads).unwrap_or(0)).collect()
}

/// The numbers of the queues that `worker` polls, in ascending order.
pub(super) fn queues_of(workers: &[usize], worker: usize) -> Vec<u16> {
    (0..).zip(workers).filter(|(_, w)| **w == worker).map(|(queue, _)| queue).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_polls_all() {
        assert_eq!(assign([5].into_iter(), 3), [0, 0, 0]);
    }

    #[test]
    fn queues_go_round() {
        assert_eq!(assign([0, 0, 0].into_iter(), 7), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn the_least_busy_comes_first_and_loads_even_out() {
        let loads = [4, 0, 2];
        let workers = assign(loads.into_iter(), 6);
        assert_eq!(workers, [1, 1, 1, 2, 1, 2]);
        let after: Vec<_> = (0..3).map(|w| loads[w] + queues_of(&workers, w).len()).collect();
        assert_eq!(after, [4, 4, 4]);
    }

    #[test]
    fn every_queue_has_one_worker() {
        let workers = assign([1, 0].into_iter(), 256);
        let mut all: Vec<_> = (0..2).flat_map(|w| queues_of(&workers, w)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..256).collect::<Vec<_>>());
        assert!((0..2).all(|w| queues_of(&workers, w).is_sorted()));
    }
}
