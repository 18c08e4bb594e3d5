"""The paper's tables: against its LaTeX source, cell by cell, where that is at hand; and against each other."""

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from baton.errors import BadInput
from baton.paper import TABLES, lookup, table

SOURCE = Path(__file__).parents[2] / "shared" / "paper"
DATASETS = {"MNIST": "mnist", "FMNIST": "fashion_mnist", "CIFAR-10": "cifar10", "CINIC-10": "cinic10"}
MODELS = {
    "Logistic": "logistic",
    "MLP": "mlp",
    "LeNet-5": "lenet5",
    "CNN": "cnn",
    "VGG-9": "vgg9",
    "ResNet-18": "resnet18",
}
ALGORITHMS = {"PFL": "parallel", "SFL": "sequential"}
IN_FACT = {"-2.5": 0.003, "-2.0": 0.01, "-1.5": 0.03, "-1.0": 0.1, "-0.5": 0.3}  # appendix E.3, of the tables' heads
SETTING = ("dataset", "model", "partition", "local_steps", "algorithm")
Row = dict[str, Any]


# Reading LaTeX: a table is a list of rows of cells, a cell a string of LaTeX.


@pytest.fixture(scope="module")
def latex() -> str:
    found = sorted(SOURCE.glob("*.txt"))
    if not found:
        pytest.skip("the paper's source, which the tables are held against, is not on this machine")
    return re.sub(r"(?<!\\)%.*", "", found[0].read_text("utf-8"))


def environment(latex: str, label: str) -> str:
    """The table that bears the label."""
    tables: list[str] = re.findall(r"\\begin\{table\}.*?\\end\{table\}", latex, re.S)
    return next(t for t in tables if f"\\label{{{label}}}" in t)


def pieces(text: str) -> Iterator[tuple[str, int]]:
    """LaTeX tokens, each with how many braces and environments are open around it."""
    depth = 0
    for token in re.findall(r"\\begin\{\w+\*?\}|\\end\{\w+\*?\}|\\\\(?:\[.*?\])?|\\[A-Za-z]+|\\.|.", text, re.S):
        depth -= token == "}" or token.startswith("\\end{")
        yield token, depth
        depth += token == "{" or token.startswith("\\begin{")


def rows(latex: str, label: str) -> list[list[str]]:
    """The cells of the outermost tabular, a cell that spans columns in each of them; rules are left out."""
    tabular = re.search(r"\\begin\{tabular\}\{[^\n]*\}\s*\n(.*)\\end\{tabular\}", environment(latex, label), re.S)
    assert tabular
    text = re.sub(r"\\(top|mid|bottom)rule|\\cmidrule\(lr\)\{[\d-]+\}", "", tabular[1])
    found: list[list[str]] = [[""]]
    for token, depth in pieces(text):
        if depth == 0 and token.startswith("\\\\"):
            found.append([""])
        elif depth == 0 and token == "&":
            found[-1].append("")
        else:
            found[-1][-1] += token
    return [[cell for raw in row for cell in spanned(raw.strip())] for row in found if "".join(row).strip()]


def spanned(cell: str) -> list[str]:
    if match := re.fullmatch(r"\\multicolumn\{(\d+)\}\{c\}\{(.*)\}", cell, re.S):
        return [only(match[2])] * int(match[1])
    return [only(cell)]


def only(cell: str) -> str:
    match = re.fullmatch(r"\\multirow\{\d+\}\{\*\}\{(.*)\}", cell, re.S)
    return match[1] if match else cell


