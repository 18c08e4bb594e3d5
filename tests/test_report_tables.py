"""The report's tables: laid out as the paper's, in LaTeX, beside the paper's numbers, and what a search tried."""

import csv
import io
import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import handmade
from baton import paper, study
from baton import report as reports
from baton.errors import BadInput
from baton.report import compare, figures, findings, grid, interactive, latex, layout, sheets, tables, words
from baton.report.grid import leader, leaders
from baton.report.published import results
from baton.report.thin import Room
from baton.seam import State
from baton.setting import Setting
from baton.store import History, Run, Snapshot, Store
from baton.study import Report, Study, fields

Series = Callable[[Setting], Sequence[float] | None]  # one value an evaluation from round 0; None: not run
SEQUENTIAL, PARALLEL = "sequential", "parallel"
SEEN = "Each line's lr was chosen on the test set."


def make(name: str = "small", **changes: Any) -> Study:
    table: dict[str, Any] = {
        "names": {"C = 1": "exdir:C=1,alpha=10", "C = 2": "exdir:C=2,alpha=10"},
        "base": {"rounds": 8, "eval_every": 2},
        "axes": {
            "partition": ["C = 1", "C = 2"],
            "local_steps": [5, 20],
            "algorithm": [PARALLEL, SEQUENTIAL],
            "lr": [0.1, 0.5],
            "seed": [1, 2],
        },
        "report": {
            "last": 2,
            "spread": "paper",
            "across": ["partition", "local_steps"],
            "down": ["dataset", "algorithm"],
        },
    }
    for key, value in changes.items():
        table[key] = {**table.get(key, {}), **value} if key in ("base", "axes", "report") else value
    return study.parse(name, table)


def put(store: Store, setting: Setting, values: Sequence[float]) -> None:
    """A run by hand; one that ends early, or in nan, diverged there."""
    rounds = [setting.eval_every * i for i in range(len(values))]
    ends = rounds[-1] == setting.rounds and not math.isnan(values[-1])
    history = {"test_accuracy": [(r, np.array([float(x)])) for r, x in zip(rounds, values, strict=True)]}
    lost = torch.tensor([-1 if ends else rounds[-1]])
    at = Snapshot(setting.rounds, State({"x": torch.zeros(1, 1)}), {}, lost, History(history))
    handmade.finish(store, setting, at)


def fill(store: Store, shown: Study, values: Series) -> Store:
    handmade.without_data(shown.settings)
    for setting in shown.settings:
        if (given := values(setting)) is not None:
            put(store, setting, given)
    return store


def ending(*end: float) -> list[float]:
    """Five evaluations that end so."""
    return [*[50.0] * (5 - len(end)), *end]


def look(shown: Study, store: Store) -> tuple[grid.Found, list[grid.Panel]]:
    found = grid.load(shown, store)
    return found, grid.panels(shown, found)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def by_hand(s: Setting) -> list[float]:
    """70 + K/10, parallel 5 less at C = 1; the better rate 0.1; seeds one apart, the last evaluations two apart."""
    less = 5.0 if (s.algorithm, s.partition[:9]) == (PARALLEL, "exdir:C=1") else 0.0
    top = 70 + s.local_steps / 10 - less - 10 * (s.lr == 0.5) + s.seed
    return ending(top - 1, top + 1)


def read_csv(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode())))


# The paper's form


def test_a_layout_has_the_fields_where_they_were_asked_for(store: Store) -> None:
    shown = make(report={"margin": 2.0})
    made = layout.tables(shown, look(shown, fill(store, shown, by_hand))[1])
    assert made is not None
    assert made["head"] == [
        [("Setup", 2), ("C = 1", 2), ("C = 2", 2)],
        [("Data set", 1), ("Algorithm", 1), ("K = 5", 1), ("K = 20", 1), ("K = 5", 1), ("K = 20", 1)],
    ]
    std = f"{np.std([70, 72, 71, 73]):.2f}"
    texts = [[(cell["text"], cell["strong"], cell["span"]) for cell in row] for row in made["body"]]
    assert texts == [
        [
            ("digits", False, 2),
            ("parallel", False, 1),
            (f"67.00 ± {std}", False, 1),
            (f"68.50 ± {std}", False, 1),
            (f"72.00 ± {std}", False, 1),
            (f"73.50 ± {std}", False, 1),
        ],
        [
            ("sequential", False, 1),
            (f"72.00 ± {std}", True, 1),
            (f"73.50 ± {std}", True, 1),
            (f"72.00 ± {std}", False, 1),
            (f"73.50 ± {std}", False, 1),
        ],
    ]
    assert made["caption"].endswith("at the best lr, chosen on the test set. Bold: better by more than 2.")
    assert "over 2 seeds and the last 2 evaluations" in made["caption"]
    files = layout.files(shown, look(shown, store)[1])
    assert set(files) == {"small-layout.csv", "small-layout.md"}
    head, first, second = read_csv(files["small-layout.csv"])
    assert head[:4] == ["dataset", "algorithm", "C = 1, K = 5", "C = 1, K = 5 std"]
    assert first[:2] == ["digits", "parallel"]
    assert float(first[2]) == pytest.approx(67)
    assert float(second[3]) == pytest.approx(np.std([70, 72, 71, 73]))
    assert f"| digits | sequential | **72.00 ± {std}** |" in files["small-layout.md"].decode()


def test_no_layout_without_fields(store: Store) -> None:
    shown = make(report={"across": [], "down": []})
    found, panels = look(shown, fill(store, shown, by_hand))
    assert layout.tables(shown, panels) is None
    assert layout.files(shown, panels) == {}
    assert set(latex.files(shown, panels, found)) == {"small.tex"}


@pytest.mark.parametrize(
    ("down", "across", "size"),
    [([], ["partition", "local_steps", "algorithm"], (1, 8)), (["partition", "local_steps", "algorithm"], [], (8, 1))],
)
def test_one_side_may_be_empty(store: Store, down: list[str], across: list[str], size: tuple[int, int]) -> None:
    shown = make(report={"down": down, "across": across})
    made = layout.tables(shown, look(shown, fill(store, shown, by_hand))[1])
    assert made is not None
    assert (len(made["body"]), sum(not cell["head"] for cell in made["body"][0])) == size
    assert {sum(n for _, n in row) for row in made["head"]} == {len(down) + size[1]}


