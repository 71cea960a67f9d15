"""The web pages: Training, and one for each run."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
