"""Variants that do to a worker what foreign code does: each must lose its own case and no other's."""

import ctypes
import os
import signal
import sys
import threading
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

from variants.variant import Unsupported, Variant


class Honest(Variant):
    """Right, and beside the others in every group."""

    stage = "attention"
    name = "honest"

    def __init__(self, shape):
        super().__init__(shape)
        self.calls = 0

    def call(self, q, k, v):
        self.calls += 1
        self.misbehave()
        return self.right(q, k, v)

    def right(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal)

    def misbehave(self):
        pass


class Segfaults(Honest):
    name = "segfaults"

    def misbehave(self):
        ctypes.string_at(0)


class SegfaultsWhileTimed(Honest):
    name = "segfaults_while_timed"

    def misbehave(self):
        if self.calls > 4:
            ctypes.string_at(0)


class KillsItself(Honest):
    name = "kills_itself"

    def misbehave(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Hangs(Honest):
    name = "hangs"

    def misbehave(self):
        time.sleep(1e6)


class PrintsMegabytes(Honest):
    name = "prints_megabytes"

    def misbehave(self):
        if self.calls == 1:
            print("x" * 5_000_000)
            sys.stderr.write("y" * 5_000_000)
            os.write(1, b'{"event": "trial"}\n' * 50_000)


class ExitsQuietly(Honest):
    name = "exits_quietly"

    def misbehave(self):
        os._exit(0)


class CallsExit(Honest):
    name = "calls_exit"

    def misbehave(self):
        sys.exit(3)


class Raises(Honest):
    name = "raises"

    def misbehave(self):
        raise KeyError("no such head")


class RaisesWhileTimed(Honest):
    name = "raises_while_timed"

    def misbehave(self):
        if self.calls > 4:
            raise RuntimeError("only later")


class AsksForTooMuch(Honest):
    name = "asks_for_too_much"

    def misbehave(self):
        torch.empty(1 << 50, dtype=torch.uint8)


class Declines(Honest):
    name = "declines"

    def prepare(self, weights):
        raise Unsupported("only on Thursdays")


class SetsState(Honest):
    """Leaves every process-wide setting changed: the next variant must not notice."""

    name = "sets_state"

    def call(self, q, k, v):
        out = self.right(q, k, v)
        torch.set_grad_enabled(True)
        torch.set_float32_matmul_precision("medium")
        torch.set_num_threads(1 if torch.get_num_threads() > 1 else 2)
        torch.backends.cuda.enable_flash_sdp(False)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_autocast_enabled("cpu", True)
        torch.use_deterministic_algorithms(True)
        return out


class LeavesThreadsRunning(Honest):
    """Its threads would keep the worker alive long after its work is done."""

    name = "leaves_threads_running"

    def misbehave(self):
        if self.calls == 1:
            threading.Thread(target=time.sleep, args=(1e6,)).start()


class SpoilsItsInputAndRaises(Honest):
    name = "spoils_its_input_and_raises"

    def call(self, q, k, v):
        q.zero_()
        raise ValueError("after the damage")


class ReturnsAGenerator(Honest):
    """An honest slip: nothing is computed until somebody iterates."""

    name = "returns_a_generator"

    def call(self, q, k, v):
        return (self.right(*parts) for parts in [(q, k, v)])

    def canonical(self, output):
        return tuple(output)


class CannotBeBuilt(Honest):
    name = "cannot_be_built"

    def __init__(self, shape):
        raise ValueError("no heads at all")


class RaisesInCanonical(Honest):
    name = "raises_in_canonical"

    def canonical(self, output):
        raise IndexError("no such axis")


class ChangesItsInputLater(Honest):
    """Right while it is verified; then it spoils the input that its neighbours are timed on."""

    name = "changes_its_input_later"

    def call(self, q, k, v):
        self.calls += 1
        out = self.right(q, k, v)
        if self.calls > 3:
            q.zero_()
        return out


class RemembersByAddress(Honest):
    """Computes once per storage: timed on the same storage, it would never compute at all."""

    name = "remembers_by_address"

    def call(self, q, k, v):
        self.seen = getattr(self, "seen", {})
        key = q.data_ptr()
        if key not in self.seen:
            self.seen[key] = self.right(q, k, v)
        return self.seen[key]


class ComputesWhenAsked(Honest):
    """Does its work in `canonical`, which is not timed."""

    name = "computes_when_asked"

    def call(self, q, k, v):
        return q, k, v

    def canonical(self, output):
        return (self.right(*output),)