def test_cells_that_are_not_there_say_why(store: Store) -> None:
    def some(s: Setting) -> list[float] | None:
        if s.algorithm == SEQUENTIAL:
            return [50.0, 60.0] if s.local_steps == 5 else None  # diverged at round 2; not run
        return by_hand(s) if s.seed == 1 else None

    groups = {"one": {"partition": "C = 1"}, "two": {"partition": "C = 2", "algorithm": PARALLEL}}
    shown = make(groups=groups)
    made = layout.form(shown, look(shown, fill(store, shown, some))[1])
    assert made is not None
    texts = [[made.cell(row, column)["text"] for column in made.columns] for row in made.rows]
    assert texts[1] == ["diverged", "not run", "–", "–"]
    assert texts[0][0] == "66.50 ± 1.00"
    assert made.cell(made.rows[0], made.columns[0])["note"] == "1 of 2 seeds"
    assert made.cell(made.rows[0], made.columns[0])["strong"]  # better than what diverged
    assert not made.cell(made.rows[0], made.columns[1])["strong"]  # the other has not run
    files = layout.files(shown, look(shown, store)[1])
    assert "| **66.50 ± 1.00** (1 of 2 seeds) |" in files["small-layout.md"].decode()
    line = read_csv(files["small-layout.csv"])[2]
    assert line == ["digits", "sequential", "nan", "nan", "", "", "", "", "", ""]


def rates(s: Setting) -> list[float] | None:
    """Parallel is best at 0.1, sequential at 0.003 and, to two digits, at 0.01; 0.3 diverged."""
    by_rate = {
        PARALLEL: {-4: 60.0, -3: 70.0, -2: 80.0, -1: math.nan},
        SEQUENTIAL: {-5: 90.004, -4: 90.001, -3: 20.0, -2: 10.0},
    }
    return ending(by_rate[s.algorithm][round(2 * math.log10(s.lr))])


def swept(**report: Any) -> Study:
    cases = [
        {"algorithm": PARALLEL, "clip": 10.0, "axes": {"lr": [0.01, 0.03, 0.1, 0.3]}},
        {"algorithm": SEQUENTIAL, "clip": 50.0, "axes": {"lr": [0.003, 0.01, 0.03, 0.1]}},
    ]
    where = {"down": ["dataset", "model", "partition", "local_steps"], "across": ["algorithm", "lr"], "last": 1}
    axes = {"partition": ["C = 1"], "local_steps": [5], "seed": [1]}
    return study.parse(
        "swept",
        {
            "names": {"C = 1": "exdir:C=1,alpha=10"},
            "base": {"rounds": 8, "eval_every": 2, "dataset": "mnist", "model": "logistic"},
            "axes": axes,
            "cases": cases,
            "report": {"spread": "paper", **where, **report},
        },
    )


def test_a_swept_field_may_have_columns_of_its_own(store: Store) -> None:
    shown = swept()
    made = layout.tables(shown, look(shown, fill(store, shown, rates))[1])
    assert made is not None
    assert made["head"] == [
        [("Setup", 4), ("parallel", 4), ("sequential", 4)],
        [
            *((title, 1) for title in ("Data set", "Model", "Partition", "K")),
            *((lr, 1) for lr in ("0.01", "0.03", "0.1", "0.3", "0.003", "0.01", "0.03", "0.1")),
        ],
    ]
    assert [cell["text"] for cell in made["body"][0]] == [
        *("MNIST", "logistic", "C = 1", "5"),
        *("60.00", "70.00", "80.00", "diverged", "90.00", "90.00", "20.00", "10.00"),
    ]
    assert [i for i, cell in enumerate(made["body"][0]) if cell["strong"]] == [6, 8, 9]  # what reads the same, too
    assert made["caption"] == (
        "Test accuracy (%): mean over 1 seed and the last evaluation, by lr. Bold: the best lr, chosen on the test set."
    )


def test_any_field_can_be_swept_and_laid_out(store: Store) -> None:
    axes = {"lr": [0.1], "clip": [0.0, 20.0, 5.0], "local_steps": [5], "partition": ["C = 1"]}
    shown = make(axes=axes, report={"over": "clip", "down": ["algorithm"], "across": ["clip"]})
    fill(store, shown, lambda s: ending(60 + s.clip / 10 * (1 if s.algorithm == PARALLEL else -1)))
    made = layout.tables(shown, look(shown, store)[1])
    assert made is not None
    assert made["head"] == [[("Algorithm", 1), ("none", 1), ("20", 1), ("5", 1)]]
    assert [[cell["strong"] for cell in row] for row in made["body"]] == [
        [False, False, True, False],
        [False, True, False, False],
    ]


def test_lines_and_figures_may_be_any_field(store: Store) -> None:
    cases = [
        {"algorithm": "parallel:weighting=size", "axes": {"clip": [0.0, 10.0]}},
        {"algorithm": SEQUENTIAL, "axes": {"clip": [0.0, 50.0]}},
    ]
    axes = {"local_steps": [5], "lr": [0.1], "seed": [1]}
    table = {
        "base": {"rounds": 8, "eval_every": 2},
        "axes": axes,
        "cases": cases,
        "report": {
            "last": 1,
            "spread": "paper",
            "lines": "clip",
            "figures": "algorithm",
            "down": ["clip"],
            "across": ["algorithm"],
        },
    }
    shown = study.parse("clips", table)
    found, panels = look(shown, fill(store, shown, lambda s: ending(60 + s.clip)))
    made = layout.tables(shown, panels)
    assert made is not None
    assert made["head"] == [[("clip", 1), ("parallel", 1), ("sequential", 1)]]
    assert [[c["text"] for c in row] for row in made["body"]] == [
        ["none", "60.00 ± 0.00", "60.00 ± 0.00"],
        ["10", "70.00 ± 0.00", "–"],
        ["50", "–", "110.00 ± 0.00"],
    ]
    text = tables.to_md(shown, tables.rows(shown, panels)).decode()
    assert "| algorithm | group | clip = none | clip = 10 | clip = 50 |" in text
    assert "| parallel | all | 60.00 ± 0.00 (lr 0.1) | **70.00 ± 0.00** (lr 0.1) |  |" in text
    assert read_csv(tables.to_csv(shown, tables.rows(shown, panels)))[1][:3] == [
        "parallel:weighting=size",
        "all",
        "0.0",
    ]
    assert findings.findings(shown, panels) == [
        "parallel: clip = 10 is ahead in 1 of 1 group.",
        "sequential: clip = 50 is ahead in 1 of 1 group.",
    ]
    assert columns(latex.files(shown, panels, found)["clips.tex"].decode()) == 5


