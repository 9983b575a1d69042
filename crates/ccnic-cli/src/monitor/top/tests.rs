//! `ccnic top` drawn into memory and compared with files, its keys, and a NIC that dies.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use ccnic_control::latency::LatencyStatus;
use ccnic_control::messages::{Cursor, Hello, QueueStatus, Status};
use ccnic_control::{AttachRequest, ClientId, Handler, Limits, Listener, Notifier};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::rates::tests::{port, status};
use super::app::App;
use super::feed::Feed;
use super::rows::Sort;
use super::view::{draw, si};

/// A NIC with `n` thousand packets a second so far, after so many seconds.
fn nic(uptime_s: f64, n: u64) -> Status {
    let n = n * uptime_s as u64;
    let queue = |tx: u64, rx: u64| QueueStatus {
        tx_packets: 1000 * tx * n,
        tx_bytes: 64_000 * tx * n,
        rx_packets: 1000 * rx * n,
        rx_bytes: 1_500_000 * rx * n,
        ..QueueStatus::default()
    };
    let drops = QueueStatus {
        drop_ring_full: 120 * n,
        drop_no_destination: 7,
        wait_no_buffer: 3 * n,
        flooded: 40_000,
        ..queue(0, 9)
    };
    let programs = vec![
        port(1, "vm-a", [queue(5, 0), queue(1, 1)]),
        port(2, "vm-b\u{1b}[2J with a name that is longer than its column", [drops]),
        port(3, "idle", [QueueStatus::default()]),
        port(1 << 32, "tap:t0", [queue(2, 3)]),
    ];
    // Of each hundred bursts two are slow.
    let latency = |fast: usize, n: u64| {
        let mut latency = LatencyStatus { sum_ns: 98 * n * 150 + 2 * n * 40_000, ..LatencyStatus::default() };
        (latency.classes[fast], latency.classes[8]) = (98 * n, 2 * n);
        Some(latency)
    };
    let mut programs = programs;
    (programs[0].latency, programs[1].latency) = (latency(1, n), latency(3, n + 1));
    Status {
        busy_ns: vec![(uptime_s * 0.97e9) as u64, (uptime_s * 0.25e9) as u64],
        ..status(uptime_s, programs)
    }
}

fn app() -> App {
    App::new(Path::new("/run/ccnic.sock"))
}

/// With two readings, a second apart.
fn running() -> App {
    let mut app = app();
    app.read(Ok(nic(3725.0, 1)));
    app.read(Ok(nic(3726.0, 1)));
    app
}

fn press(app: &mut App, keys: &[KeyCode]) {
    keys.iter().for_each(|key| app.press(KeyEvent::new(*key, KeyModifiers::NONE)));
}

fn drawn(app: &mut App, width: u16, height: u16) -> String {
    drawn_at(app.read_at, app, width, height)
}

fn drawn_at(now: Instant, app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app, now)).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| line.trim_matches('"').trim_end().to_owned() + "\n").collect()
}

