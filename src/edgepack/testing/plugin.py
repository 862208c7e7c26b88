"""The pytest plugin: ``--edgepack-target NAME`` adds the kit's checks of a target to what is collected. Light while unused."""

import pytest

from edgepack.testing.check import XFAIL


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("edgepack", "checks of edgepack plugins (docs/kit.md)")
    group.addoption(
        "--edgepack-target",
        action="append",
        default=[],
        metavar="NAME",
        help="check this target, and the plugin that makes it; more than once for several",
    )
    group.addoption(
        "--edgepack-plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="check this plugin and all that it brings: targets, passes, packages, …; more than once for several",
    )
    group.addoption(
        "--edgepack-model",
        action="append",
        default=[],
        metavar="MODEL",
        help="a folder with a model for targets and architectures, or an address for a source; more than once for several",
    )
    group.addoption(
        "--edgepack-fetch", action="store_true", help="let `edgepack fetch` fetch first what targets need"
    )
    parser.addini("edgepack_model", "models, a line each, as --edgepack-model", type="linelist")
    parser.addini(
        XFAIL,
        "checks of the kit that are known to fail, a line each: `CHECK: reason` or `NAME/CHECK: reason`",
        type="linelist",
    )


@pytest.hookimpl(tryfirst=True)  # before -k looks at the items
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    targets, plugins = config.getoption("edgepack_target"), config.getoption("edgepack_plugin")
    if not targets and not plugins:
        return
    from edgepack.testing.items import collect

    made = collect(session, targets=targets, plugins=plugins)
    items += made
    # So that pytest counts them among what it says it collected.
    session.ihook.pytest_collectreport(
        report=pytest.CollectReport("edgepack", "passed", longrepr=None, result=[*made])
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the checks that were not seen: a check that was not made is not passed."""
    config = terminalreporter.config
    if not config.getoption("edgepack_target") and not config.getoption("edgepack_plugin"):
        return
    from edgepack.testing.items import summary

    terminalreporter.section("edgepack's kit")
    for line in summary(terminalreporter):
        terminalreporter.line(line)
