//! A region of any valid, small configuration, and the work that one call may do.

use std::rc::Rc;

use ccnic::{Config, Demote, Design, Layout};

use crate::input::Input;
use crate::memory::Region;

/// Accesses that one poll of a NIC may make: it handles at most 64 descriptors, and copies at most 4 KiB for
/// each, a line at a time. Where the pool is a ring whose ends a dead or hostile program has closed, it looks 1024 times at an end of it
/// for each buffer of either class that it takes or frees.
pub(crate) fn poll(config: &Config) -> u64 {
    64 * 2 * 64 + 8192 + closed(config)
}

/// Accesses that one call of a program may make: the depot's walks go on for as many steps as it has nodes, and each buffer may try rings
/// of DPDK's kind that a peer keeps closed.
pub(crate) fn call(config: &Config) -> u64 {
    100_000 + closed(config)
}

/// Tries of a call or poll to change a ring of DPDK's kind that a peer keeps closed.
fn closed(config: &Config) -> u64 {
    if config.mempool { 64 * 2 * 2 * 1024 } else { 0 }
}

/// The configuration that the next bytes choose.
fn config(input: &Input) -> Config {
    let design = Design::ALL[input.below(5)];
    let flags = input.byte();
    let mtu = match input.short() {
        usual if usual.is_multiple_of(2) => {
            [64, 127, 128, 1500, 4096, 9000, 9600][usize::from(usual / 2) % 7]
        }
        any => 64 + any % (Config::MAX_MTU - 63),
    };
    Config {
        queues: 1 + input.below(3) as u16,
        ring: 64 << input.below(2),
        buffers: 16 + input.below(49) as u32,
        mtu,
        design,
        recycle: flags & 1 == 0,
        small: flags & 2 == 0,
        sequential: flags & 4 != 0,
        shared_pool: flags & 8 == 0 && design != Design::Doorbell,
        inline: flags & 0x40 == 0,
        // NICs refuse such a region: its rings make one side wait for the other.
        mempool: flags & 0x80 != 0,
        demote: Demote::ALL[usize::from(flags >> 4) % 3],
        page: 4096,
    }
}

/// What a target begins with: a region, formatted, in which nothing has happened yet, and the rest of the input.
pub(crate) struct Setup {
    pub(crate) region: Rc<Region>,
    pub(crate) layout: Layout,
    pub(crate) input: Rc<Input>,
    /// The hostile side forges positions and nothing else.
    pub(crate) positions_only: bool,
}

impl Setup {
    /// As the first bytes choose; `positions_only` may take further ones.
    pub(crate) fn new(bytes: &[u8], positions_only: impl FnOnce(&Config, &Input) -> bool) -> Setup {
        let input = Rc::new(Input::new(bytes));
        let config = config(&input);
        let positions_only = positions_only(&config, &input);
        let layout = Layout::new(&config).expect("every choice is in range");
        let region = Region::new(&layout, &input, positions_only);
        // The header is not under attack: it is read once. Its own oracle is in `control_messages`.
        ccnic::testing::Allocator::fill(&region.view(false), &layout);
        Setup { region, layout, input, positions_only }
    }
}

/// A length of packet that the next byte chooses, at most the MTU.
pub(crate) fn len(input: &Input, config: &Config) -> u16 {
    [1, 60, 64, 128, 129, 1500, 4096, 4097, 9000, 9600][input.below(10)].min(config.mtu)
}

/// Runs `call` and checks that it accesses the region at most `most` times.
pub(crate) fn bounded<T>(region: &Region, most: u64, what: &str, call: impl FnOnce() -> T) -> T {
    let before = region.accesses();
    let result = call();
    let accesses = region.accesses() - before;
    assert!(accesses <= most, "{what}: {accesses} accesses in one call");
    result
}
