# %% [markdown]
# # From data to a verdict
#
# This notebook takes a table of samples, splits it over clients, trains one model in two ways, and says which was
# better. It takes less than a minute. Open it in Jupyter with jupytext, or in VS Code; a test runs it as it stands.

# %% [markdown]
# ## The data
# Breast cancer, from scikit-learn: 569 tumours, 30 measurements each. A data set is a function in a module, so that a
# run knows the code that it was made by. Here the module is written by the notebook.

# %%
import sys
from pathlib import Path

Path("tumours.py").write_text('''
import torch
from sklearn.datasets import load_breast_cancer
from baton.datasets import Dataset
from baton.datasets.base import cross_entropy

def cancer(clients: int) -> Dataset:
    """Every fifth tumour is for testing; measurements are scaled by the training samples."""
    table = load_breast_cancer()
    x, y = torch.tensor(table.data, dtype=torch.float32), torch.tensor(table.target)
    test = torch.arange(len(x)) % 5 == 0
    x = (x - x[~test].mean(0)) / x[~test].std(0)
    return Dataset(x[~test], y[~test], x[test], y[test], 2, cross_entropy)
''')
sys.path.insert(0, "")

# %% [markdown]
# ## Two methods, three learning rates, three seeds
# Eighteen runs. Those of one method are lanes of one program: they train at once.

# %%
import baton

common = {"dataset": "tumours:cancer", "partition": "dirichlet:alpha=0.3", "clients": 5, "rounds": 20}
runs = baton.run(
    [
        baton.Setting(**common, algorithm=algorithm, lr=lr, seed=seed)
        for algorithm in ("sequential", "parallel")
        for lr in (0.01, 0.03, 0.1)
        for seed in (1, 2, 3)
    ]
)
runs

# %% [markdown]
# ## A table
# One row a run and evaluation. Each method is judged at its own best learning rate.

# %%
table = runs.frame()
ends = table[table["round"] == table["round"].max()]
means = ends.groupby(["algorithm", "lr"])["test_loss"].agg(["mean", "std"])
best = means.loc[means.groupby("algorithm")["mean"].idxmin()]
print(best)

# %% [markdown]
# ## A picture

# %%
chosen = dict(best.index)
shown = baton.Runs(run for run in runs if run.setting.lr == chosen[run.setting.algorithm])
shown.plot("test_loss")

# %% [markdown]
# ## The verdict
# A short probe of both methods over a wider grid of rates, and how sure it is.

# %%
print(baton.advise(baton.Setting(**common), probe=0.5))

# %% [markdown]
# ## The model
# What was trained is a `torch.nn.Module`. It can be asked, saved, or trained on.

# %%
winner = min(shown, key=lambda run: run.last("test_loss"))
module = winner.module()
print(winner, module, sep="\n")
