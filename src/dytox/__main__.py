"""The start of the program: the `dytox` command and `python -m dytox`.

Before anything else is imported, the current folder leaves the search path for modules, and Ctrl-C ends the
program without a traceback.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


def secure_path() -> None:
    """Remove the current folder from the search path of this process and of those that it starts.

    Libraries try optional imports (torch: `opt_einsum`, `pydot`, `pynvml`), and a downloaded folder could
    hold files of these names. If this file is run by its path, as `cli/launch.py` does it, the first entry of
    the search path is this package's own folder, and the package is found in the folder above it.
    """
    os.environ["PYTHONSAFEPATH"] = "1"  # for child processes, from Python 3.11 on
    if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # the current folder after `-m`, else the folder of this file
    sys.path[:] = [entry for entry in sys.path if entry]
    if not __package__:
        sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def interrupt(number: int, frame: "FrameType | None") -> None:
    """Handle Ctrl-C: leave at once while a module is being imported, else raise KeyboardInterrupt.

    An import that is cut off may turn the exception into another error, and nothing needs cleaning up.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


def main() -> None:
    """Run the program; see `dytox.cli.main.run` for its exit codes."""
    secure_path()
    import signal  # only now: a folder could hold a file of this name

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it was started to ignore it
        signal.signal(signal.SIGINT, interrupt)
    from dytox.cli.main import run

    run()


if __name__ == "__main__":
    main()
