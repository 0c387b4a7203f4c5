"""What there is to say about files that were read, for a page: the same that goes to stderr."""

from collections.abc import Iterator

from muster.api.validation import ERROR
from muster.cli.cluster import Loaded
from muster.cli.judging import about_skipped, plural
from muster.serve.views.frame import Note, Notes

# So many objects with errors are told one by one.
MOST_WRONG = 20


def notes_of(loaded: Loaded, flags: str) -> Notes:
    """All of it. `flags` name the files, for the command that says more."""
    return Notes(list(_notes(loaded)), f"muster validate {flags}")


def more_wrong(loaded: Loaded) -> list[str]:
    """That there are more with errors than are told, when there are."""
    more = len(loaded.wrong) - MOST_WRONG
    return [f"{plural(more, 'more object')} with errors: muster validate says which"] if more > 0 else []


def _notes(loaded: Loaded) -> Iterator[Note]:
    for one in loaded.wrong[:MOST_WRONG]:
        where = f"{one.source.file}, document {one.source.document}" if one.source.document else one.source.file
        says = [
            f"{violation.path} {violation.message}".strip() + (f" ({violation.hint})" if violation.hint else "")
            for violation in one.judgement.violations
            if violation.severity == ERROR
        ]
        yield Note(f"{one.title} has errors", where, says)
    for note in (*more_wrong(loaded), *loaded.notes, *about_skipped(loaded.checked, loaded.owners)):
        yield Note(note)
