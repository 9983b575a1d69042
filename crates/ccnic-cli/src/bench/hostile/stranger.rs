//! A stranger who asks the NIC something now and then, over a new connection each time: how long until the answer.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ccnic::Config;
use ccnic_control::messages::Request;
use ccnic_control::{Connection, Error};
use ccnic_shm::Region;
use rustix::process::setpriority_process;
use serde::Serialize;

use super::good::{Phase, Scene};

/// Between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(10);
/// Every so many questions it attaches a region.
const ATTACHES: usize = 8;

/// What became of the questions of a phase.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Answers {
    /// Questions that were answered, refusals among them.
    pub answered: usize,
    /// The longest time from connecting to the answer, in nanoseconds; of one that has not come, until the end of the phase.
    pub worst_ns: u64,
    /// Questions without an answer: the NIC hung up, or had said nothing at the end of the phase.
    pub unanswered: usize,
    /// Why a region of the stranger's was refused, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A stranger, observed by another thread.
#[derive(Debug, Default)]
pub struct Stranger {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the question was asked that has not been answered.
    asked: Option<Instant>,
    /// What has been seen since it was last taken.
    answers: Answers,
}

impl Stranger {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What has been seen since the last call.
    pub fn take(&self) -> Answers {
        self.with(|state| {
            let mut answers = std::mem::take(&mut state.answers);
            if let Some(asked) = state.asked {
                let waits = asked.elapsed();
                answers.worst_ns = answers.worst_ns.max(waits.as_nanos() as u64);
                answers.unanswered += usize::from(waits > PAUSE);
            }
            answers
        })
    }

    /// Asks until the scene is over. A NIC that does not answer holds this up until it ends.
    pub fn run(&self, socket: &Path, nice: i32, scene: &Scene) {
        let _ = setpriority_process(None, nice); // the table says whether that is permitted
        let config = Config { ring: 64, buffers: 16, ..Config::default() };
        for number in 0usize.. {
            if scene.is_over() {
                break;
            }
            if scene.phase() != Phase::Change {
                let attaches = number % ATTACHES == ATTACHES - 1;
                let region = attaches.then(|| ccnic_hostile::region(&config)).and_then(Result::ok);
                self.ask(socket, number, region.as_ref().map(|(region, _)| region));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn ask(&self, socket: &Path, number: usize, region: Option<&Region>) {
        let asked = Instant::now();
        self.with(|state| state.asked = Some(asked));
        let question = || -> Result<(), Error> {
            let connection = Connection::open(socket)?;
            match region {
                Some(region) => {
                    let request = Request::Attach { name: "stranger".to_owned(), mac: None, rss: None };
                    connection.ask(&request, Some(region.as_fd())).map(drop)
                }
                None if number.is_multiple_of(2) => connection.ask(&Request::Hello, None).map(drop),
                None => connection.status().map(drop),
            }
        };
        let outcome = question();
        self.with(|state| {
            state.asked = None;
            let answers = &mut state.answers;
            answers.worst_ns = answers.worst_ns.max(asked.elapsed().as_nanos() as u64);
            match outcome {
                Ok(()) => answers.answered += 1,
                Err(Error::Refused { reason }) => {
                    answers.answered += 1;
                    answers.refused = Some(reason);
                }
                Err(e) => {
                    tracing::debug!("a stranger's question {number}: {e}");
                    answers.unanswered += 1;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_answer_yet_counts_as_long_as_it_has_waited() {
        let stranger = Stranger::default();
        assert_eq!(stranger.take().worst_ns, 0);
        stranger.with(|state| state.asked = Instant::now().checked_sub(Duration::from_secs(2)));
        let answers = stranger.take();
        assert!(answers.worst_ns >= 2_000_000_000 && answers.unanswered == 1, "{answers:?}");
    }

    #[test]
    fn a_nic_that_is_not_there_does_not_answer() {
        let stranger = Stranger::default();
        stranger.ask(Path::new("/nonexistent/nic.sock"), 0, None);
        let answers = stranger.take();
        assert_eq!((answers.answered, answers.unanswered, answers.refused), (0, 1, None));
    }
}
