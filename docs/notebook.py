# %% [markdown]
# # From a table to a verdict
#
# This notebook takes a table of patients with the hospital of each, trains one model over the hospitals in two ways,
# and says which was better, whether one can tell, and what the model is worth at every hospital. It takes less than a
# minute. Open it in Jupyter with jupytext, or in VS Code; a test runs it as it stands.

# %% [markdown]
# ## The data
# Breast cancer, from scikit-learn: 569 tumours, 30 measurements each. The three hospitals are made up, by tumour size.
# Yours would be a file already.

# %%
import csv

from sklearn.datasets import load_breast_cancer

found = load_breast_cancer()
with open("tumours.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow([*found.feature_names, "hospital", "benign"])
    for x, y in zip(found.data, found.target, strict=True):
        hospital = "north" if x[0] < 13 else "west" if x[0] < 15 else "south"
        rows.writerow([*x, hospital, y])

# %% [markdown]
# ## The comparison
# Sequential training hands the model from hospital to hospital, parallel training averages. A few learning rates are
# tried for each on patients that the hospitals hold back; the best is trained with five seeds on everything. A fifth of
# each hospital's patients are for testing, and are looked at only then.

# %%
import baton

table = {"dataset": "csv:tumours.csv,label=benign,site=hospital", "rounds": 20}
verdict = baton.compare(["sequential", "parallel"], seeds=5, **table)
print(verdict)

# %% [markdown]
# ## The runs behind it
# They are in the store, so that nothing is trained here.

# %%
runs = baton.run(
    [
        baton.Setting(**table, algorithm=line.value, lr=line.lr, seed=seed)
        for line in verdict.lines
        for seed in line.scores
    ]
)
rounds = runs.frame()
ends = rounds[rounds["round"] == rounds["round"].max()]
print(ends.groupby("algorithm")[["test_accuracy", "test_auc", "site_auc_worst"]].mean())

# %%
runs.plot("test_loss")

# %% [markdown]
# ## Every hospital
# A mean over all patients hides the hospital for which a model is useless. Each one's own test patients:

# %%
better = runs[0]  # the better line comes first
sites = better.sites()
print(sites[sites["round"] == sites["round"].max()])

# %% [markdown]
# ## The model
# What was trained is a `torch.nn.Module`. It can be asked, saved, or trained on.

# %%
print(better, better.module(), sep="\n")
