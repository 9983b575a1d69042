//! `ccnic-hello`: an HTTP/1.1 server over ccnic, for `curl` and `wrk` behind a TAP port.

mod http;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ccnic_client::default_socket;
use ccnic_tcp::{Conn, Event, Network, Options, Stack};
use clap::Parser;

use http::Exchange;

/// What is kept of a client that does not read its answers; beyond that nothing more is read from it.
const UNSENT: usize = 64 << 10;

/// Answer HTTP requests with a greeting.
#[derive(Debug, Parser)]
#[command(name = "ccnic-hello", version)]
struct Cli {
    /// The socket of the NIC [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long)]
    socket: Option<PathBuf>,
    /// This host's address and the bits of its network's prefix
    #[arg(long, default_value = "10.9.0.2/24")]
    address: Network,
    /// An IPv6 address, too
    #[arg(long)]
    ipv6: Option<Network>,
    /// The gateway to other networks; once for each version of IP
    #[arg(long, value_name = "ADDR")]
    gateway: Vec<IpAddr>,
    /// The TCP port
    #[arg(long, default_value_t = 80)]
    port: u16,
    /// Connections at the same time
    #[arg(long, default_value_t = 16 << 10)]
    connections: usize,
    /// Sleep when no frame has come for so many microseconds; 0: never
    #[arg(long, default_value_t = 50, value_name = "MICROSECONDS")]
    sleep_after: u64,
}

/// A client, by the index of its connection.
#[derive(Debug, Default)]
struct Client {
    exchange: Exchange,
    /// Bytes of `exchange`'s output that were written.
    written: usize,
}

fn main() -> ExitCode {
    let Err(error) = run(Cli::parse());
    eprintln!("ccnic-hello: {error:#}");
    ExitCode::from(2)
}

/// Serves until something goes wrong.
fn run(cli: Cli) -> anyhow::Result<Infallible> {
    let mut options = Options::new(cli.address);
    (options.ipv6, options.connections) = (cli.ipv6.or(options.ipv6), cli.connections);
    options.set_gateways(cli.gateway)?;
    options.sleep_after = Duration::from_micros(cli.sleep_after);
    let mut stack = Stack::open(cli.socket.unwrap_or_else(default_socket), &options)?;
    let listener = stack.listen(cli.port, 4096)?;
    let mut clients = Vec::<Client>::new();
    loop {
        stack.poll();
        while let Some(event) = stack.next_event() {
            match event {
                Event::Accept(_) => {
                    while let Some(conn) = stack.accept(listener) {
                        clients.resize_with(clients.len().max(conn.index() + 1), Client::default);
                        clients[conn.index()] = Client::default();
                    }
                }
                Event::Ready(conn, _) => {
                    if !serve(&mut stack, conn, &mut clients[conn.index()]) {
                        stack.close(conn);
                        clients[conn.index()] = Client::default();
                    }
                }
            }
        }
        stack.wait_when_idle(None)?;
    }
}

/// Reads requests and writes answers; false at the end of the connection.
fn serve(stack: &mut Stack, conn: Conn, client: &mut Client) -> bool {
    let mut bytes = [0; 4096];
    loop {
        let Client { exchange, written } = client;
        while *written < exchange.output.len() {
            match stack.write(conn, &exchange.output[*written..]) {
                Ok(n) => *written += n,
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
        exchange.output.clear();
        *written = 0;
        if exchange.ends {
            return false;
        }
        while exchange.output.len() < UNSENT && !exchange.ends {
            match stack.read(conn, &mut bytes) {
                Ok(0) => exchange.ends = true,
                Ok(n) => exchange.input(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        if exchange.output.is_empty() && !exchange.ends {
            return true;
        }
    }
}
