//! What holds a process whatever its root is: user, rights, limits, landlock, seccomp.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::fs::{Gid, Uid};
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal, prlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::{AtStep, JailError, JailLevel, JailSetup};
use crate::api_listener::API_PORT;

const FILES_MAX: u64 = 256;
/// Of one file: as much as the temporary folder holds, and of a build, the folder of its code.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
const BUILT_FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// The newest rules that are wanted; an older kernel takes those that it knows.
const LANDLOCK: ABI = ABI::V6;

/// Gives up root for good.
pub fn become_user(user: u32) -> Result<(), JailError> {
    let step = "becoming the jail's own user";
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[]).at(step)?;
    set_thread_res_gid(gid, gid, gid).at(step)?;
    set_thread_res_uid(uid, uid, uid).at(step)
}

/// Puts up all of them, for this process and those that it starts. Its user may have so many
/// processes and threads.
pub fn put_up(setup: &JailSetup, processes_max: u64) -> Result<(), JailError> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).at("dropping capabilities")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .at("hiding its memory")?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .at("ending with the launcher")?;
    rustix::thread::set_no_new_privs(true).at("refusing new rights")?;
    let file_bytes = if setup.is_writable {
        BUILT_FILE_BYTES_MAX
    } else {
        FILE_BYTES_MAX
    };
    for (resource, limit) in [
        (Resource::Nproc, processes_max),
        (Resource::Nofile, FILES_MAX),
        (Resource::Fsize, file_bytes),
        (Resource::Core, 0),
    ] {
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(resource, limit).at("setting its limits")?;
    }
    restrict_files(setup)?;
    restrict_calls(setup)
}

/// Limits the memory of the program, once it is there: the launcher itself, whose allocator
/// reserves more than a function may have, could not start it under this limit. At level `full`
/// alone: at `reduced` no process sets limits of others.
pub fn limit_memory(program: Pid, memory_mib: u32) -> Result<(), JailError> {
    let memory = u64::from(memory_mib) * 1024 * 1024;
    let limit = Rlimit {
        current: Some(memory),
        maximum: Some(memory),
    };
    let set = prlimit(Some(program), Resource::Data, limit);
    set.map(|_| ()).at("limiting the program's memory")
}

/// What may be read, and run.
fn readable(setup: &JailSetup) -> Vec<&Path> {
    let system: &'static [&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
    let named: &'static [&str] = match setup.level {
        JailLevel::Full => &["/etc", "/proc", "/dev", JailSetup::CODE, JailSetup::ADAPTER],
        // The host's own hold more than a function needs.
        JailLevel::Reduced => &[
            "/etc/ssl",
            "/etc/pki",
            "/etc/ca-certificates",
            "/etc/ld.so.cache",
            "/etc/localtime",
            "/dev/null",
            "/dev/zero",
            "/dev/random",
            "/dev/urandom",
        ],
    };
    let mut readable: Vec<&Path> = system.iter().chain(named).map(Path::new).collect();
    if setup.level == JailLevel::Reduced {
        readable.extend([setup.code.as_path(), setup.adapter.as_path()]);
    }
    readable.extend(setup.folders.iter().map(PathBuf::as_path));
    readable.push(&setup.program);
    readable
}

/// Landlock: what may be read and written, no TCP but to the API, no signals and abstract sockets
/// of others.
fn restrict_files(setup: &JailSetup) -> Result<(), JailError> {
    let step = "restricting files by landlock";
    let readable = readable(setup);
    let devices = ["/dev/null", "/dev/zero", "/dev/full"];
    let write = AccessFs::ReadFile | AccessFs::WriteFile;
    let written: &[&str] = match setup.level {
        JailLevel::Full if setup.cache.is_some() => &["/tmp", JailSetup::CODE, JailSetup::CACHE],
        JailLevel::Full if setup.is_writable => &["/tmp", JailSetup::CODE],
        JailLevel::Full => &["/tmp"],
        // The host's folder is that of others as well.
        JailLevel::Reduced => &[],
    };
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .and_then(|rules| {
            rules.add_rules(path_beneath_rules(readable, AccessFs::from_read(LANDLOCK)))
        })
        .and_then(|rules| rules.add_rules(path_beneath_rules(devices, write)))
        .and_then(|rules| {
            rules.add_rules(path_beneath_rules(written, AccessFs::from_all(LANDLOCK)))
        })
        .and_then(|rules| {
            // What reaches outside has others connect its sockets.
            if !setup.has_api || setup.reaches_outside {
                return Ok(rules);
            }
            rules.add_rule(NetPort::new(API_PORT, AccessNet::ConnectTcp))
        })
        .and_then(landlock::RulesetCreated::restrict_self)
        .at(step)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(JailError::new(step, "the kernel has no landlock"));
    }
    Ok(())
}

/// Refused with EPERM, whatever their arguments.
const REFUSED: [i64; 63] = [
    // Other processes' memory.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // What reaches deep into the kernel.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_vmsplice,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Clock, modules, the machine.
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_settimeofday,
    libc::SYS_adjtimex,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
    // Memory that no limit counts.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_personality,
];
/// Refused in `reduced`, where files and processes of the server may be of the same user: landlock
/// knows nothing of these calls, or not in each version.
const REFUSED_BESIDE_SERVER: [i64; 23] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_truncate,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    // Queues and semaphores of others, by their numbers.
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
];
/// The same on all architectures (Linux, `scripts/syscall.tbl`).
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_FILE_SETATTR: i64 = 469;
/// Likewise, where the kernel has them beside newer ones.
#[cfg(target_arch = "x86_64")]
const REFUSED_OLD_BESIDE_SERVER: [i64; 6] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
/// `clone` with one of these makes a namespace.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// In place of an error: the call is skipped, and answered with 0.
const DONE: i32 = 0;
/// What a number of 32 bits has that is below 0.
const NEGATIVE: u64 = 1 << 31;
/// Of x86-64: the same calls under numbers of their own.
const X32: i64 = 0x4000_0000;

