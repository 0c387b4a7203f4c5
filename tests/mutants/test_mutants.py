"""The mutants are still mutants of this program, and the hunt tells the truth about them; `make mutants` hunts all."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mutants import table
from mutants.__main__ import main
from mutants.hunt import NEAR, SEEDS, TESTS_OF, Plan, Result, ask, control, copied, hunt
from mutants.killing import stands_in
from mutants.mutant import SOURCES, TESTS, Mutant, all_mutants, chosen

MUTANTS = all_mutants()
QUIET = Plan(stages=(NEAR,), seeds=0, jobs=1)
DURATION = "unit/api/test_duration.py"


def mutant(**fields) -> Mutant:
    """One that makes every duration the same."""
    usual = {
        "name": "same",
        "breaks": "Every duration is a second.",
        "like": "nothing",
        "file": "api/duration.py",
        "old": "def parse_ns(",
        "new": "def parse_ns(text: object) -> int:\n    return 10**9\n\n\ndef _parse_ns(",
        "near": [DURATION],
    }
    return Mutant(**{**usual, **fields})


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_it_is_one_mistake_in_the_program_as_it_is(one):
    """Its old text stands once in its module, and what comes of it is Python that says something else."""
    text = (SOURCES / "muster" / one.file).read_text()
    mutated = ast.parse(one.applied(text))
    assert ast.dump(mutated) != ast.dump(ast.parse(text))
    # A mistake, not another program.
    assert one.old.count("\n") <= 4
    assert one.new.count("\n") <= 4


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_it_says_what_it_breaks_and_what_kills_it(one):
    """In a sentence, after a real bug or a rule, with tests that are there."""
    assert one.breaks[0].isupper()
    assert one.breaks.endswith(".")
    assert len(one.breaks) <= 130
    assert re.search(r"\d|nouid|forget", one.like), "name the bug or the rule that it is like"
    for near in one.near:
        path, _, name = near.partition("::")
        assert (TESTS / path).exists(), near
        assert not name or f"def {name.partition('[')[0]}(" in (TESTS / path).read_text(), near


def test_there_are_many_and_in_every_room():
    """At least 40, in every room that decides something, and no two of one name."""
    assert len(MUTANTS) >= 40
    assert not [name for name, times in Counter(one.name for one in MUTANTS).items() if times > 1]
    rooms = Counter(one.room for one in MUTANTS)
    assert rooms.keys() == TESTS_OF.keys()
    assert min(rooms.values()) >= 5


def test_the_page_tells_about_all_of_them_and_nobody_survived():
    """`make mutants ARGS=--write` was run after the last change of the mutants."""
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \| \d+ \|$", table.PAGE.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == [one.name for one in MUTANTS]
    assert [name for name, told in rows if told.endswith("**nobody**")] == []


def test_a_mutant_is_killed_by_the_test_that_notices_it_and_another_one_survives(capsys):
    """Who changes nothing that anybody sees survives, and is told so."""
    harmless = mutant(
        name="harmless", old="def parse_ns(", new="def never_called() -> int:\n    return 1\n\n\ndef parse_ns("
    )
    heard: list[Result] = []
    killed, survived = hunt([mutant(), harmless], QUIET, heard.append)
    assert (killed.killed, survived.killed) == (True, False)
    assert killed.killer.startswith(f"tests/{DURATION}::test_")
    assert {one.mutant.name for one in heard} == {"same", "harmless"}
    said = table.summary([killed, survived], 1.0)
    assert "1 of 2 mutants killed" in said
    assert "harmless (api/duration.py): nobody noticed: Every duration is a second." in said
    assert "next: write the test that is missing, then make mutants ARGS='harmless'" in said


def test_a_program_that_is_not_the_mutated_one_says_nothing(tmp_path):
    """muster is installed from the repository: what is asked must be the copy, or nothing is known."""
    assert not stands_in(tmp_path, "muster.api.duration")
    heard = ask(tmp_path, "muster.api.duration", [f"tests/{DURATION}"], 60.0)
    assert not heard.killer
    assert "is not that of the mutated copy" in heard.void


def test_a_mutant_that_does_not_even_start_is_not_killed():
    """A module that can't be imported is a mistake in the mutant: every test would notice."""
    (result,) = hunt([mutant(new="1 / 0\n\n\ndef parse_ns(")], QUIET, lambda _: None)
    assert not result.killed
    assert "can't be imported: ZeroDivisionError" in result.void


