//! Wires: what the NIC is connected to. One for now: `loopback`, which sends every packet back to its program.

/// What a queue pair's packets meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Back to the program, in a receive buffer that the NIC allocates and copies into.
    Loopback,
    /// Back to the program in the same buffer, without a copy.
    Reflect,
}

impl Wire {
    /// The name in the status and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Loopback => "loopback",
            Wire::Reflect => "loopback --reflect",
        }
    }
}