/// Seccomp: three filters, because a filter has one answer.
fn restrict_calls(setup: &JailSetup) -> Result<(), JailError> {
    let step = "restricting system calls by seccomp";
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    rules.extend(REFUSED.iter().map(|call| (*call, Vec::new())));
    #[cfg(target_arch = "x86_64")]
    rules.extend([libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt].map(|c| (c, Vec::new())));
    let flags = NAMESPACES
        .iter()
        .map(|flag| all(&[masked(0, *flag as u64, *flag as u64)]));
    rules.insert(libc::SYS_clone, flags.collect::<Result<_, _>>().at(step)?);
    rules.insert(libc::SYS_socket, vec![sockets(setup.level).at(step)?]);
    // Done in name alone: a session of its own would have the weight of the whole server, and
    // programs that ask for one do not go on without it.
    let mut skipped = BTreeMap::from([(libc::SYS_setsid, Vec::new())]);
    if setup.level == JailLevel::Reduced {
        // What a process leaves behind is killed with its group, at once and whatever it does: so
        // none has a group of its own. A signal to a group would end the function.
        skipped.insert(libc::SYS_setpgid, Vec::new());
        let groups = [
            all(&[(0, SeccompCmpOp::Eq, 0)]).at(step)?,
            all(&[masked(0, NEGATIVE, NEGATIVE)]).at(step)?,
        ];
        rules.insert(libc::SYS_kill, groups.into());
        rules.extend(beside_server().at(step)?);
    }
    if setup.level == JailLevel::Reduced || setup.reaches_outside {
        rules.insert(libc::SYS_listen, Vec::new());
    }
    if setup.reaches_outside {
        // Such a process has sockets of the host's network. Landlock sees neither a fast open nor
        // a port that listening takes by itself.
        let fast = libc::MSG_FASTOPEN as u64;
        for (call, at) in [
            (libc::SYS_sendto, 3),
            (libc::SYS_sendmsg, 2),
            (libc::SYS_sendmmsg, 3),
        ] {
            rules.insert(call, vec![all(&[masked(at, fast, fast)]).at(step)?]);
        }
        // What the host's network has: its devices and their addresses (netdevice(7)).
        let devices = all(&[masked(1, 0xffff_ff00, 0x8900)]).at(step)?;
        rules.insert(libc::SYS_ioctl, vec![devices]);
    }
    apply(rules, libc::EPERM).at(step)?;
    apply(skipped, DONE).at(step)?;
    // Its flags stand in memory, out of a filter's sight; libraries then use `clone`.
    apply(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        libc::ENOSYS,
    )
    .at(step)
}

/// What keeps the files and processes of the server as they are, where they are of its user.
fn beside_server() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let is_not = |at: u8, value: u64| all(&[(at, SeccompCmpOp::Ne, value)]);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    rules.extend(REFUSED_BESIDE_SERVER.map(|call| (call, Vec::new())));
    #[cfg(target_arch = "x86_64")]
    rules.extend(REFUSED_OLD_BESIDE_SERVER.map(|call| (call, Vec::new())));
    // Limits and priorities are one's own alone, which is what 0 stands for.
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        rules.insert(call, vec![is_not(0, 0)?]);
    }
    for (call, of_a_process) in [
        (libc::SYS_setpriority, PRIO_PROCESS),
        (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS),
    ] {
        rules.insert(call, vec![is_not(0, of_a_process)?, is_not(1, 0)?]);
    }
    Ok(rules)
}

/// Linux, `include/uapi/linux/resource.h` and `ioprio.h`.
const PRIO_PROCESS: u64 = 0;
const IOPRIO_WHO_PROCESS: u64 = 1;

/// Refuses all but Unix sockets, and those of the internet and netlink in a network of its own: an
/// older landlock does not hold TCP.
fn sockets(level: JailLevel) -> Result<SeccompRule, seccompiler::BackendError> {
    let mut kinds = vec![libc::AF_UNIX];
    if level == JailLevel::Full {
        kinds.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    let others: Vec<_> = kinds
        .iter()
        .map(|kind| (0, SeccompCmpOp::Ne, *kind as u64))
        .collect();
    all(&others)
}

/// Position of an argument, comparison, value.
type Comparison = (u8, SeccompCmpOp, u64);

fn masked(at: u8, mask: u64, value: u64) -> Comparison {
    (at, SeccompCmpOp::MaskedEq(mask), value)
}

fn all(comparisons: &[Comparison]) -> Result<SeccompRule, seccompiler::BackendError> {
    // The kernel takes these arguments as 32 bits; what stands above them must not change a rule.
    let conditions = comparisons.iter().map(|(at, operator, value)| {
        SeccompCondition::new(*at, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<(), seccompiler::Error> {
    let mut all = rules;
    if cfg!(target_arch = "x86_64") {
        let doubled: Vec<_> = all
            .iter()
            .map(|(call, rules)| (call | X32, rules.clone()))
            .collect();
        all.extend(doubled);
    }
    let arch = std::env::consts::ARCH.try_into()?;
    let refuse = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(all, SeccompAction::Allow, refuse, arch)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
}
