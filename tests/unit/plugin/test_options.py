from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer.main

from zonequake_kube.options import expanded


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    town: Annotated[str, typer.Option("--town", "-t", help="Name of a town.")]
    street: Annotated[str | None, typer.Option("--street", help="Name of a street.")] = None


def test_each_field_of_a_class_of_options_is_an_option_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = typer.Typer(add_completion=False)

    @app.command()
    @expanded
    def ring(bell: str, *, where: Where, loud: bool = False) -> None:
        """Ring a bell."""
        print(bell, where, loud)

    command = typer.main.get_command(app)
    assert command.help == "Ring a bell."
    assert [each.name for each in command.params] == ["bell", "town", "street", "loud"]
    command.main(["b", "-t", "x", "--loud"], standalone_mode=False)
    assert capsys.readouterr().out == f"b {Where(town='x')} True\n"
    with pytest.raises(Exception, match="town"):
        command.main(["b"], standalone_mode=False)
