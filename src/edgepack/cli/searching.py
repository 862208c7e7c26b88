"""The command that tries every way of making a model small."""

from pathlib import Path

import click

from edgepack.cli.help import example
from edgepack.cli.options import (
    common_options,
    file_option,
    model_argument,
    names_of,
    offline_option,
    reading_options,
    set_option,
    target_option,
)
from edgepack.cli.output import print_json, print_rich, say
from edgepack.files.folder import PAGE
from edgepack.records.target import Reading


@click.command(epilog=example("edgepack search ./my-model --target linux-x86-min --html frontier.html"))
@target_option
@model_argument
@reading_options
@click.option(
    "-r",
    "--recipe",
    "recipes",
    multiple=True,
    metavar="NAME",
    shell_complete=names_of("recipe"),
    help="Try only this recipe (repeatable).",
)
@click.option(
    "--mixed/--no-mixed", default=True, show_default=True, help="Also try int4 with some layers in int8."
)
@file_option("--html", "Also write a web page with a plot.", replaces=PAGE)
@set_option
@offline_option
@common_options
def search(
    target_name: str,
    model: str | None,
    reading: Reading,
    recipes: tuple[str, ...],
    mixed: bool,
    html: Path | None,
    overrides: tuple[str, ...],
    offline: bool,
    as_json: bool,
) -> None:
    """Compare recipes by size, quality and speed, and recommend one.

    Measurements are cached: an interrupted search resumes where it stopped.
    """
    from edgepack.bundles.place import require_writable
    from edgepack.console import Story
    from edgepack.files.store import written_beside
    from edgepack.models.find.source import ingest
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.recipes.registry import recipe_named
    from edgepack.recipes.search import search as run_search
    from edgepack.reports.frontier import as_dict, frontier_table, recommendation_lines
    from edgepack.reports.page.frontier import frontier_page
    from edgepack.targets import with_reading

    target = with_reading(load_plugins().target(target_name, overrides), reading)
    story = Story(quiet=as_json)
    with host_context(story=story, offline=offline) as context:
        for name in recipes:
            recipe_named(name, context)
        if html is not None:
            require_writable(html.parent)
        with story.step("model"):
            source = ingest(model, reading=target.model.reading, context=context)
        with story.step("search"):
            points = run_search(
                source,
                options=target.model,
                device=target.platform,
                names=recipes,
                mixed=mixed,
                context=context,
            )
            context.note(f"{len(points)} recipes")
    title = f"{source.name} for {target.name}"
    if html is not None:
        with written_beside(html) as temporary:
            page = frontier_page(points, title, gate=target.model.min_cosine)
            temporary.write_text(page, encoding="utf-8")
    if as_json:
        print_json(as_dict(points))
    else:
        print_rich(frontier_table(points))
        for line in recommendation_lines(points):
            say(line)
