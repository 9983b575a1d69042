//! Attacks by the control socket: many connections, many attachments, many messages, messages that are none.

use std::time::{Duration, Instant};

use ccnic::rss::Rss;
use ccnic_control::messages::{Reply, Request};
use ccnic_control::{Connection, Error};

use crate::program::{Program, attach_request, config, read_raw, send_raw};
use crate::stage::Stage;

/// Connections that are enough to fill a table of 16 bits, where descriptors allow.
const MANY: usize = 19_000;
/// Connections that ask at once.
const ASKING: usize = 64;
/// Between two attempts after a refusal.
const PAUSE: Duration = Duration::from_millis(1);

pub fn slots(stage: &Stage<'_>) -> anyhow::Result<()> {
    let config = config(1, 64, 16);
    let mut programs = Vec::new();
    while stage.goes_on() {
        match Program::attached(stage, "slots", &config)? {
            Some(program) if programs.len() < MANY / 2 => programs.push(program), // two descriptors each
            _ => std::thread::sleep(PAUSE),
        }
    }
    Ok(())
}

/// Connections that the NIC closes are opened again.
pub fn connections(stage: &Stage<'_>) -> anyhow::Result<()> {
    let mut silent: Vec<Connection> = Vec::new();
    let mut looked = Instant::now();
    while stage.goes_on() {
        if silent.len() < MANY {
            match stage.tried(Connection::open(stage.socket)) {
                Some(connection) => silent.push(connection),
                None => std::thread::sleep(PAUSE),
            }
        } else {
            std::thread::sleep(PAUSE);
        }
        if looked.elapsed() > Duration::from_millis(50) {
            silent.retain(|connection| {
                let ended = connection.has_ended();
                if ended {
                    stage.refused(last_words(connection));
                }
                !ended
            });
            looked = Instant::now();
        }
    }
    Ok(())
}

/// What the NIC said before it closed a connection.
fn last_words(connection: &Connection) -> String {
    match connection.receive::<Reply>() {
        Ok(Some((Reply::Refused { reason }, _))) => reason,
        _ => "a connection was closed".to_owned(),
    }
}

