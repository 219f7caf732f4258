"""What all tests need of their process."""

import signal

from hypothesis import settings

# A busy machine may take any time for one case.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")

# A shell ignores Ctrl-C for what it starts in the background, and so would the processes of tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
