r"""Tables in LaTeX, for booktabs and multirow, in the paper's manner: `\textbf{83.44}\tiny{$\pm$1.83}`."""

import re
from collections.abc import Sequence

from baton.report import layout, words
from baton.report import tables as results
from baton.report.grid import Found, Panel
from baton.study import Study

GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau",
    "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Σ": "Sigma", "Ω": "Omega",
}  # fmt: skip
SIGNS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "*": "$*$", "<": "$<$", ">": "$>$", "|": "$|$", '"': "''",
    "[": "{[}", "]": "{]}", "±": r"$\pm$", "×": r"$\times$", "÷": r"$\div$", "−": "$-$", "≤": r"$\le$", "≥": r"$\ge$",
    "∞": r"$\infty$", "√": r"$\surd$", "²": "$^2$", "–": "--", "—": "---", "…": r"\ldots{}", "’": "'",
    "“": "``", "”": "''",
}  # fmt: skip
LATIN = set("ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿ")  # what every LaTeX prints as it is
LETTER = f"(?:[A-Za-z]|[{''.join(GREEK)}])\\*?"
TOKENS = re.compile(
    rf"(?<![^\W_])(?P<equation>{LETTER} = -?\d[\d./]*(?![\w.]))"  # C = 1, δ = 1/3
    r"|(?<![\w.])10\^(?P<power>-?\d+(?:\.\d+)?)"
    r"|(?<![\w.])(?P<mantissa>-?\d(?:\.\d+)?)e(?P<exponent>[+-]\d+)(?!\w)"
    rf"|(?P<greek>[{''.join(GREEK)}])(?P<star>\*?)"
    r"|(?<![\w.)-])(?P<minus>-)(?=\d)"
    r"|(?P<other>.)",
    re.DOTALL,
)
PACKAGES = ("booktabs", "multirow", "graphicx")
FITS = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def escape(text: str) -> str:
    """Any text as LaTeX that prints it; ζ* and C = 1 are set as mathematics."""
    return TOKENS.sub(_token, text)


def _token(found: re.Match[str]) -> str:
    if found["equation"]:
        letter, _, number = found["equation"].partition(" = ")
        return f"${_letter(letter)}={number}$"
    if found["power"]:
        return f"$10^{{{found['power']}}}$"
    if found["mantissa"]:
        return rf"${found['mantissa']}\cdot10^{{{int(found['exponent'])}}}$"
    if found["greek"]:
        return f"${_letter(found['greek'] + found['star'])}$"
    sign = "−" if found["minus"] else found["other"]
    if sign in SIGNS:
        return SIGNS[sign]
    if sign.isspace():
        return " "
    known = sign in LATIN or (sign.isascii() and sign.isprintable())
    return sign if known else f"{{[}}U+{ord(sign):04X}{{]}}"


def _letter(text: str) -> str:
    letter = f"\\{GREEK[text[0]]}" if text[0] in GREEK else text[0]
    return f"{letter}_*" if text.endswith("*") else letter


def cell(text: str, strong: bool = False, note: str = "") -> str:
    """One result: what is ahead in bold, its spread and its note small."""
    number, sign, spread = text.partition(" ± ")
    made = escape(number)
    if strong:
        made = rf"\textbf{{\boldmath{made}}}" if "$" in made else rf"\textbf{{{made}}}"
    small = [rf"$\pm${escape(spread)}"] if sign else []
    small += [f"({escape(note)})"] if note else []
    return made + (rf"\tiny{{{' '.join(small)}}}" if small else "")


def table(study: Study, name: str, caption: str, columns: str, lines: Sequence[str]) -> bytes:
    """A whole table: the lines of a tabular in a float with its caption."""
    title = " ".join(study.title.split())
    label = re.sub(r"[^A-Za-z0-9.=-]+", "-", name)
    head = [
        f"% Study {words.stem(study.name)}: {title}. Needs \\usepackage{{{','.join(PACKAGES)}}}.",
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{escape(caption)}}}",
        rf"\label{{tab:{label}}}",
        FITS,
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
    ]
    return "\n".join([*head, *lines, r"\bottomrule", r"\end{tabular}}", r"\end{table}", ""]).encode()


