"""The installed programs: exit codes, with packages missing, and when no process reads output."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer

from zonequake_ctl.program import run_program
from zonequake_kube.errors import HarnessError, UsageError

WITHOUT = """
import sys
sys.modules["{package}"] = None  # an import of it says that there is none
from zonequake_ctl import entry_points
entry_points.{program}()
"""


@pytest.mark.parametrize(
    ("program", "words"),
    [("zonequake", "zonequake[chaos]"), ("kubectl_zq", "zonequake[chaos,operator]")],
)
@pytest.mark.parametrize("package", ["typer", "msgspec"])
def test_a_program_without_its_packages_says_what_to_install(
    package: str, program: str, words: str
) -> None:
    script = WITHOUT.format(package=package, program=program)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 254
    assert f"pip install '{words}'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("chaos.commands.cli", "from rich.console import Console; Console().print('told')"),
        ("chaos.commands.cli", "sys.stdout.buffer.write(b'told')"),
        ("ctl.zq.cli", "typer.echo('told')"),
    ],
)
def test_a_program_whose_reader_is_gone_ends_as_sigpipe_ends_others(
    module: str, words: str
) -> None:
    script = f"""
import sys, typer
import zonequake_{module} as cli
@cli.app.command("tell")
def tell() -> None:
    try:
        {words}
    except Exception:
        sys.exit("taken for an error")
sys.argv = ["zonequake", "tell"]
cli.main()
"""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (None, 0, ""),
        (typer.Exit(3), 3, ""),
        (typer.BadParameter("a word"), 254, "a word"),
        (UsageError("an option"), 254, "an option"),
        (HarnessError("no answer"), 7, "no answer"),
        (RuntimeError("an error of ours"), 7, "Traceback"),
        (KeyboardInterrupt(), 7, "interrupted; what was started is stopped"),
    ],
)
def test_each_end_of_a_command_has_its_exit_code_and_its_words(
    error: BaseException | None,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = typer.Typer()

    @app.command()
    def tell() -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(sys, "argv", ["tell"])
    with pytest.raises(SystemExit) as ended:
        run_program(app, failed=7)
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert (words in said) if words else not said
