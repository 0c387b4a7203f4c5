"""What a search may cost, counted in steps and not in seconds: the same question always gets the same answer."""


class Budget:
    """Steps that may still be spent. What is spent of a part is spent of the whole."""

    def __init__(self, steps: int, whole: "Budget | None" = None) -> None:
        self.steps, self._whole = steps, whole
        self.spent = 0

    def spend(self, steps: int = 1) -> bool:
        """False when there is nothing left."""
        self.spent += steps
        return (self._whole is None or self._whole.spend(steps)) and self.spent <= self.steps

    def share(self, ways: int) -> "Budget":
        """One of so many equal parts of what is left."""
        return Budget(max(1, self.left // ways), self)

    @property
    def left(self) -> int:
        """What may still be spent."""
        own = self.steps - self.spent
        return own if self._whole is None else min(own, self._whole.left)

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0
