"""
Ranking with poisoned rows
==========================

A score is to put patients in the order of how far their disease has gone a year later. Someone has slipped rows
into the training set that pull it the wrong way: twenty standard deviations out on the side of the mild cases,
with the worst outcome.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

import outvote as ov

X, y = load_diabetes(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

rng = np.random.default_rng(0)
poisoned = rng.choice(len(y), size=30, replace=False)
X_bad, y_bad = X.copy(), y.copy()
side = np.sign((X - X.mean(axis=0)).T @ (y - y.mean()))  # where the outcome is worse, column by column
X_bad[poisoned] = X.std(axis=0) * (rng.normal(size=(30, 10)) - 20 * side)
y_bad[poisoned] = y.max()

# %%
# Concordance is the share of pairs of test rows in the right order; a coin has 0.5. The plain score is least
# squares.

clean = LinearRegression().fit(X, y)
plain = LinearRegression().fit(X_bad, y_bad)
robust = ov.RobustRanker(contamination=0.1, random_state=0).fit(X_bad, y_bad)
for name, score in {"plain, clean rows": clean, "plain": plain, "robust": robust}.items():
    print(f"{name:18} {ov.learning.concordance(y_test, score.predict(X_test)):.3f}")

# %%
# Which rows did the fit not believe? Poisoned rows stand at the right end.

suspicion = robust.outlier_scores_
is_bad = np.isin(np.arange(len(y)), poisoned)
print(f"poisoned among the 30 most suspect rows: {is_bad[np.argsort(-suspicion)[:30]].sum()}")

ax = ov.plotting.new_axes()
bins = np.geomspace(suspicion[suspicion > 0].min(), suspicion.max(), 40)
ax.hist(suspicion[~is_bad], bins, color=ov.plotting.COLORS["blocks"], label="clean rows")
ax.hist(suspicion[is_bad], bins, color=ov.plotting.COLORS["plain"], label="poisoned rows")
ax.set(xscale="log", xlabel="outlier score", ylabel="rows")
ax.legend(frameon=False)
