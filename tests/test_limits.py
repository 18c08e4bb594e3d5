"""Memory and cores of a container: made-up trees of control groups, and a real one where one can be made."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from baton import limits, models
from baton.errors import BadInput
from baton.models import MODELS
from baton.setting import Setting
from baton.simulate import arithmetic, memory

MB = 1 << 20
UNLIMITED = "9223372036854771712"


class Machine:
    """A made-up /proc and / under one folder."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.root = folder / "proc", folder / "root"
        (self.proc / "self").mkdir(parents=True)
        self.mounts: list[str] = []
        self.put("proc/meminfo", "MemTotal:  9 kB\nMemAvailable:    8388608 kB\n")  # 8 GiB
        self.cgroup("0::/\n")

    def put(self, path: str, text: str) -> None:
        place = self.proc.parent / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def cgroup(self, text: str) -> None:
        self.put("proc/self/cgroup", text)

    def mount(self, point: str, kind: str, options: str = "rw", part: str = "/") -> None:
        self.mounts.append(f"31 23 0:28 {part} {point} rw,relatime shared:4 - {kind} cgroup {options}\n")
        self.put("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda rw\n" + "".join(self.mounts))
        (self.root / point.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def group(self, folder: str, **files: str) -> None:
        for name, text in files.items():
            self.put(f"root/{folder.strip('/')}/{name.replace('__', '.')}", f"{text}\n")

    def memory(self) -> int | None:
        return limits.memory(self.proc, self.root)

    def quota(self) -> int | None:
        return limits.quota(self.proc, self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_host_alone(machine: Machine) -> None:
    assert machine.memory() == 8 << 30
    assert machine.quota() is None


def test_version_2_is_the_least_over_all_groups_on_the_way(machine: Machine) -> None:
    machine.mount("/sys/fs/cgroup", "cgroup2")
    machine.cgroup("0::/user/app\n")
    machine.group("/sys/fs/cgroup/user/app", memory__max="max", memory__current=str(90 * MB), cpu__max="max 100000")
    assert machine.memory() == 8 << 30
    machine.group("/sys/fs/cgroup/user", memory__max=str(700 * MB), memory__current=str(300 * MB))
    machine.group("/sys/fs/cgroup/user", memory__stat=f"anon 7\ninactive_file {100 * MB}", cpu__max="350000 100000")
    assert machine.memory() == 500 * MB  # what can be had back is not counted as used
    assert machine.quota() == 3
    machine.group("/sys/fs/cgroup/user/app", memory__high=str(190 * MB), cpu__max="50000 100000")
    assert machine.memory() == 100 * MB
    assert machine.quota() == 1  # never none


def test_version_1_with_controllers_mounted_together(machine: Machine) -> None:
    machine.mount("/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
    machine.mount("/sys/fs/cgroup/memory", "cgroup", "rw,memory")
    machine.mount("/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset")
    machine.mount("/sys/fs/cgroup/unified", "cgroup2")  # as systemd's hybrid setup has it
    machine.cgroup("4:memory:/a/b\n3:cpuset:/a\n2:cpu,cpuacct:/c\n1:name=systemd:/x\n0::/y\n")
    machine.group("/sys/fs/cgroup/memory", memory__limit_in_bytes=UNLIMITED, memory__usage_in_bytes="5")
    machine.group("/sys/fs/cgroup/memory/a", memory__limit_in_bytes=str(600 * MB))
    machine.group("/sys/fs/cgroup/memory/a", memory__usage_in_bytes=str(500 * MB))
    machine.group("/sys/fs/cgroup/memory/a", memory__stat=f"inactive_file 1\ntotal_inactive_file {50 * MB}")
    machine.group("/sys/fs/cgroup/memory/a/b", memory__limit_in_bytes=UNLIMITED, memory__usage_in_bytes="7")
    assert machine.memory() == 150 * MB
    machine.group("/sys/fs/cgroup/cpu,cpuacct/c", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    assert machine.quota() is None
    machine.group("/sys/fs/cgroup/cpu,cpuacct", cpu__cfs_quota_us="250000", cpu__cfs_period_us="100000")
    assert machine.quota() == 2


@pytest.mark.parametrize("path", ["/", "/docker/0123abcd", "/../../other", "/gone (deleted)"])
def test_a_container_sees_its_own_group_as_the_root(machine: Machine, path: str) -> None:
    """By a namespace of its own, or by a mount of a part of the tree that the path is not under."""
    machine.mount("/sys/fs/cgroup", "cgroup2", part="/.." if path.startswith("/..") else "/")
    machine.cgroup(f"0::{path}\n")
    machine.group("/sys/fs/cgroup", memory__max=str(700 * MB), memory__current=str(MB), cpu__max="200000 100000")
    assert machine.memory() == 699 * MB
    assert machine.quota() == 2


def test_a_part_of_the_tree_that_is_mounted(machine: Machine) -> None:
    machine.mount("/sys/fs/cgroup/memory", "cgroup", "rw,memory", part="/docker/0123")
    machine.cgroup("4:memory:/docker/0123/inner\n")
    machine.group("/sys/fs/cgroup/memory/inner", memory__limit_in_bytes=str(50 * MB))
    assert machine.memory() == 50 * MB
    stat = f"hierarchical_memory_limit {40 * MB}"  # of a group further out, which is not mounted
    machine.group("/sys/fs/cgroup/memory/inner", memory__stat=stat, memory__usage_in_bytes=str(10 * MB))
    assert machine.memory() == 30 * MB


def test_a_mount_with_a_space_in_its_name(machine: Machine) -> None:
    machine.mount("/my groups", "cgroup2")
    machine.mounts = [line.replace("/my groups", "/my\\040groups") for line in machine.mounts]
    machine.put("proc/self/mountinfo", "".join(machine.mounts))
    machine.group("/my groups", memory__max=str(5 * MB))
    assert machine.memory() == 5 * MB


@pytest.mark.parametrize(
    "text", ["", "max", "-5", "ten", "1e9", "5 6 7", "\0", "९" * 3, "7" * 50, "0x10", "max max", "100 0", "0 0"]
)
def test_what_is_not_as_it_should_be_is_no_limit(machine: Machine, text: str) -> None:
    machine.mount("/v1", "cgroup", "rw,memory,cpu")
    machine.mount("/v2", "cgroup2")
    machine.group("/v2", memory__max=text, memory__current=text, memory__stat=text, cpu__max=text)
    machine.group("/v1", memory__limit_in_bytes=text, cpu__cfs_quota_us=text, cpu__cfs_period_us=text)
    assert machine.memory() == 8 << 30
    assert machine.quota() is None


def test_nothing_to_read_at_all(tmp_path: Path) -> None:
    assert limits.memory(tmp_path / "none", tmp_path) is None
    assert limits.quota(tmp_path / "none", tmp_path) is None
    (tmp_path / "self" / "cgroup").mkdir(parents=True)
    (tmp_path / "self" / "mountinfo").write_bytes(
        b"\xff - cgroup2\n - \n1 2 3 4 5 - cgroup2 x y\n1 2 3 \\000 \\000 - cgroup2 x y\n"
    )
    assert limits.memory(tmp_path, tmp_path) is None


def test_a_use_above_the_limit_leaves_nothing(machine: Machine) -> None:
    machine.mount("/sys/fs/cgroup", "cgroup2")
    machine.group("/sys/fs/cgroup", memory__max="10", memory__current="20")
    assert machine.memory() == 0


def test_address_space(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.put("proc/self/statm", f"{(100 * MB) // os.sysconf('SC_PAGE_SIZE')} 5 5 5\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (300 * MB, 300 * MB))
    assert machine.memory() == 200 * MB


def test_what_is_free_is_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, half in ((700 * MB, 350 * MB), (0, 0), (None, 4 << 30)):
        monkeypatch.setattr(limits, "memory", lambda found=found: found)
        assert memory.free(torch.device("cpu")) == half


def test_cores_are_the_least_of_affinity_quota_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for quota, wanted, right in ((None, "", 8), (3, "", 3), (3, "2", 2), (3, "5", 3), (20, "30", 8), (None, "0", 8)):
        monkeypatch.setattr(limits, "quota", lambda quota=quota: quota)
        monkeypatch.setenv("OMP_NUM_THREADS", wanted)
        assert arithmetic.cores() == right


@pytest.fixture
def real() -> Iterator[dict[str, Path]]:
    """A control group of its own for each of memory and cpu, right under the outermost."""
    made: dict[str, Path] = {}
    limited = {
        "memory": {"memory.limit_in_bytes": str(700 * MB), "memory.max": str(700 * MB)},
        "cpu": {"cpu.cfs_quota_us": "150000", "cpu.max": "150000 100000"},
    }
    try:
        for name, files in limited.items():
            for group in [group for group in limits.groups(name) if group.folder.parent.name == "cgroup"][:1]:
                made[name] = group.folder / f"baton-test-{os.getpid()}"
                made[name].mkdir()
                there = [file for file in files if (made[name] / file).exists()]
                (made[name] / there[0]).write_text(files[there[0]])
        if len(made) < 2:
            pytest.skip("no control groups with limits are mounted here")
        yield made
    except (OSError, IndexError) as error:
        pytest.skip(f"no control group can be made here ({error})")
    finally:
        for folder in made.values():
            if folder.is_dir():
                folder.rmdir()


def test_a_real_group(real: dict[str, Path]) -> None:
    code = (
        "import os, sys\n"
        "for place in sys.argv[1:]: open(place + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
        "from baton import limits\n"
        "print(limits.memory(), limits.quota())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, real.values())], capture_output=True, text=True)
    if "Error" in done.stderr and "cgroup.procs" in done.stderr:
        pytest.skip("a process cannot be put into a control group here")
    room, cores = done.stdout.split()
    assert 300 * MB < int(room) <= 700 * MB
    assert cores == "1"


# What does not fit is told before it is made


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"model": "mlp:hidden=1000000000"}, r"^model: .* has 75,000,000,010 parameters; that takes .* GiB are free$"),
        ({"model": "mlp:hidden=100000000000000000000"}, r"^model: .* has more parameters than can be counted$"),
        ({"dataset": "quadratic_random", "clients": 10**9}, r"^dataset: quadratic_random has 1,000,000,000 clients"),
        (
            {"dataset": "quadratic_random:dim=1000000000"},
            r"^dataset: quadratic_random has 10 clients in dim=1000000000",
        ),
        ({"batch_size": 10**12, "sampling": "replacement"}, r"^memory: 2\.0 GiB is too little; one lane .* needs"),
        ({"local_steps": 10**12}, r"^memory: 2\.0 GiB is too little; one lane .* needs"),
    ],
)
def test_what_does_not_fit_is_one_line_before_it_is_made(
    fields: dict[str, object], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "memory", lambda: 4 << 30)
    setting, budget = Setting(**fields), memory.free(torch.device("cpu"))
    with pytest.raises(BadInput, match=line):
        memory.lanes_that_fit(memory.per_lane([setting], budget, torch.device("cpu")), budget)


@pytest.mark.parametrize("fields", [{"rounds": 10**15}, {"eval_every": 10**23}, {"clients": 10**20}])
def test_numbers_that_nothing_can_count_to(fields: dict[str, int]) -> None:
    with pytest.raises(BadInput, match=f"^{next(iter(fields))}: 10*"):
        Setting(**fields)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_counted_without_being_made_and_draws_nothing(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(limits, "fits", lambda size, _: asked.append(size))
    before = torch.get_rng_state()
    shape, classes = ((3,), 0) if model == "quadratic" else ((3, 32, 32), 10)
    build = models.factory(model, shape, classes)
    assert torch.equal(torch.get_rng_state(), before)
    assert asked == [4 * models.COPIES * sum(p.numel() for p in build().parameters())]


def test_what_the_system_refuses_is_one_line() -> None:
    for refuse in (lambda: torch.empty(1 << 60), lambda: bytearray(1 << 60)):
        with pytest.raises(BadInput, match=r"^x: too little"), limits.enough("x: too little"):
            refuse()
    unloaded = "libx.so: failed to map segment from shared object"
    for error in (
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        ImportError(f"\n\nOriginal error was: {unloaded}\n"),
    ):
        with pytest.raises(BadInput, match=r"^x$"), limits.enough("x"):
            raise error
    for other in (FileNotFoundError(errno.ENOENT, "no such file"), ImportError("no module named x")):
        with pytest.raises(type(other)), limits.enough("x"):
            raise other
    with pytest.raises(RuntimeError, match="size of tensor"), limits.enough("x"):
        torch.ones(2) + torch.ones(3)


def test_little_address_space_is_one_line(tmp_path: Path) -> None:
    """As `ulimit -v` makes it: torch itself needs some 3 GB of it."""
    code = "import resource, sys; import torch; from baton import limits, cli\n"
    code += "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    code += "resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20),) * 2)\n"
    code += "sys.argv = ['baton', 'run', '-q', '-m', 'mlp:hidden=1000000']; cli.main()\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("baton: model: 'mlp:hidden=1000000' has 75,000,010 parameters; that takes 1.1 GiB")
    assert done.stderr.count("\n") == 1
