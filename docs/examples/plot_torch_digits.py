"""
A network on mislabelled digits
===============================

One label in ten is wrong and one image in twenty is noise. A network that is trained for long learns them by heart.
`ov.torch.MedianBlockLoss` deals every batch into blocks and trains on the blocks in the middle of the losses;
`ov.torch.trusted_rows` then says on which rows to finish.
"""

import math

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
# Three stages. The first 15 epochs are plain: a network that knows nothing finds whole classes hard, and the vote would
# leave them out. Then the blocks vote. They leave out hard rows along with wrong ones, so the second half is plain
# again, on all rows but those that the network contradicts: among the worst 15 %, with a loss larger than that of a
# guess.

N_EPOCHS, N_PLAIN, N_VOTED = 120, 15, 60


def train(x, y, criterion=None):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)

    def losses(x, y):
        return cross_entropy(network(x), y, reduction="none")

    accuracy, rows, voted = [], torch.arange(n), None
    for epoch in range(N_EPOCHS):
        if criterion is not None and epoch == N_VOTED:
            with torch.no_grad():
                voted = losses(x, y)
            rows = ov.torch.trusted_rows(voted, criterion.contamination, above=math.log(10)).nonzero().squeeze(1)
        for ids in rows[torch.randperm(len(rows))].split(128)[:-1]:
            if criterion is not None and N_PLAIN <= epoch < N_VOTED:
                loss = criterion(losses, x[ids], y[ids], ids=ids)
            else:
                loss = losses(x[ids], y[ids]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            accuracy.append(float((network(x_test).argmax(dim=1) == y_test).float().mean()))
    return np.array(accuracy), voted, rows


torch.set_num_threads(1)
voting = ov.torch.MedianBlockLoss(contamination=0.15, n_examples=n)
trained = {
    "plain, clean data": train(x, y),
    "plain, dirty data": train(x_bad, y_bad),
    "median blocks, dirty data": train(x_bad, y_bad, voting),
    "median blocks, clean data": train(x, y, ov.torch.MedianBlockLoss(contamination=0.15, n_examples=n)),
}
for name, (accuracy, _, _) in trained.items():
    print(f"{name:26} {accuracy[-10:].mean():.3f}")

# %%
# Accuracy on clean test images, the mean of the last ten epochs. Clean data lose next to nothing, because few of their
# rows are contradicted:

for name in ("median blocks, dirty data", "median blocks, clean data"):
    print(f"{name}: {1 - len(trained[name][2]) / n:.1%} of the rows left out")

# %%
# Which rows are corrupt? Two scores: how seldom an example was chosen, and its loss at the end of the vote.

is_bad = np.isin(np.arange(n), [*wrong, *noise])
losses = trained["median blocks, dirty data"][1].numpy()
for score, values in {"choices": voting.outlier_scores().numpy(), "loss": losses}.items():
    for name, bad in {"a wrong label": wrong, "noise": noise}.items():
        rows = [*np.flatnonzero(~is_bad), *bad]
        area = roc_auc_score(is_bad[rows], values[rows])
        print(f"by its {score}, {name} is more suspect than a clean example {area:.0%} of the time")

# %%
# Choices find wrong labels, not noise: it costs neither little nor much, which is where the vote looks, and the network
# has met it in the plain epochs. The loss finds both.

colors = ov.plotting.COLORS
left, right = ov.plotting.new_panels(1, 2)
for name, (accuracy, _, _) in trained.items():
    color = colors["plain"] if name.startswith("plain") else colors["robust"]
    left.plot(np.arange(1, N_EPOCHS + 1), accuracy, color=color, ls=":" if "clean" in name else "-", label=name)
for epoch in (N_PLAIN, N_VOTED):
    left.axvline(epoch, ymin=0.5, color=colors["blocks"], lw=0.8)
left.set(xlabel="epoch", ylabel="accuracy on clean test images", ylim=(0.8, 1), title="Training: plain, vote, finish")
left.legend(frameon=False, loc="lower center", fontsize="small")
bins = np.geomspace(1e-6, 100, 40)
for name, which, color in (
    ("clean examples", ~is_bad, colors["blocks"]),
    ("wrong labels", wrong, colors["plain"]),
    ("noise", noise, colors["robust"]),
):
    right.hist(losses[which].clip(*bins[[0, -1]]), bins, color=color, alpha=0.7, label=name)
right.axvline(math.log(10), ymax=0.65, color="black", ls="--", label="a guess")
right.set(xscale="log", xlabel="loss at the end of the vote", ylabel="examples", title="Who is contradicted")
right.legend(frameon=False, fontsize="small")
