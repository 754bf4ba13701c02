"""Puts gnomon's neighbours into scikit-learn's place before its tests import them."""

from __future__ import annotations

import sklearn.neighbors
from gnomon.compat import sklearn as ours

sklearn.neighbors.NearestNeighbors = ours.ExactNearestNeighbors
sklearn.neighbors.KNeighborsTransformer = ours.KNeighborsTransformer
