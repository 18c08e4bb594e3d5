"""Table 1 as Markdown and as LaTeX."""

from baton.theory.table import NAMES, SPOKEN, Row


def markdown(rows: list[Row]) -> str:
    """A Markdown table, assumptions below it."""
    lines = ["| case | method | upper bound | value |", "|---|---|---|---|"]
    notes = numbered(rows)
    for row in rows:
        mark = f" [{notes[row.assumptions]}]" if row.assumptions else ""
        formula = row.formula.replace("\\ast", "*").replace("_*", "_{*}")
        case = f"{_spoken(row.case)}{', related work' if row.beside else ''}"
        lines.append(f"| {case} | {row.label()}{mark} | ${formula}$ | {row.total:.3g} |")
    return "\n".join([*lines, "", *(f"[{number}] {note(text)}  " for text, number in notes.items())]).rstrip()


def latex(rows: list[Row]) -> str:
    """A tabular for booktabs, assumptions below it."""
    notes, lines = numbered(rows), [r"\begin{tabular}{llr}", r"\toprule", r"Method & Upper bound & Value \\"]
    for i, row in enumerate(rows):
        if not i or (row.case, row.beside) != (rows[i - 1].case, rows[i - 1].beside):
            case = f"{_spoken(row.case).capitalize()}{', related work' if row.beside else ''}"
            lines += [r"\midrule", rf"\multicolumn{{3}}{{c}}{{{case}}} \\", r"\midrule"]
        mark = f"$^{{({notes[row.assumptions]})}}$" if row.assumptions else ""
        lines.append(rf"{row.label()}{mark} & $\displaystyle {row.formula}$ & ${_power(row.total)}$ \\[1ex]")
    lines += [r"\bottomrule"]
    for text, number in notes.items():
        lines.append(rf"\multicolumn{{3}}{{p{{0.95\linewidth}}}}{{\footnotesize ({number}) {_greek(note(text))}}} \\")
    return "\n".join([*lines, r"\end{tabular}"])


def numbered(rows: list[Row]) -> dict[str, int]:
    """The notes, in the order they come in."""
    texts = dict.fromkeys(row.assumptions for row in rows if row.assumptions)
    return {text: number for number, text in enumerate(texts, 1)}


def note(text: str) -> str:
    """A note as people read it: authors and year, where the table has a key of its bibliography."""
    for key, name in NAMES.items():
        text = text.replace(key, name)
    return text


def _spoken(case: str) -> str:
    return {ours: theirs for theirs, ours in SPOKEN.items()}[case]


def _power(value: float) -> str:
    digits, e, exponent = f"{value:.3g}".partition("e")
    return rf"{digits}\times 10^{{{int(exponent)}}}" if e else digits


def _greek(text: str) -> str:
    """Symbols of a note, which are plain words, as mathematics."""
    for word, symbol in (
        ("sigma^2", r"\sigma^2"),
        ("sigma_*", r"\sigma_\ast"),
        ("beta", r"\beta"),
        ("sigma ", r"\sigma "),
    ):
        text = text.replace(word, f"${symbol.strip()}$" + (" " if word.endswith(" ") else ""))
    return text
