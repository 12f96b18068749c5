"""A console in the browser: what queues hold, why it does not move, and what operators do about it (docs/console.md).

    from jbm_kafka.console import app

    application = app("localhost:9092")     # an ASGI application: serve it, or mount it in your own

`jbm-kafka console` serves it. Needs Starlette, uvicorn and Jinja2: `jbm-kafka[console]`.
"""

try:
    import jinja2 as _jinja2  # noqa: F401
    import python_multipart as _multipart  # noqa: F401
    import starlette as _starlette  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'jbm-kafka[console]'") from None

from jbm_kafka.console.app import app
from jbm_kafka.console.frame.console_settings import ConsoleSettings
from jbm_kafka.console.frame.viewer import Viewer

__all__ = ["ConsoleSettings", "Viewer", "app"]
