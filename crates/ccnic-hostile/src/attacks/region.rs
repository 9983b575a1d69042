//! Attacks by what is written into a region, by all of its threads and at any time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::memory::RegionMemory;
use ccnic::ring::GroupedEpoch;
use ccnic::{Burst, Layout, SharedMemory, host};
use ccnic_shm::Region;

use crate::filler::{Filler, word};
use crate::program::{Program, config};
use crate::scribbler::Scribbler;
use crate::stage::Stage;

/// Regions of programs that have left which are still written.
const LEFT: usize = 4;

/// Beside its traffic, threads change the heads of its free lists as fast as they can: a compare and exchange of the NIC fails.
pub fn free_lists(stage: &Stage<'_>) -> anyhow::Result<()> {
    let Some(program) = Program::attached(stage, "free-lists", &config(16, 256, 4096))? else {
        stage.linger();
        return Ok(());
    };
    let pool = *program.layout.pool();
    std::thread::scope(|scope| {
        for head in [pool.large, pool.small] {
            let mem = program.region.memory();
            scope.spawn(move || {
                let mem = mem;
                for tag in (0u64..).take_while(|tag| tag % 1024 != 0 || stage.goes_on()) {
                    mem.store(head, tag << 32 | (1 + (tag & 31) * 32));
                }
            });
        }
        let mut filler = Filler::new(&program);
        while stage.goes_on() {
            filler.drain();
            stage.did(filler.fill(u64::MAX, |n| word(pool.buffers + (n % 4096) as u32 * 4096, 1500, 0)));
        }
    });
    Ok(())
}

/// One life after another: attaches a region and writes into it, at random and with aim, beside traffic of its own.
pub fn scribble(stage: &Stage<'_>) -> anyhow::Result<()> {
    let config = config(1, 256, 512);
    for life in 0.. {
        if !stage.goes_on() {
            break;
        }
        let mut program = Program::new(&config)?;
        let mut scribbler = Scribbler::new(&program.region, &program.layout, stage.random(life))?;
        if !program.attach(stage, "scribble") {
            continue;
        }
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for _ in 0..5000 {
                    if life % 2 == 0 { scribbler.scribble() } else { scribbler.aim() }
                }
            });
            while !writing.is_finished() && stage.goes_on() {
                traffic(&program.region, &program.layout);
            }
        });
    }
    Ok(())
}

/// Some packets, sent and received without a look at what comes; a panic over what it finds in its region is its own affair.
fn traffic(region: &Region, layout: &Layout) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let Ok(mut pair) = host::QueuePair::<_, GroupedEpoch>::new(region.memory(), layout, 0) else {
            return;
        };
        let mut burst = Burst::new();
        for size in [64, 9000, 1500] {
            pair.alloc(size, 8, &mut burst);
            pair.tx_burst(&mut burst);
            pair.free(&mut burst);
            for _ in 0..4 {
                pair.rx_burst(&mut burst, 16);
                pair.free(&mut burst);
            }
        }
    }));
}

/// Comes with full rings, leaves at once, and keeps the rings of those that have left full: their last packets have no end.
pub fn attach_loop(stage: &Stage<'_>) -> anyhow::Result<()> {
    let config = config(16, 1024, 512);
    let mut left: Vec<(Program, Filler)> = Vec::new();
    while stage.goes_on() {
        let mut program = Program::new(&config)?;
        let mut filler = Filler::new(&program);
        let packet = |program: &Program| word(program.layout.pool().buffers, 4096, 0);
        filler.fill(u64::MAX, |_| packet(&program));
        if program.attach(stage, "attach-loop") {
            program.connection = None;
        }
        left.push((program, filler));
        if left.len() > LEFT {
            left.remove(0);
        }
        for (program, filler) in &mut left {
            filler.drain();
            filler.fill(u64::MAX, |_| packet(program));
        }
    }
    Ok(())
}
