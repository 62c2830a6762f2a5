"""What all tests share: the stand-in server and how hypothesis runs."""

from hypothesis import settings

# One slow write to a disk exceeds the usual deadline of an example.
settings.register_profile("sglrun", deadline=None)
settings.load_profile("sglrun")
