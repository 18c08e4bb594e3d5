"""The page: what it is told to show, and that a browser shows it, zooms, switches and follows the reader's colours."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import handmade
from baton import study
from baton.errors import BadInput
from baton.report import about, bands, figures, grid, interactive, report, sheets, thin, words
from baton.report.built import build
from baton.report.reading import Reading
from baton.seam import State
from baton.setting import Setting
from baton.store import History, Snapshot, Store
from baton.study import Report, Study
from browser import CHROMIUM, Browser
from test_report import fill, first, make, put, series


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def numbers(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    made: dict[str, Any] = json.loads(found[1])
    return made


def test_smoothing_is_a_centred_mean_that_shrinks_at_the_ends() -> None:
    x = np.array([0.0, 3, 6, 3, 0, 3, 6, 3, 0, 3])
    np.testing.assert_allclose(bands.smooth(x, 0.3), [0, 3, 4, 3, 2, 3, 4, 3, 2, 3])
    np.testing.assert_allclose(bands.smooth(x, 0.5)[1:3], [3, np.mean(x[:5])])
    for part in (0.0, 0.1, 0.5, 0.99):
        for count in (0, 1, 2, 3, 7, 10):
            line = np.arange(float(count))
            np.testing.assert_allclose(bands.smooth(line, part), line, atol=1e-12)  # a straight line stays


def test_smoothing_changes_figures_only_and_is_told(store: Store) -> None:
    shown = make(report={"smooth": 0.6})
    panel = first(shown, fill(store, shown))
    plain = first(make(), store)
    assert panel.curves["sequential"].best == plain.curves["sequential"].best
    np.testing.assert_array_equal(panel.curves["sequential"].mean, plain.curves["sequential"].mean)
    drawn = bands.drawn(panel.curves["sequential"].drawn, "test_accuracy", shown.report).mean
    mean = plain.curves["sequential"].mean
    np.testing.assert_allclose(drawn, [mean[0], *(mean[i - 1 : i + 2].mean() for i in (1, 2, 3)), mean[4]])
    note = sheets.caption(shown, sheets.sheets(shown, [panel])[0])[1]
    assert "mean of 3 evaluations around it (60%)" in note
    assert "Smoothed" not in sheets.caption(make(), sheets.sheets(make(), [plain])[0])[1]


def test_further_metrics_are_rows_of_panels(store: Store) -> None:
    shown = make(report={"also": ["train_loss"]})
    built = build(shown, fill(store, shown))
    curves, rates = built.sheets
    assert (curves.metrics, rates.metrics) == (["test_accuracy", "train_loss"], ["test_accuracy"])
    made = interactive.figure(shown, curves, thin.room([built.sheets]))
    assert [row["label"] for row in made["rows"]] == ["Test accuracy (%)", "Training loss of the participants"]
    loss = next(c for c in made["rows"][1]["panels"][0]["curves"] if c["kind"] == "mean")
    assert (made["xs"][loss["x"]], set(loss["y"])) == ([*range(9)], {1})
    assert figures.render(shown, curves, ["svg"])["svg"].count(b"axes_") > figures.render(shown, rates, ["svg"])[
        "svg"
    ].count(b"axes_")


def test_a_metric_that_nobody_measured_is_one_line(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^\[report\] also: no metric 'train_losses'; did you mean 'train_loss'\?$"):
        make(report={"also": ["train_losses"]})
    shown = make(report={"also": ["distance"]})  # a column that digits have not
    with pytest.raises(BadInput, match=r"^report: \[report\] also: no run .* 'distance'"):
        report([shown], fill(store, shown), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_log_axis_is_not_for_percentages_that_come_along() -> None:
    rule = Report(log=True, metric="test_loss")
    assert [bands.logs(rule, metric) for metric in ("test_loss", "train_loss", "test_accuracy")] == [True, True, False]
    assert bands.logs(Report(log=True, metric="test_accuracy"), "test_accuracy")


def test_lines_that_are_no_algorithms_have_other_colours_and_short_names() -> None:
    shown = make(axes={"algorithm": ["sequential"], "local_steps": [1, 5]}, report={"lines": "local_steps"})
    look = sheets.looks(shown)
    assert [k.label for k in look.values()] == ["K = 1", "K = 5"]
    assert [k.colour for k in look.values()] == list(words.OTHER_COLOURS[:2])


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    xs = thin.Shared()
    line = np.arange(5003.0)
    place, kept = xs.thin(bands.Band(line, line, line, line), 1000)
    assert len(kept.rounds) <= 1000
    assert (kept.rounds[0], kept.rounds[-1]) == (0, 5002)
    assert xs.arrays[place][-1] == 5002
    assert xs.thin(bands.Band(line, line, line, line), 1000)[0] == place  # the same rounds, once
    assert thin.short(np.array([1.0, 0.123456789, 1e-17, 1e12])) == [1, 0.123457, 1e-17, 10**12]


def test_what_scale_changed_cannot_be_overlooked(store: Store, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        """
        [base]
        rounds = 80
        eval_every = 2
        [axes]
        seed = [1, 2, 3]
        algorithm = ["sequential", "parallel"]
        """
    )
    small = study.read(tmp_path / "s.toml", 0.1)
    told = (
        "Scaled down to 0.1: 8 rounds instead of 80, 1 seed instead of 3, the last 1 evaluation averaged instead of 10."
    )
    assert about.scaled(small) == f"{told} These are not the paper's numbers."
    html = report([small], fill(store, small), tmp_path / "out").read_text()
    assert f'<p class="warn scaled">{told}' in html
    assert about.scaled(study.read(tmp_path / "s.toml")) == ""


DAMAGE = {
    "metrics.csv cut in a line": ("metrics.csv", lambda data: data[:-12]),
    "metrics.csv cut after a line": ("metrics.csv", lambda data: data[: data.rindex(b"\n", 0, -1) + 1]),
    "metrics.csv empty": ("metrics.csv", lambda _: b""),
    "metrics.csv no numbers": ("metrics.csv", lambda data: data.replace(b"1.0", b"abc")),
    "metrics.csv no text": ("metrics.csv", lambda data: b"\xff\xfe" + data),
    "metrics.csv gone": ("metrics.csv", None),
    "setting.json gone": ("setting.json", None),
    "setting.json cut": ("setting.json", lambda data: data[:40]),
    "setting.json of another version": ("setting.json", lambda data: data.replace(b'"format": 3', b'"format": 0')),
    "setting.json of another run": ("setting.json", lambda data: data.replace(b'"seed": 1', b'"seed": 7')),
    "state.safetensors cut": ("state.safetensors", lambda data: data[:20]),
}


def damage(store: Store, setting: Setting, how: str) -> None:
    name, change = DAMAGE[how]
    path = store.folder(setting.run_id) / name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_run_is_named_and_left_out(store: Store, tmp_path: Path, how: str) -> None:
    shown = make(groups={}, axes={"lr": [0.1]})
    fill(store, shown)
    bad = shown.settings[0]
    damage(store, bad, how)
    found = grid.load(shown, store)
    assert list(found.damaged) == [bad.run_id]
    assert "\n" not in found.damaged[bad.run_id]
    assert bad.run_id in found.damaged[bad.run_id]
    html = report([shown], store, tmp_path / "out").read_text()
    assert "1 of 4 runs are missing" in html
    assert "1 of the runs cannot be read and is left out" in html
    assert bad.run_id in html


def test_nothing_but_damaged_runs_is_one_line(store: Store, tmp_path: Path) -> None:
    shown = make(groups={}, axes={"lr": [0.1], "seed": [1]})
    fill(store, shown)
    for setting in shown.settings:
        damage(store, setting, "setting.json of another version")
    with pytest.raises(BadInput, match=r"^report: no run of study 'small' can be read; run: .* damaged: .*; .*$"):
        report([shown], store, tmp_path / "out")


def test_unfinished_runs_are_there_for_those_who_look_on(store: Store) -> None:
    shown = make(groups={})
    reading = Reading(store.root)
    nothing = grid.load(shown, reading, live=True)
    assert (nothing.runs, nothing.begun) == ({}, {})
    assert build(shown, reading, live=True).sheets[0].kind == "curves"
    fill(store, shown)
    for setting in shown.settings:
        folder = store.folder(setting.run_id)
        (folder / "state.safetensors").unlink()
        whole = (folder / "metrics.csv").read_text().splitlines(keepends=True)
        (folder / "metrics.csv").write_text("".join(whole[:6]))  # up to round 4
    built = build(shown, reading, live=True)
    assert (len(built.found.runs), len(built.found.begun), built.found.damaged) == (0, 8, {})
    curve = built.panels[0].curves["sequential"]
    assert (curve.best, curve.lead, curve.done, list(curve.rounds)) == (None, 0.1, False, [0, 2, 4])
    made = interactive.figure(shown, built.sheets[0], thin.room([built.sheets]))
    mean = made["rows"][0]["panels"][0]["curves"][0]
    assert (mean["kind"], mean["done"], mean["far"]) == ("mean", False, "round 4 so far")
    put(store, shown.settings[0], series(shown.settings[0]))
    assert list(grid.load(shown, reading, live=True).runs) == [shown.settings[0].run_id]


def test_text_in_the_numbers_cannot_end_their_script(store: Store, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>&<!--"
    shown = make(groups={evil: {"partition": "iid"}}, axes={"lr": [0.1]})
    page = report([shown], fill(store, shown), tmp_path / "out")
    assert "<script>alert(1)" not in page.read_text()
    assert numbers(page)["small-curves"]["rows"][0]["panels"][0]["title"] == evil


def tuned(**changes: Any) -> Study:
    tune = {"on": "test", "method": "coarse-fine", "short": 4, "within": 3.0, "last": 1}
    return make("tuned", groups={}, tune=tune, report={"last": 1}, **changes)


def short(setting: Setting) -> Setting:
    return Setting(**{**setting.model_dump(), "rounds": 4})


def put_short(store: Store, setting: Setting, values: list[float], diverged: int = -1) -> None:
    history = {"test_accuracy": [(r, np.array([x])) for r, x in zip((0, 2, 4), values, strict=True)]}
    handmade.finish(
        store, setting, Snapshot(4, State({"x": torch.zeros(1, 1)}), {}, torch.tensor([diverged]), History(history))
    )


def test_the_curve_shown_is_the_one_that_the_search_chose(store: Store) -> None:
    shown = tuned()
    searched = [s for s in shown.settings if s.seed == 1]
    for s in searched:
        put_short(store, short(s), [10, 20, 60.0 if s.lr == 0.1 else 50.0])  # 0.5 is out, whatever it might come to
    for s in shown.settings:
        if s.lr == 0.1:
            put(store, s, [10, 20, 60, 61, 62])
    for s in [s for s in searched if s.lr == 0.5]:
        put(store, s, [10, 20, 50, 90, 99])
    curve = first(shown, store).curves["sequential"]
    assert (curve.best.value if curve.best else None, curve.lead, len(curve.drawn)) == (0.1, 0.1, 2)
    bad = next(s for s in searched if s.lr == 0.1)
    damage(store, bad, "setting.json gone")  # the search waits for it, and nothing else is lost
    found = grid.load(shown, store)
    assert list(found.damaged) == [bad.run_id]
    assert [len(c.missing) for c in found.choices].count(0) == 1
    assert first(shown, store).curves["sequential"].lead is not None


def test_a_search_in_which_everything_diverged_says_so(store: Store, tmp_path: Path) -> None:
    shown = tuned()
    for s in [s for s in shown.settings if s.seed == 1]:
        put_short(store, short(s), [10, 20, 30], diverged=3)
    panel = first(shown, store)
    assert all(c.best and c.best.lost and not c.done for c in panel.curves.values())
    assert sheets.chosen(panel, shown) == {"sequential": "diverged", "parallel": "diverged"}
    html = report([shown], store, tmp_path / "out").read_text()
    assert "every candidate diverged" in html


# In a browser.

TUNED = {
    "tune": {"on": "test", "method": "coarse-fine", "short": 4, "within": 3.0, "last": 1},
    "groups": {"<b>one</b>": {"partition": "iid"}, "two": {"partition": "exdir:C=2,alpha=10"}},
}


def many() -> tuple[Study, Study]:
    return make("many", report={"also": ["train_loss"]}), make("tuned", base={"local_steps": 3}, **TUNED)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    plain, tuned = many()
    store = fill(Store(folder / "runs"), plain, tuned)
    lost = next(s for s in plain.settings if (s.algorithm, s.lr) == ("parallel", 0.1))
    put(store, lost, [10.0, 20, 30, 40, 50], diverged=5)
    return report([plain, tuned], store, folder / "out")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed here, and this test looks at the page in one")
    with Browser() as browser:
        yield browser


@pytest.fixture
def opened(chromium: Browser, page: Path) -> Browser:
    chromium.asked.clear()
    chromium.complaints.clear()
    chromium.size(1200, 900)
    chromium.media()
    chromium.open("about:blank#")
    chromium.open(page.as_uri())
    chromium.until("document.querySelector('.plot .trace')")
    return chromium


RANGE = "JSON.stringify(document.querySelector('.plot').layout.xaxis.range)"
TRACES = "document.querySelector('.plot').querySelectorAll('.scatterlayer .trace').length"


def press(browser: Browser, text: str, nth: int = 0) -> None:
    code = f"[...document.querySelectorAll('.key')].filter((k) => k.textContent === {json.dumps(text)})[{nth}].click()"
    browser.run(code)


def see_all(browser: Browser) -> None:
    """Scroll to each panel in turn: it is drawn when it comes near."""
    for nth in range(browser.run("document.querySelectorAll('.plot').length")):
        plot = f"document.querySelectorAll('.plot')[{nth}]"
        browser.run(f"{plot}.scrollIntoView()")
        browser.until(f"{plot}.querySelector('.scatterlayer .trace')")


def test_it_opens_from_disk_and_draws_everything(opened: Browser, page: Path) -> None:
    count = opened.run("document.querySelectorAll('.plot').length")
    assert count == sum(len(row["panels"]) for f in numbers(page).values() for row in f["rows"]) == 10
    see_all(opened)
    assert {address.split(":")[0] for address in opened.asked} <= {"file", "data", "about", "blob"}
    assert [a for a in opened.asked if a.startswith("file")] == [page.as_uri()]
    assert opened.complaints == []
    assert opened.run("document.querySelectorAll('.modebar-btn').length") == 0
    assert "<b>one</b>" in opened.run("document.getElementById('tuned').innerText")  # a name, not markup


def test_hovering_tells_the_values(opened: Browser) -> None:
    left, top, width, height = opened.box(".plot .nsewdrag")
    for part in (0.49, 0.5):
        opened.mouse("mouseMoved", left + part * width, top + 0.5 * height)
    opened.until("!document.querySelector('.tip').hidden")
    told = opened.run("[...document.querySelectorAll('.tip > *')].map((e) => e.innerText.replace(/\\s+/g, ' '))")
    assert told[0] == "round 4"
    assert told[1:] == ["sequential 81.5 81 to 82", "parallel 71.5 71 to 72"]
    opened.mouse("mouseMoved", 2, 2)
    opened.until("document.querySelector('.tip').hidden")


def test_keys_switch_lines_seeds_and_other_values(opened: Browser) -> None:
    assert opened.run(TRACES) == 4  # two means, two spreads
    press(opened, "parallel")
    opened.until(f"{TRACES} === 2")
    press(opened, "single seeds")
    opened.until(f"{TRACES} === 4")
    press(opened, "0.5")
    opened.until(f"{TRACES} === 5")
    press(opened, "parallel")
    opened.until(f"{TRACES} === 9")  # parallel is drawn at 0.5 already
    pressed = "document.querySelector('.key').getAttribute('aria-pressed')"
    assert opened.run(pressed) == "true"
    assert opened.complaints == []


def test_dragging_zooms_and_a_double_click_goes_back(opened: Browser) -> None:
    before = opened.run(RANGE)
    left, top, width, height = opened.box(".plot .nsewdrag")
    opened.mouse("mouseMoved", left + 0.2 * width, top + 0.3 * height)
    opened.mouse("mousePressed", left + 0.2 * width, top + 0.3 * height, 1)
    for part in (0.4, 0.6):
        opened.call(
            "Input.dispatchMouseEvent",
            type="mouseMoved",
            x=left + part * width,
            y=top + 0.7 * height,
            button="left",
            buttons=1,
        )
    opened.mouse("mouseReleased", left + 0.6 * width, top + 0.7 * height, 1)
    opened.until(f"{RANGE} !== {json.dumps(before)}")
    low, high = json.loads(opened.run(RANGE))
    assert (low, high) == (pytest.approx(0.2 * 8, abs=0.2), pytest.approx(0.6 * 8, abs=0.2))
    press(opened, "single seeds")
    assert json.loads(opened.run(RANGE)) == [low, high]  # switching keeps the zoom
    opened.click(left + 0.5 * width, top + 0.5 * height, times=2)
    opened.until(f"{RANGE} === {json.dumps(before)}")


def test_colours_follow_the_reader_at_once(opened: Browser) -> None:
    code = """(() => {
        const plot = document.querySelector('.plot'), style = (e) => getComputedStyle(e);
        const lines = [...plot.querySelectorAll('.scatterlayer path.js-line')].map((line) => line.style.stroke);
        return JSON.stringify([style(document.body).backgroundColor, style(plot.querySelector('.xtick text')).fill,
            plot.layout.hoverlabel.bgcolor, lines]); })()"""
    light = json.loads(opened.run(code))
    opened.media(dark=True)
    opened.until(f"JSON.parse({code})[2] !== {json.dumps(light[2])}")
    dark = json.loads(opened.run(code))
    assert all(a != b for a, b in zip(light[:3], dark[:3], strict=True))
    assert light[3] == dark[3]  # sequential and parallel stay what they are
    assert {"rgb(213, 94, 0)", "rgb(0, 114, 178)"} <= set(dark[3])


def test_a_narrow_screen_stacks_the_panels(opened: Browser) -> None:
    opened.size(390, 800)
    wide = "document.documentElement.scrollWidth"
    opened.until(f"{wide} <= 390")
    see_all(opened)
    assert opened.run(wide) <= 390
    lefts = opened.run("[...document.querySelectorAll('.plot')].map((p) => p.getBoundingClientRect().left)")
    assert len(set(lefts)) == 1
    widths = opened.run("[...document.querySelectorAll('.plot .main-svg')].map((p) => p.getBoundingClientRect().width)")
    assert max(widths) <= 390


def test_paper_and_browsers_without_scripts_get_pictures(opened: Browser, page: Path) -> None:
    seen = "[...document.querySelectorAll('.card img')].filter((i) => i.offsetWidth > 300 && i.complete).length"
    plots = "[...document.querySelectorAll('.plots')].filter((p) => p.offsetHeight > 0).length"
    count = len(numbers(page))
    assert (opened.run(seen), opened.run(plots)) == (0, count)
    opened.media("print")
    opened.until(f"{seen} === {count}")
    assert opened.run(plots) == 0
    opened.media()
    opened.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        opened.open("about:blank#")
        opened.open(page.as_uri())
        opened.until(f"{seen} === {count}")
    finally:
        opened.call("Emulation.setScriptExecutionDisabled", value=False)


def test_the_search_is_told(opened: Browser) -> None:
    told = opened.run("document.querySelector('#tuned [data-part=search]').innerText")
    assert "of the whole grid" in told
    assert "within 3 of the best after 4 rounds" in told
    assert opened.run("document.querySelectorAll('#tuned .scores .kept').length") > 0
    assert opened.run("document.querySelectorAll('#many [data-part=search]').length") == 0
    assert "seed 1 at round 5" in opened.run("document.querySelector('#many [data-part=diverged]').textContent")