def test_layouts_that_cannot_be_are_one_line(store: Store) -> None:
    for report, told in (
        ({"down": ["algorithm"], "across": ["seed"]}, "'seed' is averaged over"),
        ({"down": ["algorithm"], "across": ["algorithm"]}, "'algorithm' is there twice"),
        ({"down": ["algorithm"], "across": ["partition"]}, "results differ in 'local_steps' too"),
    ):
        shown = make(report=report)
        _, panels = look(shown, fill(store, shown, by_hand))
        with pytest.raises(BadInput, match=re.escape(told)) as error:
            layout.form(shown, panels)
        assert "\n" not in str(error.value)


FIELDS = {"local_steps": [1, 2, 5], "batch_size": [10, 20], "algorithm": [PARALLEL, SEQUENTIAL], "lr": [0.1, 0.5, 1.0]}


def in_memory(shown: Study, kept: Callable[[Setting], bool]) -> list[grid.Panel]:
    """Panels of runs whose score is their place in the study."""
    runs = {}
    for i, s in enumerate(shown.settings):
        if kept(s):
            metrics = {"round": np.array([float(s.rounds)]), "test_accuracy": np.array([float(i)])}
            runs[s.run_id] = Run(s, metrics, True, None)
    return grid.panels(shown, grid.Found(runs, [], shown.settings))


@given(st.data())
def test_a_layout_never_loses_a_cell(data: st.DataObject) -> None:
    axes = {f: data.draw(st.lists(st.sampled_from(x), min_size=1, unique=True), label=f) for f, x in FIELDS.items()}
    order = data.draw(st.permutations([f for f in FIELDS if f != "lr"]), label="order")
    places = [*order, "lr"] if data.draw(st.booleans(), label="lr has a place") else list(order)
    cut = data.draw(st.integers(0, len(places)), label="rows")
    report = {"down": places[:cut], "across": places[cut:], "last": 1}
    shown = study.parse("any", {"base": {"rounds": 2, "eval_every": 2}, "axes": axes, "report": report})
    gone = data.draw(st.sets(st.integers(0, len(shown.settings) - 1)), label="gone")
    left = {s.run_id for i, s in enumerate(shown.settings) if i not in gone}
    panels = in_memory(shown, lambda s: s.run_id in left)
    made, form = layout.tables(shown, panels), layout.form(shown, panels)
    assert made is not None
    assert form is not None
    held = [cell["point"].mean for cell in form.cells.values() if cell["point"]]
    curves = [curve for panel in panels for curve in panel.curves.values()]
    points = [p for c in curves for p in (c.points if "lr" in places else [c.best] if c.best else [])]
    assert Counter(held) == Counter(point.mean for point in points)
    read = [row[len(report["down"]) :: 2] for row in read_csv(layout.files(shown, panels)["any-layout.csv"])[1:]]
    assert Counter(float(x) for row in read for x in row if x) == Counter(held)
    width = len(form.down) + len(form.columns)
    assert all(sum(n for _, n in row) == width for row in made["head"])
    covered = Counter[int]()  # rows that heads above reach into
    for i, row in enumerate(made["body"]):
        assert len(row) + covered[i] == width
        for cell in row:
            covered.update(range(i + 1, i + cell["span"]))


# LaTeX


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("50 % of a_b & c#1", r"50 \% of a\_b \& c\#1"),
        ("δ = 1/3, ζ* = 10", r"$\delta=1/3$, $\zeta_*=10$"),
        ("ExDir(C, α), ζ*", r"ExDir(C, $\alpha$), $\zeta_*$"),
        ("C = 1, K = 20, lr = 0.1", "$C=1$, $K=20$, lr = 0.1"),
        ("10^-1.5, 2^3", r"$10^{-1.5}$, 2\textasciicircum{}3"),
        ("3.1e-05 ± -2", r"$3.1\cdot10^{-5}$ $\pm$ $-$2"),
        (r"\input{x} $y$ ~*", r"\textbackslash{}input\{x\} \$y\$ \textasciitilde{}$*$"),
        ("[2ex] é 字", "{[}2ex{]} é {[}U+5B57{]}"),
        ("CIFAR-10, a\nb", "CIFAR-10, a b"),
    ],
)
def test_text_becomes_latex_that_prints_it(text: str, made: str) -> None:
    assert latex.escape(text) == made


def balanced(text: str) -> None:
    bare = re.sub(r"\\[\\{}$&%#_]", "", text)
    depth = 0
    for sign in bare:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0, text
    assert depth == 0, text
    assert bare.count("$") % 2 == 0, text


@given(st.text(alphabet=st.one_of(st.sampled_from("C = 1,δζ*10^-.5e[]\\{}$%_&#~|\n"), st.characters())))
def test_escaped_text_keeps_everything_balanced(text: str) -> None:
    made = latex.escape(text)
    balanced(made)
    outside = re.sub(r"\$[^$]*\$", "", re.sub(r"\\[\\{}$&%#_]", "", made))
    assert not set(outside) & set("&%#_^~$*<>|")
    assert "\n" not in made
    balanced(latex.cell(f"{text} ± {text}", strong=True, note=text))


