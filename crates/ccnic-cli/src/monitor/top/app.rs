//! What `ccnic top` shows, and what keys do to it.

use std::path::Path;
use std::time::{Duration, Instant};

use ccnic_control::latency::LatencyStatus;
use ccnic_control::messages::{ProgramStatus, Status};
use ccnic_control::printable;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::TableState;

use super::super::rates::Interval;
use super::feed::Reading;
use super::rows::{Detail, PortRow, Sort, details, latency, rows};

/// Seconds between two readings, to choose from.
const PERIODS: [u64; 5] = [1, 2, 5, 10, 30];
/// How much later than expected a reading is missed.
const LATE: Duration = Duration::from_secs(2);
/// Lines that a page key goes.
const PAGE: isize = 10;

/// What is shown.
#[derive(Debug)]
pub struct App {
    socket: String,
    /// The last reading.
    last: Option<Status>,
    /// What is on the screen: a reading, and the interval that ends with it.
    pub shown: Option<(Status, Option<Interval>)>,
    /// The ports on the screen.
    pub rows: Vec<PortRow>,
    /// Why there is no newer reading.
    pub trouble: Option<String>,
    /// When the last reading came.
    pub read_at: Instant,
    pub sort: Sort,
    pub reversed: bool,
    pub paused: bool,
    pub help: bool,
    /// The selected port, by its id: it stays selected wherever it goes.
    selected: Option<u64>,
    /// Where in the table that is.
    pub table: TableState,
    /// Index in [`PERIODS`].
    period: usize,
    done: bool,
}

impl App {
    /// Of the NIC at `socket`, which has not been read yet.
    pub fn new(socket: &Path) -> App {
        App {
            socket: printable(&socket.display().to_string()),
            last: None,
            shown: None,
            rows: Vec::new(),
            trouble: None,
            read_at: Instant::now(),
            sort: Sort::Id,
            reversed: false,
            paused: false,
            help: false,
            selected: None,
            table: TableState::default(),
            period: 0,
            done: false,
        }
    }

    /// Where the NIC is.
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// Between two readings.
    pub fn period(&self) -> Duration {
        Duration::from_secs(PERIODS.get(self.period).copied().unwrap_or(1))
    }

    /// True when the user has had enough.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Takes a reading. What was read last stays on the screen while the NIC does not answer.
    pub fn read(&mut self, reading: Reading) {
        self.read_at = Instant::now();
        let status = match reading {
            Ok(status) => status,
            Err(why) => return self.trouble = Some(printable(&why)),
        };
        self.trouble = None;
        let interval = self.last.as_ref().and_then(|last| Interval::between(last, &status));
        self.last = Some(status.clone());
        if !self.paused {
            self.shown = Some((status, interval));
            self.arrange();
        }
    }

    /// How long a NIC has not answered, if that is too long: one that has been stopped, say.
    pub fn silence(&self, now: Instant) -> Option<Duration> {
        let silence = now.saturating_duration_since(self.read_at);
        (silence > self.period() + LATE).then_some(silence)
    }

    /// Sorts the ports, and finds the selected one among them. When that has gone, the one in its place is selected.
    fn arrange(&mut self) {
        let Some((status, interval)) = &self.shown else { return };
        self.rows = rows(status, interval.as_ref(), self.sort, self.reversed);
        let at = self.rows.iter().position(|row| Some(row.id) == self.selected);
        let at = at.or(self.table.selected()).unwrap_or(0);
        self.select(at as isize);
    }

    /// Selects the line at `to`, or the nearest that there is.
    fn select(&mut self, to: isize) {
        let last = self.rows.len().checked_sub(1);
        let at = last.map(|last| (to.max(0) as usize).min(last));
        self.table.select(at);
        self.selected = at.and_then(|at| self.rows.get(at)).map(|row| row.id);
    }

    /// The selected port, with how long its packets took and its counters.
    pub fn selected(&self) -> Option<(&ProgramStatus, LatencyStatus, Vec<Detail>)> {
        let (status, interval) = self.shown.as_ref()?;
        let port = status.programs.iter().find(|port| Some(port.id) == self.selected)?;
        Some((port, latency(port, interval.as_ref()), details(port, interval.as_ref())))
    }

    /// A key.
    pub fn press(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.done |= key.code == KeyCode::Char('c');
            return;
        }
        if std::mem::take(&mut self.help) && key.code != KeyCode::Char('q') {
            return; // any key closes the help
        }
        let at = self.table.selected().unwrap_or(0) as isize;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => self.done = true,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Down | KeyCode::Char('j') => self.select(at + 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(at - 1),
            KeyCode::PageDown => self.select(at + PAGE),
            KeyCode::PageUp => self.select(at - PAGE),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(isize::MAX),
            KeyCode::Char('s') | KeyCode::Right => self.sort_by(self.sort.further(1)),
            KeyCode::Char('S') | KeyCode::Left => self.sort_by(self.sort.further(-1)),
            KeyCode::Char('r') => {
                self.reversed = !self.reversed;
                self.arrange();
            }
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('+') => self.period = (self.period + 1).min(PERIODS.len() - 1),
            KeyCode::Char('-') => self.period = self.period.saturating_sub(1),
            _ => {}
        }
    }

    fn sort_by(&mut self, sort: Sort) {
        (self.sort, self.reversed) = (sort, false);
        self.arrange();
    }
}
