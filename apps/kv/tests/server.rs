//! The program over kernel sockets: many clients, slow ones, limits, datagrams, signals.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ccnic_kv::rpc;
use common::{Program, ask, set};

/// A port that nobody uses at the moment.
fn free_port() -> String {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

#[test]
fn many_clients_see_one_store() {
    let program = Program::start(&["-s", "FOLDER/socket", "-t", "3"]);
    let mut clients: Vec<UnixStream> = (0..200).map(|_| program.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let request = set(&format!("key{number}"), format!("value{number}").as_bytes());
        assert_eq!(ask(client, &request, "\r\n"), "STORED\r\n");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let other = 199 - number;
        let value = format!("value{other}");
        let expected = format!("VALUE key{other} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        assert_eq!(ask(client, format!("get key{other}\r\n").as_bytes(), "END\r\n"), expected);
    }
    let stats = ask(&mut clients[0], b"stats\r\n", "END\r\n");
    assert!(
        stats.contains("STAT curr_connections 200\r\n") && stats.contains("STAT curr_items 200\r\n"),
        "{stats}"
    );
    assert!(program.end().success());
}

#[test]
fn one_that_does_not_read_holds_up_nobody() {
    let program = Program::start(&["-s", "FOLDER/socket", "-t", "1"]);
    let mut slow = program.connect();
    let value = vec![b'v'; 500_000];
    assert_eq!(ask(&mut slow, &set("big", &value), "\r\n"), "STORED\r\n");
    // 50 MB of replies, more than any socket buffers.
    slow.write_all(&b"get big\r\n".repeat(100)).unwrap();
    let mut other = program.connect();
    for _ in 0..100 {
        assert_eq!(ask(&mut other, b"get nothing\r\n", "\r\n"), "END\r\n");
    }
    // Overwritten meanwhile: what is on its way is whole all the same.
    assert_eq!(ask(&mut other, &set("big", b"small"), "\r\n"), "STORED\r\n");
    let mut reader = BufReader::new(slow);
    let mut lengths = Vec::new();
    for _ in 0..100 {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let len: usize = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        let mut body = vec![0; len + 7];
        reader.read_exact(&mut body).unwrap();
        assert!(body.starts_with(if len == 5 { b"small" } else { &value }) && body.ends_with(b"\r\nEND\r\n"));
        lengths.push(len);
    }
    assert!(lengths.is_sorted_by(|a, b| a >= b) && lengths.contains(&5) && lengths[0] == 500_000);
}

#[test]
fn stats_tell_of_the_connections_and_the_processor() {
    let (port, udp) = (free_port(), free_port());
    let _program = Program::start(&["-l", "127.0.0.1", "-p", &port, "-U", &udp, "-t", "2"]);
    let connect = || TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let (mut first, mut second) = (connect(), connect());
    ask(&mut first, b"mn\r\nset a 0 0 10\r\n12", "MN\r\n");
    let own = second.local_addr().unwrap();
    // The first one's turn ends a moment after its answer.
    let mut stats = String::new();
    while !stats.contains("conn_nread") {
        stats = ask(&mut second, b"stats conns\r\n", "END\r\n");
    }
    let with = |end: &str| stats.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!(with(&format!(":addr tcp:127.0.0.1:{port}")), 1, "{stats}");
    assert_eq!(with(&format!(":listen_addr tcp:127.0.0.1:{port}")), 2, "{stats}");
    assert_eq!((with(":UDP UDP"), with(&format!(":addr udp:127.0.0.1:{udp}"))), (1, 1), "{stats}");
    assert_eq!(with(&format!(":addr tcp:{own}")), 1, "{stats}");
    assert_eq!(["conn_listening", "conn_nread", "conn_parse_cmd", "conn_read"].map(with), [1; 4], "{stats}");
    drop(first);
    while ask(&mut second, b"stats conns\r\n", "END\r\n").contains("conn_nread") {}
    let stats = ask(&mut second, b"stats\r\n", "END\r\n");
    let value =
        |name: &str| stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} "))).unwrap();
    let used: f64 =
        ["rusage_user", "rusage_system"].map(|name| value(name).parse::<f64>().unwrap()).iter().sum();
    assert!(used > 0.0 && value("accepting_conns") == "1");
    assert_eq!(ask(&mut second, b"stats reset\r\n", "\r\n"), "RESET\r\n");
    let stats = ask(&mut second, b"stats\r\n", "END\r\n");
    let read = stats.lines().find_map(|line| line.strip_prefix("STAT bytes_read ")).unwrap();
    assert!(read.parse::<u64>().unwrap() < 100, "{stats}");
}

/// A line of the process in /proc.
fn status(pid: &str, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
}

#[test]
fn a_client_may_end_the_server_where_that_is_allowed() {
    for word in ["shutdown", "shutdown graceful"] {
        let mut program = Program::start(&["-s", "FOLDER/socket", "-A", "--snapshot", "FOLDER/snapshot"]);
        let mut client = program.connect();
        let refusal = "CLIENT_ERROR invalid shutdown mode\r\n";
        assert_eq!(ask(&mut client, b"shutdown now\r\n", "\r\n"), refusal);
        client.write_all(format!("{word}\r\n").as_bytes()).unwrap();
        assert!(program.process.wait().unwrap().success());
        assert!(program.folder.path().join("snapshot").exists());
        assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
    }
    let program = Program::start(&["-s", "FOLDER/socket"]);
    assert_eq!(ask(&mut program.connect(), b"shutdown\r\n", "\r\n"), "ERROR: shutdown not enabled\r\n");
}

#[test]
fn clients_take_turns() {
    let program = Program::start(&["-s", "FOLDER/socket", "-t", "1", "-R", "1", "-b", "77", "-C", "-k"]);
    let mut client = program.connect();
    let own = std::process::id().to_string();
    let can_lock = u64::from_str_radix(&status(&own, "CapEff:"), 16).unwrap() >> 14 & 1 == 1;
    if can_lock && status(&own, "Uid:").starts_with("0\t") {
        assert_ne!(status(&program.process.id().to_string(), "VmLck:"), "0 kB");
    }
    let answer = ask(&mut client, &[set("k", b"value").repeat(6), b"mn\r\n".to_vec()].concat(), "MN\r\n");
    assert_eq!(answer, "STORED\r\n".repeat(6) + "MN\r\n");
    let stats = ask(&mut client, b"stats\r\n", "END\r\n");
    let yields = stats.lines().find_map(|line| line.strip_prefix("STAT conn_yields ")).unwrap();
    assert!(yields.parse::<u32>().unwrap() >= 5, "{stats}");
    let settings = ask(&mut client, b"stats settings\r\n", "END\r\n");
    for line in ["reqs_per_event 1\r", "tcp_backlog 77\r", "cas_enabled no\r"] {
        assert!(settings.contains(line), "{settings}");
    }
    // More than one turn reads, more than one reply buffers.
    let large = set("large", &[b'x'; 100_000]);
    client.write_all(&[large, b"get large\r\n".repeat(20), b"mn\r\n".to_vec()].concat()).unwrap();
    let mut answer = vec![0; 8 + 20 * (100_000 + 29) + 4];
    client.read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(b"END\r\nMN\r\n"));
}

