"""Losses of the middle blocks: gradients, equality with the numpy descent, NaN, counts and compiled forms."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from outvote.learning.epoch_blocks import EpochBlocks
from outvote.learning.losses import PairLogistic, Squared
from outvote.learning.scaling import ScaledRows
from outvote.learning.voting import Cell
from outvote.torch import (
    MedianBlockLoss,
    MedianBlockPairLoss,
    choose_blocks,
    deal_blocks,
    median_block_loss,
    median_block_pair_loss,
    plan_batch,
    trusted_rows,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def squares(w):
    return lambda x, y: (x @ w - y).square() / 2


def logistic(s, t, y, z):
    return nn.functional.softplus(-torch.sign(y - z) * (s - t))


def contrast(a, b, y, z):
    gap = (a - b).square().sum(1)
    return torch.where(y == z, gap, torch.relu(1 - gap))


def rows(n=60, d=3, seed=0):
    generator = seeded(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return x, x @ torch.arange(1.0, d + 1, dtype=torch.float64) + torch.randn(n, generator=generator).double()


# --- the same as the numpy descent --------------------------------------------------------------------------


@given(
    n_rows=st.integers(12, 80),
    n_blocks=st.integers(1, 6),
    share=st.sampled_from(["median", 0.25, 0.6, 1]),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_loss_and_gradient_equal_the_numpy_descent(n_rows, n_blocks, share, seed):
    x, y = rows(n_rows, seed=seed)
    w = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    settings = {"n_blocks": n_blocks, "blocks": share}
    blocks = deal_blocks(n_rows, n_blocks, generator=seeded(seed)).T.numpy()
    design, targets = ScaledRows(x.numpy(), np.zeros(3), np.ones(3)), y.numpy()
    for degree, loss in ((1, Squared()), (2, PairLogistic())):
        cell = Cell((np.arange(n_rows),), n_blocks, plan_batch(n_rows, **settings, degree=degree).n_chosen)
        scores = loss.scores(design, w.detach().numpy())
        risks = cell.risks(loss, scores, targets, (EpochBlocks(blocks),))
        chosen = cell.choose(risks, np.random.default_rng(0))
        gradient = cell.gradient(loss, design, scores, targets, (blocks[:, chosen],))
        forms = [
            lambda: median_block_loss(squares(w)(x, y), **settings, generator=seeded(seed)),
            lambda: median_block_loss(squares(w), x, y, **settings, generator=seeded(seed)),
        ]
        if degree == 2:
            forms = [
                lambda: median_block_pair_loss(x @ w, y, logistic, **settings, generator=seeded(seed)),
                lambda: median_block_pair_loss(lambda x: x @ w, y, logistic, x, **settings, generator=seeded(seed)),
            ]
        for form in forms:
            w.grad = None
            found = form()
            found.backward()
            assert found.item() == pytest.approx(risks[chosen].mean(), rel=1e-10)
            assert w.grad.numpy() == pytest.approx(gradient, rel=1e-10, abs=1e-12)


def test_one_block_gives_the_plain_mean():
    losses = torch.rand(10, generator=seeded())
    assert median_block_loss(losses, contamination=0).item() == pytest.approx(losses.mean().item())


def test_pairs_stay_inside_the_chosen_blocks():
    x, y = rows(23)
    seen = []

    def spy(a, b, y, z):
        seen.append((a, b))
        return contrast(a, b, y, z)

    median_block_pair_loss(x, y, spy, n_blocks=5, blocks=0.4, generator=seeded(3))
    assert [len(a) for a, _ in seen] == [5 * 6, 2 * 6]  # those inside blocks, and those of the chosen ones again
    dealt = deal_blocks(23, 5, generator=seeded(3))
    chosen = choose_blocks(torch.stack([block_risk(x, y, block) for block in dealt]), 2)
    wanted = {(x[block[i]].sum().item(), x[block[j]].sum().item()) for block in dealt[chosen] for i, j in pairs_of(4)}
    assert {(a.sum().item(), b.sum().item()) for a, b in zip(*seen[1], strict=True)} == wanted


def pairs_of(size):
    return [(i, j) for i in range(size) for j in range(i + 1, size)]


def block_risk(x, y, block):
    i, j = zip(*pairs_of(len(block)), strict=True)
    return contrast(x[block][list(i)], x[block][list(j)], y[block][list(i)], y[block][list(j)]).mean()


# --- gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", ["median", 0.5])
def test_gradcheck(blocks):
    x, y = rows(20)
    w = torch.randn(3, generator=seeded(), dtype=torch.float64, requires_grad=True)
    settings = {"contamination": 2, "blocks": blocks}
    forms = [
        lambda w: median_block_loss(squares(w)(x, y), **settings, generator=seeded(1)),
        lambda w: median_block_loss(squares(w), x, y, **settings, generator=seeded(1)),
        lambda w: median_block_pair_loss(x @ w, y, logistic, **settings, generator=seeded(1)),
        lambda w: median_block_pair_loss(lambda x: x @ w, y, logistic, x, **settings, generator=seeded(1)),
    ]
    for form in forms:
        assert torch.autograd.gradcheck(form, (w,))
        assert torch.autograd.gradgradcheck(form, (w,))


def test_generator_determines_the_blocks():
    x, y = rows()
    w = torch.ones(3, dtype=torch.float64)
    found = [median_block_loss(squares(w), x, y, n_blocks=9, generator=seeded(seed)).item() for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    pairs = [
        median_block_pair_loss(x @ w, y, logistic, n_blocks=9, generator=seeded(seed)).item() for seed in (1, 1, 2)
    ]
    assert pairs[0] == pairs[1] != pairs[2]


# --- garbage ------------------------------------------------------------------------------------------------


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


def far(a, b, y, z):
    return (a - b).square().sum(1) + (y - z).square() + (a + b).sum(1) * (y - z)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize(
    ("garbage", "where", "blocks"),
    [
        (math.nan, "inputs", 0.25),
        (math.nan, "targets", "median"),
        (math.inf, "both", 0.25),
        (-math.inf, "targets", 0.25),
        (1e30, "inputs", "median"),
        (-1e30, "both", 0.25),
        (1e6, "both", "median"),
    ],
)
def test_garbage_in_other_rows_does_not_reach_the_gradient(pairs, garbage, where, blocks):
    """No such row is chosen, and the gradient is the one of the chosen rows."""
    model = network()
    for seed in range(5):
        x, y = (tensor.float() for tensor in rows(60, seed=seed))
        dirty_x, dirty_y = x.clone(), y.clone()
        bad = torch.randperm(60, generator=seeded(seed))[:6]
        if where != "targets":
            dirty_x[bad] = garbage
        if where != "inputs":
            dirty_y[bad] = garbage

        def losses(x, y):
            return (model(x).sum(1) - y).square()

        settings = {"contamination": 6, "blocks": blocks, "generator": seeded(seed), "n_examples": 60}
        if pairs:
            criterion = MedianBlockPairLoss(far, **settings)
            loss = criterion(model, dirty_y, dirty_x, ids=torch.arange(60))
        else:
            criterion = MedianBlockLoss(**settings)
            loss = criterion(losses, dirty_x, dirty_y, ids=torch.arange(60))
        model.zero_grad()
        loss.backward()
        found = [p.grad.clone() for p in model.parameters()]
        if garbage == 1e6 and blocks != "median":  # more blocks can be hit than on average
            continue
        assert not criterion.chosen[bad].any()
        dealt = deal_blocks(60, 13, generator=seeded(seed))
        chosen = dealt[criterion.chosen[dealt].all(dim=1)]
        assert chosen.shape == (1 if blocks == "median" else 3, 4)
        if pairs:
            i, j = map(list, zip(*pairs_of(4), strict=True))
            one, two = chosen[:, i].flatten(), chosen[:, j].flatten()
            expected = far(model(x)[one], model(x)[two], y[one], y[two]).mean()
        else:
            expected = losses(x[chosen.flatten()], y[chosen.flatten()]).mean()
        model.zero_grad()
        expected.backward()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
        for one, p in zip(found, model.parameters(), strict=True):
            assert torch.allclose(one, p.grad, rtol=1e-4, atol=1e-5)


def test_precomputed_losses_resist_finite_garbage_only():
    w = torch.ones(3, requires_grad=True)
    x, y = torch.ones(21, 3), torch.ones(21)
    for garbage, safe in ((1e10, True), (math.nan, False)):
        x[3], w.grad = garbage, None
        loss = median_block_loss(squares(w)(x, y), contamination=1, blocks="median", generator=seeded())
        assert loss.item() == 2.0
        loss.backward()
        assert bool(torch.isfinite(w.grad).all()) is safe


@given(n_bad=st.integers(0, 30), share=st.sampled_from(["median", 0.25, 0.5]), seed=st.integers(0, 50))
def test_loss_is_finite_while_enough_blocks_are(n_bad, share, seed):
    losses = torch.ones(30)
    losses[:n_bad] = math.nan
    plan = plan_batch(30, n_blocks=10, blocks=share)
    dealt = deal_blocks(30, 10, generator=seeded(seed))
    n_finite = int(torch.isfinite(losses[dealt].mean(dim=1)).sum())
    found = median_block_loss(losses, n_blocks=10, blocks=share, generator=seeded(seed))
    assert bool(torch.isfinite(found)) == (n_finite >= plan.n_chosen)


# --- modules and counts -------------------------------------------------------------------------------------


def test_module_equals_the_function():
    x, y = rows()
    w = torch.ones(3, dtype=torch.float64)
    settings = {"contamination": 0.1, "n_blocks": 15, "blocks": 0.5}
    expected = median_block_loss(squares(w), x, y, **settings, generator=seeded())
    assert MedianBlockLoss(**settings, generator=seeded())(squares(w), x, y) == expected
    assert MedianBlockLoss(**settings, generator=seeded())(squares(w)(x, y)) == expected
    pairs = median_block_pair_loss(x @ w, y, logistic, **settings, generator=seeded())
    assert MedianBlockPairLoss(logistic, **settings, generator=seeded())(x @ w, y) == pairs
    assert MedianBlockPairLoss(logistic, **settings, generator=seeded())(lambda x: x @ w, y, x) == pairs
    assert "contamination=0.1, n_blocks=15, blocks=0.5" in repr(MedianBlockLoss(**settings))


@pytest.mark.parametrize("pairs", [False, True])
def test_selection_counts_equal_those_of_the_blocks(pairs):
    x, y = rows(23)
    criterion = MedianBlockLoss(n_blocks=5, blocks=0.4, n_examples=40, generator=seeded())
    if pairs:
        criterion = MedianBlockPairLoss(logistic, n_blocks=5, blocks=0.4, n_examples=40, generator=seeded())
    ids = torch.randperm(40, generator=seeded(5))[:23]
    generator, dealt_often, chosen_often = seeded(), torch.zeros(40), torch.zeros(40)
    for _ in range(7):
        criterion(*((x[:, 0], y) if pairs else (y.square(),)), ids=ids)
        dealt = deal_blocks(23, 5, generator=generator)
        risks = y.square()[dealt].mean(dim=1)
        if pairs:
            i, j = map(list, zip(*pairs_of(4), strict=True))
            s, t = x[:, 0][dealt], y[dealt]
            risks = logistic(s[:, i], s[:, j], t[:, i], t[:, j]).mean(dim=1)
        dealt_often[ids[dealt.flatten()]] += 1
        chosen_often[ids[dealt[choose_blocks(risks, 2)].flatten()]] += 1
    assert torch.equal(criterion.dealt, dealt_often.long())
    assert torch.equal(criterion.chosen, chosen_often.long())
    share = chosen_often.sum() / dealt_often.sum()
    met = dealt_often > 0
    expected = (dealt_often * share - chosen_often)[met] / (dealt_often * share * (1 - share))[met].sqrt()
    assert torch.allclose(criterion.outlier_scores()[met], expected)
    assert (criterion.outlier_scores()[~met] == 0).all()
    assert torch.equal(criterion.state_dict()["chosen"], criterion.chosen)
    criterion.reset_counts()
    assert not criterion.dealt.any()
    assert (criterion.outlier_scores() == 0).all()


def test_corrupt_examples_have_the_largest_scores():
    losses = torch.rand(100, generator=seeded())
    losses[:8] += 20
    criterion = MedianBlockLoss(contamination=0.1, n_examples=100, generator=seeded())
    for _ in range(400):
        criterion(losses, ids=torch.arange(100))
    assert sorted(criterion.outlier_scores().topk(8).indices.tolist()) == list(range(8))


# --- trusted rows -------------------------------------------------------------------------------------------

some_losses = st.lists(
    st.one_of(st.integers(0, 12).map(float), st.sampled_from([math.nan, math.inf, -math.inf])), min_size=1, max_size=30
)


def trusted_by_hand(losses, n_corrupt, above):
    bad = [not math.isfinite(loss) for loss in losses]
    order = sorted(math.inf if b else loss for loss, b in zip(losses, bad, strict=True))
    kept = order[: len(order) - n_corrupt]
    if above == "far":
        middle, upper = kept[len(kept) // 2], kept[3 * len(kept) // 4]
        above = middle * (upper / middle) ** 4 if middle and upper < math.inf else 0
    return [not b and (loss <= kept[-1] or loss <= above) for loss, b in zip(losses, bad, strict=True)]


@given(losses=some_losses, data=st.data(), above=st.sampled_from([-1, 0, 3, 5.5, math.inf, "far"]))
def test_trusted_rows_equal_brute_force(losses, data, above):
    n_corrupt = data.draw(st.integers(0, (len(losses) - 1) // 2))
    given_losses = torch.tensor(losses, dtype=torch.float64, requires_grad=True)
    found = trusted_rows(given_losses, n_corrupt, above=above)
    assert found.dtype == torch.bool
    assert found.tolist() == trusted_by_hand(losses, n_corrupt, above)
    n_infinite = sum(not math.isfinite(loss) for loss in losses)
    assert (~found).sum() <= max(n_corrupt, n_infinite)


@given(
    scale=st.sampled_from([1e-3, 1.0, 50.0]),
    power=st.sampled_from([0.5, 1.0, 2.0]),
    contamination=st.sampled_from([0.0, 0.1, 0.3]),
    seed=st.integers(0, 50),
)
def test_far_rows_do_not_depend_on_units_powers_and_order(scale, power, contamination, seed):
    losses = torch.randn(60, generator=seeded(seed), dtype=torch.float64).abs()
    losses[:5] *= 100
    order = torch.randperm(60, generator=seeded(seed))
    expected = trusted_rows(losses, contamination, above="far")
    found = trusted_rows(scale * losses[order] ** power, contamination, above="far")
    assert torch.equal(found, expected[order])


def test_far_rows_are_gross_errors_and_few_normal_residuals():
    residuals = torch.randn(10_000, generator=seeded())
    for contamination in (0.05, 0.15, 0.3):
        n_bad = int(contamination * 10_000)
        assert trusted_rows(residuals.square(), contamination, above="far").double().mean() > 0.995
        dirty = residuals.clone()
        dirty[:n_bad] = 8.0
        trusted = trusted_rows(dirty.square(), contamination, above="far")
        assert not trusted[:n_bad].any()
        assert trusted[n_bad:].all()


def test_hinge_losses_that_are_half_zero_have_no_scale():
    losses = torch.tensor([0.0] * 12 + [0.1, 0.2, 0.3, 5.0])
    for above in ("far", 0):
        assert (~trusted_rows(losses, 2, above=above)).nonzero().flatten().tolist() == [14, 15]


def test_trusted_rows_of_half_precision_and_integers():
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        losses = torch.tensor([1, 1, 2, 2, 3, 30], dtype=dtype)
        assert trusted_rows(losses, 2, above=4).tolist() == [True] * 5 + [False]


def test_refit_on_trusted_rows_recovers_the_loss_of_the_vote():
    """A slope that few rows show: the vote drops these rows, the finish has them back, and gross errors stay out."""
    generator = seeded()
    x = torch.randn(400, 2, generator=generator, dtype=torch.float64)
    x[:, 1] *= torch.arange(400) % 20 == 0
    y = x @ torch.tensor([1.0, 3.0], dtype=torch.float64) + torch.randn(400, generator=generator).double()
    dirty = y.clone()
    dirty[7::20] = 1e3
    for targets, n_bad in ((y, 0), (dirty, 20)):
        w = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.2)
        for _ in range(150):
            optimizer.zero_grad()
            median_block_loss(squares(w), x, targets, contamination=0.1, generator=generator).backward()
            optimizer.step()
        trusted = trusted_rows(squares(w)(x, targets), 0.1, above="far")
        assert (~trusted).sum() - n_bad <= 4
        found = torch.linalg.lstsq(x[trusted], targets[trusted, None]).solution.flatten()
        wanted = torch.linalg.lstsq(x, y[:, None]).solution.flatten()
        assert (found - wanted).norm() < 0.5 * (w.detach() - wanted).norm()


# --- autocast, accumulation, compiled -----------------------------------------------------------------------


def test_weights_get_a_gradient_under_autocast():
    x, y = (tensor.float() for tensor in rows(63))
    x[:3], labels = math.nan, (y > 0).long()
    for criterion in (
        lambda model: median_block_loss(
            lambda x, y: cross_entropy(model(x), y, reduction="none"), x, labels, contamination=3, generator=seeded()
        ),
        lambda model: median_block_pair_loss(model, labels, contrast, x, contamination=3, generator=seeded()),
    ):
        model = network()
        plain = criterion(model)
        plain.backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = criterion(model)
        half.backward()
        assert half.item() == pytest.approx(plain.item(), rel=0.05)
        for p, gradient in zip(model.parameters(), gradients, strict=True):
            assert torch.isfinite(p.grad).all()
            assert torch.allclose(p.grad, gradient, atol=0.05)


def test_risks_in_half_precision_are_not_tied():
    losses = torch.tensor([1000.0, 1000.5, 1001.0, 1001.5, 1002.0, 1002.5]).half()
    dealt = deal_blocks(6, 3, generator=seeded())
    risks = losses.double()[dealt].mean(dim=1)
    expected = losses[dealt[risks.argsort()[1]]].mean()
    found = median_block_loss(losses, n_blocks=3, blocks="median", generator=seeded())
    assert found == expected
    assert found.dtype == torch.float16


def test_gradients_accumulate_over_batches():
    x, y = rows(80)
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    each = []
    for half in (slice(0, 40), slice(40, 80)):
        w.grad = None
        median_block_loss(squares(w), x[half], y[half], contamination=3, generator=seeded()).backward()
        each.append(w.grad)
    w.grad = None
    criterion = MedianBlockLoss(contamination=3, n_examples=80)
    for half in (slice(0, 40), slice(40, 80)):
        criterion.generator = seeded()
        (criterion(squares(w), x[half], y[half], ids=torch.arange(80)[half]) / 2).backward()
    assert torch.allclose(w.grad, (each[0] + each[1]) / 2)
    assert criterion.dealt.sum() == 70  # 7 blocks of 5 rows, twice


@pytest.mark.filterwarnings("ignore")  # torch.compile's own
def test_compiled_loss_is_one_graph_for_any_batch_size():
    torch.compiler.reset()
    model = network()
    criterion = MedianBlockLoss(contamination=0.1, n_examples=90)
    pairs = MedianBlockPairLoss(contrast, contamination=0.1)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(x, y, ids):
        def losses(x, y):
            return cross_entropy(model(x), y, reduction="none")

        return criterion(losses, x, y, ids=ids) + criterion(losses(x, y)) + pairs(model, y, x) + pairs(model(x), y)

    for n_rows in (60, 90, 73):
        x, y = rows(n_rows)
        x, y = x.float(), (y > 0).long()
        model.zero_grad()
        criterion.reset_counts()
        loss = step(x, y, torch.arange(n_rows))
        loss.backward()
        assert torch.isfinite(loss)
        assert all(p.grad.abs().sum() > 0 for p in model.parameters())
        plan = plan_batch(n_rows, contamination=0.1)
        assert criterion.dealt.sum() == plan.n_rows
        assert criterion.chosen.sum() == plan.n_chosen * plan.block_size
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore")
def test_compiled_loss_follows_its_settings():
    torch.compiler.reset()
    compiled = torch.compile(median_block_loss, backend="eager")
    losses = torch.arange(60.0)
    for asked in ({"contamination": 0.1}, {"contamination": 0.2}, {"n_blocks": 3}, {"n_blocks": 3, "blocks": 1}):
        found = compiled(losses, **asked, generator=seeded())
        assert found == median_block_loss(losses, **asked, generator=seeded())
    torch.compiler.reset()


# --- errors -------------------------------------------------------------------------------------------------


FOUR = torch.ones(4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: median_block_loss(torch.ones(4, 2), n_blocks=2), ValueError, "losses has shape (4, 2): expected (4,)"),
        (lambda: median_block_loss(torch.tensor(1.0), n_blocks=2), ValueError, "losses is a scalar"),
        (lambda: median_block_loss(3.0, n_blocks=2), TypeError, "losses is a float, neither a tensor nor a function"),
        (lambda: median_block_loss(FOUR, FOUR, n_blocks=2), TypeError, "losses is a tensor, which goes"),
        (lambda: median_block_loss(lambda: None, n_blocks=2), TypeError, "losses is a function: give it tensors"),
        (lambda: median_block_loss(lambda x, y: x, FOUR, torch.ones(5), n_blocks=2), ValueError,
         "the tensors have [4, 5] rows"),
        (lambda: median_block_loss(lambda x: x.mean(), FOUR, n_blocks=2), ValueError,
         "loss_fn returned shape (): expected (4,), one loss for each row (reduction='none'"),
        (lambda: median_block_loss(lambda x: 1.0, FOUR, n_blocks=2), TypeError, "returned float, not a tensor"),
        (lambda: median_block_loss(FOUR), TypeError, "give contamination"),
        (lambda: median_block_loss(FOUR, contamination=2), ValueError, "the smallest batch for 2 is 5 rows"),
        (lambda: median_block_pair_loss(FOUR, FOUR, logistic, contamination=1), ValueError,
         "the smallest batch for 1 is 6 rows"),
        (lambda: median_block_pair_loss(FOUR, torch.ones(5), logistic, n_blocks=2), ValueError,
         "targets has shape (5,), but there are 4 rows"),
        (lambda: median_block_pair_loss(torch.ones(6), torch.ones(6), lambda a, b, y, z: a.mean(), n_blocks=2),
         ValueError, "pair_loss returned shape (): expected (6,), one loss for each pair"),
        (lambda: MedianBlockLoss(n_blocks=2)(FOUR, ids=torch.arange(4)), ValueError,
         "ids need n_examples: MedianBlockLoss(…, n_examples=len(dataset))"),
        (lambda: MedianBlockLoss(n_blocks=2, n_examples=9)(FOUR, ids=torch.arange(3)), ValueError,
         "ids has shape (3,): give one for each of the 4 rows"),
        (lambda: MedianBlockLoss(n_blocks=2, n_examples=9)(FOUR, ids=FOUR), TypeError,
         "ids has dtype torch.float32: give the integers"),
        (lambda: trusted_rows(torch.ones(4, 2), 1, above=0), ValueError, "losses has shape (4, 2): expected (4,)"),
        (lambda: trusted_rows(torch.tensor(1.0), 0, above=0), ValueError, "losses is a scalar"),
        (lambda: trusted_rows(torch.ones(0), 0, above=0), ValueError, "losses has no rows"),
        (lambda: trusted_rows(FOUR, 2, above=0), ValueError, "the largest count here is 1"),
        (lambda: trusted_rows(FOUR, 1, above="near"), ValueError, "above='near' must be the loss of a"),
        (lambda: trusted_rows(FOUR, 1, above=math.nan), ValueError, "above=nan must be the loss of a"),
        (lambda: trusted_rows(FOUR, 1, above=True), ValueError, "above=True must be the loss of a"),
        (lambda: MedianBlockLoss(contamination=0.7), ValueError, "contamination=0.7 must be a fraction below 0.5"),
        (lambda: MedianBlockLoss(), TypeError, "MedianBlockLoss needs contamination or n_blocks"),
        (lambda: MedianBlockLoss(contamination=0.1, n_examples=0), ValueError, "n_examples=0 must be a number"),
        (lambda: MedianBlockLoss(contamination=0.1).outlier_scores(), ValueError, "no examples were counted"),
        (lambda: MedianBlockLoss(contamination=0.1)(torch.ones(20, 3), torch.ones(20)), TypeError,
         "pass one loss per row, criterion(F.cross_entropy(logits, y, reduction='none'))"),
        (lambda: MedianBlockLoss(contamination=0.1, n_examples=10)(torch.ones(20), ids=torch.arange(20)), ValueError,
         "ids has 19: ids must be 0 to n_examples - 1, which is 9"),
        (lambda: MedianBlockLoss(contamination=1, n_examples=10)(torch.ones(3), ids=torch.tensor([-1, 0, 1])),
         ValueError, "ids has -1"),
    ],
)  # fmt: skip
def test_invalid_arguments_raise_with_a_remedy(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
