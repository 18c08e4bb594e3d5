"""Exports read back by the packages they are for, and compared with the store's own files number by number."""

import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import baton
import handmade
from baton import cli, export, study
from baton.errors import BadInput
from baton.export import mlflow as to_mlflow
from baton.seam import State
from baton.setting import Setting
from baton.store import History, Snapshot, Store
from baton.store.columns import MEASURED, METRICS
from baton.store.metrics import tables, to_csv
from baton.study import Study

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")  # MLflow's

ROUNDS = [0, 2, 4, 6, 8]
ENDED, SECONDS = 1_735_787_045.0, 60.5  # 2025-01-02T03:04:05Z
STUDY = """
title = "Small"
about = "what it is about"
[base]
rounds = 8
eval_every = 2
[axes]
algorithm = ["sequential", "parallel"]
lr = [0.1, 0.30000000000000004]
seed = [1, 9007199254740993]
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in to_mlflow.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def small(tmp_path: Path) -> Study:
    (tmp_path / "small.toml").write_text(STUDY)
    return study.read(tmp_path / "small.toml")


@pytest.fixture
def store(tmp_path: Path, small: Study) -> Store:
    """Of eight runs: five complete, one of them diverged; two unfinished, one of them diverged; one not begun."""
    found = Store(tmp_path / "runs")
    *whole, bad, begun, broken, _ = small.settings
    for setting in whole:
        put(found, setting)
    put(found, bad, diverged=5)
    put(found, begun, until=4)
    put(found, broken, diverged=3, until=4)
    runs = [s.run_id for s in (*whole, bad)]
    versions = {"baton": "0.1.0", "torch": "2.13.0"}
    found.log({"ended": "2025-01-02T03:04:00Z", "seconds": SECONDS - 5, "runs": runs, "device": "cuda (old)"})
    found.log(
        {"ended": "2025-01-02T03:04:05Z", "seconds": 2.0, "runs": runs, "device": "cpu (x)", "versions": versions}
    )
    with open(found.root / "journal.jsonl", "a") as file:
        file.write('{"runs": ["')  # a line cut short
    return found


def put(store: Store, setting: Setting, diverged: int = -1, until: int = 8) -> None:
    """A run with awkward numbers: exact metrics at every round, others now and then, one that overflowed."""
    rng = np.random.default_rng(int(setting.run_id, 16))
    history: dict[str, list[tuple[int, Any]]] = {m: [(r, rng.lognormal(0, 9, 1)) for r in ROUNDS] for m in MEASURED[:3]}
    history["train_loss"][1] = (2, np.array([np.inf]))
    history["distance"] = [(r, rng.random(1)) for r in range(9)]
    so_far = History({metric: [row for row in rows if row[0] <= until] for metric, rows in history.items()})
    at = Snapshot(until, State({"x": torch.zeros(1, 1)}), {}, torch.tensor([diverged]), so_far)
    handmade.finish(store, setting, at) if until == 8 else handmade.begin(store, setting, at)


def raw(store: Store, run_id: str) -> list[dict[str, float | None]]:
    """metrics.csv as it lies there, or would: None where a cell is empty."""
    if run_id in (flying := store.pool.in_flight()) and not store.complete(run_id):
        seen = store.pool.look(flying[run_id][0])
        assert seen
        text = to_csv(tables(seen.history), 0, seen.diverged[0]).decode()
    else:
        text = (store.folder(run_id) / "metrics.csv").read_text()
    return [{k: float(v) if v else None for k, v in row.items()} for row in csv.DictReader(text.splitlines())]


def finite(store: Store, run_id: str, metric: str) -> list[tuple[int, float]]:
    rows = [(int(row["round"] or 0), row.get(metric)) for row in raw(store, run_id)]
    return [(r, value) for r, value in rows if value is not None and math.isfinite(value)]


def table(store: Store, settings: list[Setting]) -> list[dict[str, Any]]:
    """The table there should be, made from the files."""
    found = []
    for s in settings:
        rows = raw(store, s.run_id)
        names = [name for name in rows[0] if name != "round"]
        lost = [row["round"] for row in rows if all(row[n] is None or math.isnan(row[n] or 0) for n in names)]
        end = {"complete": store.complete(s.run_id), "diverged": int(lost[0] or 0) if lost else None}
        for row in rows:
            metrics = {name: row.get(name) for name in METRICS}
            found.append({"run": s.run_id, **s.model_dump(), "round": int(row["round"] or 0), **metrics, **end})
    return found


def run(store: Store, of: Study | None, to: str, out: Path | None = None, uri: str | None = None) -> list[str]:
    return list(export.TARGETS[to](export.choose(store, of), export.check(to, out, uri)))


def same(one: Any, two: Any) -> bool:
    return type(one) is type(two) and (one == two or (isinstance(one, float) and math.isnan(one) and math.isnan(two)))


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_the_store_of_these_tests_is_what_it_says(store: Store, small: Study) -> None:
    rows = table(store, small.settings[:-1])
    assert {(r["complete"], r["diverged"]) for r in rows} == {(True, None), (True, 5), (False, None), (False, 3)}
    assert any(r["train_loss"] == math.inf for r in rows)
    assert any(r["test_loss"] is None and r["distance"] is not None for r in rows)


def test_csv_reads_back_exactly(store: Store, small: Study, tmp_path: Path) -> None:
    out = tmp_path / "new" / "all.csv"
    assert run(store, small, "csv", out) == [s.run_id for s in small.settings[:-1]]
    with open(out, newline="") as file:
        found = list(csv.DictReader(file))
    wanted = table(store, small.settings[:-1])
    assert list(found[0]) == list(wanted[0])
    assert len(found) == len(wanted)
    text = {True: "true", False: "false", None: ""}
    for got, row in zip(found, wanted, strict=True):
        for name, value in row.items():
            known = text[value] if value is None or isinstance(value, bool) else None
            assert got[name] == known if known is not None else same(type(value)(got[name]), value), name


def test_parquet_reads_back_exactly(
    store: Store, small: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export.parquet, "GROUP", 20)
    run(store, small, "parquet", tmp_path / "all.parquet")
    found = pq.read_table(tmp_path / "all.parquet")
    wanted = table(store, small.settings[:-1])
    assert found.column_names == list(wanted[0])
    for got, row in zip(found.to_pylist(), wanted, strict=True):
        assert all(same(got[name], value) for name, value in row.items()), (got, row)
    types = {field.name: str(field.type) for field in found.schema}
    assert {types[n] for n in ("run", "algorithm", "sampling", "dtype")} == {"string"}
    assert {types[n] for n in ("seed", "round", "diverged", "clients")} == {"int64"}
    assert {types[n] for n in ("lr", "clip", *METRICS)} == {"double"}
    assert types["complete"] == "bool"
    about = {b"baton.study": b"small", b"baton.version": baton.__version__.encode()}
    assert {key: found.schema.metadata[key] for key in about} == about
    assert pq.ParquetFile(tmp_path / "all.parquet").num_row_groups > 1


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_a_table_appears_whole_or_not(store: Store, small: Study, tmp_path: Path, to: str) -> None:
    out = tmp_path / "out" / "table"
    writing = export.TARGETS[to](export.choose(store, small), str(out))
    next(writing)
    assert not out.exists()  # killed now, nothing would look whole
    writing.close()
    assert files(out.parent) == {}
    run(store, small, to, out)
    once = out.read_bytes()
    (store.folder(small.settings[3].run_id) / "metrics.csv").write_text("round,test_loss\n1\n")
    with pytest.raises(BadInput, match=r"metrics.csv is damaged"):
        run(store, small, to, out)
    assert files(out.parent) == {"table": once}


def events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder), {"scalars": 0, "tensors": 0}).Reload()


def session(found: Any, tag: str) -> Any:
    from tensorboard.plugins.hparams import plugin_data_pb2

    content = found.SummaryMetadata(f"_hparams_/{tag}").plugin_data.content
    return getattr(plugin_data_pb2.HParamsPluginData.FromString(content), tag)


def test_tensorboard_reads_every_number(store: Store, small: Study, tmp_path: Path) -> None:
    run(store, small, "tensorboard", tmp_path / "tb")
    folders = {path.name[:16]: path for path in (tmp_path / "tb").iterdir()}
    assert set(folders) == {s.run_id for s in small.settings[:-1]}
    tags = {
        "test/loss": "test_loss",
        "test/accuracy": "test_accuracy",
        "train/loss": "train_loss",
        "distance": "distance",
    }
    for s in small.settings[:-1]:
        found, complete = events(folders[s.run_id]), store.complete(s.run_id)
        assert set(found.Tags()["scalars"]) == set(tags)
        assert s.algorithm in folders[s.run_id].name
        assert "rounds" not in folders[s.run_id].name  # does not vary
        for tag, metric in tags.items():
            got = [(e.step, e.value) for e in found.Scalars(tag)]
            with np.errstate(over="ignore"):
                assert got == [(r, float(np.float32(x))) for r, x in finite(store, s.run_id, metric)]
            assert not complete or {e.wall_time for e in found.Scalars(tag)} == {ENDED}
        start = session(found, "session_start_info")
        assert start.hparams["lr"].number_value == s.lr
        assert start.hparams["algorithm"].string_value == s.algorithm
        seed = start.hparams["seed"]
        assert (seed.number_value if s.seed == 1 else int(seed.string_value)) == s.seed
        assert set(start.hparams) == set(Setting.model_fields)
        assert not complete or start.start_time_secs == ENDED - SECONDS
        assert ("_hparams_/session_end_info" in found.Tags()["tensors"]) == complete
    ends = [session(events(folders[small.settings[i].run_id]), "session_end_info").status for i in (0, 4)]
    assert ends == [1, 2]  # success, failure


def test_tensorboard_again_changes_nothing_and_never_doubles(store: Store, small: Study, tmp_path: Path) -> None:
    root = tmp_path / "tb"
    run(store, small, "tensorboard", root)
    once = files(root)
    run(store, small, "tensorboard", root)
    assert files(root) == once
    put(store, Setting(rounds=8, eval_every=2, clients=7))  # now other fields vary, so that folders are named otherwise
    mine = next(root.glob(f"{small.settings[0].run_id}*")) / "notes.txt"
    mine.touch()
    run(store, None, "tensorboard", root)
    assert sorted(p.parent.name[:16] for p in root.glob("*/*tfevents*")) == store.ids()
    assert all("clients=" in p.parent.name for p in root.glob("*/*tfevents*"))
    assert mine.exists()
    assert len(list(root.iterdir())) == len(store.ids()) + 1


def test_tensorboard_gives_the_same_bytes_in_every_process(store: Store, tmp_path: Path) -> None:
    """Also in those whose maps and hashes are in another order."""
    code = (
        "import sys; from pathlib import Path; from baton import export; from baton.store import Store\n"
        "list(export.TARGETS['tensorboard'](export.choose(Store(Path(sys.argv[1])), None), sys.argv[2]))"
    )
    run(store, None, "tensorboard", tmp_path / "here")
    for zone in ("Asia/Kathmandu", "UTC"):
        words = [sys.executable, "-c", code, str(store.root), str(tmp_path / zone)]
        subprocess.run(words, check=True, env={**os.environ, "TZ": zone, "PYTHONHASHSEED": str(len(zone))})
        assert files(tmp_path / zone) == files(tmp_path / "here")


def test_names_of_folders_need_no_quoting_and_fit() -> None:
    name = export.tensorboard.folder("0123456789abcdef", "dataset=quadratic:zeta=1,delta=1/3,partition=file:/a b/c" * 9)
    assert name.startswith("0123456789abcdef-dataset=quadratic_zeta=1,delta=1_3,partition=file_a_b_c")
    assert len(name) <= 200
    assert export.tensorboard.folder("0123456789abcdef", "") == "0123456789abcdef"


def client(uri: str) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(uri)


def found_in(uri: str, name: str = "small") -> dict[str, Any]:
    reader = client(uri)
    runs = reader.search_runs([reader.get_experiment_by_name(name).experiment_id])
    assert len({r.data.tags["baton.run_id"] for r in runs}) == len(runs)
    return {r.data.tags["baton.run_id"]: r for r in runs}


def history(uri: str, own: str, metric: str) -> list[tuple[int, float]]:
    return sorted((m.step, m.value) for m in client(uri).get_metric_history(own, metric))


def test_mlflow_reads_every_number(store: Store, small: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_mlflow, "BATCH", 7)
    run(store, small, "mlflow", tmp_path / "ml")
    uri = f"sqlite:///{tmp_path}/ml/mlflow.db"
    found = found_in(uri)
    assert set(found) == {s.run_id for s in small.settings[:-1]}
    wanted = [*["FINISHED"] * 4, "FAILED", "RUNNING", "RUNNING"]
    for s, status in zip(small.settings[:-1], wanted, strict=True):
        got, complete = found[s.run_id], store.complete(s.run_id)
        assert got.info.status == status
        assert got.data.params == {name: str(value) for name, value in s.model_dump().items()}
        assert got.data.tags["baton.complete"] == str(complete).lower()
        assert got.info.run_name.startswith(f"algorithm={s.algorithm},lr=")
        for metric in ("test_loss", "test_accuracy", "train_loss", "distance"):
            assert history(uri, got.info.run_id, metric) == finite(store, s.run_id, metric)
        assert set(got.data.metrics) == {"test_loss", "test_accuracy", "train_loss", "distance"}
        if complete:
            assert (got.info.start_time, got.info.end_time) == ((ENDED - SECONDS) * 1000, ENDED * 1000)
            tags = {"device": "cpu (x)", "version.baton": "0.1.0", "version.torch": "2.13.0", "study": "small"}
            assert {name: got.data.tags[f"baton.{name}"] for name in tags} == tags
    lost = [found[s.run_id].data.tags.get("baton.diverged") for s in small.settings[:-1]]
    assert lost == [None] * 4 + ["5", None, "3"]
    experiment = client(uri).get_experiment_by_name("small")
    assert experiment.tags["mlflow.note.content"] == "what it is about"
    assert experiment.artifact_location == (tmp_path / "ml" / "artifacts").as_uri()


def test_mlflow_again_goes_on_and_never_doubles(
    store: Store, small: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{tmp_path}/mine.db"
    log, logged = to_mlflow._log, []

    def stop(*words: Any) -> None:
        logged.append(words)
        if len(logged) == 3:
            raise KeyboardInterrupt
        log(*words)

    monkeypatch.setattr(to_mlflow, "_log", stop)
    with pytest.raises(KeyboardInterrupt):
        run(store, small, "mlflow", uri=uri)
    assert sorted(r.info.status for r in found_in(uri).values()) == ["FINISHED", "FINISHED", "RUNNING"]
    run(store, small, "mlflow", uri=uri)
    assert len(logged) == 3 + 5  # the first two were whole
    before = found_in(uri)
    put(store, small.settings[5])  # trained to its end meanwhile
    run(store, small, "mlflow", uri=uri)
    assert len(logged) == 3 + 5 + 2  # that one, and the one that is still unfinished
    after = found_in(uri)
    assert {k: r.info.run_id for k, r in after.items()} == {k: r.info.run_id for k, r in before.items()}
    done = after[small.settings[5].run_id]
    assert (done.info.status, done.data.tags["baton.complete"]) == ("FINISHED", "true")
    for s in small.settings[:-1]:
        for metric in ("test_loss", "distance"):
            assert history(uri, after[s.run_id].info.run_id, metric) == finite(store, s.run_id, metric)
    run(store, None, "mlflow", uri=uri)
    assert len(found_in(uri, "runs")) == 7


def test_a_new_database_appears_with_all_its_tables(
    store: Store, small: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    seen = []

    def opened(uri: str) -> Any:
        seen.append(((tmp_path / "mlflow.db").exists(), uri))
        return client(uri)

    monkeypatch.setattr(mlflow, "MlflowClient", opened)
    run(store, small, "mlflow", tmp_path)
    (before, _), (after, uri) = seen
    assert (before, after) == (False, True)
    assert len(found_in(uri)) == 7
    assert not list(tmp_path.glob(".part*"))


def test_what_mlflow_says_is_one_line(store: Store, small: Study, tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("not a database, whatever its name says")
    with pytest.raises(BadInput, match=r"^export: MLflow at sqlite:///.*file is not a database$"):
        run(store, small, "mlflow", tmp_path)
    with pytest.raises(BadInput, match=r"^export: MLflow at foo://host: .*unsupported URI") as said:
        run(store, small, "mlflow", uri="foo://user:password@host")
    assert "password" not in str(said.value)
    uri = f"sqlite:///{tmp_path}/deleted.db"
    run(store, small, "mlflow", uri=uri)
    client(uri).delete_experiment(client(uri).get_experiment_by_name("small").experiment_id)
    with pytest.raises(BadInput, match=r"^export: MLflow's experiment 'small' was deleted; "):
        run(store, small, "mlflow", uri=uri)


@pytest.mark.parametrize(
    ("to", "package"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow"), ("parquet", "pyarrow")]
)
def test_a_missing_package_is_one_line(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, package: str
) -> None:
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BadInput) as said:
        run(store, None, to, tmp_path / "out")
    assert str(said.value) == f"export: --to {to} needs the package {package}; pip install 'baton-fl[{to}]'"
    assert not (tmp_path / "out").exists()


def test_times_come_from_the_files_where_the_journal_does_not_know(store: Store, small: Study) -> None:
    (store.root / "journal.jsonl").unlink()
    folder = store.folder(small.settings[0].run_id)
    for name in ("metrics.csv", "state.safetensors"):
        os.utime(folder / name, (2000, 2000))
    past = export.choice.pasts(export.choose(store, small))[small.settings[0].run_id]
    assert past == (2000.0, 2000.0, {})


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--to", "tensorbord", "--out", "x"], "to: no target 'tensorbord'; did you mean 'tensorboard'?"),
        (["--to", "csv"], "out: not given; --out runs.csv is right"),
        (["--to", "mlflow"], "out: not given; --out DIR is right, or --uri URI"),
        (["--to", "csv", "--out", "folder"], "out: 'folder' is a folder; the name of a file is right"),
        (["--to", "tensorboard", "--out", "a_file"], "out: 'a_file' is a file; a folder is right"),
        (["--to", "csv", "--uri", "http://x"], "uri: 'http://x'; a tracking URI goes with --to mlflow"),
        (["--to", "mlflow", "--uri", "http://x", "--out", "x"], "in the place of --out"),
        (["--to", "csv", "--out", "x"], "export: no run in runs; 'baton run' or 'baton sweep' trains some"),
        (
            ["digits", "--to", "csv", "--out", "x"],
            "export: no run of study 'digits' in runs; 'baton sweep' trains them",
        ),
        (["--to", "csv", "--out", "x", "--scale", "0.5"], "scale: 0.5; it goes with a study"),
        (["nothing", "--to", "csv", "--out", "x"], "study: no file 'nothing'"),
        (["--to", "csv", "--out", "a_file/x.csv", "--runs", "full"], "export: a_file: File exists"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a_file").touch()
    (tmp_path / "folder").mkdir()
    put(Store(tmp_path / "full"), Setting(rounds=8, eval_every=2))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["baton", "export", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    shown = capsys.readouterr()
    assert stop.value.code == 2
    assert line in shown.err
    assert shown.err.startswith("baton: ")
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a_file", "folder", "full"]


def test_as_a_user_types_it(store: Store, tmp_path: Path) -> None:
    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "baton", "export", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)

    done = typed("small.toml", "--to", "tensorboard", "--out", "tb")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "7 runs (2 unfinished) in tb; 'tensorboard --logdir tb' shows them\n"
    done = typed("--to", "mlflow", "--out", "ml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("7 runs (2 unfinished) in ml; 'mlflow ui --backend-store-uri sqlite:///")
    done = typed("--to", "csv", "--out", "all.csv", "--runs", "runs", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert sorted({row["run"] for row in csv.DictReader(lines)}) == store.ids()
    assert not (tmp_path / "mlruns").exists()


def test_trained_runs_with_their_journal(tmp_path: Path) -> None:
    settings = [Setting(dataset="quadratic", rounds=3, eval_every=3, lr=lr) for lr in (0.1, 1e200)]
    baton.run(settings, tmp_path / "runs", device="cpu")
    store = Store(tmp_path / "runs")
    past = export.choice.pasts(export.choose(store, None))[settings[0].run_id]
    entry = json.loads((store.root / "journal.jsonl").read_text().splitlines()[0])
    assert past.facts["device"] == entry["device"]
    assert past.facts["version.torch"] == entry["versions"]["torch"]
    assert past.began < past.ended
    run(store, None, "csv", tmp_path / "all.csv")
    with open(tmp_path / "all.csv", newline="") as file:
        lost = {row["lr"]: row["diverged"] for row in csv.DictReader(file)}
    assert lost["0.1"] == ""
    assert int(lost["1e+200"]) >= 1