def columns(tex: str) -> int:
    """How many columns a table has, every line of it filling them."""
    found = re.search(r"\\begin\{tabular\}\{(l+)\}", tex)
    assert found
    for line in tex.splitlines():
        if line.endswith(r"\\"):
            bare = line.replace(r"\&", "")
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", bare)]
            assert bare.count("&") + 1 + sum(spans) - len(spans) == len(found[1]), line
    balanced(tex.split("\n", 1)[1])
    return len(found[1])


def test_a_table_in_latex_by_hand(store: Store) -> None:
    shown = make(title="50 %\nof it", report={"margin": 2.0, "figures": "local_steps"})
    found, panels = look(shown, fill(store, shown, by_hand))
    made = {name: data.decode() for name, data in latex.files(shown, panels, found).items()}
    assert set(made) == {"small.tex", "small-layout.tex"}
    for tex in made.values():
        assert tex.startswith(
            "% Study small: 50 % of it. Needs \\usepackage{booktabs,multirow,graphicx}.\n\\begin{table}"
        )
        for part in (
            r"\toprule",
            r"\midrule",
            r"\bottomrule",
            r"\caption{Test accuracy (\%): mean $\pm$",
            r"\label{tab:",
        ):
            assert tex.count(part) >= 1
    std = f"{np.std([70, 72, 71, 73]):.2f}"
    plain, form = made["small.tex"], made["small-layout.tex"]
    assert columns(plain) == 4
    assert "K & Group & parallel & sequential \\\\\n\\midrule\n" in plain
    cell = rf"67.00\tiny{{$\pm${std} (lr 0.1)}} & \textbf{{72.00}}\tiny{{$\pm${std} (lr 0.1)}} \\"
    assert rf"\multirow{{2}}{{*}}{{5}} & $C=1$ & {cell}" in plain
    assert "\n & $C=2$ & " in plain
    assert columns(form) == 6
    head = r"\multicolumn{2}{c}{Setup} & \multicolumn{2}{c}{$C=1$} & \multicolumn{2}{c}{$C=2$} \\"
    assert (
        f"{head}\n\\cmidrule(lr){{1-2}}\\cmidrule(lr){{3-4}}\\cmidrule(lr){{5-6}}\nData set & Algorithm & $K=5$" in form
    )
    assert rf"\multirow{{2}}{{*}}{{digits}} & parallel & 67.00\tiny{{$\pm${std}}} &" in form
    assert rf" & sequential & \textbf{{72.00}}\tiny{{$\pm${std}}} &" in form


def test_missing_runs_are_said_in_the_caption(store: Store) -> None:
    shown = make()
    found, panels = look(shown, fill(store, shown, lambda s: by_hand(s) if s.seed == 1 else None))
    for data in latex.files(shown, panels, found).values():
        assert b"16 of 32 runs are missing.}" in data
        assert b"1 of 2 seeds)}" in data


def can_compile() -> bool:
    if not shutil.which("pdflatex") or not shutil.which("kpsewhich"):
        return False
    return all(
        subprocess.run(["kpsewhich", f"{name}.sty"], capture_output=True, check=False).returncode == 0
        for name in latex.PACKAGES
    )


@pytest.mark.skipif(not can_compile(), reason="pdflatex or a package that the tables need is not installed here")
def test_what_is_written_compiles(store: Store, tmp_path: Path) -> None:
    groups = {'[2ex] \\{$%_^&#~*<>|"字é δ = 1/3, ζ* = 10 √x² ≥ 1e-05': {"partition": "C = 1"}}
    shown = make(groups=groups, title="\\bad{", report={"figures": "local_steps"})
    found, panels = look(shown, fill(store, shown, by_hand))
    wide = swept(paper="grid")
    more = look(wide, fill(store, wide, rates))
    rows = compare.rows(wide, more[1], more[0])
    made = latex.files(shown, panels, found) | latex.files(wide, more[1], more[0]) | compare.files(wide, rows)
    inputs = [name for name in made if name.endswith(".tex")]
    for name in inputs:
        (tmp_path / name).write_bytes(made[name])
    body = "".join(f"\\input{{{name}}}\n" for name in inputs)
    packages = ",".join(latex.PACKAGES)
    text = f"\\documentclass{{article}}\\usepackage{{{packages}}}\n\\begin{{document}}\n{body}\\end{{document}}\n"
    (tmp_path / "all.tex").write_text(text)
    call = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    assert len(inputs) == 5


# Beside the paper


def published(**report: Any) -> Study:
    """Logistic regression on MNIST as in the paper's tables, five evaluations long."""
    return study.parse(
        "published",
        {
            "names": {"C = 1": "exdir:C=1,alpha=10"},
            "base": {"dataset": "mnist", "rounds": 1000, "eval_every": 250, "clients": 500, "participants": 10},
            "axes": {"local_steps": [5, 20], "partition": ["C = 1"], "seed": [1, 2, 3]},
            "cases": [
                {"algorithm": "parallel:weighting=size", "model": "logistic", "axes": {"lr": [0.01, 0.03]}},
                {"algorithm": SEQUENTIAL, "model": "logistic", "axes": {"lr": [0.003, 0.01]}},
            ],
            "report": {"last": 1, "spread": "paper", "margin": 1.0, "paper": "results", **report},
        },
    )


def ours(parallel5: float, sequential5: float, parallel20: float, sequential20: float) -> Series:
    """Seeds 0.3 apart around these, at the smaller learning rate; 5 less at the other."""
    means = {("p", 5): parallel5, ("s", 5): sequential5, ("p", 20): parallel20, ("s", 20): sequential20}

    def values(s: Setting) -> list[float]:
        less = 5.0 if s.lr in (0.03, 0.01) and (s.algorithm[0], s.lr) != ("p", 0.01) else 0.0
        return ending(means[s.algorithm[0], s.local_steps] - less + 0.3 * (s.seed - 2))

    return values


def compared(shown: Study, store: Store) -> list[dict[str, Any]]:
    found, panels = look(shown, store)
    rows = compare.rows(shown, panels, found)
    assert rows is not None
    return rows


