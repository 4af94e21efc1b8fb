//! The seccomp allowlist of a decode worker. Two calls that the C library tries fail; any other call ends the process.
//!
//! Mapping memory is allowed, but not as code; so are new anonymous files, but no opened ones; threads (libde265 starts
//! one for each picture), but no processes; use of the socket, but no new sockets.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;

/// Calls that are allowed with any arguments: memory, locks, clocks, the socket and the end of the process.
const ALLOWED: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    // Used when a thread starts or ends, and by `abort`: signals to this process only.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
];

/// Calls that fail with ENOSYS; the C library continues without them. `clone3` has its flags in memory, which a filter
/// cannot read, and the C library falls back to `clone`. It opens files only for hints (the number of processors).
const UNKNOWN: &[i64] = &[libc::SYS_clone3, libc::SYS_openat];

/// Confines the calling thread and the threads that it starts. Fails when the system has no seccomp.
pub(super) fn apply() -> Result<(), seccompiler::Error> {
    // The allowlist comes last: it forbids further filters.
    apply_filter(&unknown()?)?;
    apply_filter(&allowlist()?)
}

fn unknown() -> Result<BpfProgram, seccompiler::Error> {
    let rules = UNKNOWN.iter().map(|&call| (call, Vec::new())).collect();
    compiled(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

fn allowlist() -> Result<BpfProgram, seccompiler::Error> {
    // The calls that the first filter fails must pass here: the stricter action of two filters applies.
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(UNKNOWN).map(|&call| (call, Vec::new())).collect();
    let no_code = || only(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0);
    rules.insert(libc::SYS_mmap, vec![no_code()?]);
    rules.insert(libc::SYS_mprotect, vec![no_code()?]);
    // No huge pages: they are a separate supply.
    rules.insert(libc::SYS_memfd_create, vec![only(1, SeccompCmpOp::MaskedEq(u64::from(libc::MFD_HUGETLB)), 0)?]);
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, vec![only(0, SeccompCmpOp::MaskedEq(thread), thread)?]);
    // Panic messages; standard output and error are /dev/null.
    let streams =
        || -> Result<_, seccompiler::Error> { Ok(vec![only(0, SeccompCmpOp::Eq, 1)?, only(0, SeccompCmpOp::Eq, 2)?]) };
    rules.insert(libc::SYS_write, streams()?);
    rules.insert(libc::SYS_writev, streams()?);
    // Names of memory and of threads.
    let names = [libc::PR_SET_NAME as u64, libc::PR_SET_VMA as u64];
    let names = names.map(|name| only(0, SeccompCmpOp::Eq, name));
    rules.insert(libc::SYS_prctl, names.into_iter().collect::<Result<_, _>>()?);
    // SIGABRT alone, for `abort`.
    rules.insert(libc::SYS_tgkill, vec![only(2, SeccompCmpOp::Eq, libc::SIGABRT as u64)?]);
    compiled(rules, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// A rule on one argument.
fn only(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::Error> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value);
    Ok(condition.and_then(|condition| SeccompRule::new(vec![condition]))?)
}

fn compiled(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, seccompiler::Error> {
    let architecture = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, otherwise, matched, architecture)?.try_into()?)
}