/// Compares with `snapshots/NAME.txt`.
#[track_caller]
fn looks_like(name: &str, app: &mut App, width: u16, height: u16) {
    let drawn = drawn(app, width, height);
    let path = format!("{}/src/monitor/top/snapshots/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(drawn == expected, "{path} is\n{expected}\nand this was drawn:\n{drawn}");
}

#[test]
fn ports_cores_and_the_drops_of_the_selected_port() {
    let mut app = running();
    press(&mut app, &[KeyCode::Down]);
    looks_like("ports", &mut app, 80, 24);
    press(&mut app, &[KeyCode::Char('?')]);
    looks_like("help", &mut app, 80, 24);
}

#[test]
fn before_the_first_rates() {
    let mut app = app();
    looks_like("waiting", &mut app, 80, 24);
    app.read(Ok(nic(3725.0, 1)));
    looks_like("one_reading", &mut app, 80, 24);
    app.read(Ok(status(3726.0, Vec::new())));
    assert!(drawn(&mut app, 80, 24).contains("\nNo program is attached.\n"));
}

#[test]
fn a_nic_that_dies_and_returns() {
    let mut app = running();
    app.read(Err("no NIC answers at \u{1b}/run/ccnic.sock".to_owned()));
    looks_like("dead", &mut app, 80, 24);
    // Another process: what it counts does not follow from what the other one has counted.
    app.read(Ok(Status { pid: 8, ..nic(1.0, 1) }));
    let text = drawn(&mut app, 80, 24);
    assert!(text.contains("process 8, up 1 s\n") && !text.contains("trying again"), "{text}");
    assert!(app.rows.iter().all(|row| row.rates.is_none()));
    app.read(Ok(Status { pid: 8, ..nic(2.0, 1) }));
    assert_eq!(app.rows[0].rates.map(|rates| rates.tx_packets), Some(6000.0));
}

#[test]
fn a_nic_that_does_not_answer_is_missed() {
    let mut app = running();
    let read_at = app.read_at;
    let later = |seconds| read_at + Duration::from_secs(seconds);
    assert!(!drawn_at(later(3), &mut app, 80, 24).contains("no answer"));
    assert!(drawn_at(later(7), &mut app, 80, 24).contains("\nno answer for 7 s\n"));
    app.read(Err("it has not answered".to_owned()));
    assert!(drawn(&mut app, 80, 24).contains("\ntrying again: it has not answered\n"));
}

#[test]
fn many_cores_and_ports_and_small_terminals() {
    let many = |uptime_s| Status {
        cores: (0..64).collect(),
        busy_ns: vec![0; 64],
        ..status(uptime_s, (1..=300).map(|id| port(id, "p", [QueueStatus::default()])).collect())
    };
    let mut app = app();
    app.read(Ok(many(1.0)));
    app.read(Ok(many(2.0)));
    let text = drawn(&mut app, 80, 24);
    assert!(text.contains("CPU  7") && text.contains("and 56 more") && !text.contains("CPU  8"), "{text}");
    press(&mut app, &[KeyCode::End]);
    assert!(drawn(&mut app, 80, 24).contains("\n>300 p "), "the selected port is in sight");
    for (width, height) in [(1, 1), (10, 3), (79, 8), (300, 100)] {
        app.help = height % 2 == 0;
        drawn(&mut app, width, height);
    }
}

#[test]
fn keys_select_sort_and_end() {
    let mut app = running();
    let order = |app: &App| app.rows.iter().map(|row| row.id).collect::<Vec<_>>();
    let selected = |app: &App| app.selected().map(|(port, ..)| port.id);
    let tap = 1 << 32;
    assert_eq!((order(&app), selected(&app), app.sort), (vec![1, 2, 3, tap], Some(1), Sort::Id));
    press(&mut app, &[KeyCode::Down, KeyCode::Char('j'), KeyCode::Up]);
    assert_eq!(selected(&app), Some(2));
    press(&mut app, &[KeyCode::Char('s')]);
    assert_eq!((order(&app), selected(&app)), (vec![3, tap, 1, 2], Some(2)), "by name; it stays selected");
    press(&mut app, &[KeyCode::Right]);
    assert_eq!(order(&app), [1, tap, 2, 3], "most sent first");
    press(&mut app, &[KeyCode::Right, KeyCode::Char('r')]);
    assert_eq!(order(&app), [3, 1, tap, 2], "least received first");
    press(&mut app, &[KeyCode::Right]);
    assert_eq!((order(&app), app.sort), (vec![1, 2, 3, tap], Sort::Latency));
    press(&mut app, &[KeyCode::Right]);
    assert_eq!((order(&app), app.sort), (vec![2, 1, 3, tap], Sort::Dropped));
    press(
        &mut app,
        &[KeyCode::Left, KeyCode::Char('S'), KeyCode::Left, KeyCode::Left, KeyCode::Left, KeyCode::Left],
    );
    assert_eq!(app.sort, Sort::Dropped, "round about");
    press(&mut app, &[KeyCode::PageDown]);
    assert_eq!(selected(&app), Some(tap));
    press(&mut app, &[KeyCode::PageUp, KeyCode::Up, KeyCode::End, KeyCode::Home]);
    assert_eq!(selected(&app), Some(2));
    press(&mut app, &[KeyCode::Char('+'), KeyCode::Char('+'), KeyCode::Char('-')]);
    assert_eq!(app.period(), Duration::from_secs(2));
    press(&mut app, &[KeyCode::Char('h')]);
    assert!(app.help);
    press(&mut app, &[KeyCode::Esc]);
    assert!(!app.help && !app.is_done(), "it has closed the help only");
    app.press(KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release));
    assert!(!app.is_done());
    press(&mut app, &[KeyCode::Char('q')]);
    assert!(app.is_done());
    let mut other = running();
    other.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(other.is_done());
}

