"""
A network on mislabelled digits
===============================

One label in ten is wrong and one image in twenty is noise. A network that is trained for long learns them by heart.
`ov.torch.MedianBlockLoss` deals every batch into blocks and trains on the blocks in the middle of the losses.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.functional import cross_entropy

import outvote as ov

images, digits = load_digits(return_X_y=True)
x, x_test, y, y_test = map(
    torch.from_numpy, train_test_split((images / 16).astype("float32"), digits, test_size=0.33, random_state=0)
)
n = len(y)
rng = np.random.default_rng(0)
wrong, noise = np.split(rng.permutation(n)[: n // 10 + n // 20], [n // 10])
x_bad, y_bad = x.clone(), y.clone()
y_bad[wrong] = (y[wrong] + torch.from_numpy(rng.integers(1, 10, size=len(wrong)))) % 10
x_bad[noise] = torch.from_numpy(rng.uniform(size=(len(noise), 64)).astype("float32"))

# %%
# The first 15 epochs are plain: a network that knows nothing finds whole classes hard, and the vote would leave them
# out. Then the two trainings differ by one line.

N_EPOCHS, N_PLAIN = 120, 15


def train(x, y, criterion=None):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)

    def losses(x, y):
        return cross_entropy(network(x), y, reduction="none")

    accuracy = []
    for epoch in range(N_EPOCHS):
        for ids in torch.randperm(n).split(128)[:-1]:
            if criterion is None or epoch < N_PLAIN:
                loss = losses(x[ids], y[ids]).mean()
            else:
                loss = criterion(losses, x[ids], y[ids], ids=ids)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            accuracy.append(float((network(x_test).argmax(dim=1) == y_test).float().mean()))
    return np.array(accuracy)


torch.set_num_threads(1)
voting = ov.torch.MedianBlockLoss(contamination=0.15, n_examples=n)
fifteen = ov.torch.MedianBlockLoss(contamination=0.15, n_examples=n)
five = ov.torch.MedianBlockLoss(contamination=0.05, n_examples=n)
curves = {
    "plain, clean data": train(x, y),
    "plain, dirty data": train(x_bad, y_bad),
    "median blocks, dirty data": train(x_bad, y_bad, voting),
    "median blocks, clean data": train(x, y, fifteen),
    "the same, told 5 %": train(x, y, five),
}
for name, curve in curves.items():
    print(f"{name:26} {curve[-10:].mean():.3f}")

# %%
# Accuracy on clean test images, the mean of the last ten epochs. The vote has a price: it leaves out hard rows along
# with wrong ones, so that on clean data it does worse than plain training, the more so the more contamination it is
# told to expect.
#
# Examples that spoil their blocks are chosen less often than others. Their counts are an outlier score:

is_bad = np.isin(np.arange(n), [*wrong, *noise])
scores = voting.outlier_scores().numpy()
for name, bad in {"a wrong label": wrong, "noise": noise}.items():
    rows = [*np.flatnonzero(~is_bad), *bad]
    area = roc_auc_score(is_bad[rows], scores[rows])
    print(f"{name} is more suspect than a good example {area:.0%} of the time")

# %%
# Wrong labels stand out. Noise does not: it costs neither little nor much, which is where the vote looks, and the
# network has met it in the plain epochs.

colors = ov.plotting.COLORS
left, right = ov.plotting.new_panels(1, 2)
styles = {
    "plain, clean data": (colors["plain"], ":"),
    "plain, dirty data": (colors["plain"], "-"),
    "median blocks, dirty data": (colors["robust"], "-"),
    "median blocks, clean data": (colors["robust"], ":"),
}
for name, (color, line) in styles.items():
    left.plot(np.arange(1, N_EPOCHS + 1), curves[name], color=color, ls=line, label=name)
left.set(xlabel="epoch", ylabel="accuracy on clean test images", ylim=(0.85, 1), title="Training")
left.legend(frameon=False, loc="lower center", fontsize="small")
bins = np.linspace(scores.min(), scores.max(), 40)
right.hist(scores[~is_bad], bins, color=colors["blocks"], label="good examples")
right.hist(scores[is_bad], bins, color=colors["plain"], label="bad examples")
right.set(xlabel="outlier score", ylabel="examples", title="Who is left out")
right.legend(frameon=False)
