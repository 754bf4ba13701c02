"""Stored sessions for the web page: which there are, and each replayed call by call."""

from __future__ import annotations
