//! The filter of system calls: what no command of an agent needs and what has opened too many doors before. The kernel
//! keeps it for everything that is started, and with it nobody gains privileges by starting something.

#[cfg(not(target_os = "linux"))]
pub(super) fn apply(_: bool) -> Result<(), String> {
    Err("there is no filter of system calls on this system".into())
}

#[cfg(target_os = "linux")]
pub(super) fn apply(network: bool) -> Result<(), String> {
    linux::apply(network)
}

#[cfg(target_os = "linux")]
mod linux {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    };
    use std::collections::BTreeMap;

    /// Refused whatever they are asked for.
    const REFUSED: &[i64] = &[
        // Other processes: reading and steering them.
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        // Would do on its own what is filtered here.
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        // Keys of the user.
        libc::SYS_add_key,
        libc::SYS_keyctl,
        libc::SYS_request_key,
        // The file system as others have laid it out.
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
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_quotactl,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_fanotify_init,
        // New namespaces, in which one is mighty.
        libc::SYS_unshare,
        libc::SYS_setns,
        // The machine.
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_kexec_load,
        libc::SYS_kexec_file_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_reboot,
        libc::SYS_acct,
        libc::SYS_syslog,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_vhangup,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_iopl,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_ioperm,
    ];

    /// Flags of `clone` that make a namespace.
    const NAMESPACES: [i32; 7] = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];

    /// Another way to call the same on this processor, where the kernel has it: the number with this bit, and a few that
    /// are numbered anew (ptrace, kexec_load, process_vm_readv, process_vm_writev).
    #[cfg(target_arch = "x86_64")]
    const X32: i64 = 0x4000_0000;
    #[cfg(target_arch = "x86_64")]
    const ONLY_X32: [i64; 4] = [521, 528, 539, 540];

    type Rules = BTreeMap<i64, Vec<SeccompRule>>;

    /// Not yet known to the library.
    const SYS_FCHMODAT2: i64 = 452;

    /// Bits that make a file run as its owner or group.
    const PRIVILEGED: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];

    /// Calls that set a file's mode, and which argument is the mode.
    const MODES: &[(i64, u8)] = &[
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (SYS_FCHMODAT2, 2),
        (libc::SYS_mknodat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
    ];

    /// Calls that open a file, and which argument the flags are; the mode follows them, and counts when one is made.
    const OPENS: &[(i64, u8)] = &[
        (libc::SYS_openat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1),
    ];

    /// No command leaves a file behind that runs as somebody: whoever else can reach it would be that user.
    fn privileged_files(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
        let has = |argument: u8, bit: u64| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bit), bit)
        };
        for (call, mode) in MODES {
            let set = PRIVILEGED.iter().map(|bit| SeccompRule::new(vec![has(*mode, u64::from(*bit))?]));
            rules.insert(*call, set.collect::<Result<_, _>>()?);
        }
        let makes = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(|flag| u64::from(flag.cast_unsigned()));
        for (call, flags) in OPENS {
            let pairs = makes.iter().flat_map(|flag| PRIVILEGED.iter().map(move |bit| (*flag, u64::from(*bit))));
            let set = pairs.map(|(flag, bit)| SeccompRule::new(vec![has(*flags, flag)?, has(flags + 1, bit)?]));
            rules.insert(*call, set.collect::<Result<_, _>>()?);
        }
        Ok(())
    }

    pub(super) fn apply(network: bool) -> Result<(), String> {
        // What they are asked for is behind a pointer, where a filter cannot look: programs then use `clone` and `openat`.
        let hidden = Rules::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_openat2, Vec::new())]);
        install(hidden, libc::ENOSYS)?;
        install(rules(network).map_err(|error| error.to_string())?, libc::EPERM)
    }

    fn rules(network: bool) -> Result<Rules, seccompiler::BackendError> {
        let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
        let flag = |flag: i32| {
            let bit = u64::from(flag.cast_unsigned());
            one(0, SeccompCmpOp::MaskedEq(bit), bit)
        };
        rules.insert(libc::SYS_clone, NAMESPACES.into_iter().map(flag).collect::<Result<_, _>>()?);
        // Typing into the terminal of whoever started this.
        rules.insert(libc::SYS_ioctl, vec![one(1, SeccompCmpOp::Eq, libc::TIOCSTI)?]);
        privileged_files(&mut rules)?;
        if !network {
            // A socket with a path leads to a service of the user wherever that lies, or to a command that was started
            // before and may write. Pairs that are connected from the beginning lead nowhere; those that take an address
            // with each message do, and the kernel makes such ones of raw ones as well.
            let foreign = one(0, SeccompCmpOp::Ne, u64::from(libc::AF_UNIX.cast_unsigned()))?;
            let kinds = || {
                let kind = |kind: i32| one(1, SeccompCmpOp::MaskedEq(0xf), u64::from(kind.cast_unsigned()));
                [libc::SOCK_DGRAM, libc::SOCK_RAW].into_iter().map(kind).collect::<Result<Vec<_>, _>>()
            };
            rules.insert(libc::SYS_socket, [vec![foreign], kinds()?].concat());
            rules.insert(libc::SYS_socketpair, kinds()?);
            rules.insert(libc::SYS_connect, Vec::new());
        }
        #[cfg(target_arch = "x86_64")]
        {
            let again: Vec<(i64, Vec<SeccompRule>)> =
                rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
            rules.extend(again);
            rules.extend(ONLY_X32.map(|call| (call | X32, Vec::new())));
        }
        Ok(rules)
    }

    fn one(argument: u8, compare: SeccompCmpOp, with: u64) -> Result<SeccompRule, seccompiler::BackendError> {
        SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, with)?])
    }

    fn install(rules: Rules, errno: i32) -> Result<(), String> {
        let refuse = SeccompAction::Errno(errno.cast_unsigned());
        let arch = std::env::consts::ARCH.try_into().map_err(|error| format!("no filter for this machine: {error}"))?;
        let filter =
            SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(|error| error.to_string())?;
        let program: BpfProgram = filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())
    }
}
