"""The columns of metrics.csv, from a model and its rows."""

import numpy as np

from reference.given import Given
from reference.method import Method
from reference.problems import Array, Model, Samples

Columns = dict[str, float]
NONE = float("nan")


class Measuring:
    """Evaluations of one run."""

    def __init__(self, given: Given, model: Model, slack: float) -> None:
        """slack: outputs closer than this may fall on either side when accuracy is counted."""
        self.given, self.model, self.slack, self.s = given, model, slack, given.setting
        self.unsure: Columns = {}  # by how much a column may be off for rows that are too close to call

    def __call__(self, method: Method, number: int, order: list[int]) -> Columns:
        """Return all columns of one evaluation, but for the bytes."""
        train, held = self.given.train, self.given.held_rows
        found = self.tested(method)
        if self.s.validation:
            every = [(method.model_of(m), _some(train, rows)) for m, rows in enumerate(held)]
            found |= self.named("validation", every)
        for name, who in (("train", order), ("train_random", self.random(number))):
            rows = [(method.model_of(m), _some(train, self.given.rows[m])) for m in who]
            found |= self.named(name, rows)
        return found

    def random(self, number: int) -> list[int]:
        """Return S random clients; where S = M all of them."""
        s = self.s
        return self.given.random_clients(number) if s.participants < s.clients else list(range(s.clients))

    def tested(self, method: Method) -> Columns:
        """Test rows, all of them and site by site; where each client has a model of its own, it answers its own."""
        test, own = self.given.test, self.s.algorithm == "alone"
        sites = [(method.model_of(m), rows) for m, rows in enumerate(self.rows_of_sites()) if len(rows.y)]
        if not own:
            found = self.named("test", [(method.x, test)])
        elif self.given.owned:
            found = self.named("test", sites)
        else:
            each = [self.named("test", [site]) for site in sites]
            found = {name: float(np.mean([one[name] for one in each])) for name in each[0]} if each else {}
        if self.s.metrics == "accuracy":
            every = [self.named("site", [site])["site_accuracy"] for site in sites]
            values = {"mean": np.mean(every), "worst": min(every), "best": max(every), "spread": np.std(every)}
            found |= {f"site_accuracy_{name}": float(value) for name, value in values.items()}
            self.unsure |= {f"site_accuracy_{name}": self.unsure["site_accuracy"] for name in values}
        elif self.s.metrics != "none" and not own and not self.given.classes and self.given.optimum is None:
            error = self.model.outputs(method.x, test.x)[:, 0] - test.y
            found |= {"test_mse": float((error**2).mean()), "test_mae": float(np.abs(error).mean())}
            found["test_r2"] = 1 - found["test_mse"] / float(test.y.var())
        return found

    def rows_of_sites(self) -> list[Samples]:
        """The test rows of each client: its own where the data say so, else those of the classes that it holds."""
        test, train = self.given.test, self.given.train
        if self.given.owned:
            return [_some(test, self.given.test_owner == m) for m in range(self.s.clients)]
        every = np.ones(len(test.y), bool)
        return [
            _some(test, np.isin(test.y, train.y[rows]) if self.given.classes else every) for rows in self.given.rows
        ]

    def named(self, prefix: str, parts: list[tuple[Array, Samples]]) -> Columns:
        """Return the mean loss, and the accuracy in percent, over some rows, each part by its own model."""
        loss, right, unsure, count = 0.0, 0, 0, 0
        for x, rows in parts:
            outputs = self.model.outputs(x, rows.x)
            loss += float(self.model.losses(outputs, rows.y).sum())
            count += len(rows.y)
            if self.given.classes:
                logits = outputs if outputs.shape[1] > 1 else np.concatenate([np.zeros_like(outputs), outputs], 1)
                right += int((logits.argmax(1) == rows.y).sum())
                top = np.sort(logits, 1)
                unsure += int((top[:, -1] - top[:, -2] < self.slack).sum())
        found = {f"{prefix}_loss": loss / count if count else NONE}
        if self.given.classes:
            name = f"{prefix}_accuracy"
            found[name] = 100 * right / count if count else NONE
            self.unsure[name] = max(self.unsure.get(name, 0.0), 100 * unsure / count if count else 0.0)
        return found

    def away(self, x: Array) -> Columns:
        """Return |x - x*| and F(x) - F* of quadratics."""
        if self.given.optimum is None:
            return {}
        best, hessian = self.given.optimum
        return {
            "distance": float(np.linalg.norm(x - best)),
            "objective_gap": float((x - best) @ hessian @ (x - best) / 2),
        }


def _some(samples: Samples, rows: np.ndarray) -> Samples:
    return Samples(*(part[rows] for part in samples))
