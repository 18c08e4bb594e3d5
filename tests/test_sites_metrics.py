"""Every site's metric: against plain loops, in the store's files, over kills, in tables and exports."""

import csv
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import processes
from baton import datasets, metrics, run, study
from baton.clients import owners
from baton.errors import BadInput
from baton.report import report
from baton.setting import Setting
from baton.simulate import per_site
from baton.simulate.engine import Program
from baton.store import Store, sites
from baton.store.upkeep import verify
from baton.verdict import interval
from contracts.examples import CPU, finish, refused, stages
from test_evaluate import module_of

HOSPITALS = {"dataset": "user_modules:hospitals", "partition": "natural", "clients": 4, "rounds": 6, "eval_every": 3}


def plainly(name: str, outputs: torch.Tensor, labels: torch.Tensor, data: datasets.Dataset) -> float:
    """A metric of these rows alone, by its own definition (tests/test_metrics.py holds it to scikit-learn)."""
    if not len(labels):
        return float("nan")
    return float(metrics.build([name], data)[name].of(outputs.unsqueeze(0), labels, None))


def by_owner(name: str, outputs: list[torch.Tensor], data: datasets.Dataset) -> list[float]:
    """A metric at each of four sites, from what is put out there."""
    mine = [data.test_owner == m for m in range(4)]
    return [plainly(name, out[rows], data.test_y[rows], data) for out, rows in zip(outputs, mine, strict=True)]


@pytest.mark.parametrize("asked", ["", "auc,f1,accuracy,calibration,user_modules:confident"])
def test_each_site_is_measured_on_its_own_test_rows(asked: str) -> None:
    program, at = finish([Setting(**HOSPITALS, metrics=asked, seed=seed) for seed in (1, 2)])
    data = datasets.load("user_modules:hospitals", 4)
    labels = [name for name in ("accuracy", "auc", "f1", "calibration") if name in (asked or "accuracy,auc")]
    for lane in range(2):
        with torch.no_grad():
            outputs = module_of(program, at, lane)(data.test_x)
        for name in labels:
            own = [
                plainly(name, outputs[data.test_owner == m], data.test_y[data.test_owner == m], data) for m in range(4)
            ]
            np.testing.assert_allclose(at.history[f"site/{name}"][-1][1][lane], own, rtol=1e-5)
            best = name != "calibration"
            expected = (np.mean(own), (min if best else max)(own), (max if best else min)(own), np.std(own))
            for statistic, value in zip(metrics.STATISTICS, expected, strict=True):
                assert at.history[f"site_{name}_{statistic}"][-1][1][lane] == pytest.approx(value, rel=1e-5)
            whole = plainly(name, outputs, data.test_y, data)
            assert at.history[f"test_{name}"][-1][1][lane] == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("partition", ["exdir:C=2,alpha=10", "dirichlet:alpha=0.3"])
def test_without_owners_rows_are_those_of_the_classes_held(partition: str) -> None:
    names = ("accuracy", "auc", "f1", "loss", "balanced_accuracy", "sensitivity")
    common = {"clients": 12, "participants": 3, "rounds": 2, "eval_every": 2, "metrics": ",".join(names)}
    settings = [Setting(**common, partition=p) for p in (partition, "iid")]
    program, at = finish(settings)
    data = datasets.load("digits", 12)
    for lane, setting in enumerate(settings):
        owner = owners("digits", setting.partition, 12)
        with torch.no_grad():
            outputs = module_of(program, at, lane)(data.test_x.float())
        for m in range(12):
            rows = torch.isin(data.test_y, data.y[torch.from_numpy(owner == m)].unique())
            for name in names:
                own = plainly(name, outputs[rows], data.test_y[rows], data)
                np.testing.assert_allclose(at.history[f"site/{name}"][-1][1][lane, m], own, rtol=1e-4, err_msg=name)


def test_metrics_change_nothing_in_training() -> None:
    common = {"clients": 6, "rounds": 4, "partition": "exdir:C=2,alpha=10"}
    (_, plain), (_, asked) = finish([Setting(**common)]), finish([Setting(**common, metrics="auc,per_class")])
    for name, leaf in plain.state.model.items():
        assert torch.equal(leaf, asked.state.model[name])
    for name in plain.history:
        for (a, x), (b, y) in zip(plain.history[name], asked.history[name], strict=True):
            assert a == b
            np.testing.assert_array_equal(x, y)
    assert not [name for name in plain.history if "site" in name or "class" in name]
    per_class = [asked.history[f"class_{c}_accuracy"][-1][1][0] for c in range(10)]
    counts = np.bincount(datasets.load("digits", 6).test_y)
    whole = asked.history["test_accuracy"][-1][1][0]
    assert np.average(per_class, weights=counts) == pytest.approx(whole)


def test_of_many_clients_a_sample_is_measured_the_same_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_site, "MOST", 5)
    common = {"clients": 30, "participants": 3, "rounds": 1, "metrics": "accuracy"}
    found = [Program([Setting(**common, seed=seed)], CPU).evaluate.measured for seed in (1, 2)]
    assert found[0]
    assert found[1]
    assert found[0].names == found[1].names
    assert len(set(found[0].names)) == 5
    assert "5 of 30 clients" in found[0].how


