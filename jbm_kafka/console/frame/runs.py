"""Actions that run, or ran lately: each on a thread of the server, with its progress, and recorded with who did it."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from pydantic import BaseModel

from jbm_kafka.admin import Admin
from jbm_kafka.admin.operator_events import write_operator_action
from jbm_kafka.codec.operator_actions import OperatorAction
from jbm_kafka.console.frame.action import ActionHands, AnyAction
from jbm_kafka.core.failure_text import one_line_of
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, ResourceAllocationError

log = logging.getLogger(__name__)

KEPT = 200
"""So many are remembered, the latest; and so many may wait or run at once."""
LINES_KEPT = 50
CLOSING = "the console, which ends"
AT_ONCE = 4
"""More wait in line."""
RunState = Literal["waits", "runs", "done", "failed"]


class ActionRun(BaseModel):
    """One time that somebody did something."""

    id: str
    action: str
    title: str
    about: str
    """The destination; empty: none in particular."""
    also: Sequence[str] = ()
    """Others that it is about, such as the one that messages are moved to."""
    wanted: Mapping[str, object]
    """The request."""
    by: str
    begun_at_ms: int
    ended_at_ms: int | None = None
    state: RunState = "waits"
    can_stop: bool = False
    """Somebody may stop it while it is not over."""
    stopped_by: str = ""
    """Who asked it to stop; empty: nobody."""
    lines: list[str] = []
    """How far it was, the latest last."""
    outcome: str = ""
    """The outcome, or why it failed."""
    path: str = "/"
    """The page that shows what became of it."""

    @property
    def is_over(self) -> bool:
        """It did what it could."""
        return self.state in ("done", "failed")


class ActionRuns:
    """Runs actions and remembers them. Any thread."""

    def __init__(self, admin: Admin, changed: Callable[[], object]) -> None:
        """`changed` is called when one has ended."""
        self._admin, self._changes = admin, changed
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, ActionRun] = OrderedDict()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="jbm-console-action")

    def begin(
        self,
        action: AnyAction,
        wanted: BaseModel,
        by: str,
        may_operate: Callable[[str], bool] = lambda name: True,
        *,
        sends_to: Sequence[str] = (),
    ) -> ActionRun:
        """Run it soon; what is returned now waits. `may_operate` and `sends_to` as of `Action`.

        Raises:
            ResourceAllocationError: too many wait; it is not run.
        """
        run = ActionRun(
            id=secrets.token_hex(8),
            action=action.name,
            title=action.title,
            about=action.about(wanted),
            also=[*action.more_about(wanted), *sends_to],
            wanted=wanted.model_dump(mode="json", exclude_defaults=True),
            by=by,
            begun_at_ms=time.time_ns() // 1_000_000,
            path=action.goes_back(wanted),
            can_stop=action.can_stop,
        )
        with self._lock:
            over = [each.id for each in self._runs.values() if each.is_over]
            if len(self._runs) - len(over) >= KEPT:
                raise ResourceAllocationError(f"{KEPT} actions wait or run already; nothing was done, do it later")
            for old in over[: max(len(self._runs) + 1 - KEPT, 0)]:
                del self._runs[old]
            self._runs[run.id] = run
        self._pool.submit(self._run, action, wanted, run.id, may_operate)
        return run

    def of(self, run_id: str) -> ActionRun | None:
        """As it is now; None: it is not known here, or not any more."""
        with self._lock:
            return self._runs.get(run_id)

    def lately(self) -> list[ActionRun]:
        """The latest first."""
        with self._lock:
            return [*reversed(self._runs.values())]

    def stop(self, run_id: str, by: str) -> None:
        """Have it do no more; one that waits in line does nothing. It returns at once.

        Raises:
            IllegalStateError: it is over, or can only be waited for.
        """
        with self._lock:
            run = self._runs[run_id]
            if run.is_over or not run.can_stop:
                why = "it is over" if run.is_over else "what it does is done as one"
                raise IllegalStateError(f"{run.title} {run.about} cannot be stopped: {why}")
            self._runs[run_id] = run.model_copy(update={"stopped_by": run.stopped_by or by})
        log.info("%s %s by %s: %s stops it", run.action, run.about, run.by, by)

    def close(self) -> None:
        """Stop what can be stopped, and wait for those that run; those in line are not begun."""
        with self._lock:
            for run in self._runs.values():
                if run.can_stop and not run.is_over:
                    self._runs[run.id] = run.model_copy(update={"stopped_by": run.stopped_by or CLOSING})
        self._pool.shutdown(cancel_futures=True)

    def _is_stopped(self, run_id: str) -> bool:
        with self._lock:
            run = self._runs.get(run_id)
            return run is not None and bool(run.stopped_by)

    def _run(self, action: AnyAction, wanted: BaseModel, run_id: str, may_operate: Callable[[str], bool]) -> None:
        begun = self._changed(run_id, state="runs")
        log.info("%s %s by %s: begun, %s", action.name, begun.about, begun.by, json.dumps(begun.wanted))
        self._record(begun, "begun")
        try:
            hands = ActionHands(
                self._admin,
                begun.by,
                lambda line: self._tell(run_id, line),
                may_operate,
                lambda: self._is_stopped(run_id),
            )
            did = action.run(hands, wanted)
            if by := self._changed(run_id).stopped_by:
                did = f"{did} Stopped by {by}."
            state: RunState = "done"
        except JMSError as error:
            did, state = str(error), "failed"
        except Exception as error:
            log.exception("%s %s by %s: a bug", action.name, begun.about, begun.by)
            did, state = f"a bug: {one_line_of(repr(error))}", "failed"
        self._changes()
        ended = self._changed(run_id, state=state, outcome=did, ended_at_ms=time.time_ns() // 1_000_000)
        (log.info if state == "done" else log.warning)(
            "%s %s by %s: %s: %s", action.name, begun.about, begun.by, state, one_line_of(did)
        )
        self._record(ended, state)

    def _record(self, run: ActionRun, outcome: str) -> None:
        """In jbm.events. An action that could be done is not refused because nobody could write it down there."""
        at_ms = run.begun_at_ms if run.ended_at_ms is None else run.ended_at_ms
        done = OperatorAction(
            id=run.id,
            action=run.action,
            by=run.by,
            destination=run.about,
            wanted=json.dumps(run.wanted),
            outcome=outcome,
            text=run.outcome,
            at_ms=at_ms,
        )
        try:
            write_operator_action(self._admin._core, done)
        except JMSError as error:
            log.warning("%s %s by %s: not in jbm.events: %s", run.action, run.about, run.by, error)

    def _tell(self, run_id: str, line: str) -> None:
        with self._lock:
            if (run := self._runs.get(run_id)) is not None:
                self._runs[run_id] = run.model_copy(update={"lines": [*run.lines, line][-LINES_KEPT:]})

    def _changed(self, run_id: str, **to: object) -> ActionRun:
        with self._lock:
            run = self._runs[run_id].model_copy(update=to)
            self._runs[run_id] = run
            return run
