"""Which scikit-learn-style estimators may be named, and how a name becomes a class."""

from __future__ import annotations

PACKAGES = ("sklearn", "xgboost", "lightgbm", "catboost", "imblearn")
"""Top-level packages that a dotted path may name; nothing else is ever imported for a parameter."""

DEFAULT_VECTORIZER = "sklearn.feature_extraction.text.TfidfVectorizer"

SHORT_NAMES = {
    "AdaBoostClassifier": "sklearn.ensemble.AdaBoostClassifier",
    "BernoulliNB": "sklearn.naive_bayes.BernoulliNB",
    "ComplementNB": "sklearn.naive_bayes.ComplementNB",
    "DecisionTreeClassifier": "sklearn.tree.DecisionTreeClassifier",
    "DecisionTreeRegressor": "sklearn.tree.DecisionTreeRegressor",
    "DummyClassifier": "sklearn.dummy.DummyClassifier",
    "DummyRegressor": "sklearn.dummy.DummyRegressor",
    "ElasticNet": "sklearn.linear_model.ElasticNet",
    "ExtraTreesClassifier": "sklearn.ensemble.ExtraTreesClassifier",
    "ExtraTreesRegressor": "sklearn.ensemble.ExtraTreesRegressor",
    "GradientBoostingClassifier": "sklearn.ensemble.GradientBoostingClassifier",
    "GradientBoostingRegressor": "sklearn.ensemble.GradientBoostingRegressor",
    "KNeighborsClassifier": "sklearn.neighbors.KNeighborsClassifier",
    "KNeighborsRegressor": "sklearn.neighbors.KNeighborsRegressor",
    "Lasso": "sklearn.linear_model.Lasso",
    "LinearSVC": "sklearn.svm.LinearSVC",
    "LinearSVR": "sklearn.svm.LinearSVR",
    "LogisticRegression": "sklearn.linear_model.LogisticRegression",
    "MLPClassifier": "sklearn.neural_network.MLPClassifier",
    "MLPRegressor": "sklearn.neural_network.MLPRegressor",
    "MultinomialNB": "sklearn.naive_bayes.MultinomialNB",
    "NearestCentroid": "sklearn.neighbors.NearestCentroid",
    "PassiveAggressiveClassifier": "sklearn.linear_model.PassiveAggressiveClassifier",
    "Perceptron": "sklearn.linear_model.Perceptron",
    "RandomForestClassifier": "sklearn.ensemble.RandomForestClassifier",
    "RandomForestRegressor": "sklearn.ensemble.RandomForestRegressor",
    "Ridge": "sklearn.linear_model.Ridge",
    "RidgeClassifier": "sklearn.linear_model.RidgeClassifier",
    "SGDClassifier": "sklearn.linear_model.SGDClassifier",
    "SGDRegressor": "sklearn.linear_model.SGDRegressor",
    "SVC": "sklearn.svm.SVC",
    "SVR": "sklearn.svm.SVR",
}
"""Classifiers and regressors that may be written without their path."""

SHORT_VECTORIZERS = {
    "CountVectorizer": "sklearn.feature_extraction.text.CountVectorizer",
    "HashingVectorizer": "sklearn.feature_extraction.text.HashingVectorizer",
    "TfidfVectorizer": DEFAULT_VECTORIZER,
}
"""Vectorizers that may be written without their path."""
