//! Where the daemon's threads run, and what is in the way of those that poll.
//!
//! A polling thread that loses its CPU for a while is a NIC that stands still for all programs. `docs/placement.md` says what an operator
//! can do; [`warnings`] says at the start what has not been done.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ccnic_control::unified_groups;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process may use, in ascending order.
///
/// # Errors
/// When the kernel does not say.
pub fn allowed_cpus() -> std::io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}

/// Keeps this thread, and all threads that it starts from now on, away from the CPUs that poll, where any others are left. Polling threads
/// move to their CPU by themselves.
pub fn leave_polling_cpus(allowed: &[usize], cores: &[usize]) {
    let others: Vec<usize> = allowed.iter().copied().filter(|cpu| !cores.contains(cpu)).collect();
    if others.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    others.iter().for_each(|cpu| set.set(*cpu));
    if let Err(e) = sched_setaffinity(None, &set) {
        tracing::warn!(
            "the control thread may disturb the polling CPUs: it could not be moved to {others:?}: {e}"
        );
    }
}

/// The files by which the kernel tells of CPUs and of this process.
#[derive(Debug)]
pub struct Kernel {
    root: PathBuf,
}

impl Kernel {
    /// Those of this machine.
    pub fn this() -> Kernel {
        Kernel { root: "/".into() }
    }

    /// A line of a file; empty when there is no such file.
    fn line(&self, path: impl AsRef<Path>) -> String {
        let text = std::fs::read_to_string(self.root.join(path)).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim().to_owned()
    }

    /// CPUs that the scheduler leaves alone: by `isolcpus=`, by `nohz_full=`, or by a cpuset partition that this process is in.
    fn isolated(&self) -> BTreeSet<usize> {
        let mut cpus = cpu_list(&self.line("sys/devices/system/cpu/isolated"));
        cpus.append(&mut cpu_list(&self.line("sys/devices/system/cpu/nohz_full")));
        for cgroup in self.cgroups() {
            if matches!(self.line(cgroup.join("cpuset.cpus.partition")).as_str(), "root" | "isolated") {
                cpus.append(&mut cpu_list(&self.line(cgroup.join("cpuset.cpus.effective"))));
            }
        }
        cpus
    }

    /// The CPUs of the same physical core.
    fn siblings(&self, cpu: usize) -> BTreeSet<usize> {
        let list = self.line(format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        cpu_list(&list).into_iter().filter(|sibling| *sibling != cpu).collect()
    }

    /// The NUMA node of a CPU, where the kernel tells of nodes.
    fn node(&self, cpu: usize) -> Option<String> {
        let entries = std::fs::read_dir(self.root.join(format!("sys/devices/system/cpu/cpu{cpu}"))).ok()?;
        let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.find(|name| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok()))
    }

    /// The control groups that this process is in, the innermost first. Version 2 only.
    fn cgroups(&self) -> Vec<PathBuf> {
        unified_groups(&self.root)
    }