#[test]
fn a_daemon_goes_on_as_another_user() {
    let folder = tempfile::tempdir().unwrap();
    let (port, pidfile) = (free_port(), folder.path().join("pid"));
    let mut permissions = std::fs::metadata(folder.path()).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o777);
    std::fs::set_permissions(folder.path(), permissions).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic-kv"));
    let options =
        ["-d", "-k", "-u", "nobody", "-m", "8", "-I", "1m", "-l", "127.0.0.1", "-p", &port, "-P", "pid"];
    // The path of -P is the one of this folder, though a daemon's folder is the root.
    assert!(command.args(options).current_dir(&folder).status().unwrap().success());
    while !pidfile.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = std::fs::read_to_string(&pidfile).unwrap().trim().to_owned();
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let stats = ask(&mut client, b"stats\r\n", "END\r\n");
    assert!(stats.starts_with(&format!("STAT pid {pid}\r\n")), "{stats}");
    let own = std::process::id().to_string();
    assert_ne!(status(&pid, "NSsid:"), status(&own, "NSsid:"), "it has a session of its own");
    if status(&own, "Uid:").starts_with("0\t") {
        assert_ne!(status(&pid, "Uid:"), status(&own, "Uid:"));
        assert_eq!(status(&pid, "Groups:"), "");
        // Root can lock memory, and permit it to others, where it has these capabilities: IPC_LOCK, SYS_RESOURCE.
        let capabilities = u64::from_str_radix(&status(&own, "CapEff:"), 16).unwrap();
        let can_lock = [14, 24].iter().all(|bit| capabilities >> bit & 1 == 1);
        assert_eq!(status(&pid, "VmLck:") != "0 kB", can_lock);
    }
    assert!(Command::new("kill").args(["-s", "HUP", &pid]).status().unwrap().success());
    assert_eq!(ask(&mut client, b"mn\r\n", "\r\n"), "MN\r\n");
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    while std::path::Path::new("/proc").join(&pid).exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!pidfile.exists(), "its pid file goes with it");
}

