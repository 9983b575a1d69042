//! When a store that answers nothing is given up. Times are ticks of the runner's clock.

/// Datagrams lost in a row, at least, before the silence of their store is believed: where few are sent, one that is lost on the way may
/// be the only one for a while.
const LOST: u64 = 3;
/// Of the limit, the part that lies between two turns at most. When there is more the generator itself stood still, or its machine.
const TURNS: u64 = 8;

/// What a turn of the runner has brought.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turn {
    /// When it began.
    pub(crate) now: u64,
    /// Requests were sent, or could not be for want of room.
    pub(crate) tried: bool,
    /// There was no room for the latest.
    pub(crate) full: bool,
    /// Replies that have come.
    pub(crate) replies: usize,
    /// Requests in all that were lost.
    pub(crate) lost: u64,
    /// When the request was sent that has waited longest.
    pub(crate) oldest: Option<u64>,
}

/// How long a store has answered nothing that it was asked.
#[derive(Debug)]
pub(crate) struct Silence {
    limit: u64,
    /// When the first request since the last reply was tried.
    since: Option<u64>,
    /// Requests that were lost before that.
    lost: u64,
    /// The latest turn.
    last: u64,
}

impl Silence {
    /// Nothing is asked yet. Without a limit silence is never over.
    pub(crate) fn new(limit: Option<u64>) -> Silence {
        Silence { limit: limit.unwrap_or(u64::MAX), since: None, lost: 0, last: 0 }
    }

    /// True when the store has been silent for as long as the limit.
    #[inline]
    pub(crate) fn turn(&mut self, turn: Turn) -> bool {
        let gap = turn.now.saturating_sub(std::mem::replace(&mut self.last, turn.now));
        if turn.replies > 0 {
            (self.since, self.lost) = (None, turn.lost);
        }
        let Some(since) = &mut self.since else {
            if turn.tried {
                (self.since, self.lost) = (Some(turn.now), turn.lost);
            }
            return false;
        };
        if gap > self.limit / TURNS {
            *since += gap;
        }
        turn.now.saturating_sub(*since) >= self.limit && self.is_meant(turn)
    }

    /// True when the silence is no accident of what was asked.
    fn is_meant(&self, turn: Turn) -> bool {
        let waited = |sent: u64| turn.now.saturating_sub(sent) >= self.limit;
        turn.full || turn.oldest.is_some_and(waited) || turn.lost.saturating_sub(self.lost) >= LOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns at every tick from `from` to `to`, all alike; when one of them is over the limit.
    fn turns(silence: &mut Silence, from: u64, to: u64, turn: Turn) -> Option<u64> {
        (from..=to).find(|now| silence.turn(Turn { now: *now, ..turn }))
    }

    const NOTHING: Turn = Turn { now: 0, tried: false, full: false, replies: 0, lost: 0, oldest: None };

    #[test]
    fn a_request_that_waits_for_the_limit_is_the_end() {
        let mut silence = Silence::new(Some(100));
        assert_eq!(turns(&mut silence, 0, 1000, NOTHING), None, "nobody was asked");
        silence.turn(Turn { now: 1000, tried: true, ..NOTHING });
        let waits = Turn { oldest: Some(1000), ..NOTHING };
        assert_eq!(turns(&mut silence, 1001, 2000, waits), Some(1100));
    }

    #[test]
    fn every_reply_begins_anew() {
        let mut silence = Silence::new(Some(100));
        let busy = Turn { tried: true, oldest: Some(0), ..NOTHING };
        for from in (0..1000).step_by(90) {
            assert_eq!(turns(&mut silence, from, from + 89, busy), None);
            silence.turn(Turn { now: from + 89, replies: 1, ..busy });
        }
        assert_eq!(turns(&mut silence, 1080, 2000, busy), Some(1179));
    }

    #[test]
    fn two_datagrams_that_are_lost_are_an_accident_and_three_are_not() {
        let mut silence = Silence::new(Some(100));
        silence.turn(Turn { now: 0, tried: true, lost: 7, ..NOTHING });
        assert_eq!(turns(&mut silence, 1, 500, Turn { lost: 9, ..NOTHING }), None);
        // Another that was sent a moment ago proves nothing.
        assert_eq!(turns(&mut silence, 501, 510, Turn { lost: 9, oldest: Some(500), ..NOTHING }), None);
        assert_eq!(turns(&mut silence, 511, 600, Turn { lost: 10, ..NOTHING }), Some(511));
    }

    #[test]
    fn a_way_without_room_is_the_end_too() {
        let mut silence = Silence::new(Some(100));
        assert_eq!(turns(&mut silence, 5, 500, Turn { tried: true, full: true, ..NOTHING }), Some(105));
    }

    #[test]
    fn time_in_which_the_generator_stands_still_does_not_count() {
        let mut silence = Silence::new(Some(100));
        let waits = Turn { tried: true, oldest: Some(0), ..NOTHING };
        assert_eq!(turns(&mut silence, 0, 50, waits), None);
        // Stopped from 50 to 5050: 50 ticks of patience are left.
        assert_eq!(turns(&mut silence, 5050, 9000, waits), Some(5100));
    }

    #[test]
    fn without_a_limit_silence_is_never_over() {
        let mut silence = Silence::new(None);
        assert_eq!(turns(&mut silence, 0, 10_000, Turn { tried: true, full: true, ..NOTHING }), None);
    }
}