/// Connections in a loop: `say` is called for each in turn; one that has ended is opened again.
fn crowd(stage: &Stage<'_>, mut say: impl FnMut(usize, &Connection) -> bool) {
    let mut crowd: Vec<Option<Connection>> = (0..ASKING).map(|_| None).collect();
    while stage.goes_on() {
        for (i, place) in crowd.iter_mut().enumerate() {
            match place {
                Some(connection) => {
                    if !say(i, connection) {
                        *place = None;
                    }
                }
                None => *place = stage.tried(Connection::open(stage.socket)),
            }
        }
        if crowd.iter().all(Option::is_none) {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Sends one message and forgets what has come meanwhile; false when the connection is no more.
fn send_and_forget(stage: &Stage<'_>, connection: &Connection, message: &[u8], bytes: &mut [u8]) -> bool {
    match send_raw(connection, message, &[]) {
        Ok(_) => stage.did(1),
        Err(rustix::io::Errno::AGAIN) => {} // the NIC has not yet heard what was said before
        Err(e) => {
            stage.refused(format!("sending a message: {e}"));
            return false;
        }
    }
    read_raw(connection, bytes)
}

/// The status is as long as two programs of many queues make it.
pub fn status_flood(stage: &Stage<'_>) -> anyhow::Result<()> {
    let wide = config(256, 64, 16);
    let _programs = [Program::attached(stage, "status", &wide)?, Program::attached(stage, "status", &wide)?];
    let message = serde_json::to_vec(&Request::Status)?;
    let mut bytes = vec![0; 1 << 20];
    crowd(stage, |_, connection| send_and_forget(stage, connection, &message, &mut bytes));
    Ok(())
}

/// Long messages, and requests that were cut, or have something in them that does not belong there.
pub fn messages(stage: &Stage<'_>) -> anyhow::Result<()> {
    let long = format!("{{\"attach\":{{\"name\":\"{}\"}}}}", "\\u0041".repeat(10_000)).into_bytes();
    let requests = [Request::Hello, Request::Status, Request::Rss(None), attach_request("messages")];
    let requests: Vec<Vec<u8>> = requests.iter().map(serde_json::to_vec).collect::<Result<_, _>>()?;
    let mut random = stage.random(1);
    let mut bytes = vec![0; 1 << 16];
    crowd(stage, |i, connection| {
        if i % 2 == 0 {
            return send_and_forget(stage, connection, &long, &mut bytes);
        }
        let mut message = requests[random.below(requests.len() as u64) as usize].clone();
        let at = random.below(message.len() as u64) as usize;
        match random.below(3) {
            0 => message.truncate(at.max(1)),
            1 => message[at] = random.word() as u8,
            _ => message.insert(at, random.word() as u8),
        }
        send_and_forget(stage, connection, &message, &mut bytes)
    });
    Ok(())
}

/// Rules and tables that come and go, each of which changes how the packets of its program are delivered.
pub fn steer_churn(stage: &Stage<'_>) -> anyhow::Result<()> {
    let programs = Program::several(stage, "steer-churn", &config(4, 64, 16), 16)?;
    let rss = serde_json::to_string(&Request::Rss(Some((&Rss::new(4)).into())))?;
    let mut bytes = vec![0; 1 << 16];
    for n in 0u32.. {
        if !stage.goes_on() {
            break;
        }
        let (id, port) = (n / 4 % 200, n / 4 % 60_000 + 1);
        let message = match n % 4 {
            0 => format!(
                r#"{{"flow":{{"create":{{"id":{id},"rule":{{"match":{{"protocol":17,"dst_port":{port}}},"to":{{"queue":1}}}}}}}}}}"#
            ),
            1 => rss.clone(),
            2 => format!(r#"{{"flow":{{"destroy":{{"id":{id}}}}}}}"#),
            _ => r#"{"rss":null}"#.to_owned(),
        };
        for connection in programs.iter().filter_map(|program| program.connection.as_ref()) {
            send_and_forget(stage, connection, message.as_bytes(), &mut bytes);
        }
    }
    Ok(())
}

/// A NIC that waits until its answer is read waits for ever.
pub fn unread(stage: &Stage<'_>) -> anyhow::Result<()> {
    let requests = [serde_json::to_vec(&Request::Hello)?, serde_json::to_vec(&Request::Status)?];
    crowd(stage, |i, connection| match send_raw(connection, &requests[i % 2], &[]) {
        Ok(_) => {
            stage.did(1);
            true
        }
        Err(rustix::io::Errno::AGAIN) if !connection.has_ended() => true,
        Err(e) => {
            stage.refused(format!("sending a request: {e}"));
            false
        }
    });
    Ok(())
}

/// Names that are long, and that a terminal would obey.
pub fn names(stage: &Stage<'_>) -> anyhow::Result<()> {
    let escapes = "\u{1b}[2J\u{1b}]0;root\u{7}\r\n".repeat(1500);
    let config = config(1, 64, 16);
    let mut programs = Vec::new();
    while stage.goes_on() {
        if programs.len() < 32
            && let Some(program) = Program::attached(stage, &escapes, &config)?
        {
            programs.push(program);
        }
        let status =
            || -> Result<usize, Error> { Ok(Connection::open(stage.socket)?.status()?.programs.len()) };
        stage.tried(status());
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// A request to be notified needs an attachment; without one it is refused in the log only.
pub fn log_flood(stage: &Stage<'_>) -> anyhow::Result<()> {
    let message = serde_json::to_vec(&Request::Notify { queue: 0, wakes: false })?;
    let mut bytes = [0; 4096];
    crowd(stage, |_, connection| send_and_forget(stage, connection, &message, &mut bytes));
    Ok(())
}
