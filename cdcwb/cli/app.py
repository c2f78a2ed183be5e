"""The group of commands, and the conversion of errors to a sentence on standard error and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

import click

from cdcwb.cli import live, look, make, read, xds
from cdcwb.cli.console import DOWN, FINE, INTERNAL, UNUSABLE, of_source, safe, sentence
from cdcwb.cli.open import open_capture
from cdcwb.errors import SourceDownError
from cdcwb.formats.options import nearest
from cdcwb.words import is_text

_ALL: Final = 10_000  # characters of a sentence


class _PipeClosedError(Exception):
    """The reader of standard output has closed it."""


class NearestGroup(click.Group):
    """A group of commands whose error for an unknown command names the nearest match."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See :class:`click.Group`."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            names = self.list_commands(ctx)
            ctx.fail(f"Unknown command '{name}'.{nearest(name, names)} There are: {', '.join(names)}.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """See :class:`click.Command`."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError as closed:  # click would exit with 1, which means that the capture has problems
            raise _PipeClosedError from closed

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands, each with the complete first sentence of its help; click would shorten it."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit=_ALL)) for name, command in commands])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """See :class:`click.Group`."""
        return list(self.commands)  # in the order of use, not alphabetical


@click.group(cls=NearestGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="cdcwb", prog_name="cdcwb")
def cli() -> None:
    """Read the captures of change data capture systems, down to the byte.

    Exit codes: 0 fine, 1 the capture has problems (--strict), 2 unusable input or arguments, 3 an error inside cdcwb, 4
    a condition of report --fail-if holds, 5 a live source does not answer.
    """


for _command in (
    look.identify,
    live.capture,
    open_capture,
    look.inspect,
    read.summary,
    read.continuity,
    read.export,
    read.history,
    xds.xds,
    make.report,
    read.save,
    make.synth,
    look.doctor,
):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``arguments`` are those of the process by default. SIGTERM and SIGHUP
    end it as Ctrl-C does, so that temporary files are removed and child processes end."""
    ended: list[signal.Signals] = []
    caught = _caught_signals(ended)
    try:
        result: Any = cli.main(args=arguments, prog_name="cdcwb", standalone_mode=False)
    except click.ClickException as wrong:
        _complain(wrong)
        return UNUSABLE
    except (KeyboardInterrupt, click.Abort):
        print(f"cdcwb: ended by {ended[0].name}" if ended else "cdcwb: interrupted", file=sys.stderr)
        return 128 + (ended[0] if ended else signal.SIGINT)
    except _PipeClosedError:  # nothing must be flushed into it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else INTERNAL
    except Exception as raised:
        failure = of_source(raised)
        text = sentence(failure)
        wrong_bytes = [one for one in arguments or sys.argv[1:] if not is_text(one)]
        if text is None and wrong_bytes:
            text = safe(f"expected text in UTF-8, found the argument {wrong_bytes[0]}")
        if text is None:
            traceback.print_exc()
            print("cdcwb: this is an error in cdcwb, not in the input", file=sys.stderr)
            return INTERNAL
        print(f"cdcwb: {text}", file=sys.stderr)
        return DOWN if isinstance(failure, SourceDownError) else UNUSABLE
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
    if ended:  # the command has handled it
        return 128 + ended[0]
    return result if isinstance(result, int) else FINE


def _caught_signals(ended: list[signal.Signals]) -> list[signal.Signals]:
    """Makes the first signal interrupt the command as Ctrl-C does, which Spark's jobs and notebooks understand, unless
    the signal is ignored (``nohup``), and adds it to ``ended``. Returns the signals."""
    if threading.current_thread() is not threading.main_thread():
        return []
    caught = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        for other in caught:
            signal.signal(other, signal.SIG_IGN)  # a second one must not end the removal of files
        ended.append(signal.Signals(number))
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            interrupt(number, frame)
        raise KeyboardInterrupt

    for number in caught:
        signal.signal(number, end)
    return caught


def _complain(wrong: click.ClickException) -> None:
    if type(wrong).__name__ == "NoArgsIsHelpError":  # since click 8.2; its message is the help
        print(wrong.format_message(), file=sys.stderr)
        return
    print(f"cdcwb: {safe(' '.join(wrong.format_message().split()))}", file=sys.stderr)
    if isinstance(wrong, click.UsageError) and wrong.ctx is not None:
        print(f"Try '{wrong.ctx.command_path} --help'.", file=sys.stderr)
