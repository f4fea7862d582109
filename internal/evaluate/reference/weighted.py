#!/usr/bin/env python3
"""Writes what NumPy, SciPy and scikit-learn say of weighted rows, as JSON, to the file
named as the first argument."""

import json
import sys

import numpy as np
import scipy
import sklearn
from scipy import integrate, optimize, stats
from sklearn import linear_model


def estimates(rng, n):
    """Weights are whole, so that rows can be repeated; standard errors by the jackknife's
    limit, with derivatives by finite differences of the weights."""
    x, y = np.round(rng.normal(2, 1, n), 2), np.round(rng.normal(5, 2, n), 2)
    w = rng.integers(0, 5, n).astype(float)
    w[0] = 1

    def error(figure):
        # d figure / d w_i times w_i, root of the sum of squares, centred differences.
        total = 0
        for i in range(n):
            h = 1e-5
            up, down = w.copy(), w.copy()
            up[i], down[i] = w[i] * (1 + h), w[i] * (1 - h)
            total += ((figure(up) - figure(down)) / (2 * h)) ** 2
        return np.sqrt(total)

    def mean(v):
        return np.average(x, weights=v)

    def variance(v):
        return np.average((x - mean(v)) ** 2, weights=v)

    def ratio(v):
        return np.average(y, weights=v) / np.average(x, weights=v)

    copies = np.repeat(x, w.astype(int))
    shares = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0]
    return {
        "x": x.tolist(), "y": y.tolist(), "weight": w.tolist(),
        "mean": mean(w), "mean_error": error(mean),
        "variance": variance(w), "variance_error": error(variance),
        "ratio": ratio(w), "ratio_error": error(ratio),
        "plain": np.mean(w * x), "plain_error": stats.sem(w * x, ddof=0),
        "effective": 1 / np.sum((w / w.sum()) ** 2),
        "shares": shares,
        "quantiles": np.quantile(copies, shares, method="averaged_inverted_cdf").tolist(),
    }


def design(rng, n, d):
    x = np.round(rng.normal(size=(n, d)), 2)
    x[:, 0] = 1
    w = np.round(rng.gamma(1, 1, n), 3)
    return x, w / w.mean()


def bread(x, v):
    return np.linalg.inv(x.T @ (v[:, None] * x))


def linear(rng, n, d):
    x, w = design(rng, n, d)
    y = np.round(x @ np.arange(1, d + 1) + rng.normal(size=n) * (1 + np.abs(x[:, -1])), 2)
    model = linear_model.LinearRegression(fit_intercept=False).fit(x, y, sample_weight=w)
    e = y - x @ model.coef_
    a = bread(x, w)
    robust = a @ (x.T @ (((w * e) ** 2)[:, None] * x)) @ a

    # Conjugate posterior by its textbook formula.
    p0, m0, a0, b0 = np.diag(1 / np.linspace(1, 3, d) ** 2), np.linspace(-1, 1, d), 1.5, 2.0
    p1 = p0 + x.T @ (w[:, None] * x)
    m1 = np.linalg.solve(p1, p0 @ m0 + x.T @ (w * y))
    a1 = a0 + w.sum() / 2
    b1 = b0 + (y @ (w * y) + m0 @ p0 @ m0 - m1 @ p1 @ m1) / 2
    scale = np.sqrt(b1 / a1 * np.diag(np.linalg.inv(p1)))
    return {
        "x": x.tolist(), "y": y.tolist(), "weight": w.tolist(),
        "coefficients": model.coef_.tolist(), "errors": np.sqrt(np.diag(robust)).tolist(),
        "residual_variance": np.average(e ** 2, weights=w),
        "prior_mean": m0.tolist(), "prior_deviation": np.linspace(1, 3, d).tolist(), "prior_shape": a0, "prior_rate": b0,
        "posterior_mean": m1.tolist(), "shape": a1, "rate": b1,
        "upper": stats.t.ppf(0.975, 2 * a1, m1, scale).tolist(),
        "variance_median": stats.invgamma.ppf(0.5, a1, scale=b1),
    }


def logistic(rng, n, d):
    x, w = design(rng, n, d)
    y = rng.random(n) < 1 / (1 + np.exp(-x @ np.linspace(-0.5, 1, d)))
    model = linear_model.LogisticRegression(penalty=None, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    beta = model.fit(x, y, sample_weight=w).coef_[0]
    p = 1 / (1 + np.exp(-x @ beta))
    a = bread(x, w * p * (1 - p))
    robust = a @ (x.T @ (((w * (y - p)) ** 2)[:, None] * x)) @ a
    # A normal prior of mean 0 and deviation s is the L2 penalty C = s^2.
    s = 0.7
    ridge = linear_model.LogisticRegression(C=s * s, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    mode = ridge.fit(x, y, sample_weight=w).coef_[0]
    q = 1 / (1 + np.exp(-x @ mode))
    laplace = np.linalg.inv(x.T @ ((w * q * (1 - q))[:, None] * x) + np.eye(d) / s ** 2)
    return {
        "x": x.tolist(), "y": y.tolist(), "weight": w.tolist(),
        "coefficients": beta.tolist(), "errors": np.sqrt(np.diag(robust)).tolist(),
        "prior_deviation": s, "mode": mode.tolist(), "laplace_errors": np.sqrt(np.diag(laplace)).tolist(),
    }


def slope(rng):
    """The posterior of one coefficient of few rows, by quadrature."""
    x, w = np.round(rng.normal(size=6), 1) + 0.0, np.array([1, 0.5, 2, 1.5, 0.25, 0.75])
    y = x + rng.normal(size=6) > 0
    s = 3.0

    def log_density(t):
        z = np.where(y, 1, -1) * x * t
        return -np.sum(w * np.logaddexp(0, -z)) - t * t / (2 * s * s)

    top = optimize.minimize_scalar(lambda t: -log_density(t)).x
    f = lambda t: np.exp(log_density(t) - log_density(top))
    whole = integrate.quad(f, -40, 40, points=[top], epsabs=1e-12, limit=500)[0]
    mean = integrate.quad(lambda t: t * f(t), -40, 40, points=[top], epsabs=1e-12, limit=500)[0] / whole
    square = integrate.quad(lambda t: t * t * f(t), -40, 40, points=[top], epsabs=1e-12, limit=500)[0] / whole
    below = lambda c: integrate.quad(f, -40, c, epsabs=1e-12, limit=500)[0] / whole
    return {
        "x": x.tolist(), "y": y.tolist(), "weight": w.tolist(), "prior_deviation": s, "mode": top,
        "mean": mean, "deviation": np.sqrt(square - mean ** 2),
        "lower": optimize.brentq(lambda c: below(c) - 0.05, -20, 40), "upper": optimize.brentq(lambda c: below(c) - 0.95, -20, 40),
    }


def main():
    rng = np.random.default_rng(20220801)
    out = {
        "numpy": np.__version__, "scipy": scipy.__version__, "sklearn": sklearn.__version__,
        "estimates": [estimates(rng, 7), estimates(rng, 60)],
        "linear": [linear(rng, 25, 2), linear(rng, 80, 4)],
        "logistic": [logistic(rng, 60, 2), logistic(rng, 150, 4)],
        "slope": slope(rng),
    }
    with open(sys.argv[1], "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
