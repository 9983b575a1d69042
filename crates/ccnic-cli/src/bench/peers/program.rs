//! What all drivers share: the generator's binary, the plugins, pages, CPUs, and the options of EAL that
//! follow from them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::cpus::Split;
use crate::print;

const PROGRAM: &str = "ccnic-peers";
const NET_PLUGIN: &str = "librte_net_ccnic.so";
const MEMPOOL_PLUGIN: &str = "librte_mempool_ccnic.so";
/// Free 2 MiB pages that both sides of a driver need, with the largest packets.
const HUGE_PAGES: u64 = 128;
/// Bytes of the longest packet that fits an mbuf of DPDK's default size, and an MTU of 1500.
const ORDINARY: u16 = 1518;
/// Memory of each side without them, in MiB.
const SMALL_PAGES_MIB: &str = "512";

/// How to start the generator.
#[derive(Debug)]
pub struct Setup {
    program: PathBuf,
    /// The folder of net_ccnic, or why there is none that EAL loads.
    plugins: Result<PathBuf, String>,
    /// Why 2 MiB pages are not used, if they are not.
    small_pages: Option<String>,
    pub split: Split,
}

impl Setup {
    /// Finds the generator, the plugins, free huge pages and CPUs; `program` and `plugins` as on the command
    /// line.
    pub fn new(program: Option<&Path>, plugins: Option<&Path>, small_pages: bool) -> anyhow::Result<Setup> {
        let here = std::env::current_exe().context("could not ask where this program is")?;
        let found = find_program(program, &here)?;
        let split = Split::of_machine()?;
        ensure!(split.host != split.nic, "bench peers needs two CPUs, one for each side: both poll");
        Ok(Setup {
            program: found,
            plugins: find_plugins(plugins, &here)?,
            small_pages: if small_pages { Some("--small-pages".to_owned()) } else { too_few_pages() },
            split,
        })
    }

    /// Warns of what is missing; `plugin` says that a driver needs net_ccnic.
    pub fn announce(&self, plugin: bool) {
        if let Some(why) = &self.small_pages {
            print::warn(&format!("pages of 4 KiB are used: {why}"));
        }
        if let Some(why) = self.no_plugin().filter(|_| plugin) {
            print::warn(&format!("net_ccnic is SKIPPED: {why}"));
        }
    }

    /// Why net_ccnic cannot be measured here, and what to do.
    pub fn no_plugin(&self) -> Option<&str> {
        self.plugins.as_ref().err().map(String::as_str)
    }

    /// The mempool driver whose buffers lie in the region, where it is built.
    pub fn mempool(&self) -> Option<&'static str> {
        self.plugins.as_ref().ok().filter(|folder| folder.join(MEMPOOL_PLUGIN).exists()).map(|_| "ccnic")
    }

    pub fn huge_pages(&self) -> bool {
        self.small_pages.is_none()
    }

    /// The generator on these CPUs, with EAL's options and these devices.
    pub fn command(&self, cpus: &[usize], vdevs: &[String]) -> Command {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let mut command = Command::new(&self.program);
        command.args(["-l", &cpus.join(","), "--main-lcore", cpus.first().map_or("0", String::as_str)]);
        self.add_eal(&mut command, vdevs);
        command
    }

    /// testpmd on the NIC's CPU, as a bridge between these two devices for packets of so many bytes.
    pub fn bridge(&self, vdevs: &[String], size: u16) -> Command {
        let cpu = self.split.nic();
        let mut command = Command::new("dpdk-testpmd");
        // The main lcore waits for the end of the standard input; the other one polls.
        command.args(["--lcores", &format!("0@{cpu},1@{cpu}")]);
        self.add_eal(&mut command, vdevs);
        command.args([
            "--forward-mode=io",
            "--auto-start",
            "--nb-cores=1",
            "--burst=32",
            "--rxd=1024",
            "--txd=1024",
            // Four rings full and caches; as many as testpmd makes of its own accord take all huge pages.
            "--total-num-mbufs=8192",
        ]);
        if size > ORDINARY {
            command.args(["--mbuf-size=9984", "--max-pkt-len=9618"]);
        }
        command
    }

    /// What all programs on EAL get, up to its `--`.
    fn add_eal(&self, command: &mut Command, vdevs: &[String]) {
        command.args(["--no-pci", "--no-telemetry", "--iova-mode=va", "--log-level=error"]);
        if self.huge_pages() {
            command.args(["--in-memory", "--single-file-segments"]);
        } else {
            command.args(["--no-huge", "--no-shconf", "-m", SMALL_PAGES_MIB]);
        }
        let ours = vdevs.iter().any(|vdev| vdev.starts_with("net_ccnic"));
        if let Some(folder) = self.plugins.as_ref().ok().filter(|_| ours) {
            command.arg("-d").arg(folder);
        }
        for vdev in vdevs {
            command.args(["--vdev", vdev]);
        }
        command.arg("--");
    }
}

