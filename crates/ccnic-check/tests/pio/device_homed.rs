//! Figures 4a and 4b: the device is home of both lines. It knows of each who has it (its directory), takes a line back by a recall, and
//! returns a line that was loaded in state Exclusive, so that the CPU writes the next message there without a word to the device; or, not
//! optimised, in state Shared.
//!
//! Messages of different kinds overtake each other: requests and recalls travel in any order. Only what the CPU's cache gives back of one
//! line, write-backs and replies to recalls, keeps its order.

use crate::protocol::OnLoad;
use stateright::{Model, Property};

use crate::shared::{Core, Device, EVICTIONS, Fault, Initiator, Line, Rules, Value, Watched, properties};

/// What occurs, in alphabetical order.
pub(crate) const REACHED: [&str; 4] = [
    "reached: a line is requested to be written",
    "reached: a load is repeated",
    "reached: a written line is evicted",
    "reached: an upgrade",
];

/// A line in the CPU's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cached {
    Invalid,
    Shared(Value),
    Exclusive(Value),
    Modified(Value),
}

/// Where the directory says that a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Directory {
    Home,
    /// At the CPU, to be read.
    Shared,
    /// At the CPU, to be written.
    Owned,
}

/// A request of the CPU's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Request {
    /// To read.
    Load(Line),
    /// To write, with the data.
    Own(Line),
    /// To write what it can read already.
    Upgrade(Line),
}

/// A message of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Reply {
    Data { line: Line, value: Value, exclusive: bool },
    Upgraded(Line),
    Recall(Line),
}

/// What the CPU's cache gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Back {
    /// An evicted line that had been written.
    Evicted(Value),
    /// The reply to a recall, with data if the line had been written.
    Recalled(Option<Value>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    core: Core,
    cache: [Cached; 2],
    /// Of each line: a request is under way, or held back.
    pending: [bool; 2],
    requests: Vec<Request>,
    replies: Vec<Reply>,
    backs: [Vec<Back>; 2],
    device: Device,
    directory: [Directory; 2],
    memory: [Value; 2],
    /// The device's last message, and where.
    last: Option<(Line, Value)>,
    evictions: u8,
    fault: Option<Fault>,
}

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The core's program goes on by a step: it writes, or sends or ends a load.
    Core,
    /// The store buffer empties itself into the cache, or asks for the line.
    Drain,
    Evict(Line),
    /// The device gets a request.
    Request(Request),
    /// The CPU's cache gets a message of the device.
    Reply(Reply),
    /// The device gets what the cache has given back of a line.
    Back(Line),
    /// The device replies to the load that it holds: because it has the answer, or because time is short.
    Respond(Value),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceHomed {
    pub initiator: Initiator,
    /// Loads are replied to in state Exclusive: "this optimization dramatically reduces latency" (section 4.5).
    pub exclusive: bool,
    pub rules: Rules,
}

impl DeviceHomed {
    /// The CPU's cache cannot work on one line while its unit is busy with the load of the other.
    fn blocked(&self, state: &State, line: Line) -> bool {
        !self.rules.units_apart && state.pending[1 - line]
    }

    fn core(&self, state: &mut State) -> Result<(), Fault> {
        let Some(line) = state.core.loads(self.initiator) else { return Ok(()) };
        match state.cache[line] {
            Cached::Invalid => {
                state.pending[line] = true;
                state.request(Request::Load(line));
                Ok(())
            }
            Cached::Shared(value) | Cached::Exclusive(value) | Cached::Modified(value) => {
                state.core.take(self.initiator, value)
            }
        }
    }

    fn at_device(&self, state: &mut State, request: Request) -> Result<(), Fault> {
        match request {
            Request::Own(line) => {
                state.directory[line] = Directory::Owned;
                state.reply(Reply::Data { line, value: state.memory[line], exclusive: true });
            }
            Request::Upgrade(line) => {
                state.directory[line] = Directory::Owned;
                state.reply(Reply::Upgraded(line));
            }
            Request::Load(line) => match state.device.load(line) {
                OnLoad::Repeat => {
                    if let Some((_, value)) = state.last {
                        self.give(state, line, value);
                    }
                }
                OnLoad::Fetch(fetch) if state.directory[fetch] == Directory::Home => {
                    return state.device.take(self.initiator, state.memory[fetch]);
                }
                OnLoad::Fetch(fetch) => state.reply(Reply::Recall(fetch)),
                OnLoad::Hold => {}
            },
        }
        Ok(())
    }

    fn give(&self, state: &mut State, line: Line, value: Value) {
        state.memory[line] = value;
        state.directory[line] = if self.exclusive { Directory::Owned } else { Directory::Shared };
        state.reply(Reply::Data { line, value, exclusive: self.exclusive });
    }

    fn at_cpu(&self, state: &mut State, reply: Reply) {
        match reply {
            Reply::Data { line, value, exclusive } => {
                state.pending[line] = false;
                state.cache[line] = if exclusive { Cached::Exclusive(value) } else { Cached::Shared(value) };
            }
            Reply::Upgraded(line) => {
                state.pending[line] = false;
                if let Cached::Shared(value) = state.cache[line] {
                    state.cache[line] = Cached::Exclusive(value);
                }
            }
            Reply::Recall(line) => {
                let data = if let Cached::Modified(value) = state.cache[line] { Some(value) } else { None };
                state.cache[line] = Cached::Invalid;
                state.backs[line].push(Back::Recalled(data));
            }
        }
    }

