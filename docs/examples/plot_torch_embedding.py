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

N_EPOCHS = 100


def contrast(a, b, y, z):
    gap = (a - b).square().sum(dim=1)
    return torch.where(y == z, gap, torch.relu(1 - (gap + 1e-12).sqrt()).square())


def all_pairs(network, y, x):
    i, j = torch.triu_indices(len(y), len(y), 1)
    z = network(x)
    return contrast(z[i], z[j], y[i], y[j]).mean()


def train(x, y, criterion):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    quality = []
    for _ in range(N_EPOCHS):
        for ids in torch.randperm(n).split(256)[:-1]:
            loss = criterion(network, y[ids], x[ids])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        quality.append(told_apart(network))
    return network, np.array(quality)


first, second = np.triu_indices(len(y_test), 1)
same = (y_test[first] == y_test[second]).numpy()


@torch.no_grad()
def told_apart(network):
    """How often two test images of one digit are closer than two of different digits."""
    z = network(x_test)
    return roc_auc_score(same[::20], -(z[first[::20]] - z[second[::20]]).square().sum(dim=1))


torch.set_num_threads(1)
voting = ov.torch.MedianBlockPairLoss(contrast, contamination=0.07)
trained = {
    "all pairs, clean data": train(x, y, all_pairs),
    "all pairs, dirty data": train(x_bad, y_bad, all_pairs),
    "median blocks, dirty data": train(x_bad, y_bad, voting),
    "median blocks, clean data": train(x, y, voting),
}
for name, (_, quality) in trained.items():
    print(f"{name:26} {quality[-1]:.3f}")

# %%
# How often two test images of one digit are closer than two of different digits; 0.5 is a coin. Blocks cost pairs: 256
# rows have 32 640 pairs, and the blocks in the middle a few hundred. That is the price on clean data.

colors = ov.plotting.COLORS
ax = ov.plotting.new_axes()
for name, (_, quality) in trained.items():
    color = colors["plain"] if name.startswith("all") else colors["robust"]
    ax.plot(np.arange(1, N_EPOCHS + 1), quality, color=color, ls=":" if "clean" in name else "-", label=name)
ax.set(xlabel="epoch", ylabel="pairs of test images told apart", title="Training an embedding")
ax.legend(frameon=False)
