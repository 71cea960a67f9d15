"""Checks of what is Potato's at the top level, where it touches training."""

from __future__ import annotations

from potato_ray.config.document import Document
from potato_ray.config.places import keys_at
from potato_ray.config.spelling import closest

_SURE = 0.84
_FIELD = "predictions"

# fmt: off
OF_POTATO = frozenset({
    "adjudication", "ai_support", "alert_time_each_instance", "allow_phase_back_navigation",
    "annotation_codebook_url", "annotation_instructions", "annotation_task_description",
    "assignment_strategy", "attention_checks", "authentication", "automatic_assignment",
    "base_html_template", "category_assignment", "codebook", "custom_ds", "custom_layout",
    "customjs", "customjs_hostname", "data_cache", "data_directory", "data_sources", "database",
    "debug_log", "debug_phase", "diversity_ordering", "export_annotation_format", "gold_standards",
    "header_file", "hide_navbar", "highlight_linebreaks", "horizontal_key_bindings", "host",
    "html_layout", "icl_labeling", "instance_display", "jumping_to_id_disabled",
    "keyword_highlights_file", "list_as_text", "login", "mace", "max_annotations_per_item",
    "max_annotations_per_user", "output_annotation_format", "partial_loading", "persist_sessions",
    "phases", "pocket", "port", "prestudy", "quality_control", "random_seed", "secret_key",
    "server_name", "session_lifetime_days", "site_dir", "site_file", "surveyflow",
    "task_description", "training", "training_phase", "ui", "user_config", "validation", "verbose",
    "very_verbose", "webhooks",
})
# fmt: on
"""Top-level keys of Potato that must never be taken for a misspelling of one that we read."""


def check_near_misses(document: Document) -> None:
    """Warn of a top-level key that is nearly one that we read; all others are left alone."""
    ours = [*keys_at(document, ()), "validation"]
    reported = {finding.key for finding in document.findings}
    for key in document.data:
        if key in ours or key in OF_POTATO or key in reported:
            continue
        near = closest(key, ours, _SURE)
        if near:
            document.warn((key,), "this top-level key is not read", "unknown_key", near)


def check_debug(document: Document) -> None:
    """Warn of an admin without a key, where there is something to administer."""
    if document.at("debug") is True and document.at("model_training", "enabled") is True:
        message = (
            "whoever works on this machine is an admin without a key; set it to false where other people can "
            "log in, and behind a proxy"
        )
        document.warn(("debug",), message, "debug_on")


def check_pre_annotation(document: Document) -> None:
    """Potato's own display of pre-labels must look where write-back puts them."""
    block = document.mapping("pre_annotation")
    if block.get("enabled") is not True or "writeback" not in document.mapping("model_training"):
        return
    shown = document.text("pre_annotation", "field", default=_FIELD)
    written = document.text("model_training", "writeback", "field", default=_FIELD)
    if shown != written:
        document.error(
            ("pre_annotation", "field"),
            f"it is {shown}, but model_training.writeback.field is {written}: no pre-label from training "
            "would be shown",
            "field_differs",
            written,
        )
