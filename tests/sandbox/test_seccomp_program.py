"""The filter judged by an interpreter of its own, for both architectures, whichever this machine is."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.inside import seccomp
from paddock.sandbox.inside.seccomp import NEWEST, numbers, rules
from paddock.sandbox.inside.syscalls import ARCHITECTURES
from tests.sandbox.bpf_machine import judge

PID = 4321
MACHINES = list(ARCHITECTURES)
AUDIT = {machine: row[0] for machine, row in ARCHITECTURES.items()}
NOTHING = {"fork": False, "exec": False, "network": False}
EVERYTHING = {"fork": True, "exec": True, "network": True, "locks": True, "devices": True}
EPERM, ENOTTY, ENOSYS, EOPNOTSUPP = 1, 25, 38, 95


def ruling(machine, name, *arguments, **options):
    program = seccomp.program({**NOTHING, **options}, machine=machine, own_pid=PID)
    return judge(program, audit=AUDIT[machine], number=numbers(machine)[name], arguments=arguments)


CALLS = [  # name, arguments, options, what the filter says
    ("read", (0, 0, 10), {}, "allow"),
    ("mmap", (0, 4096, 7), {}, "allow"),
    ("futex", (), {}, "allow"),
    ("exit_group", (0,), {}, "allow"),
    ("recvmsg", (3,), {}, "allow"),
    ("sendmsg", (3, 0, 0x20000000), {}, "allow"),
    ("sendmsg", (3, 0, 0x20000000), {"network": True}, EPERM),
    ("sendto", (3, 0, 0, 0x20000000), {"network": True}, EPERM),
    ("sendto", (3, 0, 0, 0x4000), {"network": True}, "allow"),
    ("clone", (0x3D0F00,), {}, "allow"),
    ("clone", (0x3D0F00 | 1 << 32,), {}, "allow"),
    ("clone", (17,), {}, EPERM),
    ("clone", (17,), {"fork": True}, "allow"),
    ("clone", (0x3D0F00,), {"fork": True}, "allow"),
    *(("clone", (17 | 1 << bit,), {"fork": True}, EPERM) for bit in (15, 17, 25, 26, 27, 28, 29, 30)),
    *(("clone", (0x3D0F00 | 1 << bit,), {}, EPERM) for bit in (15, 17, 25, 26, 27, 28, 29, 30)),
    ("clone3", (), {"fork": True}, ENOSYS),
    ("openat2", (), {}, ENOSYS),
    ("execve", (), {}, EPERM),
    ("execve", (), {"exec": True}, "allow"),
    ("execveat", (), {}, EPERM),
    ("execveat", (), {"exec": True}, "allow"),
    ("kill", (PID, 9), {}, "allow"),
    ("kill", (PID | 1 << 32, 9), {}, "allow"),
    ("kill", (1, 9), {}, EPERM),
    ("kill", (-1, 9), {}, EPERM),
    ("kill", (0, 9), {}, EPERM),
    ("kill", (1, 9), {"fork": True}, "allow"),
    ("tgkill", (PID, 77, 6), {}, "allow"),
    ("tgkill", (PID + 1, 77, 6), {}, EPERM),
    ("tkill", (PID, 6), {}, EPERM),
    ("rt_sigqueueinfo", (1, 9), {}, EPERM),
    ("pidfd_open", (1,), {}, EPERM),
    ("pidfd_send_signal", (5, 9), {}, EPERM),
    ("socket", (2, 1, 0), {}, EPERM),
    ("socket", (2, 1 | 0o2000000, 6), {"network": True}, "allow"),
    ("socket", (10, 1, 0), {"network": True}, "allow"),
    ("socket", (2, 1, 132), {"network": True}, EPERM),
    ("socket", (2, 1, 262), {"network": True}, EPERM),
    ("socket", (2, 2, 0), {"network": True}, EPERM),
    ("socket", (2, 3, 255), {"network": True}, EPERM),
    ("socket", (2, 5, 0), {"network": True}, EPERM),
    ("socket", (1, 1, 0), {"network": True}, EPERM),
    ("socket", (1, 1, 0), EVERYTHING, EPERM),
    *(("socket", (family, 1, 0), EVERYTHING, EPERM) for family in (16, 17, 38, 40, 44)),
    ("socketpair", (1, 1 | 0o2004000), {}, "allow"),
    ("socketpair", (1, 5), {}, "allow"),
    ("socketpair", (1, 2), {}, EPERM),
    ("socketpair", (2, 1), {}, EPERM),
    ("connect", (3,), {}, EPERM),
    ("connect", (3,), {"network": True}, "allow"),
    ("setsockopt", (3, 1, 7), {}, "allow"),
    ("setsockopt", (3, 6, 1), {}, EPERM),
    ("setsockopt", (3, 6, 1), {"network": True}, "allow"),
    *(("setsockopt", (3, 1, option), EVERYTHING, EPERM) for option in (26, 50, 51)),
    ("prctl", (15,), {}, "allow"),
    *(("prctl", (option,), EVERYTHING, EPERM) for option in (1, 4, 22, 24, 28, 35, 36, 47, 59, 0x59616D61)),
    ("ioctl", (0, 0x5401), {}, "allow"),
    ("ioctl", (0, 0x5412), {}, ENOTTY),
    ("ioctl", (0, 0x5412 | 1 << 32), {"devices": True}, EPERM),
    ("ioctl", (0, 0x541C), {"devices": True}, EPERM),
    ("ioctl", (0, 0xC0304627), {}, ENOTTY),
    ("ioctl", (0, 0xC0304627), {"devices": True}, "allow"),
    ("fcntl", (0, 3), {}, "allow"),
    ("fcntl", (0, 1033), {}, "allow"),
    *(("fcntl", (0, command), EVERYTHING, EPERM) for command in (8, 10, 15, 1024, 1026, 1031)),
    *(("fcntl", (0, command), {"locks": True, "fork": True}, "allow") for command in (5, 6, 7, 36, 37, 38)),
    *(("fcntl", (0, command), {"fork": True}, ENOSYS) for command in (5, 6, 7, 36, 37, 38)),
    *(("fcntl", (0, command), {}, ENOSYS) for command in (5, 36, 37, 38)),
    *(("fcntl", (0, command), {}, 0) for command in (6, 7)),  # done, it says, and nothing is
    ("flock", (), {}, ENOSYS),
    ("flock", (), {"locks": True}, "allow"),
    ("openat", (-100, 0, 0o1101), {}, "allow"),
    ("openat", (-100, 0, 0o2000000), {}, "allow"),
    ("openat", (-100, 0, 0o2001000), {}, EPERM),
    *(("openat", (-100, 0, 0o101, mode), EVERYTHING, EPERM) for mode in (0o4755, 0o2755, 0o6000)),
    ("openat", (-100, 0, 0o101, 0o1777), {}, "allow"),
    ("mknodat", (0, 0, 0o014755), EVERYTHING, EPERM),
    ("mknodat", (0, 0, 0o012755), EVERYTHING, EPERM),
    ("memfd_create", (), {}, "allow"),
    ("memfd_create", (), {"memory_files": False}, ENOSYS),
    ("truncate", (), {}, "allow"),
    ("truncate", (), {"truncate": False}, EPERM),
    ("mknodat", (0, 0, 0o010644), {}, "allow"),
    ("mknodat", (0, 0, 0o020644), EVERYTHING, EPERM),
    ("mknodat", (0, 0, 0o060644), EVERYTHING, EPERM),
    ("fsetxattr", (), EVERYTHING, EOPNOTSUPP),
    ("prlimit64", (0, 7), {}, "allow"),
    ("prlimit64", (1, 7), EVERYTHING, EPERM),
    ("sched_setaffinity", (1,), EVERYTHING, EPERM),
    ("setpriority", (0, 0, 5), {}, "allow"),
    ("setpriority", (2, 0, 5), EVERYTHING, EPERM),
    ("personality", (0xFFFFFFFF,), {}, "allow"),
    ("personality", (0x40000,), EVERYTHING, EPERM),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "arguments", "options", "answer"), CALLS)
def test_a_call_is_judged_by_its_arguments_and_the_policy(machine, name, arguments, options, answer):
    assert ruling(machine, name, *arguments, **options) == answer


# By number, since the filter's own table has no business knowing these: (x86_64, aarch64).
NEVER = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "bpf": (321, 280),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "userfaultfd": (323, 282),
    "perf_event_open": (298, 241), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "quotactl": (179, 60), "swapon": (167, 224), "reboot": (169, 142), "sethostname": (170, 161),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "setsid": (112, 157), "setpgid": (109, 154), "setuid": (105, 146), "setgid": (106, 144), "setgroups": (116, 159),
    "setresuid": (117, 147), "capset": (126, 91), "seccomp": (317, 277), "syslog": (103, 116), "acct": (163, 89),
    "splice": (275, 76), "vmsplice": (278, 75), "tee": (276, 77), "kcmp": (312, 272), "fanotify_init": (300, 262),
    "move_pages": (279, 239), "migrate_pages": (256, 238), "process_madvise": (440, 440), "pidfd_getfd": (438, 438),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432),
    "mount_setattr": (442, 442), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "ioprio_set": (251, 30), "vhangup": (153, 58), "lookup_dcookie": (212, 18), "remap_file_pages": (216, 234),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchown": (93, 55), "fchownat": (260, 54), "utimensat": (280, 88),
    "inotify_init1": (294, 26), "inotify_add_watch": (254, 27), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242),
}  # fmt: skip


@pytest.mark.parametrize("options", [NOTHING, EVERYTHING], ids=["nothing granted", "everything granted"])
@pytest.mark.parametrize(("column", "machine"), list(enumerate(MACHINES)))
def test_what_only_an_attack_calls_is_refused_whatever_is_granted(column, machine, options):
    program = seccomp.program(options, machine=machine, own_pid=PID)
    answers = {name: judge(program, audit=AUDIT[machine], number=row[column]) for name, row in NEVER.items()}
    assert {name: answer for name, answer in answers.items() if answer != EPERM} == {}


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_kill(machine):
    program = seccomp.program(EVERYTHING, machine=machine, own_pid=PID)
    read = numbers(machine)["read"]
    for audit in {0x40000003, 0x40000028, *AUDIT.values()} - {AUDIT[machine]}:
        assert judge(program, audit=audit, number=read) == "kill"
    assert judge(program, audit=AUDIT[machine], number=read) == "allow"


def test_x32_kills():
    program = seccomp.program(EVERYTHING, machine="x86_64", own_pid=PID)
    for number in (0x40000000, 0x40000001, 0x40000000 + 59, 0xFFFFFFFF):
        assert judge(program, audit=AUDIT["x86_64"], number=number) == "kill"


@pytest.mark.parametrize("machine", MACHINES)
@given(data=st.data())
def test_the_search_tree_finds_what_the_table_says(machine, data):
    options = {name: data.draw(st.booleans(), label=name) for name in sorted(seccomp.OPTIONS)}
    number = data.draw(st.integers(0, 700))
    program = seccomp.program(options, machine=machine, own_pid=PID)
    name = {known: name for name, known in numbers(machine).items()}.get(number)
    rule = rules(options, PID).get(name)
    answer = judge(program, audit=AUDIT[machine], number=number)
    if rule == ():
        assert answer == "allow"
    elif rule is None:
        assert answer in (EPERM, ENOSYS, EOPNOTSUPP)
        assert number < NEWEST or answer == ENOSYS
    assert len(program) < 1000


@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=8))
def test_jumps_over_long_code_still_arrive(lengths):
    """A conditional jump reaches 255 instructions; what is longer takes another way."""
    never = 0xDEAD
    spans = [
        (10 * place, (((0, 0xFFFFFFFF, (never,) * length, False), place + 1),)) for place, length in enumerate(lengths)
    ]
    if max(lengths) > 250:
        spans = [(first, (((0, 0xFFFFFFFF, (never,), False), errno),) * 60) for first, ((_, errno),) in spans]
    program = [(0x20, 0, 0, 0), *seccomp.search(spans)]
    for place in range(len(lengths)):
        assert judge(program, audit=0, number=10 * place, arguments=(never,)) == place + 1
        assert judge(program, audit=0, number=10 * place + 9, arguments=(1,)) == "allow"


HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}
SPELT_OTHERWISE = {"fstatat": "newfstatat"}


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_kernels_headers(machine):
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip(f"{header} is missing: runs where scripts/setup may install linux-libc-dev")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", header.read_text(), flags=re.MULTILINE)
    known = {}
    for name, number in found:
        known.setdefault(SPELT_OTHERWISE.get(name, name), int(number))
    ours = numbers(machine)
    assert {name: (ours[name], known.get(name)) for name in ours if known.get(name) != ours[name]} == {}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_that_a_rule_names_has_a_number_somewhere(machine):
    everywhere = {name for one in MACHINES for name in numbers(one)}
    named = {name for options in (NOTHING, EVERYTHING) for name in rules(options, PID)}
    assert named <= everywhere
    assert len(set(numbers(machine).values())) == len(numbers(machine))