#[test]
fn a_large_pipeline_comes_back_whole() {
    let program = Program::start(&["-s", "FOLDER/socket", "-t", "2"]);
    let mut client = program.connect();
    let mut writer = client.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for number in 0..20_000 {
            writer
                .write_all(&set(&format!("k{}", number % 100), format!("{number:0100}").as_bytes()))
                .unwrap();
            writer.write_all(format!("get k{}\r\n", number % 100).as_bytes()).unwrap();
        }
    });
    let one = "STORED\r\nVALUE k0 0 100\r\n\r\nEND\r\n".len() + 100;
    let longer = (0..20_000).filter(|number| number % 100 >= 10).count();
    let mut all = vec![0; one * 20_000 + longer];
    client.read_exact(&mut all).unwrap();
    sender.join().unwrap();
    assert!(all.ends_with(format!("{:0100}\r\nEND\r\n", 19_999).as_bytes()));
}

/// A snapshot for servers that follow each other.
struct Kept {
    folder: tempfile::TempDir,
}

impl Kept {
    fn new() -> Kept {
        Kept { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("snapshot")
    }

    /// The next server, which has what is in the snapshot, and a client.
    fn start(&self, options: &[&str]) -> (Program, UnixStream) {
        let path = self.path();
        let common = ["-s", "FOLDER/socket", "--snapshot", path.to_str().unwrap()];
        let program = Program::start(&[&common[..], options].concat());
        let client = program.connect();
        (program, client)
    }
}

#[test]
fn a_snapshot_is_written_at_the_end_and_loaded_at_the_start() {
    let kept = Kept::new();
    let (program, mut client) = kept.start(&[]);
    ask(&mut client, &set("kept", b"value"), "\r\n");
    assert!(program.end().success());
    let (program, mut client) = kept.start(&[]);
    assert_eq!(ask(&mut client, b"get kept\r\n", "END\r\n"), "VALUE kept 0 5\r\nvalue\r\nEND\r\n");
    drop(program);
    std::fs::write(kept.path(), b"no snapshot").unwrap();
    let binary = env!("CARGO_BIN_EXE_ccnic-kv");
    let refused = Command::new(binary).args(["-p", "0", "--snapshot"]).arg(kept.path()).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && text.contains("is not a whole snapshot"), "{text}");
    assert_eq!(std::fs::read(kept.path()).unwrap(), b"no snapshot", "it is left as it was");
}

