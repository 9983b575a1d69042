//! A server over kernel sockets, and what its clients say.

#![allow(dead_code, reason = "no test uses everything")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

pub struct Program {
    pub process: Child,
    pub folder: tempfile::TempDir,
}

impl Program {
    pub fn start(options: &[&str]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic-kv"));
        let options = options.iter().map(|option| option.replace("FOLDER", folder.path().to_str().unwrap()));
        let process = command.args(["-v"]).args(options).stderr(Stdio::piped()).spawn().unwrap();
        let mut program = Program { process, folder };
        let mut lines = BufReader::new(program.process.stderr.take().unwrap()).lines();
        let ready = lines.any(|line| line.unwrap() == "ccnic-kv: ready");
        assert!(ready, "it ended: {:?}", program.process.wait());
        std::thread::spawn(move || lines.for_each(drop));
        program
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        stream
    }

    pub fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub fn end(mut self) -> ExitStatus {
        self.signal("TERM");
        self.process.wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What is answered up to this end.
pub fn ask(stream: &mut (impl Read + Write), request: &[u8], end: &str) -> String {
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "closed after {}", answer.escape_ascii());
        answer.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8(answer).unwrap()
}

pub fn set(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("set {key} 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}
