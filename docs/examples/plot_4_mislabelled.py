"""
Evaluating a model on mislabelled data
======================================

Three in a hundred labels of the test set are wrong. What is the accuracy on the rows whose labels are right,
and what can be promised?
"""

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

import outvote as ov

X, y = make_classification(n_samples=12_000, n_informative=6, class_sep=1.6, flip_y=0.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
model = LogisticRegression().fit(X_train, y_train)
predicted = model.predict(X_test)

labels = y_test.copy()
wrong = np.random.default_rng(0).choice(6000, size=180, replace=False)
labels[wrong] = 1 - labels[wrong]
print(
    f"accuracy: {accuracy_score(y_test, predicted):.3f} in truth, {accuracy_score(labels, predicted):.3f} as measured"
)

# %%
# An accuracy lies between 0 and 1, so that nothing has to be assumed for a certificate:

print(ov.metrics.robust_accuracy(labels, predicted, contamination=0.03, vote="auto", rng=0))

# %%
# The bound that counts before a release is one-sided: the risk on clean rows is at most so much.

risk = ov.certify_risk(labels != predicted, contamination=0.03)
print(f"clean error at most {risk.interval.high:.3f}, with 95 % confidence")

# %%
# Wrong labels look like errors of the model, one by one, and no estimator can tell them apart: the bound pays for
# them, and grows with the share that is allowed for. The loss is another matter. One row with a wrong label and a
# confident model costs as much as dozens of others; the plain log loss follows it, the robust one does not.

proba = model.predict_proba(X_test)
plain = -np.log(proba[np.arange(6000), labels])
print(f"log loss: {-np.log(proba[np.arange(6000), y_test]).mean():.3f} in truth, {plain.mean():.3f} as measured")
print(ov.metrics.robust_log_loss(labels, proba, contamination=0.03, rng=0))

# %%
# The bound against the share of labels that may be wrong:

shares = [0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08]
bounds = [ov.certify_risk(labels != predicted, contamination=share).interval.high for share in shares]
ax = ov.plotting.new_axes()
ax.plot(100 * np.array(shares), bounds, "o-", color=ov.plotting.COLORS["robust"], label="certified bound")
ax.axhline(1 - accuracy_score(y_test, predicted), color=ov.plotting.COLORS["plain"], ls="--", label="true clean error")
ax.set(xlabel="labels that may be wrong, %", ylabel="error on clean rows", ylim=(0, None))
ax.legend(frameon=False)
