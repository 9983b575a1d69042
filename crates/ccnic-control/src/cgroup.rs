//! The control groups of this process (cgroups(7)), versions 1 and 2, and the memory that they leave to it.

use std::fs::read_to_string;
use std::path::{Component, Path, PathBuf};

/// A mounted hierarchy: of version 2, or the one of version 1 that limits memory.
struct Hierarchy {
    /// The group that is mounted: `/`, unless a container sees only its part of the hierarchy.
    root: PathBuf,
    mounted: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The file that holds a group's limit.
    fn file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }
}

/// The least memory limit, in bytes, of this process's groups and all groups around them; `None` when there is none.
pub(crate) fn memory_limit() -> Option<u64> {
    limit_below(Path::new("/"))
}

/// As [`memory_limit`], with `/` elsewhere.
fn limit_below(root: &Path) -> Option<u64> {
    let limit = |(version, group): (Version, PathBuf)| {
        let text = read_to_string(group.join(version.file())).ok()?;
        text.trim().parse::<u64>().ok() // "max" is none
    };
    groups(root).into_iter().filter_map(limit).min()
}

/// The directories of this process's control groups of version 2, and of all groups around them as far as they are mounted, the innermost
/// first. `root` is `/`, or where a test has its files.
pub fn unified_groups(root: &Path) -> Vec<PathBuf> {
    let unified = groups(root).into_iter().filter(|(version, _)| *version == Version::Two);
    unified.map(|(_, group)| group).collect()
}

/// The same for every hierarchy, with its version.
fn groups(root: &Path) -> Vec<(Version, PathBuf)> {
    let of_process = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    let mut groups = Vec::new();
    for hierarchy in mounts.lines().filter_map(parse_mount) {
        if let Some(group) = of_process.lines().find_map(|line| parse_group(line, hierarchy.version)) {
            groups
                .extend(directories(root, &hierarchy, group).map(|directory| (hierarchy.version, directory)));
        }
    }
    groups
}

/// A line of /proc/self/mountinfo: `36 35 98:0 /root /mounted rw,noatime shared:1 - cgroup2 cgroup2 rw`.
fn parse_mount(line: &str) -> Option<Hierarchy> {
    let (mount, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let version = match (system.next()?, system.nth(1)) {
        ("cgroup2", _) => Version::Two,
        ("cgroup", Some(options)) if options.split(',').any(|option| option == "memory") => Version::One,
        _ => return None,
    };
    let mut mount = mount.split(' ').skip(3).map(PathBuf::from);
    Some(Hierarchy { root: mount.next()?, mounted: mount.next()?, version })
}

/// The group in a line of /proc/self/cgroup: `0::/group` of version 2, `4:memory:/group` of version 1.
fn parse_group(line: &str, version: Version) -> Option<&Path> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let matches = match version {
        Version::One => controllers.split(',').any(|controller| controller == "memory"),
        Version::Two => controllers.is_empty(),
    };
    matches.then_some(Path::new(group))
}

/// The directories of a group and those around it, as far as they are mounted.
fn directories<'a>(
    root: &Path,
    hierarchy: &Hierarchy,
    group: &'a Path,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    // A group outside the part that is mounted (`/..`, say): what is mounted is all there is to see.
    let inside = group.strip_prefix(&hierarchy.root).unwrap_or(Path::new(""));
    let inside =
        if inside.components().all(|c| matches!(c, Component::Normal(_))) { inside } else { Path::new("") };
    let mounted = root.join(hierarchy.mounted.strip_prefix("/").unwrap_or(&hierarchy.mounted));
    inside.ancestors().map(move |group| mounted.join(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system with these files.
    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        limit_below(root.path())
    }

    const MOUNT_2: (&str, &str) = (
        "proc/self/mountinfo",
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    );

    #[test]
    fn the_least_limit_of_all_groups_around_counts() {
        let group = ("proc/self/cgroup", "0::/system.slice/ccnicd.service\n");
        let own = "sys/fs/cgroup/system.slice/ccnicd.service/memory.max";
        let slice = "sys/fs/cgroup/system.slice/memory.max";
        assert_eq!(limit(&[MOUNT_2, group, (own, "4096000\n"), (slice, "max\n")]), Some(4_096_000));
        assert_eq!(limit(&[MOUNT_2, group, (own, "max\n"), (slice, "8192000\n")]), Some(8_192_000));
        assert_eq!(limit(&[MOUNT_2, group, (own, "9000000\n"), (slice, "8192000\n")]), Some(8_192_000));
        let beside = ("sys/fs/cgroup/user.slice/memory.max", "1\n");
        assert_eq!(limit(&[MOUNT_2, group, (own, "max\n"), (slice, "max\n"), beside]), None);
    }

    #[test]
    fn a_container_sees_the_limit_of_the_group_that_is_its_root() {
        let max = ("sys/fs/cgroup/memory.max", "1000\n");
        assert_eq!(limit(&[MOUNT_2, ("proc/self/cgroup", "0::/\n"), max]), Some(1000));
        assert_eq!(limit(&[MOUNT_2, ("proc/self/cgroup", "0::/../other\n"), max]), Some(1000));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_memory() {
        let mounts = (
            "proc/self/mountinfo",
            "31 22 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 22 0:28 /docker/1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
        );
        let group =
            ("proc/self/cgroup", "5:cpu,cpuacct:/docker/1f\n4:memory:/docker/1f/inner\n1:name=systemd:/x\n");
        let outer = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n");
        let inner = ("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(&[mounts, group, outer, inner]), Some(2000), "the largest number means none");
    }

    #[test]
    fn both_versions_may_be_mounted() {
        let mounts = (
            "proc/self/mountinfo",
            "32 22 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
             33 22 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        let group = ("proc/self/cgroup", "4:memory:/a\n0::/b\n");
        let one = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "300\n");
        let two = ("sys/fs/cgroup/unified/b/memory.max", "400\n");
        assert_eq!(limit(&[mounts, group, one, two]), Some(300));
        assert_eq!(limit(&[mounts, group, two]), Some(400));
    }

    #[test]
    fn without_groups_there_is_no_limit() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[MOUNT_2, ("proc/self/cgroup", "")]), None);
        assert_eq!(limit(&[("proc/self/mountinfo", "nonsense\n"), ("proc/self/cgroup", "0::/a\n")]), None);
    }
}
