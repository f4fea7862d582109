#!/usr/bin/env python3
"""Writes what scikit-learn's regressors and logistic regression say of a made-up table with
whole weights, as JSON, to the file named as the first argument. Models that take no weights,
or not in the same way, get each row as often as its weight says."""

import json
import sys
import warnings

import numpy as np
import sklearn
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier


def table(rng, n):
    x = np.round(np.c_[rng.uniform(0, 1, n), rng.uniform(0, 1, n), rng.integers(0, 2, n)], 3)
    y = np.round(20 + 8 * x[:, 0] - 6 * x[:, 1] * x[:, 2] + 3 * np.sin(6 * x[:, 1]) + rng.normal(size=n), 2)
    return x, y, rng.integers(0, 4, n)


def predictions(x, y, w, test, truth):
    many, targets = np.repeat(x, w, axis=0), np.repeat(y, w)
    linear = LinearRegression().fit(x, y, sample_weight=w).predict(test)
    boosting = GradientBoostingRegressor(n_estimators=30, random_state=1).fit(many, targets).predict(test)
    rmse = {
        "linear regression": [mean_squared_error(truth, linear, squared=False)],
        "gradient boosting": [], "random forest": [], "multi-layer perceptron": [],
    }
    scaler, mean, scale = StandardScaler().fit(many), targets.mean(), targets.std()
    for seed in range(10):
        trees = GradientBoostingRegressor(random_state=seed).fit(many, targets)  # chance decides between equal splits
        rmse["gradient boosting"].append(mean_squared_error(truth, trees.predict(test), squared=False))
        forest = RandomForestRegressor(random_state=seed).fit(many, targets)
        rmse["random forest"].append(mean_squared_error(truth, forest.predict(test), squared=False))
        net = MLPRegressor(random_state=seed, max_iter=200, n_iter_no_change=10**6)
        net.fit(scaler.transform(many), (targets - mean) / scale)
        rmse["multi-layer perceptron"].append(
            mean_squared_error(truth, mean + scale * net.predict(scaler.transform(test)), squared=False))
    return {
        "linear": linear.tolist(), "boosting": boosting.tolist(),
        "rmse": {name: {"mean": np.mean(v), "lowest": min(v), "highest": max(v)} for name, v in rmse.items()},
    }


def label(rng, x, y, w, other, levels):
    """Coefficients of scikit-learn's default penalty, the rows' weights scaled to the other table's rows."""
    real, made = levels > 22, y > 22
    a = LogisticRegression(C=1, tol=1e-10, max_iter=10000).fit(other, real).coef_[0]
    b = LogisticRegression(C=1, tol=1e-10, max_iter=10000).fit(x, made, sample_weight=w * (len(other) / w.sum())).coef_[0]
    tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=1).fit(x, made)
    return {
        "beta_mse": np.mean((a - b) ** 2),
        "accuracy": accuracy_score(real, tree.predict(other)),
        "tree": tree.predict_proba(other)[:, 1].tolist(),
    }


def main():
    warnings.filterwarnings("ignore", category=ConvergenceWarning)  # of a fixed number of epochs
    rng = np.random.default_rng(20220810)
    x, y, w = table(rng, 120)
    test, truth, _ = table(rng, 80)
    out = {"scikit_learn": sklearn.__version__, "x": x.tolist(), "y": y.tolist(), "weight": w.tolist(),
           "test": test.tolist(), "truth": truth.tolist()}
    out.update(predictions(x, y, w, test, truth))
    out["label"] = label(rng, x, y, w, test, truth)
    with open(sys.argv[1], "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