fn find_program(asked: Option<&Path>, here: &Path) -> anyhow::Result<PathBuf> {
    if let Some(path) = asked {
        ensure!(path.is_file(), "--program names {}, where no program is", path.display());
        return Ok(path.to_owned());
    }
    let places = [here.with_file_name(PROGRAM), here.with_file_name("dpdk").join(PROGRAM)];
    match places.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => bail!(
            "there is no {PROGRAM} beside {}; build it with `make dpdk-peers` (it needs libdpdk-dev), or name it with --program",
            here.display()
        ),
    }
}

/// The folder of the plugins, or why there is none that EAL loads.
fn find_plugins(asked: Option<&Path>, here: &Path) -> anyhow::Result<Result<PathBuf, String>> {
    let has = |folder: &Path| folder.join(NET_PLUGIN).exists();
    if let Some(folder) = asked {
        ensure!(has(folder), "--plugins names {}, where no {NET_PLUGIN} is", folder.display());
        if let Some(open) = open_to_all(folder) {
            bail!("--plugins names {}: {}", folder.display(), refused(&open));
        }
        return Ok(Ok(folder.to_owned()));
    }
    let folders = [
        here.with_file_name("dpdk"),
        here.with_file_name("../dpdk/plugins"),
        here.with_file_name("../lib/ccnic/dpdk"), // of `make install`
    ];
    let built: Vec<_> = folders.iter().filter(|folder| has(folder)).collect();
    if let Some(folder) = built.iter().find(|folder| open_to_all(folder).is_none()) {
        return Ok(Ok((*folder).clone()));
    }
    Ok(Err(match built.first().and_then(|folder| Some((folder, open_to_all(folder)?))) {
        Some((folder, open)) => format!("{NET_PLUGIN} is in {}: {}", folder.display(), refused(&open)),
        None => {
            let looked: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
            format!(
                "there is no {NET_PLUGIN} in {}: make dpdk, or name its folder with --plugins",
                looked.join(", ")
            )
        }
    }))
}

fn refused(open: &Path) -> String {
    format!(
        "EAL loads no plugin below {}, where everybody may write; copy the folder to another place (/opt/ccnic, say), and name that with \
         --plugins",
        open.display()
    )
}

/// The first folder above that everybody may write to, or the folder itself: EAL takes no plugins from there.
fn open_to_all(folder: &Path) -> Option<PathBuf> {
    let open = |folder: &Path| folder.metadata().is_ok_and(|m| m.permissions().mode() & 0o002 != 0);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    folder.ancestors().find(|folder| open(folder)).map(Path::to_owned)
}

/// Why pages of 2 MiB cannot be used: too few are free.
fn too_few_pages() -> Option<String> {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = free_pages(&info);
    (free < HUGE_PAGES).then(|| {
        format!("{free} pages of 2 MiB are free; for {HUGE_PAGES}: echo {HUGE_PAGES} > /proc/sys/vm/nr_hugepages, as root")
    })
}

fn free_pages(meminfo: &str) -> u64 {
    let value = |name| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    if value("Hugepagesize:") == Some(2048) { value("HugePages_Free:").unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_two_mebibytes_count() {
        assert_eq!(
            free_pages("HugePages_Total:  512\nHugePages_Free:      77\nHugepagesize:       2048 kB\n"),
            77
        );
        assert_eq!(free_pages("HugePages_Free:      77\nHugepagesize:    1048576 kB\n"), 0);
        assert_eq!(free_pages(""), 0);
    }

    #[test]
    fn a_missing_program_names_its_remedy() {
        let why = find_program(None, Path::new("/nonexistent/ccnic")).unwrap_err().to_string();
        assert!(why.contains("make dpdk-peers") && why.contains("--program"), "{why}");
    }
}
