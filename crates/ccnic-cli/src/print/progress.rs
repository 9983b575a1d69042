//! Progress on standard error: how many of how many steps are done. Nothing is drawn when that is no
//! terminal, or with `--json`.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar. It disappears when it is dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Progress of measurements. Drawn by the calling thread at each step, because a thread of its own would
    /// disturb the cores that are measured.
    pub fn of_measurements(name: &'static str, steps: usize, json: bool) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target(json)).with_prefix(name);
        if let Ok(style) =
            ProgressStyle::with_template("{prefix} {bar:24} {pos} of {len}, {eta} left  {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.tick();
        Progress { bar }
    }

    /// Progress of simulations, whose steps are long: a thread redraws it.
    pub fn of_simulations(name: &'static str, steps: usize, json: bool) -> Progress {
        let progress = Progress::of_measurements(name, steps, json);
        let template = "{spinner} {prefix} {bar:24} {pos} of {len}, {elapsed}  {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            progress.bar.set_style(style);
        }
        progress.bar.enable_steady_tick(Duration::from_millis(200));
        progress
    }

    /// Shows what is being done.
    pub fn say(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }

    /// One more step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Steps done, and steps in total.
    #[cfg(test)]
    pub fn done(&self) -> (u64, u64) {
        (self.bar.position(), self.bar.length().unwrap_or(0))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn target(json: bool) -> ProgressDrawTarget {
    // Standard error's own target draws nothing unless that is a terminal.
    if json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}
