"""The commands and their options; each one's work is in a module of its own, imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import potato_ray

app = typer.Typer(
    name="potato-ray",
    help="Train models on Potato annotations on any GPU you have, and bring the predictions back.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
training = typer.Typer(help="Train, and look at runs.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(training, name="training")


def _complete_backends(ctx: typer.Context, incomplete: str) -> list[str]:
    from potato_ray.cli.completion import backends

    return backends(ctx.params.get("config"), incomplete)


def _complete_schemas(ctx: typer.Context, incomplete: str) -> list[str]:
    from potato_ray.cli.completion import schemas

    return schemas(ctx.params.get("config"), incomplete)


def _complete_trainers(incomplete: str) -> list[str]:
    from potato_ray.cli.completion import trainers

    return trainers(incomplete)


def _complete_params(ctx: typer.Context, incomplete: str) -> list[str]:
    from potato_ray.cli.completion import params

    return params(ctx.params.get("trainer"), incomplete)


def _complete_runs(ctx: typer.Context, incomplete: str) -> list[str]:
    from potato_ray.cli.completion import runs

    return runs(ctx.params.get("config"), incomplete)


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
ConfigArgument = Annotated[Path, typer.Argument(help="The project's configuration file.")]
ConfigLast = Annotated[Path, typer.Argument(help="The project's configuration file.", show_default=True)]
RunArgument = Annotated[
    str,
    typer.Argument(
        help="The run's id, its last six characters, or latest: the newest run.",
        autocompletion=_complete_runs,
    ),
]
SuccessArgument = Annotated[
    str,
    typer.Argument(
        help="The run's id, its last six characters, or latest: the newest successful run.",
        autocompletion=_complete_runs,
    ),
]
DEFAULT_CONFIG = Path("config.yaml")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"potato-ray {potato_ray.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Train models on Potato annotations on any GPU you have, and bring the predictions back."""


@app.command()
def validate(
    config: ConfigLast = DEFAULT_CONFIG,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    json: JsonOption = False,
) -> None:
    """Report every problem of a configuration at once; exit 1 when there is an error."""
    from potato_ray.cli.validating import run_validate

    sys.exit(run_validate(config, strict=strict, as_json=json))


@app.command()
def start(
    config: ConfigLast = DEFAULT_CONFIG,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="The port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8000,
    spare: Annotated[
        bool,
        typer.Option("--spare/--no-spare", help="Keep what a run needs loaded ahead, for 250 MB of memory."),
    ] = True,
) -> None:
    """Serve the project: the Training page, its API, and the runs."""
    from potato_ray.cli.serving import run_start

    sys.exit(run_start(config, host, port, spare=spare))


@app.command()
def demo(
    once: Annotated[bool, typer.Option("--once", help="End after the run.")] = False,
    folder: Annotated[Path, typer.Option("--folder", help="Where the example project is put.")] = Path(
        ".demo/review-sentiment"
    ),
) -> None:
    """Train on the example project, print the held-out score, and serve its page."""
    from potato_ray.cli.demo import run_demo

    sys.exit(run_demo(folder, once=once))


@app.command()
def predict(
    run: SuccessArgument,
    file: Annotated[
        Path,
        typer.Argument(
            help="New texts: .txt or .text (one a line), .json, .jsonl, .csv, .tsv, .parquet; "
            "- reads lines from standard input."
        ),
    ],
    config: Annotated[
        Path, typer.Option("--config", help="The project's configuration file.")
    ] = DEFAULT_CONFIG,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write JSON lines here, not to stdout.")
    ] = None,
) -> None:
    """Predict on new texts with the model of a run; prints one JSON object a line."""
    from potato_ray.cli.predicting import run_predict

    sys.exit(run_predict(run, file, config, output))


@training.command("check")
def training_check(
    name: Annotated[str, typer.Argument(help="The backend.", autocompletion=_complete_backends)],
    config: ConfigLast = DEFAULT_CONFIG,
    json: JsonOption = False,
) -> None:
    """Look whether a run could start on a backend; exit 0 when it could, else 1."""
    from potato_ray.cli.checking import run_check

    sys.exit(run_check(name, config, as_json=json))