#[test]
fn what_the_last_snapshot_holds_survives_a_kill() {
    let kept = Kept::new();
    let (program, mut client) = kept.start(&[]);
    ask(&mut client, &set("saved", b"value"), "\r\n");
    program.signal("USR1");
    // It appears whole, by a rename.
    while !kept.path().exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    ask(&mut client, &set("later", b"value"), "\r\n");
    program.signal("KILL");
    drop(program);
    let (_program, mut client) = kept.start(&[]);
    let found = ask(&mut client, b"get saved later\r\n", "END\r\n");
    assert_eq!(found, "VALUE saved 0 5\r\nvalue\r\nEND\r\n");
}

#[test]
fn a_snapshot_at_an_interval_survives_a_kill() {
    let kept = Kept::new();
    // What a process left that was killed while it wrote, and what only looks like it.
    let leftover = kept.folder.path().join(format!("snapshot.{}.tmp", u32::MAX));
    let other = kept.folder.path().join("snapshot.mine.tmp");
    for path in [&leftover, &other] {
        std::fs::write(path, b"begun").unwrap();
    }
    let (program, mut client) = kept.start(&["--snapshot-every", "1"]);
    assert!(!leftover.exists() && other.exists());
    for round in 0..3 {
        let key = format!("key-of-round-{round}");
        ask(&mut client, &set(&key, &vec![b'x'; 500_000]), "\r\n");
        // Each is a whole one, at whatever moment it is read.
        while !std::fs::read(kept.path())
            .is_ok_and(|bytes| memchr::memmem::find(&bytes, key.as_bytes()).is_some())
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    program.signal("KILL");
    drop(program);
    let (_program, mut client) = kept.start(&[]);
    for round in 0..3 {
        let request = format!("get key-of-round-{round}\r\n");
        assert!(ask(&mut client, request.as_bytes(), "END\r\n").len() > 500_000);
    }
}

#[test]
fn connections_beyond_the_limit_are_told() {
    let program = Program::start(&["-s", "FOLDER/socket", "-c", "2"]);
    let mut kept: Vec<UnixStream> = (0..2).map(|_| program.connect()).collect();
    for client in &mut kept {
        assert_eq!(ask(client, b"mn\r\n", "\r\n"), "MN\r\n");
    }
    let mut answer = String::new();
    program.connect().read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "ERROR Too many open connections\r\n");
    assert_eq!(ask(&mut kept[0], b"mn\r\n", "\r\n"), "MN\r\n");
}

