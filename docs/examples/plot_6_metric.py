"""
Metric learning
===============

A distance in which rows of one class are near each other, learned from rows of which some have a wrong class
and columns in wrong units. Nearest neighbours then work in that distance.
"""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import outvote as ov

X, y = load_wine(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
rng = np.random.default_rng(0)
bad = rng.choice(len(y), size=6, replace=False)
X_bad, y_bad = X.copy(), y.copy()
X_bad[bad] *= rng.uniform(10, 100, size=(6, X.shape[1]))
y_bad[bad] = (y[bad] + 1) % 3

learner = ov.RobustMetricLearner(contamination=0.06, max_iter=100, random_state=0).fit(X_bad, y_bad)

# %%
# Pairs of test rows, inside a class and across; the threshold of the loss is d² = 2.

first, second = np.triu_indices(len(X_test), 1)
distances = learner.pair_distance(np.stack([X_test[first], X_test[second]], axis=1))
alike = y_test[first] == y_test[second]
print(f"pairs on the right side: {np.mean((distances**2 < 2) == alike):.2f}")

# %%
# Nearest neighbours in the columns as they came, scaled by their standard deviation, and in the learned distance.
# The neighbours come from the same dirty rows.

spread = X_bad.std(axis=0)
neighbours = KNeighborsClassifier(5)
print(f"raw columns      {neighbours.fit(X_bad, y_bad).score(X_test, y_test):.2f}")
print(f"standardised     {neighbours.fit(X_bad / spread, y_bad).score(X_test / spread, y_test):.2f}")
image, image_test = learner.transform(X_bad), learner.transform(X_test)
print(f"learned distance {neighbours.fit(image, y_bad).score(image_test, y_test):.2f}")

# %%
# Most of the gain is in the scale of the columns, the rest in their directions. Here are the test rows in the two
# directions that count most.

ax = ov.plotting.new_axes()
for kind, mark in enumerate("os^"):
    rows = image_test[y_test == kind]
    ax.plot(rows[:, 0], rows[:, 1], mark, color=ov.plotting.LINES[kind]["color"], label=f"class {kind}", alpha=0.8)
ax.set(xlabel="first direction", ylabel="second direction")
ax.legend(frameon=False)
