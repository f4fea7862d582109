#!/usr/bin/env python3
"""Writes what SciPy and scikit-learn say of fixed inputs with ties, as JSON, to the
file named as the first argument. Where they take no weights, rows are repeated."""

import json
import sys

import numpy as np
import scipy
import sklearn
from scipy import integrate, optimize, stats
from sklearn import linear_model, metrics


def repeat(x, w):
    return np.repeat(x, w)


def shares(cells, w):
    total = {}
    for cell, weight in zip(cells, w):
        total[cell] = total.get(cell, 0) + weight / sum(w)
    return total


def total_variation(a, b, wa, wb):
    p, q = shares(a, wa), shares(b, wb)
    return sum(abs(p.get(c, 0) - q.get(c, 0)) for c in set(p) | set(q)) / 2


def ranking(rng, n, levels):
    positive = rng.random(n) < 0.35
    positive[:2] = [True, False]
    scores = np.round(rng.normal(size=n) + positive, levels)
    weight = rng.integers(0, 4, n) + 0.25 * rng.integers(0, 4, n)
    weight[:2] = 1
    return {
        "positive": positive.tolist(), "scores": scores.tolist(), "weight": weight.tolist(),
        "auroc": metrics.roc_auc_score(positive, scores),
        "auroc_weighted": metrics.roc_auc_score(positive, scores, sample_weight=weight),
        "average_precision": metrics.average_precision_score(positive, scores),
        "average_precision_weighted": metrics.average_precision_score(positive, scores, sample_weight=weight),
        "interpolated": interpolated_precision(positive, scores, np.ones(n)),
        "interpolated_weighted": interpolated_precision(positive, scores, weight),
        "accuracy": metrics.accuracy_score(positive, scores > 0.5),
        "accuracy_weighted": metrics.accuracy_score(positive, scores > 0.5, sample_weight=weight),
    }


def interpolated_precision(positive, scores, weight):
    """Integrates the interpolation of Davis and Goadrich numerically, step by step."""
    tp, fp, area = 0.0, 0.0, 0.0
    for s in sorted(set(scores), reverse=True):
        at = scores == s
        p, n = weight[at & positive].sum(), weight[at & ~positive].sum()
        if p > 0:
            curve = lambda x: x / (x + fp + n / p * (x - tp)) if x > 0 else p / (p + n)
            area += integrate.quad(curve, tp, tp + p, epsabs=1e-13, epsrel=1e-13)[0]
        tp, fp = tp + p, fp + n
    return area / tp


def transport(rng, n, m, d):
    """Whole weights, so that the linear program can be checked by an assignment of copies."""
    a, b = np.round(rng.normal(size=(n, d)), 2), np.round(rng.normal(0.4, 1, size=(m, d)), 2)
    wa, wb = rng.integers(0, 4, n), rng.integers(0, 4, m)
    wa[0] += wb.sum() - wa.sum() if wb.sum() > wa.sum() else 0
    wb[0] += wa.sum() - wb.sum() if wa.sum() > wb.sum() else 0
    cost = np.sqrt(((a[:, None] - b[None]) ** 2).sum(2))
    sums = np.zeros((n + m, n * m))
    for i in range(n):
        sums[i, i * m:(i + 1) * m] = 1
    for j in range(m):
        sums[n + j, j::m] = 1
    solved = optimize.linprog(cost.ravel(), A_eq=sums, b_eq=np.r_[wa / wa.sum(), wb / wb.sum()], method="highs")
    copies = np.repeat(np.repeat(cost, wa, axis=0), wb, axis=1)
    rows, columns = optimize.linear_sum_assignment(copies)
    assert abs(solved.fun - copies[rows, columns].mean()) < 1e-9
    out = {"a": a.tolist(), "b": b.tolist(), "wa": wa.tolist(), "wb": wb.tolist(), "cost": copies[rows, columns].mean()}
    if n == m:
        rows, columns = optimize.linear_sum_assignment(cost)
        out["cost_unweighted"] = cost[rows, columns].mean()
    return out