def matched(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of a pattern that takes the whole text: nothing in a cell goes unread."""
    match = re.fullmatch(pattern, text.strip())
    assert match, f"{text!r} is not {pattern}"
    return match.groups(default="")


def marks(cell: str) -> tuple[str, list[str]]:
    """A cell without its colours, bold and strokes, and the list of those."""
    pattern = r"\\textcolor\{(\w+)\}|\\color\{(\w+)\}|\\(textbf)|\\(st)(?=\{)|\$\^\\(dagger)\$"
    found = ["".join(groups) for groups in re.findall(pattern, cell)]
    return re.sub(r"[{}]", "", re.sub(pattern, "", cell)).strip(), found


def power(head: str) -> float:
    return IN_FACT[matched(r"\$10\^\{(-\d\.\d)\}\$", head)[0]]


def norm(head: str) -> int:
    return 0 if head == r"$\infty$" else int(head)


def setting(text: str) -> Row:
    """`CIFAR-10, VGG-9, $C=1$, $K=5$, w/ clip` -> fields; what is not there is left out."""
    found: Row = {}
    for part in text.split(", "):
        if part in DATASETS:
            found["dataset"] = DATASETS[part]
        elif part in MODELS:
            found["model"] = MODELS[part]
        elif part in ("w/ clip", "w/o clip"):
            found["clipped"] = part == "w/ clip"
        else:
            letter, value = matched(r"\$([CK])=(\d+)\$", part)
            found |= {"partition": f"C = {value}"} if letter == "C" else {"local_steps": int(value)}
    return found


# The tables as the source has them.


def accuracies(latex: str, label: str, bold: bool) -> list[Row]:
    partitions, heads, *body = rows(latex, label)
    found, names = [], ["", "", ""]
    for row in body:
        assert len(row) == len(heads) == len(partitions) == 9
        names = [new or old for new, old in zip(row[:3], names, strict=True)]
        dataset, model, method = DATASETS[names[0]], MODELS[names[1]], names[2]
        colour = "textbf" if bold else {"PFL": "teal", "SFL": "magenta"}[method]
        for cell, c, k in zip(row[3:], partitions[3:], heads[3:], strict=True):
            text, found_marks = marks(cell)
            mean, std = matched(r"(\d+\.\d\d)\\tiny\$\\pm\$(\d+\.\d\d)", text)
            assert found_marks in ([], [colour])
            found.append(
                {"dataset": dataset, "model": model, "algorithm": ALGORITHMS[method]}
                | setting(f"{c}, {k}")
                | {"rounds": 1000 if "mnist" in dataset else 4000}
                | {"mean": float(mean), "std": float(std), "marked": len(found_marks)}
            )
    return found


def results(latex: str) -> list[Row]:
    return accuracies(latex, "tab:app:cross-device settings", bold=False)


def cross_device(latex: str) -> list[Row]:
    return accuracies(latex, "tab:cross-device settings", bold=True)


def cyan(cell: str) -> Row:
    text, found = marks(cell)
    assert found in ([], ["cyan"])
    return {"mean": float(matched(r"(\d+\.\d\d)", text)[0]), "marked": len(found)}


def grid(latex: str) -> list[Row]:
    methods, heads, *body = rows(latex, "tab:app:coarse-grained search")
    return [
        setting(name) | {"algorithm": ALGORITHMS[method], "lr": power(head)} | cyan(cell)
        for name, *cells in body
        for method, head, cell in zip(methods[1:], heads[1:], cells, strict=True)
    ]


def fine(latex: str) -> list[Row]:
    heads, *body = rows(latex, "tab:app:fine-grained search")
    found = []
    for name, *cells in body:
        for method, cell in zip(heads[1:], cells, strict=True):
            for candidate in cell.split(", "):
                text, struck = marks(candidate)
                lr, mean = matched(r"(0\.\d+)(?: \((\d+\.\d\d)\))?", text)
                assert struck in ([], ["st"])
                found.append(
                    setting(name)
                    | {"algorithm": ALGORITHMS[method], "lr": float(lr)}
                    | {"mean": float(mean) if mean else None, "chosen": 1 - len(struck)}
                )
    return found


def clipping(latex: str) -> list[Row]:
    heads, *body = rows(latex, "tab:app:gradient clipping")
    found = []
    for row in body:
        assert len(row) == len(heads) == 11
        for at in (1, 6):
            fields: Row = {"dataset": "cifar10"} | setting(row[0]) | {"rounds": 1000}
            fields |= {"algorithm": ALGORITHMS[heads[at]], "clip": norm(row[at])}
            assert fields.pop("clipped") == (fields["clip"] > 0)
            for i in range(at + 1, at + 5):
                found.append(fields | {"lr": power(heads[i])} | cyan(row[i]))
    return found


def clipping_long(latex: str) -> list[Row]:
    heads, *body = rows(latex, "tab2:app:gradient clipping")
    assert heads == ["", "Setting", "PFL", "Lr", "Acc.", "Acc.", "SFL", "Lr", "Acc.", "Acc."]
    found: list[Row] = []
    block, count = "", 0
    for row in body:
        assert len(row) == 10
        if row[0].startswith("\\{"):
            block = row[0].removeprefix("\\{").removesuffix("\\}")
            continue
        count += 1
        assert row[0] == str(count)
        for at in (2, 6):
            fields = setting(f"{block}, {row[1]}")
            fields |= {"algorithm": ALGORITHMS[heads[at]], "clip": norm(row[at]), "lr": power(row[at + 1])}
            assert fields.pop("clipped") == (fields["clip"] > 0)
            for rounds, cell in ((1000, row[at + 2]), (4000, row[at + 3])):
                text, found_marks = marks(cell)
                mean, change = matched(r"(\d+\.\d\d)(?: \(([+-]\d+\.\d)\))?", text)
                colour = {"+": ["magenta"], "-": ["teal"]}.get(change[:1], [])
                assert [mark for mark in found_marks if mark != "dagger"] == colour
                number = {"mean": float(mean), "change": float(change) if change else None}
                found.append(fields | {"rounds": rounds, **number, "diverged": found_marks.count("dagger")})
    return found


def fraction(text: str) -> Fraction:
    """A coefficient as a fraction; none written is 1."""
    sign, top, bottom, whole = matched(r"([+-]?)(?:\\frac\{(\d+)\}\{(\d+)\}|(\d*))", text)
    return Fraction(int(top), int(bottom)) * (-1) ** (sign == "-") if top else Fraction(f"{sign}{whole or 1}")


def zeta(text: str) -> Row:
    return {"zeta": int(matched(r"\\zeta_\\ast=(\d+)", text)[0])}


def delta(text: str) -> Row:
    return {"delta": str(fraction(matched(r"\\delta=(.+)", text)[0]))}


def clients(cell: str) -> list[Row]:
    (cases,) = matched(r"\$\\begin\{cases\}(.*)\\end\{cases\}\$", cell)
    found = []
    for case in cases.split("\\\\"):
        client, a, b = matched(r"F_(\d)\(x\)=(?:(.*)x\^2(?=[+-]))?(.*)x", case.replace(" ", ""))
        square = float(fraction(a)) if "x^2" in case else 0.0
        found.append({"client": int(client), "a": square, "b": int(fraction(b))})
    return found


def quadratics(latex: str) -> list[Row]:
    head, cells, heterogeneity = rows(latex, "tab:simulation settings")
    assert head == ["", "Group 1", "Group 2", "Group 3"]
    found = []
    for cell, measures in zip(cells[1:], heterogeneity[1:], strict=True):
        first, second = measures.strip("$").split(", ")
        found += [{"table": "main"} | zeta(first) | delta(second) | client for client in clients(cell)]
    head, *body = rows(latex, "tab:app:simulation settings")
    for name, *cells in body:
        for column, cell in zip(head[1:], cells, strict=True):
            fields = {"table": "appendix"} | zeta(column.strip("$")) | delta(name.strip("$"))
            found += [fields | client for client in clients(cell)]
    return found


def theorem(latex: str, label: str) -> str:
    return f"Theorem {re.findall(r'begin.theorem..label.(thm:[A-Z]+)', latex).index(label) + 1}"


def bounds(latex: str) -> list[Row]:
    head, *body = rows(latex, "tab:comparison")
    assert head == ["Method", "Upper Bound"]
    found: list[Row] = []
    case = method = ""
    for row in body:
        if len(row) == 2 and row[0] == row[1]:
            case = row[0].lower()
        elif len(row) == 1:
            (method,) = matched(r"([PS]FL) \\vspace\{-2ex\}", row[0])
        else:
            named, cited, proved = matched(
                r"(?:\\quad\\ |([PS]FL) )(?:\\citep\{(.+)\}|\(Theorem~\\ref\{(.+)\}\))", row[0]
            )
            method = named or method
            text, note = matched(r"(?s)\$(.*)\$\s*(?:\\tnote\{\\color\{black\}\((\d)\)\})?", row[1])
            text = re.sub(r"\{\\color\{red\}\\boldsymbol\{(M(?:\^\{1/3\})?)\}\}", r"\1", text)
            source = cited or theorem(latex, proved)
            found.append({"case": case, "method": ALGORITHMS[method], "source": source, "upper_bound": text})
            found[-1] |= {"footnote": int(note) if note else None}
    notes = re.findall(r"\\item \[\\tnote\{\\color\{black\}\((\d)\)\}\]", environment(latex, "tab:comparison"))
    assert [int(note) for note in notes] == [row["footnote"] for row in found if row["footnote"]]
    return found


def notation(latex: str) -> list[Row]:
    macros = dict(re.findall(r"\\def\\(\w+)\{\{(.*)\}\}", latex))
    head, *body = rows(latex, "table:app:notations of SL")
    assert head == ["Symbol", "Description"]
    symbols = [symbol for cell, _ in body for symbol in re.findall(r"\$(.*?)\$", cell.replace(", k$", "$/$k$"))]
    for macro, stands in macros.items():
        stands = stands.replace("\\bm", "\\boldsymbol")
        symbols = [s.replace(f"\\hat\\{macro}", f"\\hat{{{stands}}}").replace(f"\\{macro}", stands) for s in symbols]
    return [{"symbol": symbol} for symbol in symbols]


NUMBERS = [results, cross_device, grid, fine, clipping, clipping_long, quadratics]


@pytest.mark.parametrize("read", NUMBERS, ids=lambda read: read.__name__)
def test_every_number_is_the_papers(latex: str, read: Any) -> None:
    ours, theirs = table(read.__name__), read(latex)
    assert len(ours) == len(theirs)
    for mine, paper in zip(ours, theirs, strict=True):
        assert mine == paper


def test_bounds_are_the_papers(latex: str) -> None:
    ours, theirs = table("bounds"), bounds(latex)
    for mine, paper in zip(ours, theirs, strict=True):
        del mine["assumptions"]
        assert bare(mine) == bare(paper)


def bare(row: Row) -> Row:
    return row | {"upper_bound": re.sub(r"\s+(?![A-Za-z])|(?<![A-Za-z])\s+", "", row["upper_bound"])}


def test_symbols_are_the_papers(latex: str) -> None:
    assert [row["symbol"] for row in table("notation")] == [row["symbol"] for row in notation(latex)]


def test_labels_are_the_papers(latex: str) -> None:
    labels = [label for _, text in TABLES.values() if text for label in text.split(", ")]
    found = re.findall(r"\\begin\{table\}.*?\\label\{(.*?)\}", latex, re.S)
    assert sorted(labels) == sorted(found)


# The tables against each other, and against what the paper says of them.


def cents(x: float) -> int:
    return round(100 * x)


def together(rows: list[Row], *fields: str) -> list[list[Row]]:
    """Rows that share the fields, in the order they come in."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[field] for field in fields), []).append(row)
    return list(found.values())


COUNTS = {
    "results": 54 * 2,
    "cross_device": 24 * 2,
    "grid": 54 * 8,
    "fine": 12 + 4,
    "choices": 36,
    "clipping": 24 * 8,
    "clipping_long": 24 * 4,
    "quadratics": (3 + 9) * 2,
    "bounds": 9,
    "notation": 16,
}


def test_every_table_is_there() -> None:
    assert {name: len(table(name)) for name in TABLES} == COUNTS


@pytest.mark.parametrize("name", TABLES)
def test_no_row_twice(name: str) -> None:
    measured = ("mean", "std", "marked", "chosen", "change", "diverged", "a", "b", "meaning", "upper_bound")
    keys = [tuple(v for k, v in row.items() if k not in measured) for row in table(name)]
    assert len(set(keys)) == len(keys)


def test_all_settings() -> None:
    tasks = [("mnist", "logistic"), ("mnist", "mlp"), ("mnist", "lenet5"), ("fashion_mnist", "lenet5")]
    tasks += [("fashion_mnist", "cnn"), *product(("cifar10", "cinic10"), ("vgg9", "resnet18"))]
    rest = product(("C = 1", "C = 2"), (5, 20, 50), ("sequential", "parallel"))
    wanted = {task + others for task, others in product(tasks, rest)}
    for name in ("results", "grid"):
        assert {tuple(row[field] for field in SETTING) for row in table(name)} == wanted


def test_cross_device_is_part_of_results() -> None:
    assert table("cross_device") == lookup("results", dataset="cifar10") + lookup("results", dataset="cinic10")


def test_results_mark_what_is_better() -> None:
    for pair in together(table("results"), "dataset", "model", "partition", "local_steps"):
        worse, better = sorted(pair, key=lambda row: row["mean"])
        enough = 100 if "mnist" in better["dataset"] else 200
        clear = cents(better["mean"]) - cents(worse["mean"]) > enough
        assert (worse["marked"], better["marked"]) == (0, int(clear))


@pytest.mark.parametrize(("name", "more"), [("grid", ()), ("clipping", ("clip",))])
def test_the_largest_is_marked(name: str, more: tuple[str, ...]) -> None:
    for row in together(table(name), *SETTING, *more):
        assert [r["lr"] for r in row] == sorted(r["lr"] for r in row)
        best = max(r["mean"] for r in row)
        assert [r["marked"] for r in row] == [int(r["mean"] == best) for r in row]


def test_grids_of_learning_rates() -> None:
    for algorithm, wanted in (("parallel", [0.01, 0.03, 0.1, 0.3]), ("sequential", [0.003, 0.01, 0.03, 0.1])):
        for name, more in (("grid", ()), ("clipping", ("clip",))):
            for row in together(lookup(name, algorithm=algorithm), *SETTING, *more):
                assert [r["lr"] for r in row] == wanted


def test_the_clips_used_give_the_grid() -> None:
    fields = (*SETTING, "lr", "mean", "marked")
    for algorithm, clip in (("parallel", 10), ("sequential", 50)):
        clipped = lookup("clipping", algorithm=algorithm, clip=clip)
        searched = lookup("grid", dataset="cifar10", model="vgg9", algorithm=algorithm)
        assert [[r[f] for f in fields] for r in clipped] == [[r[f] for f in fields] for r in searched]


def test_short_runs_are_the_marked_ones() -> None:
    fields = (*SETTING, "clip", "lr", "mean")
    marked = lookup("clipping", marked=1)
    short = lookup("clipping_long", rounds=1000)
    assert {tuple(r[f] for f in fields) for r in short} == {tuple(r[f] for f in fields) for r in marked}


def test_changes_are_from_no_clipping() -> None:
    for vanilla, *clipped in together(table("clipping_long"), *SETTING, "rounds"):
        assert (vanilla["clip"], vanilla["change"]) == (0, None)
        for row in clipped:
            change = cents(row["mean"]) - cents(vanilla["mean"])
            assert (row["change"] is not None) == (abs(change) > 200 and not vanilla["diverged"])
            assert row["change"] is None or abs(cents(row["change"]) - change) <= 5
    assert [row["mean"] for row in lookup("clipping_long", diverged=1)] == [10.0]


def test_chosen_is_the_best_candidate() -> None:
    for cell in together(table("fine"), *SETTING):
        searched = lookup("grid", **{field: cell[0][field] for field in SETTING})
        best = max(r["mean"] for r in searched)
        assert [r["lr"] for r in cell] == [r["lr"] for r in searched if cents(best) - cents(r["mean"]) < 300]
        assert sum(r["chosen"] for r in cell) == 1
        if len(cell) == 1:
            assert cell[0]["mean"] is None
        else:
            assert [r["chosen"] for r in cell] == [int(r["mean"] == max(c["mean"] for c in cell)) for r in cell]


def test_long_runs_of_the_chosen() -> None:
    for row in table("fine"):
        if row["chosen"] and row["mean"]:
            clip = {"parallel": 10, "sequential": 50}[row["algorithm"]]
            fields = {field: row[field] for field in (*SETTING, "lr")}
            assert [r["mean"] for r in lookup("clipping_long", clip=clip, rounds=4000, **fields)] == [row["mean"]]


def test_quadratics_have_their_heterogeneity() -> None:
    for one, other in together(table("quadratics"), "table", "zeta", "delta"):
        assert (one["client"], other["client"]) == (1, 2)
        assert one["a"] + other["a"] == 1
        assert (one["b"], other["b"]) == (one["zeta"], -one["zeta"])  # gradients at x* = 0
        assert one["a"] - other["a"] == pytest.approx(float(Fraction(one["delta"])))


def test_main_groups_are_three_of_the_nine() -> None:
    main = [{**row, "table": "appendix"} for row in lookup("quadratics", table="main")]
    assert main == lookup("quadratics", table="appendix", zeta=1)


def test_sequential_bounds_gain_m() -> None:
    for case in ("strongly convex", "convex", "non-convex"):
        (ours,) = lookup("bounds", case=case, method="sequential")
        theirs = lookup("bounds", case=case, method="parallel")[-1]["upper_bound"].replace("\\sigma_\\ast", "\\sigma")
        without = ours["upper_bound"].replace("\\mu^2M", "\\mu^2").replace("M^{1/3}", "")
        assert without.replace(" ", "") == theirs.replace(" ", "")
        assert len(ours["upper_bound"]) > len(without)


# Reading.


def test_columns_have_one_kind() -> None:
    for name in TABLES:
        for column in table(name)[0]:
            assert len({type(row[column]) for row in table(name)} - {type(None)}) == 1
    kinds = {column: type(value) for column, value in table("clipping")[0].items()}
    assert kinds["clip"] is kinds["local_steps"] is kinds["marked"] is kinds["rounds"] is int
    assert kinds["lr"] is kinds["mean"] is float
    assert kinds["partition"] is str


def test_lookup() -> None:
    (row,) = lookup(
        "grid",
        dataset="mnist",
        model="mlp",
        partition="C = 2",
        local_steps=5,
        algorithm="sequential",
        lr=0.03,
    )
    assert (row["mean"], row["marked"]) == (96.14, 1)
    assert lookup("grid", lr=0.0316) == []
    assert len(lookup("quadratics", delta="1/3", zeta=1.0)) == 4
    assert [row["footnote"] for row in lookup("bounds", footnote=None)] == [None] * 5


def test_rows_are_the_callers_own() -> None:
    table("results")[0]["mean"] = 0.0
    lookup("results")[0]["mean"] = 0.0
    assert table("results")[0]["mean"] == 91.10


def test_bad_names() -> None:
    with pytest.raises(BadInput, match="no table named 'result'; did you mean 'results'"):
        table("result")
    with pytest.raises(BadInput, match="no table named 'grids'"):
        lookup("grids", lr=0.1)
    with pytest.raises(BadInput, match="table grid has no column 'learning_rate'"):
        lookup("grid", learning_rate=0.1)
