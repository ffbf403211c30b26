"""
An embedding from dirty pairs
=============================

A contrastive loss pulls images of one digit together and pushes others apart. Its pulls grow with the distance, so
that a few garbage images, here in wrong units, tear the embedding apart. One label in ten is wrong as well.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from torch import nn

import outvote as ov

images, digits = load_digits(return_X_y=True)
x, x_test, y, y_test = map(
    torch.from_numpy, train_test_split((images / 16).astype("float32"), digits, test_size=0.33, random_state=0)
)
n = len(y)
rng = np.random.default_rng(0)
wrong, garbage = np.split(rng.permutation(n)[: n // 10 + n // 20], [n // 10])
x_bad, y_bad = x.clone(), y.clone()
y_bad[wrong] = (y[wrong] + torch.from_numpy(rng.integers(1, 10, size=len(wrong)))) % 10
x_bad[garbage] = torch.from_numpy(rng.uniform(0, 4096, size=(len(garbage), 64)).astype("float32"))

# %%
# The loss of a pair, and two ways to train on it: all pairs of a batch, or pairs inside blocks, of which those in the
# middle count. Wrong labels do bounded harm; the garbage must be outvoted, so the contamination covers the garbage.

N_EPOCHS, N_VOTED, CONTAMINATION = 100, 50, 0.07


def contrast(a, b, y, z):
    gap = (a - b).square().sum(dim=-1)
    return torch.where(y == z, gap, torch.relu(1 - (gap + 1e-12).sqrt()).square())


def all_pairs(network, y, x):
    i, j = torch.triu_indices(len(y), len(y), 1)
    z = network(x)
    return contrast(z[i], z[j], y[i], y[j]).mean()


# %%
# Blocks cost pairs: 256 rows have 32 640 pairs, and the blocks in the middle a few hundred. So the second half trains
# on all pairs again, of the rows that the embedding does not contradict. The loss of a row is its mean loss when paired
# with the centres of the ten digits, medians that garbage hardly moves. A row that lies on the centre of another digit,
# and a margin of 1 away from its own, loses 1 with each of the two: 0.2 on average.


@torch.no_grad()
def trusted(network, y, x):
    z, labels = network(x), torch.arange(10)
    centres = torch.stack([z[y == label].median(dim=0).values for label in labels])
    losses = contrast(z[:, None], centres, y[:, None], labels).mean(dim=1)
    return ov.torch.trusted_rows(losses, CONTAMINATION, above=0.2).nonzero().squeeze(1)


def train(x, y, criterion=None):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    quality, rows = [], torch.arange(n)
    for epoch in range(N_EPOCHS):
        if criterion is not None and epoch == N_VOTED:
            rows = trusted(network, y, x)
        loss_of = all_pairs if criterion is None or epoch >= N_VOTED else criterion
        for ids in rows[torch.randperm(len(rows))].split(256)[:-1]:
            loss = loss_of(network, y[ids], x[ids])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        quality.append(told_apart(network))
    return np.array(quality), rows


first, second = np.triu_indices(len(y_test), 1)
same = (y_test[first] == y_test[second]).numpy()


@torch.no_grad()
def told_apart(network):
    """How often two test images of one digit are closer than two of different digits."""
    z = network(x_test)
    return roc_auc_score(same[::20], -(z[first[::20]] - z[second[::20]]).square().sum(dim=1))


torch.set_num_threads(1)
voting = ov.torch.MedianBlockPairLoss(contrast, contamination=CONTAMINATION)
trained = {
    "all pairs, clean data": train(x, y),
    "all pairs, dirty data": train(x_bad, y_bad),
    "median blocks, dirty data": train(x_bad, y_bad, voting),
    "median blocks, clean data": train(x, y, voting),
}
for name, (quality, _) in trained.items():
    print(f"{name:26} {quality[-1]:.3f}")

# %%
# How often two test images of one digit are closer than two of different digits; 0.5 is a coin. On clean data the
# finish makes up for what the vote costs. On dirty data it leaves out all of the garbage and some of the wrong labels:

rows = trained["median blocks, dirty data"][1]
for name, bad in {"garbage": garbage, "wrong labels": wrong}.items():
    print(f"{name}: {1 - np.isin(bad, rows).mean():.0%} left out")

colors = ov.plotting.COLORS
ax = ov.plotting.new_axes()
for name, (quality, _) in trained.items():
    color = colors["plain"] if name.startswith("all") else colors["robust"]
    ax.plot(np.arange(1, N_EPOCHS + 1), quality, color=color, ls=":" if "clean" in name else "-", label=name)
ax.axvline(N_VOTED, color=colors["blocks"], lw=0.8)
ax.set(xlabel="epoch", ylabel="pairs of test images told apart", title="Training an embedding: vote, finish")
ax.legend(frameon=False)
