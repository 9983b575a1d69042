//! The process of an attack.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use ccnic_hostile::{Attack, Report};

/// How long an attack may take until it has done something.
const PATIENCE: Duration = Duration::from_secs(20);

/// An attack under way. Dropping it kills it.
#[derive(Debug)]
pub struct Attacker {
    child: Child,
    said: tempfile::NamedTempFile,
}

impl Attacker {
    /// Starts this program again, as the attack, on some CPUs.
    pub fn start(attack: &Attack, socket: &Path, cpus: &[usize], seed: u64) -> anyhow::Result<Attacker> {
        let said = tempfile::NamedTempFile::new().context("could not make a file for an attack's output")?;
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let mut command = Command::new("/proc/self/exe");
        command.args(["bench", "hostile", "--attack", attack.name, "--seed", &seed.to_string()]);
        command.args(["--cpus", &cpus.join(","), "--socket"]).arg(socket);
        command.stdin(Stdio::null()).stdout(said.reopen().context("could not open an attack's output")?);
        let child = command.spawn().context("could not start an attack")?;
        Ok(Attacker { child, said })
    }

    /// Waits until it has done something, or was refused something.
    ///
    /// # Errors
    /// When it has ended: its message is on standard error.
    pub fn wait_until_it_has_begun(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE && !self.report().has_begun() {
            if let Some(status) = self.child.try_wait().context("could not watch an attack")? {
                anyhow::bail!("the attack ended at once ({status})");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// How far it has got.
    pub fn report(&self) -> Report {
        let mut text = String::new();
        let read = self.said.reopen().and_then(|mut file| file.read_to_string(&mut text));
        read.ok().and_then(|_| Report::last(&text)).unwrap_or_default()
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended already
        let _ = self.child.wait();
    }
}
