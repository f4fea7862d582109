#!/usr/bin/env python3
"""Fits the counterparts of evaluate/classify in scikit-learn and writes their figures as
JSON. Arguments: the file to write, the folder that the command of this folder filled, and
the names of data sets, separated by commas."""

import json
import os
import sys
import time
import warnings

import numpy as np
import sklearn
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (AdaBoostClassifier, BaggingClassifier, GradientBoostingClassifier,
                              HistGradientBoostingClassifier, RandomForestClassifier)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def models(rows, seed):
    """The models, and whether they depend on the seed."""
    steps = -(-rows // 200)
    epochs = min(200, -(-4000 // steps))
    return {
        "logistic regression": (scaled(LogisticRegression(C=1, tol=1e-8, max_iter=1000)), False),
        "random forest": (RandomForestClassifier(random_state=seed, n_jobs=2), True),
        "gaussian naive bayes": (GaussianNB(), False),
        "bernoulli naive bayes": (scaled(BernoulliNB()), False),
        "linear svm": (scaled(LinearSVC(C=1, dual=False, tol=1e-8, max_iter=10000)), False),
        "decision tree": (DecisionTreeClassifier(random_state=seed), True),
        "linear discriminant analysis": (LinearDiscriminantAnalysis(), False),
        "adaboost": (AdaBoostClassifier(random_state=seed), False),
        "bagging": (BaggingClassifier(random_state=seed), True),
        "first-order gradient boosting": (GradientBoostingClassifier(random_state=seed), False),
        "multi-layer perceptron": (scaled(MLPClassifier(
            random_state=seed, max_iter=epochs, n_iter_no_change=10**6)), True),
        "gradient boosting": (HistGradientBoostingClassifier(
            max_leaf_nodes=8, l2_regularization=1, early_stopping=False), False),
    }


def scores(model, x):
    """Log odds where there are any: probabilities of naive Bayes round to 0 and 1."""
    for name in ("decision_function", "predict_joint_log_proba", "predict_proba"):
        if hasattr(model, name):
            s = getattr(model, name)(x)
            return s if s.ndim == 1 else s[:, 1] - s[:, 0]
    raise ValueError(f"{model} gives no scores")


def read(path):
    numbers = np.fromfile(path, "<f4")
    columns = int(numbers[0])
    rows = (len(numbers) - 1) // (columns + 1)
    return numbers[1:1 + rows * columns].reshape(rows, columns).astype(float), numbers[1 + rows * columns:]


def rank(folder, name):
    """AUROC and average precision; of random models the mean over five seeds, three of large sets."""
    x, y = read(os.path.join(folder, name + "-train"))
    test, truth = read(os.path.join(folder, name + "-test"))
    figures = {}
    seeds = 5 if len(y) < 10000 else 3
    for kind, (_, random) in models(len(y), 0).items():
        start, pairs = time.perf_counter(), []
        for seed in range(seeds if random else 1):
            model = models(len(y), seed)[kind][0].fit(x, y)
            s = scores(model, test)
            pairs.append((roc_auc_score(truth, s), average_precision_score(truth, s)))
        seconds = (time.perf_counter() - start) / len(pairs)
        auroc, precision = np.mean(pairs, axis=0)
        figures[kind] = {"auroc": round(auroc, 5), "average_precision": round(precision, 5)}
        spread = np.ptp([a for a, _ in pairs])
        print(f"{name}: {kind}: {auroc:.4f} (spread {spread:.4f}), {seconds:.1f} s", file=sys.stderr)
    return figures


def exact(folder):
    """Coefficients and scores on the fixture, each row written as often as its weight says."""
    with open(os.path.join(folder, "fixture.json")) as f:
        fixture = json.load(f)
    x, y = np.array(fixture["x"]), np.array(fixture["positive"])
    times = np.array(fixture["weight"])
    many, labels = np.repeat(x, times, axis=0), np.repeat(y, times)

    def coefficients(model):
        linear, scaler = model, None
        if not hasattr(model, "coef_"):
            scaler, linear = model[0], model[-1]
        w, b = linear.coef_[0], linear.intercept_[0]
        if scaler is not None:
            w = w / scaler.scale_
            b = b - w @ scaler.mean_
        return {"weights": w.tolist(), "intercept": b}

    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(many, labels)
    fixture["coefficients"] = {
        "logistic regression": coefficients(models(1, 0)["logistic regression"][0].fit(many, labels)),
        "linear svm": coefficients(models(1, 0)["linear svm"][0].fit(many, labels)),
        "linear discriminant analysis": coefficients(lda),
    }
    probabilities = {
        "gaussian naive bayes": GaussianNB(),
        "bernoulli naive bayes": scaled(BernoulliNB()),
        "decision tree": DecisionTreeClassifier(max_depth=3),
        "first-order gradient boosting": GradientBoostingClassifier(n_estimators=20),
        "gradient boosting": models(1, 0)["gradient boosting"][0],
        "adaboost": AdaBoostClassifier(n_estimators=20),
    }
    fixture["probabilities"] = {}
    for kind, model in probabilities.items():
        model.fit(many, labels)
        if kind == "adaboost":
            # Half the log odds, summed, which predict_proba takes otherwise.
            s = model.decision_function(x) * model.estimator_weights_.sum() / 2
            p = 1 / (1 + np.exp(-s))
        else:
            p = model.predict_proba(x)[:, 1]
        fixture["probabilities"][kind] = [round(v, 10) for v in p.tolist()]
    return fixture


def main():
    warnings.filterwarnings("ignore", category=ConvergenceWarning)  # of a fixed number of epochs
    folder, names = sys.argv[2], sys.argv[3].split(",")
    result = {"scikit_learn": sklearn.__version__, "fixture": exact(folder),
              "sets": {name: rank(folder, name) for name in names}}
    text = json.dumps(result)
    # One line per model and row.
    for mark in ('{"', '"coef', '"prob', '"sets', '"weight', '"positive'):
        text = text.replace(", " + mark, ",\n" + mark)
    with open(sys.argv[1], "w") as file:
        file.write(text.replace("], [", "],\n[").replace('}, "', '},\n"') + "\n")


if __name__ == "__main__":
    main()
