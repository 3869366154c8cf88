"""Folders of tensors and config: bit-exact round trips, damage, crashes, kill -9, foreign and unwritable places."""

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyro_pivid.inference import checkpoint
from pyro_pivid.inference.checkpoint import CheckpointError, read_folder, write_folder

DTYPES = ["float64", "float32", "float16", "bfloat16", "bool", "int64", "int32", "int16", "int8", "uint8"]


def random_bits(dtype, shape):
    """Any bit pattern of the dtype, so subnormal numbers, infinities and NaNs with their payload too."""
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (*shape, dtype.itemsize), dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def bits(tensors):
    flat = {name: x.detach().cpu().clone(memory_format=torch.contiguous_format) for name, x in tensors.items()}
    return {name: (x.dtype, x.shape, x.reshape(-1).view(torch.uint8).tolist()) for name, x in flat.items()}


def write_state(folder, number, **options):
    tensors = {"b": torch.full((40,), number), "a": torch.tensor(float(number))}
    write_folder(folder, tensors, {"number": number}, kind="checkpoint", **options)


def read_state(folder):
    """The number that the config and every entry of every tensor hold."""
    tensors, config = read_folder(folder, kind="checkpoint")
    assert list(tensors) == ["b", "a"]
    assert all((tensor == config["number"]).all() for tensor in tensors.values())
    return config["number"]


def snapshot(folder):
    return {p: (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else None) for p in [folder, *folder.rglob("*")]}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_shape_comes_back_bit_for_bit(tmp_path, dtype):
    shapes, device = [(3, 4), (), (5,), (0,), (2, 0, 3)], "cuda" if torch.cuda.is_available() else "cpu"
    tensors = {f"{shape}/é.\n": random_bits(getattr(torch, dtype), shape).to(device) for shape in shapes}
    write_folder(tmp_path / "new" / "run", tensors, {}, kind="checkpoint")
    found, config = read_folder(str(tmp_path / "new" / "run"), kind="checkpoint")
    assert (list(found), bits(found), config) == (list(tensors), bits(tensors), {})
    assert {tensor.device.type for tensor in found.values()} == {"cpu"}
    assert read_folder(tmp_path / "new" / "run", kind="checkpoint", device="meta")[0]["()/é.\n"].is_meta


def test_views_and_parameters_come_back_as_separate_plain_tensors(tmp_path):
    base, negated = torch.randn(4, 6), torch.tensor([1 + 2j]).conj().imag
    tensors = {"base": base, "same": base, "transposed": base.mT, "slice": base[1:, ::2], "row": base[0].expand(3, 6)}
    tensors |= {"negated": negated, "weight": torch.nn.Linear(2, 3).weight}
    write_folder(tmp_path, tensors, {}, kind="checkpoint")
    found, _ = read_folder(tmp_path, kind="checkpoint")
    assert bits(found) == bits({**tensors, "negated": torch.tensor([-2.0])})
    assert not any(tensor.requires_grad for tensor in found.values())
    assert torch.equal(found["base"].zero_() + found["same"], base)


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(leaves, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=6)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values)
def test_any_json_config_comes_back_with_types_order_and_float_bits(tmp_path, value):
    write_folder(tmp_path, {}, {"value": value}, kind="checkpoint", overwrite=True)
    # repr tells 1 from 1.0 and True, 0.0 from -0.0, and any two finite floats.
    assert repr(read_folder(tmp_path, kind="checkpoint")) == repr(({}, {"value": value}))


@pytest.mark.parametrize(
    ("tensors", "config", "message"),
    [
        ({}, {"optim": {"rates": [0.1, float("inf")]}}, r"config\['optim'\]\['rates'\]\[1\], but got inf. Store it in"),
        ({}, {"x": float("nan")}, r"finite number at config\['x'\], but got nan"),
        ({}, {"x": torch.ones(1)}, r"config\['x'\], but got Tensor. Convert it or use a tensor"),
        ({}, {"x": {3: 1}}, r"texts as keys of config\['x'\], but got \[3\]. Use str"),
        ({"x": [1.0]}, {}, "a tensor named 'x', but got list"),
        ({"x": torch.ones(1, dtype=torch.complex128)}, {}, "'x', but got torch.complex128"),
        ({"x": torch.eye(2).to_sparse()}, {}, "'x', but got .* torch.sparse_coo"),
        ({"x": torch.ones(1, device="meta")}, {}, "'x', but got .* device meta"),
        ({"__metadata__": torch.ones(1)}, {}, "other than '__metadata__'"),
        ({"\ud800": torch.ones(1)}, {}, "safetensors can store"),
    ],
)
def test_content_that_would_not_come_back_is_refused_before_the_disk_is_touched(tmp_path, tensors, config, message):
    with pytest.raises(CheckpointError, match=message):
        write_folder(tmp_path / "run", tensors, config, kind="checkpoint")
    assert not (tmp_path / "run").exists()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.sampled_from([0, 1]), where=st.floats(0, 1, exclude_max=True), flip=st.integers(0, 255))
