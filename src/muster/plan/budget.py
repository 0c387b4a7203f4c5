"""What a search may cost, counted in steps and not in seconds: the same question always gets the same answer."""


class Budget:
    """Steps that may still be spent. Spending from a part of a budget spends from the whole."""

    def __init__(self, steps: int, whole: "Budget | None" = None) -> None:
        self._left, self._whole = steps, whole
        self.spent = 0

    def spend(self, steps: int = 1) -> bool:
        """False when there is nothing left."""
        self._left -= steps
        self.spent += steps
        if self._whole is not None and not self._whole.spend(steps):
            return False
        return self._left >= 0

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return self._left < 0 or (self._whole is not None and self._whole.empty)