def test_results_beside_the_paper_by_hand(store: Store) -> None:
    shown = published()
    rows = compared(shown, fill(store, shown, ours(91.0, 91.3, 89.0, 92.0)))
    assert [(row["group"], row["line"], row["paper"], row["paper_std"]) for row in rows] == [
        ("K = 5", "parallel", 91.10, 0.35),
        ("K = 5", "sequential", 91.09, 0.67),
        ("K = 20", "parallel", 89.46, 1.20),
        ("K = 20", "sequential", 87.11, 2.09),
    ]
    std = 0.3 * math.sqrt(2 / 3)
    for row, mean, apart in zip(rows, (91.0, 91.3, 89.0, 92.0), (-0.1, 0.21, -0.46, 4.89), strict=True):
        assert (row["ours"], row["ours_std"], row["seeds"]) == (pytest.approx(mean), pytest.approx(std), 3)
        assert row["difference"] == pytest.approx(apart)
        assert row["allowed"] == pytest.approx(2 * math.sqrt((std**2 + row["paper_std"] ** 2) / 3) + 0.5)
    assert [row["within"] for row in rows] == [True, True, True, False]
    assert [row["winner"] for row in rows] == [True, True, False, False]  # none ahead in both; ours the other way
    assert [row["why"] for row in rows] == ["agrees", "agrees", "agrees", "differs"]
    assert compare.summary(rows) == (
        "3 of 4 cells agree within the joint spread; largest difference +4.89 (K = 20, sequential); "
        "the same line, or none, is ahead in 1 of 2 groups."
    )
    assert "2 √(s²/n + S²/3) + 0.5 points apart" in compare.caption(shown, rows)
    files = compare.files(shown, rows)
    assert set(files) == {f"published-paper.{suffix}" for suffix in ("csv", "md", "tex")}
    head, *lines = read_csv(files["published-paper.csv"])
    last = dict(zip(head, lines[3], strict=True))
    assert float(last["difference"]) == rows[3]["difference"]
    assert (last["paper"], last["within"], last["winner"], last["peak"]) == ("87.11", "0", "0", "")
    assert "| K = 20 | sequential | 92.00 ± 0.24 | 87.11 ± 2.09 | +4.89 |" in files["published-paper.md"].decode()
    tex = files["published-paper.tex"].decode()
    assert columns(tex) == 7
    assert r" & sequential & 92.00\tiny{$\pm$0.24} & 87.11\tiny{$\pm$2.09} & +4.89 &" in tex
    assert r"\textbf{differs} \\" in tex


def test_what_cannot_be_compared_is_counted(store: Store) -> None:
    full = published()

    def some(s: Setting) -> list[float] | None:
        if s.local_steps == 20:
            return [50.0, math.nan] if s.algorithm == SEQUENTIAL else None
        return ours(91.0, 91.3, 0, 0)(s)

    rows = compared(full, fill(store, full, some))
    assert [row["why"] for row in rows] == ["agrees", "agrees", "not run", "ours diverged"]
    assert [row["within"] for row in rows] == [True, True, None, False]
    assert rows[3]["ours"] is None
    assert rows[2]["winner"] is None
    assert compare.summary(rows).startswith("2 of 3 cells agree within the joint spread; largest difference +0.21")
    assert compare.summary(rows).endswith("; 1 not run.")
    assert "A run of ours that diverged agrees with at most 10.5 %." in compare.caption(full, rows)
    table = read_csv(compare.files(full, rows)["published-paper.csv"])
    assert table[3][3:8] == ["", "", "0", "89.46", "1.2"]


def test_cells_that_the_paper_has_not(store: Store) -> None:
    shown = published()
    groups = {"all": [Setting(**{**s.model_dump(), "rounds": 750}) for s in shown.groups["all"]]}
    other = shown._replace(groups=groups)
    rows = compared(other, fill(store, other, lambda s: ours(91.0, 91.3, 89.0, 92.0)(s)[:4]))
    assert {(row["within"], row["why"], row["paper"]) for row in rows} == {(None, "not in the paper", None)}
    assert compare.summary(rows) == "No cell can be compared with the paper's; 4 not in the paper."
    assert "| – |" in compare.files(other, rows)["published-paper.md"].decode()


def test_scaled_runs_are_not_judged(store: Store, tmp_path: Path) -> None:
    text = """
    base = {dataset = "mnist", model = "logistic", partition = "exdir:C=1,alpha=10", rounds = 1000, eval_every = 125}
    axes = {algorithm = ["parallel", "sequential"], seed = [1, 2, 3]}
    report = {last = 1, paper = "results", margin = 1.0}
    """
    (tmp_path / "whole.toml").write_text(text)
    shown = study.read(tmp_path / "whole.toml", scale=0.5)
    rows = compared(shown, fill(store, shown, lambda s: ending(91.0 + s.seed)))
    assert [(row["why"], row["within"], row["allowed"], row["winner"]) for row in rows] == [
        ("scaled", None, None, None)
    ] * 2
    assert [row["paper"] for row in rows] == [91.10, 91.09]  # found by the rounds before scaling, and exdir's C
    assert compare.summary(rows) == "Scaled runs cannot be compared with the paper's."
    told = compare.caption(shown, rows)
    assert "Scaled by 0.5: 500 rounds instead of 1000, 2 seeds instead of 3." in told
    assert "nothing is judged" in told
    assert "Scaled by 0.5" in tables.caption(shown)


def test_each_learning_rate_beside_the_paper(store: Store) -> None:
    shown = published(paper="grid")
    rows = compared(shown, fill(store, shown, ours(91.0, 90.5, 89.0, 85.0)))
    assert [(row["value"], row["paper"]) for row in rows[:4]] == [
        ("lr = 0.01", 90.95),
        ("lr = 0.03", 89.81),  # the paper's 10^-1.5
        ("lr = 0.003", 90.68),
        ("lr = 0.01", 87.05),
    ]
    std = 0.3 * math.sqrt(2 / 3)
    assert rows[0]["allowed"] == pytest.approx(2 * std * math.sqrt(1 + 1 / 3) + 0.5)
    assert [row["within"] for row in rows[:4]] == [True, False, True, False]
    assert {row["peak"] for row in rows} == {True}
    assert compare.summary(rows).endswith("the same value is best on 4 of 4 lines.")
    assert "S²" not in compare.caption(shown, rows)
    alone = shown._replace(groups={"all": [s for s in shown.settings if s.seed == 2]})
    rows = compared(alone, fill(store, alone, lambda _: ending(80.0, 91.0, 90.0)))
    assert rows[0]["allowed"] == pytest.approx(0.5)  # one evaluation has no spread
    last_two = alone._replace(report=alone.report.model_copy(update={"last": 2}))
    assert compared(last_two, store)[0]["allowed"] == pytest.approx(2 * math.sqrt(2) * 0.5 + 0.5)


