"""Whether the arrays inside a loaded model point where they may.

scikit-learn's trees and scipy's sparse matrices are walked by compiled code that does not look whether an
index is in range. A file that was tampered with could make it read memory that is not the model's, so
each of them is checked once after loading.
"""

from __future__ import annotations

from typing import Any, Iterator

_ENSEMBLES = ("sklearn.ensemble._forest", "sklearn.ensemble._gb")


def unsound_parts(model: Any) -> list[str]:
    """What is wrong with the trees and sparse matrices inside `model`, in words; empty: nothing."""
    return [problem for part in _parts(model) for problem in [_problem_with(part)] if problem]


def _parts(root: Any) -> Iterator[Any]:
    """Every object inside containers, object arrays and scikit-learn estimators, each once."""
    import numpy as np

    waiting, seen = [root], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple)):
            waiting.extend(part)
        elif isinstance(part, np.ndarray) and part.dtype == object:
            waiting.extend(part.ravel().tolist())
        elif type(part).__module__.startswith("sklearn."):
            waiting.extend(getattr(part, "__dict__", {}).values())


def _problem_with(part: Any) -> str:
    from scipy import sparse

    if sparse.issparse(part) and hasattr(part, "check_format"):
        return _problem_with_matrix(part)
    if type(part).__name__ == "Tree" and type(part).__module__ == "sklearn.tree._tree":
        return _problem_with_tree(part)
    if type(part).__module__ in _ENSEMBLES and hasattr(part, "estimators_"):
        return _problem_with_members(part)
    if hasattr(part, "tree_") and hasattr(part, "n_features_in_"):
        return _problem_with_inputs(part)
    if hasattr(part, "_predictors") and hasattr(part, "n_features_in_"):
        return _problem_with_boosting(part)
    return ""


def _problem_with_matrix(matrix: Any) -> str:
    try:
        matrix.check_format(full_check=True)
    except ValueError as failure:
        return f"a sparse matrix is torn: {failure}"
    return ""


def _problem_with_tree(tree: Any) -> str:
    import numpy as np

    here = np.arange(tree.node_count)
    left, right = tree.children_left, tree.children_right
    leaf = left == -1
    # Children come after their parents, so no walk can go in circles.
    inner = (left > here) & (right > here) & (left < tree.node_count) & (right < tree.node_count)
    features = leaf | ((tree.feature >= 0) & (tree.feature < tree.n_features))
    if not bool(np.all((leaf | inner) & features)) or len(tree.value) != tree.node_count:
        return "a decision tree points outside itself"
    return ""


def _problem_with_inputs(estimator: Any) -> str:
    if estimator.tree_.n_features != estimator.n_features_in_:
        return "a decision tree expects another number of features than its estimator"
    return ""


def _problem_with_members(ensemble: Any) -> str:
    """Of forests and gradient boosting, which give each of their trees the same rows without a look."""
    import numpy as np

    members = np.asarray(ensemble.estimators_, dtype=object)
    if any(each.n_features_in_ != ensemble.n_features_in_ for each in members.flat):
        return "a tree of an ensemble expects another number of features than the ensemble"
    if not hasattr(ensemble, "_raw_predict_init"):
        return ""
    if not isinstance(ensemble.init_, str) and type(ensemble.init_).__module__ != "sklearn.dummy":
        return "a boosted ensemble begins with a model that is not checked"
    # The trees add to this table, one column for each of a round.
    start = ensemble._raw_predict_init(np.zeros((1, ensemble.n_features_in_), dtype=np.float32))
    if start.shape != (1, members.shape[1]):
        return "a boosted ensemble has more or fewer trees in a round than it has room for"
    return ""


def _problem_with_boosting(estimator: Any) -> str:
    """Of histogram gradient boosting: its trees are tables of nodes, in lists of lists."""
    problems = (
        _problem_with_nodes(tree.nodes, estimator.n_features_in_)
        for round_ in estimator._predictors
        for tree in round_
    )
    return next(filter(None, problems), "")


def _problem_with_nodes(nodes: Any, n_features: int) -> str:
    import numpy as np

    here = np.arange(len(nodes))
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    leaf = nodes["is_leaf"] != 0
    inner = (left > here) & (right > here) & (left < len(nodes)) & (right < len(nodes))
    features = (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < n_features)
    if not len(nodes) or not bool(np.all(leaf | (inner & features))):
        return "a boosted tree points outside itself"
    if bool(np.any(nodes["is_categorical"])):
        return "a boosted tree asks for categories, whose tables are not checked"
    return ""
