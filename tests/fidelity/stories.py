"""All stories."""

from fidelity import changes, custom, objects, pods, refused, strict, volumes
from fidelity.play import Story

STORIES: tuple[Story, ...] = (
    *objects.STORIES,
    *changes.STORIES,
    *pods.STORIES,
    *custom.STORIES,
    *strict.STORIES,
    *refused.STORIES,
    *volumes.STORIES,
)
BY_NAME = {story.name: story for story in STORIES}
assert len(BY_NAME) == len(STORIES), "two stories have one name"