def test_the_papers_points_are_drawn_beside_ours(store: Store) -> None:
    shown = published(paper="grid")
    panels = look(shown, fill(store, shown, ours(91.0, 90.5, 89.0, 85.0)))[1]
    assert results(shown, panels[0]) == {
        "parallel:weighting=size": {0.01: 90.95, 0.03: 89.81},
        SEQUENTIAL: {0.003: 90.68, 0.01: 87.05},
    }
    sheet = sheets.sheets(shown, panels)[1]
    assert "Stars: the paper's." in sheets.caption(shown, sheet)[1]
    assert b"the paper" in figures.render(shown, sheet, ["svg"])["svg"].replace(b"\n", b"")
    drawn = interactive.figure(shown, sheet, Room(100, 100))["rows"][0]["panels"]
    assert drawn[0]["curves"][0]["paper"] == [[0.01, 90.95, "0.01"], [0.03, 89.81, "0.03"]]
    low, high = drawn[0]["range"]
    assert low < 78.45 < high, "the axis has room for them"
    best = published()  # beside a table that has no learning rates
    assert results(best, look(best, store)[1][0]) == {}


def test_both_diverged_is_agreement(store: Store) -> None:
    cases = [{"algorithm": SEQUENTIAL, "clip": 50.0, "axes": {"lr": [0.03, 0.1]}}]
    base = {"dataset": "cifar10", "model": "vgg9", "rounds": 1000, "eval_every": 250, "local_steps": 5, "clients": 500}
    names = {"C = 1": "exdir:C=1,alpha=10"}
    table = {
        "names": names,
        "base": {**base, "partition": "C = 1"},
        "cases": cases,
        "report": {"last": 1, "spread": "paper", "paper": "grid"},
    }
    shown = study.parse("vgg", table)
    rows = compared(shown, fill(store, shown, lambda s: [10.0, math.nan] if s.lr == 0.1 else ending(58.63)))
    assert [(row["paper"], row["within"], row["why"]) for row in rows] == [
        (58.63, True, "agrees"),
        (10.00, True, "both diverged"),
    ]
    assert [row["peak"] for row in rows] == [True, True]


def test_tables_without_results_and_other_metrics_are_one_line() -> None:
    for report, told in (
        ({"paper": "bounds"}, "table 'bounds' holds no results; cross_device or clipping"),
        ({"paper": "no"}, "no table named 'no'"),
        ({"metric": "test_loss"}, "the paper's tables give test_accuracy, not 'test_loss'"),
    ):
        shown = published(**report)
        with pytest.raises(BadInput, match=re.escape(told)):
            compare.rows(shown, [], grid.Found({}, [], []))
    assert compare.rows(published(paper=""), [], grid.Found({}, [], [])) is None
    assert compare.files(published(), None) == {}


def test_the_paper_agrees_with_itself() -> None:
    """Every cell of the table of results, as if it were ours."""
    listed = paper.table("results")
    fields = ("dataset", "model", "algorithm", "local_steps", "rounds")
    names = {"C = 1": "exdir:C=1,alpha=10", "C = 2": "exdir:C=2,alpha=10"}
    settings = [
        Setting(**{f: row[f] for f in fields}, partition=names[row["partition"]], lr=0.1, eval_every=1)
        for row in listed
    ]
    handmade.without_data(settings)
    shown = study.parse(
        "itself", {"names": names, "report": {"last": 1, "spread": "paper", "paper": "results", "margin": 1.0}}
    )
    shown = shown._replace(groups={"all": settings}, labels={("partition", spec): c for c, spec in names.items()})
    runs = {}
    for row, s in zip(listed, settings, strict=True):
        metrics = {"round": np.array([float(s.rounds)]), "test_accuracy": np.array([row["mean"]])}
        runs[s.run_id] = Run(s, metrics, True, None)
    found = grid.Found(runs, [], settings)
    rows = compare.rows(shown, grid.panels(shown, found), found)
    assert rows is not None
    assert len(rows) == 108
    assert {(row["within"], row["winner"], row["difference"]) for row in rows} == {(True, True, 0.0)}
    marked = {(row["group"], row["line"]) for row in rows}
    assert len(marked) == 108


# Searches


def searched(method: str, lrs: Sequence[float], **more: Any) -> Study:
    tune = {"on": "test", "method": method, "seed": 1, "short": 4, "within": 3.0, "last": 1}
    axes = {"partition": ["C = 1"], "local_steps": [5], "algorithm": [PARALLEL], "lr": list(lrs)}
    shape = {"clients": 10, "participants": 10, "rounds": 8, "eval_every": 1}
    return make("found", axes=axes, base=shape, tune={**tune, **more}, report={"last": 1})


def growing(slope: float, s: Setting) -> list[float]:
    return [slope * r + s.seed for r in range(s.rounds + 1)]