def test_a_flipped_or_cut_file_never_loads_as_something_else(tmp_path, which, where, flip):
    tensors = {"x": torch.arange(5.0), "flag": torch.tensor(True)}
    config = {"step": 12, "rate": 1e-05, "names": ["é", "b"], "none": None, "nested": {"yes": True}}
    if not any(tmp_path.iterdir()):
        write_folder(tmp_path, tensors, config, kind="checkpoint")
    file = sorted(tmp_path.iterdir())[which]
    sound = file.read_bytes()
    position = int(where * len(sound))
    damaged = sound[:position] + (bytes([sound[position] ^ flip]) + sound[position + 1 :] if flip else b"")
    try:
        file.write_bytes(damaged)
        found, found_config = read_folder(tmp_path, kind="checkpoint")
        # Other white space, or 1E-05 for 1e-05: the same JSON loads, as the very same content. Nothing else does.
        assert (file.name, json.loads(damaged)) == ("config.json", json.loads(sound))
        assert (bits(found), repr(found_config)) == (bits(tensors), repr(config))
    except CheckpointError:
        assert file.name != "config.json" or damaged.strip(b" \t\r\n") != sound.strip()
    finally:
        file.write_bytes(sound)


def forge(folder, **changes):
    """Change entries of config.json and give it the digest that belongs to them."""
    document = {**json.loads((folder / "config.json").read_text()), **changes}
    del document["sha256"]
    document["sha256"] = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    (folder / "config.json").write_text(json.dumps(document))


def fill_tensor_file(folder, content, **changes):
    entry = json.loads((folder / "config.json").read_text())["tensors"]
    (folder / entry["file"]).write_bytes(content.ljust(entry["bytes"] if not changes else 0))
    forge(folder, tensors={**entry, **changes})