#[test]
fn a_limit_on_files_that_is_as_low_as_the_clients_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, program) = (folder.path().join("socket"), env!("CARGO_BIN_EXE_ccnic-kv"));
    let start = |files: u32, clients: &str| {
        let shell = format!("ulimit -n {files}; exec {program} -A -c {clients} -s {}", socket.display());
        Command::new("sh").args(["-c", &shell]).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut enough = start(1024, "1024");
    while !socket.exists() {
        assert!(enough.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut client = loop {
        if let Ok(client) = UnixStream::connect(&socket) {
            break client;
        }
    };
    client.write_all(b"shutdown\r\n").unwrap();
    assert!(enough.wait().unwrap().success());
    // Who may raise the limit does: then it starts.
    let capabilities = u64::from_str_radix(&status("self", "CapEff:"), 16).unwrap();
    if capabilities >> 24 & 1 == 0 {
        let refused = start(1024, "2000").wait_with_output().unwrap();
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && text.contains("1024 files may be open here"), "{text}");
    }
}

#[test]
fn an_idle_client_is_disconnected() {
    let program = Program::start(&["-s", "FOLDER/socket", "--idle-timeout", "1"]);
    let mut answer = Vec::new();
    assert_eq!(program.connect().read_to_end(&mut answer).unwrap(), 0);
}

#[test]
fn without_evictions_a_full_store_says_so() {
    let program = Program::start(&["-s", "FOLDER/socket", "-M", "-m", "4", "-I", "1m", "-t", "1"]);
    let mut client = program.connect();
    let answers: Vec<String> = (0..8)
        .map(|number| ask(&mut client, &set(&format!("k{number}"), &[b'x'; 900_000]), "\r\n"))
        .collect();
    assert_eq!(answers[0], "STORED\r\n");
    assert_eq!(answers[7], "SERVER_ERROR out of memory storing object\r\n");
    assert!(ask(&mut client, b"get k0\r\n", "END\r\n").len() > 900_000);
}

#[test]
fn tcp_datagrams_and_the_binary_get() {
    let (port, udp, rpc_port) = (free_port(), free_port(), free_port());
    let program =
        Program::start(&["-l", "127.0.0.1", "-p", &port, "-U", &udp, "--rpc-port", &rpc_port, "-t", "1"]);
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    assert_eq!(ask(&mut client, &set("key", b"value"), "\r\n"), "STORED\r\n");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    let mut answer = [0; 2000];
    socket.send_to(b"\x12\x34\0\0\0\x01\0\0get key\r\n", format!("127.0.0.1:{udp}")).unwrap();
    let count = socket.recv(&mut answer).unwrap();
    assert_eq!(&answer[..count], b"\x12\x34\0\0\0\x01\0\0VALUE key 0 5\r\nvalue\r\nEND\r\n");
    // Each command has a datagram, and a set that is cut, too.
    let commands = b"\0\x02\0\0\0\x01\0\0get key\r\nmn\r\nset key 0 0 9\r\nother";
    socket.send_to(commands, format!("127.0.0.1:{udp}")).unwrap();
    for expected in ["VALUE key 0 5\r\nvalue\r\nEND\r\n", "MN\r\n", "CLIENT_ERROR bad data chunk\r\n"] {
        let count = socket.recv(&mut answer).unwrap();
        assert_eq!(answer[..count], [b"\0\x02\0\0\0\x01\0\0", expected.as_bytes()].concat());
    }
    let request = [&rpc::request(rpc::Operation::Get, 3, 0, 77)[..], b"key"].concat();
    socket.send_to(&request, format!("127.0.0.1:{rpc_port}")).unwrap();
    let count = socket.recv(&mut answer).unwrap();
    assert_eq!(&answer[..count], [&[1, 0, 0, 0, 5, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0][..], b"value"].concat());
    assert!(program.end().success());
}

#[test]
fn a_snapshot_follows_no_link_and_is_for_its_user_alone() {
    let kept = Kept::new();
    let (program, mut client) = kept.start(&[]);
    ask(&mut client, &set("secret", b"value"), "\r\n");
    let precious = kept.folder.path().join("precious");
    std::fs::write(&precious, b"precious").unwrap();
    // The name that an earlier version took.
    let planted = kept.folder.path().join(format!("snapshot.{}.tmp", program.id()));
    std::os::unix::fs::symlink(&precious, &planted).unwrap();
    assert!(program.end().success());
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    let written = std::fs::symlink_metadata(kept.path()).unwrap();
    assert!(written.is_file());
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&written) & 0o777, 0o600);
    drop(kept.start(&[]));
}

#[test]
fn a_snapshot_that_is_no_file_is_refused_at_once() {
    let kept = Kept::new();
    assert!(Command::new("mkfifo").arg(kept.path()).status().unwrap().success());
    let binary = env!("CARGO_BIN_EXE_ccnic-kv");
    let refused = Command::new(binary).args(["-p", "0", "--snapshot"]).arg(kept.path()).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && text.contains("no regular file"), "{text}");
}

