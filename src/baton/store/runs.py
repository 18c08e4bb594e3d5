"""The store: runs/<run_id>/ with setting.json, metrics.csv, state.safetensors and their checksums.

A run's folder appears when the run is complete, whole and once: it is written elsewhere and then renamed, which fails
where the run is there already. Its state holds the model under its own names, and what the server and the clients keep
under server/ and clients/. Runs in flight are in the pool.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from baton.errors import BadInput
from baton.index import RUN, Entry, Index, check
from baton.lanes import Params
from baton.nolinks import delete, is_file, is_folder, is_link, make_folder
from baton.notice import many
from baton.seam import State
from baton.setting import Setting, is_earlier, kin
from baton.store import files, journal, sites, sums
from baton.store.files import Damaged
from baton.store.metrics import Metrics, ended, from_csv, history_of, tables, to_csv
from baton.store.pool import Facts, Pool
from baton.store.sites import Measured, SiteTable
from baton.store.snapshot import CLIENTS, SERVER, Snapshot, drawers, named

EARLIER = "of an earlier format; it is kept, and never reused, compared or reported"
NOBODY = "0" * 16  # in the place of a worker's token
REPAIR = "'baton repair' moves it aside, to be trained again"


class Run(NamedTuple):
    """One stored run."""

    setting: Setting
    metrics: Metrics
    complete: bool
    diverged: int | None  # the round, if any
    way: dict[str, float] | None = None  # the mean longest way through a round: ledger.Way; None: not known
    how: Facts | None = None  # how it was computed, as far as that changes bytes; None: not known


class Earlier(NamedTuple):
    """A run of an earlier format, which is only shown."""

    run: str
    setting: dict[str, Any]  # as it was written
    ends: dict[str, float]  # its last evaluation


class About(NamedTuple):
    """What state.safetensors says of itself."""

    run: str
    round: int  # of the state
    diverged: int | None
    precision: str = ""  # "": of before it was written down
    way: dict[str, float] | None = None
    how: Facts | None = None
    sites: str = ""  # which test rows are a site's, in words; "": sites were not measured

    def told(self) -> dict[str, Any]:
        """What is written of it: of sites, where there are any."""
        return {field: x for field, x in self._asdict().items() if field != "sites" or x}


class Store:
    """A folder of runs."""

    def __init__(self, root: str | Path = "runs") -> None:
        self.root = Path(root)
        check(self.root)
        self.pool = Pool(self.root)
        self._index = Index(self.root, self.entry)

    def folder(self, run_id: str) -> Path:
        """runs/<run_id>."""
        return self.root / run_id

    def _state(self, run_id: str) -> Path:
        return self.folder(run_id) / "state.safetensors"

    def complete(self, run_id: str) -> bool:
        """Whether the run has been trained to its end."""
        return is_folder(self.folder(run_id)) and is_file(self._state(run_id))

    # --- what is there

    def entries(self) -> dict[str, Entry]:
        """Every run that has a folder, by id: from the index, which is brought up to date."""
        return self._index.entries()

    def ids(self) -> list[str]:
        """Every run in the store, complete or in flight."""
        return sorted({*self.entries(), *self.pool.in_flight()})

    def settings(self) -> dict[str, Setting]:
        """Those of every run that can be read, complete or in flight."""
        texts = {run: entry.setting for run, entry in self.entries().items() if not entry.fault}
        texts |= {run: text for run, text in self._flying().items() if not is_earlier(text)}
        return {run: Setting.from_json(texts[run]) for run in sorted(texts)}

    def faults(self) -> dict[str, str]:
        """Runs that cannot be read, and what is wrong with each; those of an earlier format are sound."""
        return {run: entry.fault for run, entry in self.entries().items() if entry.fault and not entry.earlier}

    def earlier(self) -> list[str]:
        """Return the ids of runs of an earlier format, complete or in flight: never reused, compared or reported."""
        flying = [run for run, text in self._flying().items() if is_earlier(text)]
        return sorted({*(run for run, entry in self.entries().items() if entry.earlier), *flying})

    def read_earlier(self, run_id: str) -> Earlier | None:
        """Return a run of an earlier format as it was written; None where the run is of this one."""
        if run_id not in self.earlier():
            return None
        entry = self.entries().get(run_id)
        text = entry.setting if entry else self._flying()[run_id]
        return Earlier(run_id, json.loads(text), json.loads(entry.ends) if entry else {})

    def describe_earlier(self) -> str:
        """Return a line that says how many runs of an earlier format are left out; empty where there are none."""
        count = len(self.earlier())
        if not count:
            return ""
        return f"{many(count, 'run')} of an earlier format in {self.root} left out; 'baton list runs' shows them"

    def _flying(self) -> dict[str, str]:
        """Return the setting of every run in flight, as JSON, by id."""
        return {run: chunk.laid.settings[lane] for run, (chunk, lane) in self.pool.in_flight().items()}

    def entry(self, run_id: str, stamp: int) -> Entry:
        """A run's folder, read for the index."""
        try:
            folder = self.folder(run_id)
            known = sums.of(folder)
            text = sums.read(folder, "setting.json", known).decode()
            if is_earlier(text):
                done = self.complete(run_id)
                ends = ended(sums.read(folder, "metrics.csv", known)) if done else {}
                return Entry(run_id, stamp, text, "", 0, int(done), "", EARLIER, json.dumps(ends), 1)
            setting = Setting.from_json(text)
            if setting.run_id != run_id:
                raise Damaged(f"setting.json is that of {setting.run_id}")
            about = self.about(run_id) if self.complete(run_id) else None
            if about and not is_file(folder / "metrics.csv"):
                raise Damaged("no metrics.csv beside its state")
            ends = ended(sums.read(folder, "metrics.csv", known)) if about else {}
        except (OSError, ValueError) as error:
            what = f"{error.strerror} ({error.filename})" if isinstance(error, OSError) else str(error)
            return Entry(run_id, stamp, "", "", 0, int(self.complete(run_id)), "", what.splitlines()[0])
        said = json.dumps(about.told()) if about else ""
        return Entry(run_id, stamp, text, *kin(text), int(about is not None), said, "", json.dumps(ends))

    @property
    def index_place(self) -> Path:
        """The file that the index is kept in."""
        return self._index.place()

    def index_faults(self, sound: Callable[[str], bool]) -> list[str]:
        """What is wrong with the index, compared with the files of sound runs."""
        return self._index.faults(sound)

    def reindex(self) -> None:
        """Make the index anew."""
        self._index.remove()
        self._index.entries()

    def find(self, prefix: str) -> str:
        """The run whose id starts so."""
        found = [run for run in self.ids() if run.startswith(prefix)]
        if len(found) != 1:
            what = f"{len(found)} runs start so" if found else f"no such run in {str(self.root)!r}"
            raise BadInput(f"run: {prefix!r}: {what}; 'baton list runs' shows the ids")
        return found[0]

    # --- reading

    def read(self, run_id: str) -> Run:
        """A stored run, complete or in flight; its files are what was written, or it says so."""
        try:
            if not self.complete(run_id):
                with suppress(FileNotFoundError):  # or it was completed just now
                    return self._begun(run_id)
            return self._whole(run_id)
        except FileNotFoundError as error:
            missing, where = Path(error.filename).name, str(self.folder(run_id))
            raise BadInput(f"run: {run_id}: no {missing} in {where!r}; train it first") from None
        except OSError as error:
            raise BadInput(f"run: {run_id}: {error.filename}: cannot be read ({error.strerror})") from None
        except Damaged as error:
            raise Damaged(f"run: {run_id}: {error}; {REPAIR}") from None
        except BadInput as error:
            raise BadInput(f"run: {run_id}: {error}") from None

    def _whole(self, run_id: str) -> Run:
        folder = self.folder(run_id)
        known = sums.of(folder)
        text = sums.read(folder, "setting.json", known).decode(errors="replace")
        table = from_csv(sums.read(folder, "metrics.csv", known))
        about = self.about(run_id)
        return Run(Setting.from_json(text), table, True, about.diverged, about.way, about.how)

    def _begun(self, run_id: str) -> Run:
        """In flight: as far as its last checkpoint; or as a store of before has it, in a folder of its own."""
        known = self.pool.in_flight().get(run_id)
        if known is None:
            folder = self.folder(run_id)
            if is_link(folder):
                raise Damaged(f"{folder} is a link, and is not followed")
            text = files.read(folder / "setting.json").decode(errors="replace")
            return Run(Setting.from_json(text), from_csv(files.read(folder / "metrics.csv")), False, None)
        chunk, lane = known
        setting, seen = Setting.from_json(chunk.laid.settings[lane]), self.pool.look(chunk)
        if seen is None:
            raise BadInput("it has not been trained as far as its first checkpoint; wait for it")
        lost = seen.diverged[lane]
        return Run(setting, from_csv(to_csv(tables(seen.history), lane, lost)), False, lost if lost >= 0 else None)

    def stamp(self, run_id: str) -> tuple[int, ...]:
        """Changes whenever the run does; () where nothing of it can be read."""
        found = []
        for name in ("metrics.csv", "state.safetensors"):
            try:
                found.append((self.folder(run_id) / name).lstat().st_mtime_ns)
            except OSError:
                continue
        if not found and (known := self.pool.in_flight().get(run_id)) and (moved := self.pool.stamp(known[0])):
            return (moved,)
        return tuple(found)

    def about(self, run_id: str) -> About:
        """What a complete run says of itself."""
        found = files.about(self._state(run_id))
        try:
            about = About(**{field: found[field] for field in About._fields if field in found})
        except TypeError:
            about = None
        if about is None or not _is_sound(about):
            raise Damaged("state.safetensors is damaged")
        return about

    def columns(self, run_id: str) -> list[str]:
        """The names in a run's metrics.csv; of one in flight, what it has so far."""
        try:
            return (
                files.read(self.folder(run_id) / "metrics.csv").decode(errors="replace").partition("\n")[0].split(",")
            )
        except OSError:
            return list(self.read(run_id).metrics)

    def sites(self, run_id: str) -> SiteTable | None:
        """Every site's metrics of a complete run; None where they were not measured."""
        folder = self.folder(run_id)
        try:
            return sites.from_csv(sums.read(folder, sites.NAME, sums.of(folder)))
        except FileNotFoundError:
            return None
        except Damaged as error:
            raise Damaged(f"run: {run_id}: {error}; {REPAIR}") from None

    def params(self, run_id: str) -> Params:
        """The final model of a complete run, without the lane axis."""
        return self._tensors(run_id, (SERVER, CLIENTS))

    def state(self, run_id: str) -> State:
        """What server and clients were handed at the end of a complete run: the model, and what the server keeps."""
        return drawers(self._tensors(run_id, (CLIENTS,)))[0]

    def _tensors(self, run_id: str, but: tuple[str, ...] = ()) -> Params:
        try:
            return files.load(self._state(run_id), but)
        except Damaged as error:
            raise Damaged(f"run: {run_id}: {error}; {REPAIR}") from None

    # --- runs that are beginnings of others

    def kin(self) -> dict[str, dict[int, str]]:
        """Complete runs that differ in their rounds only: {what they share: {rounds: run id}}."""
        found: dict[str, dict[int, str]] = {}
        for run, entry in self.entries().items():
            if entry.complete and not entry.fault:
                found.setdefault(entry.kin, {})[entry.rounds] = run
        return found

    def begun(self, settings: Sequence[Setting], precision: str) -> dict[str, int]:
        """Rounds of each run that are trained already, because the store holds its beginning as a run of its own."""
        every, entries = self.kin(), self.entries()
        found = dict.fromkeys((s.run_id for s in settings), 0)
        for s in settings if every else ():
            for rounds, run in sorted(every.get(s.kin, {}).items()):
                said = json.loads(entries[run].about)
                if rounds < s.rounds and rounds % s.eval_every == 0 and said["precision"] == precision:
                    found[s.run_id] = rounds
        return found

    def resume(self, settings: Sequence[Setting], rounds: int, device: torch.device) -> tuple[Snapshot, list[Facts]]:
        """The beginnings of these runs as lanes of one snapshot, to go on from, and how each was computed."""
        every = self.kin()
        ids = [every[s.kin][rounds] for s in settings]
        runs = [self.read(run) for run in ids]
        kept = [self._tensors(run) for run in ids]
        lanes = {name: torch.stack([each[name] for each in kept]).to(device) for name in kept[0]}
        diverged = torch.tensor([-1 if run.diverged is None else run.diverged for run in runs], device=device)
        history = sites.joined(history_of([run.metrics for run in runs]), [self.sites(run) for run in ids])
        at = Snapshot(rounds, *drawers(lanes), diverged, history)
        return at, [run.how for run in runs if run.how]

    # --- writing

    def finish(
        self,
        settings: Sequence[Setting],
        at: Snapshot,
        precision: str = "fp32",
        ways: Sequence[dict[str, float]] | None = None,
        how: Facts | None = None,
        by: str = NOBODY,
        measured: Measured | None = None,
    ) -> None:
        """Runs that reached their end, each in a folder that appears whole; one that is there already stays.

        ways: the mean way through a round of each, for the time that it would take; how: they were computed; by: the
        token of the worker; measured: the sites whose metrics were taken.
        """
        diverged, found = at.diverged.tolist(), tables(at.history)
        state = State(*({name: leaf.cpu() for name, leaf in drawer.items()} for drawer in at.state))
        kept = named(state, at.clients)  # what clients keep comes over lane by lane: it may be large
        stage = self.pool.stage(by)
        try:
            staged = []
            for lane, setting in enumerate(settings):
                if self.complete(setting.run_id):
                    continue
                lost = diverged[lane] if diverged[lane] >= 0 else None
                end, way = at.round if lost is None else lost, ways[lane] if ways else None
                about = About(setting.run_id, end, lost, precision, way, how, measured.how if measured else "").told()
                text, rows = setting.to_json(), to_csv(found, lane, diverged[lane])
                contents = {
                    "metrics.csv": rows,
                    "setting.json": text.encode(),
                    "state.safetensors": files.packed({n: x[lane] for n, x in kept.items()}, about),
                }
                if measured is not None:
                    contents[sites.NAME] = sites.to_csv(found, lane, diverged[lane], measured)
                _written(stage / setting.run_id, contents)
                told = json.dumps(about), "", json.dumps(ended(rows))
                staged.append(Entry(setting.run_id, 0, text, *kin(text), 1, *told))
            os.sync()
            self._index.add([entry for entry in staged if self._publish(stage / entry.run)])
        finally:
            delete(stage)

    def packed(self, run_id: str) -> dict[str, bytes]:
        """A complete run's files, to be sent elsewhere."""
        return {name: files.read(self.folder(run_id) / name) for name in (*sorted(sums.FILES), sums.NAME)}

    def receive(self, runs: Mapping[str, Mapping[str, bytes]], by: str) -> None:
        """Runs that were trained elsewhere: the files of each, checked; one that is there already stays."""
        stage = self.pool.stage(by)
        try:
            for run, contents in runs.items():
                if not RUN.fullmatch(run):
                    raise Damaged(f"run: {run!r} is no run's id")
                (stage / run).mkdir()
                for name in (*sums.FILES, sums.NAME):
                    (stage / run / name).write_bytes(contents[name])
                known = sums.of(stage / run)
                for name in sums.FILES:
                    sums.read(stage / run, name, known)
            os.sync()
            self._index.add([self.entry(run, 0) for run in runs if self._publish(stage / run)])
        finally:
            delete(stage)

    def _publish(self, made: Path) -> bool:
        """Whether a run's folder, whole, is now in its place; left where it is if another process was faster."""
        place = self.folder(made.name)
        for _ in range(2):
            try:
                made.rename(place)
                return True
            except OSError:
                if self.complete(made.name):
                    return False
                if not os.path.lexists(place):
                    raise
                self.set_aside(place, "unfinished")  # also a link, which goes by its own name
        return False

    def set_aside(self, what: Path, why: str, beside: Path | None = None) -> Path:
        """Move something of the store out of the way; nothing is deleted. beside: what was moved just before."""
        if beside is None:
            stamp = f"{time.strftime('%Y%m%dT%H%M%S')}-{why}-{secrets.token_hex(2)}"
            make_folder(self.root, ".aside", stamp)
            beside = self.root / ".aside" / stamp / what.name
        target = beside.with_name(what.name)
        what.rename(target)
        return target

    def log(self, entry: dict[str, Any]) -> None:
        """One line in runs/journal.jsonl: what ran when, on what, for how long."""
        journal.log(self.root, entry)


def _is_sound(about: About) -> bool:
    """Return whether all that a run says of itself has the type that it was written with."""
    counts = (about.round, 0 if about.diverged is None else about.diverged)
    way, how = ({} if table is None else table for table in (about.way, about.how))
    if not all(type(x) is int for x in counts) or not isinstance(way, dict) or not isinstance(how, dict):
        return False
    texts = (about.run, about.precision, about.sites, *how.values())
    return all(isinstance(x, str) for x in texts) and all(isinstance(x, int | float) for x in way.values())


def _written(folder: Path, contents: Mapping[str, bytes]) -> None:
    """A folder of files, and the checksums of all."""
    folder.mkdir()
    digests = {name: files.checksum(data) for name, data in contents.items()}
    for name, data in {**contents, sums.NAME: sums.written(digests)}.items():
        (folder / name).write_bytes(data)
