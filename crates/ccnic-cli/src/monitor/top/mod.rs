//! `ccnic top`: a NIC's ports and polling cores, live, on a terminal.
//!
//! ```text
//!   feed.rs (a thread): reads the status ──► app.rs: what is shown, what keys do ──► view.rs: draws it
//! ```

mod app;
mod feed;
mod rows;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use app::App;
use feed::Feed;

/// How long a reading waits to be shown, at most.
const LOOK: Duration = Duration::from_millis(100);

/// Options of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// The NIC's socket [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Shows the NIC until the user ends it. A NIC that is not there yet, or no longer, is waited for.
pub fn run(args: &TopArgs) -> anyhow::Result<()> {
    let socket = args.socket.clone().unwrap_or_else(ccnicd::default_socket);
    anyhow::ensure!(
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal(),
        "`ccnic top` needs a terminal; `ccnic stats --watch 1` prints the same to anything"
    );
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).context("could not watch for signals")?;
    }
    let mut app = App::new(&socket);
    let feed = Feed::start(socket, app.period()).context("could not start a thread")?;
    let mut terminal = ratatui::try_init().context("could not set the terminal up")?;
    let outcome = show(&mut terminal, &mut app, &feed, &ended);
    ratatui::restore();
    outcome.context("the terminal has failed")
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    app: &mut App,
    feed: &Feed,
    ended: &AtomicBool,
) -> std::io::Result<()> {
    while !app.is_done() && !ended.load(Relaxed) {
        feed.readings().for_each(|reading| app.read(reading));
        terminal.draw(|frame| view::draw(frame, app, Instant::now()))?;
        let mut patience = LOOK;
        while event::poll(patience)? {
            if let Event::Key(key) = event::read()? {
                app.press(key);
            }
            patience = Duration::ZERO;
        }
        feed.set_period(app.period());
    }
    Ok(())
}