    /// The smallest number of CPUs whose time a control group of this process grants it, and that group.
    fn quota(&self) -> Option<(f64, PathBuf)> {
        let quota = |cgroup: PathBuf| {
            let line = self.line(cgroup.join("cpu.max"));
            let (quota, period) = line.split_once(' ')?;
            let cpus = quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|p| *p > 0.0)?;
            Some((cpus, cgroup))
        };
        self.cgroups().into_iter().filter_map(quota).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// A CPU that programs may run on, for a measurement between it and the polling CPU `nic`: one that does not poll (another that polls
/// where all do), of the same NUMA node, and of another physical core, as far as there are such. `None` on a machine with one CPU.
pub fn program_cpu(kernel: &Kernel, allowed: &[usize], cores: &[usize], nic: usize) -> Option<usize> {
    let siblings = kernel.siblings(nic);
    let far = |cpu: usize| kernel.node(cpu) != kernel.node(nic);
    let others = allowed.iter().copied().filter(|cpu| *cpu != nic);
    others.min_by_key(|cpu| (cores.contains(cpu), far(*cpu), siblings.contains(cpu), *cpu))
}

/// CPUs of a list such as `0-3,8`.
fn cpu_list(text: &str) -> BTreeSet<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(first..=last.min(CpuSet::MAX_CPU))
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// What will take time from the polling CPUs `cores`, a line each, with what to do about it.
pub fn warnings(kernel: &Kernel, cores: &[usize]) -> Vec<String> {
    let isolated = kernel.isolated();
    let list = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let mut warnings = Vec::new();
    let shared: Vec<usize> = cores.iter().copied().filter(|cpu| !isolated.contains(cpu)).collect();
    if !shared.is_empty() {
        let cpus = list(&shared);
        warnings.push(format!(
            "polling CPU {cpus} is not isolated: any process may run there and stop the NIC for milliseconds; boot with isolcpus={cpus} \
             nohz_full={cpus}, or run ccnicd in a cpuset partition of its own (docs/placement.md)"
        ));
    }
    for core in cores {
        let used = kernel.siblings(*core);
        let used: Vec<usize> =
            used.into_iter().filter(|cpu| !cores.contains(cpu) && !isolated.contains(cpu)).collect();
        if !used.is_empty() {
            let cpus = list(&used);
            warnings.push(format!(
                "polling CPU {core} shares its physical core with CPU {cpus}, where programs may run: they halve its speed; isolate CPU \
                 {cpus} as well, or take it offline (docs/placement.md)"
            ));
        }
    }
    if let Some((cpus, cgroup)) = kernel.quota()
        && cpus < (cores.len() + 1) as f64
    {
        warnings.push(format!(
            "the CPU quota of {} is {cpus} CPUs, and {} polling threads use theirs all the time: the kernel will stop the NIC for part of \
             each period; raise cpu.max to {} CPUs or more, or remove it (docs/placement.md)",
            cgroup.display(),
            cores.len(),
            cores.len() + 1
        ));
    }
    warnings.extend(moved_pages(kernel));
    warnings
}

/// Settings by which the kernel moves pages of regions and of this process, locked or not: a polling thread that needs such a page sleeps
/// until the thread that moves it, a program's perhaps, has had its CPU.
fn moved_pages(kernel: &Kernel) -> Vec<String> {
    let nodes = cpu_list(&kernel.line("sys/devices/system/node/online")).len();
    let settings = [
        ("vm.compact_unevictable_allowed", "proc/sys/vm/compact_unevictable_allowed", true),
        ("kernel.numa_balancing", "proc/sys/kernel/numa_balancing", nodes > 1),
    ];
    let set = settings.into_iter().filter(|(_, file, applies)| {
        *applies && kernel.line(file).parse::<u32>().is_ok_and(|value| value != 0)
    });
    set.map(|(name, file, _)| {
        format!(
            "{name} is {}: a program can have the kernel move pages that the NIC needs at the moment, and stop it for as long; set \
             {name}=0 (sysctl, docs/placement.md)",
            kernel.line(file)
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose CPUs 2n and 2n + 1 share a core.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Machine {
            let machine = Machine(tempfile::tempdir().unwrap());
            for cpu in 0..8usize {
                let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
                machine.write(&path, &format!("{}-{}\n", cpu & !1, cpu | 1));
            }
            machine.write(
                "proc/self/mountinfo",
                "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
            );
            files.iter().for_each(|(path, text)| machine.write(path, text));
            machine
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn warnings(&self, cores: &[usize]) -> Vec<String> {
            warnings(&Kernel { root: self.0.path().to_owned() }, cores)
        }
    }

    const ISOLATED: &str = "sys/devices/system/cpu/isolated";

    #[test]
    fn isolated_cores_with_their_siblings_need_nothing() {
        assert_eq!(Machine::new(&[(ISOLATED, "2-5\n")]).warnings(&[2, 4]), [""; 0]);
        assert_eq!(Machine::new(&[("sys/devices/system/cpu/nohz_full", "2,3")]).warnings(&[2]), [""; 0]);
        let partition = [
            ("proc/self/cgroup", "1:name=x:/\n0::/nic.slice/ccnicd.service\n"),
            ("sys/fs/cgroup/nic.slice/cpuset.cpus.partition", "isolated\n"),
            ("sys/fs/cgroup/nic.slice/cpuset.cpus.effective", "6-7\n"),
            ("sys/fs/cgroup/nic.slice/cpu.max", "max 100000\n"),
        ];
        assert_eq!(Machine::new(&partition).warnings(&[6]), [""; 0]);
    }

    #[test]
    fn shared_cpus_and_shared_cores_are_told() {
        let nothing = Machine::new(&[]).warnings(&[2, 3]);
        assert_eq!(nothing.len(), 1, "the siblings both poll: {nothing:?}");
        assert!(nothing[0].contains("CPU 2,3 is not isolated") && nothing[0].contains("isolcpus=2,3"));
        let sibling = Machine::new(&[(ISOLATED, "2")]).warnings(&[2]);
        assert!(sibling.len() == 1 && sibling[0].contains("CPU 2 shares its physical core with CPU 3"));
    }

    #[test]
    fn settings_that_move_pages_are_told() {
        let warnings = |compaction, balancing, nodes| {
            let files = [
                (ISOLATED, "0-7"),
                ("proc/sys/vm/compact_unevictable_allowed", compaction),
                ("proc/sys/kernel/numa_balancing", balancing),
                ("sys/devices/system/node/online", nodes),
            ];
            Machine::new(&files).warnings(&[2, 4])
        };
        assert_eq!(warnings("0\n", "0\n", "0-1\n"), [""; 0]);
        let compaction = warnings("1\n", "1\n", "0\n");
        assert!(compaction.len() == 1 && compaction[0].contains("vm.compact_unevictable_allowed=0"));
        let balancing = warnings("0\n", "2\n", "0-1\n");
        assert!(balancing.len() == 1 && balancing[0].contains("kernel.numa_balancing is 2"), "{balancing:?}");
    }

    #[test]
    fn the_tightest_quota_is_told() {
        let quota = |max: &str| {
            let files = [
                (ISOLATED, "0-7"),
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/b/cpu.max", "max 100000"),
                ("sys/fs/cgroup/a/cpu.max", max),
            ];
            Machine::new(&files).warnings(&[2, 4])
        };
        assert_eq!(quota("300000 100000"), [""; 0]);
        let tight = quota("250000 100000");
        assert!(tight.len() == 1 && tight[0].contains("/sys/fs/cgroup/a is 2.5 CPUs"), "{tight:?}");
        assert_eq!(quota("nonsense"), [""; 0]);
        assert_eq!(quota("1 0"), [""; 0]);
    }

    #[test]
    fn programs_are_measured_on_a_cpu_like_those_they_run_on() {
        let nodes: Vec<(String, &str)> =
            (0..8).map(|cpu| (format!("sys/devices/system/cpu/cpu{cpu}/node{}/x", cpu / 4), "")).collect();
        let files: Vec<(&str, &str)> = nodes.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let machine = Machine::new(&files);
        let kernel = Kernel { root: machine.0.path().to_owned() };
        let chosen = |allowed: &[usize], cores: &[usize]| program_cpu(&kernel, allowed, cores, cores[0]);
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(chosen(&all, &[7]), Some(4), "its node, another core");
        assert_eq!(chosen(&all, &[2, 0, 1]), Some(3), "its node, although its sibling");
        assert_eq!(chosen(&[0, 1, 6, 7], &[6, 7]), Some(0), "another node, since all of its own poll");
        assert_eq!(chosen(&[2, 5], &[5, 2]), Some(2), "one that polls, since all do");
        assert_eq!(chosen(&[5], &[5]), None);
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_list("0-2,5").into_iter().collect::<Vec<_>>(), [0, 1, 2, 5]);
        assert!(cpu_list("").is_empty() && cpu_list("(null)").is_empty());
        assert!(cpu_list("0-99999999999").len() <= CpuSet::MAX_CPU + 1, "bounded");
    }
}
