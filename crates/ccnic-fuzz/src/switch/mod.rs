//! Frames through the switch: any ports, policies and frames, with metadata, against a simple model of who may receive what.
//!
//! | file | contents |
//! |---|---|
//! | `plan.rs` | what ports there are and what they may do, as the input chooses |
//! | `frame.rs` | frames and their metadata, as the input chooses |
//! | `net.rs` | the daemon's switch, with programs and other ports whose far ends are held here |
//! | `model.rs` | who should get which frame, and what is counted |
//! | `complete.rs` | what a receiver should get that takes less than was requested |
//!
//! The ports are the daemon's own: programs have a region, rings and a pool. After each burst every port must have got what the model says,
//! and have counted what it says: each packet is delivered, or counted under one reason.

mod complete;
mod frame;
mod model;
mod net;
mod plan;

use crate::input::Input;
use frame::Sent;
use model::Model;
use net::Net;
use plan::{Plan, Settings};

/// Packets of a burst, at most.
const BURST: usize = 8;

/// Ticks of the clock in a second.
const SECOND: u64 = 1_000_000;

/// The fuzz target: the ports; then what they send, and what changes.
pub fn switch(bytes: &[u8]) {
    let input = Input::new(bytes);
    let settings = Settings::new(&input);
    let plans = plan::plans(&input);
    let mut net = Net::new(&settings, &plans);
    let mut model = Model::new(&settings, &plans);
    let mut plans = plans;
    while !input.is_used_up() {
        match input.byte() % 16 {
            0 => {
                let ticks = [500, 5_000, 1_000_000, 4_500_000][input.below(4)];
                net.pass(ticks);
                model.pass(ticks);
            }
            1 => {
                let at = input.below(plans.len());
                plans[at].rules = plan::rules(&input, at, &plans);
                net.set_rules(at, &plans);
                model.set_rules(at, &plans);
            }
            2 => {
                let at = input.below(plans.len());
                let mut again = Plan::new(&input);
                again.rules = plan::rules(&input, at, &plans);
                if !plan::is_mirror(at, &plans) || again.is_outside() {
                    net.leave(at);
                    model.leave(at);
                    plans[at] = again;
                    net.join(at, &plans);
                    model.join(at, &plans);
                }
            }
            _ => {
                let from = input.below(plans.len());
                let most = if model.is_simple() { BURST } else { 1 };
                let number = 1 + input.below(most);
                let longest = plans[from].longest();
                let mut frames: Vec<Sent> = (0..number).map(|_| Sent::new(&input, longest)).collect();
                if frames.iter().any(Sent::is_super) || plans[from].is_outside() {
                    frames.truncate(1); // as ports to somewhere outside do (`OutsidePort::fetch`)
                }
                let outcome = net.burst(from, frames);
                model.burst(from, &outcome);
                model.check(&net, &outcome);
            }
        }
    }
}
