"""A study's search as a table: every candidate's score, stage by stage, what was kept and why."""

from collections.abc import Sequence
from typing import Any

from baton.report import words
from baton.report.grid import Found, Panel, panels
from baton.search.rules import Choice, Stage, asked, on_test_set, scored, shorter
from baton.study import Study, Tune

METHODS = {  # how a value is found, with the keys of [tune] to be filled in
    "paper": "no search: the paper's own choice",
    "simple": "every value trained to its end, the best taken",
    "coarse-fine": "every value for {short} rounds, those within {within:g} of the best to the end, the best of them",
    "halving": "at an eighth, a quarter and a half of the rounds the worse half given up, the best at the end",
}
Row = dict[str, Any]


def search_rows(study: Study, found: Found) -> list[Row]:
    """One entry a choice: {group, line, stages, best, spent, full, missing}; empty where nothing is searched."""
    labels, over = words.lines(study), study.swept if study.tune else []
    names = {field: words.names(study, field) for field in over}
    where = {s.run_id: (p, line) for p in panels(study, found) for line, own in p.settings.items() for s in own}
    made = []
    for choice in found.choices:
        panel, line = where[next(iter(choice.cell.final.values())).run_id]
        fields = {name: {field: study.at(s, field) for field in names} for name, s in choice.cell.grid.items()}
        written = {name: ", ".join(f"{f} = {names[f][x]}" for f, x in own.items()) for name, own in fields.items()}
        stages = [_stage(study, stage, choice, fields, written) for stage in choice.stages]
        first = {
            "group": place(study, panel),
            "line": labels[line],
            "stages": stages,
            "best": _best(choice, written),
        }
        cost = {"spent": choice.spent, "full": choice.full, "missing": len(choice.missing)}
        made.append({**first, "doubts": doubts(study, choice), **cost})
    return made


def place(study: Study, panel: Panel) -> str:
    """The name of a panel among all panels of its study."""
    field = study.report.figures
    figure = [words.called(study, field, panel.figure)] if field else []
    return ", ".join([*figure, *([panel.group] if panel.group != "all" or not figure else [])])


def _stage(study: Study, stage: Stage, choice: Choice, fields: dict[str, Row], written: dict[str, str]) -> Row:
    scores = [
        {
            "name": written[name],
            "fields": fields[name],
            "score": score,
            "text": "diverged" if score is None else words.number(score, study.report.metric),
            "kept": name in stage.kept,
            "chosen": name == choice.best,
        }
        for name, score in stage.scores.items()
    ]
    return {"rounds": stage.rounds, "scores": scores, "why": stage.why}


def _best(choice: Choice, written: dict[str, str]) -> str:
    if choice.best:
        return written[choice.best]
    return f"not known yet: {words.counted(len(choice.missing), 'run')} to go" if choice.missing else "all diverged"


def doubts(study: Study, choice: Choice) -> list[str]:
    """Why another value may be better than the chosen one: the grid ends there, or training was cut short."""
    edges = [f"{edge} of those tried; a better one may lie beyond" for edge in choice.edges(study.swept)]
    return edges + ["it was still getting better at the end; more rounds may change the choice"] * choice.rises


def search_files(study: Study, found: Found) -> dict[str, bytes]:
    """The whole search as CSV and Markdown, by file name; none where nothing is searched."""
    rows, stem = search_rows(study, found), f"{words.stem(study.name)}-search"
    return {f"{stem}.csv": _csv(rows, study.swept), f"{stem}.md": _md(study, rows)} if rows else {}


def _csv(rows: Sequence[Row], over: Sequence[str]) -> bytes:
    """One line a candidate and stage, every digit kept."""
    lines: list[list[Any]] = [["group", "line", "stage", "rounds", *over, "score", "kept", "why", "chosen"]]
    for row in rows:
        for nth, stage in enumerate(row["stages"], 1):
            for s in stage["scores"]:
                first = [row["group"], row["line"], nth, stage["rounds"], *s["fields"].values()]
                score = "nan" if s["score"] is None else s["score"]
                lines.append([*first, score, int(s["kept"]), stage["why"], int(s["chosen"])])
    return words.as_csv(lines)


def _md(study: Study, rows: Sequence[Row]) -> bytes:
    """One line a stage; what was kept is bold."""
    body = []
    for row in rows:
        stages = [[str(stage["rounds"]), _scores(stage), stage["why"]] for stage in row["stages"]] or [["", "", ""]]
        chosen = [""] * (len(stages) - 1) + ["; ".join([row["best"], *row["doubts"]])]
        body += [[row["group"], row["line"], *told, best] for told, best in zip(stages, chosen, strict=True)]
    head = ["group", "line", "rounds", "scores", "kept", "chosen"]
    return f"{words.as_md(head, body)}\n{search_caption(study, rows)}\n".encode()


def _scores(stage: Row) -> str:
    texts = [(f"{score['name']}: {score['text']}", score["kept"]) for score in stage["scores"]]
    return "; ".join(f"**{text}**" if kept else text for text, kept in texts)


def search_caption(study: Study, rows: Sequence[Row]) -> str:
    """What the scores are, how a value was chosen, and what it cost."""
    tune, report = asked(study).tune, study.report
    metric = words.metric(scored(study))
    last = words.averaged(study, study.settings, report.last)
    begun = [shorter(s, rounds) for s in study.settings[:1] for row in rows for rounds in _short(row)]
    other = words.averaged(study, begun, tune.last) if begun else last
    short = f" (in short runs over {other})" if other != last else ""
    first = f"{metric[0].upper()}{metric[1:]} with seed {study.search_seed}, mean over {last}{short}."
    how = found_how(tune)
    seen = "Chosen on the test set. " if on_test_set(study) else ""
    return f"{first} {seen}{how[0].upper()}{how[1:]}. Bold: kept. {totals(rows)}"


def _short(row: Row) -> list[int]:
    """The rounds of the stages of a search that come before its last one."""
    return [stage["rounds"] for stage in row["stages"][:-1] if stage["scores"]]


def found_how(tune: Tune) -> str:
    """How a value is found, in words."""
    return METHODS.get(tune.method, tune.method).format(short=tune.short, within=tune.within)


def totals(rows: Sequence[Row]) -> str:
    """What the search cost, against the whole grid at full length."""
    spent, full, open_ = (sum(row[key] for row in rows) for key in ("spent", "full", "missing"))
    if not spent and not open_:
        return "Nothing was searched: every value is the paper's own choice."
    waiting = f" It is not finished: {words.counted(open_, 'run')} to go." if open_ else ""
    return f"The search takes {spent:,} of the {full:,} SGD steps of the whole grid ({spent / full:.0%}).{waiting}"
