"""Help that lists commands in groups, each with its whole first sentence, and ends with an example."""

from collections.abc import Mapping, Sequence

import click

OTHERS = "Commands"
"""What is in no group of its own."""


class Listed(click.Group):
    """A group of commands whose summaries are wrapped, not cut; ``topics`` names its commands by what they are for."""

    topics: Mapping[str, Sequence[str]] = {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        named = {name for names in self.topics.values() for name in names}
        others = [name for name in self.list_commands(ctx) if name not in named]
        widest = max(map(len, self.commands), default=0)
        for topic, names in (*self.topics.items(), (OTHERS, others)):
            rows = [(name.ljust(widest), _summary(self.commands[name])) for name in names]
            if rows:
                with formatter.section(topic):
                    formatter.write_dl(rows)


def _summary(command: click.Command) -> str:
    """The first sentence of its help, whole."""
    return command.get_short_help_str(limit=1000).removesuffix(".")


def example(*lines: str) -> str:
    """For ``epilog`` of a command: how it is called."""
    return "\b\n" + "\n".join(
        ["Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)]
    )