def test_a_simple_search_tells_every_score(store: Store) -> None:
    shown = searched("simple", [0.1, 0.5, 1.0])
    fill(store, shown, lambda s: [1.0, math.nan] if s.lr == 1.0 else growing(10 * s.lr, s))
    found, panels = look(shown, store)
    (row,) = tables.search_rows(shown, found)
    assert (row["group"], row["line"], row["best"], row["missing"]) == ("all", "parallel", "lr = 0.5", 0)
    assert (row["spent"], row["full"]) == (3 * 8 * 50, 3 * 8 * 50)
    (stage,) = row["stages"]
    assert (stage["rounds"], stage["why"]) == (8, "best of 3 after 8 rounds")
    assert [(s["name"], s["text"], s["kept"]) for s in stage["scores"]] == [
        ("lr = 0.1", "9.00", False),
        ("lr = 0.5", "41.00", True),
        ("lr = 1", "diverged", False),
    ]
    files = tables.search_files(shown, found)
    head, *lines = read_csv(files["found-search.csv"])
    assert head == ["group", "line", "stage", "rounds", "lr", "score", "kept", "why", "chosen"]
    assert [line[4:7] for line in lines] == [["0.1", "9.0", "0"], ["0.5", "41.0", "1"], ["1.0", "nan", "0"]]
    text = files["found-search.md"].decode()
    assert "| lr = 0.1: 9.00; **lr = 0.5: 41.00**; lr = 1: diverged | best of 3 after 8 rounds | lr = 0.5" in text
    assert "The search takes 1,200 of the 1,200 SGD steps of the whole grid (100%)." in text
    assert "(lr 0.5, " in tables.to_md(shown, tables.rows(shown, panels)).decode()
    told = tables.caption(shown)
    assert "at the lr that a search with seed 1 found, chosen on the test set (every value trained to" in told


def test_a_coarse_and_a_fine_stage(store: Store) -> None:
    shown = searched("coarse-fine", [0.1, 0.2, 0.3, 0.4])
    ends = {0.1: (20.0, 90.0), 0.2: (38.0, 60.0), 0.3: (40.0, 50.0), 0.4: (36.9, 99.0)}

    def values(s: Setting) -> list[float] | None:
        if s.seed == 2 and s.lr != 0.2:
            return None
        short, long = ends[s.lr]
        return [0.0] * 4 + [short] + [0.0] * 3 + [long]

    found, panels = look(shown, fill(store, shown, values))
    (row,) = tables.search_rows(shown, found)
    coarse, fine = row["stages"]
    assert [(s["name"], s["text"], s["kept"]) for s in coarse["scores"]] == [
        ("lr = 0.1", "20.00", False),
        ("lr = 0.2", "38.00", True),
        ("lr = 0.3", "40.00", True),
        ("lr = 0.4", "36.90", False),  # 3.1 below the best
    ]
    assert coarse["why"] == "within 3 of the best after 4 rounds"
    assert [(s["text"], s["kept"], s["chosen"]) for s in fine["scores"]] == [
        ("50.00", False, False),
        ("60.00", True, True),
    ]
    assert (row["best"], row["spent"], row["full"]) == ("lr = 0.2", 50 * (4 + 4 + 8 + 8), 50 * 32)
    (cell,) = tables.rows(shown, panels)[0]["cells"]
    assert (cell["text"], cell["note"], cell["numbers"]["lr"]) == ("60.00 ± 0.00", "lr 0.2", 0.2)
    assert findings.findings(shown, panels) == ["Only parallel was run, so that there is nothing to compare it with."]
    assert "(75%)" in tables.search_files(shown, found)["found-search.md"].decode()
    assert (
        "with seed 1, mean over the last evaluation. " in tables.search_files(shown, found)["found-search.md"].decode()
    )
    laid = shown._replace(report=shown.report.model_copy(update={"down": ["algorithm"], "across": ["lr"]}))
    made = layout.tables(laid, panels)
    assert made is not None
    assert [(c["text"], c["strong"]) for c in made["body"][0][1:]] == [
        ("90.00", False),  # runs that are there are shown, whether or not the search wanted them
        ("60.00", True),
        ("50.00", False),
        ("99.00", False),
    ]


def test_successive_halving(store: Store) -> None:
    shown = searched("halving", [0.1, 0.2, 0.3, 0.4])
    found, _ = look(shown, fill(store, shown, lambda s: growing(100 * s.lr, s)))
    (row,) = tables.search_rows(shown, found)
    assert [(stage["rounds"], [s["name"] for s in stage["scores"] if s["kept"]]) for stage in row["stages"]] == [
        (1, ["lr = 0.3", "lr = 0.4"]),
        (2, ["lr = 0.4"]),
        (8, ["lr = 0.4"]),
    ]
    assert [s["text"] for s in row["stages"][0]["scores"]] == ["11.00", "21.00", "31.00", "41.00"]
    assert (row["spent"], row["full"]) == (50 * (1 + 1 + 2 + 8), 50 * 32)
    assert len(read_csv(tables.search_files(shown, found)["found-search.csv"])) == 1 + 4 + 2 + 1


def test_a_search_that_is_not_finished_says_so(store: Store) -> None:
    shown = searched("simple", [0.1, 0.5])
    found, panels = look(shown, fill(store, shown, lambda s: growing(1, s) if s.lr == 0.1 else None))
    (row,) = tables.search_rows(shown, found)
    assert (row["stages"], row["best"], row["missing"]) == ([], "not known yet: 1 run to go", 1)
    text = tables.search_files(shown, found)["found-search.md"].decode()
    assert "| not known yet: 1 run to go |" in text
    assert "It is not finished: 1 run to go." in text
    assert tables.rows(shown, panels)[0]["cells"][0]["text"] == "not run"


def test_no_search_has_no_files(store: Store) -> None:
    shown = make()
    found, _ = look(shown, fill(store, shown, by_hand))
    assert tables.search_rows(shown, found) == []
    assert tables.search_files(shown, found) == {}


@pytest.mark.parametrize("method", ["simple", "coarse-fine", "halving"])
def test_a_line_whose_every_candidate_diverged_is_behind(store: Store, method: str) -> None:
    tune = searched(method, [0.1, 0.5]).tune
    both = make(
        "found",
        axes={"partition": ["C = 1"], "local_steps": [5]},
        base={"rounds": 8, "eval_every": 1},
        tune=tune.model_dump() if tune else {},
        report={"last": 1},
    )
    fill(store, both, lambda s: [1.0, math.nan] if s.algorithm == PARALLEL else growing(s.lr, s))
    found, panels = look(both, store)
    assert findings.findings(both, panels) == ["Sequential is ahead in 1 of 1 group.", SEEN]
    row = next(row for row in tables.search_rows(both, found) if row["line"] == "parallel")
    assert row["best"] == "all diverged"
    cells = tables.rows(both, panels)[0]["cells"]
    assert [cell["text"].split()[0] for cell in cells] == ["diverged", "5.50"]
    assert cells[1]["ahead"]


