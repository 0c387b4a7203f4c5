"""Did you mean …? The known word that a mistyped one is closest to, at bounded cost."""

from collections.abc import Iterable
from difflib import SequenceMatcher

_CLOSE = 0.72
_MAX_LENGTH = 64
_MAX_KNOWN = 400


class Nearest:
    """Finds the nearest of `known`; after `budget` searches it answers nothing, so that hostile input stays cheap."""

    def __init__(self, known: Iterable[str], budget: int = 32) -> None:
        self._known = list(known)
        self._folded = {word.casefold(): word for word in reversed(self._known)}
        self._budget = budget

    def to(self, word: str) -> str:
        """The nearest known word, or nothing."""
        if len(word) > _MAX_LENGTH or not word:
            return ""
        folded = word.casefold()
        if folded in self._folded:
            return self._folded[folded]
        if self._budget <= 0:
            return ""
        self._budget -= 1
        best, closest = "", _CLOSE
        matcher = SequenceMatcher(b=folded, autojunk=False)
        for known in self._known[:_MAX_KNOWN]:
            matcher.set_seq1(known[:_MAX_LENGTH].casefold())
            if matcher.real_quick_ratio() > closest and matcher.quick_ratio() > closest and matcher.ratio() > closest:
                best, closest = known, matcher.ratio()
        return best

    def hint(self, word: str) -> str:
        """`did you mean X?`, or nothing."""
        found = self.to(word)
        return f"did you mean {found}?" if found else ""