@pytest.mark.parametrize(
    ("foreign", "harm", "message"),
    [
        (False, shutil.rmtree, "Expected a folder at .*run, but none is there"),
        (True, lambda f: (shutil.rmtree(f), f.write_text("x")), "Expected a folder at .*run, but a file is there"),
        (False, lambda f: (f / "config.json").unlink(), "Expected config.json in .*run, but it is missing"),
        (True, lambda f: (f / "config.json").rename(f / "thesis.txt"), "config.json in .*run, but it is missing"),
        (True, lambda f: ((f / "config.json").unlink(), (f / "config.json").mkdir()), "Is a directory"),
        (True, lambda f: (f / "config.json").write_text("width = 3"), "config.json, but got invalid JSON"),
        (True, lambda f: (f / "config.json").write_text("[" * 100_000), "config.json, but got invalid JSON"),
        (True, lambda f: (f / "config.json").write_text('{"kind": "checkpoint"}'), "pyro_pivid folder' .* else"),
        (True, lambda f: forge(f, kind="posterior"), "kind 'checkpoint' in .* got 'posterior'"),
        (True, lambda f: forge(f, format_version=2, package_version="9.1"), "got 2, of pyro_pivid 9.1. Upgrade"),
        (False, lambda f: forge(f, tensors={"file": "../secret"}), "name of a tensor file .*secret"),
        (False, lambda f: next(f.glob("tensors-*")).unlink(), "config.json names in .*, but the file is missing"),
        (False, lambda f: fill_tensor_file(f, b"", bytes=7), r"Expected 7 bytes in .*tensors-.*, but got 0"),
        (False, lambda f: fill_tensor_file(f, b"junk"), "content of SHA-256 .* in .*tensors-.*, but got"),
        (False, lambda f: fill_tensor_file(f, b"", bytes=0, sha256=hashlib.sha256().hexdigest()), "SafetensorError"),
    ],
)
def test_a_wrong_folder_is_explained_and_a_foreign_one_never_touched(tmp_path, foreign, harm, message):
    write_state(tmp_path / "run", 1)
    harm(tmp_path / "run")
    before = snapshot(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        read_folder(tmp_path / "run", kind="checkpoint")
    for overwrite in [False, True] if foreign else []:
        with pytest.raises(CheckpointError, match="run"):
            write_state(tmp_path / "run", 2, overwrite=overwrite)
    assert snapshot(tmp_path) == before
    if not foreign:
        write_state(tmp_path / "run", 2, overwrite=True)
        assert (read_state(tmp_path / "run"), len(os.listdir(tmp_path / "run"))) == (2, 2)


def test_overwriting_must_be_asked_for_and_leaves_two_files_and_the_users_own(tmp_path):
    for name in ["tensors-{}.safetensors", "tensors-{}.safetensors.tmp", "config-{}.json.tmp"]:
        (tmp_path / name.format("0123456789abcdef")).write_text("left by a first write that was killed")
    write_state(tmp_path, 1)
    with pytest.raises(CheckpointError, match=f"{tmp_path} has a config.json. Pass overwrite=True or choose another"):
        write_state(tmp_path, 2)
    assert read_state(tmp_path) == 1
    (tmp_path / "tensors-mine.safetensors").write_text("not of this format's names")
    for number in range(2, 8):
        write_state(tmp_path, number, overwrite=True)
        assert (read_state(tmp_path), len(os.listdir(tmp_path))) == (number, 3)


def test_a_place_that_cannot_be_written_is_named_with_the_reason(tmp_path):
    write_state(tmp_path / "run", 1)
    with pytest.raises(CheckpointError, match="to write .*json/run, but the system says: .*Not a directory"):
        write_state(tmp_path / "run" / "config.json" / "run", 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:  # a real write that the system cuts short
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        with pytest.raises(CheckpointError, match="to write .*run, but the system says: .*File too large"):
            write_folder(tmp_path / "run", {"a": torch.zeros(100_000)}, {}, kind="checkpoint", overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (read_state(tmp_path / "run"), len(os.listdir(tmp_path / "run"))) == (1, 2)


def fail_at(patch, count, error):
    """Let file operation ``count`` raise; SystemExit stops all later ones, KeyboardInterrupt comes just after it."""
    calls = []

    def guard(name, operation):
        def guarded(*args):
            calls.append(name)
            if len(calls) <= count or (len(calls) > count + 1 and not isinstance(error, SystemExit)):
                return operation(*args)
            if isinstance(error, KeyboardInterrupt) and name not in ("open", "scandir"):
                operation(*args)
            raise error

        return guarded

    for name in ["fsync", "rename", "replace", "unlink", "scandir"]:
        patch.setattr(os, name, guard(name, getattr(os, name)))
    patch.setattr(checkpoint, "open", guard("open", open), raising=False)
    return calls


@pytest.mark.parametrize("old", [None, 1])
@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt(), OSError("disk full")], ids=repr)
def test_a_failure_at_any_step_leaves_the_old_or_the_new_state(tmp_path, old, error):
    outcomes = []
    for count in range(100):
        folder, raised = tmp_path / str(count), None
        if old is not None:
            write_state(folder, old)
        with pytest.MonkeyPatch.context() as patch:
            calls = fail_at(patch, count, error)
            try:
                write_state(folder, 2, overwrite=True)
            except (SystemExit, KeyboardInterrupt, CheckpointError) as caught:
                raised = caught
        if len(calls) <= count:
            break
        committed = "replace" in calls[: count + isinstance(error, KeyboardInterrupt)]
        outcomes.append(read_state(folder) if (folder / "config.json").exists() else None)
        assert outcomes[-1] == (2 if committed else old)
        if isinstance(error, OSError) and calls[count] != "unlink":  # a file that cannot be removed just waits
            assert (str(folder) in str(raised), "disk full" in str(raised), raised.__cause__) == (True, True, error)
        if not isinstance(error, SystemExit) and not committed:
            assert len(os.listdir(folder)) == (0 if old is None else 2)
        write_state(folder, 3, overwrite=True)  # life goes on, and tidies up
        assert (read_state(folder), len(os.listdir(folder))) == (3, 2)
    # At least eight steps: two files opened and flushed, the folder flushed twice, rename, replace.
    assert (raised, set(outcomes), len(outcomes) >= 8) == (None, {old, 2}, True)


def test_two_writers_take_turns(tmp_path):
    def write_many(first):
        for number in range(first, first + 30):
            write_state(tmp_path, number, overwrite=True)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(write_many, [100, 200])) == [None, None]
    assert (read_state(tmp_path) in (129, 229), len(os.listdir(tmp_path))) == (True, 2)


WRITER = """
import os, sys, torch
from pyro_pivid.inference.checkpoint import write_folder
for line in sys.stdin:  # fork: one import of torch for all the lives
    if (child := os.fork()) == 0:
        log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
        for number in range(int(line), int(line) + 2000):  # an end, in case nobody comes to kill it
            tensors = {"b": torch.full((50_000,), number), "a": torch.tensor(float(number))}
            write_folder(sys.argv[1], tensors, {"number": number}, kind="checkpoint", overwrite=True)
            os.write(log, f"{number}\\n".encode())
        os._exit(1)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def test_kill_9_leaves_the_last_finished_write_or_the_one_under_way(tmp_path):
    folder, log, number = tmp_path / "run", tmp_path / "finished", 0
    write_state(folder, number)
    log.write_text("0\n")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen([sys.executable, "-c", WRITER, folder, log], **pipes) as parent:
        for num_writes, num_reads in torch.randint(0, 6, (16, 2)).tolist():
            parent.stdin.write(f"{number + 1}\n")
            child, tries = int(parent.stdout.readline()), 10_000
            while (tries := tries - 1) and read_state(folder) < number + num_writes:
                pass  # the writer goes on; every state that is read meanwhile is whole
            assert all(read_state(folder) >= number + num_writes for _ in range(num_reads))
            os.kill(child, signal.SIGKILL)
            assert int(parent.stdout.readline()) == signal.SIGKILL
            finished, number = max(number, int(log.read_text().split()[-1])), read_state(folder)
            assert number in (finished, finished + 1)
        parent.stdin.close()
    write_state(folder, number + 1, overwrite=True)
    assert (number > 16, len(os.listdir(folder))) == (True, 2)