    fn give_back(&self, state: &mut State, line: Line) -> Result<(), Fault> {
        let back = state.backs[line].remove(0);
        state.directory[line] = Directory::Home;
        let (Back::Evicted(data) | Back::Recalled(Some(data))) = back else {
            // The line was clean, or had been evicted: then its data have come before.
            return state.device.take(self.initiator, state.memory[line]);
        };
        state.memory[line] = data;
        if matches!(back, Back::Recalled(_)) { state.device.take(self.initiator, data) } else { Ok(()) }
    }
}

impl State {
    fn request(&mut self, request: Request) {
        self.requests.push(request);
        self.requests.sort_unstable();
    }

    fn reply(&mut self, reply: Reply) {
        self.replies.push(reply);
        self.replies.sort_unstable();
    }

    /// The store buffer's line and value: into the cache if it may write the line, otherwise it asks for the line.
    fn drain(&mut self, line: Line, value: Value) {
        match self.cache[line] {
            Cached::Exclusive(_) | Cached::Modified(_) => {
                self.cache[line] = Cached::Modified(value);
                self.core.store = None;
                return;
            }
            Cached::Shared(_) => self.request(Request::Upgrade(line)),
            Cached::Invalid => self.request(Request::Own(line)),
        }
        self.pending[line] = true;
    }

    fn evict(&mut self, line: Line) {
        self.evictions -= 1;
        if let Cached::Modified(value) = self.cache[line] {
            self.backs[line].push(Back::Evicted(value));
        }
        self.cache[line] = Cached::Invalid; // a clean line goes without a message
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

impl Model for DeviceHomed {
    type State = State;
    type Action = Action;

    /// The CPU may write the line of its first message: line 0 is Exclusive there (section 4.3, step 1), if it initiates.
    fn init_states(&self) -> Vec<State> {
        let (cache, directory) = match self.initiator {
            Initiator::Cpu => {
                ([Cached::Exclusive(Value::Empty), Cached::Invalid], [Directory::Owned, Directory::Home])
            }
            Initiator::Device => ([Cached::Invalid; 2], [Directory::Home; 2]),
        };
        vec![State {
            core: Core::new(self.initiator),
            cache,
            pending: [false; 2],
            requests: Vec::new(),
            replies: Vec::new(),
            backs: [Vec::new(), Vec::new()],
            device: Device::new(self.initiator, &self.rules),
            directory,
            memory: [Value::Empty; 2],
            last: None,
            evictions: EVICTIONS,
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
        if let Some((line, _)) = state.core.store
            && !state.pending[line]
        {
            actions.push(Action::Drain);
        }
        for line in [0, 1] {
            let held = state.cache[line] != Cached::Invalid && !state.pending[line];
            if held && state.evictions > 0 {
                actions.push(Action::Evict(line));
            }
            if !state.backs[line].is_empty() {
                actions.push(Action::Back(line));
            }
        }
        actions.extend(state.requests.iter().copied().map(Action::Request));
        let replies = state.replies.iter().copied();
        actions.extend(
            replies
                .filter(|reply| !matches!(reply, Reply::Recall(line) if self.blocked(state, *line)))
                .map(Action::Reply),
        );
        actions.extend(state.device.replies(self.initiator).into_iter().map(Action::Respond));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let outcome = match action {
            Action::Core => self.core(&mut state),
            Action::Drain => {
                let (line, value) = state.core.store?;
                state.drain(line, value);
                Ok(())
            }
            Action::Evict(line) => {
                state.evict(line);
                Ok(())
            }
            Action::Request(request) => {
                let at = state.requests.iter().position(|other| *other == request)?;
                state.requests.remove(at);
                self.at_device(&mut state, request)
            }
            Action::Reply(reply) => {
                let at = state.replies.iter().position(|other| *other == reply)?;
                state.replies.remove(at);
                self.at_cpu(&mut state, reply);
                Ok(())
            }
            Action::Back(line) => self.give_back(&mut state, line),
            Action::Respond(value) => {
                let line = state.device.side.holds()?;
                self.give(&mut state, line, value);
                state.last = Some((line, value));
                state.device.replied(self.initiator, value)
            }
        };
        state.fault = outcome.err();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<DeviceHomed>> {
        let [wants, repeated, evicted, upgrade] = REACHED;
        let own = vec![
            Property::always("one owner", |_, state: &State| {
                [0, 1].into_iter().all(|line| match state.cache[line] {
                    Cached::Invalid => true,
                    Cached::Shared(_) => state.directory[line] != Directory::Home,
                    Cached::Exclusive(_) | Cached::Modified(_) => state.directory[line] == Directory::Owned,
                })
            }),
            Property::sometimes(evicted, |_, state: &State| {
                state.backs.iter().flatten().any(|back| matches!(back, Back::Evicted(_)))
            }),
            Property::sometimes(wants, |_, state: &State| {
                state.requests.iter().any(|request| matches!(request, Request::Own(_)))
            }),
            Property::sometimes(repeated, |_, state: &State| {
                let last = state.last.map(|(line, _)| Request::Load(line));
                state.requests.iter().any(|request| Some(*request) == last)
            }),
            Property::sometimes(upgrade, |_, state: &State| {
                state.requests.iter().any(|request| matches!(request, Request::Upgrade(_)))
            }),
            Property::always("no deadlock", |model: &DeviceHomed, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || state.fault.is_some() || state.is_done(model.initiator)
            }),
        ];
        properties().into_iter().chain(own).collect()
    }
}