#[test]
fn a_pid_file_follows_no_link_and_blocks_on_no_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let (precious, pid) = (folder.path().join("precious"), folder.path().join("pid"));
    std::fs::write(&precious, b"precious").unwrap();
    std::os::unix::fs::symlink(&precious, folder.path().join("pid.tmp")).unwrap();
    assert!(Command::new("mkfifo").arg(&pid).status().unwrap().success());
    let program = Program::start(&["-s", "FOLDER/socket", "-P", pid.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&pid).unwrap(), format!("{}\n", program.id()));
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn a_socket_has_its_mode_and_goes_only_with_its_own_server() {
    let program = Program::start(&["-s", "FOLDER/socket", "-a", "722"]);
    let mode = |path: &std::path::Path| {
        std::os::unix::fs::MetadataExt::mode(&std::fs::symlink_metadata(path).unwrap()) & 0o777
    };
    // Whatever the umask is.
    assert_eq!(mode(&program.socket()), 0o722);
    // Another one has taken the path over.
    let path = program.socket();
    std::fs::remove_file(&path).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    program.signal("TERM");
    let mut program = program;
    assert!(program.process.wait().unwrap().success());
    assert!(path.exists(), "it is the other one's");
    drop(other);
}

/// The text in the datagrams of one reply.
fn reply(socket: &UdpSocket) -> String {
    let (mut text, mut parts) = (Vec::new(), 1);
    for part in 0.. {
        if part >= parts {
            break;
        }
        let mut datagram = [0; 2000];
        let count = socket.recv(&mut datagram).unwrap();
        parts = u16::from_be_bytes([datagram[4], datagram[5]]);
        text.extend_from_slice(&datagram[8..count]);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_datagram_brings_no_more_than_its_bound_and_streams_are_served_beside() {
    let (port, udp) = (free_port(), free_port());
    let program = Program::start(&["-l", "127.0.0.1", "-p", &port, "-U", &udp, "-t", "1"]);
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    assert_eq!(ask(&mut client, &set("u", &vec![b'u'; 1_000_000]), "\r\n"), "STORED\r\n");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    socket.connect(format!("127.0.0.1:{udp}")).unwrap();
    // Once 85 MB each.
    let request = [&b"\0\x01\0\0\0\x01\0\0get"[..], &b" u".repeat(85), b"\r\n"].concat();
    for _ in 0..20 {
        socket.send(&request).unwrap();
        assert_eq!(ask(&mut client, b"mn\r\n", "\r\n"), "MN\r\n");
        assert_eq!(reply(&socket), "SERVER_ERROR reply too large for datagrams, ask over TCP\r\n");
    }
    let stats = ask(&mut client, b"stats\r\n", "END\r\n");
    let written = stats.lines().find_map(|line| line.strip_prefix("STAT bytes_written ")).unwrap();
    assert!(written.parse::<u64>().unwrap() < 20 * request.len() as u64, "{stats}");
    assert!(program.end().success());
}

/// Callers of the binary get and set who send what is none, too much of it, and read nothing.
#[test]
fn hostile_callers_harm_themselves_only() {
    let (port, rpc_port) = (free_port(), free_port());
    let program =
        Program::start(&["-l", "127.0.0.1", "-p", &port, "--rpc-port", &rpc_port, "-t", "1", "-m", "8"]);
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    assert_eq!(ask(&mut client, &set("good", b"value"), "\r\n"), "STORED\r\n");
    let hostile = UdpSocket::bind("127.0.0.1:0").unwrap();
    hostile.connect(format!("127.0.0.1:{rpc_port}")).unwrap();
    let header = |operation: u8, key: u16, value: u32| {
        let mut header = [operation, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        header[2..4].copy_from_slice(&key.to_le_bytes());
        header[4..8].copy_from_slice(&value.to_le_bytes());
        header.to_vec()
    };
    let with = |header: Vec<u8>, rest: usize| [header, vec![b'x'; rest]].concat();
    let malformed = [
        Vec::new(),
        vec![1; 15],
        with(header(0, 4, 0), 4),
        with(header(255, 4, 0), 4),
        with(header(1, 0, 0), 0),
        with(header(1, 251, 0), 251),
        with(header(1, 65_535, 0), 4),
        with(header(1, 4, 1), 4),
        with(header(2, 4, u32::MAX), 4),
        with(header(2, 4, 5), 8),
        with(header(2, 4, 60_001), 60_004),
        with(header(2, 250, 65_000), 65_200),
    ];
    for round in 0..200u32 {
        for datagram in &malformed {
            // A datagram that the socket has no room for is lost, as on a wire.
            let _ = hostile.send(datagram);
        }
        // Sets and gets of long values, whose answers nobody takes.
        let key = round.to_le_bytes();
        let _ = hostile.send(&[header(2, 4, 40_000), key.to_vec(), vec![b'v'; 40_000]].concat());
        let _ = hostile.send(&[header(1, 4, 0), key.to_vec()].concat());
        assert_eq!(ask(&mut client, b"mn\r\n", "\r\n"), "MN\r\n");
    }
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    caller.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut answer = [0; 100];
    // The hostile one's requests may fill the socket still: a caller asks again.
    let count = loop {
        let request = [&rpc::request(rpc::Operation::Get, 4, 0, 9)[..], b"xxxx"].concat();
        caller.send_to(&request, format!("127.0.0.1:{rpc_port}")).unwrap();
        if let Ok(count) = caller.recv(&mut answer) {
            break count;
        }
    };
    assert_eq!((count, answer[8]), (rpc::HEADER, 9));
    assert_eq!(answer[1], rpc::Status::NotFound as u8, "nothing of what was malformed is stored");
    let stats = ask(&mut client, b"stats\r\n", "END\r\n");
    let bytes = stats.lines().find_map(|line| line.strip_prefix("STAT bytes ")).unwrap();
    assert!(bytes.parse::<usize>().unwrap() <= 8 << 20, "{stats}");
    assert!(program.end().success());
}

/// Clients whose window is closed: they ask for much and take nothing.
#[test]
fn closed_windows_hold_up_nobody() {
    let port = free_port();
    let program = Program::start(&["-l", "127.0.0.1", "-p", &port, "-t", "1", "-m", "16"]);
    let connect = || TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let mut client = connect();
    assert_eq!(ask(&mut client, &set("big", &vec![b'b'; 1_000_000]), "\r\n"), "STORED\r\n");
    let closed: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = connect();
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).unwrap();
            stream.write_all(&b"get big big big big\r\n".repeat(200)).unwrap();
            stream
        })
        .collect();
    for number in 0..200 {
        assert_eq!(ask(&mut client, &set(&format!("k{number}"), &[b'k'; 1000]), "\r\n"), "STORED\r\n");
        assert!(ask(&mut client, format!("get k{number}\r\n").as_bytes(), "END\r\n").len() > 1000);
    }
    drop(closed);
    // When they are gone, so is what was kept for them.
    while !ask(&mut client, b"stats\r\n", "END\r\n").contains("STAT curr_connections 1\r\n") {}
    assert!(program.end().success());
}

#[test]
fn what_cannot_be_served_ends_with_2() {
    for (words, why) in [
        ("-t 0", "between 1 and 1024 threads"),
        ("-p many", "--port"),
        ("-s /nonexistent/socket", "-s /nonexistent/socket: cannot listen"),
        ("--ccnic /nonexistent/nic.sock --address 10.9.0.1/24", "no NIC answers at /nonexistent/nic.sock"),
        ("-B binary", "leave -B out"),
        ("-u nobody-has-this-name", "there is no such user"),
        ("-p 0 --snapshot /nonexistent/snapshot", "--snapshot: /nonexistent/snapshot: check the path"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_ccnic-kv")).args(words.split(' ')).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{words}: {output:?}");
        assert!(said.matches("os error").count() <= 1, "{said}");
    }
}