def test_one_logit_is_trained_and_told_as_what_it_is() -> None:
    common = {**HOSPITALS, "rounds": 30, "eval_every": 30, "lr": 0.3}
    _, one = finish([Setting(**common, model="user_modules:one_logit")])
    _, two = finish([Setting(**common)])
    accuracy = [at.history["test_accuracy"][-1][1][0] for at in (one, two)]
    assert min(accuracy) > 70
    assert abs(accuracy[0] - accuracy[1]) < 5
    line = refused({**HOSPITALS, "model": "user_modules:one_logit:width=3"})
    assert line.startswith("model: 'user_modules:one_logit:width=3' puts out (1, 3) for one sample of")
    assert line.endswith("which has 2 classes; (1, 2) or (1, 1) is right")
    assert "which has 10 classes; (1, 10) is right" in refused({"model": "user_modules:one_logit"})


@pytest.mark.parametrize("unowned", [False, True])
def test_where_each_client_has_a_model_of_its_own_it_answers_its_own_rows(unowned: bool) -> None:
    spec = "user_modules:hospitals:unowned=true" if unowned else "user_modules:hospitals"
    setting = Setting(**{**HOSPITALS, "dataset": spec}, algorithm="user_modules:alone", metrics="auc,accuracy")
    program, at = finish([setting])
    data = datasets.load(spec, 4)
    outputs = []
    for m in range(4):
        module = program.net.build()
        module.load_state_dict({name: leaf[0, m] for name, leaf in at.state.server.items()})
        with torch.no_grad():
            outputs.append(module(data.test_x))
    last = {name: at.history[name][-1][1][0] for name in at.history}
    if unowned:  # every client holds both classes: all test rows are its own
        own = [plainly("auc", out, data.test_y, data) for out in outputs]
        assert last["test_auc"] == pytest.approx(np.mean(own), rel=1e-5)
        assert last["test_accuracy"] == pytest.approx(
            np.mean([plainly("accuracy", o, data.test_y, data) for o in outputs])
        )
    else:
        own = [
            plainly("auc", outputs[m][data.test_owner == m], data.test_y[data.test_owner == m], data) for m in range(4)
        ]
        mixed = torch.stack(outputs)[data.test_owner, torch.arange(len(data.test_y))]
        for name in ("auc", "accuracy", "loss"):
            assert last[f"test_{name}"] == pytest.approx(plainly(name, mixed, data.test_y, data), rel=1e-5)
    np.testing.assert_allclose(last["site/auc"], own, rtol=1e-5)
    losses = []
    for m in range(4):
        mine = data.owner == m
        module = program.net.build()
        module.load_state_dict({name: leaf[0, m] for name, leaf in at.state.server.items()})
        losses.append(data.loss(module(data.x[mine]), data.y[mine]).detach())
    assert last["train_loss"] == pytest.approx(float(torch.cat(losses).mean()), rel=1e-5)


def matrix(store: Store, setting: Setting) -> sites.SiteTable:
    found = store.sites(setting.run_id)
    assert found is not None
    return found


def test_sites_lie_beside_a_run_and_are_checked(tmp_path: Path) -> None:
    setting = Setting(**HOSPITALS)
    run(setting, runs=tmp_path)
    store = Store(tmp_path)
    found = matrix(store, setting)
    assert (found.rounds, found.names, sum(found.rows)) == ([0, 3, 6], ["Basel, CH", "Lyon", "Turin", "Graz"], 240)
    table = store.read(setting.run_id).metrics
    np.testing.assert_allclose(found.values["auc"].mean(1), table["site_auc_mean"], rtol=1e-6)
    assert not verify(store).faults
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=tmp_path / setting.run_id, check=True)
    file = tmp_path / setting.run_id / sites.NAME
    file.write_bytes(file.read_bytes().replace(b"Lyon", b"Lyom"))
    assert "sites.csv is damaged" in verify(store).faults[0].what
    file.unlink()
    assert verify(store).faults


@pytest.mark.parametrize("text", ["", "round,site,n,auc\n0,a\n", "round,site,n,auc\n0,a,1,x\n", "a,b,c\n1,2,3\n"])
def test_a_file_that_is_no_table_of_sites_is_damaged(text: str) -> None:
    with pytest.raises(BadInput, match=r"sites\.csv is damaged"):
        sites.from_csv(text.encode())


def test_a_longer_run_goes_on_with_the_sites_of_its_beginning(tmp_path: Path) -> None:
    short, long = (Setting(**{**HOSPITALS, "rounds": rounds}) for rounds in (3, 9))
    run(short, runs=tmp_path / "a")
    for folder in ("a", "b"):
        run(long, runs=tmp_path / folder)
    for name in (sites.NAME, "metrics.csv"):
        assert len({(tmp_path / f / long.run_id / name).read_bytes() for f in ("a", "b")}) == 1