OPTION = "algorithm.server_lr"


def with_option(**changes: Any) -> Study:
    cases = [{"algorithm": SEQUENTIAL}, {"algorithm": PARALLEL, "axes": {OPTION: [0.5, 1.0, 2.0]}}]
    axes = {"partition": ["C = 1"], "local_steps": [5], "lr": [0.1], "seed": [1, 2]}
    table = {"names": {"C = 1": "exdir:C=1,alpha=10"}, "base": {"rounds": 8, "eval_every": 2}}
    return study.parse("option", {**table, "axes": axes, "cases": cases, **changes})


def by_option(s: Setting) -> list[float]:
    return ending(60 + 5 * (fields.value(s, OPTION) or 0) + s.seed)


@pytest.mark.parametrize("tune", [{}, {"tune": {"on": "test", "over": [OPTION]}}])
def test_an_option_can_be_swept_or_searched(store: Store, tune: dict[str, Any], tmp_path: Path) -> None:
    shown = with_option(report={"over": OPTION, "last": 1, "down": ["algorithm"], "across": [OPTION]}, **tune)
    _, panels = look(shown, fill(store, shown, by_option))
    (panel,) = panels
    assert {line: curve.best.value for line, curve in panel.curves.items() if curve.best} == {
        SEQUENTIAL: None,
        PARALLEL: 2.0,
    }
    (row,) = tables.rows(shown, panels)
    assert [(cell["text"], cell["note"]) for cell in row["cells"]] == [
        ("61.50 ± 6.35", ""),
        ("71.50 ± 6.35", f"{OPTION} 2"),
    ]
    made = layout.tables(shown, panels)
    assert made is not None
    assert made["head"] == [[("Algorithm", 1), ("none", 1), ("0.5", 1), ("1", 1), ("2", 1)]]
    if not tune:
        assert [c["text"] for c in made["body"][1]] == [PARALLEL, "–", "64.00", "66.50", "71.50"]
    assert reports.report([shown], store, tmp_path / "out").is_file()
    assert (tmp_path / "out" / f"option-{OPTION}.svg").is_file()


def test_an_option_can_be_a_line_a_figure_or_a_panel(store: Store) -> None:
    lines = with_option(report={"lines": OPTION, "last": 1})
    fill(store, lines, by_option)
    assert [list(panel.curves) for panel in look(lines, store)[1]] == [[None, 0.5, 1.0, 2.0]]
    assert words.lines(lines)[0.5] == f"{OPTION} = 0.5"
    figures = with_option(report={"figures": OPTION, "last": 1})
    assert [(p.figure, list(p.curves)) for p in look(figures, store)[1]] == [
        (None, [SEQUENTIAL]),
        (0.5, [PARALLEL]),
        (1.0, [PARALLEL]),
        (2.0, [PARALLEL]),
    ]
    rows = with_option(report={"down": [OPTION], "across": ["algorithm"], "last": 1})
    assert [p.group for p in look(rows, store)[1]] == [f"{OPTION} = {x}" for x in ("none", 0.5, 1, 2)]
    made = layout.tables(rows, look(rows, store)[1])
    assert made is not None
    assert [[c["text"].split()[0] for c in line] for line in made["body"]] == [
        ["none", "61.50", "–"],
        ["0.5", "–", "64.00"],
        ["1", "–", "66.50"],
        ["2", "–", "71.50"],
    ]


def test_specs_without_the_swept_option_are_not_mixed_with_those_that_have_it(store: Store) -> None:
    shown = with_option(report={"over": OPTION, "lines": "local_steps", "last": 1})
    _, panels = look(shown, fill(store, shown, by_option))
    assert [panel.group for panel in panels] == [SEQUENTIAL, PARALLEL]


def test_two_fields_searched_together(store: Store) -> None:
    axes = {"partition": ["C = 1"], "local_steps": [5], "algorithm": [PARALLEL], "lr": [0.1, 0.5], "clip": [0.0, 5.0]}
    places = {"down": ["algorithm"], "across": ["clip"], "last": 1}
    shown = make("two", axes=axes, tune={"on": "test", "over": ["lr", "clip"]}, report=places)
    fill(store, shown, lambda s: ending(60 + 10 * s.lr + s.clip * (1 if s.lr == 0.1 else -1)))
    found, panels = look(shown, store)
    table = tables.rows(shown, panels)
    assert table[0]["cells"][0]["note"] == "lr 0.1, clip 5"
    head, line = read_csv(tables.to_csv(shown, table))
    assert ",".join(head) == "group,algorithm,mean,std,lr,clip,seeds,complete,diverged,missing,ahead"
    assert line == ["all", "parallel", "66.0", "0.0", "0.1", "5.0", "2", "8", "0", "0", "0"]
    (row,) = tables.search_rows(shown, found)
    assert row["best"] == "lr = 0.1, clip = 5"
    made = layout.tables(shown, panels)
    assert made is not None
    assert made["head"] == [[("Algorithm", 1), ("none", 1), ("5", 1)]]
    assert [(c["text"], c["strong"]) for c in made["body"][0][1:]] == [("65.00", False), ("66.00", True)]
    assert words.names(shown, "clip") == {0.0: "none", 5.0: "5"}


@given(st.lists(st.floats(0, 100), min_size=2, max_size=6), st.floats(0, 5))
def test_those_who_are_ahead_are_so_by_more_than_the_margin(scores: list[float], margin: float) -> None:
    report = Report(margin=margin)
    found = leaders(dict(enumerate(scores)), report)
    behind = [x for place, x in enumerate(scores) if place not in found]
    ahead = sorted((scores[place] for place in found), reverse=True)
    if found:
        assert min(ahead) - max(behind) > margin
    close = ahead if found else sorted(scores, reverse=True)
    assert all(a - b <= margin for a, b in pairwise(close))
    assert leader(dict(enumerate(scores)), report) == (found[0] if len(found) == 1 else None)