def test_a_mutant_of_a_program_that_was_is_told_so():
    """Whoever changed the line says the bug anew; the others are hunted all the same."""
    gone, killed = hunt([mutant(old="def parse_years("), mutant(name="second")], QUIET, lambda _: None)
    assert "stands 0 times in api/duration.py" in gone.void
    assert killed.killed


def test_a_test_that_fails_without_the_mutant_kills_nothing():
    """Each killer is asked about the program as it is, too: here that is one in which durations are broken anyway."""
    killer, well = (
        f"tests/unit/api/{name}" for name in ("test_duration.py::test_refuses_what_is_too_long", "test_kinds.py")
    )
    with copied() as sources:
        path = sources / "muster" / "api" / "duration.py"
        path.write_text(mutant().applied(path.read_text()))
        found = control([Result(mutant(), one, NEAR, "", 1.0) for one in (killer, well)], sources)
    assert [one.killed for one in found] == [False, True]
    assert "fails on the program as it is" in found[0].void


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells a process that its parent ended")
def test_who_is_asked_ends_with_whoever_asks():
    """However the hunt ends: nobody goes on who could still be heard."""
    asked = (
        "from mutants.killing import end_with_parent as end; import time; end(); print(1, flush=True); time.sleep(30)"
    )
    asks = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {asked!r}])"
    with subprocess.Popen([sys.executable, "-c", asks], cwd=TESTS, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"1\n"
        process.kill()
        assert process.communicate(timeout=10)[0] == b""


def test_the_command_says_what_it_does_not_know(capsys):
    """A name that no mutant has is a mistake of who asks: exit 2, and how to find the names."""
    with pytest.raises(SystemExit) as ended:
        main(["no-such-mutant"])
    assert ended.value.code == 2
    assert "--list shows all of them" in capsys.readouterr().err
    assert main(["--list", "forgets-a-lost-bind"]) == 0
    assert "controllers/sending.py" in capsys.readouterr().out


def test_names_and_files_choose():
    """By a part, or with stars."""
    assert {one.room for one in chosen(MUTANTS, ["kube/"])} == {"kube"}
    assert [one.name for one in chosen(MUTANTS, ["*-lost-bind"])] == ["forgets-a-lost-bind"]
    assert chosen(MUTANTS, []) == MUTANTS


def test_a_table_takes_the_place_of_the_one_before(tmp_path):
    """Written twice it stands there once, between its two marks, and the rest of the page stays."""
    page = Path(tmp_path / "page.md")
    page.write_text(f"# before\n\n{table.SUITE}\nold\n{table.END}\n\nbetween\n\n{table.ALONE}\n{table.END}\n\nafter\n")
    for _ in range(2):
        killed = Result(mutant(), "tests/unit/api/test_duration.py::test_x[a|b]", NEAR, "", 1.5)
        table.write(table.measured([killed], 9.0), page=page)
        seen = Result(mutant(), "seed 7", SEEDS, "S1: too | much", 1.5)
        found = table.measured_alone([seen, Result(mutant(name="quiet"), "", "", "", 9.0)], 9.0, 20)
        table.write(found, table.ALONE, page)
    text = page.read_text()
    assert text.startswith("# before\n")
    assert text.endswith("\n\nafter\n")
    assert "\nold\n" not in text
    row = "| `same` | Every duration is a second. | nothing | api/test_duration.py::test_x[a\\|b] | 2 |"
    assert text.count(row) == 1
    assert text.count("| `same` | 7 | S1: too \\| much |") == 1
    assert text.count("- api: `quiet`") == 1
    assert text.index(row) < text.index("between") < text.index("`quiet`")
