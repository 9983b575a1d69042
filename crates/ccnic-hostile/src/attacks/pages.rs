//! Attacks by the pages of a region: a fault in a range that is being punched sleeps until the punch is over, and a page that somebody
//! else touches first counts as theirs. (MADV_REMOVE ends in the same function of the kernel as FALLOC_FL_PUNCH_HOLE, seals and all.)

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::Context;
use ccnic::Layout;
use ccnic_control::Connection;
use rustix::fs::{FallocateFlags, fallocate, fstat};
use rustix::io::pwrite;

use crate::filler::{Filler, word};
use crate::process::last_in_line;
use crate::program::{Program, attach_request, config, header, sparse};
use crate::stage::Stage;

/// Buffers of a region of 64 MiB.
const BUFFERS: u32 = 16384;
/// Bytes of a region that the NIC must not allocate.
const SPARSE: u64 = 200 << 20;
/// Sparse regions that are kept after they were refused: what the NIC has allocated for them stays.
const KEPT: usize = 4;

/// Takes all pages of a file away, and brings them back.
fn punch_once(stage: &Stage<'_>, fd: impl AsFd, bytes: u32) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let punched = fallocate(&fd, flags, 0, bytes.into());
    if stage.tried(punched.map_err(|e| format!("punching holes: {e}"))).is_none() {
        std::thread::sleep(Duration::from_millis(1)); // sealed: there is nothing more to do
    }
    let _ = fallocate(&fd, FallocateFlags::empty(), 0, bytes.into()); // less to punch next time
}

/// A thread behind all others punches; another one, on the same CPU, keeps it from finishing, and sends a few packets from all over
/// the region.
pub fn punch(stage: &Stage<'_>) -> anyhow::Result<()> {
    let config = config(1, 64, BUFFERS);
    let Some(program) = Program::attached(stage, "punch", &config)? else {
        stage.linger();
        return Ok(());
    };
    let first = program.layout.pool().buffers;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            last_in_line();
            while stage.goes_on() {
                punch_once(stage, &program.region, program.region.size());
            }
        });
        let mut filler = Filler::new(&program);
        while stage.goes_on() {
            filler.drain();
            filler
                .fill(1, |n| word(first + (n.wrapping_mul(7919) % u64::from(BUFFERS)) as u32 * 4096, 64, 0));
            (0..100_000).for_each(|_| std::hint::spin_loop());
        }
    });
    Ok(())
}

/// Each region is punched while it is being attached, and some before.
pub fn punch_attach(stage: &Stage<'_>) -> anyhow::Result<()> {
    let config = config(1, 64, 4096);
    let mut random = stage.random(1);
    while stage.goes_on() {
        let mut program = Program::new(&config)?;
        let region = program.region.as_fd().try_clone_to_owned().context("could not copy a descriptor")?;
        let size = program.region.size();
        std::thread::scope(|scope| {
            let attaching = scope.spawn(|| {
                program.attach(stage, "punch-attach");
            });
            let before = random.below(2) == 0;
            while before && !attaching.is_finished() {
                punch_all_but_header(&region, size);
            }
        });
        punch_all_but_header(&region, size);
    }
    Ok(())
}

fn punch_all_but_header(fd: &OwnedFd, bytes: u32) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = fallocate(fd, flags, 4096, u64::from(bytes) - 4096); // a NIC may have sealed it
}

/// Regions without pages: no header, a header of a region that fits, and one of a region that does not.
pub fn sparse_regions(stage: &Stage<'_>) -> anyhow::Result<()> {
    let fits = header(&Layout::new(&config(1, 64, 50_000))?)?;
    let larger = header(&Layout::new(&config(1, 64, 60_000))?)?;
    let mut kept: VecDeque<OwnedFd> = VecDeque::new();
    for header in [None, Some(&fits), Some(&larger)].into_iter().cycle() {
        if !stage.goes_on() {
            break;
        }
        let fd = sparse(SPARSE)?;
        if let Some(header) = header {
            pwrite(&fd, header, 0).context("could not write a header")?;
        }
        let attached = Connection::open(stage.socket)
            .and_then(|connection| connection.ask(&attach_request("sparse"), Some(fd.as_fd())));
        if stage.tried(attached).is_none() {
            kept.push_back(fd);
            if kept.len() > KEPT {
                kept.pop_front();
            }
        }
        let allocated = |fd: &OwnedFd| fstat(fd).map_or(0, |stat| stat.st_blocks as u64 * 512);
        stage.filled(kept.iter().map(allocated).sum());
    }
    Ok(())
}