@training.command("register")
def training_register(
    name: Annotated[str, typer.Argument(help="The backend.", autocompletion=_complete_backends)],
    config: ConfigLast = DEFAULT_CONFIG,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace a token without asking.")] = False,
    json: JsonOption = False,
) -> None:
    """Issue a token for the agents of a backend; print it once, with the commands to start an agent."""
    from potato_ray.cli.registering import run_register

    sys.exit(run_register(name, config, as_json=json, sure=yes))


@training.command(
    "agent",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def training_agent(context: typer.Context) -> None:
    """Ask a server for jobs, and run them on this machine; --help lists the options."""
    from potato_ray.cli.agent import run_agent

    sys.exit(run_agent(context.args))


@training.command("run")
def training_run(
    config: ConfigArgument,
    trainer: Annotated[
        str, typer.Option("--trainer", "-t", help="What to train.", autocompletion=_complete_trainers)
    ],
    schema: Annotated[
        list[str],
        typer.Option(
            "--schema",
            "-s",
            help="The annotation scheme; the first one is trained.",
            autocompletion=_complete_schemas,
        ),
    ],
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            help="A parameter, k=v, or a member of one, k.m=v; v is read as YAML.",
            autocompletion=_complete_params,
        ),
    ] = None,
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            "-b",
            help="Where to run; by default model_training.backend.",
            autocompletion=_complete_backends,
        ),
    ] = "",
    accept_licence: Annotated[
        bool, typer.Option("--accept-licence", help="Accept the trainer's licence.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Train one run and wait for its end, on the server that is there or without one."""
    from potato_ray.cli.running import run_training

    sys.exit(
        run_training(
            config, trainer, schema, param or [], backend, accept_licence=accept_licence, as_json=json
        )
    )


@training.command("runs")
def training_runs(
    config: ConfigLast = DEFAULT_CONFIG,
    limit: Annotated[int, typer.Option("--limit", help="At most so many.", min=1, max=500)] = 50,
    status: Annotated[str, typer.Option("--status", help="Only runs in this state.")] = "",
    trainer: Annotated[
        str, typer.Option("--trainer", help="Only runs of this trainer.", autocompletion=_complete_trainers)
    ] = "",
    json: JsonOption = False,
) -> None:
    """List the runs of a project, newest first."""
    from potato_ray.cli.runs import list_runs

    sys.exit(list_runs(config, limit, status, trainer, as_json=json))


@training.command("show")
def training_show(run: RunArgument, config: ConfigLast = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Show one run: state, scores, warnings, write-back, files."""
    from potato_ray.cli.runs import show_run

    sys.exit(show_run(run, config, as_json=json))


@training.command("log")
def training_log(run: RunArgument, config: ConfigLast = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Print a run's log, or with --json its events."""
    from potato_ray.cli.runs import show_log

    sys.exit(show_log(run, config, as_json=json))


@training.command("fetch")
def training_fetch(
    run: SuccessArgument,
    path: Annotated[
        list[str] | None, typer.Argument(help="A file or a folder of them; all that are not here by default.")
    ] = None,
    config: Annotated[
        Path, typer.Option("--config", help="The project's configuration file.")
    ] = DEFAULT_CONFIG,
    only_list: Annotated[bool, typer.Option("--list", help="List what is there, and fetch nothing.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="When all files are here, remove them from the host.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Bring model files that stayed on the host of a run into the run's artifacts."""
    from potato_ray.cli.fetching import run_fetch

    sys.exit(run_fetch(run, path or [], config, only_list=only_list, remove=remove, as_json=json))


@training.command("cancel")
def training_cancel(run: RunArgument, config: ConfigLast = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Cancel a waiting or running run."""
    from potato_ray.cli.cancelling import run_cancel

    sys.exit(run_cancel(run, config, as_json=json))


@training.command("withdraw")
def training_withdraw(
    run: SuccessArgument, config: ConfigLast = DEFAULT_CONFIG, json: JsonOption = False
) -> None:
    """Take a run's pre-labels off the items; what annotators made of them stays."""
    from potato_ray.cli.withdrawing import run_withdraw

    sys.exit(run_withdraw(run, config, as_json=json))