#[test]
fn a_pause_keeps_what_is_shown_and_rates_go_on_after_it() {
    let mut app = running();
    press(&mut app, &[KeyCode::Char(' ')]);
    app.read(Ok(nic(3728.0, 1)));
    let text = drawn(&mut app, 80, 24);
    assert!(text.contains("last 1.0 s  paused\n"), "{text}");
    press(&mut app, &[KeyCode::Char(' ')]);
    app.read(Ok(nic(3730.0, 1)));
    assert!(drawn(&mut app, 80, 24).contains("last 2.0 s\n"));
}

#[test]
fn the_port_that_has_gone_is_followed_by_the_one_in_its_place() {
    let mut app = running();
    press(&mut app, &[KeyCode::Down]);
    let mut status = nic(3727.0, 1);
    status.programs.remove(1);
    app.read(Ok(status));
    assert_eq!(app.selected().map(|(port, ..)| port.id), Some(3));
    app.read(Ok(Status { programs: Vec::new(), ..nic(3728.0, 1) }));
    assert!(app.selected().is_none());
    app.read(Ok(nic(3729.0, 1)));
    assert!(app.selected().is_some());
}

#[test]
fn rates_are_short() {
    let texts = [0.0, 0.04, 0.996, 3.0, 12.3, 999.4, 999.6, 1234.0, 45_600.0, 1e6, 123.4e9, 9.996e12].map(si);
    let expected = ["0", "0.04", "1", "3", "12", "999", "1.00k", "1.23k", "45.6k", "1.00M", "123G", "10.0T"];
    assert_eq!(texts, expected);
    assert!([1e15, 1e18, 999.4e18].map(si).iter().all(|text| text.len() <= 5));
}

/// The thread that reads: a NIC that is not there yet, that is there, that has gone.
#[test]
fn a_feed_goes_on_when_the_nic_dies_and_returns() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let feed = Feed::start(socket.clone(), Duration::from_millis(5)).unwrap();
    let next = |ok: bool| {
        let start = Instant::now();
        loop {
            match feed.readings().last() {
                Some(reading) if reading.is_ok() == ok => return reading,
                _ => assert!(start.elapsed() < Duration::from_secs(60), "no such reading"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let why = next(false).unwrap_err();
    assert!(why.contains("nic.sock"), "{why}");
    for _ in 0..2 {
        let mut listener = Listener::new(&socket, Limits::new(1 << 20, 1 << 20)).unwrap();
        let (stopped, stop) = UnixStream::pair().unwrap();
        let thread =
            std::thread::spawn(move || while !listener.poll(&mut FakeNic, Some(stopped.as_fd()), None) {});
        assert_eq!(next(true).unwrap().wire, "switch");
        drop(stop);
        thread.join().unwrap();
        next(false).unwrap_err();
    }
}

/// Has a status, and nothing else.
struct FakeNic;

impl Handler for FakeNic {
    fn hello(&self) -> Hello {
        Hello { version: "fake".to_owned(), ..Hello::default() }
    }
    fn status(&self, _: Cursor) -> Status {
        status(1.0, Vec::new())
    }
    fn attach(&mut self, _: AttachRequest) -> Result<(), String> {
        Err("not here".to_owned())
    }
    fn notify(&mut self, _: ClientId, _: u16, _: Notifier) -> Result<(), String> {
        Err("not here".to_owned())
    }
    fn detach(&mut self, _: ClientId) {}
}
