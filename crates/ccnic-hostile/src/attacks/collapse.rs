//! Attacks by huge pages: to put the small pages of an extent of 2 MiB into a huge one, the kernel takes them away from every process that
//! maps them. An access then sleeps until they have been copied, by a thread of the lowest priority that others keep from its CPU.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use ccnic_shm::{HUGE_PAGE, collapse};
use rustix::fs::{fcntl_get_seals, fstat};

use super::spinners::PAUSES;
use crate::filler::{Filler, word};
use crate::process::last_in_line;
use crate::program::{Program, config};
use crate::stage::Stage;

/// Buffers of a region of 62 MiB and a half: its last extent reaches beyond the end of the file.
const BUFFERS: u32 = 16_000;
/// Buffers of a region that is smaller than an extent.
const FEW: u32 = 200;
/// Threads that keep the collapsing one from its CPU, besides the one that sends. (With many it would not run at all.)
const SPINNERS: usize = 1;

/// The process that collapses the extents of a region.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    /// A thread of the program, once the region is attached.
    Thread,
    /// The same, from before the region is attached.
    EarlyThread,
    /// Another process, which was handed the descriptor.
    Process,
}

/// Large regions, one after the other.
pub fn large(stage: &Stage<'_>) -> anyhow::Result<()> {
    lives(stage, BUFFERS, By::Thread)
}

/// Regions of a part of an extent.
pub fn small(stage: &Stage<'_>) -> anyhow::Result<()> {
    lives(stage, FEW, By::Thread)
}

/// Regions whose extents are being collapsed when they are attached.
pub fn attaching(stage: &Stage<'_>) -> anyhow::Result<()> {
    lives(stage, BUFFERS, By::EarlyThread)
}

/// Regions that another process collapses: this program once more, with the region as its standard input.
pub fn handed_over(stage: &Stage<'_>) -> anyhow::Result<()> {
    let input = std::io::stdin();
    if fcntl_get_seals(&input).is_err() {
        return lives(stage, BUFFERS, By::Process);
    }
    last_in_line();
    let size = fstat(&input).context("could not look at the region")?.st_size as u64;
    while stage.goes_on() {
        collapse_extents(stage, input.as_fd(), size);
    }
    Ok(())
}

/// A region after another, each until all of its extents have been tried, while threads spin.
fn lives(stage: &Stage<'_>, buffers: u32, by: By) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        for _ in 0..SPINNERS {
            scope.spawn(|| {
                while stage.goes_on() {
                    (0..PAUSES).for_each(|_| std::hint::spin_loop());
                }
            });
        }
        while stage.goes_on() {
            life(stage, buffers, by)?;
        }
        Ok(())
    })
}

fn life(stage: &Stage<'_>, buffers: u32, by: By) -> anyhow::Result<()> {
    let mut program = Program::plain(&config(1, 64, buffers))?;
    let region = program.region.as_fd().try_clone_to_owned().context("could not copy a descriptor")?;
    let size = u64::from(program.region.size());
    std::thread::scope(|scope| {
        let start = || {
            scope.spawn(|| {
                last_in_line();
                collapse_extents(stage, region.as_fd(), size);
            })
        };
        let early = (by == By::EarlyThread).then(start);
        if !program.attach(stage, "collapse") {
            return Ok(());
        }
        let _process = (by == By::Process).then(|| Other::start(region.as_fd())).transpose()?;
        let thread = early.unwrap_or_else(start);
        let (mut filler, first) = (Filler::new(&program), program.layout.pool().buffers);
        while stage.goes_on() && !thread.is_finished() {
            filler.drain();
            filler
                .fill(1, |n| word(first + (n.wrapping_mul(7919) % u64::from(buffers)) as u32 * 4096, 64, 0));
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        Ok(())
    })
}

fn collapse_extents(stage: &Stage<'_>, region: BorrowedFd<'_>, size: u64) {
    for at in (0..size).step_by(HUGE_PAGE as usize).take_while(|_| stage.goes_on()) {
        stage.tried(collapse(region, at).map_err(|e| format!("collapsing an extent: {e}")));
    }
}

/// A process that was handed a region. Dropping it kills it.
struct Other(Child);

impl Other {
    fn start(region: BorrowedFd<'_>) -> anyhow::Result<Other> {
        let region = region.try_clone_to_owned().context("could not copy a descriptor")?;
        let mut command = Command::new("/proc/self/exe");
        command.args(std::env::args_os().skip(1)).stdin(region).stdout(Stdio::null());
        command.spawn().map(Other).context("could not start another process")
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended already
        let _ = self.0.wait();
    }
}
