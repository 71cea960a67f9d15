"""The key form, and its session."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