def test_killed_and_started_again_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    words = [
        "run",
        "-d",
        "user_modules:hospitals",
        "-p",
        "natural",
        "-M",
        "4",
        "-R",
        "1500",
        "--eval-every",
        "50",
        "-q",
    ]
    command = [
        sys.executable,
        "-m",
        "baton",
        *words,
        "--checkpoint-seconds",
        "0",
        "--eval-every",
        "50",
        "--metrics",
        "auc,per_class",
    ]
    options = {"env": {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, "cwd": tmp_path}
    with processes.start([*command, "--runs", "killed"], **options) as process:
        while not list(tmp_path.glob("killed/.work/chunks/*/at-*")) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    for folder in ("killed", "whole"):
        subprocess.run([*command, "--runs", folder], check=True, **options)
    for name in (sites.NAME, "metrics.csv"):
        assert len({next(tmp_path.glob(f"{folder}/*/{name}")).read_bytes() for folder in ("killed", "whole")}) == 1


def test_sites_are_shown_and_exported(tmp_path: Path) -> None:
    words = ["-d", "user_modules:hospitals", "-p", "natural", "-M", "4", "-R", "4", "--metrics", "auc,per_class"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "COLUMNS": "80"}

    def baton(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "baton", *words], capture_output=True, text=True, env=env, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = baton("run", *words).partition("accuracy by class, %:")[2]
    assert "each site on its own test rows" in shown
    assert all(name in shown for name in ("Basel, CH", "Graz", "worst", "spread"))
    assert max(map(len, shown.splitlines())) <= 80
    baton("export", "--to", "csv", "--out", "all.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "all-sites.csv").read_text())))
    assert len(rows) == 2 * 4
    assert set(rows[0]) == {"run", "round", "site", "n", "metric", "value"}
    head = (tmp_path / "all.csv").read_text().splitlines()[0].split(",")
    assert {"test_auc", "site_auc_worst", "class_1_accuracy"} < set(head)


TABLE = {
    "base": {**HOSPITALS, "metrics": "auc,accuracy,per_class"},
    "axes": {"algorithm": ["sequential", "parallel"], "seed": [1, 2]},
    "report": {"metric": "test_auc", "also": ["site_auc_worst"], "target": 0.5, "last": 2, "over": ""},
}


def test_the_report_has_sites_classes_and_a_target(tmp_path: Path) -> None:
    shown = study.parse("sited", TABLE)
    for setting in shown.settings:
        run(setting, runs=tmp_path / "runs")
    store = Store(tmp_path / "runs")
    page = report([shown], store, tmp_path / "out").read_text()
    for title in ("Site by site", "Class by class", "To the target", "AUC, the worst site"):
        assert title in page
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "sited-sites.csv").read_text())))
    own = [matrix(store, s).values["auc"][-1, 1] for s in shown.settings if s.algorithm == "sequential"]
    lyon = next(row for row in rows if row["site"] == "Lyon")
    mean, half = map(float, lyon["sequential"].split(" ± "))
    assert mean == pytest.approx(np.mean(own), abs=6e-4)
    assert half == pytest.approx(interval(own).half, abs=6e-4)
    target = list(csv.DictReader(io.StringIO((tmp_path / "out" / "sited-target.csv").read_text())))
    first = store.read(shown.settings[0].run_id).metrics
    assert int(target[0]["rounds to 0.5 test AUC"]) in first["round"]
    assert {f"sited-sites.{end}" for end in ("svg", "pdf", "png", "csv", "md", "tex")} <= set(
        os.listdir(tmp_path / "out")
    )


@pytest.mark.parametrize(
    ("metric", "asked", "line"),
    [
        ("test_auk", "auc", r"no metric 'test_auk'; did you mean 'test_auc'\?"),
        ("test_f1", "auc", "no run of this study measures 'test_f1'; metrics = 'f1' in .base. is right"),
        ("site_f1_worst", "none", "no run of this study measures 'site_f1_worst'"),
    ],
)
def test_what_a_study_reports_is_checked_before_it_trains(metric: str, asked: str, line: str) -> None:
    with pytest.raises(BadInput, match=line):
        study.parse("sited", {"base": {"metrics": asked}, "report": {"metric": metric}})


def test_what_data_sets_call_for_is_checked_with_them() -> None:
    from baton.study import measured

    plain = study.parse("plain", {"report": {"metric": "test_auc"}})  # nobody knows yet
    with pytest.raises(BadInput, match="no run of this study measures 'test_auc'"):
        measured.check(plain.report, plain.settings, load=True)
    own = study.parse("own", {"base": HOSPITALS, "report": {"metric": "site_auc_mean"}})
    measured.check(own.report, own.settings, load=True)


def test_every_lane_has_its_own_sites() -> None:
    program, seen = stages([Setting(**HOSPITALS, seed=seed, lr=lr) for seed, lr in ((1, 0.1), (2, 0.5))])
    alone = stages([Setting(**HOSPITALS, seed=2, lr=0.5)])[1]
    np.testing.assert_allclose(
        seen[-1].history["site/auc"][-1][1][1], alone[-1].history["site/auc"][-1][1][0], rtol=1e-5
    )
    assert program.evaluate.measured is not None
