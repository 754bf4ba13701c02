"""scikit-learn's check_estimator, one test a check, on its own classes or on gnomon's."""

from __future__ import annotations

import os
from typing import Any

from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors
from sklearn.utils.estimator_checks import parametrize_with_checks

if os.environ["GNOMON_PEERS_SWAP"]:
    from gnomon.compat import sklearn as ours

    ESTIMATORS = [ours.ExactNearestNeighbors(), ours.KNeighborsTransformer()]
else:
    ESTIMATORS = [NearestNeighbors(metric="cosine", algorithm="brute"), KNeighborsTransformer()]


@parametrize_with_checks(ESTIMATORS)
def test_check(estimator: Any, check: Any) -> None:
    check(estimator)
