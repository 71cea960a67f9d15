"""Trainers of the tests: standard library only, each misbehaves in its own way.

A worker finds them as `stub_trainers:NAME`, with this folder on its PYTHONPATH.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from potato_ray.trainers import kinds
from potato_ray.trainers.base import Licence, Prediction, Requirement, Trainer, TrainerError

IDLE = [sys.executable, "-c", "import time; time.sleep(600)"]
START_IDLE = [sys.executable, "-c", f"import subprocess; subprocess.Popen({IDLE!r}, start_new_session=True)"]


class Majority(Trainer):
    """Predicts the most frequent label of the train split."""

    name = "stub-majority"
    description = "The most frequent label."
    kinds = (kinds.NOMINAL,)
    params = ()
    requires = ()
    install_hint = ""
    licence = Licence("Apache-2.0")

    def fit(self, context):
        self.context = context
        targets = [row["targets"][context.scheme.name] for row in context.rows("train")]
        self.label = max(sorted(set(targets)), key=targets.count)
        context.reporter.metric("train_share", targets.count(self.label) / len(targets))
        (context.artifacts / "model.txt").write_text(self.label, "utf-8")
        self.misbehave(context)
        return {"n_train": float(len(targets))}

    def misbehave(self, context):
        """What a subclass does in the middle of its fit."""

    def predict(self, rows):
        for row in rows:
            yield Prediction(row["instance_id"], {"label": self.label}, 0.75)

    @classmethod
    def load(cls, artifacts, device="cpu"):
        raise NotImplementedError

    def label_order(self):
        return list(self.context.scheme.labels)


class Preloading(Majority):
    """Its spare worker has imported a module that nothing else imports."""

    preload = ("colorsys",)

    def misbehave(self, context):
        context.reporter.log("colorsys was {}loaded".format("" if "colorsys" in sys.modules else "not "))


class Facts(Majority):
    """Says what its process looks like."""

    def misbehave(self, context):
        names = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HF_HOME", "SECRET_TOKEN")
        for name in names:
            context.reporter.log("{}={}".format(name, os.environ.get(name, "unset")))
        context.reporter.log(f"sigint blocked: {signal.SIGINT in signal.pthread_sigmask(0, ())}")
        context.reporter.log(f"seed: {context.seed}")
        context.reporter.log(f"cwd: {Path.cwd()}")
        context.reporter.log(f"path: {os.pathsep.join(sys.path)}")


class LateDevice(Majority):
    """Requires torch only when it is told so, and computes with it in the middle of its fit."""

    @classmethod
    def also_requires(cls, params):
        return tuple(Requirement(module, module) for module in params["modules"])

    def misbehave(self, context):
        context.reporter.log(f"torch loaded: {'torch' in sys.modules}, device: {context.device}")
        context.reporter.log(f"late device: {context.late_device()}")


class Silent(Majority):
    """Sleeps in Python code, which a SIGTERM interrupts."""

    def misbehave(self, context):
        context.reporter.status("fitting", "silent")
        time.sleep(600)


class Native(Majority):
    """Works in native code, which no Python signal handler interrupts."""

    def misbehave(self, context):
        context.reporter.status("fitting", "native")
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 10**9)


class Hungry(Majority):
    """Allocates and touches 1 GiB, and holds it."""

    def misbehave(self, context):
        self.memory = b"x" * 2**30
        time.sleep(600)


class OutOfMemory(Majority):
    def misbehave(self, context):
        raise MemoryError


class GpuOutOfMemory(Majority):
    def misbehave(self, context):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20 MiB") from None


class Family(Majority):
    """Leaves a child in its group and a grandchild in a session of its own."""

    def misbehave(self, context):
        subprocess.Popen(IDLE)
        subprocess.run(START_IDLE, check=True)
        context.reporter.status("fitting", "family")
        if self.stays:
            time.sleep(600)

    stays = False


class StayingFamily(Family):
    stays = True


class Stubborn(Family):
    """Swallows the first stop and goes on; only a kill ends it."""

    def misbehave(self, context):
        context.reporter.status("fitting", "stubborn")
        while True:
            try:
                time.sleep(600)
            except BaseException:  # noqa: S112, BLE001
                continue


class Refusing(Majority):
    def misbehave(self, context):
        raise TrainerError("validation_failed", "The texts are empty.", "Fill them in.")


class Broken(Majority):
    def misbehave(self, context):
        raise ValueError("odd \ud800 value in /secret/path")


class Importing(Majority):
    def misbehave(self, context):
        import no_such_module  # noqa: F401


class Needy(Majority):
    requires = (Requirement("no_such_module", "no-such-package"),)
    install_hint = "pip install no-such-package"


class Quitter(Majority):
    """Ends its process cleanly in the middle."""

    def misbehave(self, context):
        os._exit(0)


class Crashing(Majority):
    def misbehave(self, context):
        os.kill(os.getpid(), signal.SIGSEGV)


class Chatty(Majority):
    """Prints where events must not go, and reports numbers that JSON does not know."""

    def misbehave(self, context):
        print("to stdout")  # noqa: T201
        print("to stderr", file=sys.stderr)  # noqa: T201
        context.reporter.metric("train_loss", float("nan"), step=1)
        context.reporter.log("lone \ud800 surrogate")


class Boasting(Majority):
    def fit(self, context):
        return {**super().fit(context), "val_macro_f1": 1.0}


class Leaking(Majority):
    def predict(self, rows):
        yield from super().predict(rows)
        yield Prediction("train-0", {"label": "a"}, 1.0)


class Unsure(Majority):
    def predict(self, rows):
        for row in rows:
            yield Prediction(
                row["instance_id"], {"label": "a", "probabilities": {"a": float("nan")}}, float("inf")
            )