def samples(rng, n, m, decimals):
    a = np.round(rng.normal(size=n), decimals) + 0.0
    b = np.round(rng.normal(0.3, 1.2, size=m), decimals) + 0.0
    wa, wb = rng.integers(1, 4, n), rng.integers(1, 4, m)
    one_a, one_b = np.ones(n), np.ones(m)
    return {
        "a": a.tolist(), "b": b.tolist(), "wa": wa.tolist(), "wb": wb.tolist(),
        "ks": stats.ks_2samp(a, b).statistic,
        "ks_weighted": stats.ks_2samp(repeat(a, wa), repeat(b, wb)).statistic,
        "wasserstein": stats.wasserstein_distance(a, b),
        "wasserstein_weighted": stats.wasserstein_distance(a, b, wa, wb),
        "tv": total_variation(a, b, one_a, one_b),
        "tv_weighted": total_variation(a, b, wa, wb),
        "median": np.median(a),
        "median_weighted": np.median(repeat(a, wa)),
    }


def pairs(rng, n, decimals, shift):
    x = np.round(rng.normal(size=n), decimals) + shift
    y = np.round(0.5 * (x - shift) + rng.normal(size=n), decimals)
    w = rng.integers(1, 5, n)
    return {
        "x": x.tolist(), "y": y.tolist(), "weight": w.tolist(),
        "pearson": stats.pearsonr(x, y)[0],
        "pearson_weighted": np.cov(x, y, aweights=w, ddof=0)[0, 1]
        / np.sqrt(np.prod(np.diag(np.cov(x, y, aweights=w, ddof=0)))),
        "spearman": stats.spearmanr(x, y)[0],
        "spearman_weighted": stats.spearmanr(repeat(x, w), repeat(y, w))[0],
        "rmse": metrics.mean_squared_error(x, y, squared=False),
        "rmse_weighted": metrics.mean_squared_error(x, y, sample_weight=w, squared=False),
    }


def contingency(rng, n, m, sizes):
    a = np.array([rng.integers(0, s, n) for s in sizes])
    b = np.array([np.minimum(rng.integers(0, s, m), rng.integers(0, s, m)) for s in sizes])
    wa, wb = rng.integers(1, 4, n), rng.integers(1, 4, m)
    cells = lambda x: [tuple(row) for row in x.T.tolist()]
    return {
        "a": a.tolist(), "b": b.tolist(), "sizes": sizes, "wa": wa.tolist(), "wb": wb.tolist(),
        "tv": total_variation(cells(a), cells(b), np.ones(n), np.ones(m)),
        "tv_weighted": total_variation(cells(a), cells(b), wa, wb),
    }


def propensity(rng, n):
    synthetic = rng.random(n) < 0.4
    synthetic[:2] = [True, False]
    x = np.round(rng.normal(size=(n, 2)) + 0.4 * synthetic[:, None], 1)
    w = rng.integers(1, 4, n)
    model = linear_model.LogisticRegression(penalty=None, solver="newton-cg", tol=1e-10, max_iter=10000)
    p = model.fit(x, synthetic).predict_proba(x)[:, 1]
    weighted = model.fit(x, synthetic, sample_weight=w).predict_proba(x)[:, 1]
    c = np.average(synthetic, weights=w)
    return {
        "synthetic": synthetic.tolist(), "propensity": p.tolist(), "weight": w.tolist(),
        "x": x.tolist(), "propensity_of_weighted_fit": weighted.tolist(),
        "pmse": metrics.mean_squared_error(np.full(n, synthetic.mean()), p),
        "pmse_weighted": metrics.mean_squared_error(np.full(n, c), p, sample_weight=w),
    }


def main():
    rng = np.random.default_rng(20190501)
    out = {
        "scipy": scipy.__version__, "sklearn": sklearn.__version__,
        "ranking": [ranking(rng, 12, 0), ranking(rng, 60, 1), ranking(rng, 60, 6)],
        "samples": [samples(rng, 9, 14, 0), samples(rng, 40, 55, 1), samples(rng, 40, 40, 6)],
        "pairs": [pairs(rng, 12, 0, 0), pairs(rng, 50, 1, 1000), pairs(rng, 50, 6, 0)],
        "contingency": [contingency(rng, 30, 40, [3]), contingency(rng, 40, 30, [4, 3]),
                        contingency(rng, 50, 60, [2, 5, 3]), contingency(rng, 20, 20, [300, 400, 20])],
        "propensity": [propensity(rng, 30), propensity(rng, 80)],
    }
    rng = np.random.default_rng(20220805)  # of its own, so that the figures above stay
    out["transport"] = [transport(rng, 6, 6, 1), transport(rng, 8, 5, 2), transport(rng, 25, 25, 3)]
    with open(sys.argv[1], "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
