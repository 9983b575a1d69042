//! Figures 4c and 4d: the CPU is home of both lines, and the device holds lines as a cache does. The paper says of these only that they
//! are "more complex to deal with"; what is here follows from figures 4a and 4b with the roles of directory and cache exchanged.
//!
//! At rest the device owns the line that the core loads. The load makes the home probe the device, which holds the probe back, requests
//! the line of the core's message for itself, and replies to the probe with its own message.

use crate::protocol::OnLoad;
use stateright::{Model, Property};

use crate::shared::{Core, Device, EVICTIONS, Fault, Initiator, Line, Rules, Value, Watched, properties};

/// A message of the core is fetched from its memory.
pub(crate) const FROM_MEMORY: &str = "reached: served from memory";

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// In the CPU's cache, or evicted to its memory.
    Cpu {
        cached: bool,
    },
    Device,
    /// On the way.
    Moving,
}

/// A message between home and device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    /// Home to device: the core loads this line.
    Probe(Line),
    /// Device to home: the line, for the core.
    Reply(Line, Value),
    /// Device to home: wants to own this line.
    Own(Line),
    /// Home to device: the line.
    Data(Line, Value),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    core: Core,
    place: [Place; 2],
    value: [Value; 2],
    /// Of each line: the core's load is under way, or held back.
    pending: [bool; 2],
    messages: Vec<Message>,
    device: Device,
    evictions: u8,
    /// A message of the core was fetched from its memory.
    from_memory: bool,
    fault: Option<Fault>,
}

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The core's program goes on by a step.
    Core,
    /// The store buffer empties itself.
    Drain,
    Evict(Line),
    Deliver(Message),
    /// The device replies to the probe that it holds.
    Respond(Value),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuHomed {
    pub initiator: Initiator,
    pub rules: Rules,
}

impl CpuHomed {
    fn core(&self, state: &mut State) -> Result<(), Fault> {
        let Some(line) = state.core.loads(self.initiator) else { return Ok(()) };
        match state.place[line] {
            // Also when it is repeated: the line is at home.
            Place::Cpu { .. } => state.core.take(self.initiator, state.value[line]),
            Place::Device | Place::Moving => {
                state.pending[line] = true;
                state.send(Message::Probe(line));
                Ok(())
            }
        }
    }

    /// A message can be worked on: the home's unit may be busy with the load of the other line.
    fn goes_on(&self, state: &State, message: Message) -> bool {
        match message {
            Message::Own(line) => self.rules.units_apart || !state.pending[1 - line],
            // The device gets a line before it is asked for it.
            Message::Probe(line) => state.place[line] == Place::Device,
            Message::Reply(..) | Message::Data(..) => true,
        }
    }

    fn deliver(&self, state: &mut State, message: Message) -> Result<(), Fault> {
        match message {
            Message::Probe(line) => {
                match state.device.load(line) {
                    OnLoad::Fetch(fetch) if state.place[fetch] == Place::Device => {
                        return state.device.take(self.initiator, state.value[fetch]);
                    }
                    OnLoad::Fetch(fetch) => state.send(Message::Own(fetch)),
                    OnLoad::Hold => {}
                    // What the device has given, the home does not ask it for.
                    OnLoad::Repeat => return Err(Fault::NotOnce),
                }
                Ok(())
            }
            Message::Own(line) => {
                state.from_memory |= state.place[line] == Place::Cpu { cached: false };
                state.place[line] = Place::Moving;
                state.send(Message::Data(line, state.value[line]));
                Ok(())
            }
            Message::Data(line, value) => {
                (state.place[line], state.value[line]) = (Place::Device, value);
                state.device.take(self.initiator, value)
            }
            Message::Reply(line, value) => {
                (state.place[line], state.value[line]) = (Place::Cpu { cached: true }, value);
                state.pending[line] = false;
                Ok(())
            }
        }
    }
}

impl State {
    fn send(&mut self, message: Message) {
        self.messages.push(message);
        self.messages.sort_unstable();
    }
}

impl Watched for State {
    fn core(&self) -> &Core {
        &self.core
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }
}

impl Model for CpuHomed {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let place = match self.initiator {
            Initiator::Cpu => [Place::Cpu { cached: true }, Place::Device],
            Initiator::Device => [Place::Device; 2],
        };
        vec![State {
            core: Core::new(self.initiator),
            place,
            value: [Value::Empty; 2],
            pending: [false; 2],
            messages: Vec::new(),
            device: Device::new(self.initiator, &self.rules),
            evictions: EVICTIONS,
            from_memory: false,
            fault: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.fault.is_some() || state.is_done(self.initiator) {
            return;
        }
        if state.core.goes_on(self.initiator, &self.rules, state.pending) {
            actions.push(Action::Core);
        }
        // A store to a line that has been lost would wait for it: in these protocols that is a defect, and shows as one.
        if let Some((line, _)) = state.core.store
            && matches!(state.place[line], Place::Cpu { .. })
        {
            actions.push(Action::Drain);
        }
        for line in [0, 1] {
            if state.place[line] == (Place::Cpu { cached: true }) && state.evictions > 0 {
                actions.push(Action::Evict(line));
            }
        }
        actions.extend(
            state
                .messages
                .iter()
                .copied()
                .filter(|message| self.goes_on(state, *message))
                .map(Action::Deliver),
        );
        actions.extend(state.device.replies(self.initiator).into_iter().map(Action::Respond));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let outcome = match action {
            Action::Core => self.core(&mut state),
            Action::Drain => {
                let (line, value) = state.core.store.take()?;
                (state.place[line], state.value[line]) = (Place::Cpu { cached: true }, value);
                Ok(())
            }
            Action::Evict(line) => {
                state.evictions -= 1;
                state.place[line] = Place::Cpu { cached: false };
                Ok(())
            }
            Action::Deliver(message) => {
                let at = state.messages.iter().position(|other| *other == message)?;
                state.messages.remove(at);
                self.deliver(&mut state, message)
            }
            Action::Respond(value) => {
                let line = state.device.side.holds()?;
                state.place[line] = Place::Moving;
                state.send(Message::Reply(line, value));
                state.device.replied(self.initiator, value)
            }
        };
        state.fault = outcome.err();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<CpuHomed>> {
        let own = vec![
            Property::always("one owner", |_, state: &State| {
                let moving = |line| {
                    let carries =
                        |m: &&Message| matches!(m, Message::Reply(l, _) | Message::Data(l, _) if *l == line);
                    state.messages.iter().filter(carries).count()
                };
                [0, 1].into_iter().all(|line| moving(line) == usize::from(state.place[line] == Place::Moving))
            }),
            Property::sometimes(FROM_MEMORY, |_, state: &State| state.from_memory),
            Property::always("no deadlock", |model: &CpuHomed, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || state.fault.is_some() || state.is_done(model.initiator)
            }),
        ];
        properties().into_iter().chain(own).collect()
    }
}
