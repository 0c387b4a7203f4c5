"""What a search may cost, counted in steps and not in seconds: the same question always gets the same answer."""


class Budget:
    """Steps that may still be spent."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.spent = 0

    def spend(self, steps: int = 1) -> bool:
        """False when there is nothing left."""
        self.spent += steps
        return self.spent <= self._steps

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self._steps
