"""The command `zipjax`."""

from zipjax.cli.main import main as main