def line(cells: Sequence[str]) -> str:
    """One row of a tabular."""
    return " & ".join(cells) + r" \\"


def plain(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> bytes:
    """Any table: words left, numbers right."""
    sides = "".join("r" if all(row[i][:1] in "+-0123456789" for row in rows) else "l" for i in range(len(heads)))
    body = [" & ".join(map(escape, row)) + r" \\" for row in rows]
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", " & ".join(map(escape, heads)) + r" \\", r"\midrule"]
    return "\n".join([f"% {caption}", *lines, *body, r"\bottomrule", r"\end{tabular}", ""]).encode()


def files(study: Study, panels: Sequence[Panel], found: Found) -> dict[str, bytes]:
    """The results of a study by file name, and its laid-out table where it has one."""
    stem = words.stem(study.name)
    gone = sum(s.run_id not in found.runs for s in found.wanted)
    missing = f" {gone} of {len(found.wanted)} runs are missing." if gone else ""
    made = {f"{stem}.tex": _results(study, stem, panels, missing)}
    form = layout.form(study, panels)
    if form is not None:
        made[f"{stem}-layout.tex"] = _layout(study, f"{stem}-layout", form, missing)
    return made


def _results(study: Study, stem: str, panels: Sequence[Panel], missing: str) -> bytes:
    report, rows = study.report, results.rows(study, panels)
    names = words.lines(study).values()
    figures = [report.figures] if report.figures else []
    made = [line([*(escape(words.head(field)) for field in figures), "Group", *map(escape, names)])]
    keys = [(row["figure"], i) for i, row in enumerate(rows)]
    spans = dict(layout.runs(keys, 0))
    for i, row in enumerate(rows):
        if i == 0 or (figures and i in spans):
            made.append(r"\midrule")
        first = [multirow(spans.get(i, 0), row["figure_text"])] if figures else []
        cells = [cell(c["text"], c["ahead"], c["note"]) for c in row["cells"]]
        made.append(line([*first, escape(row["group"]), *cells]))
    return table(study, stem, results.caption(study) + missing, "l" * (len(figures) + 1 + len(names)), made)


def multirow(rows: int, text: str) -> str:
    """The head of several rows; nothing in those that an earlier one spans."""
    if rows == 0:
        return ""
    return escape(text) if rows == 1 else rf"\multirow{{{rows}}}{{*}}{{{escape(text)}}}"


def _layout(study: Study, name: str, form: layout.Form, missing: str) -> bytes:
    head = layout.heads(study, form)
    made: list[str] = []
    for level, row in enumerate(head):
        made.append(
            line([escape(text) if n == 1 else rf"\multicolumn{{{n}}}{{c}}{{{escape(text)}}}" for text, n in row])
        )
        if level < len(head) - 1:
            made.append(_rules(row))
    for i, key in enumerate(form.rows):
        spans = [dict(layout.runs(form.rows, level)).get(i, 0) for level in range(len(form.down))]
        if i == 0 or (len(spans) > 1 and spans[0]):
            made.append(r"\midrule")
        elif len(spans) > 2 and spans[-2]:  # the paper leaves a gap between its models
            made.append(r"\addlinespace")
        heads = [multirow(n, form.names[f][x]) for n, f, x in zip(spans, form.down, key, strict=True)]
        cells = [form.cell(key, column) for column in form.columns]
        made.append(line([*heads, *(cell(c["text"], c["strong"], c["note"]) for c in cells)]))
    return table(study, name, layout.caption(study) + missing, "l" * (len(form.down) + len(form.columns)), made)


def _rules(row: Sequence[tuple[str, int]]) -> str:
    """A rule under each head that spans several columns."""
    ends = [sum(n for _, n in row[: i + 1]) for i in range(len(row))]
    return "".join(rf"\cmidrule(lr){{{end - n + 1}-{end}}}" for end, (text, n) in zip(ends, row, strict=True) if text)
