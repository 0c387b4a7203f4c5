"""What all rooms share: the table of reasons. A room that raises, sorts, counts or words a reason asks its row."""
